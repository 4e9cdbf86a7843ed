"""Standardisation of images, each by its own mean and deviation, in one pass of a numba kernel over each.

In double precision and in one order of additions, so that the result does not depend on what else is there.

Shape legend: n = images, P = values of an image.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from autocl.ops.jit import njit

Floats = npt.NDArray[np.floating[Any]]


@njit(nogil=True, error_model="numpy")
def standardise(x: Floats, floor: Floats, out: Floats) -> None:
    """Fill out [n, P] with (x - mean) / deviation of every row of x; floor [n] is the least that divides."""
    n, P = x.shape
    whole = P - P % 4
    for i in range(n):
        row = x[i]
        # Four sums side by side: one alone would wait for each addition.
        a = b = c = d = 0.0
        for j in range(0, whole, 4):
            a += row[j]
            b += row[j + 1]
            c += row[j + 2]
            d += row[j + 3]
        for j in range(whole, P):
            a += row[j]
        mean = ((a + b) + (c + d)) / P
        a = b = c = d = 0.0
        for j in range(0, whole, 4):
            a += (row[j] - mean) ** 2
            b += (row[j + 1] - mean) ** 2
            c += (row[j + 2] - mean) ** 2
            d += (row[j + 3] - mean) ** 2
        for j in range(whole, P):
            a += (row[j] - mean) ** 2
        deviation = max(np.sqrt(((a + b) + (c + d)) / P), floor[i])
        for j in range(P):
            out[i, j] = (row[j] - mean) / deviation
