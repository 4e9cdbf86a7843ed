"""RidgeReadout: a fast-weight head that solves for its weights instead of descending to them.

Shape legend: B = streams, T = demos, Q = queries, F = features, K = key size, N = classes.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.layers.base import State


class SolvePositive(torch.autograd.Function):
    """A⁻¹ C for positive definite A [..., K, K] and C [..., K, N].

    PyTorch's gradient through a Cholesky factor costs K³ several times over; the gradient of the solution
    needs only one more solve with the factor that is there.
    """

    @staticmethod
    def forward(ctx: Any, A: Tensor, C: Tensor) -> Tensor:
        """Solve, and keep the factor and the solution."""
        L = torch.linalg.cholesky(A)
        W = torch.cholesky_solve(C, L)
        ctx.save_for_backward(L, W)
        return W

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        """With dC = A⁻¹ dW: dA = -dC Wᵀ."""
        L, W = ctx.saved_tensors
        dC = torch.cholesky_solve(gradients[0], L)
        return -dC @ W.mT, dC


class RidgeReadout(nn.Module):
    """Class scores by ridge regression of one-hot labels on meta-learned keys.

    The state is two sums over the demos, A = Σ k kᵀ and C = Σ k yᵀ, so its size is constant and the order of
    the demos does not matter: a delta rule with the best possible learning rate, which cannot forget what
    its keys keep apart. The weights (A + λI)⁻¹ C are found when a query comes. As λ grows the scores become
    those of summed class means, so nearest mean is its limit. Keys, λ, the scale of the scores and the weight
    of the body beside them are meta-learned. Not in the paper; `LearnerConfig.readout` says whether a learner
    has it.

    Args:
        features: F.
        n_classes: N.
        keys: K, including one constant entry that acts as the bias.
        hidden: units of the network that makes keys of features; 0 makes them linear, which cannot answer
            when one label names many separate classes (domain-incremental streams of many tasks).
    """

    def __init__(self, *, features: int, n_classes: int, keys: int, hidden: int) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.keys = keys
        self.key: nn.Module = nn.Linear(features, keys - 1, bias=False)
        if hidden:
            inner, outer = nn.Linear(features, hidden), nn.Linear(hidden, keys - 1, bias=False)
            self.key = nn.Sequential(nn.LayerNorm(features), inner, nn.GELU(), outer)
        self.log_ridge = nn.Parameter(torch.zeros(()))
        # One-hot regression gives scores near 0 and 1: start with differences a softmax can feel.
        self.log_scale = nn.Parameter(torch.tensor(1.5))
        # The body takes long to learn what the read-out knows from the start: it begins as the lesser voice.
        self.log_gate = nn.Parameter(torch.tensor(-1.0))

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
        """Scores [B, Q, N] of queries with features f [B, Q, F]."""
        A = state["A"]
        ridge = self.log_ridge.exp() * torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        weights = SolvePositive.apply(A + ridge, state["C"])  # type: ignore[no-untyped-call]
        scores: Tensor = self.log_scale.exp() * (self._keys(f) @ weights)
        return scores

    def join(self, body: Tensor, scores: Tensor) -> Tensor:
        """The learner's answer: the scores, and the body's logits as far as they have proved to help."""
        joint: Tensor = self.log_gate.exp() * body + scores
        return joint

    def _keys(self, f: Tensor) -> Tensor:
        """Keys [..., K] of norm √2: a unit vector in the meta-learned direction, and the constant."""
        k = F.normalize(self.key(f), dim=-1)
        return torch.cat([k, torch.ones_like(k[..., :1])], dim=-1)
