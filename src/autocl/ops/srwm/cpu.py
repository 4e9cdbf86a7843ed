"""The SRWM recurrence on CPUs: numba kernels behind two torch operators.

The operators are registered with `torch.library`, with shape functions and an autograd formula, so that
`torch.compile` and `torch.export` see one opaque node instead of a loop.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from autocl.ops.srwm.padding import crop, group_size, pad, padded_size
from autocl.ops.threads import in_threads


def _run(u: Tensor, W: Tensor, kept_steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, W_final, and as many steps as told of act = [φ(q); φ(k); σ(β)] and delta = W(φ(q) − φ(k))."""
    from autocl.ops.srwm.forward import forward_kernel  # imports numba: only when first used

    T, D = u.shape[2:]
    act, delta = _kept(u, kept_steps)
    group = act.shape[-1]
    u_wide, W_wide = pad(u, group), pad(W, group, matrix=True)
    y, W_final = torch.empty_like(u_wide), torch.empty_like(W_wide)
    run = forward_kernel(D, W.shape[2] - 3 * D, str(u.dtype))
    in_threads(run, T * group, *(x.numpy() for x in (act, delta, u_wide, W_wide, y, W_final)))
    return crop(y, u.shape), crop(W_final, W.shape, matrix=True), act, delta


def _forward(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _run(u, W, u.shape[2])


srwm_forward = torch.library.custom_op("autocl::srwm_forward", _forward, mutates_args=())


def _backward(
    dy: Tensor, dW_final: Tensor, u: Tensor, W_final: Tensor, act: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of u and of the initial W, from those of y and of the final W."""
    from autocl.ops.srwm.backward import backward_kernel

    T, D = u.shape[2:]
    group = act.shape[-1]
    sequences = [pad(x, group) for x in (u, dy)]
    matrices = [pad(x, group, matrix=True) for x in (W_final, dW_final)]
    du, dW = torch.empty_like(sequences[0]), torch.empty_like(matrices[0])
    arrays = (act, delta, sequences[0], matrices[0], sequences[1], matrices[1], du, dW)
    run = backward_kernel(D, W_final.shape[2] - 3 * D, str(u.dtype))
    in_threads(run, T * group, *(x.numpy() for x in arrays))
    return crop(du, u.shape), crop(dW, W_final.shape, matrix=True)


srwm_backward = torch.library.custom_op("autocl::srwm_backward", _backward, mutates_args=())


def _kept(u: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Empty act [N/L, steps, 2P+4, L] and delta [N/L, steps, 3P+4, L], in the kernels' groups of L items."""
    group = group_size(u.dtype.itemsize)
    N, _, P = padded_size(u.shape, group, matrix=False)
    act = u.new_empty(N // group, steps, 2 * P + 4, group)
    return act, u.new_empty(N // group, steps, 3 * P + 4, group)


def _shapes(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Empty outputs of the forward operator: its shape function."""
    return u.new_empty(u.shape), W.new_empty(W.shape), *_kept(u, u.shape[2])


srwm_forward.register_fake(_shapes)


@srwm_backward.register_fake
def _(
    dy: Tensor, dW_final: Tensor, u: Tensor, W_final: Tensor, act: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor]:
    return u.new_empty(u.shape), W_final.new_empty(W_final.shape)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]  # torch.library's own calling convention
    ctx.save_for_backward(inputs[0], *output[1:])
    ctx.set_materialize_grads(False)  # zeros for act and delta would cost as much as the whole pass


def _saved(ctx, dy, dW_final, *_) -> tuple[Tensor, ...]:  # type: ignore[no-untyped-def]
    """What the backward pass takes."""
    u, W_final, act, delta = ctx.saved_tensors
    dy = torch.zeros_like(u) if dy is None else dy
    dW_final = torch.zeros_like(W_final) if dW_final is None else dW_final
    return dy, dW_final, u, W_final, act, delta


srwm_forward.register_autograd(lambda ctx, *grads: srwm_backward(*_saved(ctx, *grads)), setup_context=_save)


class _Eager(torch.autograd.Function):
    """The same without the dispatcher, which would add two thirds to the time of one step of one stream."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
        out = _forward(u, W)
        _save(ctx, (u, W), out)
        return out[:2]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, Tensor]:
        return _backward(*_saved(ctx, *grads))


def srwm_cpu(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """u [B, H, T, D], W [B, H, R, D] -> y [B, H, T, D], final W [B, H, R, D]."""
    if torch.compiler.is_compiling():
        y, W_final, _, _ = srwm_forward(u, W)
    elif torch.is_grad_enabled() and (u.requires_grad or W.requires_grad):
        y, W_final = _Eager.apply(u, W)  # type: ignore[no-untyped-call]
    else:  # nothing need be kept
        y, W_final, _, _ = _run(u, W, 1)
    return y, W_final
