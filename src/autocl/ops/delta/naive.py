"""The delta rule in PyTorch, on any device: the definition that every other backend is tested against, and
the same with a backward pass that recomputes.

The second stores per step only the error v − W k; W_{t-1} is rebuilt from W_t. See README.md.

Shape legend: B = streams, H = heads, T = steps, D = size of keys and queries, E = size of values.
"""

import torch
from torch import Tensor

from autocl.ops.passes import differentiable


def step(
    W: Tensor, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, *, additive: bool
) -> tuple[Tensor, Tensor]:
    """Write v under the key k, then read with the query q.

    Args:
        W: [B, H, E, D].
        q: [B, H, D].
        k: [B, H, D].
        v: [B, H, E].
        beta: [B, H].
        additive: write v itself, not its difference from what is already stored under k.

    Returns:
        y [B, H, E], read after the update, and the new W.
    """
    error = v if additive else v - torch.einsum("bhed,bhd->bhe", W, k)
    W = W + torch.einsum("bh,bhe,bhd->bhed", beta, error, k)
    return torch.einsum("bhed,bhd->bhe", W, q), W


def delta_naive(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Run T steps; shapes as in `autocl.ops.delta.delta`, W with B streams."""
    ys = []
    for t in range(q.shape[2]):
        y, W = step(W, q[:, :, t], k[:, :, t], v[:, :, t], beta[:, :, t], additive=additive)
        ys.append(y)
    return torch.stack(ys, dim=2), W


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool, save: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    ys, errors = [], []
    for t in range(q.shape[2]):
        error = v[:, :, t] if additive else v[:, :, t] - _times(W, k[:, :, t])
        W = W + _outer(beta[:, :, t, None] * error, k[:, :, t])
        ys.append(_times(W, q[:, :, t]))
        errors.append(error)
    return torch.stack(ys, dim=2), W, (q, k, beta, W, torch.stack(errors, dim=2)) if save else ()


def _backward(
    dy: Tensor, G: Tensor, q: Tensor, k: Tensor, beta: Tensor, W: Tensor, error: Tensor, *, additive: bool
) -> tuple[Tensor, ...]:
    dq, dk, dv, dbeta = (torch.empty_like(x) for x in (q, k, error, beta))
    for t in reversed(range(q.shape[2])):
        key, rate = k[:, :, t], beta[:, :, t, None]
        dq[:, :, t] = _times(W.mT, dy[:, :, t])
        G = G + _outer(dy[:, :, t], q[:, :, t])
        s = rate * error[:, :, t]
        W = W - _outer(s, key)
        ds = _times(G, key)
        derror = rate * ds
        dkey = _times(G.mT, s)
        if not additive:
            dkey = dkey - _times(W.mT, derror)
            G = G - _outer(derror, key)
        dk[:, :, t], dv[:, :, t] = dkey, derror
        dbeta[:, :, t] = (ds * error[:, :, t]).sum(-1)
    return dq, dk, dv, dbeta, G


def _times(M: Tensor, x: Tensor) -> Tensor:
    return (M @ x[..., None]).squeeze(-1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]


def delta_recompute(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """`delta_naive` whose gradients need memory linear in T with a small constant."""
    return differentiable(_forward, _backward, q, k, v, beta, W, additive=additive)
