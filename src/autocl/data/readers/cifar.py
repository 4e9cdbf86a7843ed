"""CIFAR-10 and CIFAR-100: the official python and binary archives, and a part kept as npz."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.data.readers.archive import extract
from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.npz import npz_rows
from autocl.data.readers.pickles import StoredArray, read_pickle

_PIXELS = 3 * 32 * 32
_BLOCK = 1000
_PART = 64
_KIND = "a CIFAR archive"


def read_cifar(
    path: Path, members: tuple[str, ...], names: tuple[str, ...], *, keep: tuple[int, ...] | None = None
) -> Raw:
    """Images of a `.tar.gz` in the order of its members.

    Args:
        path: cifar-10-python.tar.gz, cifar-10-binary.tar.gz, or their CIFAR-100 counterparts.
        members: the batches to read, e.g. ("data_batch_1", …) or ("train.bin",).
        names: of all (fine) labels.
        keep: read only these labels, which become classes 0, 1, … in this order.
    """
    chosen = tuple(range(len(names))) if keep is None else keep
    class_of = np.full(len(names), -1, np.int64)
    class_of[list(chosen)] = np.arange(len(chosen))

    def blocks() -> Iterator[Block]:
        with reading(path, _KIND), tempfile.TemporaryDirectory() as folder:
            files = extract(path, members, Path(folder))
            for member in members:
                file = files[member]
                for pixels, labels in _binary(file, len(names)) if file.suffix == ".bin" else _python(file):
                    if len(labels) and not 0 <= labels.min() <= labels.max() < len(names):
                        raise damaged(path, _KIND, f"{member} holds labels beyond {len(names)} classes")
                    classes = class_of[labels]
                    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
                    yield images[classes >= 0], classes[classes >= 0]

    return Raw(classes=tuple(names[label] for label in chosen), blocks=blocks())


def _python(path: Path) -> Iterator[Block]:
    """A pickled batch: [m, 3072] and [m] at a time."""
    batch = read_pickle(path)
    data = batch["data"]
    labels = np.array(batch["fine_labels"] if "fine_labels" in batch else batch["labels"], np.int64)
    if data.shape != (len(labels), _PIXELS):
        raise ValueError(f"{len(labels)} labels for data of shape {list(data.shape)}")
    for at in range(0, len(labels), _BLOCK):
        rows = data.rows(at, at + _BLOCK) if isinstance(data, StoredArray) else data[at : at + _BLOCK]
        yield rows.astype(np.uint8, casting="safe"), labels[at : at + _BLOCK]


def _binary(path: Path, n_classes: int) -> Iterator[Block]:
    """Records of one label byte (CIFAR-100: a coarse one before it) and 3,072 pixels."""
    record = _PIXELS + (2 if n_classes > 10 else 1)
    size = path.stat().st_size
    if size == 0 or size % record:
        raise ValueError(f"{size} bytes are no whole number of {record}-byte records")
    for at in range(0, size, _BLOCK * record):
        rows: npt.NDArray[np.uint8] = np.fromfile(path, np.uint8, _BLOCK * record, offset=at)
        rows = rows.reshape(-1, record)
        yield rows[:, -_PIXELS:], rows[:, -_PIXELS - 1].astype(np.int64)


def read_cifar100_part(path: Path, split: str, names: tuple[str, ...]) -> Raw:
    """A selection of CIFAR-100 as npz: `x` [n, 32, 32, 3], `fine` [n], `official_train` [n]."""
    kind = "a part of CIFAR-100 as npz"

    def blocks() -> Iterator[Block]:
        with reading(path, kind):
            with np.load(path, allow_pickle=False) as archive:
                chosen, labels = archive["official_train"] == (split == "train"), archive["fine"]
            if labels.shape != chosen.shape or labels.max() >= len(names):
                raise damaged(path, kind, f"{list(labels.shape)} labels up to {labels.max()}")
            at = 0
            for images in npz_rows(path, "x", _PART):
                if images.shape[1:] != (32, 32, 3):
                    raise damaged(path, kind, f"images of shape {list(images.shape[1:])}")
                here = slice(at, at + len(images))
                yield images[chosen[here]], labels[here][chosen[here]].astype(np.int64)
                at += len(images)
            if at != len(labels):
                raise damaged(path, kind, f"{at} images for {len(labels)} labels")

    return Raw(classes=names, blocks=blocks())
