"""A contest: several methods learn the same demos of the same streams, side by side.

There are two: scikit-learn's digits, and characters drawn by a program; nothing is downloaded. The table
grows on the terminal while the stream goes on; `mistakes` of a learner go to the page.

Shape legend: R = runs, M = tasks.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from rich.console import Console
from rich.live import Live
from rich.table import Table

from autocl.baselines.base import Cost, Method, get_method
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext, simple_rivals
from autocl.data.eval_streams import TaskSpec, build_stream, split_stream
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.data.stream import Stream, side_by_side
from autocl.data.stream_config import Scenario
from autocl.encoders import Identity
from autocl.errors import InputError
from autocl.figures.page import percent
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.passage import passage

SIDE = 32
"""Pixels of an image's side in the tour."""
BATCH, EPOCHS, HIDDEN = 32, 20, (200,)
"""Training of methods with gradients on their few demos: enough to fit each task."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Contestant:
    """One row of the table."""

    name: str
    what: str
    """Description in a few words."""
    method: Method
    learner: Learner | None = None
    """Set for our own."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Standing:
    """Accuracies and cost of one contestant after a boundary."""

    contestant: Contestant
    boundary: int
    """From 0."""
    matrix: TransferMatrix
    """Accuracies so far, [R, M, M], NaN where nothing was asked yet."""
    cost: Cost

    @property
    def now(self) -> float:
        """Mean accuracy over the tasks learned so far."""
        return self.seen[self.boundary]

    @cached_property
    def seen(self) -> list[float]:
        """`now` at each boundary so far."""
        found: list[float] = self.matrix.mean().seen()[: self.boundary + 1].tolist()
        return found


@dataclass(frozen=True, kw_only=True, eq=False)
class Contest:
    """Streams, what they are about, and who learns them."""

    title: str
    setting: str
    """The demos and the question, in a sentence."""
    tasks: tuple[str, ...]
    streams: tuple[Stream, ...]
    entered: tuple[Contestant, ...]


def contestants(learners: Mapping[str, Learner]) -> tuple[Contestant, ...]:
    """Our learners; simple read-outs on the features of the first, and on pixels; gradient descent."""
    ours = [
        Contestant(name=name, what="ours: one forward pass", method=InContext(learner), learner=learner)
        for name, learner in learners.items()
    ]
    first = next(iter(learners))
    features = Embedding.of(learners[first])
    pixels = Embedding(Identity(n_features=SIDE * SIDE), channels=1)
    study: dict[str, Any] = {"diet": "demos", "batch": BATCH, "epochs": EPOCHS, "hidden": HIDDEN}
    rivals = {
        name: (f"features of {first}" + ("; keeps all" if method.uses_replay else ""), method)
        for name, method in simple_rivals(features).items()
    }
    rivals |= {
        "1-NN on pixels": ("keeps all", get_method("knn", embedding=pixels, neighbours=1)),
        "replay": (f"network, {EPOCHS} epochs; keeps all", get_method("rehearsal", **study)),
        "fine-tuning": (f"network, {EPOCHS} epochs", get_method("adam", **study)),
    }
    return (*ours, *(Contestant(name=n, what=what, method=method) for n, (what, method) in rivals.items()))


def play(contest: Contest) -> Iterator[Standing]:
    """Task by task, let every contestant learn it and ask about all tasks so far."""
    stream = side_by_side(contest.streams)
    M = len(stream.tasks)
    nothing = torch.full((len(stream), M, M), torch.nan, dtype=torch.float64)
    values = {c.name: nothing.clone() for c in contest.entered}
    passages = [passage(contestant.method, stream) for contestant in contest.entered]
    for boundary in range(M):
        for contestant, moments in zip(contest.entered, passages, strict=True):
            table = values[contestant.name]
            table[:, boundary] = next(moments).accuracy
            yield Standing(
                contestant=contestant, boundary=boundary, matrix=TransferMatrix(table.clone()),
                cost=contestant.method.cost(),
            )  # fmt: skip


def best_rival(last: Sequence[Standing], *, keeping: bool) -> Standing:
    """The rival that stands best at the end, among those that keep demos or among those that do not."""
    rivals = [s for s in last if s.contestant.learner is None and s.contestant.method.uses_replay == keeping]
    return max(rivals, key=lambda s: s.now)


def watch(standings: Iterable[Standing], contest: Contest, console: Console) -> list[Standing]:
    """Show standings as they come.

    Returns:
        The last standing of each contestant, in their order.
    """
    shown: dict[str, list[Standing]] = {c.name: [] for c in contest.entered}
    console.print(f"\n[bold]{contest.title}[/bold]", highlight=False)
    console.print(contest.setting, soft_wrap=True, highlight=False)
    live = console.is_terminal
    with Live(console=console, refresh_per_second=8) if live else nullcontext() as screen:
        for standing in standings:
            shown[standing.contestant.name].append(standing)
            if screen is not None:
                screen.update(grown(shown, contest.entered, contest.tasks))
    if not live:
        console.print(grown(shown, contest.entered, contest.tasks))
    return [so_far[-1] for so_far in shown.values()]


