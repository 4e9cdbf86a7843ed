"""numba kernel of whole Conv-4-like encoders without gradients: one image after the other through all blocks.

An image stays in cache from the first convolution to the features, a single one costs no more than one of
many, and its features do not depend on its company, since each is computed by itself. Convolutions keep 4
pixels × 32 filters in registers (`autocl.ops.srwm.simd`) and are as fast as oneDNN's of many images.

Shape legend: n = images, C = channels, F = filters, H, W = pixels, w = W, but at least 4.
"""

import numpy as np

from autocl.ops.conv_blocks import FILTERS
from autocl.ops.jit import njit
from autocl.ops.srwm.simd import load, maximum, splat, store

PIXELS = 4
"""Pixels computed at once, each in FILTERS filters; rows are filled up."""


@njit(nogil=True, inline="always")
def _put(y, at, v0, v1, v2, v3):
    """The filters of one pixel."""
    store(y, at, v0)
    store(y, at + 8, v1)
    store(y, at + 16, v2)
    store(y, at + 24, v3)


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def convolve(x, weight, y, H, w, C, F):
    """Fill y [H, w, F] from x [H + 2, w + 2, C] and weight [3, 3, C, F]; all as flat arrays."""
    row = (w + 2) * C
    zero = splat(x.dtype.type(0))
    for f in range(0, F, FILTERS):
        for a in range(H):
            for start in range(0, w, PIXELS):
                b = min(start, w - PIXELS)  # The last four may begin among pixels that are there already.
                a0 = a1 = a2 = a3 = zero
                b0 = b1 = b2 = b3 = zero
                c0 = c1 = c2 = c3 = zero
                d0 = d1 = d2 = d3 = zero
                at = f
                for i in range(3):
                    first = (a + i) * row + b * C
                    for k in range(first, first + 3 * C):
                        w0, w1 = load(weight, at), load(weight, at + 8)
                        w2, w3 = load(weight, at + 16), load(weight, at + 24)
                        at += F
                        v = splat(x[k])
                        a0, a1, a2, a3 = a0 + v * w0, a1 + v * w1, a2 + v * w2, a3 + v * w3
                        v = splat(x[k + C])
                        b0, b1, b2, b3 = b0 + v * w0, b1 + v * w1, b2 + v * w2, b3 + v * w3
                        v = splat(x[k + 2 * C])
                        c0, c1, c2, c3 = c0 + v * w0, c1 + v * w1, c2 + v * w2, c3 + v * w3
                        v = splat(x[k + 3 * C])
                        d0, d1, d2, d3 = d0 + v * w0, d1 + v * w1, d2 + v * w2, d3 + v * w3
                at = (a * w + b) * F + f
                _put(y, at, a0, a1, a2, a3)
                _put(y, at + F, b0, b1, b2, b3)
                _put(y, at + 2 * F, c0, c1, c2, c3)
                _put(y, at + 3 * F, d0, d1, d2, d3)


@njit(nogil=True, inline="always")
def _four(y, at):
    """The filters of one pixel."""
    return load(y, at), load(y, at + 8), load(y, at + 16), load(y, at + 24)


