# numba's kernels are untyped:
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs
"""The delta rule on CPUs, by numba kernels.

One sequential pass per (stream, head), no W_t ever stored. W is kept transposed, [D, E], so that the inner
loops run over rows and become vector instructions. A step's update, its read with the query and the next
step's read with its key are one pass over W. See README.md for the equations.
"""

from functools import partial

import numpy as np
import torch
from torch import Tensor

from autocl.ops.delta.naive import delta_naive
from autocl.ops.jit import njit
from autocl.ops.passes import differentiable
from autocl.ops.threads import flatten_heads, in_threads

# Reassociation and contraction are what vectorising a sum needs; NaN and infinity keep their meaning.
FAST = {"reassoc", "contract", "nsz"}


@njit(nogil=True, fastmath=FAST)
def forward_kernel(additive, lo, hi, q, k, v, beta, W, y, error, W_final):
    """Fill y, error [N, T, E] and W_final [N, E, D] for items lo..hi of N = batch x heads.

    From q, k [N, T, D], v [N, T, E], beta [N, T] and W [N, E, D].
    """
    T, D = q.shape[1:]
    E = error.shape[2]
    dtype = q.dtype
    zero = dtype.type(0)
    Wt = np.zeros(D * E, dtype)
    held = np.zeros(E, dtype)
    s = np.zeros(E, dtype)
    out = np.zeros(E, dtype)
    for n in range(lo, hi):
        for e in range(E):
            for j in range(D):
                Wt[j * E + e] = W[n, e, j]
        for e in range(E):
            held[e] = zero
        for j in range(D):
            kj = k[n, 0, j]
            for e in range(E):
                held[e] += Wt[j * E + e] * kj
        for t in range(T):
            for e in range(E):
                d = v[n, t, e] if additive else v[n, t, e] - held[e]
                error[n, t, e] = d
                s[e] = beta[n, t] * d
            for e in range(E):
                out[e] = zero
                held[e] = zero
            following = min(t + 1, T - 1)  # after the last step what the key reads is thrown away
            for j in range(D):
                kj = k[n, t, j]
                qj = q[n, t, j]
                next_kj = k[n, following, j]
                for e in range(E):
                    w = Wt[j * E + e] + s[e] * kj
                    Wt[j * E + e] = w
                    out[e] += w * qj
                    held[e] += w * next_kj
            for e in range(E):
                y[n, t, e] = out[e]
        for e in range(E):
            for j in range(D):
                W_final[n, e, j] = Wt[j * E + e]


@njit(nogil=True, fastmath=FAST)
def backward_kernel(additive, lo, hi, q, k, beta, error, W_final, dy, dW_final, dq, dk, dv, dbeta, dW):
    """Fill dq, dk, dv, dbeta, dW for items lo..hi, walking t downwards and rebuilding W_{t-1} from W_t."""
    T, D = q.shape[1:]
    E = error.shape[2]
    dtype = q.dtype
    zero = dtype.type(0)
    Wt = np.zeros(D * E, dtype)
    G = np.zeros(D * E, dtype)
    s = np.zeros(E, dtype)
    ds = np.zeros(E, dtype)
    derror = np.zeros(E, dtype)
    out = np.zeros(E, dtype)
    for n in range(lo, hi):
        for e in range(E):
            for j in range(D):
                Wt[j * E + e] = W_final[n, e, j]
                G[j * E + e] = dW_final[n, e, j]
        for t in range(T - 1, -1, -1):
            b = beta[n, t]
            for e in range(E):
                s[e] = b * error[n, t, e]
                out[e] = dy[n, t, e]
            for e in range(E):
                ds[e] = zero
            # Through the read, back to W_{t-1}, and the gradient of the step, in one pass.
            for j in range(D):
                kj = k[n, t, j]
                qj = q[n, t, j]
                dqj = zero
                for e in range(E):
                    w = Wt[j * E + e]
                    dqj += w * out[e]
                    Wt[j * E + e] = w - s[e] * kj
                    g = G[j * E + e] + out[e] * qj
                    G[j * E + e] = g
                    ds[e] += g * kj
                dq[n, t, j] = dqj
            db = zero
            for e in range(E):
                derror[e] = b * ds[e]
                dv[n, t, e] = derror[e]
                db += ds[e] * error[n, t, e]
            dbeta[n, t] = db
            for j in range(D):
                kj = k[n, t, j]
                dkj = zero
                for e in range(E):
                    g = G[j * E + e]
                    if additive:
                        dkj += g * s[e]
                    else:
                        dkj += g * s[e] - Wt[j * E + e] * derror[e]
                        G[j * E + e] = g - derror[e] * kj
                dk[n, t, j] = dkj
        for e in range(E):
            for j in range(D):
                dW[n, e, j] = G[j * E + e]


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool, save: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """y, W_final, and behind them the error v − W k of every step (v itself when additive)."""
    y, error, W_final = v.new_empty(v.shape), v.new_empty(v.shape), W.new_empty(W.shape)
    arrays = map(flatten_heads, (q, k, v, beta, W, y, error, W_final))
    in_threads(partial(forward_kernel, additive), q.shape[2], *arrays)
    return y, W_final, (q, k, beta, error, W_final)


def _backward(dy: Tensor, dW_final: Tensor, *kept: Tensor, additive: bool) -> tuple[Tensor, ...]:
    q, k, beta, error, W_final = kept
    gradients = [x.new_empty(x.shape) for x in (q, k, error, beta, W_final)]  # whatever the strides
    arrays = map(flatten_heads, (*kept, dy, dW_final, *gradients))
    in_threads(partial(backward_kernel, additive), q.shape[2], *arrays)
    return tuple(gradients)


def delta_cpu(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Shapes as in `autocl.ops.delta.delta`, W with B streams."""
    if torch.compiler.is_compiling():  # torch.compile and torch.export do not see into numba's kernels
        return delta_naive(q, k, v, beta, W, additive=additive)
    return differentiable(_forward, _backward, q, k, v, beta, W, additive=additive)
