"""Tables: ours beside the paper's, in Markdown for files and with rich for the terminal.

`coverage` turns them round: every number of the paper with what became of it here, none without a reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from autocl.errors import InputError
from autocl.evaluation.entry import unsupported
from autocl.evaluation.protocol import Protocol, Published, Row
from autocl.evaluation.results import Result, Status, Summary, compare, summarise

HEADINGS = ("entry", "cell", "ours ± std", "paper ± std", "diff.", "status", "s/run", "demos", "steps", "KB")
COST_FROM = 6
"""First of the columns that tell what a number cost."""
STATUS_STYLE: dict[str, str] = {"reproduced": "green", "better": "bold green", "worse": "yellow"}
NEUTRAL: dict[Status, Status] = {"better": "higher", "worse": "lower"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One cell of one entry."""

    entry: str
    cell: str
    ours: Summary | None
    row: Row | None
    """The paper's row it stands beside, if there is one with this cell."""
    status: Status
    reason: str = ""
    """Behind "N.A." and "not comparable"."""
    result: Result

    @property
    def published(self) -> Published | None:
        """The paper's number."""
        return None if self.row is None else self.row.cells[self.cell]

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in points."""
        if self.ours is None or self.published is None:
            return None
        return self.ours.mean - self.published.mean

    def texts(self, mark: str = "") -> tuple[str, ...]:
        """One text for each heading; the mark leads from the status to its reason below the table."""
        cost, seconds = self.result.cost, self.result.seconds
        return (
            self.entry,
            self.cell,
            str(self.ours or "N.A."),
            str(self.published or "–"),
            "" if self.difference is None else f"{self.difference:+.1f}",
            self.status + mark,
            "" if seconds is None else f"{seconds:.1f}",
            f"{cost['examples']:,.0f}" if cost else "",
            f"{cost['gradient_steps']:,.0f}" if cost else "",
            f"{cost['state_bytes'] / 1024:,.0f}" if cost else "",
        )


def lines(protocol: Protocol, results: Iterable[Result], *, row: str | None = None) -> list[Line]:
    """Compare results with the paper: a line for each cell of the table and each entry.

    A cell without a result says why: results that are not stored are derived here.

    Args:
        protocol: whose results these are.
        results: of one or several entries.
        row: name of the paper's row to compare with; default: of each entry, the row that says of itself
            what the entry's file says.
    """
    names = list(dict.fromkeys(r.name for r in protocol.published))
    if row is not None and row not in names:
        raise InputError(f"{protocol.name} has no row {row!r}: choose one of {'; '.join(names) or 'none'}")
    by_entry: dict[str, list[Result]] = {}
    for result in results:
        by_entry.setdefault(result.entry, []).append(result)
    return [line for of_one in by_entry.values() for line in _condensed(_lines(protocol, of_one, row))]


def _lines(protocol: Protocol, results: Sequence[Result], row: str | None) -> list[Line]:
    """The lines of one entry, in the order of the table."""
    measured = {r.setting: r for r in results}
    of_cell: dict[str, tuple[Result, tuple[float, ...]]] = {}
    for setting in protocol.settings:
        result = measured.get(setting.name)
        if result is None:
            why = unsupported(results[0].outputs, setting) or "not measured"
            result = replace(results[0], unsupported=why, cells={}, cost={}, seconds=None)
        for cell in setting.cells:
            of_cell[cell] = result, tuple(result.cells.get(cell, ()))
    for cell, parts in protocol.averages.items():
        values = [of_cell[part][1] for part in parts]
        lacking = next((of_cell[part][0] for part in parts if not of_cell[part][1]), None)
        # Settings may have been measured with different numbers of runs: a run has the same number in all.
        over = [sum(run) / len(run) for run in zip(*values, strict=False)] if lacking is None else []
        of_cell[cell] = lacking or of_cell[parts[0]][0], tuple(over)
    made = []
    for cell in protocol.cells:
        result, numbers = of_cell[cell]
        ours = summarise(numbers) if numbers else None
        beside = protocol.row(result.trained, cell, row)
        status, reason = _judge(result, cell, ours, beside)
        line = Line(entry=result.entry, cell=cell, ours=ours, row=beside, status=status, reason=reason,
                    result=result)  # fmt: skip
        made.append(line)
    return made


def markdown(made: Sequence[Line], *, title: str) -> str:
    """A Markdown section with the table and its footnotes."""
    body = [HEADINGS, *marked(made)]
    bars = ["| " + " | ".join(text.replace("|", "/") for text in row) + " |" for row in body]
    bars.insert(1, "|---|---|" + "---:|" * 3 + "---|" + "---:|" * 4)
    notes = "".join(f"\n- {note}" for note in (*numbered(made), *footnotes(made)))
    return f"## {title}\n\n" + "\n".join(bars) + "\n" + (f"\nNotes:\n{notes}\n" if notes else "")


def rich_table(made: Sequence[Line], *, title: str, wide: bool = False) -> Table:
    """The same for a terminal; without the columns of cost unless it is wide. Reasons stand below."""
    shown = slice(1, None if wide else COST_FROM)
    below = "\n".join(numbered(made))
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False,
        caption=escape(below) or None, caption_justify="left",
    )  # fmt: skip
    for i, heading in list(enumerate(HEADINGS))[shown]:
        table.add_column(heading, justify="right" if is_number(i) else "left", overflow="fold")
    last = ""
    for line, cells in zip(made, marked(made), strict=True):
        if line.entry != last:
            table.add_section()
            table.add_row(f"[bold]{escape(line.entry)}[/bold]")
            last = line.entry
        texts = [escape(text) for text in cells]
        style = STATUS_STYLE.get(line.status, "dim")
        texts[5] = f"[{style}]{texts[5]}[/{style}]"
        table.add_row(*texts[shown])
    return table


def is_number(column: int) -> bool:
    """Whether a column of the table is aligned to the right."""
    return 2 <= column <= 4 or column >= COST_FROM


def marked(made: Sequence[Line]) -> list[tuple[str, ...]]:
    """The texts of all lines, with marks that lead to `numbered`."""
    reasons = _reasons(made)
    marks = [f" [{reasons.index(line.reason) + 1}]" if line.reason else "" for line in made]
    return [line.texts(mark) for line, mark in zip(made, marks, strict=True)]


def numbered(made: Sequence[Line]) -> list[str]:
    """Reasons why cells are N.A. or not comparable, each once."""
    status = {line.reason: line.status for line in made}
    link = {"not comparable": " because "}
    reasons = enumerate(_reasons(made), start=1)
    return [f"[{i}] {status[reason]}{link.get(status[reason], ': ')}{reason}" for i, reason in reasons]


def footnotes(made: Sequence[Line]) -> list[str]:
    """Beside which rows entries stand, and what is to be known about data and entries, each thing once."""
    beside: dict[str, dict[str, None]] = {}
    for line in made:
        if line.row is not None and line.ours is not None:
            beside.setdefault(line.row.name, {})[line.entry] = None
    notes = [f"Beside the paper's row “{row}”: {', '.join(entries)}." for row, entries in beside.items()]
    if any(line.result.identity.get("demos") == "paper" for line in made):
        notes.append("Demos are consecutive blocks of the file, class after class in turn, as the paper's.")
    about: dict[str, dict[str, None]] = {}
    for line in made:
        for note in line.result.notes:
            said = note.removeprefix(f"{line.entry}: ")
            about.setdefault(said, {}).update({line.entry: None} if said != note else {})
    return notes + [f"{', '.join(who)}: {said}" if who else said for said, who in about.items()]


def _reasons(made: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.reason for line in made if line.reason))


def _condensed(of_entry: list[Line]) -> list[Line]:
    """One line instead of many when an entry can do nothing of a table, for one reason."""
    refused = all(line.ours is None for line in of_entry)
    if refused and len(of_entry) > 1 and len({line.reason for line in of_entry}) == 1:
        return [replace(of_entry[0], cell=f"all {len(of_entry)}", row=None)]
    return of_entry


def _judge(result: Result, cell: str, ours: Summary | None, row: Row | None) -> tuple[Status, str]:
    if ours is None:
        return "N.A.", result.unsupported
    if row is None:
        return "–", ""
    if result.incomparable:
        return "not comparable", result.incomparable
    status = compare(ours, row.cells[cell])
    return (NEUTRAL.get(status, status) if row.shows_forgetting else status), ""


STAND_IN = "stand-in images"
"""Said of a status when a copy of an image set is not the official one, pixel for pixel."""


@dataclass(frozen=True, kw_only=True)
class Covered:
    """One printed number, and the line of ours beside it."""

    table: str
    cell: str
    row: Row
    line: Line | None
    """Line of a learner or method made as the row says; None: nothing such was measured."""

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
