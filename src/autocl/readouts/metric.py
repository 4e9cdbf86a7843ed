"""Inner products in the metric of a scatter, which kernels, ridge regression and discriminants share.

Shape legend: B = streams, M = prototypes, D = dimensions, K = columns of the factor.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class InnerProduct(NamedTuple):
    """⟨u, v⟩ = u A⁻¹ vᵀ for a positive definite A, whose inverse is F Fᵀ, or (I - F Fᵀ) / level."""

    factor: Tensor
    """F, [B, D, K]."""
    level: Tensor | None
    """[B, 1, 1]; None: there is no multiple of identity."""

    def times(self, v: Tensor) -> Tensor:
        """v [B, n, D] -> v A⁻¹."""
        part = (v @ self.factor) @ self.factor.mT
        return part if self.level is None else (v - part) / self.level

    def square(self, u: Tensor) -> Tensor:
        """u [B, m, D] -> ⟨u, u⟩ of each row, [B, m]."""
        part = (u @ self.factor).square().sum(-1)
        return part if self.level is None else (u.square().sum(-1) - part) / self.level[..., 0]


def inner_product(rows: Tensor, level: Tensor, scatter: Tensor | None) -> InnerProduct:
    """The inner product of A = level · I + scatter.

    A scatter that a few rows make differs from zero in their span only, and a matrix of their number is
    inverted instead of one of D (Woodbury): cheap while a stream is short.

    Args:
        rows: [B, M, D].
        level: [B, 1, 1], positive.
        scatter: [B, D, D]; None: rowsᵀ rows.
    """
    whole = rows @ rows.mT if scatter is None else scatter
    eye = torch.eye(len(whole[0]), dtype=rows.dtype, device=rows.device)
    root = torch.linalg.cholesky(whole + level * eye)
    inverse_root = torch.linalg.solve_triangular(root, eye, upper=False).mT
    few = scatter is None
    return InnerProduct(rows.mT @ inverse_root, level) if few else InnerProduct(inverse_root, None)
