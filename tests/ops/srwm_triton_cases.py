"""The SRWM kernels against the definition. Run by test_triton_backends.py in a process of its own."""

from functools import partial

import pytest
import torch
from torch import Tensor
from triton_agreement import DEVICE, Recurrence, assert_same, results

from autocl.ops.srwm import srwm
from autocl.ops.srwm.naive import srwm_naive
from autocl.ops.srwm.triton import _forward, srwm_triton


def draw(
    B: int, H: int, T: int, D: int, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    u = torch.randn(B, H, T, D, generator=generator, dtype=dtype)
    W = torch.randn(B, H, 3 * D + 4, D, generator=generator, dtype=dtype) / D**0.5
    return u.to(DEVICE).requires_grad_(), W.to(DEVICE).requires_grad_()


@pytest.mark.parametrize("T", [1, 2, 7, 33])
@pytest.mark.parametrize("D", [4, 5, 8, 16, 32])
def test_equals_naive(D: int, T: int) -> None:
    # The interpreter takes tens of milliseconds per token and program: two programs only where T is small.
    u, W = draw(1, 2 if T < 7 else 1, T, D, seed=100 * D + T)
    assert_same(results(srwm_triton, u, W), results(srwm_naive, u, W))


@pytest.mark.parametrize("D", [5, 16, 32])
def test_equals_naive_in_single_precision(D: int) -> None:
    u, W = draw(1, 1, 7, D, dtype=torch.float32)
    assert_same(results(srwm_triton, u, W), results(srwm_naive, u, W))


@pytest.mark.parametrize("D", [1, 3, 48, 64])
def test_smallest_and_largest_heads_equal_naive(D: int) -> None:
    u, W = draw(1, 1, 3, D)
    assert_same(results(srwm_triton, u, W), results(srwm_naive, u, W))


@pytest.mark.parametrize("parts", ["y", "W"])
def test_gradient_through_one_output_alone(parts: str) -> None:
    u, W = draw(1, 1, 5, 5)
    assert_same(results(srwm_triton, u, W, parts=parts), results(srwm_naive, u, W, parts=parts))


@pytest.mark.slow
def test_long_segment_rebuilds_weights_exactly_enough() -> None:
    u, W = draw(1, 1, 300, 4, dtype=torch.float32)
    assert_same(results(srwm_triton, u, W), results(srwm_naive, u, W))


@pytest.mark.slow
def test_gradcheck() -> None:
    u, W = draw(1, 1, 2, 4)
    assert torch.autograd.gradcheck(srwm_triton, (u, W))


def test_two_segments_equal_one_with_gradient_across_the_state() -> None:
    def in_two(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        first, W = srwm_triton(u[:, :, :2], W)
        second, W = srwm_triton(u[:, :, 2:], W)
        return torch.cat([first, second], 2), W

    u, W = draw(1, 2, 5, 5)
    assert_same(results(in_two, u, W), results(srwm_triton, u, W))


def test_strided_inputs_and_weights_shared_by_the_batch() -> None:
    """Heads split from a channel axis, and one W expanded over the streams, as the layer hands them over."""
    h, W = draw(3, 3, 2, 5)  # h [B, T, H, D]
    u, W = h.transpose(1, 2), W[:1, :2]

    def shared(run: Recurrence) -> Recurrence:
        return lambda u, W: run(u, W.expand(3, -1, -1, -1))

    assert_same(results(shared(srwm_triton), u, W), results(shared(srwm_naive), u, W))


def test_chosen_by_name() -> None:
    u, W = draw(2, 1, 3, 5)
    W = W[:1].detach().requires_grad_()
    actual = results(partial(srwm, backend="triton"), u, W)
    assert_same(actual, results(partial(srwm, backend="naive"), u, W))


def test_large_logits_do_not_overflow() -> None:
    u, W = draw(1, 1, 4, 5)
    u = (200 * u).detach().requires_grad_()
    actual = results(srwm_triton, u, W)
    assert all(value.isfinite().all() for value in actual.values())
    assert_same(actual, results(srwm_naive, u, W))


def test_inputs_are_left_alone_and_streams_are_independent() -> None:
    u, W = draw(3, 1, 2, 4)
    before = u.detach().clone(), W.detach().clone()
    y, _ = srwm_triton(u, W)
    du, dW = torch.autograd.grad(y[1].sum(), (u, W))
    assert torch.equal(u, before[0])
    assert torch.equal(W, before[1])
    assert du[1].abs().max() > 0
    assert dW[1].abs().max() > 0
    for other in (0, 2):
        assert not du[other].any()
        assert not dW[other].any()


def test_without_gradient_gives_the_same_and_keeps_nothing() -> None:
    u, W = draw(1, 2, 2, 4)
    with torch.no_grad():
        y, W_final = srwm_triton(u, W)
        _, _, (*_, gates, delta) = _forward(u, W, save=False)
    assert gates.numel() == delta.numel() == 0
    assert not y.requires_grad
    expected = srwm_triton(u, W)
    assert torch.equal(y, expected[0])
    assert torch.equal(W_final, expected[1])
