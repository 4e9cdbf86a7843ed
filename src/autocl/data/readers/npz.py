"""Large arrays in an npz, a few rows at a time."""

import math
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt


def npz_rows(path: Path, name: str, rows: int) -> Iterator[npt.NDArray[np.uint8]]:
    """The rows of a uint8 array, without the array as a whole ever being in memory.

    Args:
        path: the npz.
        name: of the array.
        rows: how many at a time.

    Yields:
        uint8 [≤ rows, …].
    """
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError(f"{name} is stored in a way that numpy uses for other arrays than pixels")
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype != np.uint8 or fortran_order or len(shape) == 0:
            raise ValueError(f"{name} is {dtype} {list(shape)}, not rows of uint8")
        row = math.prod(shape[1:])
        for at in range(0, shape[0], rows):
            count = min(rows, shape[0] - at)
            data = file.read(count * row)
            yield np.frombuffer(data, np.uint8).reshape(count, *shape[1:])
        if file.read(1):  # reading to the end is also what compares the check sum
            raise ValueError(f"{name} is longer than its shape {list(shape)}")
