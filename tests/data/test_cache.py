"""The cache of decoded sets: verified, rebuilt when damaged, safe under several processes."""

import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from miniature_archives import MINIATURES

from autocl.data import load
from autocl.data.archives import Raw
from autocl.data.cache import decoded
from autocl.errors import DataError

KEY = {"name": "toy", "n": 1}


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))


class Builder:
    """A toy source that counts how often it is read."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> Raw:
        self.calls += 1
        images = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
        return Raw(classes=("a", "b"), blocks=iter([(images, np.array([1, 0, 1, 0, 0, 1]))]))


def _only_folder(tmp_path: Path) -> Path:
    folders = [path for path in (tmp_path / "cache" / "decoded").iterdir() if path.is_dir()]
    assert len(folders) == 1
    return folders[0]


def test_second_load_reads_the_cache() -> None:
    build = Builder()
    first = decoded(KEY, build, size=8, channels=1)
    second = decoded(KEY, build, size=8, channels=1)
    assert build.calls == 1
    assert first.hash == second.hash
    np.testing.assert_array_equal(first.images, second.images)
    assert second.order.tolist() == [1, 3, 4, 0, 2, 5]
    assert second.starts.tolist() == [0, 3, 6]
    assert not second.images.flags.writeable
    decoded({**KEY, "n": 2}, build, size=8, channels=1)
    assert build.calls == 2, "another key is another entry"


@pytest.mark.parametrize("file", ["images.npy", "meta.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone", "text"])
def test_damaged_entry_is_made_again(
    file: str, damage: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    build = Builder()
    sound = decoded(KEY, build, size=8, channels=1)
    pixels = sound.images.copy()
    path = _only_folder(tmp_path) / file
    data = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        # The flipped byte is a pixel, or a digit of the order.
        place = len(data) - 5 if file == "images.npy" else data.index(b'"order": [') + 10
        flipped = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        path.write_bytes({"flip": flipped, "cut": data[:-3], "empty": b"", "text": b"no"}[damage])
    read = decoded(KEY, build, size=8, channels=1)
    assert build.calls == 2
    assert read.hash == sound.hash
    np.testing.assert_array_equal(read.images, pixels)
    assert read.order.tolist() == [1, 3, 4, 0, 2, 5]


def test_forged_entry_is_not_trusted(tmp_path: Path) -> None:
    """An entry that is sound but was made for something else under the same folder name."""
    build = Builder()
    decoded(KEY, build, size=8, channels=1)
    path = _only_folder(tmp_path) / "meta.json"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps({**meta, "key": meta["key"].replace("1", "2")}))
    decoded(KEY, build, size=8, channels=1)
    assert build.calls == 2


def test_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> Raw:
        raise DataError("broken source")

    with pytest.raises(DataError, match="broken source"):
        decoded(KEY, fail, size=8, channels=1)
    left = [path for path in (tmp_path / "cache" / "decoded").iterdir() if path.suffix != ".lock"]
    assert left == []


def test_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "file"))
    made = decoded(KEY, Builder(), size=8, channels=1)
    assert made.images.shape == (6, 1, 8, 8)


def test_changed_source_is_decoded_anew(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    mini = next(m for m in MINIATURES if m.id == "cifar10 binary")
    mini.write(folder)
    before = load("cifar10", "test", root=folder)
    (folder / "cifar-10-binary.tar.gz").unlink()
    next(m for m in MINIATURES if m.id == "cifar10 strips").write(folder)
    assert load("cifar10", "test", root=folder).hash != before.hash


def _hash_of(folder: Path) -> str:
    return load("omniglot", root=folder).hash


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_several_processes_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    next(m for m in MINIATURES if m.name == "omniglot").write(folder)
    with ProcessPoolExecutor(4, multiprocessing.get_context("fork")) as pool:
        hashes = list(pool.map(_hash_of, [folder] * 8))
    assert hashes == [_hash_of(folder)] * 8
    assert _only_folder(tmp_path).name.startswith("omniglot-")
