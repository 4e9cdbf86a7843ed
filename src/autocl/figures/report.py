"""The report: one page of all results, what matters first, tables and pictures folded below it.

Pictures show one learner at work on Split-MNIST: accuracy over the stream, weights, rates, rank. They and the
page go to RESULTS/report/, which is not kept; their numbers to RESULTS/weights.jsonl, which is.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, TypedDict

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from autocl import zoo
from autocl.data.eval_streams import split_stream
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.evaluation.emergence import Emergence
from autocl.evaluation.entry import Entry
from autocl.evaluation.protocol import Protocol, train_and_test
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import Result, Status, percent, put_lines, read_lines, read_results, summarise
from autocl.evaluation.table import HEADINGS, Line, footnotes, is_number, lines, marked, numbered
from autocl.evaluation.trace import record_film, trace
from autocl.figures.page import heat, inline, write_page
from autocl.figures.plots import plot_accuracy_over_stream, plot_emergence
from autocl.figures.weights import (
    plot_effective_rank,
    plot_learning_rates,
    plot_weight_change,
    plot_weight_strip,
    weight_film,
)
from autocl.files import write_bytes
from autocl.matrix import TransferMatrix
from autocl.recipes import meta_baselines

TASKS, RUNS, EVERY, QUERIES, SHOTS = 5, 5, 3, 200, 15
STRIPS = 3
"""Tasks whose weights are shown at rest, as in the paper's Figures 3-5."""
DPI, PALETTE = 80, 64
"""Of pictures: dots an inch, and colours, which make each a third of its size; a report holds dozens."""
FLAT = (6.8, 2.5)
LINES, REPORT = "weights.jsonl", "report"
STATUS = HEADINGS.index("status")
VERDICTS: tuple[Status, ...] = ("reproduced", "better", "worse")


class WeightsLine(TypedDict):
    """One learner's line of RESULTS/weights.jsonl: percentages, one for each run."""

    entry: str
    identity: dict[str, Any]
    few_demos: int
    stability_gap: list[float]
    learning_acceleration: list[float]


def draw(plot: Callable[..., Axes], *data: object, size: tuple[float, float], **options: object) -> bytes:
    """A plot as PNG, in a figure that nobody has to close."""
    figure = Figure(figsize=size, layout="constrained")
    plot(*data, ax=figure.subplots(), **options)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=DPI)
    few = Image.open(out).convert("RGB").quantize(PALETTE, dither=Image.Dither.NONE)
    out = BytesIO()
    few.save(out, format="png", optimize=True)
    return out.getvalue()


def place(folder: Path, name: str) -> Path:
    """Place of an entry's pictures in a folder of results."""
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in name).strip("-.")
    return folder / REPORT / (safe[:100] or "entry")


def picture_learner(entry: Entry, folder: Path, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Draw a learner's passage through Split-MNIST unless that was done for just this learner.

    Args:
        entry: a learner.
        folder: of results.
        say: is told what happens.

    Returns:
        The folder with the pictures.
    """
    learner, where = entry.learner, place(folder, entry.name)
    sets = [entry.load(ref) for ref in train_and_test("mnist")]
    scenario: Scenario = "class" if (entry.outputs or 0) >= 2 * TASKS else "domain"
    data = [s.hash[:16] for s in sets]
    identity = {"fingerprint": entry.fingerprint, "data": data, "scenario": scenario}
    known = {line["entry"]: line["identity"] for line in read_lines(folder / LINES, WeightsLine)}
    if known.get(entry.name) == identity and (where / "stream.png").is_file():
        return where
    say(f"weights: drawing {entry.name}")
    streams = [split_stream(*sets, scenario=scenario, shots=SHOTS, run=r, tasks=TASKS) for r in range(RUNS)]
    traced = trace(entry.in_context, streams, every=EVERY, queries=QUERIES)
    pictures = {"stream.png": draw(plot_accuracy_over_stream, traced, size=(6.8, 3.2))}
    if getattr(learner.config, "mixer", "") == "srwm":
        film = record_film(learner, streams[0], features=entry.in_context.features)
        pictures["film.gif"] = weight_film(film, heads=2, every=5, pixels=5)
        for task in range(STRIPS):
            pictures[f"strip-{task + 1}.png"] = draw(plot_weight_strip, film, task=task, size=(8, 3.2))
        pictures["rank.png"] = draw(plot_effective_rank, film, size=FLAT)
        for layer in range(film.weights.shape[1]):
            pictures[f"rates-{layer + 1}.png"] = draw(plot_learning_rates, film, layer=layer, size=FLAT)
            pictures[f"change-{layer + 1}.png"] = draw(plot_weight_change, film, layer=layer, size=FLAT)
    for name, picture in pictures.items():
        write_bytes(where / name, picture)
    # Measures that need moments between boundaries.
    gap, speed = (percent(m.tolist()) for m in (traced.stability_gap(), traced.learning_acceleration()))
    numbers = {"entry": entry.name, "identity": identity, "few_demos": EVERY, "stability_gap": gap,
               "learning_acceleration": speed}  # fmt: skip
    put_lines(folder / LINES, [numbers], key=("entry",))
    return where


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


def _best(of_cell: Iterable[Line]) -> Line | None:
    return max(of_cell, key=lambda line: -math.inf if line.ours is None else line.ours.mean, default=None)


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
            {"result": r, "map": heat(TransferMatrix.from_lists(r.matrix), r.tasks), "found": _metrics(r)}
            for r in results
            if r.matrix is not None and len(r.tasks) > 1
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
