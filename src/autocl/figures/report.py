"""The report: one page of all results, what matters first, tables and pictures folded below it."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autocl import zoo
from autocl.errors import InputError
from autocl.evaluation.emergence import Emergence
from autocl.evaluation.protocol import Protocol
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import Result, read_lines, read_results
from autocl.evaluation.statistics import Status, Summary, summarise
from autocl.evaluation.table import HEADINGS, Line, footnotes, is_number, lines, marked, numbered
from autocl.figures.matrix import plot_emergence
from autocl.figures.page import heat, inline, write_page
from autocl.figures.pictures import LINES, REPORT, WeightsLine, draw, place
from autocl.recipes import meta_baselines

STATUS = HEADINGS.index("status")
VERDICTS: tuple[Status, ...] = ("reproduced", "better", "worse")


def write_report(folder: str | Path) -> Path:
    """Write RESULTS/report/index.html from everything a folder of results holds.

    Args:
        folder: where `autocl bench` put its results.

    Returns:
        The page. It needs no other file and no network.
    """
    folder = Path(folder)
    made = [
        (protocol, lines(protocol, results))
        for name, protocol in PROTOCOLS.items()
        if (results := read_results(folder, name))
    ]
    runs = [_emergence(found) for found in read_lines(folder / "emergence.jsonl", Emergence)]
    learners = [_learner(about, folder) for about in read_lines(folder / LINES, WeightsLine)]
    if not (made or runs or learners):
        raise InputError(
            f"{folder} holds no results to report: run `autocl bench TABLE --out {folder}` first"
        )
    return write_page(
        folder / REPORT / "index.html", Path(__file__).parent / "pages" / "report.html",
        summary=[at_a_glance(protocol, of_it) for protocol, of_it in made],
        tables=[_table(protocol, of_it) for protocol, of_it in made],
        headings=HEADINGS, numbers=[is_number(i) for i in range(len(HEADINGS))], status=STATUS,
        runs=runs, learners=learners,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of some entries in a cell."""

    entry: str
    ours: Summary

    def __str__(self) -> str:
        return f"{self.ours.mean:.1f} ± {self.ours.std:.1f}"


def at_a_glance(protocol: Protocol, made: Sequence[Line]) -> dict[str, Any]:
    """A table in a few lines: verdicts; in each cell our best learner, the best other one, the paper's best.

    Learners without backward terms show forgetting, not strength, and stand in no such comparison.
    """
    verdicts = Counter(line.status for line in made)
    cells = []
    for cell in protocol.cells:
        of_cell = [line for line in made if line.cell == cell and line.ours is not None]
        ours = _best(line for line in of_cell if is_ours(line.result) and line.result.trained.acl)
        others = _best(line for line in of_cell if not is_ours(line.result))
        printed = [row.cells[cell].mean for row in protocol.published if cell in row.cells]
        if ours is not None:
            cells.append({"cell": cell, "ours": ours, "others": others, "paper": max(printed, default=None)})
    counts = ", ".join(f"{verdicts[v]} {v}" for v in VERDICTS if verdicts[v])
    return {"protocol": protocol, "counts": counts, "cells": cells}


def is_ours(result: Result) -> bool:
    """Whether a result is of a learner of ours: one that ships, and is not there as a rival."""
    return result.entry in zoo.names() and result.trained.recipe.replace("-", "_") not in vars(meta_baselines)


def _best(of_cell: Iterable[Line]) -> Best | None:
    found = [Best(entry=line.entry, ours=line.ours) for line in of_cell if line.ours is not None]
    return max(found, key=lambda best: best.ours.mean, default=None)


def _table(protocol: Protocol, made: Sequence[Line]) -> dict[str, Any]:
    """Two tables (with a counterpart in the paper, without), their notes, and the matrices behind them."""
    beside = [line for line in made if line.published is not None or line.ours is None]
    alone = [line for line in made if line.published is None and line.ours is not None]
    results = {line.result.key: line.result for line in made if line.ours is not None}.values()
    return {
        "protocol": protocol,
        "beside": _rows(beside),
        "alone": _rows(alone),
        "notes": [*numbered(beside), *footnotes(made)],
        "matrices": [
            {"result": r, "map": heat(r.matrix, r.tasks), "found": _metrics(r)}
            for r in results
            if r.matrix is not None and r.matrix.tasks > 1
        ],
    }


def _rows(made: Sequence[Line]) -> list[dict[str, Any]]:
    """Texts of the lines; an entry's name stands in its first only."""
    rows, last = [], ""
    for line, texts in zip(made, marked(made), strict=True):
        new, last = line.entry != last, line.entry
        rows.append({"new": new, "kind": line.status, "texts": [texts[0] if new else "", *texts[1:]]})
    return rows


def _metrics(result: Result) -> str:
    return "; ".join(f"{name} {mean:.1f} ± {std:.1f}" for name, (mean, std) in result.metrics.items())


def _emergence(found: Emergence) -> dict[str, Any]:
    kind = {True: "with", False: "without", None: "unknown whether with"}[found.acl]
    learned = "; ".join(
        f"{name} meta-learned " + ("not yet" if at is None else f"at step {at:,.0f}")
        for name, at in found.learned_at().items()
    )
    picture = inline(draw(plot_emergence, found, size=(6.4, 3.6)))
    return {"name": found.name, "kind": kind, "learned": learned, "picture": picture}


CAPTIONS = {
    "stream": "Accuracy on each task while the stream goes on; thin before its first demo.",
    "film": "Change of the blocks y, q, k, β (columns) of two heads (rows) of layer 1.",
    "strip": "The blocks of one head during one task (Figures 3–5).",
    "rank": "Effective rank of the y-block; the band spans the heads.",
    "rates": "Learning rates σ(β): median and middle half of the heads.",
    "change": "How far each block moves at each demo.",
}


def _learner(about: WeightsLine, folder: Path) -> dict[str, Any]:
    """The numbers of one learner, and its pictures where `autocl bench weights` drew them."""
    where = place(folder, about["entry"])
    drawn = [
        (picture, caption)
        for name, caption in CAPTIONS.items()
        for picture in sorted([*where.glob(f"{name}*.png"), *where.glob(f"{name}*.gif")])
    ]
    return {
        "name": about["entry"],
        "gap": summarise(about["stability_gap"]),
        "speed": summarise(about["learning_acceleration"]),
        "few": about["few_demos"],
        "pictures": [(inline(p.read_bytes(), p.suffix[1:]), caption) for p, caption in drawn],
    }
