"""Two learners that differ in nothing but their objective: one was asked about old tasks in training."""

from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table

from autocl.data.eval_streams import TaskSpec, build_stream
from autocl.data.loading import load
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream
from autocl.figures.page import percent
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.matrix import TransferMatrix
from autocl.recipes import get_recipe
from autocl.training.trainer import validate_streams

RECIPE = "quick"
PAIR = {"asked about both tasks": "quick", "asked about the newest": "quick-noacl"}
"""Difference in training, and name in the zoo."""
CHARACTERS, BATCHES, SEED = 200, 4, 0
"""Invented characters that neither has seen, batches of streams over them, and which streams."""
FILMED_SHOTS = 5
MOMENTS = ("task 1, just learned", "task 1, after task 2", "task 2")


@dataclass(frozen=True, kw_only=True)
class Half:
    """One of the two."""

    trained: str
    name: str
    shares: tuple[float, ...]
    """Accuracy at each of `MOMENTS`."""


def measure_pair() -> list[Half]:
    """Measure both on the same streams: five characters, then five others under the same five labels."""
    found = []
    for trained, name in PAIR.items():
        m = measure(find_learner(name)).values
        shares = tuple(float(v) for v in (m[0, 0], m[1, 0], m[1, 1]))
        found.append(Half(trained=trained, name=name, shares=shares))
    return found


def measure(learner: Learner) -> TransferMatrix:
    """Mean accuracies over streams of characters that neither trained nor chose the learner, [2, 2]."""
    recipe = get_recipe(RECIPE)
    drawn = load("glyphs", "test", size=learner.config.height, classes=CHARACTERS)
    streams = StreamSampler([drawn], recipe.streams, recipe.batch_size, SEED)
    matrices = [m.values for m in validate_streams(learner, streams, BATCHES)]
    return TransferMatrix(torch.stack(matrices).mean(0))


def film_stream(learner: Learner) -> Stream:
    """Two tasks of characters, to be watched while the learner rewrites itself."""
    drawn = load("glyphs", "test", size=learner.config.height, classes=CHARACTERS)
    ways = learner.config.n_classes
    halves = tuple(range(ways)), tuple(range(ways, 2 * ways))
    stages = [TaskSpec(name=f"task {i}", train=drawn, test=None, classes=c) for i, c in enumerate(halves, 1)]
    return build_stream(stages, shots=FILMED_SHOTS, run=0, scenario="domain")


def setting() -> str:
    """The setting of the comparison, in words."""
    streams = get_recipe(RECIPE).streams
    return (
        f"Same network, same training, {BATCHES * get_recipe(RECIPE).batch_size} streams of two tasks: "
        f"{streams.n_outputs} new characters, then {streams.n_outputs} others under the same labels."
    )


def show(pair: list[Half], console: Console) -> None:
    """Print what was measured."""
    console.print("\n[bold]Not to forget was learned[/bold]", highlight=False)
    console.print(setting(), soft_wrap=True, highlight=False)
    table = Table(title="accuracy (%), 20 is chance", title_justify="left", box=None)
    for head in ("in training", *MOMENTS):
        table.add_column(head, justify="right" if head in MOMENTS else "left")
    for half in pair:
        table.add_row(half.trained, *map(percent, half.shares), style="bold" if half is pair[0] else None)
    console.print(table)
