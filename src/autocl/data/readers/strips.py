"""Zips of image strips: the packed copies of mini-ImageNet and CIFAR that fit a small disk.

A strip is one image file, 32 pixels wide, its pictures stacked top to bottom.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.pictures import cut_strip, decode


def read_class_strips(path: Path, split: str) -> Raw:
    """mini-ImageNet: `{split}/{wnid}_{part}.jpg`, and `meta.json` with the split's file names per class."""
    kind = "mini-ImageNet packed as strips"
    with reading(path, kind), zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
        per_strip = int(meta["per_strip"])
        counts = {str(wnid): len(files) for wnid, files in sorted(meta["files"][split].items())}
    if not counts or any(count % per_strip for count in counts.values()):
        raise damaged(path, kind, f"its classes do not fill strips of {per_strip} pictures")

    def blocks() -> Iterator[Block]:
        with reading(path, kind), zipfile.ZipFile(path) as archive:
            for label, (wnid, count) in enumerate(counts.items()):
                for part in range(count // per_strip):
                    strip = decode(archive.read(f"{split}/{wnid}_{part}.jpg"), "RGB")
                    yield cut_strip(strip, per_strip), np.full(per_strip, label, np.int64)

    return Raw(classes=tuple(counts), blocks=blocks())


def read_named_strips(path: Path, parts: tuple[str, ...], classes: tuple[str, ...]) -> Raw:
    """CIFAR-100: `{part}/{class}.jpg`, and `meta.json` with the file names of each strip.

    Args:
        path: the zip.
        parts: "train", "test" or both; a class has the images of all of them, in this order.
        classes: those to read; they become classes 0, 1, …
    """
    kind = "CIFAR-100 packed as strips"

    def blocks() -> Iterator[Block]:
        with reading(path, kind), zipfile.ZipFile(path) as archive:
            files = json.loads(archive.read("meta.json"))["files"]
            for part in parts:
                for label, name in enumerate(classes):
                    count = len(files[f"{part}/{name}"])
                    strip = decode(archive.read(f"{part}/{name}.jpg"), "RGB")
                    yield cut_strip(strip, count), np.full(count, label, np.int64)

    return Raw(classes=classes, blocks=blocks())


def read_ordered_strips(path: Path, split: str, classes: tuple[str, ...]) -> Raw:
    """CIFAR-10: `{split}/NNN.webp` in file order, and `{split}/labels.npy`."""
    kind = "CIFAR-10 packed as strips"

    def blocks() -> Iterator[Block]:
        with reading(path, kind), zipfile.ZipFile(path) as archive:
            labels = np.load(io.BytesIO(archive.read(f"{split}/labels.npy")), allow_pickle=False)
            strips = sorted(m for m in archive.namelist() if m.startswith(f"{split}/") and m.endswith("webp"))
            if labels.ndim != 1 or not strips or len(labels) % len(strips) or labels.max() >= len(classes):
                raise damaged(path, kind, f"{labels.shape} labels do not match {len(strips)} strips")
            per_strip = len(labels) // len(strips)
            for number, member in enumerate(strips):
                part = labels[number * per_strip : (number + 1) * per_strip]
                yield cut_strip(decode(archive.read(member), "RGB"), per_strip), part.astype(np.int64)

    return Raw(classes=classes, blocks=blocks())
