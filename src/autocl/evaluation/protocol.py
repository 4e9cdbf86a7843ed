"""Protocol: how one table of the paper is computed, said in data and small functions.

Shape legend: R = runs, M = tasks of a stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from autocl.data.eval_streams import Demos
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream
from autocl.errors import InputError
from autocl.evaluation.published import Provenance, Row
from autocl.matrix import TransferMatrix

Cell = Callable[[TransferMatrix], Tensor]
"""From the matrices [R, M, M] of a setting to one number for each run [R], in [0, 1]."""
Sets = Mapping[str, ImageSet]
"""Image sets by "name/split"."""

QUICK_RUNS, QUICK_QUERIES, QUICK_STREAMS = 2, 200, 20


@dataclass(frozen=True, kw_only=True)
class SetRef:
    """An image set by name, as a protocol asks for it."""

    name: str
    split: str
    options: tuple[tuple[str, Any], ...] = ()
    """For `autocl.data.load`."""

    @property
    def key(self) -> str:
        """name/split."""
        return f"{self.name}/{self.split}"


def train_and_test(*names: str) -> tuple[SetRef, ...]:
    """Both splits of each set, each set once."""
    return tuple(SetRef(name=n, split=split) for n in dict.fromkeys(names) for split in ("train", "test"))


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of every protocol."""

    runs: int | None = None
    """Number of runs; default: the paper's."""
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
        """Runs of a protocol whose paper made `default`."""
        if self.runs is not None:
            return self.runs
        return min(default, QUICK_RUNS) if self.quick else default

    def n_queries(self) -> int | None:
        """Most queries of a task; None: all."""
        return QUICK_QUERIES if self.queries is None and self.quick else self.queries

    def n_streams(self, default: int) -> int:
        """Streams of one run where it is a mean over many."""
        return min(default, QUICK_STREAMS) if self.quick else default


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One kind of stream, from which one or several cells of a table are read off."""

    name: str
    sets: tuple[SetRef, ...]
    n_outputs: int
    """Outputs that its streams need."""
    streams: Callable[[Sets, int, Options], Stream]
    """(sets, run, options) -> the streams whose mean is that run; mostly one."""
    cells: Mapping[str, Cell]


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """A table: settings, the paper's number of runs, and the paper's rows."""

    name: str
    title: str
    runs: int
    settings: tuple[Setting, ...]
    published: tuple[Row, ...] = ()
    """The paper's rows; none for a table of our own."""
    averages: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Cells that are means over cells of several settings: name -> their names."""
    position: int = 100
    """Place among the tables: the paper's in its order, others last."""
    references: str = ""
    """Numbers of others that no entry can be compared with cell by cell, in words."""
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Methods measured when none is named, with their options, in a table behind a frozen network."""
    revision: int = 1
    """Raised when a protocol changes what it computes, so that old results are not reused."""

    @property
    def behind_backbone(self) -> bool:
        """Whether entries stand behind a frozen pre-trained network (see `on_backbone`)."""
        return bool(self.statistics)

    @property
    def cells(self) -> list[str]:
        """All cells, in the paper's order, then the others."""
        printed = max((row.cells for row in self.published), key=len, default={})
        ours = [cell for setting in self.settings for cell in setting.cells]
        return list(dict.fromkeys([*printed, *ours, *self.averages]))

    def row(self, trained: Provenance, cell: str, name: str | None = None) -> Row | None:
        """The paper's row that a learner or method stands beside in a cell.

        Args:
            trained: how it was made.
            cell: of this table.
            name: the row of this name instead, whatever it says.
        """
        rows = (r for r in self.published if cell in r.cells)
        return next((r for r in rows if (r.is_of(trained) if name is None else r.name == name)), None)


def average(matrix: TransferMatrix) -> Tensor:
    """Average accuracy after the whole stream."""
    return matrix.average()


def entry(boundary: int, task: int) -> Cell:
    """Accuracy on a task at a boundary, both counted from 0."""
    return lambda matrix: matrix.values[..., boundary, task]


def average_at(boundary: int) -> Cell:
    """Average over the tasks learned so far at a boundary."""
    return lambda matrix: matrix.seen()[..., boundary]
