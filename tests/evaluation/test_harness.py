"""Every entry of the matrix is the one it claims to be, for methods whose answers are known."""

import math

import pytest
import torch
from known_methods import AlwaysZero, Known, OnlyLast, coded_set, small_learner

from autocl.baselines.base import StreamInfo
from autocl.baselines.embedding import Embedding
from autocl.baselines.incontext import InContext
from autocl.data.fixed import FixedStream
from autocl.data.split import split_omniglot, split_stream
from autocl.errors import InputError
from autocl.evaluation.harness import ask_about, take_through


def streams(scenario: str, runs: int = 2, tasks: int = 3) -> list[FixedStream]:
    train, test = coded_set("mnist", "train"), coded_set("mnist", "test")
    return [split_stream(train, test, scenario=scenario, shots=3, run=r, tasks=tasks) for r in range(runs)]


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_a_method_that_forgets_nothing_fills_the_triangle_with_ones(scenario: str) -> None:
    taken = take_through(Known(), streams(scenario))
    lower = torch.ones(3, 3).tril() > 0
    assert (taken.matrix.values[:, lower] == 1).all()
    assert taken.matrix.values[:, ~lower].isnan().all()
    assert taken.cost.examples == 18


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_right_on_the_last_task_only_is_an_identity_matrix(scenario: str) -> None:
    taken = take_through(OnlyLast(), streams(scenario), forward=True)
    assert torch.equal(taken.matrix.values, torch.eye(3, dtype=torch.float64).expand(2, 3, 3))


def test_always_zero_is_half_right_in_domain_and_right_on_class_zero_in_class() -> None:
    domain = take_through(AlwaysZero(), streams("domain")).matrix
    assert domain.last.tolist() == [[0.5, 0.5, 0.5]] * 2
    by_class = take_through(AlwaysZero(), streams("class")).matrix
    assert by_class.last.tolist() == [[0.5, 0, 0]] * 2


def test_queries_that_differ_between_runs_are_asked_of_the_right_run() -> None:
    characters = coded_set("omniglot", "test")
    runs = [split_omniglot(characters, tasks=3, scenario="class", shots=4, run=r) for r in range(3)]
    assert ask_about([s.tasks[0] for s in runs]).index.dim() == 2
    assert (take_through(Known(), runs).matrix.last == 1).all()
    assert (take_through(OnlyLast(), runs).matrix.last == torch.tensor([0, 0, 1])).all()


def test_fewer_queries_are_spread_over_the_classes() -> None:
    asked = ask_about([s.tasks[0] for s in streams("domain")], queries=4)
    assert asked.labels.tolist() == [[0, 0, 1, 1]] * 2
    with pytest.raises(InputError, match="queries"):
        take_through(Known(), streams("domain"), queries=0)


def test_runs_of_unequal_numbers_of_queries_are_averaged_over_their_own() -> None:
    characters = coded_set("omniglot", "test")
    runs = [split_omniglot(characters, tasks=1, scenario="class", shots=k, run=0) for k in (3, 5)]
    asked = ask_about([s.tasks[0] for s in runs])
    assert (asked.labels >= 0).sum(1).tolist() == [58, 54]
    assert take_through(AlwaysZero(), runs).matrix.last.flatten().tolist() == [0.5, 0.5]


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test_a_learner_in_a_batch_answers_as_it_does_alone_and_image_by_image(scenario: str) -> None:
    learner = small_learner(7)
    runs = streams(scenario, runs=3)
    together = take_through(InContext(learner), runs).matrix.values
    alone = torch.cat([take_through(InContext(learner), [s]).matrix.values for s in runs])
    assert torch.equal(together.nan_to_num(-1), alone.nan_to_num(-1))
    assert learner.training, "the learner's mode is the caller's"
    learner.eval()
    stream, state = runs[1], learner.initial_state()
    for task in stream.tasks:
        x = task.demo_set.take(task.demo_index, channels=1)[None]
        state = learner.learn(x, task.demo_labels[None], state)
    first = stream.tasks[0]
    logits = learner.predict(first.query_set.take(first.query_index, channels=1)[None], state)[0]
    right = logits[:, : stream.n_outputs].argmax(-1) == first.query_labels
    assert together[1, -1, 0].item() == pytest.approx(right.double().mean().item())


def test_answers_stay_within_the_outputs_of_the_stream() -> None:
    method = InContext(small_learner(10))
    runs = streams("domain")
    method.begin(StreamInfo.of(runs, seeds=[0, 1]))
    method.learn([s.tasks[0] for s in runs])
    assert method.predict(runs[0].tasks[0].query_set, torch.arange(5)).shape == (2, 5, 2)


def test_every_image_is_encoded_once() -> None:
    learner, seen = small_learner(6), []
    learner.encoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    method = InContext(learner)
    runs = streams("class")
    take_through(method, runs, forward=True)
    demos = {(t.demo_set.split, i) for s in runs for t in s.tasks for i in t.demo_index.tolist()}
    queries = {(t.query_set.split, i) for t in runs[0].tasks for i in t.query_index.tolist()}
    assert sum(seen) == len(demos | queries)
    take_through(method, runs)
    assert sum(seen) == len(demos | queries)


def test_given_vectors_take_the_place_of_the_encoder() -> None:
    learner = small_learner(6)
    images = coded_set("mnist", "test")
    cache = Embedding.of(learner)
    vectors = torch.randn(len(images.images), 64)
    cache.put(images, vectors)
    assert torch.equal(cache.take(images, torch.tensor([[5, 2]])), vectors[None, [5, 2]])
    with pytest.raises(InputError, match="mnist/test"):
        cache.put(images, vectors[:, :-1])


def test_a_learner_with_too_few_outputs_is_refused() -> None:
    with pytest.raises(InputError, match="6 outputs are needed, this learner has 5"):
        take_through(InContext(small_learner(5)), streams("class"))
    with pytest.raises(InputError, match="begin"):
        InContext(small_learner(5)).predict(coded_set("mnist", "test"), torch.arange(3))


def test_matrix_of_one_task() -> None:
    taken = take_through(Known(), streams("domain", tasks=1))
    assert taken.matrix.average().tolist() == [1, 1]
    assert math.isnan(taken.matrix.forgetting()[0])
