"""Memory: everything a ContinualClassifier has learned, as one immutable value.

Learning makes a new memory and puts it in the place of the old one in a single step. So a failed call leaves
the old one untouched, predictions may run in other threads meanwhile, and going back is keeping the old one.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import Tensor

from autocl.errors import FileError, InputError
from autocl.files import read_tensors, write_tensors
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

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy, as scikit-learn's parallel tools need them; files are never pickles."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _unpickled, ({**values, "members": [dict(state.tensors) for state in self.members]},)


def _unpickled(values: dict[str, Any]) -> Memory:
    return Memory(**{**values, "members": tuple(LearnerState(t) for t in values["members"])})


def write_memory(path: str | Path, memory: Memory, *, form: object, learner: str, source: str | None) -> None:
    """Write a memory to one safetensors file.

    Args:
        path: where to.
        memory: what to write.
        form: what the estimator knows of the shape of its input; plain data.
        learner: fingerprint of the learner whose memory it is.
        source: name or path of that learner, if it has one.
    """
    kept: dict[str, Any] = {
        "labels": [_plain(label) for label in memory.labels],
        "counts": memory.counts,
        "tested": memory.tested,
        "right": memory.right,
        "last": memory.last and memory.last[1:],
        "rows": [dict(row) for row in memory.rows],
        "learned_at": dict(memory.learned_at),
        "members": len(memory.members),
        "form": form,
        "source": source,
    }
    tensors = {
        f"{i}/{name}": t.detach().cpu().contiguous().clone()
        for i, state in enumerate(memory.members)
        for name, t in state.tensors.items()
    }
    if memory.last is not None:
        tensors["last"] = memory.last[0].detach().cpu().clone()
    write_tensors(path, tensors, {"kind": "classifier", "learner": learner, "memory": json.dumps(kept)})


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What `read_memory` found."""

    memory: Memory
    form: Any
    learner: str
    source: str | None


def read_memory(path: str | Path) -> Saved:
    """Read what `write_memory` wrote."""
    tensors, meta = read_tensors(path, kind="classifier")
    try:
        kept = json.loads(meta["memory"])
        members = tuple(
            LearnerState({n.split("/", 1)[1]: t for n, t in tensors.items() if n.startswith(f"{i}/")})
            for i in range(kept["members"])
        )
        memory = Memory(
            members=members,
            labels=tuple(_hashable(label) for label in kept["labels"]),
            counts=tuple(kept["counts"]),
            tested=kept["tested"],
            right=kept["right"],
            last=None if kept["last"] is None else (tensors["last"], kept["last"][0], kept["last"][1]),
            rows=tuple(kept["rows"]),
            learned_at=kept["learned_at"],
        )
        return Saved(memory=memory, form=kept["form"], learner=meta["learner"], source=kept["source"])
    except (KeyError, TypeError, ValueError, IndexError, InputError) as error:
        raise FileError(f"{path}: not a classifier of this version of autocl ({error!r})") from error


def fitting(memory: Memory, learner: Learner) -> bool:
    """Whether every member is a state of one stream of this learner."""
    return bool(memory.members) and all(s.batch == 1 and learner.fits(s) for s in memory.members)


def _plain(label: Hashable) -> Any:
    """A label as JSON; tuples are marked because JSON only has lists."""
    if isinstance(label, tuple):
        return {"tuple": [_plain(part) for part in label]}
    if label is None or isinstance(label, str | int | float | bool):
        return label
    raise InputError(
        f"label {label!r} of type {type(label).__name__} cannot be saved: use strings, numbers, booleans, "
        "None, or tuples of them"
    )


def _hashable(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(_hashable(part) for part in value["tuple"])
    if isinstance(value, list):
        raise TypeError(f"a label cannot be {value}")
    label: Hashable = value
    return label
