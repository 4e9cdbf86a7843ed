"""The delta rule on CPUs: numba kernels behind two torch operators, as `autocl.ops.srwm.cpu` has them."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autocl.ops.threads import flatten_heads, in_threads

Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, additive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, W_final and the error v − W k of every step (v itself when additive)."""
    from autocl.ops.delta import kernel  # imports numba: only when first used

    y, W_final, error = _outputs(v, W)
    in_threads(
        partial(kernel.forward, additive),
        q.shape[2],
        *map(flatten_heads, (q, k, v, beta, W, y, error, W_final)),
    )
    return y, W_final, error


def _backward(
    q: Tensor, k: Tensor, beta: Tensor, error: Tensor, W: Tensor, dy: Tensor, dW: Tensor, additive: bool
) -> Gradients:
    """Gradients of q, k, v, beta and the initial W, from W_final, its gradient dW, and dy."""
    from autocl.ops.delta import kernel

    gradients = _like(q, k, error, beta, W)
    in_threads(
        partial(kernel.backward, additive),
        q.shape[2],
        *map(flatten_heads, (q, k, beta, error, W, dy, dW, *gradients)),
    )
    return gradients


delta_forward = torch.library.custom_op("autocl::delta_forward", _forward, mutates_args=())
delta_backward = torch.library.custom_op("autocl::delta_backward", _backward, mutates_args=())


@delta_forward.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, additive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(v, W)


def _outputs(v: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return v.new_empty(v.shape), W.new_empty(W.shape), v.new_empty(v.shape)


@delta_backward.register_fake
def _(
    q: Tensor, k: Tensor, beta: Tensor, error: Tensor, W: Tensor, dy: Tensor, dW: Tensor, additive: bool
) -> Gradients:
    return _like(q, k, error, beta, W)


def _like(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor) -> Gradients:
    dq, dk, dv, dbeta, dW = (x.new_empty(x.shape) for x in (q, k, v, beta, W))
    return dq, dk, dv, dbeta, dW


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    q, k, _, beta, _, additive = inputs
    _, W_final, error = output
    ctx.save_for_backward(q, k, beta, error, W_final)
    ctx.additive = additive


def _gradient(ctx: Any, dy: Tensor, dW_final: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return (*delta_backward(*ctx.saved_tensors, dy, dW_final, ctx.additive), None)


delta_forward.register_autograd(_gradient, setup_context=_save)


class _Eager(torch.autograd.Function):
    """The same without the dispatcher, which adds a third to the time of one step of one stream."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> tuple[Tensor, ...]:
        output = _forward(*inputs)
        _save(ctx, inputs, output)
        ctx.mark_non_differentiable(output[2])
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        q, k, beta, error, W_final = ctx.saved_tensors
        return (*_backward(q, k, beta, error, W_final, grads[0], grads[1], ctx.additive), None)


def delta_cpu(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Shapes as in `autocl.ops.delta.delta`, W with B streams."""
    inputs = (q, k, v, beta, W)
    if torch.compiler.is_compiling():
        y, W_final, _ = delta_forward(*inputs, additive)
    elif torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        y, W_final, _ = _Eager.apply(*inputs, additive)  # type: ignore[no-untyped-call]
    else:
        y, W_final, _ = _forward(*inputs, additive)
    return y, W_final
