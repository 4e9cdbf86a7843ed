"""The SRWM recurrence as the paper writes it: the definition that every other backend is tested against.

Shape legend: B = streams, H = heads, T = steps, D = head size, R = rows of the matrix = 3D + rates.
"""

import torch
from torch import Tensor


def step(W: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """One step of Eqs. 1-3: read with the input, then let the matrix rewrite itself.

    Args:
        W: [B, H, R, D], rows in blocks y, q, k, β; β has 4 rows, or 1 when all blocks share a rate.
        u: [B, H, D].

    Returns:
        y [B, H, D], read before the update, and the new W [B, H, R, D].
    """
    D = u.shape[-1]
    rates = W.shape[-2] - 3 * D
    z = torch.einsum("bhrd,bhd->bhr", W, u)
    y, q, k, beta = torch.split(z, [D, D, D, rates], dim=-1)
    q, k = q.softmax(-1), k.softmax(-1)
    v = torch.einsum("bhrd,bhd->bhr", W, q)
    v_bar = torch.einsum("bhrd,bhd->bhr", W, k)
    rate = rate_per_row(beta.sigmoid(), D)
    return y, W + torch.einsum("bhr,bhd->bhrd", rate * (v - v_bar), k)


def rate_per_row(b: Tensor, D: int) -> Tensor:
    """Spread the learning rates [..., 4 or 1] of the blocks y, q, k, β over the rows [..., R]."""
    if b.shape[-1] == 1:
        return b.expand(*b.shape[:-1], 3 * D + 1)
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
