"""Protocol: how one table of the paper is computed, and the rows that the paper printed in it.

A row says what was meta-trained how to get its numbers, so that ours can stand beside it.

Shape legend: R = runs, M = tasks of a stream.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from torch import Tensor

from autocl.data.eval_streams import Demos
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.data.stream import Stream
from autocl.errors import InputError
from autocl.matrix import TransferMatrix

ARCHITECTURE = "conv4 + srwm"
"""The paper's learner: Conv-4 and SRWM layers, read out by a linear layer."""
OMNI_MINI = ("omniglot", "mini_imagenet")
FC100_MINI = ("fc100", "mini_imagenet")
ALL_THREE = ("omniglot", "mini_imagenet", "fc100")
TITLES = {"omniglot": "Omniglot", "mini_imagenet": "mini-ImageNet", "fc100": "FC100", "mnist": "MNIST",
          "fashion_mnist": "FMNIST", "cifar10": "CIFAR-10"}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Meta-training of a learner, as its file states it; empty or 0: not said, or not one value."""

    recipe: str = ""
    """Name of a learner's recipe, or of a method that is no learner."""
    architecture: str = ""
    sets: tuple[str, ...] = ()
    """Image sets of meta-training."""
    scenario: str = ""
    tasks: int = 0
    """Tasks of a stream in meta-training; likewise ways (classes of a task) and shots (demos of a class)."""
    ways: int = 0
    shots: int = 0
    acl: bool = True
    """Whether the backward terms were minimised."""
    validated_on: str = ""
    """The target domain whose held-out training images chose the checkpoint; empty: validation classes."""
    backbone: str = ""
    """The frozen network whose features it was meta-trained on; empty: it reads images, or any vectors."""
    train_on: str = "demos"
    """Images of each task that it is given at meta-test: the demos, or all training images ("full")."""

    @staticmethod
    def read(meta: Mapping[str, str], *, architecture: str) -> "Provenance":
        """Read the metadata of a learner's file."""
        said: dict[str, Any] = {
            n: meta.get(n, "") for n in ("recipe", "scenario", "validated_on", "backbone")
        }
        said |= {n: int(meta.get(n, 0)) for n in ("tasks", "ways", "shots")}
        said |= {"sets": tuple(meta.get("sets", "").split()), "acl": meta.get("acl", "true") != "false"}
        return Provenance(architecture=architecture, **said)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, without what is not said."""
        default = Provenance()
        return {k: v for k, v in asdict(self).items() if v != getattr(default, k)}


@dataclass(frozen=True)
class Published:
    """One printed number: accuracy in percent."""

    mean: float
    std: float | None = None
    """ddof 0."""
    runs: int = 10
    """Over which mean and deviation were taken."""

    def __str__(self) -> str:
        return f"{self.mean:.1f}" + ("" if self.std is None else f" ± {self.std:.1f}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One row of a table of the paper."""

    name: str
    says: Mapping[str, Any] = field(default_factory=dict)
    """Field of `Provenance` -> its value: what the paper says of the learner or method of this row."""
    cells: Mapping[str, Published]
    shows_forgetting: bool = False
    """A row without backward terms: more is not better there."""
    absent: str = ""
    """Reason why nothing of ours stands beside it, where nothing does."""

    def __post_init__(self) -> None:
        assert set(self.says) <= {f.name for f in fields(Provenance)}, self.says

    def is_of(self, trained: Provenance) -> bool:
        """Whether a learner or method was made as this row says, field by field."""
        return all(getattr(trained, name) == value for name, value in self.says.items())


def numbers(cells: str, printed: str, runs: int = 10) -> dict[str, Published]:
    """Names and numbers side by side; "-" is none.

    Example:
        >>> numbers("a|b|c", "1.0±0.1 - 2.0")
        {'a': Published(mean=1.0, std=0.1, runs=10), 'c': Published(mean=2.0, std=None, runs=10)}
    """
    found = {}
    for name, number in zip(cells.split("|"), printed.split(), strict=True):
        if number != "-":
            mean, _, std = number.partition("±")
            found[name] = Published(float(mean), float(std) if std else None, runs)
    return found


def of_method(name: str, recipe: str, cells: Mapping[str, Published], *, train_on: str = "demos") -> Row:
    """A row of a method that has a name in the registry, or of a baseline with a recipe of that name."""
    return Row(name=name, says={"recipe": recipe, "train_on": train_on}, cells=cells)


def not_made(*recipes: str) -> str:
    """Reason why a row has nothing beside it: no such learner ships; and the commands that make one."""
    commands = " and ".join(f"`autocl train {recipe}`" for recipe in recipes)
    return f"no learner made so ships; {commands} makes one"


def out_of_the_box(
    sets: tuple[str, ...], cells: Mapping[str, Published], *, acl: bool = True, name: str = ""
) -> Row:
    """A row of a learner meta-trained on one 5-way 15-shot task of each set, used as it is."""
    title = " + ".join(TITLES[s] for s in sets) + (", ACL" if acl else ", no ACL")
    says = {
        "architecture": ARCHITECTURE,
        "sets": sets,
        "tasks": len(sets),
        "ways": 5,
        "shots": 15,
        "acl": acl,
    }
    recipe = {FC100_MINI: "two-task-fc100", ALL_THREE: "three-task"}.get(sets, "two-task")
    absent = not_made(recipe if acl else f"{recipe}-noacl")
    return Row(name=name or title, says=says, cells=cells, shows_forgetting=not acl, absent=absent)


def finetuned(name: str, cells: Mapping[str, Published], *, absent: str = "", **says: Any) -> list[Row]:
    """Rows of learners meta-finetuned with 5 tasks of 2 classes: one for each scenario the cells name.

    Cells begin with their scenario unless `says` has it; the paper has one learner for each.
    """
    common = {"architecture": ARCHITECTURE, "sets": ("omniglot",), "tasks": 5, "ways": 2, "shots": 15,
              "acl": True, **says}  # fmt: skip
    if "scenario" in says:
        return [Row(name=name, says=common, cells=cells, absent=absent)]
    parts = {s: {c: v for c, v in cells.items() if c.startswith(s)} for s in ("domain", "class")}
    return [
        Row(name=name, says={**common, "scenario": scenario}, cells=part, absent=absent)
        for scenario, part in parts.items()
        if part
    ]


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

    def load(self, **how: Any) -> ImageSet:
        """The set, by `autocl.data.load`."""
        return load(self.name, self.split, **how, **dict(self.options))


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
        """Whether entries stand behind a frozen pre-trained network (see `protocols.backbone`)."""
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


def one_cell(
    cell: str, sets: tuple[SetRef, ...], n_outputs: int, streams: Callable[[Sets, int, Options], Stream]
) -> Setting:
    """A setting with one cell, the average accuracy after the whole stream."""
    cells = {cell: TransferMatrix.average}
    return Setting(name=cell, sets=sets, n_outputs=n_outputs, streams=streams, cells=cells)


def entry(boundary: int, task: int) -> Cell:
    """Accuracy on a task at a boundary, both counted from 0."""
    return lambda matrix: matrix.values[..., boundary, task]


def average_at(boundary: int) -> Cell:
    """Average over the tasks learned so far at a boundary."""
    return lambda matrix: matrix.seen()[..., boundary]
