"""The SRWM recurrence in plain PyTorch with a recomputing backward pass: any device, no compiler.

Stores per step only the activations and delta = W(φ(q) − φ(k)); W_{t-1} is rebuilt from W_t. The loop in
Python makes it slow, and its constant memory per step makes it usable where numba or Triton are missing.
"""

from typing import Any

import torch
from torch import Tensor

from autocl.ops.srwm.naive import rate_per_row


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        D = u.shape[-1]
        ys, acts, deltas = [], [], []
        for t in range(u.shape[2]):
            z = (W @ u[:, :, t, :, None]).squeeze(-1)
            q, k = z[..., D : 2 * D].softmax(-1), z[..., 2 * D : 3 * D].softmax(-1)
            b = z[..., 3 * D :].sigmoid()
            delta = (W @ (q - k)[..., None]).squeeze(-1)
            W = W + (rate_per_row(b, D) * delta)[..., None] * k[..., None, :]
            ys.append(z[..., :D])
            acts.append(torch.cat([q, k, b], dim=-1))
            deltas.append(delta)
        ctx.save_for_backward(u, W, torch.stack(acts, dim=2), torch.stack(deltas, dim=2))
        return torch.stack(ys, dim=2), W

    @staticmethod
    def backward(ctx: Any, dy: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
        u, W, act, delta = ctx.saved_tensors
        D = u.shape[-1]
        rates = act.shape[-1] - 2 * D
        du = torch.empty_like(u)
        for t in reversed(range(u.shape[2])):
            q, k, b = torch.split(act[:, :, t], [D, D, rates], dim=-1)
            d, rate = delta[:, :, t], rate_per_row(b, D)
            s = rate * d
            W = W - s[..., None] * k[..., None, :]
            ds = (G @ k[..., None]).squeeze(-1)
            ddelta = rate * ds
            dq = (W.mT @ ddelta[..., None]).squeeze(-1)
            dk = (G.mT @ s[..., None]).squeeze(-1) - dq
            db = _sum_blocks(ds * d, D, rates)
            dz = torch.cat(
                [
                    dy[:, :, t],
                    q * (dq - (q * dq).sum(-1, keepdim=True)),
                    k * (dk - (k * dk).sum(-1, keepdim=True)),
                    db * b * (1 - b),
                ],
                dim=-1,
            )
            G = G + ddelta[..., None] * (q - k)[..., None, :] + dz[..., None] * u[:, :, t, None, :]
            du[:, :, t] = (W.mT @ dz[..., None]).squeeze(-1)
        return du, G


def _sum_blocks(x: Tensor, D: int, rates: int) -> Tensor:
    """The transpose of `rate_per_row`: [..., R] summed over the rows that share a learning rate."""
    if rates == 1:
        return x.sum(-1, keepdim=True)
    return torch.stack([part.sum(-1) for part in torch.split(x, [D, D, D, rates], dim=-1)], dim=-1)


def srwm_recompute(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """u [B, H, T, D], W [B, H, R, D] -> y [B, H, T, D], final W [B, H, R, D]."""
    y, W_final = _Recompute.apply(u, W)  # type: ignore[no-untyped-call]
    return y, W_final
