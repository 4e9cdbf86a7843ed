"""A recurrence's forward pass and its backward pass, both written by hand, as one differentiable function."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

Forward = Callable[..., tuple[Tensor, Tensor, tuple[Tensor, ...]]]
"""(*inputs, save=) -> outputs, final matrix, and what the backward pass will need: all of it if `save`."""
Backward = Callable[..., tuple[Tensor, ...]]
"""(gradients of the first two, *what was kept) -> gradients of the inputs."""


def differentiable(
    forward: Forward, backward: Backward, *inputs: Tensor, **options: bool
) -> tuple[Tensor, Tensor]:
    """Outputs and final matrix of a forward pass; gradients are exact, but cannot be differentiated again.

    Args:
        forward: keeps nothing where no gradient is wanted.
        backward: its counterpart.
        *inputs: of the forward pass.
        **options: of both passes.
    """
    if torch.is_grad_enabled() and any(x.requires_grad for x in inputs):
        passes = partial(forward, save=True, **options), partial(backward, **options)
        y, W = _Passes.apply(*passes, *inputs)  # type: ignore[no-untyped-call]
    else:
        y, W, _ = forward(*inputs, save=False, **options)
    return y, W


class _Passes(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Forward, backward: Backward, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        y, W, kept = forward(*inputs)
        ctx.save_for_backward(*kept)
        ctx.walk_back = backward
        return y, W

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *ctx.walk_back(*grads, *ctx.saved_tensors)
