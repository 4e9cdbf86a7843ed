"""Class means, alone or with one covariance for all classes (linear discriminant analysis).

Shape legend: B = streams, Q = queries, F = features, N = classes.
"""

import torch
from torch import Tensor

from autocl.readouts.base import READOUTS, ClassSums, ReadoutConfig, State, means_of


class MeanReadout(ClassSums):
    """Minus the squared distance to each mean (Snell et al. 2017, Eq. 2), over F.

    Example:
        >>> import torch
        >>> readout, f = MeanReadout(1), torch.tensor([[[0.0], [2.0]]])
        >>> state = readout.learn(f, torch.tensor([[0, 1]]), readout.initial_state(1, 2))
        >>> readout.read(torch.tensor([[[0.5]]]), state).tolist()
        [[[-0.25, -2.25]]]
    """

    def read(self, f: Tensor, state: State) -> Tensor:
        """[B, Q, N]. Divided by F so that a softmax of it does not saturate for long features."""
        mean = means_of(state)
        distance = f.square().sum(-1, keepdim=True) - 2 * f @ mean.mT + mean.square().sum(-1)[:, None]
        return -distance / f.shape[-1]


@READOUTS.register("means")
def _means(config: ReadoutConfig, n_features: int, n_classes: int) -> MeanReadout:
    return MeanReadout(n_features)


class LDAReadout(ClassSums):
    """Log posterior under Gaussians with a shared covariance, shrunk towards a multiple of the identity.

    Streaming linear discriminant analysis (Hayes & Kanan 2020).

    The covariance within classes is what remains of Σ f fᵀ when the means' part is taken off, so the state
    is sums and the order of the demos does not matter. Sums are kept in float64: the difference of the two
    is small beside them.

    Args:
        n_features: F.
        shrinkage: share of the identity, scaled to the covariance's mean variance.
    """

    def __init__(self, n_features: int, shrinkage: float) -> None:
        super().__init__(n_features)
        self.shrinkage = shrinkage

    def initial_state(self, batch: int, n_classes: int) -> State:
        """Zeros: class sums, and outer [B, F, F]."""
        sums = super().initial_state(batch, n_classes)
        sums["outer"] = self.zeros(batch, self.n_features, self.n_features)
        return {name: t.double() for name, t in sums.items()}

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Add the demos."""
        f = f.double()
        return {**super().learn(f, y, state), "outer": state["outer"] + f.mT @ f}

    def read(self, f: Tensor, state: State) -> Tensor:
        """Linear in f: wᵀf + b with w = Σ⁻¹μ, b = -½ μᵀΣ⁻¹μ; classes are taken to be equally frequent."""
        mean, count = means_of(state), state["count"]
        scatter = state["outer"] - mean.mT @ (mean * count[..., None])
        covariance = scatter / count.sum(1).clamp(min=1)[:, None, None]
        identity = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
        # A floor keeps the matrix invertible as long as no class has two different demos.
        variance = covariance.diagonal(dim1=1, dim2=2).mean(1).clamp(min=1e-6)[:, None, None]
        shrunk = (1 - self.shrinkage) * covariance + self.shrinkage * variance * identity
        weight = torch.linalg.solve(shrunk, mean.mT)
        bias = -0.5 * (mean.mT * weight).sum(1)
        scores: Tensor = f.double() @ weight + bias[:, None]
        return scores.to(f.dtype)


@READOUTS.register("lda")
def _lda(config: ReadoutConfig, n_features: int, n_classes: int) -> LDAReadout:
    return LDAReadout(n_features, config.shrinkage)
