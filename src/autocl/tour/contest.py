"""The contest: several methods learn the same demos of the same stream, side by side.

Shape legend: R = runs, M = tasks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from autocl.baselines.base import Method, get_method
from autocl.baselines.incontext import InContext
from autocl.data.loading import load
from autocl.data.split import split_stream
from autocl.data.stream import Stream, side_by_side
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.passage import passage

DIGITS = 10
BATCH, EPOCHS = 32, 20
"""How Adam and EWC study their few demos: enough to fit each task, as its own boundary shows."""


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

    @property
    def now(self) -> float:
        """Mean accuracy over the tasks learned so far."""
        return float(self.matrix.mean().values[self.boundary, : self.boundary + 1].mean())

    @property
    def learned(self) -> float:
        """Mean accuracy of each task right after it was learned."""
        return float(self.matrix.mean().diagonal[: self.boundary + 1].mean())


def contestants(learners: Mapping[str, Learner]) -> list[Contestant]:
    """Our learners, nearest class mean on each one's own encoder, and two that descend a gradient."""
    ours = [
        Contestant(name=name, what="one forward pass", method=InContext(learner), learner=learner)
        for name, learner in learners.items()
    ]
    means = [
        Contestant(
            name=f"nearest mean ({name})",
            what="class means on its encoder",
            method=get_method("nearest-mean", embedding=learner),
        )
        for name, learner in learners.items()
    ]
    study = {"diet": "demos", "batch": BATCH, "epochs": EPOCHS}
    return [
        *ours,
        *means,
        Contestant(name="EWC", what=f"{EPOCHS} epochs, anchored", method=get_method("ewc", **study)),
        Contestant(name="Adam", what=f"{EPOCHS} epochs", method=get_method("adam", **study)),
    ]


def scenario_for(learners: Mapping[str, Learner]) -> Scenario:
    """Ten classes if every learner has ten outputs, else even against odd with two."""
    return "class" if min(learner.config.n_classes for learner in learners.values()) >= DIGITS else "domain"


def digit_streams(scenario: Scenario, *, shots: int, runs: int) -> list[Stream]:
    """Five tasks of two digits, 0/1 to 8/9; every run draws other demos, all ask the same test images."""
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    train, test = load("digits", "train"), load("digits", "test")
    return [split_stream(train, test, scenario=scenario, shots=shots, run=run) for run in range(runs)]


def play(entered: Sequence[Contestant], streams: Sequence[Stream]) -> Iterator[Standing]:
    """Task by task, let every contestant learn it and ask about all tasks so far."""
    stream = side_by_side(streams)
    M = len(stream.tasks)
    values = {c.name: torch.full((len(stream), M, M), torch.nan, dtype=torch.float64) for c in entered}
    passages = [passage(contestant.method, stream) for contestant in entered]
    for boundary in range(M):
        for contestant, moments in zip(entered, passages, strict=True):
            table = values[contestant.name]
            table[:, boundary] = next(moments).accuracy
            matrix = TransferMatrix(table.clone())
            yield Standing(contestant=contestant, boundary=boundary, matrix=matrix)
