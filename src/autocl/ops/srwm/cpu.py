"""The SRWM recurrence on CPUs: numba kernels behind two torch operators.

The operators are registered with `torch.library`, with shape functions and an autograd formula, so that
`torch.compile` and `torch.export` see one opaque node instead of a loop.
"""

import torch
from torch import Tensor

from autocl.ops.threads import in_threads, items


def _forward(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, W_final, act = [φ(q); φ(k); σ(β)] and delta = W(φ(q) − φ(k)) of every step."""
    from autocl.ops.srwm.kernel import forward_kernel  # imports numba: only when first used

    y, W_final, act, delta = _shapes(u, W)
    run = forward_kernel(u.shape[-1], act.shape[-1] - 2 * u.shape[-1], str(u.dtype))
    in_threads(run, u.shape[2], *(items(x) for x in (u, W, y, act, delta, W_final)))
    return y, W_final, act, delta


srwm_forward = torch.library.custom_op("autocl::srwm_forward", _forward, mutates_args=())


@torch.library.custom_op("autocl::srwm_backward", mutates_args=())
def srwm_backward(
    dy: Tensor, dW_final: Tensor, u: Tensor, W_final: Tensor, act: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of u and of the initial W, from those of y and of the final W."""
    from autocl.ops.srwm.kernel import backward_kernel

    du, dW = u.new_empty(u.shape), W_final.new_empty(W_final.shape)
    run = backward_kernel(u.shape[-1], act.shape[-1] - 2 * u.shape[-1], str(u.dtype))
    in_threads(run, u.shape[2], *(items(x) for x in (u, W_final, act, delta, dy, dW_final, du, dW)))
    return du, dW


def _shapes(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Empty outputs of the forward operator; also its shape function."""
    B, H, T, D = u.shape
    R = W.shape[2]
    return (
        u.new_empty(B, H, T, D),
        u.new_empty(B, H, R, D),
        u.new_empty(B, H, T, R - D),
        u.new_empty(B, H, T, R),
    )


srwm_forward.register_fake(_shapes)


@srwm_backward.register_fake
def _(
    dy: Tensor, dW_final: Tensor, u: Tensor, W_final: Tensor, act: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor]:
    return u.new_empty(u.shape), W_final.new_empty(W_final.shape)


def _save(ctx, inputs, output) -> None:  # type: ignore[no-untyped-def]  # torch.library's own calling convention
    _, W_final, act, delta = output
    ctx.save_for_backward(inputs[0], W_final, act, delta)
    ctx.mark_non_differentiable(act, delta)


def _gradient(ctx, dy, dW_final, _act, _delta) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    du, dW = srwm_backward(dy, dW_final, *ctx.saved_tensors)
    return du, dW


srwm_forward.register_autograd(_gradient, setup_context=_save)


def srwm_cpu(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """u [B, H, T, D], W [B, H, R, D] -> y [B, H, T, D], final W [B, H, R, D]."""
    differentiated = torch.is_grad_enabled() and (u.requires_grad or W.requires_grad)
    # Outside autograd and tracing the dispatcher has nothing to do, and would double the time of one step.
    run = srwm_forward if differentiated or torch.compiler.is_compiling() else _forward
    y, W_final, _, _ = run(u, W)
    return y, W_final
