"""Backward through the SRWM recurrence as a numba kernel, no W_t ever stored (group.py has the legend).

README.md has the equations. Each step passes over W and its gradient G twice.
"""

from functools import cache

import numpy as np

from autocl.ops.jit import njit
from autocl.ops.srwm.group import AHEAD, FAST, Kernel, dot, pack, prefetch_range, sizes, unpack
from autocl.ops.srwm.simd import broadcast, gather, hsum, hsum4, load, scatter, splat, store


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
