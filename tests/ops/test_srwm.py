"""Every backend of the SRWM recurrence against the definition, and the definition against the paper."""

import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from autocl.errors import InputError
from autocl.ops.srwm import srwm

FAST_BACKENDS = ["cpu", "recompute"]


def make(B: int, H: int, T: int, D: int, dtype: torch.dtype = torch.float64, seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    u = torch.randn(B, H, T, D, generator=g, dtype=dtype)
    W = torch.randn(B, H, 3 * D + 4, D, generator=g, dtype=dtype) / D**0.5
    return u, W


def run(backend: str, u: Tensor, W: Tensor, **options: bool) -> dict[str, Tensor]:
    """Outputs, final state and all gradients of a loss that reads both y and the final W."""
    u, W = u.detach().requires_grad_(), W.detach().requires_grad_()
    y, W_final = srwm(u, W, backend=backend, **options)
    g = torch.Generator().manual_seed(1)
    a = torch.randn(y.shape, generator=g, dtype=y.dtype)
    b = torch.randn(W_final.shape, generator=g, dtype=y.dtype)
    ((y * a).sum() + (W_final * b).sum()).backward()
    return {"y": y.detach(), "W_final": W_final.detach(), "du": u.grad, "dW": W.grad}


def assert_same(got: dict[str, Tensor], want: dict[str, Tensor], tolerance: float) -> None:
    for name in want:
        scale = want[name].abs().max().clamp_min(1.0)
        error = ((got[name] - want[name]).abs().max() / scale).item()
        assert error < tolerance, f"{name}: relative error {error:.2e}"


def test_naive_is_the_papers_single_matrix_equation():
    """Eqs. 1-3 written for one matrix with one learning rate: ours with four equal rows of β."""
    u, W = make(1, 1, 6, 5)
    W[:, :, 15:] = W[:, :, 15:16]
    y, W_final = srwm(u, W, backend="naive")
    M = W[0, 0, :16].clone()
    for t in range(6):
        out = M @ u[0, 0, t]
        o, q, k, beta = out[:5], out[5:10].softmax(0), out[10:15].softmax(0), out[15]
        torch.testing.assert_close(y[0, 0, t], o)
        M = M + beta.sigmoid() * torch.outer(M @ q - M @ k, k)
    torch.testing.assert_close(W_final[0, 0], M[[*range(15), 15, 15, 15, 15]])


def test_naive_uses_the_learning_rates_in_the_order_y_q_k_beta():
    D = 4
    u, W = make(1, 1, 1, D)
    _, W_final = srwm(u, W, backend="naive")
    M, x = W[0, 0], u[0, 0, 0]
    out = M @ x
    q, k, b = out[D : 2 * D].softmax(0), out[2 * D : 3 * D].softmax(0), out[3 * D :].sigmoid()
    for i, rows in enumerate([slice(0, D), slice(D, 2 * D), slice(2 * D, 3 * D), slice(3 * D, None)]):
        change = b[i] * torch.outer(M[rows] @ (q - k), k)
        torch.testing.assert_close(W_final[0, 0, rows], M[rows] + change)


@pytest.mark.parametrize("backend", FAST_BACKENDS)
@pytest.mark.parametrize("D", [4, 5, 8, 16, 32])
@pytest.mark.parametrize("T", [1, 2, 63])
def test_backend_equals_naive_in_float64(backend, D, T):
    u, W = make(2, 3, T, D)
    assert_same(run(backend, u, W), run("naive", u, W), 1e-10)


@pytest.mark.parametrize(("D", "T"), [(16, 300), (8, 100), (5, 7)])
def test_cpu_equals_naive_in_float32(D, T):
    u, W = make(3, 2, T, D, dtype=torch.float32)
    u = u * 0.5  # the recurrence amplifies rounding; gentle inputs keep the comparison about the code
    assert_same(run("cpu", u, W), run("naive", u, W), 2e-4)


@pytest.mark.parametrize(("B", "H", "D"), [(1, 1, 16), (1, 3, 6), (3, 1, 3), (1, 5, 8)])
def test_sizes_that_fill_no_register_equal_naive_in_float32(B, H, D):
    u, W = make(B, H, 9, D, dtype=torch.float32)
    assert_same(run("cpu", u * 0.5, W), run("naive", u * 0.5, W), 2e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_outside_autograd_the_same_bits(dtype):
    """There the kernel keeps nothing for a backward pass."""
    u, W = make(2, 3, 11, 5, dtype=dtype)
    kept = run("cpu", u, W)
    y, W_final = srwm(u, W, backend="cpu")
    assert torch.equal(y, kept["y"])
    assert torch.equal(W_final, kept["W_final"])


@pytest.mark.parametrize("backend", FAST_BACKENDS)
def test_gradcheck(backend):
    u, W = make(1, 2, 4, 4)
    assert torch.autograd.gradcheck(
        lambda u, W: srwm(u, W, backend=backend), (u.requires_grad_(), W.requires_grad_())
    )


def test_a_shared_initial_matrix_collects_the_gradient_of_all_streams():
    u, W = make(3, 2, 5, 4)
    shared = W[:1]
    assert_same(run("cpu", u, shared), run("naive", u, shared), 1e-10)
    assert run("cpu", u, shared)["dW"].shape == shared.shape


@settings(deadline=None, max_examples=25)
@given(
    B=st.integers(1, 4),
    H=st.integers(1, 3),
    T=st.integers(1, 40),
    cut=st.floats(0.05, 0.95),
    seed=st.integers(0, 99),
)
def test_two_segments_equal_one(B, H, T, cut, seed):
    """The final matrix of the first part starts the second; outputs and gradients are those of one pass."""
    u, W = make(B, H, T + 1, 8, seed=seed)
    u.requires_grad_()
    W.requires_grad_()
    at = max(1, min(T, int(cut * (T + 1))))
    y, W_final = srwm(u, W)
    y1, W1 = srwm(u[:, :, :at], W)
    y2, W2 = srwm(u[:, :, at:], W1)
    torch.testing.assert_close(torch.cat([y1, y2], 2), y)
    torch.testing.assert_close(W2, W_final)
    whole = torch.autograd.grad(y.square().sum() + W_final.sum(), (u, W))
    parts = torch.autograd.grad(y1.square().sum() + y2.square().sum() + W2.sum(), (u, W))
    for a, b in zip(whole, parts, strict=True):
        torch.testing.assert_close(a, b)


def test_streams_do_not_leak_into_each_other():
    u, W = make(4, 2, 20, 8)
    u.requires_grad_()
    y, W_final = srwm(u, W)
    (y[1].sum() + W_final[1].sum()).backward()
    others = torch.tensor([0, 2, 3])
    assert u.grad[others].abs().max() == 0
    assert u.grad[1].abs().min() > 0
    alone, _ = srwm(u[1:2], W[1:2])
    torch.testing.assert_close(alone[0], y[1], rtol=0, atol=0)


def test_many_threads_give_the_same_bits():
    u, W = make(8, 4, 200, 16, dtype=torch.float32)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = run("cpu", u, W)
        torch.set_num_threads(3)
        three = run("cpu", u, W)
    finally:
        torch.set_num_threads(threads)
    for name in one:
        assert torch.equal(one[name], three[name]), name


def test_extreme_inputs_stay_finite_and_nan_is_not_hidden():
    u, W = make(1, 1, 3, 8, dtype=torch.float32)
    for backend in ["naive", "cpu"]:
        y, W_final = srwm(u * 1e4, W, backend=backend)
        assert y.isfinite().all()
        assert W_final.isfinite().all()
    u[0, 0, 1, 0] = float("nan")
    y, _ = srwm(u, W, backend="cpu")
    assert y[0, 0, 0].isfinite().all()
    assert y[0, 0, 1:].isnan().any()


def test_torch_compile_and_export_take_the_operator():
    class Model(torch.nn.Module):
        def forward(self, u: Tensor, W: Tensor) -> Tensor:
            y, W_final = srwm(u, W, backend="cpu")
            return y.sum(-1) + W_final.sum()

    u, W = make(2, 2, 5, 4, dtype=torch.float32)
    program = torch.export.export(Model(), (u, W))
    torch.testing.assert_close(program.module()(u, W), Model()(u, W))
    assert "srwm_forward" in str(program.graph)
    torch.library.opcheck(torch.ops.autocl.srwm_forward.default, (u.requires_grad_(), W.requires_grad_()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda u, W: (u[0], W), "4 axes"),
        (lambda u, W: (u.half(), W), "float32 or float64"),
        (lambda u, W: (u.float(), W), "convert"),
        (lambda u, W: (u, W[:, :, :-2]), "rows"),
        (lambda u, W: (u, W[:, :1]), "does not fit"),
        (lambda u, W: (u[:, :, :0], W), "empty"),
        (lambda u, W: (u.repeat(1, 1, 1, 13), W.repeat(1, 1, 1, 13)), "head size"),
        (lambda u, W: (u.to("meta"), W), "move one"),
    ],
)
def test_bad_input_is_refused_with_the_reason(change, message):
    u, W = make(2, 2, 3, 5)
    with pytest.raises(InputError, match=message):
        srwm(*change(u, W))


def test_unknown_backend_is_refused():
    with pytest.raises(InputError, match="unknown backend 'cuda'"):
        srwm(*make(1, 1, 1, 4), backend="cuda")


def test_without_numba_a_pytorch_loop_stands_in_with_one_warning(monkeypatch):
    from autocl.ops import backends

    monkeypatch.setattr(backends, "available", lambda module: False)
    backends._warn_once.cache_clear()
    u, W = make(1, 1, 3, 4)
    with pytest.warns(RuntimeWarning, match="numba is not installed"):
        y, _ = srwm(u, W)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        srwm(u, W)
    torch.testing.assert_close(y, srwm(u, W, backend="naive")[0])
