"""The handwritten digits that come with scikit-learn: 1,797 of 8×8 pixels, no download."""

import gzip
from collections.abc import Iterator
from importlib.resources import files
from itertools import islice

import numpy as np

from autocl.data.archives import Block, Raw, hold_out
from autocl.data.catalog import Options, SetInfo

_BLOCK = 64


def _make(split: str, size: int, options: Options) -> Raw:
    return hold_out(Raw(classes=tuple("0123456789"), blocks=_blocks()), split)


def _blocks() -> Iterator[Block]:
    """A few rows of scikit-learn's file at a time: load_digits would make eight bytes of each pixel."""
    # Pixels count the ink in 4×4 cells: 0 to 16.
    grays = np.rint(np.arange(17) * (255 / 16)).astype(np.uint8)
    packed = files("sklearn.datasets.data").joinpath("digits.csv.gz").open("rb")
    with packed, gzip.open(packed, "rt", encoding="ascii") as lines:
        while rows := list(islice(lines, _BLOCK)):
            values = np.array([line.split(",") for line in rows], np.uint8)
            yield grays[values[:, :64]].reshape(-1, 8, 8), values[:, 64].astype(np.int64)


_SET = SetInfo(
    name="digits",
    title="scikit-learn's digits",
    make=_make,
    channels=1,
    # Of the training part at 32×32.
    mean=(0.3061,),
    std=(0.3239,),
    licence="CC BY 4.0",
    citation="Alpaydin, Kaynak: Optical recognition of handwritten digits. UCI machine learning "
    "repository (1998).",
)
