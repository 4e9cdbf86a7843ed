"""SVHN: digits cropped from photographs of house numbers."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import scipy.io

from autocl.data.archives import Block, Raw, bounded, damaged, hold_out, read_npz, reading
from autocl.data.catalog import DataFile, FileLayout, Options, SetInfo

_URL = "http://ufldl.stanford.edu/housenumbers/"
_MD5 = {"train": "e26dedcc434d2e4c54c9b2d4a06d8373", "test": "eb5a983be6a315427106f1b164d9cef3"}
_PART_SUM = "166e2ba84f2533b505a7b73e97663f7e513a330a3243c82ca80dc470cd939230"
_DIGITS = tuple("0123456789")
_BLOCK = 1000
_TOTAL = 1 << 28
"""Bytes of the training crops, 225 MB, and some to spare."""


def _read(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """`X` [32, 32, 3, n], `y` [n, 1] where 10 means the digit 0."""
    kind, path = "SVHN's MATLAB file of 32×32 crops", files[f"{split}_32x32.mat"]

    def blocks() -> Iterator[Block]:
        with reading(path, kind):
            _check_inflated(path)
            content = scipy.io.loadmat(path, variable_names=("X", "y"))
            images, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
        if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)) or len(labels) == 0:
            raise damaged(path, kind, f"X is {images.dtype} {list(images.shape)} for {len(labels)} labels")
        if labels.min() < 1 or labels.max() > 10:
            raise damaged(path, kind, f"y holds labels from {labels.min()} to {labels.max()}, not 1 to 10")
        for at in range(0, len(labels), _BLOCK):
            yield images[..., at : at + _BLOCK].transpose(3, 0, 1, 2), labels[at : at + _BLOCK] % 10

    return Raw(classes=_DIGITS, blocks=blocks())


def _check_inflated(path: Path) -> None:
    """Refuse a file whose compressed variables are larger than SVHN, without holding them."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(128)
        while len(tag := file.read(8)) == 8:
            kind, length = struct.unpack("<II", tag)
            end = min(file.tell() + length, size)
            inflate, inflated = zlib.decompressobj(), 0
            while kind == 15 and file.tell() < end and not inflate.eof:  # 15: a compressed variable
                packed = file.read(min(1 << 16, end - file.tell()))
                while packed:
                    inflated += len(inflate.decompress(packed, 1 << 20))
                    bounded(inflated, _TOTAL, "a variable")
                    packed = inflate.unconsumed_tail
            file.seek(end)


def _read_part(files: Mapping[str, Path], split: str, options: Options) -> Raw:
    """The first crops of the training file as npz: `x` [n, 32, 32, 3], `y` [n] from 0 to 9."""
    kind, path = "a part of SVHN as npz", next(iter(files.values()))

    def blocks() -> Iterator[Block]:
        with reading(path, kind):
            images, labels = read_npz(path, "x", "y", total=_TOTAL)
            if images.dtype != np.uint8 or images.shape != (*labels.shape, 32, 32, 3) or labels.max() > 9:
                raise damaged(path, kind, f"x is {images.dtype} {list(images.shape)}, y {list(labels.shape)}")
        yield images, labels.astype(np.int64)

    return hold_out(Raw(classes=_DIGITS, blocks=blocks()), split)


_SET = SetInfo(
    name="svhn",
    title="SVHN",
    layouts=(
        FileLayout(
            title="official MATLAB files",
            files=tuple(
                DataFile(name=f"{part}_32x32.mat", md5=md5, urls=(f"{_URL}{part}_32x32.mat",), splits=(part,))
                for part, md5 in _MD5.items()
            ),
            read=_read,
        ),
        FileLayout(
            title="part as npz",
            files=(DataFile(name="svhn_train_first1083.npz", sha256=_PART_SUM),),
            read=_read_part,
            notes="only the first 1,083 of SVHN's 73,257 training crops, and none of its test crops",
        ),
    ),
    channels=3,
    mean=(0.4376821, 0.4437697, 0.47280442),
    std=(0.19803012, 0.20101562, 0.19703614),
    test_images=26_032,
    folders=("svhn", "svhn_subset"),
    licence="non-commercial use only",
    citation="Netzer et al.: Reading digits in natural images with unsupervised feature learning. "
    "NIPS workshop (2011).",
)
