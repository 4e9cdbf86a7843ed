"""Solving with a positive definite matrix through its lower Cholesky factor, by LAPACK.

Arrays count rows first and LAPACK columns, so each is handed over transposed, without a copy.

Shape legend: n = rows and columns of the matrix, k = rows to solve for.
"""

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from autocl.errors import StateError
from autocl.readouts import examining

Array = npt.NDArray[np.float64]
SMALL = 64
"""Triangular matrices up to this size are inverted by LAPACK."""


def factor(matrix: Array, level: float) -> Array:
    """Lower Cholesky factor of matrix [n, n] + level · I; zero above."""
    lower = matrix.copy()
    lower.reshape(-1)[:: len(lower) + 1] += level
    factor_in_place(lower, clean=1)
    return lower


def factor_in_place(matrix: Array, clean: int = 0) -> None:
    """Replace the lower triangle of matrix [n, n] by its factor, and what is above it by zeros if `clean`."""
    # LAPACK counts columns first: its upper triangle is the lower one here.
    _, failed = lapack.dpotrf(matrix.T, lower=0, overwrite_a=1, clean=clean)
    if failed:
        raise StateError("the memory has become unusable: a matrix is not positive definite")


def solve(factor: Array, rows: Array) -> Array:
    """Rows [k, n] times the inverse of the matrix."""
    solved: Array = lapack.dpotrs(factor.T, np.ascontiguousarray(rows).T, lower=0)[0].T
    return solved


def halfway(factor: Array, rows: Array) -> Array:
    """Rows [k, n] times the inverse of the transposed factor: their products are those of the matrix."""
    solved: Array = blas.dtrsm(1.0, factor.T, np.ascontiguousarray(rows).T, lower=0, trans_a=1).T
    return solved


def inverse_factor(factor: Array) -> Array:
    """The inverse of the transposed factor."""
    inverse: Array = np.ascontiguousarray(lapack.dtrtri(factor.T, lower=0)[0])
    return inverse


def inverse_diagonal(factor: Array, last: int) -> Array:
    """The last diagonal elements of the inverse of the matrix."""
    inverse = np.empty((last, last))
    invert(factor[len(factor) - last :, len(factor) - last :], inverse)
    diagonal: Array = examining.column_squares(inverse)
    return diagonal


def inverse_rows(factor: Array, last: int) -> Array:
    """The last rows [last, n] of the inverse of the matrix."""
    first = len(factor) - last
    lower = np.empty((last, last))
    invert(factor[first:, first:], lower)
    lower = np.tril(lower)
    block = lower.T @ lower
    if not first:
        return block
    across = np.ascontiguousarray(-block @ factor[first:, :first])
    before = blas.dtrsm(1.0, np.ascontiguousarray(factor[:first, :first]).T, across.T, lower=0).T
    return np.concatenate([before, block], axis=1)


def invert(lower: Array, out: Array) -> None:
    """Fill the lower triangle of out [n, n] with the inverse of a lower triangular matrix.

    By halves, since LAPACK's own way, column by column, takes twice as long from 200 on.
    """
    n, half = len(lower), len(lower) // 2
    if n <= SMALL:
        out[:] = lapack.dtrtri(np.ascontiguousarray(lower).T, lower=0)[0].T if n else 0.0
        return
    # What LAPACK leaves above the diagonal of a block is none of the matrix.
    invert(lower[:half, :half], out[:half, :half])
    invert(lower[half:, half:], out[half:, half:])
    first, second = np.tril(out[:half, :half]), np.tril(out[half:, half:])
    out[half:, :half] = second @ (-lower[half:, :half] @ first)
