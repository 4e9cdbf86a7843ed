"""Archives: names and contents are checked, nothing is inflated too far, damage is a clear error."""

import gzip
import io
import lzma
import resource
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io
from miniature_archives import MINIATURES, Miniature, idx, picture, write_tar

from autocl.data import ImageSet, load
from autocl.data.archives import extract, members, read_npz
from autocl.errors import DataError

ZEROS = 1 << 31
"""Bytes that the bombs would unpack to."""
MEGABYTE = bytes(1 << 20)


def _deflated(head: bytes, wbits: int) -> bytes:
    """A header, then 2 GB of zeros, in 2 MB; the compressor only has to pack one megabyte of them."""
    pack = zlib.compressobj(9, wbits=wbits)
    start = pack.compress(head) + pack.flush(zlib.Z_FULL_FLUSH)
    zeros = pack.compress(MEGABYTE) + pack.flush(zlib.Z_FULL_FLUSH)
    return start + zeros * (ZEROS >> 20)


def _tar_head(name: str, size: int) -> bytes:
    entry = tarfile.TarInfo(name)
    entry.size = size
    return entry.tobuf()


def _zip_of(path: Path, name: str) -> None:
    """A zip whose directory promises 2 GB."""
    _zipped(path, {name: b"x"})
    data = bytearray(path.read_bytes())
    listed = data.find(b"PK\x01\x02")
    data[listed + 24 : listed + 28] = ZEROS.to_bytes(4, "little")
    path.write_bytes(data)


def _omniglot(folder: Path) -> None:
    for part in ("background", "evaluation"):
        _zip_of(folder / f"images_{part}.zip", f"images_{part}/Magi/character01/0709_01.png")


def _big_picture(folder: Path) -> None:
    """A PNG of 1.6 billion pixels, as its header says."""
    data = picture(np.zeros((8, 8), np.uint8), "png")[:8]
    head = b"IHDR" + (40_000).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    for part in (head, b"IDAT" + zlib.compress(MEGABYTE), b"IEND"):
        data += (len(part) - 4).to_bytes(4, "big") + part + zlib.crc32(part).to_bytes(4, "big")
    write_tar(folder / "notMNIST_small.tar.gz", {"notMNIST_small/A/x.png": data}, "w:gz")


def _mnist(folder: Path) -> None:
    labels = idx(np.zeros(1, np.uint8))[:4] + ZEROS.to_bytes(4, "big")
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(_deflated(labels, 31))
    (folder / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros((1, 28, 28), np.uint8))))


def _cifar(folder: Path) -> None:
    head = _tar_head("cifar-10-batches-bin/data_batch_1.bin", ZEROS)
    (folder / "cifar-10-binary.tar.gz").write_bytes(_deflated(head, 31))


def _tiny(folder: Path) -> None:
    head, zeros = lzma.compress(_tar_head("other", ZEROS)), lzma.compress(MEGABYTE)
    (folder / "tiny-imagenet-200-32x32.tar.xz").write_bytes(head + zeros * (ZEROS >> 20))


def _svhn(folder: Path) -> None:
    packed = _deflated(b"", 15)
    tag = (15).to_bytes(4, "little") + len(packed).to_bytes(4, "little")
    path = folder / "train_32x32.mat"
    scipy.io.savemat(path, {"y": np.ones((1, 1), np.uint8)})
    path.write_bytes(path.read_bytes()[:128] + tag + packed)


def _svhn_part(folder: Path) -> None:
    _zip_of(folder / "svhn_train_first1083.npz", "x.npy")


