"""The handwritten digits that come with scikit-learn: 1,797 of 8×8 pixels, no download."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from autocl.data.description import SetInfo
from autocl.data.readers.block import Raw, hold_out

_BLOCK = 256


def _make(split: str, size: int, options: Mapping[str, Any]) -> Raw:
    ink, labels = load_digits(return_X_y=True)
    # Pixels count the ink in 4×4 cells: 0 to 16.
    grays = np.rint(np.arange(17) * (255 / 16)).astype(np.uint8)
    labels = labels.astype(np.int64)
    images = grays[ink.astype(np.uint8)].reshape(-1, 8, 8)
    blocks = ((images[at : at + _BLOCK], labels[at : at + _BLOCK]) for at in range(0, len(images), _BLOCK))
    return hold_out(Raw(classes=tuple("0123456789"), blocks=blocks), split)


DIGITS = SetInfo(
    name="digits",
    title="scikit-learn's digits",
    splits=("train", "test"),
    make=_make,
    channels=1,
    # Of the training part at 32×32.
    mean=(0.3061,),
    std=(0.3239,),
    licence="CC BY 4.0",
    citation="Alpaydin, Kaynak: Optical recognition of handwritten digits. UCI machine learning repository "
    "(1998).",
)
