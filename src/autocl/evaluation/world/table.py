"""The world table for a terminal and for Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from autocl.evaluation.world.measure import Measured, read_times, read_world
from autocl.evaluation.world.rivals import RIVAL_NAMES, RIVALS
from autocl.evaluation.world.sets import WORLDS, Split
from autocl.evaluation.world.summary import (
    GROUPS,
    WITHOUT_BODY,
    Row,
    Verdict,
    comparable,
    rows_of,
    verdict,
)

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


def world_markdown(folder: Path) -> str:
    """All of the test world in a folder of results: for each encoder the table and what follows from it."""
    by_features: dict[str, list[Measured]] = {}
    for measured in read_world(folder):
        if measured.split == "test":
            by_features.setdefault(measured.features, []).append(measured)
    if not by_features:
        return "Nothing has been measured into `results/world.jsonl` yet.\n"
    parts = []
    for features, of_one in by_features.items():
        rows, times = rows_of(comparable(of_one, RIVAL_NAMES)), read_times(folder, "test", features)
        entries = {row.entry for row in rows}
        bare = {WITHOUT_BODY.format(entry) for entry in entries}
        learners = [row.entry for row in rows if row.entry not in bare and row.entry not in RIVAL_NAMES]
        verdicts = [line for name in learners for line in said(verdict(rows, name, RIVAL_NAMES), times)]
        sets = ", ".join(dict.fromkeys(m.set for m in of_one))
        parts.append(
            f"### Features of `{features}`\n\n{len(rows[0].cells)} cells of {sets}; {rows[0].mean.runs} "
            "draws of each.\n\n"
            f"{markdown(rows, times)}\n" + "".join(f"- {line}\n" for line in verdicts)
        )
    return "\n".join(parts)


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
    names = ", ".join(s.key for s in WORLDS[split])
    use = "only reports" if split == "test" else "may choose things"
    return f"{split} world, which {use}: {names}"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"
