"""Memory: everything a ContinualClassifier has learned, as one immutable value.

Learning makes a new memory and puts it in the place of the old one in a single step. So a failed call leaves
the old one untouched, predictions may run in other threads meanwhile, and going back is keeping the old one.
"""

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor

from autocl.errors import FileError
from autocl.estimator.labels import from_json, to_json
from autocl.files import check_tensors, read_tensors, write_tensors
from autocl.learner import Learner
from autocl.learner.state import LearnerState
from autocl.typed_json import parse_json

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


def write_memory(
    path: str | Path,
    memory: Memory,
    *,
    options: "Options",
    learner: str,
    source: str | None,
    notes: Mapping[str, str],
) -> None:
    """Write a memory to one safetensors file.

    Args:
        path: where to.
        memory: what to write.
        options: the estimator's.
        learner: fingerprint of the learner whose memory it is.
        source: name or path of that learner, if it has one.
        notes: further text for the metadata, by name.
    """
    kept: _Kept = {
        "labels": [to_json(label) for label in memory.labels],
        "counts": list(memory.counts),
        "tested": memory.tested,
        "right": memory.right,
        "last": memory.last and memory.last[1:],
        "rows": [dict(row) for row in memory.rows],
        "learned_at": dict(memory.learned_at),
        "members": len(memory.members),
        "form": options,
        "source": source,
    }
    tensors = {
        f"{i}/{name}": t for i, state in enumerate(memory.members) for name, t in state.tensors.items()
    }
    if memory.last is not None:
        tensors["last"] = memory.last[0]
    meta = {"kind": "classifier", "learner": learner, "memory": json.dumps(kept)}
    write_tensors(path, tensors, {**notes, **meta})


class KeptForm(TypedDict, total=False):
    """What an estimator knows of the shape of its input; see `autocl.estimator.preprocess.Form`."""

    vectors: int
    images: tuple[int, ...]
    backbone: str
    weights: str


class Options(TypedDict):
    """What an estimator keeps beside its memory."""

    form: KeptForm
    image_shape: tuple[int, ...] | Literal["pad"] | None
    overflow: Literal["error", "ensemble"]
    prequential: bool


class _Kept(TypedDict):
    """The JSON part of a file."""

    labels: list[Any]
    counts: list[int]
    tested: int
    right: int
    last: tuple[int, int] | None
    rows: list[dict[str, float]]
    learned_at: dict[str, int]
    members: int
    form: Options
    source: str | None


@dataclass(frozen=True, kw_only=True)
class Saved:
    """What `read_memory` found."""

    memory: Memory
    options: Options
    learner: str
    source: str | None


def read_memory(path: str | Path) -> Saved:
    """Read what `write_memory` wrote. `check_memory` must follow, when the learner is there."""
    tensors, meta = read_tensors(path, kind="classifier")
    kept = parse_json(meta.get("memory", ""), _Kept, where=f"{path}, memory")
    try:
        labels = tuple(from_json(label) for label in kept["labels"])
        _check_counts(kept, labels, len(tensors))
        memory = Memory(
            members=_members(tensors, kept["members"]),
            labels=labels,
            counts=tuple(kept["counts"]),
            tested=kept["tested"],
            right=kept["right"],
            last=None if kept["last"] is None else (tensors["last"], *kept["last"]),
            rows=tuple(kept["rows"]),
            learned_at=kept["learned_at"],
        )
        return Saved(memory=memory, options=kept["form"], learner=meta["learner"], source=kept["source"])
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(
            f"{path}: damaged, or not a classifier of this version of autocl ({error})"
        ) from error


def check_memory(where: str | Path, memory: Memory, learner: Learner) -> None:
    """Refuse a memory from a file that is not one of this learner's.

    Args:
        where: the file, for messages.
        memory: from `read_memory`.
        learner: whose it should be.
    """
    for i, member in enumerate(memory.members):
        learner.check_state(f"{where}, member {i}", member)
    N = sum(learner.outputs(member) for member in memory.members)
    # A learner that does not grow has a further state only when all before are full.
    fewest = 0 if learner.grows else N - learner.config.n_classes
    if not N >= len(memory.labels) > fewest:
        raise FileError(
            f"{where}: damaged: {len(memory.labels)} labels for {len(memory.members)} states of {N} outputs"
        )
    if memory.last is not None:
        f, member_at, output = memory.last
        features = torch.empty(learner.encoder.n_features, device="meta")
        check_tensors(where, {"last": f}, {"last": features})
        here = 0 <= member_at < len(memory.members)
        if not (here and 0 <= output < learner.outputs(memory.members[member_at])):
            raise FileError(f"{where}: damaged: the latest demo belongs to no class")


def fitting(memory: Memory, learner: Learner) -> bool:
    """Whether every member has the names, shapes and types of a learner's initial state, and is finite."""
    try:
        for state in memory.members:
            learner.check_state("snapshot", state)
    except FileError:
        return False
    return bool(memory.members) and all(state.batch == 1 for state in memory.members)


def _check_counts(kept: _Kept, labels: tuple[Hashable, ...], tensors: int) -> None:
    """Raise ValueError unless the numbers can belong together."""
    if not labels or len(set(labels)) != len(labels):
        raise ValueError("labels are missing or repeat")
    if len(kept["counts"]) != len(labels) or min(kept["counts"]) < 0:
        raise ValueError(f"{len(labels)} labels, but counts {kept['counts'][:5]}")
    if not 0 < kept["members"] <= tensors:
        raise ValueError(f"{kept['members']} states in {tensors} tensors")
    if not 0 <= kept["right"] <= kept["tested"] <= sum(kept["counts"]):
        raise ValueError(f"{kept['right']} of {kept['tested']} predictions right")
    for name, first in kept["learned_at"].items():
        if not 0 <= first < len(kept["rows"]) or name not in kept["rows"][first]:
            raise ValueError(f"probe set {name!r} was not measured when it was learned")
    shape = kept["form"]["image_shape"]
    if isinstance(shape, tuple) and not (len(shape) in (2, 3) and min(shape) > 0):
        raise ValueError(f"image_shape {shape}")


def _members(tensors: Mapping[str, Tensor], count: int) -> tuple[LearnerState, ...]:
    """States from tensors named MEMBER/NAME."""
    apart: dict[str, dict[str, Tensor]] = {str(i): {} for i in range(count)}
    for name, t in tensors.items():
        if name != "last":
            member, _, own = name.partition("/")
            apart[member][own] = t
    return tuple(map(LearnerState, apart.values()))
