"""mini-ImageNet as it is passed around: cached pickles, alone or in a tar; or JPEG files with a csv."""

import csv
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.data.readers.archive import extract
from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.pickles import StoredArray, read_pickle
from autocl.data.readers.pictures import decode

_KIND = "mini-ImageNet's cached pickle"
_BLOCK = 300


def read_pickled(path: Path, split: str) -> Raw:
    """`mini-imagenet-cache-{split}.pkl`, or the tar.gz that holds the three of them.

    The pickle is a dictionary of `image_data` uint8 [n, H, W, 3] and `class_dict`, from WordNet id to row
    numbers.
    """
    folder = None if path.suffix == ".pkl" else tempfile.TemporaryDirectory()
    with reading(path, _KIND):
        name = f"mini-imagenet-cache-{split}.pkl"
        file = path if folder is None else extract(path, (name,), Path(folder.name))[name]
        content = read_pickle(file)
        images, rows_of = content["image_data"], content["class_dict"]
        classes = tuple(sorted(rows_of))
        label = np.full(images.shape[0], -1, np.int64)
        for number, wnid in enumerate(classes):
            label[np.asarray(rows_of[wnid], np.int64)] = number
        if len(images.shape) != 4 or images.shape[3] != 3 or (label < 0).any():
            raise damaged(path, _KIND, f"{len(classes)} classes do not cover images {list(images.shape)}")

    def blocks() -> Iterator[Block]:
        try:
            with reading(path, _KIND):
                for at in range(0, len(label), _BLOCK):
                    yield _rows(images, at), label[at : at + _BLOCK]
        finally:
            if folder is not None:
                folder.cleanup()

    return Raw(classes=classes, blocks=blocks())


def _rows(images: StoredArray | npt.NDArray[np.uint8], at: int) -> npt.NDArray[np.uint8]:
    if isinstance(images, StoredArray):
        return images.rows(at, at + _BLOCK)
    return images[at : at + _BLOCK].astype(np.uint8, casting="safe")


def read_listed(folder: Path, table: Path) -> Raw:
    """JPEG files named in a csv with columns `filename` and `label`, as Ravi and Larochelle published it."""
    kind = "the csv of a mini-ImageNet split"
    with reading(table, kind), table.open(newline="") as file:
        listed = [(row["filename"], row["label"]) for row in csv.DictReader(file)]
    if not listed or not all(name and wnid for name, wnid in listed):
        raise damaged(table, kind, "it lists no image, or one without a label")
    classes = tuple(sorted({wnid for _, wnid in listed}))
    number = {wnid: label for label, wnid in enumerate(classes)}

    def blocks() -> Iterator[Block]:
        for name, wnid in listed:
            with reading(folder / name, "an image of mini-ImageNet"):
                pixels = decode(folder / name, "RGB")
            yield pixels[None], np.array([number[wnid]], np.int64)

    return Raw(classes=classes, blocks=blocks())
