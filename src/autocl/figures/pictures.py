"""Pictures of one learner at work on Split-MNIST: accuracy over the stream, weights, rates, rank."""

import base64
import json
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from autocl.baselines.incontext import InContext
from autocl.data.split import split_stream
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.evaluation.protocols.weights import record_film
from autocl.evaluation.subject import SetRef, Subject, check_name
from autocl.evaluation.trace import trace
from autocl.figures.film import weight_film
from autocl.figures.stream import plot_accuracy_over_stream
from autocl.figures.weights import (
    plot_effective_rank,
    plot_learning_rates,
    plot_weight_change,
    plot_weight_strip,
)
from autocl.files import write_atomic, write_json

TASKS, RUNS, EVERY, QUERIES, SHOTS = 5, 5, 3, 200, 15
STRIPS = 3
"""Tasks whose weights are shown at rest, as in the paper's Figures 3-5."""
DPI = 80
COLOURS = 64
FLAT = (6.8, 2.5)


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


def inline(picture: bytes, kind: str = "png") -> str:
    """As an address that a page can hold in itself."""
    return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"


def place(folder: Path, subject: str) -> Path:
    """Where the pictures of a subject lie in a folder of results."""
    return folder / "weights" / check_name(subject)


def picture_learner(subject: Subject, folder: Path, *, say: Callable[[str], None] = lambda _: None) -> Path:
    """Draw a learner's passage through Split-MNIST unless that was done for just this learner.

    Args:
        subject: a learner.
        folder: of results.
        say: is told what happens.

    Returns:
        The folder with the pictures and `pictures.json`, which says what they show.
    """
    if not isinstance(subject.method, InContext):
        raise InputError(f"{subject.name} is not a learner: it has no weights that modify themselves")
    if subject.vectors:
        raise InputError(f"{subject.name} takes feature vectors; the pictures are of images of digits")
    sets = [subject.load(SetRef(name="mnist", split=split)) for split in ("train", "test")]
    scenario: Scenario = "class" if (subject.outputs or 0) >= 10 else "domain"
    where = place(folder, subject.name)
    identity = {"fingerprint": subject.fingerprint, "data": [s.hash for s in sets], "scenario": scenario}
    about = where / "pictures.json"
    if about.is_file() and json.loads(about.read_text(encoding="utf-8"))["identity"] == identity:
        return where
    say(f"weights: drawing {subject.name}")
    streams = [split_stream(*sets, scenario=scenario, shots=SHOTS, run=r, tasks=TASKS) for r in range(RUNS)]
    traced = trace(subject.method, streams, every=EVERY, queries=QUERIES)
    pictures = {"stream.png": draw(plot_accuracy_over_stream, traced, size=(6.8, 3.2))}
    learner = subject.method.learner
    if getattr(learner.config, "mixer", "") == "srwm":
        film = record_film(learner, streams[0], features=subject.method.features)
        pictures["film.gif"] = weight_film(film, heads=2, every=5, pixels=5)
        for task in range(STRIPS):
            pictures[f"strip-{task + 1}.png"] = draw(plot_weight_strip, film, task=task, size=(8, 3.2))
        pictures["rank.png"] = draw(plot_effective_rank, film, size=FLAT)
        for layer in range(film.weights.shape[1]):
            pictures[f"rates-{layer + 1}.png"] = draw(plot_learning_rates, film, layer=layer, size=FLAT)
            pictures[f"change-{layer + 1}.png"] = draw(plot_weight_change, film, layer=layer, size=FLAT)
    for name, picture in pictures.items():
        write_atomic(where / name, partial(_write, picture))
    write_json(
        about,
        {
            "identity": identity,
            "subject": subject.name,
            "tasks": traced.tasks,
            "demos": traced.demos.tolist(),
            "accuracy": traced.accuracy.tolist(),
            "stability_gap": (100 * traced.stability_gap()).tolist(),
            "learning_acceleration": (100 * traced.learning_acceleration()).tolist(),
            "few_demos": EVERY,
            "pictures": list(pictures),
        },
    )
    return where


def _write(data: bytes, path: str) -> None:
    Path(path).write_bytes(data)
