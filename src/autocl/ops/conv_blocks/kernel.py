"""numba kernels of what follows the convolution in a block: instance norm, max-pool, dropout, ReLU in one go.

Images are channels-last, [n, H, W, F], so that every inner loop runs over filters and becomes vector
instructions. Each image is read while it is still in cache. See README.md for the equations.
"""

import numpy as np

from autocl.ops.jit import njit

BLOCKED = np.uint8(4)
"""Place of a pooled value that passes no gradient: dropped, or not positive. Places 0–3 name the winner."""


@njit(nogil=True, error_model="numpy")
def forward(first, gamma, beta, eps, dropout, seed, lo, hi, y, out, place, mean, rstd):
    """Fill out, place [n, H//2, W//2, F] and mean, rstd [n, F] for images lo..hi of y [n, H, W, F].

    `first` is the number of y[0] in the whole batch: it makes dropout independent of how a batch is cut.
    """
    _, H, W, F = y.shape
    zero = y.dtype.type(0)
    one = y.dtype.type(1)
    per_pixel = one / y.dtype.type(H * W)
    keep_scale = y.dtype.type(1.0 / (1.0 - dropout))
    threshold = np.uint64(dropout * 4294967296.0)
    scale = np.empty(F, y.dtype)
    shift = np.empty(F, y.dtype)
    m = np.empty(F, y.dtype)
    v = np.empty(F, y.dtype)
    for i in range(lo, hi):
        for c in range(F):
            m[c] = zero
            v[c] = zero
        for a in range(H):
            for b in range(W):
                for c in range(F):
                    m[c] += y[i, a, b, c]
        for c in range(F):
            m[c] *= per_pixel
        for a in range(H):
            for b in range(W):
                for c in range(F):
                    d = y[i, a, b, c] - m[c]
                    v[c] += d * d
        for c in range(F):
            r = one / np.sqrt(v[c] * per_pixel + y.dtype.type(eps))
            mean[i, c] = m[c]
            rstd[i, c] = r
            scale[c] = gamma[c] * r
            shift[c] = beta[c] - m[c] * scale[c]
        for a in range(H // 2):
            for b in range(W // 2):
                for c in range(F):
                    s = scale[c]
                    top = s * y[i, 2 * a, 2 * b, c]
                    k = np.uint8(0)
                    z = s * y[i, 2 * a, 2 * b + 1, c]
                    if z > top:
                        top = z
                        k = np.uint8(1)
                    z = s * y[i, 2 * a + 1, 2 * b, c]
                    if z > top:
                        top = z
                        k = np.uint8(2)
                    z = s * y[i, 2 * a + 1, 2 * b + 1, c]
                    if z > top:
                        top = z
                        k = np.uint8(3)
                    z = top + shift[c]
                    # Written so that NaN is passed on, as ReLU passes it.
                    out[i, a, b, c] = zero if z <= zero else z
                    place[i, a, b, c] = BLOCKED if z <= zero else k
                if dropout > 0:
                    # A hash of the element's number instead of a generator: vectorises, needs no mask, and
                    # gives the same numbers whatever the threads and chunks.
                    number = seed + np.uint64((((first + i) * (H // 2) + a) * (W // 2) + b) * F)
                    for c in range(F):
                        x = (number + np.uint64(c)) * np.uint64(0x9E3779B97F4A7C15)
                        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
                        kept = ((x ^ (x >> np.uint64(27))) >> np.uint64(32)) >= threshold
                        out[i, a, b, c] = out[i, a, b, c] * keep_scale if kept else zero
                        place[i, a, b, c] = place[i, a, b, c] if kept else BLOCKED


@njit(nogil=True, error_model="numpy")
def backward(gamma, dropout, lo, hi, y, place, mean, rstd, dout, dgamma, dbeta):
    """Overwrite y [n, H, W, F] with its gradient for images lo..hi, and fill dgamma, dbeta [n, F]."""
    _, H, W, F = y.shape
    zero = y.dtype.type(0)
    per_pixel = y.dtype.type(1) / y.dtype.type(H * W)
    keep_scale = y.dtype.type(1.0 / (1.0 - dropout))
    g = np.empty(F, y.dtype)
    gy = np.empty(F, y.dtype)
    scale = np.empty(F, y.dtype)
    slope = np.empty(F, y.dtype)
    offset = np.empty(F, y.dtype)
    local = np.empty(F, y.dtype)
    for i in range(lo, hi):
        for c in range(F):
            g[c] = zero
            gy[c] = zero
        for a in range(H // 2):
            for b in range(W // 2):
                k = place[i, a, b]
                d = dout[i, a, b]
                for c in range(F):
                    g[c] += d[c] if k[c] < BLOCKED else zero
                for j in range(4):
                    row = y[i, 2 * a + j // 2, 2 * b + j % 2]
                    for c in range(F):
                        gy[c] += d[c] * row[c] if k[c] == j else zero
        for c in range(F):
            r = rstd[i, c]
            sum_g = g[c] * keep_scale
            sum_gx = (gy[c] * keep_scale - mean[i, c] * sum_g) * r
            dbeta[i, c] = sum_g
            dgamma[i, c] = sum_gx
            s = gamma[c] * r
            scale[c] = s * keep_scale
            slope[c] = -s * r * sum_gx * per_pixel
            offset[c] = -s * sum_g * per_pixel - slope[c] * mean[i, c]
        for a in range(H // 2):
            for b in range(W // 2):
                k = place[i, a, b]
                d = dout[i, a, b]
                for c in range(F):
                    local[c] = d[c] * scale[c]
                for j in range(4):
                    row = y[i, 2 * a + j // 2, 2 * b + j % 2]
                    for c in range(F):
                        row[c] = row[c] * slope[c] + offset[c] + (local[c] if k[c] == j else zero)
        # An odd last row or column is in no pooling window, but it is in the mean and the variance.
        for b in range(W if H % 2 else 0):
            row = y[i, H - 1, b]
            for c in range(F):
                row[c] = row[c] * slope[c] + offset[c]
        for a in range(2 * (H // 2) if W % 2 else 0):
            row = y[i, a, W - 1]
            for c in range(F):
                row[c] = row[c] * slope[c] + offset[c]
