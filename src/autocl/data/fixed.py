"""Streams for meta-testing: real tasks in a set order, with demos chosen by the number of the run."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from autocl.data.draw import IntArray
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream, Task
from autocl.data.stream_config import Scenario, check_choice
from autocl.errors import InputError

Demos = Literal["random", "paper"]
Part = Literal["test", "validation"]

VALIDATION_IMAGES = 5000
"""The validation part of a training set is its last 5,000 images in file order (the paper) …"""
VALIDATION_SHARE = 4
"""… but never more than one in four, so that small sets keep most of their images for demos."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stage:
    """Some classes of a data set, as one task of a stream to come.

    With `test=None` the set has no test images of its own: all images that are not demos are queries.
    """

    name: str
    train: ImageSet
    test: ImageSet | None
    classes: tuple[int, ...]
    """Class numbers; the label of classes[i] is i (domain) or i plus the classes of earlier tasks (class)."""

    def __post_init__(self) -> None:
        for s in (self.train, self.test):
            if s is not None and not all(0 <= c < s.n_classes for c in self.classes):
                raise InputError(
                    f"task {self.name!r} asks for classes {self.classes}, but {s.name}/{s.split} has "
                    f"classes 0 to {s.n_classes - 1}"
                )
        if self.test is not None and (self.test is self.train or self.test.hash == self.train.hash != ""):
            raise InputError(
                f"task {self.name!r}: {self.train.name}/{self.train.split} is training and test set at once; "
                "pass test=None to take demos and queries from one set"
            )
        if not self.classes or len(set(self.classes)) < len(self.classes):
            raise InputError(f"task {self.name!r} needs different classes, got {self.classes}")


def chain_stream(
    stages: Sequence[Stage],
    *,
    shots: int,
    run: int,
    scenario: Scenario = "domain",
    demos: Demos = "random",
    part: Part = "test",
    name: str | None = None,
) -> Stream:
    """A stream that goes through the stages in the order given.

    The demos of a stage depend on its name, its sets, `shots` and `run` alone: they are the same in whatever
    stream the stage stands, which makes comparisons between streams paired.

    Args:
        stages: the tasks to be.
        shots: demos per class.
        run: number of the run, from 0: decides the demos.
        scenario: "domain" shares the outputs between tasks, "class" gives every class its own.
        demos: "random" draws them among the training images outside the validation part and shuffles them.
            "paper" takes the images number shots·run, …, shots·(run+1) - 1 of each class in file order, class
            after class in turn (the authors' code).
        part: "test" asks about all test images of the classes, "validation" about those in the validation
            part of the training set.
        name: default: the names of the stages joined by arrows.

    Returns:
        One stream (B = 1), its queries sorted by class; `side_by_side` joins those of several runs.
    """
    check_choice("scenario", scenario, Scenario)
    check_choice("demos", demos, Demos)
    check_choice("part", part, Part)
    if not stages:
        raise InputError("a stream needs at least one task, got none")
    if shots < 1 or run < 0:
        raise InputError(f"shots must be at least 1 and run at least 0, got {shots} and {run}")
    ways = [len(s.classes) for s in stages]
    offsets = np.cumsum([0, *ways[:-1]]).tolist() if scenario == "class" else [0] * len(stages)
    return Stream(
        name=name or " → ".join(s.name for s in stages),
        tasks=tuple(
            _build(stage, offset, shots=shots, run=run, demos=demos, part=part)
            for stage, offset in zip(stages, offsets, strict=True)
        ),
        n_outputs=sum(ways) if scenario == "class" else max(ways),
        scenario=scenario,
    )


def validation_rows(images: ImageSet) -> IntArray:
    """Rows of a training set that belong to its validation part; none when its file order is unknown."""
    if images.order is None:
        return np.empty(0, np.int64)
    size = min(VALIDATION_IMAGES, len(images.order) // VALIDATION_SHARE)
    return np.sort(np.argsort(images.order, kind="stable")[len(images.order) - size :])


def _build(stage: Stage, offset: int, *, shots: int, run: int, demos: Demos, part: Part) -> Task:
    train, test = stage.train, stage.test
    held_out = validation_rows(train) if test is not None else np.empty(0, np.int64)
    if part == "validation" and len(held_out) == 0:
        why = "has no test images apart" if test is None else "does not know its file order"
        raise InputError(
            f"{train.name}/{train.split} {why}, so it has no validation part: use other classes or another "
            "set for validation"
        )
    rng = np.random.default_rng((run, zlib.crc32(stage.name.encode())))
    shown, allowed, asked = [], [], []
    for c in stage.classes:
        rows = np.arange(train.starts[c], train.starts[c + 1])
        free = np.setdiff1d(rows, held_out, assume_unique=True)
        chosen = _choose(rng, rows if demos == "paper" else free, shots, run, demos, f"{train.name} {c}")
        shown.append(chosen)
        if test is None:
            allowed.append(np.sort(chosen))
            asked.append(np.setdiff1d(rows, chosen, assume_unique=True))
        else:
            allowed.append(free)
            if part == "test":
                asked.append(np.arange(test.starts[c], test.starts[c + 1]))
            else:
                asked.append(np.setdiff1d(np.setdiff1d(rows, free), chosen))
        if len(asked[-1]) == 0:
            raise InputError(
                f"task {stage.name!r}: no image of class {c} is left to ask about after {shots} demos; lower "
                "shots or choose another class"
            )
    cyclic = np.stack(shown, axis=1).reshape(-1)
    cyclic_labels = np.tile(np.arange(len(shown)), shots) + offset
    turn = rng.permutation(len(cyclic)) if demos == "random" else np.arange(len(cyclic))
    return Task(
        name=stage.name,
        demo_set=train,
        demos=_row(cyclic[turn]),
        demo_labels=_row(cyclic_labels[turn]),
        query_set=test if test is not None and part == "test" else train,
        queries=_row(np.concatenate(asked)),
        query_labels=_labels(asked, offset),
        train=_row(np.concatenate(allowed)),
        train_labels=_labels(allowed, offset),
    )


def _choose(
    rng: np.random.Generator, rows: IntArray, shots: int, run: int, demos: Demos, where: str
) -> IntArray:
    """The demos of one class, [shots]."""
    first = shots * run if demos == "paper" else 0
    if first + shots > len(rows):
        raise InputError(
            f"class {where} has {len(rows)} images for demos, but {shots} shots in run {run} with "
            f"demos={demos!r} need {first + shots}: lower shots or run"
        )
    return rng.permutation(rows)[:shots] if demos == "random" else rows[first : first + shots]


def _labels(groups: Sequence[IntArray], offset: int) -> torch.Tensor:
    """Label of every row when the rows of class after class are put in a line."""
    return _row(np.repeat(np.arange(len(groups)), [len(g) for g in groups]) + offset)


def _row(values: IntArray) -> torch.Tensor:
    """[n] -> [1, n]: one stream."""
    return torch.from_numpy(values)[None]
