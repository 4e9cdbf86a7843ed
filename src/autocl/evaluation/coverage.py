"""Every number of the paper's tables with what became of it here: none is left out, none without a reason."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from autocl.evaluation.protocol import Protocol
from autocl.evaluation.published import Published, Row
from autocl.evaluation.results import Result
from autocl.evaluation.table import Line, lines

STAND_IN = "stand-in images"
"""Said of a status when a copy of an image set is not the official one, pixel for pixel."""


@dataclass(frozen=True, kw_only=True)
class Covered:
    """One printed number, and the line of ours beside it."""

    table: str
    cell: str
    row: Row
    line: Line | None
    """Of a learner or method made as the row says; None: nothing such was measured."""

    @property
    def published(self) -> Published:
        """The paper's number."""
        return self.row.cells[self.cell]

    @property
    def status(self) -> str:
        """Reproduced, better, worse (higher, lower), not comparable, or not measured, with the reason."""
        if self.line is None:
            return f"not measured: {self.row.absent or f'`autocl bench {self.table}` with it measures it'}"
        stand_in = f" ({STAND_IN})" if self.line.result.stand_ins else ""
        because = f": {self.line.reason}" if self.line.reason else ""
        return f"{self.line.status}{stand_in}{because}"


def coverage(protocol: Protocol, results: Iterable[Result]) -> Iterator[Covered]:
    """All numbers of a table of the paper: one item for each and each entry of ours beside it."""
    made = lines(protocol, results)
    for cell in protocol.cells:
        for row in (r for r in protocol.published if cell in r.cells):
            beside: list[Line | None] = [
                m for m in made if m.cell == cell and m.row is row and m.ours is not None
            ]
            for line in beside or [None]:
                yield Covered(table=protocol.name, cell=cell, row=row, line=line)


def uncovered(protocol: Protocol, results: Iterable[Result]) -> list[str]:
    """Rows of the paper with nothing of ours beside them, each with the reason."""
    missing: dict[str, str] = {}
    for item in coverage(protocol, results):
        if item.line is None:
            missing[item.row.name] = item.status
    return [f"{name}: {status}" for name, status in missing.items()]
