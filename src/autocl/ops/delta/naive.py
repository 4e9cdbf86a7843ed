"""The delta rule, step by step. The definition every other backend is tested against.

Shape legend: B = streams, H = heads, T = steps, D = size of keys and queries, E = size of values.
"""

import torch
from torch import Tensor


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
