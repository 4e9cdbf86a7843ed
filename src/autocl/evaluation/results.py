"""Results: accuracies over runs, what they say beside a published number, and the lines they are kept as.

RESULTS/TABLE.jsonl has one line for each (entry, setting). Every file is of JSON lines, one compact object
each, sorted by their keys: the same content is the same file. What differs from one run to the next, the time
it took, stands apart in RESULTS/seconds.jsonl.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar

import numpy as np
from filelock import FileLock

from autocl.errors import FileError, InputError
from autocl.evaluation.protocol import Provenance, Published
from autocl.files import write_text
from autocl.matrix import TransferMatrix
from autocl.typed_json import read_json_lines

Z95 = 1.959964
"""Standard normal quantile of a two-sided 95 % interval."""
NEGLIGIBLE = 0.5
"""Points of accuracy below which a difference is called none, however small the deviations: the paper prints
one decimal, and its last few runs would move its means by as much."""

Status = Literal["reproduced", "better", "worse", "higher", "lower", "not comparable", "N.A.", "–"]
"""–: the paper has no such number. higher, lower: where more is not better, because the row is there to show
forgetting."""


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Mean, deviation and interval of one number over runs."""

    mean: float
    std: float
    """ddof 0, as the paper's."""
    interval: float
    """Half the width of the 95 % interval of the mean, from the deviation with ddof 1; NaN for one run."""
    runs: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} ± {self.std:.1f}"


