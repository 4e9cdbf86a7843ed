"""The delta-rule kernels against the definition. Run by test_triton_backends.py in a process of its own."""

from functools import partial

import pytest
import torch
from torch import Tensor
from triton_agreement import DEVICE, assert_same, results

from autocl.ops.delta.triton import _forward, delta_triton


def delta_by_definition(
    q: Tensor, k: Tensor, v: Tensor, b: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    ys = []
    for t in range(q.shape[2]):
        held = torch.einsum("bhvd,bhd->bhv", W, k[:, :, t])
        error = v[:, :, t] if additive else v[:, :, t] - held
        W = W + torch.einsum("bh,bhv,bhd->bhvd", b[:, :, t], error, k[:, :, t])
        ys.append(torch.einsum("bhvd,bhd->bhv", W, q[:, :, t]))
    return torch.stack(ys, 2), W


def draw(
    B: int, H: int, T: int, D: int, *, dtype: torch.dtype = torch.float64, seed: int = 0
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, B, H, T, D, generator=generator, dtype=dtype)
    b = torch.rand(B, H, T, generator=generator, dtype=dtype)
    W = torch.randn(B, H, D, D, generator=generator, dtype=dtype)
    inputs = (q.softmax(-1), k.softmax(-1), v, b, W)
    return [value.detach().to(DEVICE).requires_grad_() for value in inputs]


@pytest.mark.parametrize("additive", [False, True], ids=["delta", "additive"])
@pytest.mark.parametrize("T", [1, 2, 7, 33])
@pytest.mark.parametrize("D", [4, 5, 8, 16, 32])
def test_equals_definition(D: int, T: int, additive: bool) -> None:
    inputs = draw(1, 2 if T < 7 else 1, T, D, seed=100 * D + T)
    expected = results(partial(delta_by_definition, additive=additive), *inputs)
    assert_same(results(partial(delta_triton, additive=additive), *inputs), expected)


@pytest.mark.parametrize("D", [5, 16, 64])
def test_equals_definition_in_single_precision(D: int) -> None:
    inputs = draw(1, 1, 7, D, dtype=torch.float32)
    assert_same(results(delta_triton, *inputs), results(delta_by_definition, *inputs))


@pytest.mark.parametrize("parts", ["y", "W"])
def test_gradient_through_one_output_alone(parts: str) -> None:
    # Without y in the loss the queries have no gradient, so they are bound before differentiating.
    q, *rest = draw(1, 1, 5, 5)
    actual = results(partial(delta_triton, q.detach()), *rest, parts=parts)
    assert_same(actual, results(partial(delta_by_definition, q.detach()), *rest, parts=parts))


@pytest.mark.slow
def test_long_segment_rebuilds_weights_exactly_enough() -> None:
    inputs = draw(1, 1, 300, 4, dtype=torch.float32)
    assert_same(results(delta_triton, *inputs), results(delta_by_definition, *inputs))


def test_gradcheck() -> None:
    assert torch.autograd.gradcheck(delta_triton, draw(1, 1, 2, 4))


def test_two_segments_equal_one_with_gradient_across_the_state() -> None:
    def in_two(q: Tensor, k: Tensor, v: Tensor, b: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        first, W = delta_triton(q[:, :, :2], k[:, :, :2], v[:, :, :2], b[:, :, :2], W)
        second, W = delta_triton(q[:, :, 2:], k[:, :, 2:], v[:, :, 2:], b[:, :, 2:], W)
        return torch.cat([first, second], 2), W

    inputs = draw(1, 2, 5, 5)
    assert_same(results(in_two, *inputs), results(delta_triton, *inputs))


def test_streams_are_independent() -> None:
    inputs = draw(3, 1, 2, 4)
    y, _ = delta_triton(*inputs)
    for gradient in torch.autograd.grad(y[1].sum(), inputs):
        assert gradient[1].abs().max() > 0
        assert not gradient[[0, 2]].any()


def test_without_gradient_gives_the_same_and_keeps_nothing() -> None:
    inputs = draw(1, 2, 2, 4)
    with torch.no_grad():
        y, W_final = delta_triton(*inputs)
        _, _, (*_, error, _) = _forward(*inputs, additive=False, save=False)
    assert error.numel() == 0
    expected = delta_triton(*inputs)
    assert torch.equal(y, expected[0])
    assert torch.equal(W_final, expected[1])
