"""Memory: everything a ContinualClassifier has learned, as one immutable value.

Learning makes a new memory and puts it in the place of the old one in a single step. So a failed call leaves
the old one untouched, predictions may run in other threads meanwhile, and going back is keeping the old one.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from torch import Tensor

from autocl.errors import FileError
from autocl.learner import Learner
from autocl.learner.state import LearnerState

Row = Mapping[str, float]
"""Accuracy on each probe set that was asked about at one checkpoint."""


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What is known after some demos."""

    members: tuple[LearnerState, ...]
    """One state of the learner; more of them when classes overflowed. Class i belongs to member i // N."""
    labels: tuple[Hashable, ...] = ()
    """In the order of appearance, which is the order of the learner's outputs."""
    counts: tuple[int, ...] = ()
    """Demos of each label; 0 for one that was only announced."""
    tested: int = 0
    """Demos of known classes that were predicted before they were learned …"""
    right: int = 0
    """… and how many of those predictions were right."""
    last: tuple[Tensor, int, int] | None = None
    """The latest demo: features [F], the member that learned it, and its output there."""
    rows: tuple[Row, ...] = ()
    """What every checkpoint measured."""
    learned_at: Mapping[str, int] = field(default_factory=dict)
    """For each probe set the first row at which all its labels were known."""

    @property
    def seen(self) -> int:
        """Number of demos."""
        return sum(self.counts)

    def to(self, device: torch.device) -> "Memory":
        """The same on another device."""
        last = self.last and (self.last[0].to(device), *self.last[1:])
        return replace(self, members=tuple(state.to(device) for state in self.members), last=last)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy, as scikit-learn's parallel tools need them; files are never pickles."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _unpickled, ({**values, "members": [dict(state.tensors) for state in self.members]},)


def _unpickled(values: dict[str, Any]) -> Memory:
    return Memory(**{**values, "members": tuple(LearnerState(t) for t in values["members"])})


def without(memory: Memory, place: int, state: LearnerState) -> Memory:
    """A memory of one member that has forgotten the class at a place; those behind it move up.

    Args:
        memory: before.
        place: of the class in `memory.labels`.
        state: of the learner, without the class.
    """
    labels = memory.labels[:place] + memory.labels[place + 1 :]
    counts = memory.counts[:place] + memory.counts[place + 1 :]
    last = memory.last
    if last is not None:
        f, _, output = last
        last = None if output == place else (f, 0, output - (output > place))
    # Of the predictions nobody knows which were about this class: they start afresh.
    return replace(memory, members=(state,), labels=labels, counts=counts, last=last, tested=0, right=0)


def fitting(memory: Memory, learner: Learner) -> bool:
    """Whether every member has the names, shapes and types of a learner's initial state, and is finite."""
    try:
        for state in memory.members:
            learner.check_state("snapshot", state)
    except FileError:
        return False
    return bool(memory.members) and all(state.batch == 1 for state in memory.members)
