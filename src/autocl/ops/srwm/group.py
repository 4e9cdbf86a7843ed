"""Parts of both SRWM kernels: layout of matrices for a group of items, and their products.

An item is one head of one stream. Legend: D = head size, P = D rounded up to a multiple of 4, C = P / 4,
R = 3P + 4 rows in blocks y, q, k, β; L items form a group, V = 4L lanes make a register (see simd.py).

A register holds one column of four consecutive rows of the L items: a vector over the rows is [R/4, 4, L], a
matrix is [R/4, P, 4, L], and what belongs to a column is spread over the four quarters. So no product needs a
sum within a register, except one per column and pass, and W and its gradient of a group stay in the L1 cache
(27 KB for four items of head size 16 would not, beside everything else).
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from autocl.ops.srwm.cpu import group_size
from autocl.ops.srwm.simd import broadcast, gather, load, prefetch, scatter, store, transpose

# Multiply and add may become one instruction; nothing else about the arithmetic is left to the compiler.
FAST = {"contract"}

DTYPES: dict[str, Any] = {"torch.float32": np.float32, "torch.float64": np.float64}

Kernel = Callable[..., None]

AHEAD = 2
"""Steps by which arrays as long as the stream are fetched before their turn. Processors do this by
themselves, but stop at the end of a page, after six to fourteen steps."""


def sizes(D: int, precision: str) -> tuple[Any, int, int, int]:
    """The numpy type of a precision, L, C, and how many numbers fill a cache line."""
    dtype = DTYPES[precision]
    itemsize = np.dtype(dtype).itemsize
    return dtype, group_size(itemsize), -(-D // 4), 64 // itemsize


@numba.njit(fastmath=FAST, error_model="numpy")
def pack(W, first, P, R, V, M):
    """Lay out the matrices W [N, R, P] of the group from item `first` on as M [R/4, P, V]."""
    base = first * R * P
    for r in range(0, R, 4):
        for j in range(0, P, 4):
            at = base + r * P + j
            a, b = gather(W, at, R * P), gather(W, at + P, R * P)
            c, d = gather(W, at + 2 * P, R * P), gather(W, at + 3 * P, R * P)
            columns = transpose(a, b, c, d)
            to = (r // 4 * P + j) * V
            for i in range(4):
                store(M, to + i * V, columns[i])


@numba.njit(fastmath=FAST, error_model="numpy")
def unpack(M, first, P, R, V, W):
    """The inverse of pack."""
    base = first * R * P
    for r in range(0, R, 4):
        for j in range(0, P, 4):
            at = (r // 4 * P + j) * V
            rows = transpose(load(M, at), load(M, at + V), load(M, at + 2 * V), load(M, at + 3 * V))
            for i in range(4):
                scatter(W, base + (r + i) * P + j, R * P, rows[i])


# The next two are called at every step: not inlined, they would count references to their arrays, atomically.
@numba.njit(fastmath=FAST, error_model="numpy", inline="always")
def prefetch_range(a, at, size, line):
    """Call `size` numbers of a from `at` on into the cache; beyond the ends of a nothing happens."""
    for i in range(0, size, line):
        prefetch(a, at + i)


@numba.njit(fastmath=FAST, error_model="numpy", inline="always")
def dot(M, m, x, i, P, V, L):
    """The four rows of M at m times the vector of x at i. One sum would wait for itself: there are four."""
    a = load(M, m) * broadcast(x, i)
    b = load(M, m + V) * broadcast(x, i + L)
    c = load(M, m + 2 * V) * broadcast(x, i + 2 * L)
    d = load(M, m + 3 * V) * broadcast(x, i + 3 * L)
    for j in range(4, P, 4):
        a = a + load(M, m + j * V) * broadcast(x, i + j * L)
        b = b + load(M, m + (j + 1) * V) * broadcast(x, i + (j + 1) * L)
        c = c + load(M, m + (j + 2) * V) * broadcast(x, i + (j + 2) * L)
        d = d + load(M, m + (j + 3) * V) * broadcast(x, i + (j + 3) * L)
    return (a + b) + (c + d)
