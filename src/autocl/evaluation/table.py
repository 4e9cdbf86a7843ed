"""Tables: ours beside the paper's, in Markdown for files and with rich for the terminal."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from autocl.evaluation.outcome import Outcome
from autocl.evaluation.paper import NO_ACL, TABLES, Published
from autocl.evaluation.rows import other_diet
from autocl.evaluation.statistics import Status, Summary, compare, summarise

HEADINGS = (
    "subject",
    "cell",
    "ours ± std",
    "paper ± std",
    "diff.",
    "status",
    "s/run",
    "demos",
    "steps",
    "KB",
)
COST_FROM = 6
"""First of the columns that tell what a number cost."""
STATUS_STYLE: dict[str, str] = {"reproduced": "green", "better": "bold green", "worse": "yellow"}
NEUTRAL: dict[Status, Status] = {"better": "higher", "worse": "lower"}


@dataclass(frozen=True, kw_only=True)
class Line:
    """One cell of one subject."""

    subject: str
    paper_row: str
    cell: str
    ours: Summary | None
    published: Published | None
    status: Status
    reason: str = ""
    """Behind "N.A." and "not comparable"."""
    outcome: Outcome

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's, in points."""
        if self.ours is None or self.published is None:
            return None
        return self.ours.mean - self.published.mean

    def texts(self, mark: str = "") -> tuple[str, ...]:
        """One text for each heading; the mark leads from the status to its reason below the table."""
        cost = self.outcome.cost
        return (
            self.subject,
            self.cell,
            "N.A." if self.ours is None else f"{self.ours.mean:.1f} ± {self.ours.std:.1f}",
            _printed(self.published),
            "" if self.difference is None else f"{self.difference:+.1f}",
            self.status + mark,
            f"{cost['seconds']:.1f}" if cost else "",
            f"{cost['examples']:,.0f}" if cost else "",
            f"{cost['gradient_steps']:,.0f}" if cost else "",
            f"{cost['state_bytes'] / 1024:,.0f}" if cost else "",
        )


def lines(outcomes: Iterable[Outcome], order: Sequence[str] = ()) -> list[Line]:
    """Compare outcomes of one protocol with the paper.

    Args:
        outcomes: of one protocol.
        order: cells in the order of the table; those not named come last.
    """
    outcomes = list(outcomes)
    subjects = list(dict.fromkeys(outcome.subject for outcome in outcomes))
    made = []
    for outcome in outcomes:
        row = outcome.paper_row
        printed = TABLES.get(outcome.protocol, {}).get(row, {})
        for cell, values in outcome.cells.items():
            published = printed.get(cell)
            ours = summarise(values) if values else None
            status, reason = _judge(outcome, ours, published)
            made.append(
                Line(
                    subject=outcome.subject, paper_row=row, cell=cell, ours=ours, published=published,
                    status=status, reason=reason, outcome=outcome,
                )
            )  # fmt: skip
    place = {cell: i for i, cell in enumerate(order)}
    by_subject: dict[str, list[Line]] = {}
    for line in sorted(made, key=lambda x: place.get(x.cell, len(place))):
        by_subject.setdefault(line.subject, []).append(line)
    return [line for subject in subjects for line in _condensed(by_subject[subject])]


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
        if line.subject != last:
            table.add_section()
            table.add_row(f"[bold]{escape(line.subject)}[/bold]")
            last = line.subject
        texts = [escape(text) for text in cells]
        style = STATUS_STYLE.get(line.status, "dim")
        texts[5] = f"[{style}]{texts[5]}[/{style}]"
        table.add_row(*texts[shown])
    return table


def is_number(column: int) -> bool:
    """Whether a column of the table is read from its right end."""
    return 2 <= column <= 4 or column >= COST_FROM


def marked(made: Sequence[Line]) -> list[tuple[str, ...]]:
    """The texts of all lines, with marks that lead to `numbered`."""
    reasons = _reasons(made)
    marks = [f" [{reasons.index(line.reason) + 1}]" if line.reason else "" for line in made]
    return [line.texts(mark) for line, mark in zip(made, marks, strict=True)]


def numbered(made: Sequence[Line]) -> list[str]:
    """Why cells are N.A. or not comparable, each reason once."""
    status = {line.reason: line.status for line in made}
    link = {"not comparable": " because "}
    reasons = enumerate(_reasons(made), start=1)
    return [f"[{i}] {status[reason]}{link.get(status[reason], ': ')}{reason}" for i, reason in reasons]


def footnotes(made: Sequence[Line]) -> list[str]:
    """Beside which rows subjects stand, and what is to be known about data and subjects, each thing once."""
    beside: dict[str, dict[str, None]] = {}
    for line in made:
        if line.published is not None:
            beside.setdefault(line.paper_row, {})[line.subject] = None
    notes = [f"Beside the paper's row “{row}”: {', '.join(subjects)}." for row, subjects in beside.items()]
    if any(line.outcome.identity["demos"] == "paper" for line in made):
        notes.append("Demos are consecutive blocks of the file, class after class in turn, as the paper's.")
    about: dict[str, dict[str, None]] = {}
    for line in made:
        for note in line.outcome.notes:
            said = note.removeprefix(f"{line.subject}: ")
            about.setdefault(said, {}).update({line.subject: None} if said != note else {})
    return notes + [f"{', '.join(who)}: {said}" if who else said for said, who in about.items()]


def _reasons(made: Sequence[Line]) -> list[str]:
    return list(dict.fromkeys(line.reason for line in made if line.reason))


def _condensed(of_subject: list[Line]) -> list[Line]:
    """One line instead of many when a subject can do nothing of a table, for one reason."""
    refused = all(line.ours is None for line in of_subject)
    if refused and len(of_subject) > 1 and len({line.reason for line in of_subject}) == 1:
        return [replace(of_subject[0], cell=f"all {len(of_subject)}", published=None)]
    return of_subject


def _judge(outcome: Outcome, ours: Summary | None, published: Published | None) -> tuple[Status, str]:
    if ours is None:
        return "N.A.", outcome.refused
    if published is None:
        return "no counterpart", ""
    if reason := other_diet(outcome.diet, outcome.paper_row) or outcome.incomparable:
        return "not comparable", reason
    status = compare(ours, published)
    if outcome.paper_row.endswith(NO_ACL):
        status = NEUTRAL.get(status, status)
    return status, ""


def _printed(published: Published | None) -> str:
    if published is None:
        return "–"
    return f"{published.mean:.1f}" + ("" if published.std is None else f" ± {published.std:.1f}")
