"""numba kernels of the experts of the universal read-out, for one stream: what they say of queries.

Each query is computed by itself, in one order of operations, so its answer does not depend on its company.
`experts` and `universal` define what is computed; tests/readouts/test_compiled.py compares.

Shape legend: Q = queries, D = dimensions, M = prototypes, J = columns that queries are multiplied with,
K = those of the whitening factor, E = experts, N = classes.
"""

import math
from itertools import pairwise

import numpy as np

from autocl.ops.jit import njit
from autocl.ops.srwm.simd import exp, fma, load, splat, store
from autocl.readouts.examination import UNSEEN
from autocl.readouts.examining import LANES
from autocl.readouts.experts import KERNELS
from autocl.readouts.reading import combine, corrected, rooms

TILE = 8
"""Columns of what queries are compared with that lie together."""
BLOCK = 32
"""Queries that go through them together."""
CUBES = np.array(
    [round(math.log(rate / before, 3)) for (before, _), (rate, _) in pairwise(KERNELS[:1] + KERNELS)]
)
"""How often each kernel of `experts` is the third power of the one before: one exponential serves all."""
assert all(rate == KERNELS[0][0] * 3.0**n for (rate, _), n in zip(KERNELS, CUBES.cumsum(), strict=True))


@njit(nogil=True, error_model="numpy")
def answer(plan, trust, weights, lo, hi, x, logits, novelty):
    """Fill logits [Q, N] and novelty [Q] for queries lo..hi of x [Q, D]."""
    (wide, K, square, rate, dual, whitened_square, metric, whitened_rate, whitened_dual) = plan[0]
    (offset, owner, expert, origin, by_direction, scale, spread) = plan[1]
    seen, share, sharpness, reader, size, bias, fast_last, fast_bias = trust
    D = x.shape[1]
    kernels, N, M = dual.shape
    E = kernels + 1 + len(scale)
    z = np.empty((BLOCK, len(wide) * TILE))
    near, length = np.empty(M), np.empty(len(scale))
    scores, said, base = np.empty((E, N)), np.empty((E, N)), np.empty(N)
    chosen, work = rooms(E, N, len(bias), bias.dtype)
    for start in range(lo, hi, BLOCK):
        products(x[start : min(start + BLOCK, hi)], wide, z)
        for q in range(start, min(start + BLOCK, hi)):
            y, own, nearest = z[q - start], 0.0, np.inf
            for d in range(D):
                own += x[q, d] * x[q, d]
            for m in range(M):
                near[m] = max(own + square[m] - y[m], 0.0)
                nearest = min(nearest, near[m])
            _near(near, rate)
            for e in range(kernels):
                for _ in range(CUBES[e]):
                    _cube(near)
                _kernel(near, dual[e], scores[e])
            inside = 0.0
            for k in range(2 * M, 2 * M + K):
                inside += y[k] * y[k]
            whitened = metric[0] * own + metric[1] * inside
            for m in range(M):
                near[m] = max(whitened + whitened_square[m] - y[M + m], 0.0)
            _near(near, whitened_rate)
            _kernel(near, whitened_dual, scores[kernels])

            for i in range(len(scale)):
                length[i] = 1.0
                if by_direction[i]:
                    total = 0.0
                    for d in range(D):
                        total += (x[q, d] - origin[i, d]) ** 2
                    length[i] = max(math.sqrt(total), 1e-12)
                for n in range(N):
                    scores[kernels + 1 + i, n] = -np.inf
            for g in range(len(offset)):
                e, n = kernels + 1 + expert[g], owner[g]
                scores[e, n] = max(scores[e, n], (y[2 * M + K + g] + offset[g]) / length[expert[g]])
            for i in range(len(scale)):
                for n in range(N):
                    found = scores[kernels + 1 + i, n]
                    scores[kernels + 1 + i, n] = found * scale[i] if found > -np.inf else 0.0

            combine(scores, seen, share, sharpness, base, said)
            corrected(base, said, size, reader, bias, fast_last, fast_bias, weights, chosen, work)
            for n in range(N):
                logits[q, n] = base[n] if seen[n] else UNSEEN
            novelty[q] = 1 - math.exp(-nearest / (2 * spread))


