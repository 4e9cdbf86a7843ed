"""ClassifierState: everything a ContinualClassifier has learned, as one immutable value; the report on it.

Learning makes a new one and puts it in the place of the old one in a single step. So a failed call leaves
the old one untouched, predictions may run in other threads meanwhile, and going back is keeping the old one.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autocl.errors import FileError
from autocl.estimator.labels import as_array
from autocl.layers.srwm import BLOCKS
from autocl.learner import FastWeightLearner, Learner
from autocl.learner.state import LearnerState

Row = Mapping[str, float]
"""Accuracy on each probe set that was asked about at one call of `evaluate`."""


@dataclass(frozen=True, kw_only=True)
class ClassifierState:
    """State of a classifier after some demos."""

    members: tuple[LearnerState, ...]
    """One state of the learner; more of them when classes overflowed. Class i belongs to member i // N."""
    labels: tuple[Hashable, ...] = ()
    """In the order of appearance, which is the order of the learner's outputs."""
    counts: tuple[int, ...] = ()
    """Demos of each label; 0 for one that was only announced."""
    n_tested: int = 0
    """Demos of known classes that were predicted before they were learned …"""
    n_correct: int = 0
    """… and how many of those predictions were correct."""
    last_demo: tuple[Tensor, int, int] | None = None
    """The latest demo: features [F], the member that learned it, and its output there."""
    evaluations: tuple[Row, ...] = ()
    """Accuracies of every call of `evaluate`."""
    learned_at: Mapping[str, int] = field(default_factory=dict)
    """For each probe set the first evaluation at which all its labels were known."""

    @cached_property
    def names(self) -> npt.NDArray[Any]:
        """The labels as an array."""
        return as_array(list(self.labels))

    @property
    def seen(self) -> int:
        """Number of demos."""
        return sum(self.counts)

    def to(self, device: torch.device) -> "ClassifierState":
        """The same on another device."""
        last = self.last_demo and (self.last_demo[0].to(device), *self.last_demo[1:])
        return replace(self, members=tuple(state.to(device) for state in self.members), last_demo=last)

    def __reduce__(self) -> tuple[Any, ...]:
        """Support pickle and copy, which scikit-learn's parallel tools need; files are never pickles."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _unpickled, ({**values, "members": [dict(state.tensors) for state in self.members]},)


def _unpickled(values: dict[str, Any]) -> ClassifierState:
    return ClassifierState(**{**values, "members": tuple(LearnerState(t) for t in values["members"])})


def without_class(memory: ClassifierState, place: int, state: LearnerState) -> ClassifierState:
    """The state of one member without the class at a place, which was forgotten; later classes move up.

    Args:
        memory: before.
        place: of the class in `memory.labels`.
        state: of the learner, without the class.
    """
    labels = memory.labels[:place] + memory.labels[place + 1 :]
    counts = memory.counts[:place] + memory.counts[place + 1 :]
    last = memory.last_demo
    if last is not None:
        f, _, output = last
        last = None if output == place else (f, 0, output - (output > place))
    # Of the predictions nobody knows which were about this class: they start afresh.
    return replace(
        memory, members=(state,), labels=labels, counts=counts, last_demo=last, n_tested=0, n_correct=0
    )


def fits(memory: ClassifierState, learner: Learner) -> bool:
    """Whether every member has the names, shapes and types of a learner's initial state, and is finite."""
    try:
        for state in memory.members:
            learner.check_state("snapshot", state)
    except FileError:
        return False
    return bool(memory.members) and all(state.batch == 1 for state in memory.members)


@dataclass(frozen=True, kw_only=True, eq=False)
class Report:
    """A classifier's account of its own stream. `print` it."""

    counts: Mapping[Hashable, int]
    """Demos of each class, in the order of appearance."""
    state_bytes: int
    prequential: float | None
    """Test-then-train accuracy: share of right predictions made for demos just before they were learned,
    among those whose class was known; None when there was none, or `prequential=False`."""
    tested: int
    """Number of those predictions."""
    probes: tuple[str, ...]
    """Names of the probe sets, in the order they first appeared."""
    matrix: npt.NDArray[np.float64]
    """[K, P]: accuracy on each probe set at each `evaluate()`, NaN where it was not asked."""
    backward_transfer: float | None
    """Mean over probe sets of the accuracy now minus that when all their classes were first known. Negative:
    later demos did harm. None before a second evaluation."""
    learning_rates: tuple[Mapping[str, float], ...]
    """For each self-referential layer the rates it would learn the latest demo with once more, by block,
    averaged over heads; of the member that learned it."""

    def __str__(self) -> str:
        lines = [
            f"{sum(self.counts.values())} demos of {len(self.counts)} classes in {self.state_bytes:,} bytes "
            "of state",
            "demos per class: " + ", ".join(f"{label}: {n}" for label, n in self.counts.items()),
        ]
        if self.prequential is not None:
            lines.append(f"predicted before learned: {_percent(self.prequential)} right of {self.tested}")
        for k, row in enumerate(self.matrix):
            asked = [f"{p} {_percent(a)}" for p, a in zip(self.probes, row, strict=True) if not np.isnan(a)]
            lines.append(f"evaluation {k + 1}: " + ", ".join(asked))
        if self.backward_transfer is not None:
            lines.append(f"backward transfer: {100 * self.backward_transfer:+.1f} points")
        for i, rates in enumerate(self.learning_rates):
            shown = ", ".join(f"{block} {rate:.2f}" for block, rate in rates.items())
            lines.append(f"learning rates of layer {i + 1}: {shown}")
        return "\n".join(lines)


def make_report(memory: ClassifierState, learner: Learner) -> Report:
    """The report on what is in memory now."""
    probes = tuple(dict.fromkeys(name for row in memory.evaluations for name in row))
    matrix = np.array([[row.get(name, np.nan) for name in probes] for row in memory.evaluations])
    rates: tuple[Mapping[str, float], ...] = ()
    if memory.last_demo is not None:
        f, member, output = memory.last_demo
        rates = learning_rates(learner, memory.members[member], f, output)
    return Report(
        counts=dict(zip(memory.labels, memory.counts, strict=True)),
        state_bytes=sum(state.nbytes for state in memory.members),
        prequential=memory.n_correct / memory.n_tested if memory.n_tested else None,
        tested=memory.n_tested,
        probes=probes,
        matrix=matrix.reshape(len(memory.evaluations), len(probes)),
        backward_transfer=_backward_transfer(memory),
        learning_rates=rates,
    )


@torch.no_grad()
def learning_rates(
    learner: Learner, state: LearnerState, f: Tensor, label: int
) -> tuple[dict[str, float], ...]:
    """σ(β) of every self-referential layer at a demo with features f [F], mean over heads."""
    if not isinstance(learner, FastWeightLearner):
        return ()
    rates = learner.rates(f, label, state).values()
    return tuple(dict(zip(BLOCKS, layer.mean(0).tolist(), strict=True)) for layer in rates)


def _backward_transfer(memory: ClassifierState) -> float | None:
    changes = []
    for name, first in memory.learned_at.items():
        asked = [k for k, row in enumerate(memory.evaluations) if name in row]
        if asked[-1] > first:
            changes.append(memory.evaluations[asked[-1]][name] - memory.evaluations[first][name])
    return sum(changes) / len(changes) if changes else None


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
