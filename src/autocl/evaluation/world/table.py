"""The world table: a row for each contestant, a verdict on each learner, for a terminal and for Markdown.

A verdict says level, rank, distance to rivals and what the body adds. A cell is one kind of stream over one
image set.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from autocl.errors import InputError
from autocl.evaluation.results import Summary, summarise
from autocl.evaluation.world.measure import Measured
from autocl.evaluation.world.rivals import RIVALS
from autocl.evaluation.world.sets import WORLDS, Split
from autocl.evaluation.world.streams import KINDS

WITHOUT_BODY = "{} without body"
CLOSE = 1.0
"""Points behind the best constant-size rival that are allowed in any cell."""
GROUPS: dict[str, Callable[[str], bool]] = {
    "1 shot": lambda kind: kind.endswith(", 1 shot"),
    "5 shots": lambda kind: kind.endswith(", 5 shots"),
    "15 shots": lambda kind: kind.endswith(", 15 shots"),
    "other": lambda kind: not kind.endswith((" shot", " 5 shots", " 15 shots")),
    "class": lambda kind: kind.startswith("class"),
    "domain": lambda kind: kind.startswith("domain"),
}
"""Cells that are averaged apart: by shots ("other": unequal shots, wrong labels, a returning class), and by
scenario."""

Cell = tuple[str, str]
"""Image set, kind of stream."""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contestant over all cells of a world, on one encoder's features."""

    entry: str
    constant: bool
    cells: Mapping[Cell, Summary]
    """In per cent, over draws."""
    mean: Summary
    """Over draws of the mean over cells."""
    rank: float
    """Mean over cells of its place among all rows, 1 the best; equals share theirs."""
    calibration: float | None
    """Mean expected calibration error, in points."""
    novelty: float | None
    """Mean area under the ROC curve, in per cent."""
    state_bytes: int

    def group(self, name: str) -> float | None:
        """Mean over a group of cells; None where there is no such cell."""
        return _mean(s.mean for (_, kind), s in self.cells.items() if GROUPS[name](kind))


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """A learner against the rivals on its own features."""

    entry: str
    differences: Mapping[Cell, float]
    """Learner minus the best constant-size rival of that cell, in points."""
    leads: Mapping[str, float]
    """Mean of the learner minus that of each rival of any size, the best rival first."""
    body: Mapping[str, float]
    """Full learner minus the same without its body: over all cells, and by shots; empty without a body."""
    worst_body: tuple[Cell, float] | None
    """The cell in which the body does the most harm."""

    @property
    def close(self) -> int:
        """Cells in which the learner is at most a point behind."""
        return sum(d >= -CLOSE for d in self.differences.values())

    @property
    def ahead(self) -> int:
        """Cells in which it is level or ahead."""
        return sum(d >= 0 for d in self.differences.values())

    @property
    def worst(self) -> tuple[Cell, float]:
        """The cell in which it is furthest behind."""
        return min(self.differences.items(), key=lambda item: item[1])


def rows_of(measured: Iterable[Measured]) -> list[Row]:
    """Rows over the cells that all of them have, best first.

    Args:
        measured: of one world and one encoder's features.
    """
    by_entry: dict[str, list[Measured]] = {}
    for m in measured:
        by_entry.setdefault(m.entry, []).append(m)
    if not by_entry:
        raise InputError("the world table is empty: none of its image sets is on this machine")
    order = [kind.name for kind in KINDS]
    draws = {
        entry: {(m.set, kind): m.cells[kind] for m in of_one for kind in sorted(m.cells, key=order.index)}
        for entry, of_one in by_entry.items()
    }
    first, *others = draws.values()
    common = [cell for cell in first if all(cell in other for other in others)]
    means = np.array([[fmean(draws[entry][cell]) for cell in common] for entry in draws])
    # Equal means share the mean of their places.
    places = 0.5 + (means[None] > means[:, None]).sum(1) + 0.5 * (means[None] == means[:, None]).sum(1)
    rows = [
        Row(
            entry=entry,
            constant=of_one[0].constant,
            cells={cell: summarise(draws[entry][cell]) for cell in common},
            mean=summarise([fmean(run) for run in zip(*(draws[entry][c] for c in common), strict=True)]),
            rank=float(place.mean()),
            calibration=_mean(v for m in of_one for v in m.calibration.values()),
            novelty=_mean(v for m in of_one for v in m.novelty),
            state_bytes=max(m.state_bytes for m in of_one),
        )
        for (entry, of_one), place in zip(by_entry.items(), places, strict=True)
    ]
    return sorted(rows, key=lambda row: -row.mean.mean)


def verdict(rows: Sequence[Row], learner: str, rivals: Sequence[str]) -> Verdict:
    """A learner beside rivals, all by their names in the table; rows as `rows_of` gives them."""
    by_name = {row.entry: row for row in rows}
    mine, others = by_name[learner], [row for row in rows if row.entry in set(rivals)]
    constant = [row for row in others if row.constant]
    if not constant:
        raise InputError("there is no constant-size rival to compare with")
    bodiless = by_name.get(WITHOUT_BODY.format(learner))
    gains = {c: mine.cells[c].mean - bodiless.cells[c].mean for c in mine.cells} if bodiless else {}
    body = {"all": _mean(gains.values())}
    for name in ("1 shot", "5 shots", "15 shots", "other"):
        body[name] = _mean(gain for (_, kind), gain in gains.items() if GROUPS[name](kind))
    return Verdict(
        entry=learner,
        differences={
            cell: ours.mean - max(row.cells[cell].mean for row in constant)
            for cell, ours in mine.cells.items()
        },
        leads={row.entry: mine.mean.mean - row.mean.mean for row in others},
        body={name: gain for name, gain in body.items() if gain is not None},
        worst_body=min(gains.items(), key=lambda item: item[1]) if gains else None,
    )


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None


