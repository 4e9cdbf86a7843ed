"""ClassifierState: everything a ContinualClassifier has learned, as one immutable value.

Learning makes a new one and puts it in the place of the old one in a single step. So a failed call leaves
the old one untouched, predictions may run in other threads meanwhile, and going back is keeping the old one.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt
import torch
from torch import Tensor

from autocl.errors import FileError
from autocl.estimator.labels import as_array
from autocl.learner import Learner
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
