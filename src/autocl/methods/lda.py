"""Streaming linear discriminant analysis: class means and one covariance for all (Hayes & Kanan 2020).

Shape legend: B = runs, Q = queries, F = features, N = outputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from autocl.errors import InputError
from autocl.methods.base import register
from autocl.methods.readout import ClassSums, Readout, Stats, mask_unseen, means_of
from autocl.methods.representation import OnFrozenFeatures


class LDAReadout(ClassSums):
    """Log posterior under Gaussians with a shared covariance, shrunk towards a multiple of the identity.

    The covariance within classes is what remains of Σ f fᵀ when the means' part is taken off, so the stats
    are sums and the order of the demos does not matter. Sums are kept in float64: the difference of the two
    is small beside them.

    Args:
        shrinkage: share of the identity, scaled to the covariance's mean variance.
    """

    def __init__(self, shrinkage: float) -> None:
        super().__init__()
        self.shrinkage = shrinkage

    def initial(self, batch: int, n_features: int, n_outputs: int) -> Stats:
        """Zeros: class sums, and outer [B, F, F]."""
        sums = super().initial(batch, n_features, n_outputs)
        sums["outer"] = torch.zeros(batch, n_features, n_features)
        return {name: t.double() for name, t in sums.items()}

    def learn(self, stats: Stats, f: Tensor, y: Tensor) -> Stats:
        """Add the demos."""
        f = f.double()
        return {**super().learn(stats, f, y), "outer": stats["outer"] + f.mT @ f}

    def scores(self, stats: Stats, f: Tensor) -> Tensor:
        """Linear in f: wᵀf + b with w = Σ⁻¹μ, b = -½ μᵀΣ⁻¹μ; classes are taken to be equally frequent."""
        mean, count = means_of(stats), stats["count"]
        scatter = stats["outer"] - mean.mT @ (mean * count[..., None])
        covariance = scatter / count.sum(1).clamp(min=1)[:, None, None]
        identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype)
        # A floor keeps the matrix invertible as long as no class has two different demos.
        variance = covariance.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-6)[:, None, None]
        shrunk = (1 - self.shrinkage) * covariance + self.shrinkage * variance * identity
        weight = torch.linalg.solve(shrunk, mean.mT)
        bias = -0.5 * (mean.mT * weight).sum(1)
        return mask_unseen((f.double() @ weight + bias[:, None]).float(), stats)


@register
@dataclass(kw_only=True, eq=False)
class StreamingLDA(OnFrozenFeatures):
    """Streaming LDA on a frozen encoder."""

    name = "streaming-lda"

    shrinkage: float = 0.1
    """In (0, 1]; 1 is nearest class mean. Hayes & Kanan use 1e-4 with thousands of demos; a few dozen demos
    of 128 features do not determine a covariance."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.shrinkage <= 1:
            raise InputError(f"shrinkage must lie in (0, 1], got {self.shrinkage}")

    def make_readout(self) -> Readout:
        """Class means and a shared covariance."""
        return LDAReadout(self.shrinkage)
