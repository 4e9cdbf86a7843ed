"""Streams for meta-testing: on sets small enough to write the answer down, and on real files if present."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from autocl.data.eval_streams import (
    TaskSpec,
    build_stream,
    class_range,
    five_datasets,
    mini_split_cifar100,
    split_omniglot,
    split_stream,
    validation_rows,
)
from autocl.data.imageset import ImageSet
from autocl.data.stream import Stream, Task
from autocl.errors import DataError, InputError


def digits(name: str = "digits", split: str = "train", classes: int = 4, per_class: int = 8) -> ImageSet:
    """Classes alternate in the file (0, 1, 2, 3, 0, 1, …): row i of class c is image i·classes + c."""
    n = classes * per_class
    return ImageSet(
        name=name,
        split=split,
        images=np.zeros((n, 1, 2, 2), np.uint8),
        starts=np.arange(classes + 1) * per_class,
        classes=tuple(str(c) for c in range(classes)),
        mean=(0.5,),
        std=(0.5,),
        order=np.arange(n).reshape(per_class, classes).T.reshape(-1),
    )


TRAIN, TEST = digits(), digits(split="test", per_class=3)


def test_validation_rows__small_set__are_the_last_quarter_in_file_order() -> None:
    # 32 images: the last 8 of the file are the last two of each class.
    assert validation_rows(TRAIN).tolist() == [6, 7, 14, 15, 22, 23, 30, 31]


def test_split_stream__paper_demos__are_the_runs_block_class_after_class() -> None:
    stream = split_stream(TRAIN, TEST, scenario="class", shots=2, run=1, demos="paper")
    assert [t.name for t in stream.tasks] == ["digits-01", "digits-23"]
    assert stream.n_outputs == 4
    first, second = stream.tasks
    assert first.demos[0].tolist() == [2, 10, 3, 11]
    assert first.demo_labels[0].tolist() == [0, 1, 0, 1]
    assert second.demos[0].tolist() == [18, 26, 19, 27]
    assert second.demo_labels[0].tolist() == [2, 3, 2, 3]
    assert second.query_set is TEST
    assert second.queries[0].tolist() == [6, 7, 8, 9, 10, 11]
    assert second.query_labels[0].tolist() == [2, 2, 2, 3, 3, 3]
    assert second.train[0].tolist() == [16, 17, 18, 19, 20, 21, 24, 25, 26, 27, 28, 29]
    assert second.train_labels[0].tolist() == [2] * 6 + [3] * 6


def test_split_stream__domain__shares_the_labels() -> None:
    stream = split_stream(TRAIN, TEST, scenario="domain", shots=2, run=0, demos="paper")
    assert stream.n_outputs == 2
    assert [t.demo_labels[0].tolist() for t in stream.tasks] == [[0, 1, 0, 1]] * 2
    assert [sorted(set(t.query_labels[0].tolist())) for t in stream.tasks] == [[0, 1]] * 2


def test_split_stream__validation_part__asks_held_out_training_images() -> None:
    stream = split_stream(TRAIN, TEST, scenario="class", shots=2, run=0, part="validation")
    assert stream.tasks[1].query_set is TRAIN
    assert stream.tasks[1].queries[0].tolist() == [22, 23, 30, 31]
    assert stream.tasks[1].query_labels[0].tolist() == [2, 2, 3, 3]


def test_split_stream__fewer_tasks__is_the_beginning_of_the_longer_stream() -> None:
    short, long = (
        split_stream(TRAIN, TEST, scenario="class", shots=3, run=4, tasks=tasks) for tasks in (1, None)
    )
    assert len(short.tasks) == 1
    assert torch.equal(short.tasks[0].demos[0], long.tasks[0].demos[0])


def overlap(task: Task) -> set[int]:
    shown = set(task.demos[0].tolist()) | set(task.train[0].tolist())
    return shown & set(task.queries[0].tolist()) if task.query_set is task.demo_set else set()


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["domain", "class"]),
    st.integers(1, 2),
    st.integers(0, 2),
    st.sampled_from(["random", "paper"]),
    st.sampled_from(["test", "validation"]),
)
def test_split_stream__any_choice__labels_match_classes_and_nothing_shown_is_asked(
    scenario: str, shots: int, run: int, demos: str, part: str
) -> None:
    stream = split_stream(TRAIN, TEST, scenario=scenario, shots=shots, run=run, demos=demos, part=part)
    for t, task in enumerate(stream.tasks):
        offset = 2 * t if scenario == "domain" else 0
        for images, rows, labels in (
            (task.demo_set, task.demos[0], task.demo_labels[0]),
            (task.query_set, task.queries[0], task.query_labels[0]),
            (task.demo_set, task.train[0], task.train_labels[0]),
        ):
            assert np.array_equal(images.labels[rows.numpy()], labels.numpy() + offset)
        assert len(task.demos[0].unique()) == 2 * shots
        assert not overlap(task)
        assert set(task.demos[0].tolist()) <= set(task.train[0].tolist())


def test_demos__random__change_with_the_run_and_not_with_the_stream() -> None:
    a, b = TaskSpec(name="a", train=TRAIN, test=TEST, classes=(0, 1)), class_range(TRAIN, TEST, "23")
    ab, ba = build_stream([a, b], shots=3, run=2), build_stream([b, a], shots=3, run=2, scenario="class")
    assert torch.equal(ab.tasks[0].demos[0], ba.tasks[1].demos[0])
    assert torch.equal(ab.tasks[0].demo_labels[0] + 2, ba.tasks[1].demo_labels[0])
    other = build_stream([a, b], shots=3, run=3)
    assert not torch.equal(ab.tasks[0].demos[0], other.tasks[0].demos[0])
    orders = {tuple(build_stream([a], shots=2, run=r).tasks[0].demo_labels[0].tolist()) for r in range(60)}
    assert len(orders) == 6  # every arrangement of two and two


def test_split_omniglot__any_length__asks_what_was_not_shown_of_different_characters() -> None:
    characters = digits("omniglot", "test", classes=30, per_class=20)
    short, long = (
        split_omniglot(characters, tasks=tasks, scenario="class", shots=15, run=1) for tasks in (5, 15)
    )
    used = [c for task in long.tasks for c in np.unique(characters.labels[task.queries[0].numpy()]).tolist()]
    assert sorted(used) == list(range(30))
    assert long.n_outputs == 30
    for task in long.tasks:
        assert (len(task.demos[0]), len(task.queries[0])) == (30, 10)
        assert not overlap(task)
    assert [t.name for t in short.tasks] == [t.name for t in long.tasks[:5]]
    assert torch.equal(short.tasks[4].demos[0], long.tasks[4].demos[0])
    with pytest.raises(InputError, match="32 different classes; omniglot/test has 30"):
        split_omniglot(characters, tasks=16, scenario="class", shots=15, run=1)


def test_halves__chained__are_five_way_domain_tasks() -> None:
    sets = [(digits(n, classes=10), digits(n, "test", classes=10, per_class=2)) for n in ("mnist", "cifar10")]
    stages = [class_range(*sets[0], "04"), class_range(*sets[1], "04"), class_range(*sets[0], "59")]
    stream = build_stream(stages, shots=2, run=0, demos="paper")
    assert stream.name == "mnist-04 → cifar10-04 → mnist-59"
    assert stream.n_outputs == 5
    assert stream.tasks[2].demo_labels[0].tolist() == [0, 1, 2, 3, 4] * 2
    assert stream.tasks[2].demos[0].tolist()[:5] == [40, 48, 56, 64, 72]
    assert stream.tasks[2].queries[0].tolist() == list(range(10, 20))
    for span in ("5", "94", "a4"):
        with pytest.raises(InputError, match="two digits"):
            class_range(*sets[0], span)


def test_mini_streams__own_the_first_two_classes_of_each_task() -> None:
    cifar = digits("cifar100", classes=100), digits("cifar100", "test", classes=100, per_class=2)
    stream = mini_split_cifar100(*cifar, shots=3, run=0)
    shown = [np.unique(cifar[0].labels[t.demos[0].numpy()]).tolist() for t in stream.tasks]
    assert shown == [[0, 1], [10, 11], [20, 21], [30, 31], [40, 41]]
    assert stream.n_outputs == 10
    pairs = [(digits(n), TEST) for n in ("cifar10", "mnist", "fashion_mnist")]
    five = five_datasets([*pairs, (digits("svhn"), None), (digits("notmnist"), None)], shots=3, run=0)
    assert [t.name for t in five.tasks][2:] == ["fashion_mnist-01", "svhn-01", "notmnist-01"]
    assert [t.query_labels[0].unique().tolist() for t in five.tasks] == [[2 * t, 2 * t + 1] for t in range(5)]
    assert [len(t.queries[0]) for t in five.tasks] == [6, 6, 6, 10, 10]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: class_range(TRAIN, TEST, "59"), "digits/train has classes 0 to 3"),
        (lambda: class_range(TRAIN, TRAIN, "01"), "pass test=None"),
        (lambda: build_stream([], shots=1, run=0), "at least one task"),
        (lambda: build_stream([class_range(TRAIN, TEST, "01")], shots=0, run=0), "shots must be at least 1"),
        (
            lambda: build_stream([class_range(TRAIN, TEST, "01")], shots=7, run=0),
            "6 images for demos.*need 7",
        ),
        (lambda: build_stream([class_range(TRAIN, TEST, "01")], shots=3, run=2, demos="paper"), "need 9"),
        (lambda: build_stream([class_range(TRAIN, None, "01")], shots=8, run=0), "left to ask about after 8"),
        (
            lambda: build_stream([class_range(TRAIN, None, "01")], shots=1, run=0, part="validation"),
            "no validation",
        ),
        (lambda: split_stream(TRAIN, TEST, scenario="x", shots=1, run=0), "scenario=.x. is not known"),  # type: ignore
    ],
)
def test_streams__impossible__are_refused_with_the_reason(make, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=message):
        make()


def mnist_stream(**choice: object) -> Stream:
    from autocl.data import load

    try:
        sets = load("mnist", "train"), load("mnist", "test")
    except DataError as error:
        pytest.skip(str(error))
    return split_stream(*sets, scenario="class", shots=15, run=0, **choice)


def test_split_mnist__real_files__asks_all_10000_test_images() -> None:
    stream = mnist_stream()
    assert sum(len(t.queries[0]) for t in stream.tasks) == 10_000
    assert sum(len(t.train[0]) for t in stream.tasks) == 55_000
    # MNIST's test set has 980 zeros and 1,135 ones.
    assert torch.bincount(stream.tasks[0].query_labels[0]).tolist() == [980, 1135]


def test_split_mnist__real_files__validation_is_the_last_5000_training_images() -> None:
    stream = mnist_stream(part="validation")
    assert sum(len(t.queries[0]) for t in stream.tasks) == 5_000
    order = stream.tasks[0].query_set.order
    assert order is not None
    assert min(order[t.queries[0].numpy()].min() for t in stream.tasks) == 55_000
