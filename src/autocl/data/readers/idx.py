"""The idx format of MNIST, Fashion-MNIST and notMNIST: a big-endian header, then bytes; often gzipped."""

import gzip
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from autocl.data.readers.block import Block, Raw, damaged, reading

_UINT8 = 0x08
_BLOCK = 256


@contextmanager
def _opened(path: Path, ndim: int) -> Iterator[tuple[IO[bytes], tuple[int, ...]]]:
    """The file behind its header, gzipped or not (told by its first bytes), and the shape of its values."""
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
            yield cast("IO[bytes]", file), shape
            # Reading to the end is also what makes gzip check its sum.
            if file.read(1):
                raise damaged(path, kind, f"more follows than the {list(shape)} values promised")


def _rows(file: IO[bytes], shape: tuple[int, ...], count: int) -> npt.NDArray[np.uint8]:
    """The next rows of values."""
    row = math.prod(shape[1:])
    body = file.read(count * row)
    if len(body) != count * row:
        raise EOFError(f"{list(shape)} values promised, {count * row - len(body)} or more are missing")
    return np.frombuffer(body, np.uint8).reshape(count, *shape[1:])


def read_idx_pair(images: Path, labels: Path, classes: tuple[str, ...]) -> Raw:
    """Images and labels of one split.

    Args:
        images: idx file [n, H, W].
        labels: idx file [n] with values below the number of classes.
        classes: names of labels 0, 1, …
    """

    def blocks() -> Iterator[Block]:
        with _opened(labels, 1) as (file, shape):
            y = _rows(file, shape, shape[0])
        if len(y) and y.max() >= len(classes):
            raise damaged(labels, f"labels of {len(classes)} classes", f"it holds the label {y.max()}")
        with _opened(images, 3) as (file, shape):
            if shape[0] != len(y):
                raise damaged(labels, "the labels of " + images.name, f"{len(y)} for {shape[0]} images")
            for at in range(0, len(y), _BLOCK):
                part = y[at : at + _BLOCK].astype(np.int64)
                yield _rows(file, shape, len(part)), part

    return Raw(classes=classes, blocks=blocks())
