"""Every backend of the delta rule against the definition, and the definition against what it should do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autocl.errors import InputError
from autocl.ops.delta import delta

FAST_BACKENDS = ["cpu", "recompute"]
NAMES = ("q", "k", "v", "beta", "W")


def make(B, H, T, D, E, dtype=torch.float64, seed=0) -> tuple[Tensor, ...]:
    g = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, B, H, T, D, generator=g, dtype=dtype).softmax(-1)
    v = torch.randn(B, H, T, E, generator=g, dtype=dtype)
    beta = torch.rand(B, H, T, generator=g, dtype=dtype)
    return q, k, v, beta, torch.randn(B, H, E, D, generator=g, dtype=dtype)


def run(backend, inputs, **options) -> dict[str, Tensor]:
    """Outputs, final state and all gradients of a loss that reads both y and the final W."""
    inputs = [x.detach().requires_grad_() for x in inputs]
    y, W_final = delta(*inputs, backend=backend, **options)
    g = torch.Generator().manual_seed(1)
    loss = sum((x * torch.randn(x.shape, generator=g, dtype=x.dtype)).sum() for x in (y, W_final))
    gradients = torch.autograd.grad(loss, inputs)
    named = {f"d{name}": gradient for name, gradient in zip(NAMES, gradients, strict=True)}
    return {"y": y.detach(), "W_final": W_final.detach(), **named}


def assert_same(got, want, tolerance):
    for name in want:
        error = ((got[name] - want[name]).abs().max() / want[name].abs().max().clamp_min(1.0)).item()
        assert error < tolerance, f"{name}: relative error {error:.2e}"


def test_a_full_write_is_read_back_and_overwritten():
    keys = torch.eye(3, dtype=torch.float64)[None, None]
    v = torch.randn(1, 1, 3, 4, dtype=torch.float64)
    one, zero = torch.ones(1, 1, 3, dtype=torch.float64), torch.zeros(1, 1, 4, 3, dtype=torch.float64)
    y, W = delta(keys, keys, v, one, zero, backend="naive")
    torch.testing.assert_close(y, v)
    y, _ = delta(keys, keys, -v, one, W, backend="naive")
    torch.testing.assert_close(y, -v)
    y, _ = delta(keys, keys, -v, one, W, additive=True, backend="naive")
    torch.testing.assert_close(y, torch.zeros_like(v))


def test_additive_is_unnormalised_causal_linear_attention():
    q, k, v, beta, W = make(2, 3, 7, 4, 5)
    y, _ = delta(q, k, v, beta, 0 * W, additive=True, backend="naive")
    torch.testing.assert_close(y, (q @ k.mT).tril() @ (beta[..., None] * v))


@pytest.mark.parametrize("backend", FAST_BACKENDS)
@pytest.mark.parametrize("additive", [False, True], ids=["delta", "additive"])
@pytest.mark.parametrize(("D", "E"), [(4, 4), (5, 3), (16, 16), (8, 33)])
@pytest.mark.parametrize("T", [1, 2, 63])
def test_backend_equals_naive_in_float64(backend, additive, D, E, T):
    inputs = make(2, 3, T, D, E)
    assert_same(run(backend, inputs, additive=additive), run("naive", inputs, additive=additive), 1e-11)


@pytest.mark.parametrize(("D", "E", "T"), [(16, 16, 300), (7, 9, 100)])
def test_cpu_equals_naive_in_float32(D, E, T):
    inputs = make(3, 2, T, D, E, dtype=torch.float32)
    assert_same(run("cpu", inputs), run("naive", inputs), 5e-5)


@pytest.mark.parametrize("backend", FAST_BACKENDS)
@pytest.mark.parametrize("additive", [False, True], ids=["delta", "additive"])
def test_gradcheck(backend, additive):
    inputs = [x.requires_grad_() for x in make(1, 2, 4, 4, 3)]
    assert torch.autograd.gradcheck(lambda *x: delta(*x, additive=additive, backend=backend), inputs)


@pytest.mark.parametrize("backend", ["naive", *FAST_BACKENDS])
def test_a_shared_initial_matrix_collects_the_gradient_of_all_streams(backend):
    *inputs, W = make(3, 2, 5, 4, 4)
    each = run(backend, [*inputs, W[:1].expand(3, -1, -1, -1)])
    shared = run(backend, [*inputs, W[:1]])
    torch.testing.assert_close(shared["dW"], each["dW"].sum(0, keepdim=True))


@settings(deadline=None, max_examples=25)
@given(
    B=st.integers(1, 3),
    H=st.integers(1, 3),
    T=st.integers(2, 40),
    at=st.integers(1, 39),
    seed=st.integers(0, 99),
)
def test_two_segments_equal_one(B, H, T, at, seed):
    *inputs, W = (x.requires_grad_() for x in make(B, H, T, 8, 6, seed=seed))
    at = min(at, T - 1)
    y, W_final = delta(*inputs, W)
    y1, W1 = delta(*(x[:, :, :at] for x in inputs), W)
    y2, W2 = delta(*(x[:, :, at:] for x in inputs), W1)
    torch.testing.assert_close(torch.cat([y1, y2], 2), y)
    torch.testing.assert_close(W2, W_final)
    whole = torch.autograd.grad(y.square().sum() + W_final.sum(), (*inputs, W))
    parts = torch.autograd.grad(y1.square().sum() + y2.square().sum() + W2.sum(), (*inputs, W))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_streams_do_not_leak_into_each_other():
    inputs = [x.requires_grad_() for x in make(3, 2, 20, 8, 8)]
    y, W_final = delta(*inputs)
    for gradient in torch.autograd.grad(y[1].sum() + W_final[1].sum(), inputs):
        assert gradient[1].abs().max() > 0
        assert not gradient[[0, 2]].any()


def test_many_threads_give_the_same_bits():
    inputs = make(8, 4, 200, 16, 16, dtype=torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run("cpu", inputs)
        torch.set_num_threads(3)
        three = run("cpu", inputs)
    finally:
        torch.set_num_threads(threads)
    for name in one:
        assert torch.equal(one[name], three[name]), name


def test_a_nan_is_not_hidden():
    q, k, v, beta, W = make(1, 1, 3, 8, 8, dtype=torch.float32)
    v[0, 0, 1, 0] = torch.nan
    y, _ = delta(q, k, v, beta, W, backend="cpu")
    assert y[0, 0, 0].isfinite().all()
    assert y[0, 0, 1:, 0].isnan().all()


def test_torch_export_takes_the_loop():
    class Model(torch.nn.Module):
        def forward(self, *inputs: Tensor) -> Tensor:
            y, W_final = delta(*inputs, backend="cpu")
            return y.sum(-1) + W_final.sum()

    inputs = make(2, 2, 5, 4, 4, dtype=torch.float32)
    program = torch.export.export(Model(), inputs)
    torch.testing.assert_close(program.module()(*inputs), Model()(*inputs))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"q": lambda x: x[0]}, "q must have 4 axes"),
        ({"beta": lambda x: x[..., None]}, "beta must have 3 axes"),
        ({"v": lambda x: x.half()}, "v must be float32 or float64"),
        ({"k": lambda x: x.float()}, "q is torch.float64 but k is torch.float32; convert"),
        ({"k": lambda x: x[:, :, 1:]}, "k .* does not fit q"),
        ({"W": lambda x: x[:2]}, r"W \[2, 2, 6, 5\] does not fit .* expected \[3, 2, 6, 5\]"),
        ({"W": lambda x: x.mT}, "W .* does not fit"),
        ({"W": lambda x: x.to("meta")}, "W is on meta; move"),
        (dict.fromkeys(("q", "k", "v", "beta"), lambda x: x[:, :, :0]), "empty"),
    ],
)
def test_bad_input_is_refused_with_the_reason(changes, message):
    inputs = dict(zip(NAMES, make(3, 2, 3, 5, 6), strict=True))
    changed = {name: changes.get(name, lambda x: x)(x) for name, x in inputs.items()}
    with pytest.raises(InputError, match=message):
        delta(**changed)


def test_unknown_backend_is_refused():
    with pytest.raises(InputError, match="unknown backend 'cuda'"):
        delta(*make(1, 1, 1, 4, 4), backend="cuda")
