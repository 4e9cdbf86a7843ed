"""Pictures of one learner at work on Split-MNIST: accuracy over the stream, weights, rates, rank.

They go to RESULTS/report/NAME/, which is not kept; their numbers to RESULTS/weights.jsonl, which is.
"""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypedDict

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from autocl.data.eval_streams import split_stream
from autocl.data.stream_config import Scenario
from autocl.evaluation.entry import Entry
from autocl.evaluation.protocol import train_and_test
from autocl.evaluation.results import percent, put_lines, read_lines
from autocl.evaluation.trace import Trace, record_film, trace
from autocl.figures.matrix import plot_accuracy_over_stream
from autocl.figures.weights import (
    plot_effective_rank,
    plot_learning_rates,
    plot_weight_change,
    plot_weight_strip,
    weight_film,
)
from autocl.files import write_atomic

TASKS, RUNS, EVERY, QUERIES, SHOTS = 5, 5, 3, 200, 15
STRIPS = 3
"""Tasks whose weights are shown at rest, as in the paper's Figures 3-5."""
DPI = 80
COLOURS = 64
FLAT = (6.8, 2.5)
LINES, REPORT = "weights.jsonl", "report"


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
    # A report holds dozens of them; a palette makes each a third of its size.
    few = Image.open(out).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
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
    identity = {
        "fingerprint": entry.fingerprint,
        "data": [s.hash[:16] for s in sets],
        "scenario": scenario,
    }
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
        write_atomic(where / name, partial(_write, picture))
    numbers = {"entry": entry.name, "identity": identity, **_numbers(traced)}
    put_lines(folder / LINES, [numbers], key=("entry",))
    return where


def _numbers(traced: Trace) -> dict[str, object]:
    """Measures that need moments between boundaries, in percent, one for each run."""
    return {
        "few_demos": EVERY,
        "stability_gap": percent(traced.stability_gap().tolist()),
        "learning_acceleration": percent(traced.learning_acceleration().tolist()),
    }


def _write(data: bytes, path: str) -> None:
    Path(path).write_bytes(data)
