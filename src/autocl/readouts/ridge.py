"""Ridge regression: heads that solve for their weights instead of descending to them.

Shape legend: B = streams, T = demos, Q = queries, F = features, K = key size, N = classes.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.errors import InputError
from autocl.readouts.base import READOUTS, Readout, ReadoutConfig, State

BANDWIDTH = math.sqrt(2)
"""Frequencies at the start: the kernel is exp(-BANDWIDTH² d² / 2) of the distance d of unit vectors."""

STEEPNESS = 10.0
"""Factor on the two `trust` parameters. Adam's steps do not depend on a parameter's scale: without it they
would change too slowly."""


class SolvePositive(torch.autograd.Function):
    """A⁻¹ C for positive definite A [..., K, K] and C [..., K, N], and A's Cholesky factor, without gradient.

    PyTorch's gradient through a Cholesky factor costs K³ several times over; the gradient of the solution
    needs only one more solve with the factor that is there.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
        """Solve, and keep the factor and the solution."""
        L = torch.linalg.cholesky(A)
        W = torch.cholesky_solve(C, L)
        ctx.save_for_backward(L, W)
        ctx.mark_non_differentiable(L)
        return W, L

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of A and C: dC = A⁻¹ dW, dA = -dC Wᵀ."""
        L, W = ctx.saved_tensors
        dC = torch.cholesky_solve(gradients[0], L)
        return -dC @ W.mT, dC


class RidgeReadout(Readout):
    """Class scores by ridge regression of one-hot labels on keys; subclasses make the keys.

    The state is two sums over the demos, A = Σ k kᵀ and C = Σ k yᵀ, so its size is constant and the order of
    the demos does not matter: a delta rule with the best possible learning rate, which cannot forget what
    its keys keep apart. The weights (A + λI)⁻¹ C are found when a query comes. As λ grows the scores become
    those of summed class means, so nearest mean is its limit. λ, the scale of the scores and, where a learner
    has fast weights as well, the weight of their logits are meta-learned. Not in the paper.

    Args:
        keys: K, including one constant entry that acts as the bias.
        penalty: λ before meta-training.
    """

    per_class = {"C": 2}  # noqa: RUF012 (a ClassVar of Readout)

    def __init__(self, *, keys: int, penalty: float = 1.0) -> None:
        super().__init__()
        self.keys = keys
        self.log_ridge = nn.Parameter(torch.tensor(math.log(penalty)))
        # One-hot regression gives scores near 0 and 1: start with differences a softmax can feel.
        self.log_scale = nn.Parameter(torch.tensor(1.5))
        self.log_gate = nn.Parameter(torch.zeros(()))

    @abstractmethod
    def make_keys(self, f: Tensor) -> Tensor:
        """Keys [..., K-1] of features f [..., F], of norm about 1."""

    @abstractmethod
    def join(self, body: Tensor | None, f: Tensor, state: State) -> Tensor:
        """Scores [B, Q, N], plus the fast weights' logits `body` as far as they help, if there are any."""

    def initial_state(self, batch: int, n_classes: int) -> State:
        """Empty sums: A [B, K, K], C [B, K, N]."""
        return {"A": self.zeros(batch, self.keys, self.keys), "C": self.zeros(batch, self.keys, n_classes)}

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Add demos with features f [B, T, F] and labels y [B, T] to the sums."""
        k = self._keys(f)
        target = F.one_hot(y, state["C"].shape[-1]).to(k.dtype)
        return {"A": state["A"] + k.mT @ k, "C": state["C"] + k.mT @ target}

    def read(self, f: Tensor, state: State) -> Tensor:
        """Scores [B, Q, N] of queries with features f [B, Q, F]."""
        return self.join(None, f, state)

    def counts(self, state: State) -> Tensor | None:
        """The constant key counts the demos of each label."""
        return state["C"][:, -1]

    def _solve(self, state: State) -> tuple[Tensor, Tensor]:
        """The weights (A + λI)⁻¹ C [B, K, N], and the Cholesky factor of A + λI."""
        A = state["A"]
        ridge = self.log_ridge.exp() * torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        solution: tuple[Tensor, Tensor] = SolvePositive.apply(A + ridge, state["C"])  # type: ignore[no-untyped-call]
        return solution

    def _keys(self, f: Tensor) -> Tensor:
        """Keys [..., K], the constant last."""
        k = self.make_keys(f)
        return torch.cat([k, torch.ones_like(k[..., :1])], dim=-1)


class NetworkReadout(RidgeReadout):
    """Keys are made by a network; the weights of scores and of fast weights' logits depend on the stream.

    Drawings that the weights tell apart deserve sharp scores and need no second opinion; photographs that
    they do not fit deserve less, and fast weights help. The sums know which it is: how well their solution
    fits the demos it was made of.

    Args:
        features: F.
        keys: K; 0 takes the features themselves, and a constant.
        hidden: units of the network that makes keys of features; 0 makes them linear, which cannot answer
            when one label names many separate classes (domain-incremental streams of many tasks).
        penalty: λ before meta-training.
    """

    def __init__(self, *, features: int, keys: int, hidden: int, penalty: float = 1.0) -> None:
        super().__init__(keys=keys or features + 1, penalty=penalty)
        self.key: nn.Module = nn.Linear(features, keys - 1, bias=False) if keys else nn.Identity()
        if hidden and keys:
            inner, outer = nn.Linear(features, hidden), nn.Linear(hidden, keys - 1, bias=False)
            self.key = nn.Sequential(nn.LayerNorm(features), inner, nn.GELU(), outer)
        # Fast weights take long to learn what the read-out knows from the start, so they begin with less.
        nn.init.constant_(self.log_gate, -1.0)
        self.trust = nn.Parameter(torch.zeros(2))

    def make_keys(self, f: Tensor) -> Tensor:
        """Unit vectors in meta-learned directions."""
        return F.normalize(self.key(f), dim=-1)

    def join(self, body: Tensor | None, f: Tensor, state: State) -> Tensor:
        """scale · scores + gate · body; both factors depend on how well the solution fits the demos."""
        weights, _ = self._solve(state)
        fit = STEEPNESS * (self._fit(weights, state) - 0.5)
        scale = (self.log_scale + self.trust[0] * fit).exp()
        scores: Tensor = scale * (self._keys(f) @ weights)
        if body is None:
            return scores
        return scores + (self.log_gate + self.trust[1] * fit).exp() * body

    @torch.no_grad()
    def _fit(self, weights: Tensor, state: State) -> Tensor:
        """The demos' mean score [B, 1, 1] for their own label: near 1 where they are told apart."""
        C = state["C"]
        demos = C[:, -1].sum(-1)  # the constant key counts those of each label
        fit: Tensor = (weights * C).sum((-2, -1)) / demos.clamp(min=1)
        return fit[:, None, None]


