"""Dropout by hashing places: the right share, no pattern, the mask's own gradient, reproducible."""

from functools import partial

import pytest
import torch

from autocl.layers.base import Dropout
from autocl.ops.dropout import dropout, dropout_add, relu_dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_right_share_is_dropped_and_the_rest_scaled(rate, dtype):
    torch.manual_seed(0)
    x = torch.randn(7, 100, 512, dtype=dtype)
    out = dropout(x, rate)
    kept = out != 0
    assert out.dtype == dtype
    n = x.numel()
    assert abs(float(kept.double().mean()) - (1 - rate)) < 4 * (rate * (1 - rate) / n) ** 0.5
    torch.testing.assert_close(out[kept], x[kept] / (1 - rate))


def test_the_mask_shows_no_pattern_within_a_call_nor_between_calls():
    torch.manual_seed(0)
    masks = [(dropout(torch.ones(1 << 18), 0.3) != 0).double() - 0.7 for _ in range(3)]
    limit = 5 / (1 << 18) ** 0.5  # five standard deviations of a correlation that is not there
    for shift in (1, 2, 16, 256, 512, 4096):
        for one in masks:
            assert abs(float((one[shift:] * one[:-shift]).mean()) / 0.21) < limit
    for i in range(3):
        assert abs(float((masks[i] * masks[i - 1]).mean()) / 0.21) < limit


def test_gradients_pass_where_values_passed_and_can_be_differentiated_again():
    torch.manual_seed(1)
    x = torch.randn(33, 17, dtype=torch.float64, requires_grad=True)
    out = dropout(x, 0.4)
    (g,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    mask = (out.detach() != 0).double() / 0.6
    torch.testing.assert_close(g, 2 * x * mask**2)
    (gg,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(gg, 2 * mask**2)


def test_the_seed_decides_whatever_the_threads_and_the_memory_layout():
    x = torch.randn(64, 300)
    threads = torch.get_num_threads()
    outcomes = []
    try:
        for n, like in ((1, x), (3, x), (1, x.T.contiguous().T)):
            torch.set_num_threads(n)
            torch.manual_seed(5)
            outcomes.append(dropout(like, 0.2))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(outcomes[0], outcomes[1])
    assert torch.equal(outcomes[0], outcomes[2])


def test_a_nan_is_not_hidden_and_nothing_happens_without_training():
    torch.manual_seed(0)
    nan = torch.full((1000,), torch.nan)
    assert dropout(nan, 0.5).isnan().all()
    assert relu_dropout(nan, 0.5).isnan().all()
    assert dropout_add(nan, nan, 0.5).isnan().all()
    x = torch.randn(5)
    assert Dropout(0.5).eval()(x) is x
    assert dropout(x, 0.0) is x
    assert dropout(x.half(), 0.5).dtype == torch.half  # by torch itself


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_dropout_with_its_neighbour_is_the_two_one_after_the_other(rate, dtype):
    wide = torch.float32 if dtype == torch.bfloat16 else dtype
    h = torch.randn(5, 7, 33, dtype=wide, requires_grad=True)
    x = torch.randn(5, 33, 7, dtype=dtype).mT.requires_grad_()
    pairs = [
        (lambda: dropout_add(h, x, rate), lambda: h + dropout(x, rate).to(wide)),
        (lambda: relu_dropout(x, rate), lambda: dropout(x.relu(), rate)),
    ]
    for joined, plain in pairs:
        results = []
        for run in (joined, plain):
            torch.manual_seed(4)
            out = run()
            g = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view(out.shape)
            gradients = torch.autograd.grad(out, [h, x], g, allow_unused=True)
            results.append([out.detach(), *(d for d in gradients if d is not None)])
        for got, want in zip(*results, strict=True):
            if dtype == torch.bfloat16:  # the joined ones round once less
                torch.testing.assert_close(got, want, rtol=0.02, atol=0.02)
            else:
                assert torch.equal(got, want)


def test_the_joined_ones_can_be_differentiated_twice():
    h, x = (torch.randn(4, 6, dtype=torch.float64, requires_grad=True) for _ in range(2))

    def seeded(function, *inputs):
        torch.manual_seed(2)
        return function(*inputs, 0.3)

    for function, inputs in ((dropout_add, (h, x)), (relu_dropout, (x,))):
        run = partial(seeded, function)
        assert torch.autograd.gradcheck(run, inputs)
        assert torch.autograd.gradgradcheck(run, inputs)
