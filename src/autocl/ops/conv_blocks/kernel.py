"""numba kernels of what follows the convolution in a block: instance norm, max-pool, dropout, ReLU in one go.

Images are channels-last, [n, H, W, F], so that every inner loop runs over filters and becomes vector
instructions. Each image is read while it is still in cache. See README.md for the equations.

Images may be bfloat16, as their bits in uint16; statistics and arithmetic have the precision of gamma.
"""

import numpy as np

from autocl.ops.bfloat16 import narrow, widen
from autocl.ops.dropout.cpu import mix
from autocl.ops.jit import njit

BLOCKED = np.uint8(4)
"""Place of a pooled value that passes no gradient: dropped, or not positive. Places 0–3 name the winner."""


@njit(nogil=True, error_model="numpy")
def forward(first, gamma, beta, eps, dropout, words, lo, hi, y, out, place, mean, rstd):
    """Fill out, place [n, H//2, W//2, F] and mean, rstd [n, F] for images lo..hi of y [n, H, W, F].

    `first` is the number of y[0] in the whole batch: it makes dropout independent of how a batch is cut.
    `words` are two random uint32.
    """
    _, H, W, F = y.shape
    zero = gamma.dtype.type(0)
    one = gamma.dtype.type(1)
    per_pixel = one / gamma.dtype.type(H * W)
    keep_scale = gamma.dtype.type(1.0 / (1.0 - dropout))
    threshold = np.uint32(dropout * 2**32)
    nothing = narrow(zero, out)
    scale = np.empty(F, gamma.dtype)
    shift = np.empty(F, gamma.dtype)
    m = np.empty(F, gamma.dtype)
    v = np.empty(F, gamma.dtype)
    for i in range(lo, hi):
        for c in range(F):
            m[c] = zero
            v[c] = zero
        for a in range(H):
            for b in range(W):
                for c in range(F):
                    m[c] += widen(y[i, a, b, c])
        for c in range(F):
            m[c] *= per_pixel
        for a in range(H):
            for b in range(W):
                for c in range(F):
                    d = widen(y[i, a, b, c]) - m[c]
                    v[c] += d * d
        for c in range(F):
            r = one / np.sqrt(v[c] * per_pixel + gamma.dtype.type(eps))
            mean[i, c] = m[c]
            rstd[i, c] = r
            # What dropout keeps it scales up: done here, where it costs nothing.
            scale[c] = gamma[c] * r * keep_scale
            shift[c] = beta[c] * keep_scale - m[c] * scale[c]
        for a in range(H // 2):
            for b in range(W // 2):
                for c in range(F):
                    s = scale[c]
                    top = s * widen(y[i, 2 * a, 2 * b, c])
                    k = np.uint8(0)
                    z = s * widen(y[i, 2 * a, 2 * b + 1, c])
                    if z > top:
                        top = z
                        k = np.uint8(1)
                    z = s * widen(y[i, 2 * a + 1, 2 * b, c])
                    if z > top:
                        top = z
                        k = np.uint8(2)
                    z = s * widen(y[i, 2 * a + 1, 2 * b + 1, c])
                    if z > top:
                        top = z
                        k = np.uint8(3)
                    z = top + shift[c]
                    # Written so that NaN is passed on, as ReLU passes it.
                    out[i, a, b, c] = narrow(zero if z <= zero else z, out)
                    place[i, a, b, c] = BLOCKED if z <= zero else k
                if dropout > 0:
                    # A hash of the element's number instead of a generator: vectorises, needs no mask, and
                    # gives the same numbers whatever the threads and chunks.
                    number = (((first + i) * (H // 2) + a) * (W // 2) + b) * F
                    for c in range(F):
                        kept = mix(number + c, words[0], words[1]) >= threshold
                        out[i, a, b, c] = out[i, a, b, c] if kept else nothing
                        place[i, a, b, c] = place[i, a, b, c] if kept else BLOCKED


@njit(nogil=True, error_model="numpy")
def backward(gamma, dropout, lo, hi, y, place, mean, rstd, dout, dy, dgamma, dbeta):
    """Fill dy [n, H, W, F], the gradient of y, and dgamma, dbeta [n, F] for images lo..hi."""
    _, H, W, F = y.shape
    zero = gamma.dtype.type(0)
    per_pixel = gamma.dtype.type(1) / gamma.dtype.type(H * W)
    keep_scale = gamma.dtype.type(1.0 / (1.0 - dropout))
    g = np.empty(F, gamma.dtype)
    gy = np.empty(F, gamma.dtype)
    scale = np.empty(F, gamma.dtype)
    slope = np.empty(F, gamma.dtype)
    offset = np.empty(F, gamma.dtype)
    local = np.empty(F, gamma.dtype)
    for i in range(lo, hi):
        for c in range(F):
            g[c] = zero
            gy[c] = zero
        for a in range(H // 2):
            for b in range(W // 2):
                k = place[i, a, b]
                d = dout[i, a, b]
                for c in range(F):
                    g[c] += widen(d[c]) if k[c] < BLOCKED else zero
                for j in range(4):
                    row = y[i, 2 * a + j // 2, 2 * b + j % 2]
                    for c in range(F):
                        gy[c] += widen(d[c]) * widen(row[c]) if k[c] == j else zero
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
                    local[c] = widen(d[c]) * scale[c]
                for j in range(4):
                    row = y[i, 2 * a + j // 2, 2 * b + j % 2]
                    drow = dy[i, 2 * a + j // 2, 2 * b + j % 2]
                    for c in range(F):
                        drow[c] = narrow(
                            widen(row[c]) * slope[c] + offset[c] + (local[c] if k[c] == j else zero), dy
                        )
        # An odd last row or column is in no pooling window, but it is in the mean and the variance.
        for b in range(W if H % 2 else 0):
            row, drow = y[i, H - 1, b], dy[i, H - 1, b]
            for c in range(F):
                drow[c] = narrow(widen(row[c]) * slope[c] + offset[c], dy)
        for a in range(2 * (H // 2) if W % 2 else 0):
            row, drow = y[i, a, W - 1], dy[i, a, W - 1]
            for c in range(F):
                drow[c] = narrow(widen(row[c]) * slope[c] + offset[c], dy)
