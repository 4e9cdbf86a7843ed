"""LearnerState: all that a learner knows of its stream, as one immutable value.

Shape legend: B = streams.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from autocl.errors import FileError, InputError
from autocl.files import read_tensors, write_tensors

if TYPE_CHECKING:
    from autocl.learner.base import Learner


@dataclass(frozen=True, eq=False)
class LearnerState:
    """Named tensors, batch first. Learning makes a new one; nothing ever changes one in place.

    Example:
        >>> from autocl import Learner, LearnerConfig
        >>> state = Learner(LearnerConfig(n_classes=5)).initial_state()
        >>> state.batch, state.nbytes  # two layers of 16 heads of 52 x 16 weights
        (1, 106496)
        >>> state == state.fork()
        True
    """

    tensors: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        object.__setattr__(self, "tensors", MappingProxyType(dict(self.tensors)))
        batches = {t.shape[:1] for t in self.tensors.values()}
        if len(batches) > 1 or torch.Size([]) in batches:
            shapes = {name: list(t.shape) for name, t in self.tensors.items()}
            raise InputError(f"the tensors of a state must agree on the batch, got {shapes}")

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors of one layer, under their own names."""
        start = prefix + "."
        return {name[len(start) :]: t for name, t in self.tensors.items() if name.startswith(start)}

    @property
    def batch(self) -> int:
        """Number of streams."""
        return next((len(t) for t in self.tensors.values()), 0)

    @property
    def nbytes(self) -> int:
        """Size in memory when every stream has its own copy."""
        return sum(t.numel() * t.element_size() for t in self.tensors.values())

    @property
    def finite(self) -> bool:
        """Whether no number in it is NaN, infinite, or so large that their sum would be."""
        # A sum is five times as fast as looking at each, and this is asked at every demo.
        return all(math.isfinite(t.sum()) for t in self.tensors.values() if t.is_floating_point())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LearnerState):
            return NotImplemented
        return self.tensors.keys() == other.tensors.keys() and all(
            torch.equal(t, other.tensors[name]) for name, t in self.tensors.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __iter__(self) -> Iterator["LearnerState"]:
        """The streams, one by one."""
        return (self[i : i + 1] for i in range(self.batch))

    def __getitem__(self, index: slice | list[int]) -> "LearnerState":
        """Some of the streams, by slice or list."""
        return self._map(lambda t: t[index])

    @staticmethod
    def cat(states: "list[LearnerState]") -> "LearnerState":
        """Put streams of several states into one batch."""
        if not states or any(s.tensors.keys() != states[0].tensors.keys() for s in states):
            raise InputError("cat needs at least one state, all of the same learner")
        return LearnerState({n: torch.cat([s.tensors[n] for s in states]) for n in states[0].tensors})

    def fork(self) -> "LearnerState":
        """An independent copy without gradient history, to try something and come back."""
        # In one piece: products with a transposed view round differently from those with what a file gives.
        return self._map(lambda t: t.detach().clone(memory_format=torch.contiguous_format))

    def detach(self) -> "LearnerState":
        """The same values without gradient history."""
        return self._map(Tensor.detach)

    def to(self, *args: torch.device | torch.dtype | str) -> "LearnerState":
        """Move to a device or floating dtype; counters and labels keep their integer type."""

        def move(t: Tensor) -> Tensor:
            for a in args:
                if t.is_floating_point() or not isinstance(a, torch.dtype):
                    t = t.to(a)
            return t

        return self._map(move)

    def save(self, path: str | Path, learner: "Learner") -> None:
        """Write to a safetensors file, with the fingerprint of the learner it belongs to."""
        write_tensors(path, self.tensors, {"kind": "state", "learner": learner.fingerprint()})

    @staticmethod
    def load(path: str | Path, learner: "Learner") -> "LearnerState":
        """Read a state written by `save`; one that belongs to another learner is refused."""
        tensors, meta = read_tensors(path, kind="state")
        mine = learner.fingerprint()
        if meta.get("learner") != mine:
            raise FileError(
                f"{path}: this state belongs to learner {meta.get('learner')}, not to {mine}: a state means "
                "nothing to other weights. Load it with the learner that made it"
            )
        if not any(len(t) for t in tensors.values() if t.dim()):
            raise FileError(f"{path}: a state of no streams")
        try:
            state = learner.renewed(LearnerState(tensors))
        except InputError as error:
            raise FileError(f"{path}: damaged: {error}") from error
        learner.check_state(path, state)
        return state

    def _map(self, change: Callable[[Tensor], Tensor]) -> "LearnerState":
        return LearnerState({name: change(t) for name, t in self.tensors.items()})
