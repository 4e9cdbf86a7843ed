"""The SRWM recurrence in PyTorch, on any device: as the paper writes it, which is the definition that every
other backend is tested against, and with a backward pass that recomputes.

The second stores per step only the activations and delta = W(φ(q) − φ(k)); W_{t-1} is rebuilt from W_t. The
loop in Python makes it slow, its small memory per step usable where numba and Triton are missing.

Shape legend: B = streams, H = heads, T = steps, D = head size, R = rows of the matrix = 3D + 4.
"""

import torch
from torch import Tensor

from autocl.ops.passes import differentiable


def step(W: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """One step of Eqs. 1-3: read with the input, then let the matrix rewrite itself.

    Args:
        W: [B, H, R, D], rows in blocks y, q, k, β; β has the learning rates of the four.
        u: [B, H, D].

    Returns:
        y [B, H, D], read before the update, and the new W [B, H, R, D].
    """
    D = u.shape[-1]
    z = torch.einsum("bhrd,bhd->bhr", W, u)
    y, q, k, beta = torch.split(z, [D, D, D, 4], dim=-1)
    q, k = q.softmax(-1), k.softmax(-1)
    v = torch.einsum("bhrd,bhd->bhr", W, q)
    v_bar = torch.einsum("bhrd,bhd->bhr", W, k)
    rate = rate_per_row(beta.sigmoid(), D)
    return y, W + torch.einsum("bhr,bhd->bhrd", rate * (v - v_bar), k)


def rate_per_row(b: Tensor, D: int) -> Tensor:
    """Spread the learning rates [..., 4] of the blocks y, q, k, β over the rows [..., R]."""
    y, q, k, beta = torch.split(b, 1, dim=-1)
    wide = (*b.shape[:-1], D)
    return torch.cat([y.expand(wide), q.expand(wide), k.expand(wide), beta.expand(*b.shape[:-1], 4)], dim=-1)


def srwm_naive(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """Run T steps. u [B, H, T, D], W [B, H, R, D] -> y [B, H, T, D], final W [B, H, R, D]."""
    ys = []
    for t in range(u.shape[2]):
        y, W = step(W, u[:, :, t])
        ys.append(y)
    return torch.stack(ys, dim=2), W


def _forward(u: Tensor, W: Tensor, *, save: bool) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
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
    kept = (u, W, torch.stack(acts, dim=2), torch.stack(deltas, dim=2)) if save else ()
    return torch.stack(ys, dim=2), W, kept


def _backward(dy: Tensor, G: Tensor, u: Tensor, W: Tensor, act: Tensor, delta: Tensor) -> tuple[Tensor, ...]:
    D = u.shape[-1]
    du = torch.empty_like(u)
    for t in reversed(range(u.shape[2])):
        q, k, b = torch.split(act[:, :, t], [D, D, 4], dim=-1)
        d, rate = delta[:, :, t], rate_per_row(b, D)
        s = rate * d
        W = W - s[..., None] * k[..., None, :]
        ds = (G @ k[..., None]).squeeze(-1)
        ddelta = rate * ds
        dq = (W.mT @ ddelta[..., None]).squeeze(-1)
        dk = (G.mT @ s[..., None]).squeeze(-1) - dq
        # The transpose of `rate_per_row`: rows summed over each block.
        db = torch.stack([part.sum(-1) for part in torch.split(ds * d, [D, D, D, 4], dim=-1)], dim=-1)
        dz_q = q * (dq - (q * dq).sum(-1, keepdim=True))
        dz_k = k * (dk - (k * dk).sum(-1, keepdim=True))
        dz = torch.cat([dy[:, :, t], dz_q, dz_k, db * b * (1 - b)], dim=-1)
        G = G + ddelta[..., None] * (q - k)[..., None, :] + dz[..., None] * u[:, :, t, None, :]
        du[:, :, t] = (W.mT @ dz[..., None]).squeeze(-1)
    return du, G


def srwm_recompute(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """`srwm_naive` whose gradients need memory linear in T with a small constant."""
    return differentiable(_forward, _backward, u, W)
