"""The meta-test streams of the paper by name: Split-X, Split-Omniglot, halves, 5-datasets."""

import re
from collections.abc import Sequence

import numpy as np

from autocl.data.fixed import Demos, Part, Stage, chain_stream
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream
from autocl.data.stream_config import Scenario
from autocl.errors import InputError


def split_stream(
    train: ImageSet,
    test: ImageSet,
    *,
    scenario: Scenario,
    shots: int,
    run: int,
    classes_per_task: int = 2,
    tasks: int | None = None,
    ways: int | None = None,
    demos: Demos = "random",
    part: Part = "test",
) -> Stream:
    """Split-MNIST and its kin: the classes of a set in order, a few per task (0/1, 2/3, …).

    Args:
        train: demos come from here.
        test: queries come from here.
        scenario: "domain" or "class".
        shots: demos per class.
        run: number of the run, decides the demos.
        classes_per_task: classes that a task owns.
        tasks: how many tasks, from the first class on; default: as many as the set has classes for.
        ways: use only this many first classes of each task; default: all.
        demos: see `chain_stream`.
        part: see `chain_stream`.

    Example:
        >>> from autocl.data import load                                                   # doctest: +SKIP
        >>> mnist = load("mnist", "train"), load("mnist", "test")                          # doctest: +SKIP
        >>> stream = split_stream(*mnist, scenario="class", shots=15, run=0)               # doctest: +SKIP
        >>> [task.name for task in stream.tasks]                                           # doctest: +SKIP
        ['mnist-01', 'mnist-23', 'mnist-45', 'mnist-67', 'mnist-89']
    """
    ways = classes_per_task if ways is None else ways
    if not 1 <= ways <= classes_per_task:
        raise InputError(f"ways={ways} must lie between 1 and classes_per_task={classes_per_task}")
    tasks = train.n_classes // classes_per_task if tasks is None else tasks
    stages = [
        _stage(train, test, tuple(range(t * classes_per_task, t * classes_per_task + ways)))
        for t in range(tasks)
    ]
    return chain_stream(
        stages,
        shots=shots,
        run=run,
        scenario=scenario,
        demos=demos,
        part=part,
        name=f"split-{train.name} {scenario} {tasks}-task",
    )


def split_omniglot(
    characters: ImageSet, *, tasks: int, scenario: Scenario, shots: int, run: int, ways: int = 2
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
    stages = [_stage(characters, None, tuple(drawn[t * ways : (t + 1) * ways])) for t in range(tasks)]
    name = f"split-{characters.name} {scenario} {tasks}-task"
    return chain_stream(stages, shots=shots, run=run, scenario=scenario, name=name)


def mini_split_cifar100(
    train: ImageSet, test: ImageSet | None, *, shots: int, run: int, demos: Demos = "random"
) -> Stream:
    """The paper's *mini* Split-CIFAR-100: the first 2 classes of each of the first 5 tasks of 10 classes."""
    stages = [_stage(train, test, (10 * t, 10 * t + 1)) for t in range(5)]
    return chain_stream(
        stages, shots=shots, run=run, scenario="class", demos=demos, name="mini-split-cifar100"
    )


def five_datasets(
    sets: Sequence[tuple[ImageSet, ImageSet | None]], *, shots: int, run: int, demos: Demos = "random"
) -> Stream:
    """The paper's *mini* 5-datasets: the first 2 classes of each set, class-incremental.

    Args:
        sets: (train, test) of CIFAR-10, MNIST, Fashion-MNIST, SVHN and notMNIST, in the paper's order; test
            is None for a copy of a set that has no test images apart.
        shots: demos per class.
        run: number of the run, decides the demos.
        demos: see `chain_stream`.
    """
    stages = [_stage(train, test, (0, 1)) for train, test in sets]
    return chain_stream(stages, shots=shots, run=run, scenario="class", demos=demos, name="5-datasets")


def half(train: ImageSet, test: ImageSet | None, span: str) -> Stage:
    """Neighbouring classes of a set by their first and last digit: "04" or "59" are its two halves.

    Example:
        >>> half(mnist_train, mnist_test, "59").name                                       # doctest: +SKIP
        'mnist-59'
    """
    if not re.fullmatch(r"\d\d", span) or span[0] > span[1]:
        raise InputError(f'{span!r} does not name a range of classes: write two digits, such as "04" or "59"')
    return _stage(train, test, tuple(range(int(span[0]), int(span[1]) + 1)))


def _stage(train: ImageSet, test: ImageSet | None, classes: tuple[int, ...]) -> Stage:
    """Named after the set and its classes: mnist-04 for a range of digits, omniglot-37,401 otherwise."""
    first, last = classes[0], classes[-1]
    is_range = len(classes) > 1 and last < 10 and classes == tuple(range(first, last + 1))
    spelled = f"{first}{last}" if is_range else ",".join(map(str, classes))
    return Stage(name=f"{train.name}-{spelled}", train=train, test=test, classes=classes)
