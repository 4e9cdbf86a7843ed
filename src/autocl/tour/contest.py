"""A contest: several methods learn the same demos of the same streams, side by side.

Shape legend: R = runs, M = tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from autocl.baselines.base import Cost, Method, get_method
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.data.stream import Stream, side_by_side
from autocl.encoders import Identity
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.passage import passage

SIDE = 32
"""Pixels of an image's side in the tour."""
BATCH, EPOCHS, HIDDEN = 32, 20, (200,)
"""How methods with gradients study their few demos: enough to fit each task, as its own boundary shows."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contestant:
    """One row of the table."""

    name: str
    what: str
    """What it does, in a few words."""
    method: Method
    learner: Learner | None = None
    """Set for our own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """Where one contestant stands after a boundary."""

    contestant: Contestant
    boundary: int
    """From 0."""
    matrix: TransferMatrix
    """Accuracies so far, [R, M, M], NaN where nothing was asked yet."""
    cost: Cost

    @property
    def now(self) -> float:
        """Mean accuracy over the tasks learned so far."""
        return self.seen[self.boundary]

    @property
    def learned(self) -> float:
        """Mean accuracy of each task right after it was learned."""
        return float(self.matrix.mean().diagonal[: self.boundary + 1].mean())

    @cached_property
    def seen(self) -> list[float]:
        """`now` at each boundary so far."""
        found: list[float] = self.matrix.mean().seen()[: self.boundary + 1].tolist()
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """Streams, what they are about, and who learns them."""

    title: str
    setting: str
    """What is learned and asked, in a sentence."""
    tasks: tuple[str, ...]
    streams: tuple[Stream, ...]
    entered: tuple[Contestant, ...]


def contestants(learners: Mapping[str, Learner]) -> tuple[Contestant, ...]:
    """Our learners; simple read-outs on the features of the first, and on pixels; gradient descent."""
    ours = [
        Contestant(name=name, what="ours: one forward pass", method=InContext(learner), learner=learner)
        for name, learner in learners.items()
    ]
    first = next(iter(learners))
    features = Embedding.of(learners[first])
    pixels = Embedding(Identity(n_features=SIDE * SIDE), channels=1)
    study: dict[str, Any] = {"diet": "demos", "batch": BATCH, "epochs": EPOCHS, "hidden": HIDDEN}
    on_features = {
        "class means": (f"features of {first}", get_method("nearest-mean", embedding=features)),
        "LDA": (f"features of {first}", get_method("shrunk-lda", embedding=features)),
        "1-NN": (f"features of {first}; keeps all", get_method("knn", embedding=features, neighbours=1)),
        "1-NN on pixels": ("keeps all", get_method("knn", embedding=pixels, neighbours=1)),
        "replay": (f"network, {EPOCHS} epochs; keeps all", get_method("rehearsal", **study)),
        "fine-tuning": (f"network, {EPOCHS} epochs", get_method("adam", **study)),
    }
    rivals = [Contestant(name=n, what=what, method=method) for n, (what, method) in on_features.items()]
    return (*ours, *rivals)


def play(contest: Contest) -> Iterator[Standing]:
    """Task by task, let every contestant learn it and ask about all tasks so far."""
    stream = side_by_side(contest.streams)
    M = len(stream.tasks)
    nothing = torch.full((len(stream), M, M), torch.nan, dtype=torch.float64)
    values = {c.name: nothing.clone() for c in contest.entered}
    passages = [passage(contestant.method, stream) for contestant in contest.entered]
    for boundary in range(M):
        for contestant, moments in zip(contest.entered, passages, strict=True):
            table = values[contestant.name]
            table[:, boundary] = next(moments).accuracy
            yield Standing(
                contestant=contestant, boundary=boundary, matrix=TransferMatrix(table.clone()),
                cost=contestant.method.cost(),
            )  # fmt: skip


def best_rival(last: Sequence[Standing], *, keeping: bool) -> Standing:
    """The rival that stands best at the end, among those that keep demos or among those that do not."""
    rivals = [s for s in last if s.contestant.learner is None and s.contestant.method.uses_replay == keeping]
    return max(rivals, key=lambda s: s.now)
