"""What the CPU kernels ask of their arrays: whole groups of items, head sizes that are multiples of four.

The usual sizes are already so, and pass as views; others are copied into zeros, and back.
"""

import torch
from torch import Tensor


def group_size(itemsize: int) -> int:
    """Items side by side in the quarter of a 32-byte register: 2 in float32, 1 in float64."""
    return 8 // itemsize


def _blocks(rows: int, D: int) -> list[tuple[slice, slice]]:
    """Where the blocks y, q, k, β of a matrix lie, and where they lie when each of y, q, k is padded."""
    P = -(-D // 4) * 4
    starts = [(0, 0, D), (D, P, D), (2 * D, 2 * P, D), (3 * D, 3 * P, rows - 3 * D)]
    return [(slice(a, a + n), slice(b, b + n)) for a, b, n in starts]


def padded_size(shape: torch.Size, group: int, *, matrix: bool) -> tuple[int, int, int]:
    """[B, H, T, D] -> (N, T, P), or [B, H, R, D] -> (N, 3P + 4, P), with N a multiple of the group."""
    B, H, rows, D = shape
    P = -(-D // 4) * 4
    return -(-B * H // group) * group, 3 * P + 4 if matrix else rows, P


def pad(x: Tensor, group: int, *, matrix: bool = False) -> Tensor:
    """[B, H, T or R, D] -> contiguous, of the padded size; x itself where nothing is missing."""
    B, H, rows, D = x.shape
    size = padded_size(x.shape, group, matrix=matrix)
    if size == (B * H, rows, D):
        return x.contiguous().view(size)
    wide = x.new_zeros(size)
    for source, target in _blocks(rows, D) if matrix else [(slice(rows), slice(rows))]:
        wide[: B * H, target, :D] = x[:, :, source].flatten(0, 1)
    return wide


def crop(wide: Tensor, shape: torch.Size, *, matrix: bool = False) -> Tensor:
    """The inverse of pad, to the given [B, H, T or R, D]."""
    B, H, rows, D = shape
    if wide.shape == (B * H, rows, D):
        return wide.view(shape)
    if matrix:
        wide = torch.cat([wide[:, target] for _, target in _blocks(rows, D)], dim=1)
    return wide[: B * H, :, :D].contiguous().view(shape)
