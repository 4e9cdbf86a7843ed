"""numba kernels of the SRWM recurrence: one sequential pass per group of items, no W_t ever stored.

An item is one head of one stream. Legend: D = head size, P = D rounded up to a multiple of 4, C = P / 4,
R = 3P + 4 rows in blocks y, q, k, β; L items form a group, V = 4L lanes make a register (see lanes.py).

A register holds one column of four consecutive rows of the L items: a vector over the rows is [R/4, 4, L], a
matrix is [R/4, P, 4, L], and what belongs to a column is spread over the four quarters. So no product needs a
sum within a register, except one per column and pass, and W and its gradient of a group stay in the L1 cache
(27 KB for four items of head size 16 would not, beside everything else). A step's rank-one update is fused
with the next step's read, which halves the traffic on W. README.md has the equations.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
import numpy as np

from autocl.ops.srwm.lanes import (
    exp,
    fold,
    gather,
    larger,
    largest,
    load,
    scatter,
    splat,
    spread,
    store,
    total,
    transpose,
)
from autocl.ops.srwm.padding import group_size

# Multiply and add may become one instruction; nothing else about the arithmetic is left to the compiler.
FAST = {"contract"}

DTYPES: dict[str, Any] = {"torch.float32": np.float32, "torch.float64": np.float64}

Kernel = Callable[..., None]


@numba.njit(fastmath=FAST, error_model="numpy")
def enter(W, first, P, R, V, M):
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
def leave(M, first, P, R, V, W):
    """The inverse of enter."""
    base = first * R * P
    for r in range(0, R, 4):
        for j in range(0, P, 4):
            at = (r // 4 * P + j) * V
            rows = transpose(load(M, at), load(M, at + V), load(M, at + 2 * V), load(M, at + 3 * V))
            for i in range(4):
                scatter(W, base + (r + i) * P + j, R * P, rows[i])


@numba.njit(fastmath=FAST, error_model="numpy")
def dot(M, m, x, i, P, V, L):
    """The four rows of M at m times the vector of x at i. One sum would wait for itself: there are four."""
    a = load(M, m) * spread(x, i)
    b = load(M, m + V) * spread(x, i + L)
    c = load(M, m + 2 * V) * spread(x, i + 2 * L)
    d = load(M, m + 3 * V) * spread(x, i + 3 * L)
    for j in range(4, P, 4):
        a = a + load(M, m + j * V) * spread(x, i + j * L)
        b = b + load(M, m + (j + 1) * V) * spread(x, i + (j + 1) * L)
        c = c + load(M, m + (j + 2) * V) * spread(x, i + (j + 2) * L)
        d = d + load(M, m + (j + 3) * V) * spread(x, i + (j + 3) * L)
    return (a + b) + (c + d)


@cache
def forward_kernel(D: int, rates: int, precision: str) -> Kernel:
    """Forward pass over groups lo..hi, specialised to (D, rates, precision).

    The returned function takes (lo, hi, act [N/L, K, 2P+4, L], delta [N/L, K, R, L], u [N, T, P],
    W [N, R, P], y [N, T, P], W_final [N, R, P]) and fills all but u and W. act holds φ(q), φ(k) and the
    learning rates σ(β). K is T, or 1 where nothing is kept for a backward pass.
    """
    dtype = DTYPES[precision]
    L = group_size(np.dtype(dtype).itemsize)
    C, V = -(-D // 4), 4 * L
    P, R = 4 * C, 12 * C + 4
    A = 2 * P + 4
    zero, one, least = dtype(0.0), dtype(1.0), dtype(-1e30)

    @numba.njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
    def run(lo, hi, act, delta, u, W, y, W_final):
        T, K = u.shape[1], act.shape[1]
        act, delta, u, y = act.reshape(-1), delta.reshape(-1), u.reshape(-1), y.reshape(-1)
        W, W_final = W.reshape(-1), W_final.reshape(-1)
        M = np.empty(R * P * L, dtype)
        z = np.empty(R * L, dtype)
        s = np.empty(R * L, dtype)
        key = np.zeros(P * L, dtype)
        x = np.empty(P * L, dtype)
        now = np.empty(P * L, dtype)
        for group in range(lo, hi):
            n = group * L
            enter(W, n, P, R, V, M)
            s[:] = zero
            for t in range(T + 1):
                # The update of step t - 1 (none at t = 0) and the read of step t, in one pass over W: first
                # the β rows, then four rows of each of y, q and k, which share the loads of key and input.
                at = (n * T + min(t, T - 1)) * P
                for j in range(0, P, 4):
                    store(now, j * L, gather(u, at + j, T * P))
                s0, z0 = load(s, 3 * C * V), splat(zero)
                z1 = z2 = z3 = z0
                for j in range(0, P, 4):
                    m = (3 * C * P + j) * V
                    w0 = load(M, m) + s0 * spread(key, j * L)
                    w1 = load(M, m + V) + s0 * spread(key, (j + 1) * L)
                    w2 = load(M, m + 2 * V) + s0 * spread(key, (j + 2) * L)
                    w3 = load(M, m + 3 * V) + s0 * spread(key, (j + 3) * L)
                    store(M, m, w0)
                    store(M, m + V, w1)
                    store(M, m + 2 * V, w2)
                    store(M, m + 3 * V, w3)
                    z0 = z0 + w0 * spread(now, j * L)
                    z1 = z1 + w1 * spread(now, (j + 1) * L)
                    z2 = z2 + w2 * spread(now, (j + 2) * L)
                    z3 = z3 + w3 * spread(now, (j + 3) * L)
                store(z, 3 * C * V, (z0 + z1) + (z2 + z3))
                for i in range(C):
                    s0, s1, s2 = load(s, i * V), load(s, (C + i) * V), load(s, (2 * C + i) * V)
                    z0 = z1 = z2 = splat(zero)
                    for j in range(P):
                        k, v = spread(key, j * L), spread(now, j * L)
                        m0, m1, m2 = (i * P + j) * V, ((C + i) * P + j) * V, ((2 * C + i) * P + j) * V
                        w0 = load(M, m0) + s0 * k
                        w1 = load(M, m1) + s1 * k
                        w2 = load(M, m2) + s2 * k
                        store(M, m0, w0)
                        store(M, m1, w1)
                        store(M, m2, w2)
                        z0 = z0 + w0 * v
                        z1 = z1 + w1 * v
                        z2 = z2 + w2 * v
                    store(z, i * V, z0)
                    store(z, (C + i) * V, z1)
                    store(z, (2 * C + i) * V, z2)
                if t == T:
                    break
                for j in range(0, P, 4):
                    scatter(y, at + j, T * P, load(z, j * L))

                # Both softmaxes; where D is no multiple of 4 the rows that pad it get no weight.
                at = (group * K + min(t, K - 1)) * A * L
                for b in range(2):
                    o, to = (b + 1) * P * L, at + b * P * L
                    for i in range(D * L, P * L):
                        z[o + i] = least
                    top = load(z, o)
                    for i in range(V, P * L, V):
                        top = larger(top, load(z, o + i))
                    top = largest(top)
                    mass = splat(zero)
                    for i in range(0, P * L, V):
                        g = exp(load(z, o + i) - top)
                        store(z, o + i, g)
                        mass = mass + g
                    scale = splat(one) / total(mass)
                    for i in range(D * L, P * L):
                        z[o + i] = zero
                    for i in range(0, P * L, V):
                        store(act, to + i, load(z, o + i) * scale)
                g = exp(splat(zero) - load(z, 3 * P * L))
                store(act, at + 2 * P * L, splat(one) / (splat(one) + g))
                for i in range(0, P * L, V):
                    k = load(act, at + P * L + i)
                    store(key, i, k)
                    store(x, i, load(act, at + i) - k)

                to = (group * K + min(t, K - 1)) * R * L
                at += 2 * P * L
                d0 = dot(M, 3 * C * P * V, x, 0, P, V, L)
                store(delta, to + 3 * C * V, d0)
                store(s, 3 * C * V, d0 * spread(act, at + (rates - 1) * L))
                b0 = spread(act, at)
                b1, b2 = spread(act, at + min(1, rates - 1) * L), spread(act, at + min(2, rates - 1) * L)
                for i in range(C):
                    d0 = d1 = d2 = splat(zero)
                    for j in range(P):
                        v = spread(x, j * L)
                        d0 = d0 + load(M, (i * P + j) * V) * v
                        d1 = d1 + load(M, ((C + i) * P + j) * V) * v
                        d2 = d2 + load(M, ((2 * C + i) * P + j) * V) * v
                    store(delta, to + i * V, d0)
                    store(delta, to + (C + i) * V, d1)
                    store(delta, to + (2 * C + i) * V, d2)
                    store(s, i * V, d0 * b0)
                    store(s, (C + i) * V, d1 * b1)
                    store(s, (2 * C + i) * V, d2 * b2)
            leave(M, n, P, R, V, W_final)

    return run


@cache
def backward_kernel(D: int, rates: int, precision: str) -> Kernel:
    """Backward pass over groups lo..hi, walking t downwards and rebuilding W_{t-1} from W_t.

    The returned function takes (lo, hi, act, delta, u, W_final, dy [N, T, P], dW_final [N, R, P],
    du [N, T, P], dW [N, R, P]) and fills the last two.
    """
    dtype = DTYPES[precision]
    L = group_size(np.dtype(dtype).itemsize)
    C, V = -(-D // 4), 4 * L
    P, R = 4 * C, 12 * C + 4
    A = 2 * P + 4
    zero, one = dtype(0.0), dtype(1.0)

    @numba.njit(nogil=True, fastmath=FAST, error_model="numpy", cache=True)
    def run(lo, hi, act, delta, u, W_final, dy, dW_final, du, dW):
        T = u.shape[1]
        act, delta = act.reshape(-1), delta.reshape(-1)
        u, dy, du = u.reshape(-1), dy.reshape(-1), du.reshape(-1)
        W_final, dW_final, dW = W_final.reshape(-1), dW_final.reshape(-1), dW.reshape(-1)
        M = np.empty(R * P * L, dtype)
        G = np.empty(R * P * L, dtype)
        s = np.empty(R * L, dtype)
        ddelta = np.empty(R * L, dtype)
        dz = np.empty(R * L, dtype)
        x = np.empty(P * L, dtype)
        now = np.empty(P * L, dtype)
        for group in range(lo, hi):
            n = group * L
            enter(W_final, n, P, R, V, M)
            enter(dW_final, n, P, R, V, G)
            for t in range(T - 1, -1, -1):
                query = (group * T + t) * A * L
                key, rate = query + P * L, query + 2 * P * L
                to = (group * T + t) * R * L
                at = (n * T + t) * P
                b0, b3 = spread(act, rate), spread(act, rate + (rates - 1) * L)
                b1, b2 = spread(act, rate + min(1, rates - 1) * L), spread(act, rate + min(2, rates - 1) * L)
                db0 = db1 = db2 = splat(zero)
                ds0 = dot(G, 3 * C * P * V, act, key, P, V, L)
                d0 = load(delta, to + 3 * C * V)
                db3 = ds0 * d0
                store(s, 3 * C * V, d0 * b3)
                store(ddelta, 3 * C * V, ds0 * b3)
                for i in range(C):
                    ds0 = ds1 = ds2 = splat(zero)
                    for j in range(P):
                        k = spread(act, key + j * L)
                        ds0 = ds0 + load(G, (i * P + j) * V) * k
                        ds1 = ds1 + load(G, ((C + i) * P + j) * V) * k
                        ds2 = ds2 + load(G, ((2 * C + i) * P + j) * V) * k
                    d0, d1 = load(delta, to + i * V), load(delta, to + (C + i) * V)
                    d2 = load(delta, to + (2 * C + i) * V)
                    store(s, i * V, d0 * b0)
                    store(s, (C + i) * V, d1 * b1)
                    store(s, (2 * C + i) * V, d2 * b2)
                    store(ddelta, i * V, ds0 * b0)
                    store(ddelta, (C + i) * V, ds1 * b1)
                    store(ddelta, (2 * C + i) * V, ds2 * b2)
                    db0 = db0 + ds0 * d0
                    db1 = db1 + ds1 * d1
                    db2 = db2 + ds2 * d2
                if rates == 1:
                    db0 = db0 + db1 + db2 + db3
                    db1 = db2 = db3 = splat(zero)
                b0 = load(act, rate)
                store(dz, 3 * C * V, fold(db0, db1, db2, db3) * b0 * (splat(one) - b0))

                # W_{t-1}, and every product along the rows of G and W, in one pass over both; four columns
                # at a time share the loads of s and ddelta.
                dot_q = dot_k = splat(zero)
                for j in range(0, P, 4):
                    k0, k1 = spread(act, key + j * L), spread(act, key + (j + 1) * L)
                    k2, k3 = spread(act, key + (j + 2) * L), spread(act, key + (j + 3) * L)
                    gs0 = gs1 = gs2 = gs3 = splat(zero)
                    wd0 = wd1 = wd2 = wd3 = splat(zero)
                    for r in range(R // 4):
                        sr, dr = load(s, r * V), load(ddelta, r * V)
                        m = (r * P + j) * V
                        w0 = load(M, m) - sr * k0
                        store(M, m, w0)
                        wd0 = wd0 + w0 * dr
                        w1 = load(M, m + V) - sr * k1
                        store(M, m + V, w1)
                        wd1 = wd1 + w1 * dr
                        w2 = load(M, m + 2 * V) - sr * k2
                        store(M, m + 2 * V, w2)
                        wd2 = wd2 + w2 * dr
                        w3 = load(M, m + 3 * V) - sr * k3
                        store(M, m + 3 * V, w3)
                        wd3 = wd3 + w3 * dr
                        gs0 = gs0 + load(G, m) * sr
                        gs1 = gs1 + load(G, m + V) * sr
                        gs2 = gs2 + load(G, m + 2 * V) * sr
                        gs3 = gs3 + load(G, m + 3 * V) * sr
                    dq = fold(wd0, wd1, wd2, wd3)
                    dk = fold(gs0, gs1, gs2, gs3) - dq
                    q, k = load(act, query + j * L), load(act, key + j * L)
                    dot_q = dot_q + q * dq
                    dot_k = dot_k + k * dk
                    store(x, j * L, q - k)
                    store(dz, (P + j) * L, dq)
                    store(dz, (2 * P + j) * L, dk)
                    store(dz, j * L, gather(dy, at + j, T * P))
                    store(now, j * L, gather(u, at + j, T * P))
                dot_q, dot_k = total(dot_q), total(dot_k)
                for i in range(P * L, 2 * P * L, V):
                    store(dz, i, (load(dz, i) - dot_q) * load(act, query + i - P * L))
                    store(dz, P * L + i, (load(dz, P * L + i) - dot_k) * load(act, query + i))

                for j in range(0, P, 4):
                    x0, x1 = spread(x, j * L), spread(x, (j + 1) * L)
                    x2, x3 = spread(x, (j + 2) * L), spread(x, (j + 3) * L)
                    u0, u1 = spread(now, j * L), spread(now, (j + 1) * L)
                    u2, u3 = spread(now, (j + 2) * L), spread(now, (j + 3) * L)
                    wz0 = wz1 = wz2 = wz3 = splat(zero)
                    for r in range(R // 4):
                        zr, dr = load(dz, r * V), load(ddelta, r * V)
                        m = (r * P + j) * V
                        wz0 = wz0 + load(M, m) * zr
                        wz1 = wz1 + load(M, m + V) * zr
                        wz2 = wz2 + load(M, m + 2 * V) * zr
                        wz3 = wz3 + load(M, m + 3 * V) * zr
                        store(G, m, load(G, m) + dr * x0 + zr * u0)
                        store(G, m + V, load(G, m + V) + dr * x1 + zr * u1)
                        store(G, m + 2 * V, load(G, m + 2 * V) + dr * x2 + zr * u2)
                        store(G, m + 3 * V, load(G, m + 3 * V) + dr * x3 + zr * u3)
                    scatter(du, at + j, T * P, fold(wz0, wz1, wz2, wz3))
            leave(G, n, P, R, V, dW)

    return run
