"""Tools that prepare data: pickles of mini-ImageNet, which may run no program; folders of a repository."""

import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from miniature_archives import WNIDS, write_tar
from PIL import Image
from tools import class_folders
from tools.convert_mini_imagenet import convert

from autocl.data import load
from autocl.errors import DataError


def _tables(protocol: int) -> tuple[dict[str, bytes], dict[str, np.ndarray]]:
    tables, images = {}, {}
    for split, wnids in WNIDS.items():
        images[split] = np.random.default_rng(0).integers(0, 256, (4 * len(wnids), 84, 84, 3), dtype=np.uint8)
        rows = {wnid: list(range(4 * k, 4 * k + 4)) for k, wnid in enumerate(wnids)}
        table = {"image_data": images[split], "class_dict": rows}
        tables[f"mini-imagenet-cache-{split}.pkl"] = pickle.dumps(table, protocol)
    return tables, images


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("packed", [False, True])
def test_images_come_through(
    protocol: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    tables, images = _tables(protocol)
    source = tmp_path / "mini-imagenet.tar.gz" if packed else tmp_path
    if packed:
        write_tar(source, tables, "w:gz")
    else:
        for name, data in tables.items():
            (tmp_path / name).write_bytes(data)
    convert(source, tmp_path / "data" / "mini_imagenet")
    for split, wnids in WNIDS.items():
        read = load("mini_imagenet", split, root=tmp_path / "data", size=84)
        assert read.classes == wnids
        np.testing.assert_array_equal(read.images, images[split].transpose(0, 3, 1, 2))


class Harmful:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_nothing_else_is_run(protocol: int, tmp_path: Path) -> None:
    for split in WNIDS:
        table = {"image_data": Harmful(tmp_path / "made"), "class_dict": {}}
        (tmp_path / f"mini-imagenet-cache-{split}.pkl").write_bytes(pickle.dumps(table, protocol))
    with pytest.raises(DataError, match=r"mentions (posix|nt|os)\.mkdir"):
        convert(tmp_path, tmp_path / "out")
    assert not (tmp_path / "made").exists()


def test_damaged_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read as mini-ImageNet's pickles"):
        convert(tmp_path, tmp_path / "out")
    (tmp_path / "mini-imagenet.tar.gz").write_bytes(b"no tar")
    with pytest.raises(DataError, match=r"mini-imagenet\.tar\.gz"):
        convert(tmp_path / "mini-imagenet.tar.gz", tmp_path / "out")


def test_the_first_pictures_of_each_class_shrunk_and_from_the_named_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "repo"
    for part, n in (("test", 2), ("train", 3)):
        for label in ("a bird", "käfer"):
            (repository / part / label).mkdir(parents=True)
            for i in range(n):
                Image.new("RGB", (60 + i, 40), (i, 0, 0)).save(repository / part / label / f"{i}.png")
    (repository / "README.md").write_text("pictures")
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", "-C", str(repository), *command], check=True)
    args = ["class_folders", str(repository), str(tmp_path / "out"), "--per-class", "3", "--pixels", "20"]
    monkeypatch.setattr(sys, "argv", args)
    class_folders.main()
    made = sorted(p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.jpg"))
    names = ("test-0.jpg", "test-1.jpg", "train-0.jpg")
    assert made == [f"{label}/{name}" for label in ("a bird", "käfer") for name in names]
    with Image.open(tmp_path / "out" / "käfer" / "train-0.jpg") as picture:
        assert picture.size == (30, 20)
