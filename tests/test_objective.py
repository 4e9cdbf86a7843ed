"""The ACL objective against a slow double loop, and its weights against the formulas of SPEC §3."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from autocl.data.stream import Stream, Task
from autocl.encoders import EncoderConfig
from autocl.errors import InputError
from autocl.learner import Learner
from autocl.learner.config import LearnerConfig
from autocl.objective import ObjectiveConfig, acl_objective, prototype_loss

FEATURES, CLASSES, STREAMS, POOL = 6, 3, 2, 20


@pytest.fixture
def learner() -> Learner:
    torch.manual_seed(0)
    config = LearnerConfig(
        n_classes=CLASSES, channels=FEATURES, height=1, width=1, encoder=EncoderConfig(kind="identity"),
        model_width=8, heads=2, depth=2, label_scale=10, readout="ridge", readout_keys=4,
    )  # fmt: skip
    return Learner(config).double().eval()


def streams(tasks: int, *, first: bool = True, sources: tuple[int, ...] = (), seed: int = 0) -> Stream:
    """Random streams whose tasks have 4, 5, 6, … demos and 3, 4, 5, … queries."""
    g = torch.Generator().manual_seed(seed)

    def draw(n: int, top: int) -> Tensor:
        return torch.randint(top, (STREAMS, n), generator=g)

    made = tuple(
        Task(
            source=sources[i] if sources else 0,
            demos=draw(4 + i, POOL), demo_labels=draw(4 + i, CLASSES),
            queries=draw(3 + i, POOL), query_labels=draw(3 + i, CLASSES),
            one_shot=draw(CLASSES, POOL) if first else None,
            one_shot_labels=draw(CLASSES, CLASSES) if first else None,
        )
        for i in range(tasks)
    )  # fmt: skip
    return Stream(pool=torch.arange(POOL), pool_classes=torch.arange(POOL), tasks=made, n_outputs=CLASSES)


def features() -> Tensor:
    return torch.randn(POOL, FEATURES, generator=torch.Generator().manual_seed(7), dtype=torch.float64)


def slow_triangle(learner: Learner, f: Tensor, batch: Stream) -> tuple[Tensor, Tensor, Tensor]:
    """Losses and accuracies [M, M] and 1-shot losses [M], one stream, demo and query at a time."""
    M = len(batch.tasks)
    losses, accuracies = f.new_zeros(M, M), f.new_zeros(M, M)
    first = f.new_zeros(M)

    def show(images: Tensor, labels: Tensor, state):
        for image, label in zip(images, labels, strict=True):
            state = learner.learn_features(f[image][None, None], label[None, None], state)
        return state

    def ask(task: Task, b: int, state) -> list[tuple[Tensor, float]]:
        answers = []
        for image, label in zip(task.queries[b], task.query_labels[b], strict=True):
            logits = learner.predict_features(f[image][None, None], state)[0, 0]
            answers.append((F.cross_entropy(logits, label), float(logits.argmax() == label)))
        return answers

    for b in range(STREAMS):
        state = learner.initial_state(1)
        for i, task in enumerate(batch.tasks):
            if task.one_shot is not None:
                tried = show(task.one_shot[b], task.one_shot_labels[b], state)
                first[i] = first[i] + torch.stack([a for a, _ in ask(task, b, tried)]).mean() / STREAMS
            state = show(task.demos[b], task.demo_labels[b], state)
            for j in range(i + 1):
                answers = ask(batch.tasks[j], b, state)
                losses[i, j] = losses[i, j] + torch.stack([a for a, _ in answers]).mean() / STREAMS
                accuracies[i, j] += sum(a for _, a in answers) / len(answers) / STREAMS
    return losses, accuracies, first


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_the_triangle_is_a_double_loop_over_single_queries(learner: Learner, tasks: int) -> None:
    f, batch = features(), streams(tasks)
    fast = acl_objective(learner, f, batch, ObjectiveConfig())
    losses, accuracies, first = slow_triangle(learner, f, batch)
    lower = torch.ones(tasks, tasks).tril().bool()
    torch.testing.assert_close(fast.losses.values[lower], losses[lower].detach())
    torch.testing.assert_close(fast.accuracies.values[lower], accuracies[lower])
    torch.testing.assert_close(fast.one_shot, first.detach())
    assert fast.losses.values[~lower].isnan().all()
    assert fast.accuracies.values[~lower].isnan().all()


def test_the_gradient_is_that_of_the_double_loop(learner: Learner) -> None:
    f, batch = features(), streams(3)
    acl_objective(learner, f, batch, ObjectiveConfig()).loss.backward()
    fast = {name: p.grad.clone() for name, p in learner.named_parameters()}
    learner.zero_grad()
    losses, _, first = slow_triangle(learner, f, batch)
    ((losses.sum() + first.sum()) / 9).backward()
    for name, p in learner.named_parameters():
        torch.testing.assert_close(fast[name], p.grad, rtol=1e-7, atol=1e-9, msg=name)


def spec(tasks: int, acl: bool, first: bool, losses: Tensor, one: Tensor, s: tuple[float, ...]) -> Tensor:
    """The loss as SPEC §3.2-3.4 writes it; s[t] scales the own terms of the task at position t."""
    a, b = losses, one
    match tasks, acl, first:
        case 2, True, True:
            return 0.2 * (s[0] * (b[0] + a[0, 0]) + s[1] * (b[1] + a[1, 1]) + a[1, 0])
        case 2, False, True:
            return 0.25 * (s[0] * (b[0] + a[0, 0]) + s[1] * (b[1] + a[1, 1]))
        case 2, True, False:
            return (s[0] * a[0, 0] + s[1] * a[1, 1] + a[1, 0]) / 3
        case 2, False, False:
            return 0.5 * (s[0] * a[0, 0] + s[1] * a[1, 1])
        case 3, True, True:
            own = sum(s[t] * (b[t] + a[t, t]) for t in range(3))
            return (own + a[1, 0] + a[2, 0] + a[2, 1]) / 9
        case 3, False, True:
            return sum(s[t] * (b[t] + a[t, t]) for t in range(3)) / 6
        case 5, True, False:
            own = sum(s[t] * a[t, t] for t in range(5))
            return (own + sum(a[i, j] for i in range(5) for j in range(i))) / 15
        case 5, False, False:
            return sum(s[t] * a[t, t] for t in range(5)) / 5
    raise AssertionError


@pytest.mark.parametrize("own_weights", [(), (0.1, 1.0, 2.0)])
@pytest.mark.parametrize(
    ("tasks", "acl", "first"),
    [(2, True, True), (2, False, True), (2, True, False), (2, False, False), (3, True, True),
     (3, False, True), (5, True, False), (5, False, False)],
)  # fmt: skip
def test_terms_and_weights_are_the_papers(
    learner: Learner, tasks: int, acl: bool, first: bool, own_weights: tuple[float, ...]
) -> None:
    sources = tuple((i + 1) % 3 for i in range(tasks))
    batch = streams(tasks, first=first, sources=sources)
    out = acl_objective(learner, features(), batch, ObjectiveConfig(acl=acl, own_weights=own_weights))
    scale = tuple(own_weights[s] if own_weights else 1.0 for s in sources)
    expected = spec(tasks, acl, first, out.losses.values, out.one_shot, scale)
    torch.testing.assert_close(out.loss.detach(), expected)
    assert out.sources == sources


def test_without_acl_backward_terms_are_measured_but_give_no_gradient(learner: Learner) -> None:
    batch = streams(2, first=False)
    # Only the backward term looks at the first task's queries once its own term weighs nothing.
    batch = dataclasses.replace(batch, tasks=(dataclasses.replace(batch.tasks[0], source=1), batch.tasks[1]))
    f = features().requires_grad_()
    config = ObjectiveConfig(acl=False, own_weights=(1.0, 0.0))
    out = acl_objective(learner, f, batch, config)
    out.loss.backward()
    shown = torch.cat([batch.tasks[0].demos, batch.tasks[1].demos, batch.tasks[1].queries], dim=1)
    only_asked = sorted(set(batch.tasks[0].queries.flatten().tolist()) - set(shown.flatten().tolist()))
    assert only_asked
    assert f.grad[only_asked].abs().max() == 0
    assert torch.isfinite(out.losses.values[1, 0])


def test_the_body_answers_alone_at_every_term(learner: Learner) -> None:
    batch, f = streams(3, first=False), features()
    plain = acl_objective(learner, f, batch, ObjectiveConfig())
    weighted = acl_objective(learner, f, batch, ObjectiveConfig(body_weight=0.5))
    readout, learner.readout = learner.readout, None
    body = acl_objective(learner, f, batch, ObjectiveConfig())
    learner.readout = readout
    torch.testing.assert_close(weighted.loss, plain.loss + 0.5 * body.loss)
    assert torch.equal(weighted.losses.values.tril(), plain.losses.values.tril())


def test_a_stream_in_two_parts_is_one_long_pass(learner: Learner) -> None:
    f, whole = features(), streams(4)
    parts = [dataclasses.replace(whole, tasks=t) for t in (whole.tasks[:2], whole.tasks[2:])]
    long = acl_objective(learner, f, whole, ObjectiveConfig())
    early = acl_objective(learner, f, parts[0], ObjectiveConfig())
    late = acl_objective(learner, f, parts[1], ObjectiveConfig(), state=early.state)
    for name, tensor in long.state.tensors.items():
        torch.testing.assert_close(late.state.tensors[name], tensor, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(late.losses.values, long.losses.values[2:, 2:], equal_nan=True)
    torch.testing.assert_close(late.one_shot, long.one_shot[2:])


def test_negative_weights_are_refused() -> None:
    with pytest.raises(InputError, match="own_weights"):
        ObjectiveConfig(own_weights=(0.1, -1.0))


def slow_loss(features: Tensor, classes: list[int]) -> Tensor:
    """For every image, distances to the class means without that image."""
    usable = [c for c in sorted(set(classes)) if classes.count(c) > 1]
    terms = []
    for u, own in enumerate(classes):
        if own not in usable:
            continue
        scores = []
        for c in usable:
            rows = [v for v, other in enumerate(classes) if other == c and v != u]
            scores.append(-(features[u] - features[rows].mean(0)).square().sum() / features.shape[1] ** 0.5)
        terms.append(F.cross_entropy(torch.stack(scores), torch.tensor(usable.index(own))))
    return torch.stack(terms).mean()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=6, max_size=14), st.integers(0, 99))
def test_the_prototype_loss_is_the_slow_definition_with_its_gradient(classes: list[int], seed: int) -> None:
    torch.manual_seed(seed)
    fast, slow = (torch.randn(len(classes), 5, dtype=torch.float64) for _ in range(2))
    slow = fast.clone().requires_grad_()
    fast.requires_grad_()
    loss = prototype_loss(fast, torch.tensor(classes) * 10 + 3)
    loss.backward()
    if sum(classes.count(c) > 1 for c in set(classes)) < 2:
        assert loss == 0
        assert fast.grad.abs().max() == 0
        return
    expected = slow_loss(slow, classes)
    expected.backward()
    torch.testing.assert_close(loss, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(fast.grad, slow.grad, rtol=1e-5, atol=1e-7)


def test_the_prototype_loss_of_equal_features_has_a_finite_gradient() -> None:
    f = torch.zeros(6, 4, requires_grad=True)
    prototype_loss(f, torch.tensor([0, 0, 0, 1, 1, 1])).backward()
    assert f.grad.isfinite().all()
