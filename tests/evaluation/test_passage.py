"""Every entry of the matrix is the one it claims to be, for methods whose answers are known."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from known_methods import AlwaysZero, Known, OnlyLast, coded_set, small_learner

from autocl.baselines.base import StreamInfo, get_method
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.data.eval_streams import TaskSpec, build_stream, split_omniglot, split_stream
from autocl.data.imageset import FeatureSet
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream, side_by_side
from autocl.data.stream_config import StreamConfig
from autocl.encoders import Identity
from autocl.errors import InputError
from autocl.passage import passage, run_streams


def streams(scenario: str, runs: int = 2, tasks: int = 3) -> list[Stream]:
    train, test = coded_set("mnist", "train"), coded_set("mnist", "test")
    return [split_stream(train, test, scenario=scenario, shots=3, run=r, tasks=tasks) for r in range(runs)]


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_a_method_that_forgets_nothing_fills_the_triangle_with_ones(scenario: str) -> None:
    passed = run_streams(Known(), streams(scenario))
    lower = torch.ones(3, 3).tril() > 0
    assert (passed.matrix.values[:, lower] == 1).all()
    assert passed.matrix.values[:, ~lower].isnan().all()
    assert passed.cost.examples == 18


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_right_on_the_last_task_only_is_an_identity_matrix(scenario: str) -> None:
    passed = run_streams(OnlyLast(), streams(scenario), forward=True)
    assert torch.equal(passed.matrix.values, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


def test_always_zero_is_half_right_in_domain_and_right_on_class_zero_in_class() -> None:
    domain = run_streams(AlwaysZero(), streams("domain")).matrix
    assert domain.last.tolist() == [[0.5, 0.5, 0.5]] * 2
    by_class = run_streams(AlwaysZero(), streams("class")).matrix
    assert by_class.last.tolist() == [[0.5, 0, 0]] * 2


def test_queries_that_differ_between_runs_are_asked_of_the_right_run() -> None:
    characters = coded_set("omniglot", "test")
    runs = [split_omniglot(characters, tasks=3, scenario="class", shots=4, run=r) for r in range(3)]
    queries = side_by_side(runs).tasks[0].queries
    assert not torch.equal(queries[0], queries[1])
    assert (run_streams(Known(), runs).matrix.last == 1).all()
    assert (run_streams(OnlyLast(), runs).matrix.last == torch.tensor([0, 0, 1])).all()


def test_fewer_queries_are_spread_over_the_classes() -> None:
    task = side_by_side(streams("domain")).tasks[0]
    assert task.asked(4).query_labels.tolist() == [[0, 0, 1, 1]] * 2
    assert task.asked(4).queries.tolist() == [[0, 16, 32, 48]] * 2, "32 images a class"
    assert task.asked(64) is task
    with pytest.raises(InputError, match="queries"):
        run_streams(Known(), streams("domain"), queries=0)


def _queries_only(stream: Stream) -> Stream:
    """The same with two demos: runs side by side may differ in their queries, not in their demos."""
    tasks = [replace(t.shown(0, 2), train=None, train_labels=None) for t in stream.tasks]
    return replace(stream, tasks=tuple(tasks))


def test_runs_of_unequal_numbers_of_queries_are_averaged_over_their_own() -> None:
    characters = coded_set("omniglot", "test")
    runs = [split_omniglot(characters, tasks=1, scenario="class", shots=k, run=0) for k in (3, 5)]
    runs = [_queries_only(s) for s in runs]
    joined = side_by_side(runs).tasks[0]
    assert (joined.query_labels >= 0).sum(1).tolist() == [58, 54]
    assert run_streams(AlwaysZero(), runs).matrix.last.flatten().tolist() == [0.5, 0.5]
    for most in (3, 56, 58):
        fewer = joined.asked(most)
        for row, stream in enumerate(runs):
            alone = stream.tasks[0].asked(most)
            known = fewer.query_labels[row] >= 0
            assert torch.equal(fewer.queries[row][known], alone.queries[0])
            assert torch.equal(fewer.query_labels[row][known], alone.query_labels[0])


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_a_learner_in_a_batch_answers_as_it_does_alone_and_image_by_image(scenario: str) -> None:
    learner = small_learner(7)
    runs = streams(scenario, runs=3)
    together = run_streams(learner, runs).matrix.values
    alone = torch.cat([run_streams(InContext(learner), [s]).matrix.values for s in runs])
    assert torch.equal(together.nan_to_num(-1), alone.nan_to_num(-1))
    assert learner.training, "the learner's mode is the caller's"
    learner.eval()
    stream, state = runs[1], learner.initial_state()
    for task in stream.tasks:
        x = task.sets[0].take(task.demos, channels=1)
        state = learner.learn(x, task.demo_labels, state)
    first = stream.tasks[0]
    logits = learner.predict(first.sets[1].take(first.queries, channels=1), state)
    right = logits[..., : stream.n_outputs].argmax(-1) == first.query_labels
    assert together[1, -1, 0].item() == pytest.approx(right.double().mean().item())


def test_answers_stay_within_the_outputs_of_the_stream() -> None:
    method = InContext(small_learner(10))
    stream = side_by_side(streams("domain"))
    method.begin(StreamInfo.of(stream, seeds=[0, 1]))
    method.learn(stream.tasks[0])
    assert method.predict(stream.tasks[0].sets[1], torch.arange(5)).shape == (2, 5, 2)


def test_every_image_is_encoded_once() -> None:
    learner, seen = small_learner(6), []
    learner.encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    method = InContext(learner)
    runs = streams("class")
    run_streams(method, runs, forward=True)
    demos = {(t.sets[0].split, i) for s in runs for t in s.tasks for i in t.demos[0].tolist()}
    queries = {(t.sets[1].split, i) for t in runs[0].tasks for i in t.queries[0].tolist()}
    assert sum(seen) == len(demos | queries)
    run_streams(method, runs)
    assert sum(seen) == len(demos | queries)


def test_moments_are_boundaries_and_every_few_demos() -> None:
    stream = side_by_side(streams("class"))
    moments = list(passage(Known(), stream))
    assert [(m.task, m.demos, m.at_boundary) for m in moments] == [(0, 6, True), (1, 12, True), (2, 18, True)]
    assert moments[1].accuracy[:, :2].eq(1).all()
    assert moments[1].accuracy[:, 2].isnan().all()
    often = list(passage(Known(), stream, every=4, ask=False))
    assert [m.demos for m in often] == [0, 4, 6, 10, 12, 16, 18]
    assert [m.at_boundary for m in often] == [False, False, True] + [False, True] * 2
    assert all(m.accuracy.isnan().all() for m in often)
    with pytest.raises(InputError, match="every"):
        next(passage(Known(), stream, every=0))


def test_parts_of_the_streams_are_the_whole() -> None:
    class Narrow(InContext):
        side_by_side = 2

    learner, runs = small_learner(6), streams("class", runs=5)
    whole = run_streams(InContext(learner), runs).matrix.values
    parts = run_streams(Narrow(learner), runs).matrix.values
    assert torch.equal(whole.nan_to_num(-1), parts.nan_to_num(-1))


def test_streams_of_a_sampler_are_evaluated_on_the_sets_they_were_drawn_from() -> None:
    sets = [coded_set("omniglot", "test"), coded_set("mini_imagenet", "test")]
    config = StreamConfig(tasks=2, ways=3, shots=4, queries=3, order="alternate", drawing="independent")
    drawn = StreamSampler(sets, config, batch_size=5, seed=0).batch(1)
    with pytest.raises(InputError, match="on_sets"):
        run_streams(Known(), drawn)
    stream = drawn.on_sets(sets)
    assert [task.name for task in stream.tasks] == ["mini_imagenet", "omniglot"]
    offsets = {"omniglot": 0, "mini_imagenet": len(sets[0].images)}
    for before, after in zip(drawn.tasks, stream.tasks, strict=True):
        assert torch.equal(drawn.pool[before.demos], after.demos + offsets[after.name])
        assert torch.equal(drawn.pool[before.queries], after.queries + offsets[after.name])
        classes = sets[0].labels[after.demos.numpy()]
        for row, labels in zip(classes, after.demo_labels, strict=True):
            assert len({*zip(row.tolist(), labels.tolist(), strict=True)}) == 3, "one label for each class"
    assert (run_streams(Known(), stream).matrix.last == 1).all()


def test_streams_that_do_not_fit_side_by_side_are_refused() -> None:
    one = streams("class", runs=1)[0]
    other = split_stream(
        coded_set("mnist", "train"), coded_set("cifar10", "test"), scenario="class", shots=3, run=0, tasks=3
    )
    with pytest.raises(InputError, match=r"same image sets.*cifar10/test"):
        side_by_side([one, other])
    longer = split_stream(*(t for t in one.tasks[0].sets), scenario="class", shots=4, run=0, tasks=3)
    with pytest.raises(InputError, match=r"equally many demos.*\[6, 8\]"):
        side_by_side([one, longer])
    with pytest.raises(InputError, match="at least one"):
        side_by_side([])
    with pytest.raises(InputError, match="one seed for each"):
        run_streams(Known(), one, seeds=[1, 2])


def test_a_learner_with_too_few_outputs_is_refused() -> None:
    with pytest.raises(InputError, match="6 outputs are needed, this learner has 5"):
        run_streams(InContext(small_learner(5)), streams("class"))
    with pytest.raises(InputError, match="begin"):
        InContext(small_learner(5)).predict(coded_set("mnist", "test"), torch.arange(3))


def test_matrix_of_one_task() -> None:
    passed = run_streams(Known(), streams("domain", tasks=1))
    assert passed.matrix.average().tolist() == [1, 1]
    assert math.isnan(passed.matrix.forgetting()[0])


@pytest.mark.parametrize("name", ["adam", "nearest-mean"])
def test_a_method_takes_vectors_wherever_it_takes_images(name: str) -> None:
    centres = np.eye(4, 6, dtype=np.float32).repeat(20, axis=0)
    noise = np.random.default_rng(0).normal(0, 0.1, (80, 6)).astype(np.float32)
    vectors = FeatureSet(
        name="clusters", split="train", features=centres + noise, starts=np.arange(0, 81, 20),
        classes=("a", "b", "c", "d"),
    )  # fmt: skip
    specs = [TaskSpec(name=str(c), train=vectors, test=None, classes=c) for c in ((0, 1), (2, 3))]
    stream = build_stream(specs, shots=10, run=0, scenario="class")
    options = {"embedding": Embedding(Identity(n_features=6), channels=1)} if name == "nearest-mean" else {}
    matrix = run_streams(get_method(name, **options), stream).matrix.values[0]
    assert matrix.diag().tolist() == [1, 1]
