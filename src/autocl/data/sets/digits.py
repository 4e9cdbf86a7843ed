"""The handwritten digits that come with scikit-learn: 1,797 of 8×8 pixels, no download."""

import gzip
from collections.abc import Iterator, Mapping
from importlib.resources import files
from itertools import islice
from typing import Any

import numpy as np

from autocl.data.description import SetInfo
from autocl.data.readers.block import Block, Raw, hold_out

_BLOCK = 256


def _make(split: str, size: int, options: Mapping[str, Any]) -> Raw:
    return hold_out(Raw(classes=tuple("0123456789"), blocks=_blocks()), split)


def _blocks() -> Iterator[Block]:
    """Images and labels, a few rows of scikit-learn's file at a time: load_digits makes 8 bytes a pixel."""
    # Pixels count the ink in 4×4 cells: 0 to 16.
    grays = np.rint(np.arange(17) * (255 / 16)).astype(np.uint8)
    table = files("sklearn.datasets.data").joinpath("digits.csv.gz")
    with table.open("rb") as packed, gzip.open(packed, "rt") as lines:
        while chunk := list(islice(lines, _BLOCK)):
            rows = np.loadtxt(chunk, delimiter=",", dtype=np.uint8, ndmin=2)
            yield grays[rows[:, :64]].reshape(-1, 8, 8), rows[:, 64].astype(np.int64)


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
