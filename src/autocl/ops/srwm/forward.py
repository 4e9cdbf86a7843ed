"""The SRWM recurrence as a numba kernel: one sequential pass per group of items (group.py has the legend).

A step's rank-one update is fused with the next step's read, which halves the traffic on W.
"""

from functools import cache

import numpy as np

from autocl.ops.jit import njit
from autocl.ops.srwm.group import AHEAD, FAST, Kernel, dot, pack, prefetch_range, sizes, unpack
from autocl.ops.srwm.simd import broadcast, exp, gather, hmax, hsum, load, maximum, scatter, splat, store


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
