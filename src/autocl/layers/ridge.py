"""Fast-weight heads that solve for their weights instead of descending to them.

Shape legend: B = streams, T = demos, Q = queries, F = features, K = key size, N = classes.
"""

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.layers.base import State

BANDWIDTH = math.sqrt(2)
"""Frequencies at the start: the kernel is exp(-BANDWIDTH² d² / 2) of the distance d of unit vectors."""

STEEPNESS = 10.0
"""Adam moves all numbers alike: multiplied with it, two slopes get as far as they must in time."""


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
        """With dC = A⁻¹ dW: dA = -dC Wᵀ."""
        L, W = ctx.saved_tensors
        dC = torch.cholesky_solve(gradients[0], L)
        return -dC @ W.mT, dC


class RidgeReadout(nn.Module):
    """Class scores by ridge regression of one-hot labels on keys; what makes the keys is left open.

    The state is two sums over the demos, A = Σ k kᵀ and C = Σ k yᵀ, so its size is constant and the order of
    the demos does not matter: a delta rule with the best possible learning rate, which cannot forget what
    its keys keep apart. The weights (A + λI)⁻¹ C are found when a query comes. As λ grows the scores become
    those of summed class means, so nearest mean is its limit. λ, the scale of the scores and the weight of
    the body beside them are meta-learned. Not in the paper; `LearnerConfig.readout` says who has it.

    Args:
        n_classes: N.
        keys: K, including one constant entry that acts as the bias.
    """

    def __init__(self, *, n_classes: int, keys: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.keys = keys
        self.log_ridge = nn.Parameter(torch.zeros(()))
        # One-hot regression gives scores near 0 and 1: start with differences a softmax can feel.
        self.log_scale = nn.Parameter(torch.tensor(1.5))
        self.log_gate = nn.Parameter(torch.zeros(()))

    @abstractmethod
    def make_keys(self, f: Tensor) -> Tensor:
        """Keys [..., K-1] of features f [..., F], of norm about 1."""

    @abstractmethod
    def answer(self, body: Tensor, f: Tensor, state: State) -> Tensor:
        """The learner's logits [B, Q, N]: the scores, and the body's logits as far as they help."""

    def initial_state(self, batch: int) -> State:
        """Empty sums: A [B, K, K], C [B, K, N]."""
        zero = self.log_ridge.new_zeros
        return {"A": zero(batch, self.keys, self.keys), "C": zero(batch, self.keys, self.n_classes)}

    def learn(self, f: Tensor, y: Tensor, state: State) -> State:
        """Add demos with features f [B, T, F] and labels y [B, T] to the sums."""
        k = self._keys(f)
        target = F.one_hot(y, self.n_classes).to(k.dtype)
        return {"A": state["A"] + k.mT @ k, "C": state["C"] + k.mT @ target}

    def read(self, f: Tensor, state: State) -> Tensor:
        """Scores [B, Q, N] of queries with features f [B, Q, F]: the answer to which no body contributes."""
        return self.answer(f.new_zeros(()), f, state)

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
    """Keys are made by a network, and how much scores and body count depends on the stream.

    Drawings that the weights tell apart deserve sharp scores and need no second opinion; photographs that
    they do not fit deserve less, and the body helps. The sums know which it is: how well their solution fits
    the demos it was made of.

    Args:
        features: F.
        n_classes: N.
        keys: K.
        hidden: units of the network that makes keys of features; 0 makes them linear, which cannot answer
            when one label names many separate classes (domain-incremental streams of many tasks).
    """

    def __init__(self, *, features: int, n_classes: int, keys: int, hidden: int) -> None:
        super().__init__(n_classes=n_classes, keys=keys)
        self.key: nn.Module = nn.Linear(features, keys - 1, bias=False)
        if hidden:
            inner, outer = nn.Linear(features, hidden), nn.Linear(hidden, keys - 1, bias=False)
            self.key = nn.Sequential(nn.LayerNorm(features), inner, nn.GELU(), outer)
        # The body takes long to learn what the read-out knows from the start: it begins as the lesser voice.
        nn.init.constant_(self.log_gate, -1.0)
        self.trust = nn.Parameter(torch.zeros(2))

    def make_keys(self, f: Tensor) -> Tensor:
        """Unit vectors in meta-learned directions."""
        return F.normalize(self.key(f), dim=-1)

    def answer(self, body: Tensor, f: Tensor, state: State) -> Tensor:
        """Both, as loud as they have proved to help in such streams."""
        weights, _ = self._solve(state)
        fit = STEEPNESS * (self._fit(weights, state) - 0.5)
        scale = (self.log_scale + self.trust[0] * fit).exp()
        gate = (self.log_gate + self.trust[1] * fit).exp()
        joint: Tensor = scale * (self._keys(f) @ weights) + gate * body
        return joint

    @torch.no_grad()
    def _fit(self, weights: Tensor, state: State) -> Tensor:
        """The demos' mean score [B, 1, 1] for their own label: near 1 where they are told apart."""
        C = state["C"]
        demos = C[:, -1].sum(-1)  # the constant key counts those of each label
        fit: Tensor = (weights * C).sum((-2, -1)) / demos.clamp(min=1)
        return fit[:, None, None]


class KernelReadout(RidgeReadout):
    """Keys are cosines of random projections, and the body counts as far as the scores are in doubt.

    Products of keys begin as a Gaussian kernel of the distance between the features' directions: one label
    may name many separate classes, and what is near is judged alike in image sets the keys were not trained
    on. Frequencies and phases are meta-learned from there.

    Args:
        features: F.
        n_classes: N.
        keys: K.
    """

    def __init__(self, *, features: int, n_classes: int, keys: int) -> None:
        super().__init__(n_classes=n_classes, keys=keys)
        self.wave = nn.Linear(features, keys - 1)
        nn.init.uniform_(self.wave.bias, 0, 2 * math.pi)
        with torch.no_grad():
            self.wave.weight.copy_(BANDWIDTH * orthogonal_normal(keys - 1, features))

    def make_keys(self, f: Tensor) -> Tensor:
        """Cosines of the features' directions."""
        return math.sqrt(2 / (self.keys - 1)) * torch.cos(self.wave(F.normalize(f, dim=-1)))

    def answer(self, body: Tensor, f: Tensor, state: State) -> Tensor:
        """Both, the body where the demos say little about the query."""
        k = self._keys(f)
        weights, L = self._solve(state)
        scores = self.log_scale.exp() * (k @ weights)
        joint: Tensor = scores + self.log_gate.exp() * self._doubt(k, L) * body
        return joint

    @torch.no_grad()
    def _doubt(self, k: Tensor, L: Tensor) -> Tensor:
        """The share [B, Q, 1] of each query's key that no demo has shown, λ kᵀ(A + λI)⁻¹k / kᵀk.

        1 before the first demo, near 0 where there are many like it.
        """
        unseen = torch.linalg.solve_triangular(L, k.mT, upper=False).square().sum(-2)
        doubt: Tensor = self.log_ridge.exp() * unseen / k.square().sum(-1)
        return doubt[..., None]


def orthogonal_normal(rows: int, columns: int) -> Tensor:
    """Rows like those of a normal matrix, but orthogonal in groups of `columns`: fewer make the kernel."""
    groups = -(-rows // columns)
    directions = torch.linalg.qr(torch.randn(groups, columns, columns)).Q
    normal: Tensor = directions * torch.randn(groups, columns, columns).norm(dim=-1, keepdim=True)
    return normal.flatten(0, 1)[:rows]
