"""NormalGamma: each class a Gaussian whose mean and precision are known as well as its demos allow.

Shape legend: B = streams, Q = queries, F = features, N = classes.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.readouts.base import READOUTS, ClassSums, ReadoutConfig, State


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
