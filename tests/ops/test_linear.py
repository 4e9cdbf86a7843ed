"""Linear maps in bfloat16 against torch's in float32."""

import pytest
import torch
from torch.nn import functional as F

from autocl.layers.base import Linear
from autocl.ops.linear import bf16_products, linear


def outcome(x, weight, bias, g):
    """The output and every gradient."""
    inputs = [t for t in (x, weight, bias) if t is not None]
    out = linear(x, weight, bias)
    return [out.detach(), *torch.autograd.grad(out, inputs, g.to(out.dtype))]


def sample(shape, make, bias):
    """Arguments of `outcome`, with numbers from make(*shape)."""
    *rows, K, N = shape
    arguments = [make(*rows, K), make(N, K), make(N) if bias else None]
    return [t if t is None else t.requires_grad_() for t in arguments], make(*rows, N)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5, 3, 7), (2, 9, 16, 1), (1, 1, 4)], ids=str)
def test_what_bfloat16_can_hold_is_exact(shape, bias):
    """Small whole numbers have no digits to lose: output and all gradients equal float32's."""
    torch.manual_seed(0)
    arguments, g = sample(shape, lambda *size: torch.randint(-3, 4, size).float(), bias)
    want = outcome(*arguments, g)
    with bf16_products():
        got = outcome(*arguments, g)
    assert [t.dtype for t in got[:2]] == [torch.bfloat16, torch.float32]
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a.float(), b)


def test_other_numbers_lose_less_than_a_percent():
    torch.manual_seed(0)
    arguments, g = sample((3, 40, 64, 48), torch.randn, True)
    want = outcome(*arguments, g)
    with bf16_products():
        got = outcome(*arguments, g)
    assert not torch.equal(got[0], want[0])
    for a, b in zip(got, want, strict=True):
        assert float((a.float() - b).norm() / b.norm()) < 0.01


def test_outside_and_in_other_precisions_it_is_torchs():
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with bf16_products():
        assert torch.equal(linear(x.double(), w.double()), F.linear(x.double(), w.double()))
        with bf16_products(False):
            assert torch.equal(linear(x, w), F.linear(x, w))
    assert torch.equal(linear(x, w), F.linear(x, w))


def test_an_error_ends_it_too():
    layer, x = Linear(8, 3), torch.randn(4, 8)
    with pytest.raises(RuntimeError), bf16_products():
        layer(x[:, :5])
    assert torch.equal(layer(x), F.linear(x, layer.weight, layer.bias))
