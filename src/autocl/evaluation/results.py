"""Results as lines: RESULTS/TABLE.jsonl has one for each (entry, setting), sorted, the same on every run.

Every file is of JSON lines, one compact object each, sorted by their keys: the same content is the same file.
What differs from one run to the next, the time it took, stands apart in RESULTS/seconds.jsonl.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from filelock import FileLock

from autocl.errors import FileError, InputError
from autocl.evaluation.published import Provenance
from autocl.evaluation.statistics import Summary
from autocl.files import write_text
from autocl.matrix import TransferMatrix
from autocl.typed_json import read_json_lines

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
