"""Online ridge regression of one-hot labels on features.

Shape legend: B = runs, Q = queries, K = F + 1 keys, N = outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.methods.base import register
from autocl.methods.readout import Readout, Stats, mask_unseen
from autocl.methods.representation import OnFrozenFeatures


class OnlineRidge(Readout):
    """Weights (Σ k kᵀ + λI)⁻¹ Σ k yᵀ, found when a query comes; k = features of unit length and a constant.

    Args:
        penalty: λ, in demos: unit-length features make one demo add 1 to the trace, and its constant 1 more.
    """

    def __init__(self, penalty: float) -> None:
        super().__init__()
        self.penalty = penalty

    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """Zeros: A [B, K, K], C [B, K, N], count [B, N]."""
        keys = n_features + 1
        return {
            "A": torch.zeros(batch, keys, keys),
            "C": torch.zeros(batch, keys, n_outputs),
            "count": torch.zeros(batch, n_outputs),
        }

    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """Add the demos."""
        k, member = _keys(f), F.one_hot(y, stats["count"].shape[1]).to(f.dtype)
        return {
            "A": stats["A"] + k.mT @ k,
            "C": stats["C"] + k.mT @ member,
            "count": stats["count"] + member.sum(1),
        }

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """[B, Q, N], near 1 for the class that is meant."""
        A = stats["A"]
        weights = torch.linalg.solve(A + self.penalty * torch.eye(A.shape[-1]), stats["C"])
        return mask_unseen(_keys(f) @ weights, stats)


def _keys(f: Tensor) -> Tensor:
    return torch.cat([F.normalize(f, dim=-1), torch.ones_like(f[..., :1])], dim=-1)


@register
@dataclass(kw_only=True, eq=False)
class Ridge(OnFrozenFeatures):
    """Online ridge regression on a frozen encoder."""

    name = "ridge"

    penalty: float = 1.0
    """λ."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.penalty <= 0:
            raise InputError(f"penalty must be positive, got {self.penalty}")

    def make_readout(self) -> Readout:
        """Least squares with a penalty."""
        return OnlineRidge(self.penalty)
