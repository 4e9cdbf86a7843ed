"""The handwritten digits that come with scikit-learn: 1,797 of 8×8 pixels, no download."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

from autocl.data.description import SetInfo
from autocl.data.readers.block import Raw, hold_out


def _make(split: str, size: int, options: Mapping[str, Any]) -> Raw:
    digits = load_digits()
    # Pixels count the ink in 4×4 cells: 0 to 16.
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    everything = Raw(
        classes=tuple("0123456789"), blocks=iter([(images, digits.target.astype(np.int64))])
    )
    return hold_out(everything, split)


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
