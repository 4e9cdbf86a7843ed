"""Streams for meta-testing: real tasks in a set order, with demos chosen by the number of the run.

`build_stream` takes any tasks; the paper's streams by name (Split-X, Split-Omniglot, halves, 5-datasets)
follow it.
"""

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch

from autocl.config import check_choice
from autocl.data.draw import IntArray
from autocl.data.imageset import LabelledSet
from autocl.data.stream import Stream, Task
from autocl.data.stream_config import Scenario
from autocl.errors import InputError

Demos = Literal["random", "paper"]
Part = Literal["test", "validation"]

VALIDATION_IMAGES = 5000
"""The validation part of a training set is its last 5,000 images in file order (the paper) …"""
VALIDATION_SHARE = 4
"""… but never more than one in four, so that small sets keep most of their images for demos."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TaskSpec:
    """Some classes of a data set, as one task of a stream to come.

    With `test=None` the set has no test images of its own: all images that are not demos are queries.
    """

    name: str
    train: LabelledSet
    test: LabelledSet | None
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


def build_stream(
    specs: Sequence[TaskSpec],
    *,
    shots: int,
    run: int,
    scenario: Scenario = "domain",
    demos: Demos = "random",
    part: Part = "test",
    name: str | None = None,
) -> Stream:
    """A stream that goes through the tasks in the order given.

    The demos of a task depend on its name, its sets, `shots` and `run` alone: they are the same in whatever
    stream the task stands, which makes comparisons between streams paired.

    Args:
        specs: the tasks.
        shots: demos per class.
        run: number of the run, from 0: decides the demos.
        scenario: "domain" shares the outputs between tasks, "class" gives every class its own.
        demos: "random" draws them among the training images outside the validation part and shuffles them.
            "paper" takes the images number shots·run, …, shots·(run+1) - 1 of each class in file order, class
            after class in turn (the authors' code).
        part: "test" asks about all test images of the classes, "validation" about those in the validation
            part of the training set.
        name: default: the names of the tasks joined by arrows.

    Returns:
        One stream (B = 1), its queries sorted by class; `side_by_side` joins those of several runs.
    """
    check_choice("scenario", scenario, get_args(Scenario))
    check_choice("demos", demos, get_args(Demos))
    check_choice("part", part, get_args(Part))
    if not specs:
        raise InputError("a stream needs at least one task, got none")
    if shots < 1 or run < 0:
        raise InputError(f"shots must be at least 1 and run at least 0, got {shots} and {run}")
    ways = [len(s.classes) for s in specs]
    offsets = np.cumsum([0, *ways[:-1]]).tolist() if scenario == "class" else [0] * len(specs)
    return Stream(
        name=name or " → ".join(s.name for s in specs),
        tasks=tuple(
            _build(spec, offset, shots=shots, run=run, demos=demos, part=part)
            for spec, offset in zip(specs, offsets, strict=True)
        ),
        n_outputs=sum(ways) if scenario == "class" else max(ways),
        scenario=scenario,
    )


def validation_rows(images: LabelledSet) -> IntArray:
    """Rows of a training set that belong to its validation part; none when its file order is unknown."""
    if images.order is None:
        return np.empty(0, np.int64)
    size = min(VALIDATION_IMAGES, len(images.order) // VALIDATION_SHARE)
    return np.sort(np.argsort(images.order, kind="stable")[len(images.order) - size :])


def _build(spec: TaskSpec, offset: int, *, shots: int, run: int, demos: Demos, part: Part) -> Task:
    train, test = spec.train, spec.test
    held_out = validation_rows(train) if test is not None else np.empty(0, np.int64)
    if part == "validation" and len(held_out) == 0:
        why = "has no test images apart" if test is None else "does not know its file order"
        raise InputError(
            f"{train.name}/{train.split} {why}, so it has no validation part: use other classes or another "
            "set for validation"
        )
    rng = np.random.default_rng((run, zlib.crc32(spec.name.encode())))
    shown, allowed, asked = [], [], []
    for c in spec.classes:
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
                f"task {spec.name!r}: no image of class {c} is left to ask about after {shots} demos; lower "
                "shots or choose another class"
            )
    cyclic = np.stack(shown, axis=1).reshape(-1)
    cyclic_labels = np.tile(np.arange(len(shown)), shots) + offset
    turn = rng.permutation(len(cyclic)) if demos == "random" else np.arange(len(cyclic))
    return Task(
        name=spec.name,
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


def split_stream(
    train: LabelledSet,
    test: LabelledSet,
    *,
    scenario: Scenario,
    shots: int,
    run: int,
    classes_per_task: int = 2,
    tasks: int | None = None,
    demos: Demos = "random",
    part: Part = "test",
) -> Stream:
    """Split-MNIST and its kin: the classes of a set in order, a few per task (0/1, 2/3, …).

    Arguments that are not listed are those of `build_stream`.

    Args:
        train: demos come from here.
        test: queries come from here.
        classes_per_task: classes that a task owns.
        tasks: how many tasks, from the first class on; default: as many as the set has classes for.

    Example:
        >>> from autocl.data import load
        >>> digits = load("digits", "train"), load("digits", "test")
        >>> stream = split_stream(*digits, scenario="class", shots=15, run=0)
        >>> [task.name for task in stream.tasks]
        ['digits-01', 'digits-23', 'digits-45', 'digits-67', 'digits-89']
    """
    tasks = train.n_classes // classes_per_task if tasks is None else tasks
    n = classes_per_task
    specs = [_spec(train, test, tuple(range(t * n, (t + 1) * n))) for t in range(tasks)]
    name = f"split-{train.name} {scenario} {tasks}-task"
    return build_stream(specs, shots=shots, run=run, scenario=scenario, demos=demos, part=part, name=name)


def split_omniglot(
    characters: LabelledSet, *, tasks: int, scenario: Scenario, shots: int, run: int, ways: int = 2
) -> Stream:
    """Split-Omniglot: tasks of characters drawn by the run; what is not shown of a character is asked.

    Args:
        characters: the test split of Omniglot, or any set with more images a class than shots.
        tasks: how many.
        scenario: "domain" or "class".
        shots: demos per class.
        run: number of the run, decides characters and demos. A longer stream begins as a shorter one does.
        ways: classes of a task.
    """
    if tasks < 1 or ways < 1 or tasks * ways > characters.n_classes:
        raise InputError(
            f"{tasks} tasks of {ways} ways need {tasks * ways} different classes; "
            f"{characters.name}/{characters.split} has {characters.n_classes}"
        )
    drawn = np.random.default_rng(run).permutation(characters.n_classes)[: tasks * ways].tolist()
    specs = [_spec(characters, None, tuple(drawn[t * ways : (t + 1) * ways])) for t in range(tasks)]
    name = f"split-{characters.name} {scenario} {tasks}-task"
    return build_stream(specs, shots=shots, run=run, scenario=scenario, name=name)


def mini_split_cifar100(
    train: LabelledSet, test: LabelledSet | None, *, shots: int, run: int, demos: Demos = "random"
) -> Stream:
    """The paper's *mini* Split-CIFAR-100: the first 2 classes of each of the first 5 tasks of 10 classes."""
    specs = [_spec(train, test, (10 * t, 10 * t + 1)) for t in range(5)]
    return build_stream(
        specs, shots=shots, run=run, scenario="class", demos=demos, name="mini-split-cifar100"
    )


def five_datasets(
    sets: Sequence[tuple[LabelledSet, LabelledSet | None]], *, shots: int, run: int, demos: Demos = "random"
) -> Stream:
    """The paper's *mini* 5-datasets: the first 2 classes of each set, class-incremental.

    Arguments that are not listed are those of `build_stream`.

    Args:
        sets: (train, test) of CIFAR-10, MNIST, Fashion-MNIST, SVHN and notMNIST, in the paper's order; test
            is None for a copy of a set that has no test images apart.
    """
    specs = [_spec(train, test, (0, 1)) for train, test in sets]
    return build_stream(specs, shots=shots, run=run, scenario="class", demos=demos, name="5-datasets")


def class_range(train: LabelledSet, test: LabelledSet | None, span: str) -> TaskSpec:
    """Neighbouring classes of a set by their first and last digit: "04" or "59" are its two halves.

    Example:
        >>> class_range(mnist_train, mnist_test, "59").name                                # doctest: +SKIP
        'mnist-59'
    """
    if not re.fullmatch(r"\d\d", span) or span[0] > span[1]:
        raise InputError(f'{span!r} does not name a range of classes: write two digits, such as "04" or "59"')
    return _spec(train, test, tuple(range(int(span[0]), int(span[1]) + 1)))


def _spec(train: LabelledSet, test: LabelledSet | None, classes: tuple[int, ...]) -> TaskSpec:
    """Named after the set and its classes: mnist-04 for a range of digits, omniglot-37,401 otherwise."""
    first, last = classes[0], classes[-1]
    is_range = len(classes) > 1 and last < 10 and classes == tuple(range(first, last + 1))
    spelled = f"{first}{last}" if is_range else ",".join(map(str, classes))
    return TaskSpec(name=f"{train.name}-{spelled}", train=train, test=test, classes=classes)
