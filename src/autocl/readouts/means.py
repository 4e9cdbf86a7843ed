"""Class statistics: means, with one covariance for all classes (LDA), or with a prior for each (GeMCL).

Shape legend: B = streams, Q = queries, F = features, N = classes.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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


class NormalGamma(ClassSums):
    """Posterior of every feature's mean and precision in each class, and what it says about a query.

    Prior: precision λ ~ Gamma(α, β), mean μ ~ N(m, 1/(κλ)), for each feature on its own; α, β, κ and m are
    meta-learned together with the encoder and shared by all classes. Three sums per class are sufficient, so
    the order of the demos does not matter and a new class changes nothing about the others: what can be
    forgotten is only what classes share, which is nothing in the class scenario.

    Args:
        n_features: F.
        bayesian: answer with the posterior predictive, a Student t; otherwise with the Gaussian at the
            posterior's mode (MAP).
    """

    per_class = {"count": 1, "sum": 1, "square": 1}  # noqa: RUF012 (a ClassVar of Readout)

    def __init__(self, n_features: int, *, bayesian: bool) -> None:
        super().__init__(n_features)
        self.bayesian = bayesian
        # α starts above ½ so that the posterior has a mode whatever is learned: see `_prior`.
        self.raw_alpha = nn.Parameter(torch.full((n_features,), 1.0))
        self.raw_beta = nn.Parameter(torch.zeros(n_features))
        self.raw_kappa = nn.Parameter(torch.full((), -3.0))
        self.centre = nn.Parameter(torch.zeros(n_features))

    def initial_state(self, batch: int, n_classes: int) -> State:
        """Zeros: count [B, N], sum and square [B, N, F]."""
        sums = super().initial_state(batch, n_classes)
        return {**sums, "square": torch.zeros_like(sums["sum"])}

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Add the demos."""
        member = F.one_hot(y, state["count"].shape[1]).to(f.dtype)
        return {**super().learn(f, y, state), "square": state["square"] + member.mT @ f.square()}

    def posterior(self, state: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """m, κ, α, β after the demos; m and β [B, N, F], κ [B, N, 1], α [B, N, F]."""
        m0, kappa0, alpha0, beta0 = self._prior()
        n = state["count"][..., None]
        kappa, alpha = kappa0 + n, alpha0 + n / 2
        m = (kappa0 * m0 + state["sum"]) / kappa
        # ½ (Σx² + κ₀m₀² - κm²) is ½ the scatter about the new mean; rounding must not make it negative.
        scatter = state["square"] + kappa0 * m0.square() - kappa * m.square()
        return m, kappa, alpha, beta0 + scatter.clamp(min=0) / 2

    def read(self, f: Tensor, state: State) -> Tensor:
        """Log density of each query under each class, [B, Q, N]."""
        m, kappa, alpha, beta = self.posterior(state)
        if not self.bayesian:
            precision = (alpha - 0.5) / beta
            constant = 0.5 * (precision.log() - math.log(2 * math.pi)).sum(-1)
            far = _weighted_square(f, m, precision)
            return constant[:, None] - 0.5 * far
        scale = beta * (kappa + 1) / (alpha * kappa)
        constant = (
            torch.lgamma(alpha + 0.5) - torch.lgamma(alpha) - 0.5 * (2 * math.pi * alpha * scale).log()
        ).sum(-1)
        far = (f[:, :, None] - m[:, None]).square() / (2 * alpha * scale)[:, None]
        tails = ((alpha + 0.5)[:, None] * far.log1p()).sum(-1)
        return constant[:, None] - tails

    def _prior(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """m, κ, α, β before any demo; positive by construction, α above ½."""
        return (
            self.centre,
            F.softplus(self.raw_kappa) + 1e-3,
            F.softplus(self.raw_alpha) + 0.5,
            F.softplus(self.raw_beta) + 1e-3,
        )


def _weighted_square(f: Tensor, m: Tensor, weight: Tensor) -> Tensor:
    """Σ_F weight (f - m)² for all pairs, [B, Q, N], as matrix products."""
    cross = f @ (weight * m).mT
    return f.square() @ weight.mT - 2 * cross + (weight * m.square()).sum(-1)[:, None]


@READOUTS.register("normal-gamma")
def _bayesian(config: ReadoutConfig, n_features: int, n_classes: int) -> NormalGamma:
    return NormalGamma(n_features, bayesian=True)


@READOUTS.register("normal-gamma-map")
def _map(config: ReadoutConfig, n_features: int, n_classes: int) -> NormalGamma:
    return NormalGamma(n_features, bayesian=False)
