"""Each regulariser against its definition, by autograd or by hand."""

import pytest
import torch
from textbook_mlp import example_gradients, reference_logits

from autocl.baselines.base import StreamInfo, examples_of, gather, get_method
from autocl.baselines.regularisation import SI, QuadraticPenalty
from autocl.data.stream import side_by_side
from autocl.errors import InputError

SMALL = {"hidden": (6, 5), "batch": 8, "epochs": 1}


def after_first_task(name, streams, scenario="class", **options):
    method = get_method(name, **SMALL, **options)
    assert isinstance(method, QuadraticPenalty)
    stream = side_by_side(streams)
    method.begin(StreamInfo.of(stream, seeds=range(len(streams))))
    method.learn(stream.tasks[0])
    return method, gather([examples_of(stream.tasks[0], "full")])


@pytest.mark.parametrize("scenario", ["domain", "class"])
def test__ewc__importance_is_the_mean_squared_gradient_of_single_examples(streams, scenario):
    method, examples = after_first_task("online-ewc", streams(scenario), scenario)
    for r in range(2):
        x = examples.inputs[examples.rows[r]]
        seen = int(method.seen.sum())
        answer = reference_logits(method.stack, method.stack.flat[r], x)[:, :seen].argmax(-1)
        # Outputs beyond `seen` take no part: give them a bias that no softmax notices.
        flat = method.stack.flat[r].clone()
        flat[len(flat) - method.info.n_outputs + seen :] = -1e9
        exact = example_gradients(method.stack, flat, x, answer).square().mean(0)
        torch.testing.assert_close(method.importance[r], exact, rtol=1e-4, atol=1e-9)
    assert torch.equal(method.anchor, method.stack.flat)


def test__mas__importance_is_the_mean_magnitude_of_the_squared_norms_gradient(streams):
    method, examples = after_first_task("mas", streams("domain"), "domain", together=1)
    for r in range(2):
        exact = squared_norm_gradients(method, r, examples.inputs[examples.rows[r]])
        torch.testing.assert_close(method.importance[r], exact.abs().mean(0), rtol=1e-4, atol=1e-8)


def test__mas__together_averages_before_the_magnitude(streams):
    method, examples = after_first_task("mas", streams("domain"), "domain", together=10**6)
    exact = squared_norm_gradients(method, 0, examples.inputs[examples.rows[0]])
    torch.testing.assert_close(method.importance[0], exact.mean(0).abs(), rtol=1e-4, atol=1e-7)
    with pytest.raises(InputError, match="together must be at least 1"):
        get_method("mas", together=0)


def squared_norm_gradients(method, run, x):
    """[n, P]: gradient of the mean square of each example's outputs, one backward pass each."""
    rows = []
    for one in x:
        leaf = method.stack.flat[run].clone().requires_grad_()
        reference_logits(method.stack, leaf, one[None]).square().mean().backward()
        rows.append(leaf.grad)
    return torch.stack(rows)


def test__si__path_integral_on_a_quadratic_is_each_weights_share_of_the_fall(streams):
    """L = ½ Σ h θ²: gradient steps of size η sum to h (θ₀² - θ_T²) / (2 - ηh), the fall of L as η → 0."""
    eta = 0.01
    method = SI(hidden=(6, 5), optimizer="sgd", lr=eta)
    method.begin(StreamInfo.of(side_by_side(streams()), seeds=(0, 1)))
    h = torch.rand_like(method.stack.flat) * 5
    start = method.stack.flat.clone()
    method._before(None)
    for _ in range(50):
        method._step(h * method.stack.flat)
    end = method.stack.flat
    torch.testing.assert_close(method.path, h * (start**2 - end**2) / (2 - eta * h), rtol=1e-3, atol=1e-7)
    expected = method.path / ((end - start) ** 2 + 0.1)
    torch.testing.assert_close(method.task_importance(None), expected)


def test__si__counts_the_tasks_own_gradient_not_the_penaltys(streams):
    method, _ = after_first_task("si", streams(), optimizer="sgd", lr=0.1, strength=2.0)
    method._before(None)
    method.importance = torch.ones_like(method.importance)
    before, own = method.stack.flat.clone(), torch.randn_like(method.stack.flat)
    method.anchor = before + 1
    method._step(own.clone())
    moved = method.stack.flat - before
    torch.testing.assert_close(moved, -0.1 * (own + 2 * 2.0 * (before - method.anchor)))
    torch.testing.assert_close(method.path, -own * moved)


@pytest.mark.parametrize("name", ["l2", "ewc", "online-ewc", "si", "mas"])
def test__strength_zero__equals_adam_bit_for_bit(name, streams):
    runs = streams("class")
    free, plain = get_method(name, strength=0.0, **SMALL), get_method("adam", **SMALL)
    for method in (free, plain):
        method.begin(StreamInfo.of(side_by_side(runs), seeds=(0, 1)))
        for task in side_by_side(runs).tasks:
            method.learn(task)
    assert torch.equal(free.stack.flat, plain.stack.flat)


def test__ewc__one_quadratic_has_the_gradient_of_one_penalty_for_each_task(streams):
    runs = streams("class")
    method = get_method("ewc", strength=3.0, **SMALL)
    method.begin(StreamInfo.of(side_by_side(runs), seeds=(0, 1)))
    penalties, before = [], torch.zeros_like(method.stack.flat)
    for task in side_by_side(runs).tasks:
        method.learn(task)
        penalties.append((method.importance - before, method.stack.flat.clone()))
        before = method.importance
    method.stack.flat += 0.1
    pull = torch.zeros_like(before)
    method._adjust(pull)
    exact = sum(2 * 3.0 * fisher * (method.stack.flat - theta) for fisher, theta in penalties)
    torch.testing.assert_close(pull, exact, rtol=1e-3, atol=1e-6)


def test__l2__pull_is_to_the_last_tasks_weights_and_does_not_grow(streams):
    runs = streams("class")
    method = get_method("l2", strength=0.5, **SMALL)
    method.begin(StreamInfo.of(side_by_side(runs), seeds=(0, 1)))
    for task in side_by_side(runs).tasks:
        method.learn(task)
    end = method.stack.flat.clone()
    method.stack.flat += 0.25
    pull = torch.zeros_like(end)
    method._adjust(pull)
    torch.testing.assert_close(pull, torch.full_like(end, 2 * 0.5 * 0.25), rtol=1e-4, atol=1e-6)


def test__first_task__is_learned_without_penalty(streams):
    method, _ = after_first_task("ewc", streams(), strength=1e9)
    plain = get_method("adam", **SMALL)
    plain.begin(StreamInfo.of(side_by_side(streams()), seeds=(0, 1)))
    plain.learn(side_by_side(streams()).tasks[0])
    assert torch.equal(method.stack.flat, plain.stack.flat)


def test__negative_strength__is_refused():
    with pytest.raises(InputError, match="strength must be at least 0, got -1"):
        get_method("ewc", strength=-1.0)
