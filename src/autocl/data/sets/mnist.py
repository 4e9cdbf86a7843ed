"""MNIST, and Fashion-MNIST, which took over its format: idx files, a big-endian header before the bytes."""

import gzip
import math
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from autocl.data.archives import Block, Raw, bounded, damaged, reading
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

_FASHION = (
    "t-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_NAMES = {
    "train-images-idx3-ubyte.gz": "train",
    "train-labels-idx1-ubyte.gz": "train",
    "t10k-images-idx3-ubyte.gz": "test",
    "t10k-labels-idx1-ubyte.gz": "test",
}
_UINT8 = 0x08
_BLOCK = 256
_TOTAL = 1 << 26
"""Bytes of 60,000 images of 28×28, 47 MB, and some to spare."""


def read_idx_pair(images: Path, labels: Path, classes: tuple[str, ...]) -> Raw:
    """One split, from idx files of images [n, H, W] and of labels [n], numbers of the classes."""

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
            bounded(math.prod(shape), _TOTAL, path.name)
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


def _layout(sums: tuple[str, str, str, str], classes: tuple[str, ...], *bases: str) -> FileLayout:
    """The four files; `sums` in the order of `_NAMES`, `bases` = folders they can be downloaded from."""

    def read(files: Mapping[str, Path], split: str, options: Options) -> Raw:
        images, labels = (files[name] for name, part in _NAMES.items() if part == split)
        return read_idx_pair(images, labels, classes)

    files = tuple(
        DataFile(name=name, sha256=sha256, urls=tuple(base + name for base in bases), splits=(split,))
        for (name, split), sha256 in zip(_NAMES.items(), sums, strict=True)
    )
    return FileLayout(title="official idx files", files=files, read=read)


_MNIST = SetInfo(
    name="mnist",
    title="MNIST",
    layouts=(
        _layout(
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
            tuple("0123456789"),
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://yann.lecun.com/exdb/mnist/",
        ),
    ),
    channels=1,
    mean=(0.1307,),
    std=(0.3081,),
    test_images=10_000,
    licence="CC BY-SA 3.0",
    citation="LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition. "
    "Proceedings of the IEEE 86 (1998).",
)

_FASHION_MNIST = SetInfo(
    name="fashion_mnist",
    title="Fashion-MNIST",
    layouts=(
        _layout(
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
            _FASHION,
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        ),
    ),
    channels=1,
    mean=(0.286,),
    std=(0.353,),
    test_images=10_000,
    licence="MIT",
    citation="Xiao, Rasul, Vollgraf: Fashion-MNIST: a novel image dataset for benchmarking machine "
    "learning algorithms. arXiv:1708.07747 (2017).",
)