HEADINGS = ("", "mean", "rank", *GROUPS, "ECE", "novelty", "state", "stream")
NARROW = ("", "mean", "1 shot", "5 shots", "15 shots", "ECE", "novelty")
"""For a terminal that is not wide."""
BOUNDARIES = frozenset(rival.name for rival in RIVALS if rival.told)
GROWS, TOLD = "*", "†"
LEGEND = (
    f"{GROWS} keeps all demos, or a mean of each task. {TOLD} is told the boundaries of tasks. Per cent of "
    "right answers after the whole stream; other: unequal shots, wrong labels, a returning class. ECE: "
    "expected calibration error, points. novelty: area under the ROC curve, classes never shown, per cent. "
    "state and CPU time: 150 demos of 10 classes, 400 queries, features given."
)
Times = Mapping[str, Mapping[str, float]]
"""Contestant -> what -> seconds; see `time_contestant`."""


def texts(row: Row, times: Times) -> dict[str, str]:
    """The text below each heading."""
    stream = times.get(row.entry, {}).get("stream")
    marks = "" if row.constant else GROWS + TOLD * (row.entry in BOUNDARIES)
    return {
        "": row.entry + marks,
        "mean": f"{row.mean.mean:.1f} ± {row.mean.interval:.1f}",
        "rank": f"{row.rank:.1f}",
        **{name: _number(row.group(name)) for name in GROUPS},
        "ECE": _number(row.calibration),
        "novelty": _number(row.novelty),
        "state": f"{row.state_bytes / 1024:,.0f} KB",
        "stream": "" if stream is None else f"{1000 * stream:,.1f} ms",
    }


def rich_table(
    rows: Sequence[Row], title: str, learners: Sequence[str], times: Times, *, wide: bool
) -> Table:
    """Table for a terminal; learners stand out."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False,
        caption=LEGEND, caption_justify="left",
    )  # fmt: skip
    shown = HEADINGS if wide else NARROW
    for heading in shown:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for row in rows:
        found = texts(row, times)
        table.add_row(
            *(escape(found[name]) for name in shown), style="bold" if row.entry in learners else None
        )
    return table


def markdown(rows: Sequence[Row], times: Times) -> str:
    """Table for the documentation."""
    lines = [HEADINGS, *(tuple(texts(row, times).values()) for row in rows)]
    bars = ["| " + " | ".join(line) + " |" for line in lines]
    bars.insert(1, "|---|" + "---:|" * (len(HEADINGS) - 1))
    return "\n".join(bars) + f"\n\n\\{LEGEND}\n"  # a star at the start would make a list


def cell_markdown(rows: Sequence[Row]) -> str:
    """Every cell of every row, with the interval over draws; the best of a cell stands out."""
    bars = ["| cell | " + " | ".join(row.entry for row in rows) + " |", "|---|" + "---:|" * len(rows)]
    for cell in rows[0].cells:
        found = [row.cells[cell] for row in rows]
        best = max(s.mean for s in found)
        said = [f"{s.mean:.1f} ± {s.interval:.1f}" for s in found]
        shown = [f"**{text}**" if s.mean == best else text for s, text in zip(found, said, strict=True)]
        bars.append(f"| {', '.join(cell)} | " + " | ".join(shown) + " |")
    return "\n".join(bars) + "\n"


def said(v: Verdict, times: Times) -> list[str]:
    """A verdict in sentences."""
    cells = len(v.differences)
    (worst, behind) = v.worst
    lines = [
        f"{v.entry}: within 1.0 of the best constant-size rival in {v.close} of {cells} cells, level or "
        f"ahead in {v.ahead}; worst cell {', '.join(worst)}: {behind:+.1f}",
    ]
    for told in (False, True):
        best = next((name for name in v.leads if (name in BOUNDARIES) == told), None)
        if best is not None:
            which = "that is told the boundaries" if told else "of any size"
            lines.append(
                f"{v.entry}: {v.leads[best]:+.1f} in the mean against the best rival {which}, {best}"
            )
    if v.worst_body is not None:
        by_shots = ", ".join(f"{name} {gain:+.1f}" for name, gain in v.body.items())
        (cell, harm) = v.worst_body
        lines.append(f"{v.entry} − without body: {by_shots}; worst cell {', '.join(cell)}: {harm:+.1f}")
    taken = times.get(v.entry, {})
    if "demo" in taken:
        lines.append(
            f"{v.entry}: {1000 * taken['demo']:.1f} ms a demo and {1000 * taken['query']:.1f} ms a query, "
            "one by one, beside what encoding costs"
        )
    return lines


def world_sets(split: Split) -> str:
    """Name the sets that take part, in a sentence."""
    names = ", ".join(WORLDS[split])
    use = "only reports" if split == "test" else "may choose things"
    return f"{split} world, which {use}: {names}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
