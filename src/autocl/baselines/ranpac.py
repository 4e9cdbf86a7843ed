"""RanPAC's way (McDonnell et al. 2023): ridge regression on random features of a frozen encoder.

Shape legend: R = runs, T = demos, Q = queries, F = features, M = random features, N = outputs.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.baselines.base import Cost, Diet, Method, StreamInfo, examples_of, register, rows_for
from autocl.baselines.embedding import Embedding, given_embedding
from autocl.config import Count, check
from autocl.data.imageset import LabelledSet
from autocl.data.stream import Task
from autocl.errors import InputError
from autocl.learner import Learner

PENALTIES = tuple(10.0**power for power in range(-8, 9))
"""λ is chosen among these for each task."""
HELD_OUT = 5
"""One demo in so many of a task decides about λ."""
ASK_BATCH = 2048


@register
class RanPAC(Method):
    """Sums of h hᵀ and h yᵀ over all demos, h = max(0, f W) with a random W; the weights solve for one-hot y.

    λ is, as in the original, the best for a fifth of the latest task after the rest of it alone. The first
    session's training of adapters inside the network is left out: the encoder is frozen.
    """

    name = "ranpac"
    side_by_side = 1
    needs = frozenset({"encoder"})

    diet: Diet = "demos"
    embedding: Embedding | Learner | str | Path | None = None
    """The encoder, or a learner (itself, its name or path) whose encoder is meant; it must be given."""
    units: Count = 2000
    """M. The original has 10,000; the state grows with the square."""

    def __post_init__(self) -> None:
        check(self)
        self._features = given_embedding(self.name, self.embedding)

    def settings(self) -> dict[str, Any]:
        """Settings; the encoder by its fingerprint."""
        return {**super().settings(), "embedding": self._features.fingerprint()}

    def deviation_note(self) -> str:
        """The two differences to the original."""
        return f"{self.units:,} random features, no training of adapters in the first task"

    def begin(self, info: StreamInfo) -> None:
        """Draw W, empty the sums."""
        if len(info.seeds) != 1:
            raise InputError("ranpac goes through one stream at a time")
        self._info, self._examples = info, 0
        generator = torch.Generator().manual_seed(info.seeds[0])
        self._projection = torch.randn(self._features.n_features, self.units, generator=generator)
        self._gram = torch.zeros(self.units, self.units)
        self._cross = torch.zeros(self.units, info.n_outputs)
        self._weights: Tensor | None = None
        self._penalty = 1.0
        self._seen = torch.zeros(info.n_outputs, dtype=torch.bool)

    def learn(self, task: Task) -> None:
        """Choose λ, then add the task to the sums."""
        share = examples_of(task, self.diet)
        h = self._random(self._features.take(share.images, share.index[0]))
        y = F.one_hot(share.labels[0], self.info.n_outputs).float()
        self._penalty = best_penalty(h, y)
        self._gram.addmm_(h.T, h)
        self._cross.addmm_(h.T, y)
        self._seen[share.labels[0]] = True
        self._weights = None
        self._examples += len(h)

    def predict(self, images: LabelledSet, index: Tensor) -> Tensor:
        """Logits [1, Q, N]; the weights are solved for when the first query comes after a task."""
        if self._weights is None:
            self._weights = solve(self._gram, self._cross, self._penalty)
        rows = rows_for(index, 1)[0]
        parts = [
            self._random(self._features.take(images, p)) @ self._weights for p in torch.split(rows, ASK_BATCH)
        ]
        return torch.cat(parts)[None].masked_fill(~self._seen, -torch.inf)

    def cost(self) -> Cost:
        """Demos seen, and the two sums; W is a function of the seed."""
        state = (self._gram.numel() + self._cross.numel()) * 4
        return Cost(examples=self._examples, gradient_steps=0, state_bytes=state)

    def _random(self, f: Tensor) -> Tensor:
        """h [n, M] of features [n, F], scaled to unit length first."""
        return (F.normalize(f, dim=-1) @ self._projection).relu()


def best_penalty(h: Tensor, y: Tensor) -> float:
    """The λ whose solution on the first four fifths of h [T, M], y [T, N] errs least on the last fifth."""
    cut = max(1, len(h) - max(1, len(h) // HELD_OUT))
    known, asked = h[:cut], h[cut:]
    # The same solution in terms of the random features, or of the demos: whichever are fewer.
    if h.shape[1] < cut:
        matrix, target, across = known.T @ known, known.T @ y[:cut], asked
    else:
        matrix, target, across = known @ known.T, y[:cut], asked @ known.T
    errors = []
    for penalty in PENALTIES:
        L, failed = torch.linalg.cholesky_ex(matrix + penalty * torch.eye(len(matrix)))
        error = (across @ torch.cholesky_solve(target, L) - y[cut:]).square().mean()
        errors.append(torch.inf if failed or not error.isfinite() else float(error))
    return PENALTIES[min(range(len(errors)), key=errors.__getitem__)]


def solve(gram: Tensor, cross: Tensor, penalty: float) -> Tensor:
    """(G + λI)⁻¹ C, with the least λ' = 10ⁿλ for which the matrix is positive definite in float32."""
    for _ in range(40):
        L, failed = torch.linalg.cholesky_ex(gram + penalty * torch.eye(len(gram)))
        if not failed:
            return torch.cholesky_solve(cross, L)
        penalty *= 10
    raise InputError("ranpac cannot solve for its weights: features are not finite, or far too large")
