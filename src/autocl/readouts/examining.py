"""numba kernels of the examination, for one stream: what experts make of prototypes that are left out.

`experts` defines what is computed; tests/readouts/test_compiled.py compares.

Shape legend: M = prototypes, D = dimensions, N = classes, G = groups.
"""

import math

import numpy as np

from autocl.ops.jit import njit
from autocl.ops.srwm.simd import exp, load, maximum, splat, store

LANES = 4
"""Doubles in a vector register."""


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def gaussian(distance, rate):
    """Lower triangle of distance [M, M] <- exp(-rate · distance), in place."""
    M = len(distance)
    factor, zero = splat(-rate), splat(0.0)
    for i in range(M):
        row = distance[i]
        whole = min((i + LANES - 1) // LANES * LANES, M - M % LANES)
        for j in range(0, whole, LANES):
            store(row, j, exp(factor * maximum(load(row, j), zero)))
        for j in range(whole, i):
            row[j] = math.exp(-rate * max(row[j], 0.0))


@njit(nogil=True, error_model="numpy")
def noisy(near, cubes, diagonal, out):
    """Cube the lower triangle of near [M, M] so many times, in place; out [M, M] is that with a diagonal."""
    for i in range(len(near)):
        row = near[i]
        for _ in range(cubes):
            for j in range(i):
                row[j] = row[j] * row[j] * row[j]
        for j in range(i):
            out[i, j] = row[j]
        out[i, i] = diagonal[i]


@njit(nogil=True, error_model="numpy")
def column_squares(lower):
    """Sums of squares of the columns of a lower triangular matrix [n, n]; what is above is not looked at."""
    out = np.zeros(len(lower))
    for i in range(len(lower)):
        row = lower[i]
        for j in range(i + 1):
            out[j] += row[j] * row[j]
    return out


@njit(nogil=True, error_model="numpy")
def discriminate(cross, among, square, weight, size, number, owner, out):
    """Fill out [M, N] with what discriminants of groups say of prototypes that are left out.

    A prototype's own demos are taken out of its group's mean and of the scatter; see `experts.discriminants`.

    Args:
        cross: [M, G], products of prototypes and centres.
        among: [G, G], of centres.
        square: [M], of prototypes with themselves.
        weight: [M], demos of each.
        size: [G], demos of each group.
        number: [M], its group.
        owner: [G], the class of a group.
        out: 0 for a class without groups.
    """
    M, N = out.shape
    for m in range(M):
        for n in range(N):
            out[m, n] = -np.inf
        own = number[m]
        rest = max(size[own] - weight[m], 1.0)
        u_x = square[m] - cross[m, own]
        u_u = u_x - cross[m, own] + among[own, own]
        lost = weight[m] * size[own] / rest
        gain = lost / (1 - min(lost * u_u, 0.999))
        for g in range(len(owner)):
            if size[g] == 0:
                continue
            product, length, u_mean = cross[m, g], among[g, g], cross[m, g] - among[own, g]
            if g == own:
                step = weight[m] / rest
                product -= step * u_x
                length -= step * (2 * u_mean - step * u_u)
                u_mean -= step * u_u
            said = product - 0.5 * length + gain * u_mean * (u_x - 0.5 * u_mean)
            if g == own and size[g] <= weight[m]:
                said = -np.inf
            out[m, owner[g]] = max(out[m, owner[g]], said)
        for n in range(N):
            if out[m, n] == -np.inf:
                out[m, n] = 0.0


@njit(nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def directions(prototype, origin, weight, label, x, columns, own):
    """Directions of prototypes [M, D] and of class means as seen from an origin [D].

    Args:
        prototype: of the memory.
        origin: where one stands.
        weight: [M].
        label: [M].
        x: [M, D], filled with directions of prototypes.
        columns: [N, D], filled with those of class means; zero for a class without demos.
        own: [M], filled with the cosine of each prototype to its class without it.
    """
    M, D = prototype.shape
    columns[:] = 0.0
    for m in range(M):
        total = 0.0
        for d in range(D):
            x[m, d] = prototype[m, d] - origin[d]
            total += x[m, d] * x[m, d]
        length = 1 / max(math.sqrt(total), 1e-12)
        for d in range(D):
            x[m, d] *= length
            columns[label[m], d] += weight[m] * x[m, d]
    for m in range(M):
        product = 0.0
        total = 0.0
        for d in range(D):
            rest = columns[label[m], d] - weight[m] * x[m, d]
            product += x[m, d] * rest
            total += rest * rest
        own[m] = product / max(math.sqrt(total), 1e-12)
    for n in range(len(columns)):
        total = 0.0
        for d in range(D):
            total += columns[n, d] * columns[n, d]
        length = 1 / max(math.sqrt(total), 1e-12)
        for d in range(D):
            columns[n, d] *= length


@njit(nogil=True, error_model="numpy")
def normalise(said, label, seen, deviation, least, never):
    """Bring leave-one-out scores said [M, N] to unit deviation, in place, and return the factor.

    Those of classes without demos, and of a class of which nothing else is left, count as `never`; where
    there are no others, the factor is 0.
    """
    M, N = said.shape
    places = np.zeros(N)
    for m in range(M):
        places[label[m]] += 1
    number = 0.0
    total = 0.0
    for m in range(M):
        for n in range(N):
            if seen[n] and (n != label[m] or places[n] > 1):
                number += 1
                total += said[m, n]
    if number == 0:
        said[:] = never
        return 0.0
    mean = total / number
    total = 0.0
    for m in range(M):
        for n in range(N):
            if seen[n] and (n != label[m] or places[n] > 1):
                total += (said[m, n] - mean) ** 2
    scale = 1 / math.sqrt(total / number + deviation * mean**2 + least)
    for m in range(M):
        for n in range(N):
            known = seen[n] and (n != label[m] or places[n] > 1)
            said[m, n] = said[m, n] * scale if known else never
    return scale
