"""Protocol: how one table of the paper is computed, said in data and small functions.

Shape legend: R = runs, M = tasks of a stream.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from autocl.data.fixed import Demos, FixedStream
from autocl.data.imageset import ImageSet
from autocl.errors import InputError
from autocl.evaluation.subject import SetRef, Subject
from autocl.matrix import TransferMatrix

Cell = Callable[[TransferMatrix], Tensor]
"""From the matrices [R, M, M] of a setting to one number for each run [R], in [0, 1]."""
Sets = Mapping[str, ImageSet]
"""Image sets by "name/split"."""

QUICK_RUNS, QUICK_QUERIES, QUICK_EPISODES = 2, 200, 20


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may change about every protocol."""

    runs: int | None = None
    """How many; default: the paper's number."""
    queries: int | None = None
    """Ask at most so many of each task; default: the whole test set."""
    demos: Demos = "random"
    """random: drawn by the number of the run; paper: consecutive blocks of the file, as the authors' code."""
    forward: bool = False
    """Ask about tasks still to come, too: the whole square, for forward transfer."""
    quick: bool = False
    """A rough look: 2 runs, 200 queries a task, 20 streams where a run is a mean over many."""

    def __post_init__(self) -> None:
        for name in ("runs", "queries"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"--{name} must be at least 1, got {value}")

    def n_runs(self, default: int) -> int:
        """How many runs a protocol makes whose paper made `default`."""
        if self.runs is not None:
            return self.runs
        return min(default, QUICK_RUNS) if self.quick else default

    def n_queries(self) -> int | None:
        """Most queries of a task; None: all."""
        return QUICK_QUERIES if self.queries is None and self.quick else self.queries

    def n_streams(self, default: int) -> int:
        """Streams of one run where it is a mean over many."""
        return min(default, QUICK_EPISODES) if self.quick else default


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of stream, from which one or several cells of a table are read off."""

    name: str
    sets: tuple[SetRef, ...]
    streams: Callable[[Sets, int, Options], Sequence[FixedStream]]
    """(sets, run, options) -> the streams whose mean is that run; mostly one."""
    cells: Mapping[str, Cell]
    vectors: bool = False
    """For subjects that take ready-made feature vectors only."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A table: settings, the paper's number of runs, and which of its rows a subject is compared with."""

    name: str
    title: str
    runs: int
    settings: tuple[Setting, ...]
    row: Callable[[Subject], str]
    """Name of the paper's row, "" for none."""
    revision: int = 1
    """Raised when a protocol changes what it computes, so that old results are not reused."""


def average(matrix: TransferMatrix) -> Tensor:
    """Average accuracy after the whole stream."""
    return matrix.average()


def entry(boundary: int, task: int) -> Cell:
    """Accuracy on a task at a boundary, both counted from 0."""
    return lambda matrix: matrix.values[..., boundary, task]


def average_at(boundary: int) -> Cell:
    """Average over the tasks learned so far at a boundary."""
    return lambda matrix: matrix.seen()[..., boundary]
