"""The delta rule in plain PyTorch with a recomputing backward pass: any device, no compiler.

Stores per step only the error v − W k; W_{t-1} is rebuilt from W_t. See README.md.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, additive: bool
    ) -> tuple[Tensor, Tensor]:
        ys, errors = [], []
        for t in range(q.shape[2]):
            error = v[:, :, t] if additive else v[:, :, t] - _times(W, k[:, :, t])
            W = W + _outer(beta[:, :, t, None] * error, k[:, :, t])
            ys.append(_times(W, q[:, :, t]))
            errors.append(error)
        ctx.save_for_backward(q, k, beta, W, torch.stack(errors, dim=2))
        ctx.additive = additive
        return torch.stack(ys, dim=2), W

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        dy, G = grad_outputs
        q, k, beta, W, error = ctx.saved_tensors
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
            if not ctx.additive:
                dkey = dkey - _times(W.mT, derror)
                G = G - _outer(derror, key)
            dk[:, :, t], dv[:, :, t] = dkey, derror
            dbeta[:, :, t] = (ds * error[:, :, t]).sum(-1)
        return dq, dk, dv, dbeta, G, None


def _times(M: Tensor, x: Tensor) -> Tensor:
    return (M @ x[..., None]).squeeze(-1)


def _outer(a: Tensor, b: Tensor) -> Tensor:
    return a[..., :, None] * b[..., None, :]


def delta_recompute(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Shapes as in `autocl.ops.delta.delta`, W with B streams."""
    y, W_final = _Recompute.apply(q, k, v, beta, W, additive)  # type: ignore[no-untyped-call]
    return y, W_final