class KernelReadout(RidgeReadout):
    """Keys are cosines of random projections; fast weights' logits count as far as the scores are in doubt.

    Products of keys begin as a Gaussian kernel of the distance between the features' directions: one label
    may name many separate classes, and what is near is judged alike in image sets the keys were not trained
    on. Frequencies and phases are meta-learned from there.

    Args:
        features: F.
        keys: K.
        penalty: λ before meta-training.
    """

    def __init__(self, *, features: int, keys: int, penalty: float = 1.0) -> None:
        super().__init__(keys=keys, penalty=penalty)
        self.wave = nn.Linear(features, keys - 1)
        nn.init.uniform_(self.wave.bias, 0, 2 * math.pi)
        with torch.no_grad():
            self.wave.weight.copy_(BANDWIDTH * orthogonal_normal(keys - 1, features))

    def make_keys(self, f: Tensor) -> Tensor:
        """Cosines of the features' directions."""
        return math.sqrt(2 / (self.keys - 1)) * torch.cos(self.wave(F.normalize(f, dim=-1)))

    def join(self, body: Tensor | None, f: Tensor, state: State) -> Tensor:
        """scores + gate · doubt · body: fast weights count where the demos say little about the query."""
        k = self._keys(f)
        weights, L = self._solve(state)
        scores: Tensor = self.log_scale.exp() * (k @ weights)
        if body is None:
            return scores
        return scores + self.log_gate.exp() * self._doubt(k, L) * body

    @torch.no_grad()
    def _doubt(self, k: Tensor, L: Tensor) -> Tensor:
        """The share [B, Q, 1] of each query's key that no demo has shown, λ kᵀ(A + λI)⁻¹k / kᵀk.

        1 before the first demo, near 0 where there are many like it.
        """
        unseen = torch.linalg.solve_triangular(L, k.mT, upper=False).square().sum(-2)
        doubt: Tensor = self.log_ridge.exp() * unseen / k.square().sum(-1)
        return doubt[..., None]


def orthogonal_normal(rows: int, columns: int) -> Tensor:
    """Orthogonal random features (Yu et al. 2016): normal rows, orthogonal within groups of `columns`.

    Their estimate of the kernel varies less than that of independent rows.
    """
    groups = -(-rows // columns)
    directions = torch.linalg.qr(torch.randn(groups, columns, columns)).Q
    normal: Tensor = directions * torch.randn(groups, columns, columns).norm(dim=-1, keepdim=True)
    return normal.flatten(0, 1)[:rows]


@READOUTS.register("ridge")
def _ridge(config: ReadoutConfig, n_features: int, n_classes: int) -> NetworkReadout:
    return NetworkReadout(features=n_features, keys=config.keys, hidden=config.hidden, penalty=config.penalty)


@READOUTS.register("kernel")
def _kernel(config: ReadoutConfig, n_features: int, n_classes: int) -> KernelReadout:
    if config.keys < 2:
        raise InputError(f"ReadoutConfig.keys must be at least 2 for a kernel read-out, got {config.keys}")
    return KernelReadout(features=n_features, keys=config.keys, penalty=config.penalty)
