"""The world table for a terminal and for Markdown."""

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from autocl.evaluation.world.sets import WORLDS, Split
from autocl.evaluation.world.summary import GROUPS, Row, Verdict

HEADINGS = ("", "size", "mean", "rank", *GROUPS, "ECE", "novelty", "state", "stream")
Times = Mapping[str, Mapping[str, float]]
"""Contestant -> what -> seconds; see `time_contestant`."""


def texts(row: Row, times: Times) -> tuple[str, ...]:
    """One text for each heading."""
    stream = times.get(row.entry, {}).get("stream")
    return (
        row.entry,
        "constant" if row.constant else "grows",
        f"{row.mean.mean:.1f} ± {row.mean.interval:.1f}",
        f"{row.rank:.1f}",
        *(_number(row.group(name)) for name in GROUPS),
        _number(row.calibration),
        _number(row.novelty),
        f"{row.state_bytes / 1024:,.0f} KB",
        "" if stream is None else f"{1000 * stream:,.1f} ms",
    )


def rich_table(rows: Sequence[Row], title: str, learners: Sequence[str], times: Times) -> Table:
    """For a terminal; learners stand out."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for i, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if i < 2 else "right")
    for row in rows:
        style = "bold" if row.entry in learners else None
        table.add_row(*map(escape, texts(row, times)), style=style)
    return table


def markdown(rows: Sequence[Row], times: Times) -> str:
    """For the documentation."""
    lines = [HEADINGS, *(texts(row, times) for row in rows)]
    bars = ["| " + " | ".join(line) + " |" for line in lines]
    bars.insert(1, "|---|---|" + "---:|" * (len(HEADINGS) - 2))
    return "\n".join(bars) + "\n"


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
        f"{v.entry}: within 1.0 of the best constant-size rival in {v.close} of {cells} cells, level or ahead "
        f"in {v.ahead}; worst cell {', '.join(worst)}: {behind:+.1f}",
        f"{v.entry}: {v.lead:+.1f} in the mean against the best single rival of any size, {v.best_rival}",
    ]
    if v.worst_body is not None:
        by_shots = ", ".join(f"{name} {gain:+.1f}" for name, gain in v.body.items())
        (cell, harm) = v.worst_body
        lines.append(f"{v.entry} − without body: {by_shots}; worst cell {', '.join(cell)}: {harm:+.1f}")
    taken = times.get(v.entry, {})
    if "demo" in taken:
        lines.append(
            f"{v.entry}: {1000 * taken['demo']:.1f} ms a demo and {1000 * taken['query']:.1f} ms a query, one by "
            "one, beside what encoding costs"
        )
    return lines


def world_sets(split: Split) -> str:
    """Which sets take part, in a sentence."""
    names = ", ".join(s.key for s in WORLDS[split])
    use = "only reports" if split == "test" else "may choose things"
    return f"{split} world, which {use}: {names}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