def summarise(values: Sequence[float]) -> Summary:
    """Summarise one number over runs.

    Example:
        >>> s = summarise([1.0, 2.0, 3.0])
        >>> round(s.mean, 2), round(s.std, 2), round(s.interval, 2)
        (2.0, 0.82, 1.13)
    """
    if not values:
        raise InputError("there is nothing to summarise: no run was made")
    x = np.asarray(values, dtype=np.float64)
    half = Z95 * float(x.std(ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else math.nan
    return Summary(mean=float(x.mean()), std=float(x.std()), interval=half, runs=len(x))


def metrics(matrix: TransferMatrix) -> dict[str, Summary]:
    """The continual-learning metrics of matrices [R, M, M], in percent over runs; see docs/metrics.md.

    Those that need entries nobody asked for are left out; forward transfer is counted from zero here.
    """
    found = {
        "average accuracy": matrix.average(),
        "learning accuracy": matrix.learning_accuracy(),
        "backward transfer": matrix.backward_transfer(),
        "forgetting": matrix.forgetting(),
        "accuracy before learning": matrix.forward_transfer(0.0),
    }
    return {
        name: summarise((100 * values).flatten().tolist())
        for name, values in found.items()
        if not bool(values.isnan().any())
    }


def compare(ours: Summary, published: Published) -> Status:
    """Reproduced, better or worse, in percent.

    Reproduced: the difference is negligible, or within 1.96 standard errors of it, from both deviations and
    numbers of runs; a published mean without deviation is taken as exact.
    """
    difference = ours.mean - published.mean
    variance = ours.std**2 / ours.runs + (published.std or 0.0) ** 2 / published.runs
    if abs(difference) <= max(NEGLIGIBLE, Z95 * math.sqrt(variance)):
        return "reproduced"
    return "better" if difference > 0 else "worse"


T = TypeVar("T")


def read_lines(path: Path, form: type[T]) -> list[T]:
    """The objects of a file, each of the form given (see `parse_json`); none when there is no such file."""
    return read_json_lines(path, form) if path.is_file() else []


def put_lines(path: Path, values: Iterable[Mapping[str, Any]], *, key: Sequence[str]) -> None:
    """Add objects to a file, in the place of older ones with the same key; other processes wait meanwhile.

    Args:
        path: made if it is not there.
        values: what JSON can say.
        key: names of the fields that tell objects apart, and order them.
    """
    values = list(values)
    if not values:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / ".lock"):
        found = {tuple(v[k] for k in key): v for v in [*_keyed(path, key), *values]}
        lines = [json.dumps(found[k], ensure_ascii=False, separators=(",", ":")) for k in sorted(found)]
        write_text(path, "\n".join(lines) + "\n")


def _keyed(path: Path, key: Sequence[str]) -> list[dict[str, Any]]:
    """The objects of a file, if text stands in all fields of the key."""
    values = read_lines(path, dict[str, Any])
    for number, value in enumerate(values, 1):
        if not all(isinstance(value.get(k), str) for k in key):
            raise FileError(f"{path}, object {number}: lacks one of {', '.join(key)}; delete the line")
    return values


SECONDS = "seconds.jsonl"
DIGITS = 4
"""Decimals of percentages; a test set of 10,000 images has steps of 0.01."""


class SecondsLine(TypedDict):
    """Time of one run of a result."""

    table: str
    entry: str
    setting: str
    seconds: float


COST = ("examples", "gradient_steps", "state_bytes")


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Accuracies of one entry in one setting, or the reason why it cannot be measured there."""

    entry: str
    setting: str
    identity: Mapping[str, Any]
    """Everything else that decides the numbers: a stored result is reused only when all of it agrees."""
    trained: Provenance
    outputs: int | None
    """Outputs of the entry; None: as many as needed."""
    tasks: tuple[str, ...] = ()
    """Names, in the order of the stream."""
    cells: Mapping[str, tuple[float, ...]]
    """Cell of the table -> percent, one for each run; empty when it cannot be measured."""
    matrix: list[list[float | None]] | None = None
    """Mean accuracies over runs in [0, 1], [M, M], as by `TransferMatrix.to_lists`."""
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Continual-learning metrics over runs in percent: mean, standard deviation."""
    notes: tuple[str, ...] = ()
    """Remarks for readers, e.g. that a copy of a set is only a part."""
    incomparable: str = ""
    """Reason not to hold the numbers against the paper's; empty when one may."""
    cost: Mapping[str, int] = field(default_factory=dict)
    """Cost of one run: all of `COST`, or nothing."""

    table: str = ""
    """It and what follows are not part of the line."""
    seconds: float | None = None
    """Time of one run, on some machine."""
    unsupported: str = ""
    """Reason why the entry cannot be measured here (the paper's N.A.); such results are not stored."""

    def __post_init__(self) -> None:
        M, again = len(self.tasks), "delete the line and measure again"
        if self.matrix is not None and [len(row) for row in self.matrix] != [M] * M:
            raise InputError(f"the matrix is not [{M}, {M}], one row for each task: {again}")
        if not all(v is None or 0 <= v <= 1 for row in self.matrix or [] for v in row):
            raise InputError(f"the matrix holds what is no accuracy between 0 and 1: {again}")
        if not all(0 <= v <= 100 for values in self.cells.values() for v in values):
            raise InputError(f"cells hold what is no accuracy in percent: {again}")
        if self.cost and self.cost.keys() != set(COST):
            raise InputError(f"the cost must name {', '.join(COST)}: {again}")

    @property
    def key(self) -> tuple[str, str]:
        """Entry and setting."""
        return self.entry, self.setting

    @property
    def stand_ins(self) -> tuple[str, ...]:
        """Notes on image sets whose copy is not the official one."""
        return tuple(note for note in self.notes if note.startswith(tuple(self.identity.get("data", ()))))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a line of the table's file, which `parse_json` reads back."""
        line = asdict(self) | {"trained": self.trained.to_dict()}
        return {
            name: value for name, value in line.items() if name not in ("table", "seconds", "unsupported")
        }


def percent(values: Iterable[float]) -> tuple[float, ...]:
    """Shares as percentages, rounded as they are stored."""
    return tuple(round(100 * value, DIGITS) for value in values)


def spread(summary: Summary) -> tuple[float, float]:
    """Mean and deviation, rounded as they are stored."""
    return round(summary.mean, DIGITS), round(summary.std, DIGITS)


def read_results(folder: Path, table: str) -> list[Result]:
    """Every result of a table in a folder, by entry and setting.

    First what learns in context, then what descends on all training images, then what descends on the demos.
    """
    timed = read_lines(folder / SECONDS, SecondsLine)
    times = {(t["table"], t["entry"], t["setting"]): t["seconds"] for t in timed}
    results = [
        replace(r, table=table, seconds=times.get((table, *r.key)), unsupported="")
        for r in read_lines(folder / f"{table}.jsonl", Result)
    ]
    kinds: dict[str, int] = {}
    for r in results:
        kind = 1 if r.trained.train_on == "full" else 2 if r.cost.get("gradient_steps") else 0
        kinds[r.entry] = max(kind, kinds.get(r.entry, 0))
    return sorted(results, key=lambda r: kinds[r.entry])


def save_result(folder: Path, result: Result) -> None:
    """Put a result into its table, in the place of an older one of the same entry and setting."""
    put_lines(folder / f"{result.table}.jsonl", [result.to_dict()], key=("entry", "setting"))
    if result.seconds is not None:
        time = {"table": result.table, "entry": result.entry, "setting": result.setting,
                "seconds": round(result.seconds, 2)}  # fmt: skip
        put_lines(folder / SECONDS, [time], key=("table", "entry", "setting"))


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Differences between a stored result and the one asked for; empty when it can be reused."""
    return ", ".join(sorted(k for k in stored.keys() | wanted.keys() if stored.get(k) != wanted.get(k)))


def rounded(matrix: TransferMatrix) -> list[list[float | None]]:
    """A matrix of shares [M, M] as it is stored: with the decimals of percentages."""
    return [[None if v is None else round(v, DIGITS + 2) for v in row] for row in matrix.to_lists()]
