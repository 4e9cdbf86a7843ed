"""A shipped learner, measured again and compared with its card: a quick look, seconds to a minute."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, NotRequired, TypedDict

from autocl.evaluation import bench
from autocl.evaluation.entry import Entry
from autocl.evaluation.protocol import Options
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import Result
from autocl.names import resolve

QUICK = Options(quick=True)
TOLERANCE = 1.0
"""Points of accuracy. The streams are the same everywhere; another machine's rounding turns a few of the
hundreds of answers in a cell."""


class Check(TypedDict):
    """Accuracies that a learner's record states for the quick look of one table."""

    of: NotRequired[str]
    """Fingerprint of the weights that were measured."""
    table: str
    data: dict[str, str]
    """Image set -> the beginning of its content's hash."""
    cells: dict[str, float]
    """Cell -> percent, the mean over runs."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One cell of a check."""

    cell: str
    card: float
    """Percent; likewise `now`."""
    now: float | None
    status: Literal["agrees", "differs", "other data", "not measured"]
    reason: str = ""


def quick_check(entry: Entry, table: str) -> Check:
    """Measure a learner in the quick look of a table, for its record.

    Args:
        entry: the learner.
        table: name of a protocol.
    """
    measured = [r for r in _measure(entry, table) if not r.unsupported]
    data: dict[str, str] = {}
    for result in measured:
        data |= result.identity["data"]
    return Check(table=table, data=data, cells=_means(measured))


def verify(entry: Entry, check: Check) -> list[Compared]:
    """Measure a learner again and compare it, cell by cell, with what its record says.

    A cell agrees when it is within `TOLERANCE` points. Where the images are not those of the record, or not
    on this machine, nothing can be said of the learner.
    """
    results = _measure(entry, check["table"])
    now = _means(results)
    of_cell = {cell: result for result in results for cell in result.cells}
    compared = []
    for cell, card in check["cells"].items():
        result = of_cell.get(cell)
        if result is None or cell not in now:
            reason = "the table has no such cell any more" if result is None else result.unsupported
            compared.append(Compared(cell=cell, card=card, now=None, status="not measured", reason=reason))
            continue
        others = [
            key for key, content in result.identity["data"].items() if check["data"].get(key) != content
        ]
        agrees = abs(now[cell] - card) <= TOLERANCE
        compared.append(
            Compared(
                cell=cell,
                card=card,
                now=now[cell],
                status="other data" if others else "agrees" if agrees else "differs",
                reason=f"other images than those of the card: {', '.join(others)}" if others else "",
            )
        )
    return compared


def _measure(entry: Entry, table: str) -> list[Result]:
    protocol = PROTOCOLS[resolve(table, PROTOCOLS, "table")]
    with TemporaryDirectory() as folder:  # nothing measured before counts
        return bench.run(protocol, entry, QUICK, Path(folder))


def _means(results: list[Result]) -> dict[str, float]:
    return {
        cell: round(sum(runs) / len(runs), 2)
        for result in results
        for cell, runs in result.cells.items()
        if runs
    }
