"""The idx format of MNIST, Fashion-MNIST and notMNIST: a big-endian header, then bytes; often gzipped."""

import gzip
import math
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autocl.data.readers.block import Block, Raw, damaged, reading

_UINT8 = 0x08
_BLOCK = 1000


def read_idx(path: Path, *, ndim: int) -> npt.NDArray[np.uint8]:
    """An idx file of unsigned bytes with `ndim` dimensions, gzipped or not (told by its first bytes)."""
    kind = f"an idx file of unsigned bytes with {ndim} dimension{'s' if ndim > 1 else ''}"
    with reading(path, kind):
        with path.open("rb") as probe:
            zipped = probe.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as file:
            header = file.read(4 + 4 * ndim)
            if len(header) < 4 + 4 * ndim:
                raise damaged(path, kind, f"it ends after {len(header)} bytes")
            zero, dtype, dims = struct.unpack(">HBB", header[:4])
            if (zero, dtype, dims) != (0, _UINT8, ndim):
                raise damaged(path, kind, f"it starts with {header[:4].hex()}")
            shape = struct.unpack(f">{ndim}I", header[4:])
            # One byte more than promised, so that trailing bytes are noticed and gzip checks its sum.
            body = file.read(math.prod(shape) + 1)
        if len(body) != math.prod(shape):
            raise damaged(path, kind, f"{list(shape)} values promised, {len(body)} found")
        return np.frombuffer(body, np.uint8).reshape(shape)


def read_idx_pair(images: Path, labels: Path, classes: tuple[str, ...]) -> Raw:
    """Images and labels of one split.

    Args:
        images: idx file [n, H, W].
        labels: idx file [n] with values below the number of classes.
        classes: names of labels 0, 1, …
    """

    def blocks() -> Iterator[Block]:
        x, y = read_idx(images, ndim=3), read_idx(labels, ndim=1)
        if len(x) != len(y):
            raise damaged(labels, "the labels of " + images.name, f"{len(y)} labels for {len(x)} images")
        if len(y) and y.max() >= len(classes):
            raise damaged(labels, f"labels of {len(classes)} classes", f"it holds the label {y.max()}")
        for at in range(0, len(x), _BLOCK):
            yield x[at : at + _BLOCK], y[at : at + _BLOCK].astype(np.int64)

    return Raw(classes=classes, blocks=blocks())