def grown(shown: dict[str, list[Standing]], entered: Sequence[Contestant], tasks: Sequence[str]) -> Table:
    """The table with what is known so far."""
    table = Table(
        title="accuracy (%) on everything met so far", title_justify="left", box=None,
        caption="* keeps every demo. Class means, LDA, 1-NN: on our features", caption_justify="left",
    )  # fmt: skip
    table.add_column("")
    for task in tasks:
        table.add_column(f"+ {task}", justify="right")
    table.add_column("kept", justify="right")
    for contestant in entered:
        so_far = shown[contestant.name]
        cells = [percent(s.now) for s in so_far] + [""] * (len(tasks) - len(so_far))
        kept = f"{so_far[-1].cost.state_bytes / 1000:,.0f} KB" if so_far else ""
        style = "bold" if contestant.learner is not None else None
        mark = "*" if contestant.method.uses_replay else ""
        table.add_row(contestant.name + mark, *cells, kept, style=style)
    return table


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """A test image that the learner misread after the whole stream."""

    image: npt.NDArray[np.uint8]
    """[H, W]."""
    truth: str
    answer: str
    sure: float
    """Probability it gave its answer."""


def mistakes(method: Method, stream: Stream) -> tuple[list[Mistake], int]:
    """All mistakes of the first run at the end of its stream, the surest first, and the images asked."""
    found, asked, names = [], 0, _names(stream)
    for task in stream.tasks:
        _, images = task.sets
        assert isinstance(images, ImageSet)  # the tour has no others
        index, labels = task.queries[0], task.query_labels[0]
        shares = method.predict(images, index)[0].double().softmax(-1)
        sure, answers = shares.max(-1)
        asked += len(answers)
        for i in (answers != labels).nonzero()[:, 0].tolist():
            image = images.images[int(index[i])][0]
            answer = names.get(int(answers[i]), "?")
            truth = names[int(labels[i])]
            found.append(Mistake(image=image, truth=truth, answer=answer, sure=float(sure[i])))
    return sorted(found, key=lambda m: -m.sure), asked


def _names(stream: Stream) -> dict[int, str]:
    """Meaning of each output: a digit, or, where tasks share two outputs, even and odd."""
    if stream.scenario == "class":
        return {n: str(n) for n in range(stream.n_outputs)}
    return {0: "even", 1: "odd"}


DIGITS = 10
MANY, SOME = 100, 20
"""Invented characters for learners that take any number of classes, and for those that take at least some."""
DRAWN_TASKS, DRAWN_SHOTS, ASKED = 5, 3, 17
"""Tasks they come in, most drawings of each to learn, and drawings of each to ask about."""


def digits(learners: Mapping[str, Learner], *, shots: int, runs: int) -> Contest:
    """Two digits at a time. Learners of fewer than ten outputs say even or odd instead of which digit."""
    scenario: Scenario = "class" if outputs(learners) >= DIGITS else "domain"
    streams = digit_streams(scenario, shots=shots, runs=runs)
    question = "which of all digits so far is it" if scenario == "class" else "is it even or odd"
    return Contest(
        title="Ten handwritten digits, two at a time",
        setting=(
            f"{shots} demos (labelled examples) of each digit, {runs} runs with other demos; asked of "
            f"{_asked(streams)} other images: {question}?"
        ),
        tasks=tuple(f"{2 * t}/{2 * t + 1}" for t in range(len(streams[0].tasks))),
        streams=streams,
        entered=contestants(learners),
    )


def drawings(learners: Mapping[str, Learner], *, shots: int, runs: int) -> Contest | None:
    """Characters that a program invented; None where a learner has too few outputs for them."""
    characters = next((n for n in (MANY, SOME) if n <= outputs(learners)), None)
    if characters is None:
        return None
    shots, ways = min(shots, DRAWN_SHOTS), characters // DRAWN_TASKS
    drawn = load("glyphs", "test", classes=characters, examples=shots + ASKED)
    stages = [
        TaskSpec(name=f"{at + 1}-{at + ways}", train=drawn, test=None, classes=tuple(range(at, at + ways)))
        for at in range(0, characters, ways)
    ]
    streams = tuple(
        build_stream(stages, shots=shots, run=run, scenario="class") for run in range(_checked(runs))
    )
    return Contest(
        title=f"{characters} invented characters, {ways} at a time",
        setting=(
            f"{shots} drawings of each, {runs} runs with other drawings; "
            f"asked of {_asked(streams):,} others: which of all characters so far is it?"
        ),
        tasks=tuple(stage.name for stage in stages),
        streams=streams,
        entered=contestants(learners),
    )


def digit_streams(scenario: Scenario, *, shots: int, runs: int) -> tuple[Stream, ...]:
    """Five tasks of two digits, 0/1 to 8/9; every run draws other demos, all ask the same test images."""
    train, test = load("digits", "train"), load("digits", "test")
    return tuple(
        split_stream(train, test, scenario=scenario, shots=shots, run=run) for run in range(_checked(runs))
    )


def outputs(learners: Mapping[str, Learner]) -> int:
    """Number of classes that all of these learners can tell apart."""
    return min(10**6 if learner.grows else learner.config.n_classes for learner in learners.values())


def _asked(streams: tuple[Stream, ...]) -> int:
    return sum(task.queries.shape[1] for task in streams[0].tasks)


def _checked(runs: int) -> int:
    if runs < 1:
        raise InputError(f"runs must be at least 1, got {runs}")
    return runs
