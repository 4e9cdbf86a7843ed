"""Small files in the official formats, made from known arrays, to read back."""

import gzip
import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io
from PIL import Image

from autocl.data.sets.cifar import CIFAR100_CLASSES

RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Miniature:
    """One form of one set: how to write it, and what must come out."""

    id: str
    name: str
    write: Callable[[Path], None]
    splits: Mapping[str, tuple[int, int]]
    """Classes and images of each split."""
    pixels: Mapping[str, Any] = field(default_factory=dict)
    """Images of a split sorted by class, [n, C, S, S], where the format is lossless."""
    size: int = 32
    sealed: bool = True
    """The format has check sums, so that damaged pixels are noticed."""
    options: Mapping[str, Any] = field(default_factory=dict)


def picture(pixels: np.ndarray, kind: str, **how: Any) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **how)
    return out.getvalue()


def write_tar(path: Path, content: Mapping[str, bytes], mode: str) -> None:
    with tarfile.open(path, mode) as archive:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def write_zip(path: Path, content: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            archive.writestr(name, data)


def noise(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def by_class(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Sorted by class, channels first."""
    images = images[np.argsort(labels, kind="stable")]
    return images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2)


def idx(values: np.ndarray) -> bytes:
    return struct.pack(f">HBB{values.ndim}I", 0, 8, values.ndim, *values.shape) + values.tobytes()


def _idx_set(id: str, name: str, prefixes: Mapping[str, str]) -> Miniature:
    x, y = noise(30, 28, 28), np.arange(30, dtype=np.uint8) % 10

    def write(folder: Path) -> None:
        for prefix in prefixes.values():
            (folder / f"{prefix}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(x)))
            (folder / f"{prefix}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(y)))

    splits = dict.fromkeys(prefixes, (10, 30))
    return Miniature(id, name, write, splits, {split: by_class(x, y) for split in prefixes}, size=28)


def _notmnist_sample() -> Miniature:
    x, y = noise(60, 28, 28), np.repeat(np.arange(10, dtype=np.uint8), 6)

    def write(folder: Path) -> None:
        (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(x)))
        (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(y)))

    test = np.arange(60) % 5 == 4
    pixels = {"train": by_class(x[~test], y[~test]), "test": by_class(x[test], y[test])}
    splits = {"train": (10, 48), "test": (10, 12)}
    return Miniature("notmnist idx", "notmnist", write, splits, pixels, size=28)


def _notmnist() -> Miniature:
    x = noise(10, 6, 28, 28)

    def write(folder: Path) -> None:
        where = {(k, i): f"notMNIST_small/{'ABCDEFGHIJ'[k]}/{i}.png" for k in range(10) for i in range(6)}
        files = {name: picture(x[at], "png") for at, name in where.items()}
        files["notMNIST_small/A/RGVtb2NyYXRpY2FCb2xkT2xkc3R5bGUgQm9sZC50dGY=.png"] = b""
        write_tar(folder / "notMNIST_small.tar.gz", files, "w:gz")

    return Miniature("notmnist tar", "notmnist", write, {"train": (10, 48), "test": (10, 12)}, size=28)


def _omniglot() -> Miniature:
    characters = {
        "background": {"Alphabet_of_the_Magi/character01/0709": 3, "Hebrew/character02/0416": 3},
        "evaluation": {
            "Angelic/character01/0965": 3,
            "Gurmukhi/character41/1200": 3,
            "ULOG/character26/1623": 3,
        },
    }
    ink = {name: noise(3, 105, 105) > 200 for part in characters.values() for name in part}

    def write(folder: Path) -> None:
        for part, names in characters.items():
            files = {
                f"images_{part}/{name}_{i + 1:02d}.png": picture(~ink[name][i], "png")
                for name in names
                for i in range(3)
            }
            write_zip(folder / f"images_{part}.zip", files)

    held_out = ("Hebrew/character02/0416", "ULOG/character26/1623")
    train = [name for part in characters.values() for name in part if name not in held_out]
    pixels = {
        "train": np.concatenate([ink[name] for name in train])[:, None] * np.uint8(255),
        "val": ink["Hebrew/character02/0416"][:, None] * np.uint8(255),
        "test": ink["ULOG/character26/1623"][:, None] * np.uint8(255),
    }
    splits = {"train": (3, 9), "val": (1, 3), "test": (1, 3)}
    return Miniature("omniglot zips", "omniglot", write, splits, pixels, size=105)


WNIDS = {"train": ("n01532829", "n01558993"), "val": ("n01855672",), "test": ("n01930112",)}


def _mini_arrays() -> Miniature:
    x = {split: noise(4 * len(wnids), 84, 84, 3) for split, wnids in WNIDS.items()}

    def write(folder: Path) -> None:
        for split, wnids in WNIDS.items():
            rows = {wnid: list(range(4 * k, 4 * k + 4)) for k, wnid in enumerate(wnids)}
            np.save(folder / f"mini-imagenet-{split}.npy", x[split])
            (folder / f"mini-imagenet-{split}.json").write_text(json.dumps(rows))

    splits = {"train": (2, 8), "val": (1, 4), "test": (1, 4)}
    pixels = {split: images.transpose(0, 3, 1, 2) for split, images in x.items()}
    return Miniature("mini-ImageNet arrays", "mini_imagenet", write, splits, pixels, size=84, sealed=False)


def _mini_jpeg() -> Miniature:
    def write(folder: Path) -> None:
        (folder / "images").mkdir()
        for split, wnids in WNIDS.items():
            lines = ["filename,label"]
            for wnid in wnids:
                for i in range(4):
                    name = f"{wnid}{i:08d}.jpg"
                    (folder / "images" / name).write_bytes(picture(noise(60, 80, 3), "jpeg"))
                    lines.append(f"{name},{wnid}")
            (folder / f"{split}.csv").write_text("\n".join(lines) + "\n")

    splits = {"train": (2, 8), "val": (1, 4), "test": (1, 4)}
    return Miniature("mini-ImageNet JPEG", "mini_imagenet", write, splits, sealed=False)


def _mini_strips() -> Miniature:
    def write(folder: Path) -> None:
        names = {split: {wnid: list("012345") for wnid in wnids} for split, wnids in WNIDS.items()}
        meta = {"per_strip": 3, "files": names}
        files = {"meta.json": json.dumps(meta).encode()}
        for split, wnids in WNIDS.items():
            for wnid in wnids:
                for part in range(2):
                    files[f"{split}/{wnid}_{part}.jpg"] = picture(noise(96, 32, 3), "jpeg", quality=95)
        write_zip(folder / "mini_imagenet32_jpeg.zip", files)

    splits = {"train": (2, 12), "val": (1, 6), "test": (1, 6)}
    return Miniature("mini-ImageNet strips", "mini_imagenet", write, splits)


def _tiny(id: str, name: str) -> Miniature:
    wnids = ("n01443537", "n01855672", "n02124075")

    def write(folder: Path) -> None:
        top = "tiny-imagenet-200/" if name.endswith("zip") else ""
        files = {top + "wnids.txt": "\n".join(wnids).encode()}
        for wnid in wnids:
            for i in range(2):
                files[f"{top}train/{wnid}/images/{wnid}_{i}.JPEG"] = picture(noise(64, 64, 3), "jpeg")
        notes = []
        for i in range(3):
            files[f"{top}val/images/val_{i}.JPEG"] = picture(noise(64, 64), "jpeg")
            notes.append(f"val_{i}.JPEG\t{wnids[2 - i]}\t0\t0\t62\t62")
        files[top + "val/val_annotations.txt"] = "\n".join(notes).encode()
        if name.endswith("zip"):
            write_zip(folder / name, files)
        else:
            write_tar(folder / name, files, "w:xz")

    return Miniature(id, "tiny_imagenet", write, {"train": (3, 6), "val": (3, 3)})


def _cifar10() -> Miniature:
    x, y = noise(60, 32, 32, 3), np.arange(60) % 10
    names = [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]

    def write(folder: Path) -> None:
        flat = x.transpose(0, 3, 1, 2).reshape(60, -1)
        files = {}
        for k, name in enumerate(names):
            rows = slice(10 * k, 10 * k + 10)
            records = np.concatenate([y[rows, None].astype(np.uint8), flat[rows]], axis=1)
            files[f"cifar-10-batches-bin/{name}.bin"] = records.tobytes()
        write_tar(folder / "cifar-10-binary.tar.gz", files, "w:gz")

    pixels = {"train": by_class(x[:50], y[:50]), "test": by_class(x[50:], y[50:])}
    return Miniature("cifar10 binary", "cifar10", write, {"train": (10, 50), "test": (10, 10)}, pixels)


def _cifar10_strips() -> Miniature:
    x, y = noise(40, 32, 32, 3), (np.arange(40) % 10).astype(np.uint8)

    def write(folder: Path) -> None:
        files = {}
        for split, rows in (("train", range(20)), ("test", range(20, 40))):
            labels = io.BytesIO()
            np.save(labels, y[rows.start : rows.stop])
            files[f"{split}/labels.npy"] = labels.getvalue()
            for k, at in enumerate(rows[::10]):
                strip = x[at : at + 10].reshape(320, 32, 3)
                files[f"{split}/{k:03d}.webp"] = picture(strip, "webp", lossless=True)
        write_zip(folder / "cifar10_webp.zip", files)

    pixels = {"train": by_class(x[:20], y[:20]), "test": by_class(x[20:], y[20:])}
    return Miniature("cifar10 strips", "cifar10", write, {"train": (10, 20), "test": (10, 20)}, pixels)


def _cifar100(id: str, name: str) -> Miniature:
    x, y = noise(300, 32, 32, 3), np.arange(300) % 100

    def write(folder: Path) -> None:
        flat, files = x.transpose(0, 3, 1, 2).reshape(300, -1), {}
        for part, rows in (("train", slice(0, 200)), ("test", slice(200, 300))):
            zero = np.zeros((len(y[rows]), 1), np.uint8)
            records = np.concatenate([zero, y[rows, None].astype(np.uint8), flat[rows]], axis=1)
            files[f"cifar-100-binary/{part}.bin"] = records.tobytes()
        write_tar(folder / "cifar-100-binary.tar.gz", files, "w:gz")

    if name == "fc100":
        return Miniature(id, name, write, {"train": (60, 180), "val": (20, 60), "test": (20, 60)})
    pixels = {"train": by_class(x[:200], y[:200]), "test": by_class(x[200:], y[200:])}
    return Miniature(id, name, write, {"train": (100, 200), "test": (100, 100)}, pixels)


def _cifar100_strips(id: str, name: str) -> Miniature:
    counts = {"train": 2, "test": 1}

    def write(folder: Path) -> None:
        names = {f"{part}/{fine}": ["a.png"] * n for part, n in counts.items() for fine in CIFAR100_CLASSES}
        files = {"meta.json": json.dumps({"classes": CIFAR100_CLASSES, "files": names}).encode()}
        for strip, images in names.items():
            files[f"{strip}.jpg"] = picture(noise(32 * len(images), 32, 3), "jpeg", quality=96, subsampling=0)
        write_zip(folder / "cifar100_jpeg.zip", files)

    if name == "fc100":
        return Miniature(id, name, write, {"train": (60, 180), "val": (20, 60), "test": (20, 60)})
    return Miniature(id, name, write, {"train": (100, 200), "test": (100, 100)})


def _svhn_part() -> Miniature:
    x, y = noise(50, 32, 32, 3), np.sort(np.arange(50) % 10).astype(np.uint8)

    def write(folder: Path) -> None:
        np.savez_compressed(folder / "svhn_train_first1083.npz", x=x, y=y)

    return Miniature("svhn npz", "svhn", write, {"train": (10, 40), "test": (10, 10)})


def _svhn() -> Miniature:
    x, y = noise(20, 32, 32, 3), np.arange(20) % 10

    def write(folder: Path) -> None:
        label = np.where(y == 0, 10, y)[:, None].astype(np.uint8)
        for part in ("train", "test"):
            table = {"X": x.transpose(1, 2, 3, 0), "y": label}
            scipy.io.savemat(folder / f"{part}_32x32.mat", table, do_compression=True)

    pixels = {split: by_class(x, y) for split in ("train", "test")}
    return Miniature("svhn mat", "svhn", write, {"train": (10, 20), "test": (10, 20)}, pixels)


MINIATURES = [
    _idx_set("mnist", "mnist", {"train": "train", "test": "t10k"}),
    _idx_set("fashion", "fashion_mnist", {"train": "train", "test": "t10k"}),
    _notmnist_sample(),
    _notmnist(),
    _omniglot(),
    _mini_arrays(),
    _mini_jpeg(),
    _mini_strips(),
    _tiny("tiny zip", "tiny-imagenet-200.zip"),
    _tiny("tiny tar.xz", "tiny-imagenet-200-32x32.tar.xz"),
    _cifar10(),
    _cifar10_strips(),
    _cifar100("cifar100 binary", "cifar100"),
    _cifar100("fc100 binary", "fc100"),
    _cifar100_strips("cifar100 strips", "cifar100"),
    _cifar100_strips("fc100 strips", "fc100"),
    _svhn_part(),
    _svhn(),
]
