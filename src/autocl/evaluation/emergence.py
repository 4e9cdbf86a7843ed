"""Figure 2: how in-context forgetting emerges in meta-training, from the log of a run.

Six curves for two image sets: the loss of each at the first and second position, and the loss of each behind
the other. The published curves are half the true losses (SPEC §5); these are whole.
"""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np

from autocl.errors import FileError, InputError
from autocl.typed_json import read_json, read_json_lines

TERM = re.compile(r"term/(?P<set>[^/]*)/(?P<position>\d{1,4})/(?P<kind>own|back)")
"""Name of a loss term in a log."""
POINTS = 100
"""Points of a curve: each the mean over an equal stretch of the run."""
LEARNED = 0.75
"""A set counts as meta-learned once its own loss has fallen below this share of its first value."""
MAX_LOSS = 1e30
"""Larger numbers are damage, and their sums might not be finite."""


class StepLine(TypedDict):
    """The part of a training log's line that is read; loss terms are found by their names."""

    step: int


class ObjectiveLine(TypedDict):
    """The part of a recipe's objective that is read."""

    acl: bool


class RecipeLine(TypedDict):
    """The part of a run's recipe that is read."""

    objective: ObjectiveLine


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One loss term over meta-training."""

    set: str
    position: int
    """In the stream, from 1."""
    backward: bool
    """Asked after later tasks."""
    steps: tuple[float, ...]
    losses: tuple[float, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.steps) == len(self.losses):
            raise InputError(f"the curve of {self.set} lacks steps or losses")

    @property
    def label(self) -> str:
        """Name in legends."""
        return f"{self.set}, position {self.position}" + (", after later tasks" if self.backward else "")


@dataclass(frozen=True, kw_only=True)
class Emergence:
    """The curves of one run, as a line of emergence.jsonl has them."""

    name: str
    acl: bool | None
    """Whether the backward terms were minimised; None: the run does not say."""
    curves: tuple[Curve, ...]

    def learned_at(self) -> dict[str, float | None]:
        """Step at which the loss of each set at its first position has clearly fallen; None: never."""
        found: dict[str, float | None] = {}
        for curve in self.curves:
            if not curve.backward:
                moments = zip(curve.steps, curve.losses, strict=True)
                below = (step for step, loss in moments if loss < LEARNED * curve.losses[0])
                found.setdefault(curve.set, next(below, None))
        return found

    def to_dict(self) -> dict[str, object]:
        """Plain data for a line of emergence.jsonl."""
        return {**asdict(self), "learned_at": self.learned_at()}


def read_emergence(run: str | Path, *, points: int = POINTS) -> Emergence:
    """The loss terms of a run, by image set and position.

    Args:
        run: a run's folder, or its log.jsonl.
        points: of each curve at most.
    """
    path = Path(run)
    log = path / "log.jsonl" if path.is_dir() else path
    if not log.is_file():
        raise FileError(f"{log}: no such log; give the folder of a run of `autocl train`")
    series: dict[tuple[str, int, bool], list[tuple[float, float]]] = {}
    for line in read_json_lines(log, StepLine):
        for key, value in line.items():
            if not (found := TERM.fullmatch(key)):
                continue
            if not isinstance(value, int | float) or abs(value) >= MAX_LOSS:
                raise FileError(f"{log}: {key} at step {line['step']} is no loss: {value!r:.40}")
            term = (found["set"], int(found["position"]), found["kind"] == "back")
            series.setdefault(term, []).append((float(line["step"]), float(value)))
    if not series:
        raise FileError(f"{log}: has no loss terms apart by image set (term/SET/POSITION/own)")
    curves = tuple(
        Curve(set=name, position=position, backward=backward, **_thinned(terms, points))
        for (name, position, backward), terms in sorted(series.items(), key=lambda s: (s[0][2], *s[0]))
    )
    recipe = log.parent / "recipe.json"
    acl = read_json(recipe, RecipeLine)["objective"]["acl"] if recipe.is_file() else None
    return Emergence(name=log.parent.resolve().name, acl=acl, curves=curves)


def _thinned(pairs: list[tuple[float, float]], points: int) -> dict[str, tuple[float, ...]]:
    """Means over at most `points` equal stretches."""
    parts = np.array_split(np.asarray(sorted(pairs), dtype=np.float64), min(points, len(pairs)))
    means = np.stack([part.mean(axis=0) for part in parts])
    return {"steps": tuple(means[:, 0].tolist()), "losses": tuple(means[:, 1].tolist())}
