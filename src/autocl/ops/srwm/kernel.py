"""The SRWM recurrence as numba kernels: one sequential pass per group of items (group.py has the legend).

Forwards, a step's rank-one update is fused with the next step's read, which halves the traffic on W.
Backwards, no W_t was ever stored (README.md has the equations), and each step passes over W and its gradient
G twice.
"""

from functools import cache

import numpy as np

from autocl.ops.jit import njit
from autocl.ops.srwm.group import AHEAD, FAST, Kernel, dot, pack, prefetch_range, sizes, unpack
from autocl.ops.srwm.simd import (
    broadcast,
    exp,
    gather,
    hmax,
    hsum,
    hsum4,
    load,
    maximum,
    scatter,
    splat,
    store,
)  # fmt: skip


@cache
def forward_kernel(D: int, precision: str) -> Kernel:
    """Forward pass over groups lo..hi, specialised to (D, precision).

    The returned function takes (lo, hi, act [N/L, K, 2P+4, L], delta [N/L, K, R, L], u [N, T, P],
    W [N, R, P], y [N, T, P], W_final [N, R, P]) and fills all but u and W. act holds φ(q), φ(k) and the
    learning rates σ(β). K is T, or 1 where nothing is kept for a backward pass.
    """
    dtype, L, C, line = sizes(D, precision)
    V, P, R, A = 4 * L, 4 * C, 12 * C + 4, 8 * C + 4
    zero, one, least = dtype(0.0), dtype(1.0), dtype(-1e30)

    @njit(nogil=True, fastmath=FAST, error_model="numpy")
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
            pack(W, n, P, R, V, M)
            s[:] = zero
            for t in range(T + 1):
                # The update of step t - 1 (none at t = 0) and the read of step t, in one pass over W: first
                # the β rows, then three registers of rows at a time, which share the loads of key and input.
                at = (n * T + min(t, T - 1)) * P
                for i in range(L):
                    prefetch_range(u, at + AHEAD * P + i * T * P, P, line)
                    prefetch_range(y, at + AHEAD * P + i * T * P, P, line)
                for j in range(0, P, 4):
                    store(now, j * L, gather(u, at + j, T * P))
                s0, z0 = load(s, 3 * C * V), splat(zero)
                z1 = z2 = z3 = z0
                for j in range(0, P, 4):
                    m = (3 * C * P + j) * V
                    w0 = load(M, m) + s0 * broadcast(key, j * L)
                    w1 = load(M, m + V) + s0 * broadcast(key, (j + 1) * L)
                    w2 = load(M, m + 2 * V) + s0 * broadcast(key, (j + 2) * L)
                    w3 = load(M, m + 3 * V) + s0 * broadcast(key, (j + 3) * L)
                    store(M, m, w0)
                    store(M, m + V, w1)
                    store(M, m + 2 * V, w2)
                    store(M, m + 3 * V, w3)
                    z0 = z0 + w0 * broadcast(now, j * L)
                    z1 = z1 + w1 * broadcast(now, (j + 1) * L)
                    z2 = z2 + w2 * broadcast(now, (j + 2) * L)
                    z3 = z3 + w3 * broadcast(now, (j + 3) * L)
                store(z, 3 * C * V, (z0 + z1) + (z2 + z3))
                for r in range(0, 3 * C, 3):
                    m = r * P * V
                    s0, s1, s2 = load(s, r * V), load(s, (r + 1) * V), load(s, (r + 2) * V)
                    z0 = z1 = z2 = splat(zero)
                    for j in range(P):
                        k, v = broadcast(key, j * L), broadcast(now, j * L)
                        m0, m1, m2 = m + j * V, m + (P + j) * V, m + (2 * P + j) * V
                        w0 = load(M, m0) + s0 * k
                        w1 = load(M, m1) + s1 * k
                        w2 = load(M, m2) + s2 * k
                        store(M, m0, w0)
                        store(M, m1, w1)
                        store(M, m2, w2)
                        z0 = z0 + w0 * v
                        z1 = z1 + w1 * v
                        z2 = z2 + w2 * v
                    store(z, r * V, z0)
                    store(z, (r + 1) * V, z1)
                    store(z, (r + 2) * V, z2)
                if t == T:
                    break
                for j in range(0, P, 4):
                    scatter(y, at + j, T * P, load(z, j * L))

                # Both softmaxes; where D is no multiple of 4 the rows that pad it get no weight.
                at = (group * K + min(t, K - 1)) * A * L
                prefetch_range(act, at + AHEAD * A * L, A * L, line)
                for i in range(D * L, P * L):
                    z[P * L + i] = z[2 * P * L + i] = least
                top_q, top_k = load(z, P * L), load(z, 2 * P * L)
                for i in range(V, P * L, V):
                    top_q = maximum(top_q, load(z, P * L + i))
                    top_k = maximum(top_k, load(z, 2 * P * L + i))
                top_q, top_k = hmax(top_q), hmax(top_k)
                rate = splat(one) / (splat(one) + exp(splat(zero) - load(z, 3 * P * L)))
                store(act, at + 2 * P * L, rate)
                mass_q = mass_k = splat(zero)
                for i in range(0, P * L, V):
                    q, k = exp(load(z, P * L + i) - top_q), exp(load(z, 2 * P * L + i) - top_k)
                    store(x, i, q)
                    store(key, i, k)
                    mass_q = mass_q + q
                    mass_k = mass_k + k
                for i in range(D * L, P * L):
                    x[i] = key[i] = zero
                scale_q, scale_k = splat(one) / hsum(mass_q), splat(one) / hsum(mass_k)
                for i in range(0, P * L, V):
                    q, k = load(x, i) * scale_q, load(key, i) * scale_k
                    store(x, i, q - k)
                    store(key, i, k)
                    store(act, at + i, q)
                    store(act, at + P * L + i, k)

                to = (group * K + min(t, K - 1)) * R * L
                prefetch_range(delta, to + AHEAD * R * L, R * L, line)
                at += 2 * P * L
                # δ, six registers of rows at a time, which share the load of x; then s.
                for r in range(0, R // 24 * 6, 6):
                    m = r * P * V
                    d0 = d1 = d2 = d3 = d4 = d5 = splat(zero)
                    for j in range(P):
                        v = broadcast(x, j * L)
                        d0 = d0 + load(M, m + j * V) * v
                        d1 = d1 + load(M, m + (P + j) * V) * v
                        d2 = d2 + load(M, m + (2 * P + j) * V) * v
                        d3 = d3 + load(M, m + (3 * P + j) * V) * v
                        d4 = d4 + load(M, m + (4 * P + j) * V) * v
                        d5 = d5 + load(M, m + (5 * P + j) * V) * v
                    store(delta, to + r * V, d0)
                    store(delta, to + (r + 1) * V, d1)
                    store(delta, to + (r + 2) * V, d2)
                    store(delta, to + (r + 3) * V, d3)
                    store(delta, to + (r + 4) * V, d4)
                    store(delta, to + (r + 5) * V, d5)
                for r in range(R // 24 * 6, R // 4):
                    store(delta, to + r * V, dot(M, r * P * V, x, 0, P, V, L))
                b0, b1 = broadcast(act, at), broadcast(act, at + L)
                b2, b3 = broadcast(act, at + 2 * L), broadcast(act, at + 3 * L)
                for i in range(C):
                    store(s, i * V, load(delta, to + i * V) * b0)
                    store(s, (C + i) * V, load(delta, to + (C + i) * V) * b1)
                    store(s, (2 * C + i) * V, load(delta, to + (2 * C + i) * V) * b2)
                store(s, 3 * C * V, load(delta, to + 3 * C * V) * b3)
            unpack(M, n, P, R, V, W_final)

    return run


@cache
def backward_kernel(D: int, precision: str) -> Kernel:
    """Backward pass over groups lo..hi, walking t downwards and rebuilding W_{t-1} from W_t.

    The returned function takes (lo, hi, act, delta, u, W_final, dy [N, T, P], dW_final [N, R, P],
    du [N, T, P], dW [N, R, P]) and fills the last two.
    """
    dtype, L, C, line = sizes(D, precision)
    V, P, R, A = 4 * L, 4 * C, 12 * C + 4, 8 * C + 4
    zero, one = dtype(0.0), dtype(1.0)

    @njit(nogil=True, fastmath=FAST, error_model="numpy")
    def run(lo, hi, act, delta, u, W_final, dy, dW_final, du, dW):
        T = u.shape[1]
        act, delta = act.reshape(-1), delta.reshape(-1)
        u, dy, du = u.reshape(-1), dy.reshape(-1), du.reshape(-1)
        W_final, dW_final, dW = W_final.reshape(-1), dW_final.reshape(-1), dW.reshape(-1)
        M = np.empty(R * P * L, dtype)
        G = np.empty(R * P * L, dtype)
        s = np.empty(R * L, dtype)
        ds = np.empty(R * L, dtype)
        ddelta = np.empty(R * L, dtype)
        dz = np.empty(R * L, dtype)
        x = np.empty(P * L, dtype)
        now = np.empty(P * L, dtype)
        for group in range(lo, hi):
            n = group * L
            pack(W_final, n, P, R, V, M)
            pack(dW_final, n, P, R, V, G)
            last = (group * T + T - 1) * A * L + P * L
            for r in range(R // 4):
                store(ds, r * V, dot(G, r * P * V, act, last, P, V, L))
            for t in range(T - 1, -1, -1):
                query = (group * T + t) * A * L
                key, rate = query + P * L, query + 2 * P * L
                to = (group * T + t) * R * L
                at = (n * T + t) * P
                prefetch_range(act, query - AHEAD * A * L, A * L, line)
                prefetch_range(delta, to - AHEAD * R * L, R * L, line)
                for i in range(L):
                    prefetch_range(u, at - AHEAD * P + i * T * P, P, line)
                    prefetch_range(dy, at - AHEAD * P + i * T * P, P, line)
                    prefetch_range(du, at - AHEAD * P + i * T * P, P, line)
                b0, b1 = broadcast(act, rate), broadcast(act, rate + L)
                b2, b3 = broadcast(act, rate + 2 * L), broadcast(act, rate + 3 * L)
                d3, ds3 = load(delta, to + 3 * C * V), load(ds, 3 * C * V)
                store(s, 3 * C * V, d3 * b3)
                store(ddelta, 3 * C * V, ds3 * b3)
                db0 = db1 = db2 = splat(zero)
                db3 = ds3 * d3
                for i in range(C):
                    d0, ds0 = load(delta, to + i * V), load(ds, i * V)
                    d1, ds1 = load(delta, to + (C + i) * V), load(ds, (C + i) * V)
                    d2, ds2 = load(delta, to + (2 * C + i) * V), load(ds, (2 * C + i) * V)
                    store(s, i * V, d0 * b0)
                    store(s, (C + i) * V, d1 * b1)
                    store(s, (2 * C + i) * V, d2 * b2)
                    store(ddelta, i * V, ds0 * b0)
                    store(ddelta, (C + i) * V, ds1 * b1)
                    store(ddelta, (2 * C + i) * V, ds2 * b2)
                    db0 = db0 + ds0 * d0
                    db1 = db1 + ds1 * d1
                    db2 = db2 + ds2 * d2
                b0 = load(act, rate)
                store(dz, 3 * C * V, hsum4(db0, db1, db2, db3) * b0 * (splat(one) - b0))

                # W_{t-1}, and every product along the rows of G and W, in one pass over both; four columns
                # at a time share the loads of s and ddelta.
                dot_q = dot_k = splat(zero)
                for j in range(0, P, 4):
                    k0, k1 = broadcast(act, key + j * L), broadcast(act, key + (j + 1) * L)
                    k2, k3 = broadcast(act, key + (j + 2) * L), broadcast(act, key + (j + 3) * L)
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
                    dq = hsum4(wd0, wd1, wd2, wd3)
                    dk = hsum4(gs0, gs1, gs2, gs3) - dq
                    q, k = load(act, query + j * L), load(act, key + j * L)
                    dot_q = dot_q + q * dq
                    dot_k = dot_k + k * dk
                    store(x, j * L, q - k)
                    store(dz, (P + j) * L, dq)
                    store(dz, (2 * P + j) * L, dk)
                    store(dz, j * L, gather(dy, at + j, T * P))
                    store(now, j * L, gather(u, at + j, T * P))
                dot_q, dot_k = hsum(dot_q), hsum(dot_k)
                for i in range(P * L, 2 * P * L, V):
                    store(dz, i, (load(dz, i) - dot_q) * load(act, query + i - P * L))
                    store(dz, P * L + i, (load(dz, P * L + i) - dot_k) * load(act, query + i))

                # ∂u, the new G, and what the step before will ask first: G times its key.
                before = (group * T + max(t - 1, 0)) * A * L + P * L
                ds[:] = zero
                for j in range(0, P, 4):
                    x0, x1 = broadcast(x, j * L), broadcast(x, (j + 1) * L)
                    x2, x3 = broadcast(x, (j + 2) * L), broadcast(x, (j + 3) * L)
                    u0, u1 = broadcast(now, j * L), broadcast(now, (j + 1) * L)
                    u2, u3 = broadcast(now, (j + 2) * L), broadcast(now, (j + 3) * L)
                    k0, k1 = broadcast(act, before + j * L), broadcast(act, before + (j + 1) * L)
                    k2, k3 = broadcast(act, before + (j + 2) * L), broadcast(act, before + (j + 3) * L)
                    wz0 = wz1 = wz2 = wz3 = splat(zero)
                    for r in range(R // 4):
                        zr, dr = load(dz, r * V), load(ddelta, r * V)
                        m = (r * P + j) * V
                        wz0 = wz0 + load(M, m) * zr
                        wz1 = wz1 + load(M, m + V) * zr
                        wz2 = wz2 + load(M, m + 2 * V) * zr
                        wz3 = wz3 + load(M, m + 3 * V) * zr
                        g0 = load(G, m) + dr * x0 + zr * u0
                        g1 = load(G, m + V) + dr * x1 + zr * u1
                        g2 = load(G, m + 2 * V) + dr * x2 + zr * u2
                        g3 = load(G, m + 3 * V) + dr * x3 + zr * u3
                        store(G, m, g0)
                        store(G, m + V, g1)
                        store(G, m + 2 * V, g2)
                        store(G, m + 3 * V, g3)
                        store(ds, r * V, load(ds, r * V) + g0 * k0 + g1 * k1 + g2 * k2 + g3 * k3)
                    scatter(du, at + j, T * P, hsum4(wz0, wz1, wz2, wz3))
            unpack(G, n, P, R, V, dW)

    return run
