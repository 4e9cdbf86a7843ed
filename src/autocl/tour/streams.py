"""The streams of the tour: scikit-learn's digits, and characters drawn by a program; no downloads."""

from collections.abc import Mapping

from autocl.data.eval_streams import TaskSpec, build_stream, split_stream
from autocl.data.loading import load
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.tour.contest import Contest, contestants

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