@njit(nogil=True, error_model="numpy")
def products(x, wide, z):
    """Fill z [Q, J] with x [Q, D] @ wide, which lies as [J / TILE, D, TILE].

    Every sum runs over D in its order, whether four queries are multiplied together with a tile or one
    with four tiles: the bits are the same.
    """
    tiles, D, _ = wide.shape
    flat, size = wide.reshape(-1), D * TILE
    zero = splat(0.0)
    together = len(x) - len(x) % 4
    for tile in range(tiles):
        for q in range(0, together, 4):
            a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = zero
            at = tile * size
            for d in range(D):
                w0, w1 = load(flat, at), load(flat, at + LANES)
                at += TILE
                v = splat(x[q, d])
                a0, a1 = fma(v, w0, a0), fma(v, w1, a1)
                v = splat(x[q + 1, d])
                b0, b1 = fma(v, w0, b0), fma(v, w1, b1)
                v = splat(x[q + 2, d])
                c0, c1 = fma(v, w0, c0), fma(v, w1, c1)
                v = splat(x[q + 3, d])
                d0, d1 = fma(v, w0, d0), fma(v, w1, d1)
            _put(z[q], tile, a0, a1)
            _put(z[q + 1], tile, b0, b1)
            _put(z[q + 2], tile, c0, c1)
            _put(z[q + 3], tile, d0, d1)
    for q in range(together, len(x)):
        for tile in range(0, tiles - 3, 4):
            a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = zero
            at = tile * size
            for d in range(D):
                v = splat(x[q, d])
                a0, a1 = fma(v, load(flat, at), a0), fma(v, load(flat, at + LANES), a1)
                other = at + size
                b0, b1 = fma(v, load(flat, other), b0), fma(v, load(flat, other + LANES), b1)
                other += size
                c0, c1 = fma(v, load(flat, other), c0), fma(v, load(flat, other + LANES), c1)
                other += size
                d0, d1 = fma(v, load(flat, other), d0), fma(v, load(flat, other + LANES), d1)
                at += TILE
            _put(z[q], tile, a0, a1)
            _put(z[q], tile + 1, b0, b1)
            _put(z[q], tile + 2, c0, c1)
            _put(z[q], tile + 3, d0, d1)
        for tile in range(tiles - tiles % 4, tiles):
            a0 = a1 = zero
            at = tile * size
            for d in range(D):
                v = splat(x[q, d])
                a0, a1 = fma(v, load(flat, at), a0), fma(v, load(flat, at + LANES), a1)
                at += TILE
            _put(z[q], tile, a0, a1)


@njit(nogil=True, inline="always")
def _put(row, tile, v0, v1):
    store(row, tile * TILE, v0)
    store(row, tile * TILE + LANES, v1)


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def _kernel(near, dual, scores):
    """Fill scores [N] with Σ near [M] dual [N, M]; M is a multiple of LANES."""
    N, M = dual.shape
    sums = np.empty(LANES)
    for n in range(N):
        row = dual[n]
        total = splat(0.0)
        for m in range(0, M, LANES):
            total = total + load(near, m) * load(row, m)
        store(sums, 0, total)
        scores[n] = (sums[0] + sums[1]) + (sums[2] + sums[3])


@njit(nogil=True, error_model="numpy")
def _near(distance, rate):
    """distance [M] <- exp(-rate · distance), in place; M is a multiple of LANES."""
    factor = splat(-rate)
    for m in range(0, len(distance), LANES):
        store(distance, m, exp(factor * load(distance, m)))


@njit(nogil=True, error_model="numpy")
def _cube(near):
    for m in range(len(near)):
        near[m] = near[m] * near[m] * near[m]


@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def likelihoods(shapes, begin, end, white, candidates, said):
    """Log-likelihoods said [Q, C] of whitened vectors [Q, D] in classes [Q, C], as `shapes._gaussian`.

    Args:
        shapes: centre [N, D], basis [N, R, D], and what `shapes._factors` makes of them.
        begin: first query of these.
        end: the one behind the last.
    """
    centre, basis, less, inverse, volume = shapes
    D = white.shape[1]
    away = np.empty(D, white.dtype)
    for q in range(begin, end):
        for i in range(candidates.shape[1]):
            c = candidates[q, i]
            square = white.dtype.type(0)
            for d in range(D):
                away[d] = white[q, d] - centre[c, d]
                square += away[d] * away[d]
            square *= inverse[c]
            for r in range(basis.shape[1]):
                along = white.dtype.type(0)
                for d in range(D):
                    along += away[d] * basis[c, r, d]
                square -= along * along * less[c, r]
            said[q, i] = -0.5 * (square + volume[c])