@njit(nogil=True, error_model="numpy", fastmath={"contract"})
def pool(y, gamma, beta, eps, H, W, w, F, out, row, column, filters):
    """Instance norm, max-pool 2×2 and ReLU of y [H, w, F], of which W columns count.

    Pixel (a, b) of filter f goes to out[a · row + b · column + f · filters].
    """
    dtype = gamma.dtype.type
    zero, share = splat(dtype(0)), splat(dtype(1) / dtype(H * W))
    scale, shift, best = np.empty((3, FILTERS), gamma.dtype)
    for f in range(0, F, FILTERS):
        m0 = m1 = m2 = m3 = zero
        for a in range(H):
            for at in range(a * w * F + f, (a * w + W) * F + f, F):
                y0, y1, y2, y3 = _four(y, at)
                m0, m1, m2, m3 = m0 + y0, m1 + y1, m2 + y2, m3 + y3
        m0, m1, m2, m3 = m0 * share, m1 * share, m2 * share, m3 * share
        v0 = v1 = v2 = v3 = zero
        for a in range(H):
            for at in range(a * w * F + f, (a * w + W) * F + f, F):
                y0, y1, y2, y3 = _four(y, at)
                y0, y1, y2, y3 = y0 - m0, y1 - m1, y2 - m2, y3 - m3
                v0, v1, v2, v3 = v0 + y0 * y0, v1 + y1 * y1, v2 + y2 * y2, v3 + y3 * y3
        _put(scale, 0, v0 * share, v1 * share, v2 * share, v3 * share)
        _put(shift, 0, m0, m1, m2, m3)
        for i in range(FILTERS):
            scale[i] = gamma[f + i] / np.sqrt(scale[i] + dtype(eps))
            shift[i] = beta[f + i] - shift[i] * scale[i]
        s, m = _four(scale, 0), _four(shift, 0)
        below = w * F
        for a in range(H // 2):
            for b in range(W // 2):
                at = (2 * a * w + 2 * b) * F + f
                to = a * row + b * column + f * filters
                # Scaled before they are compared, since the scale may be negative.
                r0 = _largest(y, at, below, F, s[0], m[0], zero)
                r1 = _largest(y, at + 8, below, F, s[1], m[1], zero)
                r2 = _largest(y, at + 16, below, F, s[2], m[2], zero)
                r3 = _largest(y, at + 24, below, F, s[3], m[3], zero)
                if filters == 1:
                    _put(out, to, r0, r1, r2, r3)
                else:
                    _put(best, 0, r0, r1, r2, r3)
                    for i in range(FILTERS):
                        out[to + i * filters] = best[i]


@njit(nogil=True, inline="always")
def _largest(y, at, below, right, scale, shift, zero):
    """The largest of four pixels in 8 filters after the norm, or 0."""
    above = maximum(scale * load(y, at), scale * load(y, at + right))
    under = maximum(scale * load(y, at + below), scale * load(y, at + below + right))
    top = maximum(above, under) + shift
    return maximum(top, zero)


@njit(nogil=True, error_model="numpy")
def _is_gray(x):
    """Whether all channels of an image [C, H, W] are equal."""
    C, H, W = x.shape
    for c in range(1, C):
        for a in range(H):
            same = True
            for b in range(W):
                same &= x[c, a, b] == x[0, a, b]
            if not same:
                return False
    return True


@njit(nogil=True, error_model="numpy")
def run(blocks, eps, lo, hi, x, out):
    """Fill out [n, features], in the order (filter, row, column), for images lo..hi of x [n, C, H, W].

    `blocks` is a tuple of (weight [F, C, 3, 3], gamma, beta); all have the same F.
    """
    _, C, H, W = x.shape
    F = len(blocks[0][1])
    w = max(W, PIXELS)
    weights = np.empty((len(blocks), 9 * max(C, F) * F), x.dtype)
    for block in range(len(blocks)):
        weight, inputs = blocks[block][0].reshape(-1), blocks[block][0].shape[1]
        own = weights[block]
        for c in range(inputs):
            for k in range(9):
                for f in range(F):
                    own[(k * inputs + c) * F + f] = weight[(f * inputs + c) * 9 + k]
    pixels = (H + 2) * (w + 2)
    coloured, plain = np.zeros(pixels * C, x.dtype), np.zeros(pixels, x.dtype)
    # In a gray image all channels are one, and filters can be added up over them.
    gray = np.zeros(9 * F, x.dtype)
    for k in range(9 if C > 1 else 0):
        for c in range(C):
            for f in range(F):
                gray[k * F + f] += weights[0, (k * C + c) * F + f]
    y = np.empty(H * w * F, x.dtype)
    # The inputs of all later blocks, each with a frame of zeros, one behind the other.
    frames = np.zeros(len(blocks) * (H // 2 + 2) * (max(W // 2, PIXELS) + 2) * F, x.dtype)
    for n in range(lo, hi):
        shown = 1 if C > 1 and _is_gray(x[n]) else C
        image = plain if shown < C else coloured
        for c in range(shown):
            for a in range(H):
                for b in range(W):
                    image[((a + 1) * (w + 2) + b + 1) * shown + c] = x[n, c, a, b]
        h, columns, inputs, start = H, W, shown, 0
        for block in range(len(blocks)):
            wide = max(columns, PIXELS)
            source = image if block == 0 else frames[start:]
            own = gray if block == 0 and shown < C else weights[block]
            convolve(source, own, y, h, wide, inputs, F)
            start += 0 if block == 0 else (h + 2) * (wide + 2) * F
            _, gamma, beta = blocks[block]
            if block < len(blocks) - 1:
                row = (max(columns // 2, PIXELS) + 2) * F
                target = frames[start + row + F :]
                pool(y, gamma, beta, eps, h, columns, wide, F, target, row, F, 1)
            else:
                pixels = (h // 2) * (columns // 2)
                pool(y, gamma, beta, eps, h, columns, wide, F, out[n], columns // 2, 1, pixels)
            h, columns, inputs = h // 2, columns // 2, F