BOMBS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "gzip in MNIST": ("mnist", _mnist),
    "tar.gz in CIFAR-10": ("cifar10", _cifar),
    "tar.xz in Tiny-ImageNet": ("tiny_imagenet", _tiny),
    "zip in Omniglot": ("omniglot", _omniglot),
    "npz in SVHN": ("svhn", _svhn_part),
    "mat in SVHN": ("svhn", _svhn),
    "picture in notMNIST": ("notmnist", _big_picture),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_are_refused_before_they_are_inflated(
    bomb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    name, write = BOMBS[bomb]
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(DataError, match=r"this set can have|too many|decompression bomb") as caught:
        load(name, "train", root=folder)
    assert str(folder) in str(caught.value)
    # Kilobytes: a few hundred MB are what the largest set may have, the bombs would have 2 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 400_000


def _zipped(path: Path, content: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return path


def test_zip_and_tar_give_the_same_members(tmp_path: Path) -> None:
    content = {"a/b.txt": b"hello", "c.bin": bytes(range(256))}
    zipped = _zipped(tmp_path / "x.zip", {"a/": b"", **content})
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    for path in (zipped, tmp_path / "x.tar.gz"):
        assert dict(members(path, lambda name: True, total=1 << 20)) == content
        assert dict(members(path, lambda name: name == "c.bin", total=1 << 20)) == {"c.bin": content["c.bin"]}
    with pytest.raises(KeyError, match="no member d"):
        extract(tmp_path / "x.tar.gz", ("d",), tmp_path, total=1 << 20)


def test_no_flipped_bit_of_a_zip_gives_other_content(tmp_path: Path) -> None:
    content = {"a/1.png": b"0123456789", "b/2.png": bytes(20)}
    path = _zipped(tmp_path / "x.zip", content)
    whole = path.read_bytes()
    read = 0
    for bit in range(0, 8 * len(whole), 3):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        try:
            found = dict(members(path, lambda name: name.endswith(".png"), total=1 << 20))
        except Exception:  # `reading` makes one kind of error of all
            continue
        read += 1
        assert found == content, bit
    assert 0 < read < 2 * len(whole), "dates and comments may change, little else"


def test_arrays_of_an_npz(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", a=np.arange(3), b=np.zeros((2, 2)))
    b, a = read_npz(tmp_path / "x.npz", "b", "a", total=1 << 20)
    assert (a.tolist(), b.shape) == ([0, 1, 2], (2, 2))
    with pytest.raises(ValueError, match="more than the 10 that this set can have"):
        read_npz(tmp_path / "x.npz", "a", total=10)


SEED = 1


def _damages(data: bytes, rng: np.random.Generator) -> dict[str, bytes]:
    out = {"empty": b"", "text": b"<html>404 not found</html>\n" * 20, "zeros": bytes(len(data))}
    for i in range(3):
        out[f"cut {i}"] = data[: int(rng.integers(1, len(data)))]
    out["cut by one"] = data[:-1]
    for i in range(6):
        flipped = bytearray(data)
        for at in rng.integers(0, len(data), 1 if i < 3 else 8):
            flipped[at] ^= 1 << int(rng.integers(8))
        out[f"flip {i}"] = bytes(flipped)
    return out


def _attempt(mini: Miniature, split: str, root: Path) -> tuple[ImageSet | None, str]:
    try:
        return load(mini.name, split, root=root), ""
    except DataError as error:
        return None, str(error)


@pytest.mark.parametrize("mini", MINIATURES, ids=lambda mini: mini.id)
def test_damaged_files(mini: Miniature, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    sound = tmp_path / "data"
    sound.mkdir()
    mini.write(sound)
    rng = np.random.default_rng(SEED)
    split = next(iter(mini.splits))
    expected = load(mini.name, split, root=sound)
    files = sorted(file for file in sound.rglob("*") if file.is_file())
    pictures = [file for file in files if file.suffix == ".jpg"]
    used = [file for file in files if file not in pictures[1:]]
    refused = 0
    for file in used:
        original = file.read_bytes()
        for what, data in _damages(original, rng).items():
            file.write_bytes(data)
            shutil.rmtree(tmp_path / "cache")
            read, message = _attempt(mini, split, sound)
            if read is None:
                refused += 1
                assert str(sound) in message or "no image of a class" in message, f"{what}: {message}"
            else:
                assert read.images.shape[1:] == expected.images.shape[1:]
                if mini.sealed:
                    assert read.hash == expected.hash, f"{file.name}, {what}: another array"
        file.write_bytes(original)
    assert refused >= 4
