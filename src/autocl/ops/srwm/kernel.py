"""numba kernels of the SRWM recurrence: one sequential pass per (stream, head), no W_t ever stored.

A kernel is specialised to the head size and the dtype, so that the loops over D unroll completely and the
loops over the R rows become vector instructions. W is kept transposed ([D, RP], RP = R rounded up to a
multiple of 8) for the same reason. A step's rank-one update is fused with the next step's read, which
halves the traffic on W. See README.md for the equations.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np

# Reassociation and contraction are what vectorising a sum needs; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}

DTYPES: dict[str, Any] = {"torch.float32": np.float32, "torch.float64": np.float64}

Kernel = Callable[..., None]


class Exp(NamedTuple):
    """Constants of a vectorisable e^x: 2^n by its bits times 2^f, |f| <= 1/2, by a Taylor polynomial.

    libm's exp is a scalar call and would cost more than all matrix products of a step. The kernels write
    the loop out, because numba cannot cache on disk a kernel that calls another one through a closure.
    """

    integer: Any
    shift: int
    bias: int
    lowest: float
    coefficients: tuple[float, ...]
    """ln(2)^i / i!: the first omitted term is below half an ulp."""
    log2e: float
    ln2_high: float
    """ln 2 in two parts keeps the reduced argument exact."""
    ln2_low: float


def exp_constants(dtype: Any) -> Exp:
    """Constants for float32 or float64; arguments are never positive where this is used."""
    single = dtype is np.float32
    high = 0.693359375 if single else 0.69314718036912381649
    return Exp(
        integer=np.int32 if single else np.int64,
        shift=23 if single else 52,
        bias=127 if single else 1023,
        lowest=dtype(-87.0 if single else -708.0),
        coefficients=tuple(dtype(math.log(2.0) ** i / math.factorial(i)) for i in range(8 if single else 14)),
        log2e=dtype(1.0 / math.log(2.0)),
        ln2_high=dtype(high),
        ln2_low=dtype(math.log(2.0) - high),
    )


class Sizes(NamedTuple):
    """Compile-time sizes of a kernel: rows and columns padded so that all inner loops are full vectors."""

    R: int
    RP: int
    DP: int
    JB: int
    """Columns handled in one pass over the rows: few enough that LLVM unrolls the loop over them."""


def sizes(D: int, rates: int) -> Sizes:
    """Pad rows to a multiple of 8, columns to a multiple of 4 or, above head size 16, of 16."""
    R = 3 * D + rates
    DP = -(-D // 4) * 4 if D <= 16 else -(-D // 16) * 16
    return Sizes(R=R, RP=-(-R // 8) * 8, DP=DP, JB=min(DP, 16))


@cache
def forward_kernel(D: int, rates: int, precision: str) -> Kernel:
    """Forward pass over items lo..hi of N = batch x heads, specialised to (D, rates, precision).

    The returned function takes (lo, hi, u [N,T,D], W [N,R,D], y [N,T,D], act [N,T,2D+rates], delta [N,T,R],
    W_final [N,R,D]) and fills everything after W. act holds φ(q), φ(k) and the learning rates σ(β).
    """
    dtype = DTYPES[precision]
    R, RP, DP, JB = sizes(D, rates)
    A = 2 * D + rates
    integer, shift, bias, lowest, coefficients, log2e, ln2_high, ln2_low = exp_constants(dtype)
    degree = len(coefficients) - 1
    zero, half, one = dtype(0.0), dtype(0.5), dtype(1.0)

    @numba.njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
    def run(lo, hi, u, W, y, act, delta, W_final):
        T = u.shape[1]
        Wt = np.zeros(DP * RP, dtype)
        z = np.zeros(RP, dtype)
        s = np.zeros(RP, dtype)
        diff = np.zeros(DP, dtype)
        key = np.zeros(DP, dtype)
        now = np.zeros(DP, dtype)
        top = np.zeros(2 * D, dtype)
        e = np.zeros(A, dtype)
        bits = np.zeros(A, integer)
        power = bits.view(dtype)
        for n in range(lo, hi):
            for r in range(R):
                for j in range(D):
                    Wt[j * RP + r] = W[n, r, j]
            for r in range(RP):
                s[r] = zero
            for t in range(T + 1):
                # The update of step t - 1 (none at t = 0) and the read of step t, in one pass over W.
                for j in range(D):
                    now[j] = u[n, min(t, T - 1), j]
                for r in range(RP):
                    z[r] = zero
                for o in range(0, DP, JB):
                    for r in range(RP):
                        acc = z[r]
                        step = s[r]
                        for j in range(JB):
                            w = Wt[(o + j) * RP + r] + step * key[o + j]
                            Wt[(o + j) * RP + r] = w
                            acc += w * now[o + j]
                        z[r] = acc
                if t == T:
                    break
                for i in range(D):
                    y[n, t, i] = z[i]

                # The two maxima, side by side, by halving: a running maximum would not vectorise.
                for i in range(2 * D):
                    top[i] = z[D + i]
                m = D
                while m > 1:
                    h = (m + 1) // 2
                    for i in range(m - h):
                        top[i] = max(top[i], top[i + h])
                        top[D + i] = max(top[D + i], top[D + i + h])
                    m = h
                top_q, top_k = top[0], top[D]
                for i in range(D):
                    e[i] = z[D + i] - top_q
                    e[D + i] = z[2 * D + i] - top_k
                for i in range(rates):
                    e[2 * D + i] = -abs(z[3 * D + i])
                for i in range(A):
                    a = max(e[i], lowest)
                    whole = np.floor(a * log2e + half)
                    f = ((a - whole * ln2_high) - whole * ln2_low) * log2e
                    g = coefficients[degree]
                    for j in range(degree - 1, -1, -1):
                        g = g * f + coefficients[j]
                    e[i] = g
                    bits[i] = (integer(whole) + bias) << shift
                for i in range(A):
                    e[i] *= power[i]

                sum_q = zero
                sum_k = zero
                for i in range(D):
                    sum_q += e[i]
                    sum_k += e[D + i]
                sum_q = one / sum_q
                sum_k = one / sum_k
                for i in range(D):
                    e[i] *= sum_q
                    e[D + i] *= sum_k
                for i in range(2 * D, A):
                    g = one / (one + e[i])
                    e[i] = g if z[D + i] >= zero else e[i] * g
                for i in range(D):
                    key[i] = e[D + i]
                    diff[i] = e[i] - e[D + i]
                for i in range(A):
                    act[n, t, i] = e[i]

                for r in range(RP):
                    z[r] = zero
                for o in range(0, DP, JB):
                    for r in range(RP):
                        acc = z[r]
                        for j in range(JB):
                            acc += Wt[(o + j) * RP + r] * diff[o + j]
                        z[r] = acc
                for r in range(R):
                    delta[n, t, r] = z[r]
                for i in range(3):
                    g = e[2 * D + min(i, rates - 1)]
                    for r in range(i * D, i * D + D):
                        s[r] = z[r] * g
                for r in range(3 * D, R):
                    s[r] = z[r] * e[A - 1]
            for r in range(R):
                for j in range(D):
                    W_final[n, r, j] = Wt[j * RP + r]

    return run


@cache
def backward_kernel(D: int, rates: int, precision: str) -> Kernel:
    """Backward pass over items lo..hi, walking t downwards and rebuilding W_{t-1} from W_t.

    The returned function takes (lo, hi, u, W_final, act, delta, dy [N,T,D], dW_final [N,R,D], du [N,T,D],
    dW [N,R,D]) and fills the last two.
    """
    dtype = DTYPES[precision]
    R, RP, DP, JB = sizes(D, rates)
    zero, one = dtype(0.0), dtype(1.0)

    @numba.njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
    def run(lo, hi, u, W_final, act, delta, dy, dW_final, du, dW):
        T = u.shape[1]
        Wt = np.zeros(DP * RP, dtype)
        G = np.zeros(DP * RP, dtype)
        rate = np.zeros(RP, dtype)
        d = np.zeros(RP, dtype)
        s = np.zeros(RP, dtype)
        ds = np.zeros(RP, dtype)
        ddelta = np.zeros(RP, dtype)
        dz = np.zeros(RP, dtype)
        query = np.zeros(DP, dtype)
        key = np.zeros(DP, dtype)
        now = np.zeros(DP, dtype)
        dquery = np.zeros(DP, dtype)
        dkey = np.zeros(DP, dtype)
        dnow = np.zeros(DP, dtype)
        for n in range(lo, hi):
            for r in range(R):
                for j in range(D):
                    Wt[j * RP + r] = W_final[n, r, j]
                    G[j * RP + r] = dW_final[n, r, j]
            for t in range(T - 1, -1, -1):
                for j in range(D):
                    query[j] = act[n, t, j]
                    key[j] = act[n, t, D + j]
                    now[j] = u[n, t, j]
                for i in range(3):
                    g = act[n, t, 2 * D + min(i, rates - 1)]
                    for r in range(i * D, i * D + D):
                        rate[r] = g
                g = act[n, t, 2 * D + rates - 1]
                for r in range(3 * D, R):
                    rate[r] = g
                for r in range(R):
                    d[r] = delta[n, t, r]
                for r in range(RP):
                    s[r] = d[r] * rate[r]
                    ds[r] = zero
                for o in range(0, DP, JB):
                    for r in range(RP):
                        acc = ds[r]
                        for j in range(JB):
                            acc += G[(o + j) * RP + r] * key[o + j]
                        ds[r] = acc
                for r in range(RP):
                    ddelta[r] = ds[r] * rate[r]

                # W_{t-1}, and every product along the rows of G and W, in one pass over both; four columns
                # at a time share the loads of s and ddelta.
                for j in range(0, DP, 4):
                    c0, c1, c2, c3 = j * RP, (j + 1) * RP, (j + 2) * RP, (j + 3) * RP
                    k0, k1, k2, k3 = key[j], key[j + 1], key[j + 2], key[j + 3]
                    gs0 = gs1 = gs2 = gs3 = zero
                    wd0 = wd1 = wd2 = wd3 = zero
                    for r in range(RP):
                        sr, dr = s[r], ddelta[r]
                        w0 = Wt[c0 + r] - sr * k0
                        w1 = Wt[c1 + r] - sr * k1
                        w2 = Wt[c2 + r] - sr * k2
                        w3 = Wt[c3 + r] - sr * k3
                        Wt[c0 + r], Wt[c1 + r], Wt[c2 + r], Wt[c3 + r] = w0, w1, w2, w3
                        gs0 += G[c0 + r] * sr
                        gs1 += G[c1 + r] * sr
                        gs2 += G[c2 + r] * sr
                        gs3 += G[c3 + r] * sr
                        wd0 += w0 * dr
                        wd1 += w1 * dr
                        wd2 += w2 * dr
                        wd3 += w3 * dr
                    dquery[j], dquery[j + 1], dquery[j + 2], dquery[j + 3] = wd0, wd1, wd2, wd3
                    dkey[j], dkey[j + 1] = gs0 - wd0, gs1 - wd1
                    dkey[j + 2], dkey[j + 3] = gs2 - wd2, gs3 - wd3

                dot_q = zero
                dot_k = zero
                for i in range(D):
                    dot_q += query[i] * dquery[i]
                    dot_k += key[i] * dkey[i]
                for i in range(D):
                    dz[i] = dy[n, t, i]
                for i in range(D):
                    dz[D + i] = query[i] * (dquery[i] - dot_q)
                    dz[2 * D + i] = key[i] * (dkey[i] - dot_k)
                for r in range(RP):
                    d[r] *= ds[r]
                for i in range(rates):
                    dz[3 * D + i] = zero
                for i in range(3):
                    acc = zero
                    for r in range(i * D, i * D + D):
                        acc += d[r]
                    dz[3 * D + min(i, rates - 1)] += acc
                acc = zero
                for r in range(3 * D, R):
                    acc += d[r]
                dz[R - 1] += acc
                for i in range(rates):
                    g = act[n, t, 2 * D + i]
                    dz[3 * D + i] *= g * (one - g)

                for j in range(0, DP, 4):
                    c0, c1, c2, c3 = j * RP, (j + 1) * RP, (j + 2) * RP, (j + 3) * RP
                    x0, x1 = query[j] - key[j], query[j + 1] - key[j + 1]
                    x2, x3 = query[j + 2] - key[j + 2], query[j + 3] - key[j + 3]
                    u0, u1, u2, u3 = now[j], now[j + 1], now[j + 2], now[j + 3]
                    wz0 = wz1 = wz2 = wz3 = zero
                    for r in range(RP):
                        zr, dr = dz[r], ddelta[r]
                        wz0 += Wt[c0 + r] * zr
                        wz1 += Wt[c1 + r] * zr
                        wz2 += Wt[c2 + r] * zr
                        wz3 += Wt[c3 + r] * zr
                        G[c0 + r] += dr * x0 + zr * u0
                        G[c1 + r] += dr * x1 + zr * u1
                        G[c2 + r] += dr * x2 + zr * u2
                        G[c3 + r] += dr * x3 + zr * u3
                    dnow[j], dnow[j + 1], dnow[j + 2], dnow[j + 3] = wz0, wz1, wz2, wz3
                for j in range(D):
                    du[n, t, j] = dnow[j]
            for r in range(R):
                for j in range(D):
                    dW[n, r, j] = G[j * RP + r]

    return run
