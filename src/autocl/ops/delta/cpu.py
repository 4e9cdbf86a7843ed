"""The delta rule on CPUs: numba kernels behind an autograd function."""

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autocl.ops.delta.naive import delta_naive
from autocl.ops.threads import flatten_heads, in_threads


class _Delta(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, additive: bool
    ) -> tuple[Tensor, Tensor]:
        y, W_final, error = _forward(q, k, v, beta, W, additive)
        ctx.save_for_backward(q, k, beta, error, W_final)
        ctx.additive = additive
        return y, W_final

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        from autocl.ops.delta import kernel

        q, k, beta, error, W_final = ctx.saved_tensors
        gradients = [x.new_empty(x.shape) for x in (q, k, error, beta, W_final)]  # whatever the strides
        arrays = map(flatten_heads, (q, k, beta, error, W_final, *grads, *gradients))
        in_threads(partial(kernel.backward, ctx.additive), q.shape[2], *arrays)
        return (*gradients, None)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, additive: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """y, W_final and the error v − W k of every step (v itself when additive)."""
    from autocl.ops.delta import kernel  # imports numba: only when first used

    y, error, W_final = v.new_empty(v.shape), v.new_empty(v.shape), W.new_empty(W.shape)
    arrays = map(flatten_heads, (q, k, v, beta, W, y, error, W_final))
    in_threads(partial(kernel.forward, additive), q.shape[2], *arrays)
    return y, W_final, error


def delta_cpu(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Shapes as in `autocl.ops.delta.delta`, W with B streams."""
    inputs = (q, k, v, beta, W)
    if torch.compiler.is_compiling():  # torch.compile and torch.export do not see into numba's kernels
        return delta_naive(*inputs, additive=additive)
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        y, W_final = _Delta.apply(*inputs, additive)  # type: ignore[no-untyped-call]
    else:
        y, W_final, _ = _forward(*inputs, additive)
    return y, W_final
