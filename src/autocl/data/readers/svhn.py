"""SVHN's cropped digits: the official MATLAB files, and a part kept as npz."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import scipy.io

from autocl.data.readers.block import Block, Raw, damaged, reading
from autocl.data.readers.npz import npz_rows

_DIGITS = tuple("0123456789")
_BLOCK = 1000
_PART = 16


def read_svhn(path: Path) -> Raw:
    """`train_32x32.mat` or `test_32x32.mat`: `X` [32, 32, 3, n], `y` [n, 1] where 10 means the digit 0."""
    kind = "SVHN's MATLAB file of 32×32 crops"

    def blocks() -> Iterator[Block]:
        with reading(path, kind):
            content = scipy.io.loadmat(path, variable_names=("X", "y"))
            images, labels = content["X"], content["y"].reshape(-1).astype(np.int64)
        if images.dtype != np.uint8 or images.shape != (32, 32, 3, len(labels)) or len(labels) == 0:
            raise damaged(path, kind, f"X is {images.dtype} {list(images.shape)} for {len(labels)} labels")
        if labels.min() < 1 or labels.max() > 10:
            raise damaged(path, kind, f"y holds labels from {labels.min()} to {labels.max()}, not 1 to 10")
        for at in range(0, len(labels), _BLOCK):
            yield images[..., at : at + _BLOCK].transpose(3, 0, 1, 2), labels[at : at + _BLOCK] % 10

    return Raw(classes=_DIGITS, blocks=blocks())


def read_svhn_part(path: Path) -> Raw:
    """The first crops of the training file as npz: `x` [n, 32, 32, 3], `y` [n] from 0 to 9."""
    kind = "a part of SVHN as npz"

    def blocks() -> Iterator[Block]:
        with reading(path, kind):
            with np.load(path, allow_pickle=False) as archive:
                labels = archive["y"].astype(np.int64)
            if labels.ndim != 1 or labels.max() > 9:
                raise damaged(path, kind, f"{list(labels.shape)} labels up to {labels.max()}")
            at = 0
            for images in npz_rows(path, "x", _PART):
                if images.shape[1:] != (32, 32, 3) or at + len(images) > len(labels):
                    raise damaged(path, kind, f"images {list(images.shape)} for {len(labels)} labels")
                yield images, labels[at : at + len(images)]
                at += len(images)
            if at != len(labels):
                raise damaged(path, kind, f"{at} images for {len(labels)} labels")

    return Raw(classes=_DIGITS, blocks=blocks())
