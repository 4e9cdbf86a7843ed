"""The SRWM recurrence on CPUs: numba kernels behind two torch operators.

The operators are registered with `torch.library`, with shape functions and an autograd formula, so that
`torch.compile` and `torch.export` see one opaque node instead of a loop.

The kernels ask for whole groups of items and head sizes that are multiples of four. The usual sizes are so
already and pass as views; others are copied into zeros, and back.
"""

import torch
from torch import Tensor

from autocl.ops.passes import differentiable
from autocl.ops.threads import in_threads


def group_size(itemsize: int) -> int:
    """Items side by side in the quarter of a 32-byte register: 2 in float32, 1 in float64."""
    return 8 // itemsize


def _blocks(D: int) -> list[tuple[slice, slice]]:
    """Rows of the blocks y, q, k, β of a matrix, and their rows when each of y, q, k is padded."""
    P = -(-D // 4) * 4
    starts = [(0, 0, D), (D, P, D), (2 * D, 2 * P, D), (3 * D, 3 * P, 4)]
    return [(slice(a, a + n), slice(b, b + n)) for a, b, n in starts]


def padded_size(shape: torch.Size, group: int, *, matrix: bool) -> tuple[int, int, int]:
    """[B, H, T, D] -> (N, T, P), or [B, H, R, D] -> (N, 3P + 4, P), with N a multiple of the group."""
    B, H, rows, D = shape
    P = -(-D // 4) * 4
    return -(-B * H // group) * group, 3 * P + 4 if matrix else rows, P


def pad(x: Tensor, group: int, *, matrix: bool = False) -> Tensor:
    """[B, H, T or R, D] -> contiguous, of the padded size; x itself where nothing is missing."""
    B, H, rows, D = x.shape
    size = padded_size(x.shape, group, matrix=matrix)
    if size == (B * H, rows, D):
        return x.contiguous().view(size)
    wide = x.new_zeros(size)
    for source, target in _blocks(D) if matrix else [(slice(rows), slice(rows))]:
        wide[: B * H, target, :D] = x[:, :, source].flatten(0, 1)
    return wide


def crop(wide: Tensor, shape: torch.Size, *, matrix: bool = False) -> Tensor:
    """The inverse of pad, to the given [B, H, T or R, D]."""
    B, H, rows, D = shape
    if wide.shape == (B * H, rows, D):
        return wide.view(shape)
    if matrix:
        wide = torch.cat([wide[:, target] for _, target in _blocks(D)], dim=1)
    return wide[: B * H, :, :D].contiguous().view(shape)


def _run(u: Tensor, W: Tensor, kept_steps: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y, W_final, and as many steps as told of act = [φ(q); φ(k); σ(β)] and delta = W(φ(q) − φ(k))."""
    from autocl.ops.srwm.kernel import forward_kernel  # imports numba: only when first used

    T, D = u.shape[2:]
    act, delta = _kept(u, kept_steps)
    group = act.shape[-1]
    u_wide, W_wide = pad(u, group), pad(W, group, matrix=True)
    y, W_final = torch.empty_like(u_wide), torch.empty_like(W_wide)
    run = forward_kernel(D, str(u.dtype))
    in_threads(run, T * group, *(x.numpy() for x in (act, delta, u_wide, W_wide, y, W_final)))
    return crop(y, u.shape), crop(W_final, W.shape, matrix=True), act, delta


def _forward(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return _run(u, W, u.shape[2])


srwm_forward = torch.library.custom_op("autocl::srwm_forward", _forward, mutates_args=())


def _backward(
    dy: Tensor, dW_final: Tensor, u: Tensor, W_final: Tensor, act: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of u and of the initial W, from those of y and of the final W."""
    from autocl.ops.srwm.kernel import backward_kernel

    T, D = u.shape[2:]
    group = act.shape[-1]
    sequences = [pad(x, group) for x in (u, dy)]
    matrices = [pad(x, group, matrix=True) for x in (W_final, dW_final)]
    du, dW = torch.empty_like(sequences[0]), torch.empty_like(matrices[0])
    arrays = (act, delta, sequences[0], matrices[0], sequences[1], matrices[1], du, dW)
    run = backward_kernel(D, str(u.dtype))
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


def _differentiate(ctx, dy, dW_final, *_) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
    u, W_final, *kept = ctx.saved_tensors
    dy = torch.zeros_like(u) if dy is None else dy
    dW_final = torch.zeros_like(W_final) if dW_final is None else dW_final
    gradients: tuple[Tensor, Tensor] = srwm_backward(dy, dW_final, u, W_final, *kept)
    return gradients


srwm_forward.register_autograd(_differentiate, setup_context=_save)


def _eager(u: Tensor, W: Tensor, *, save: bool) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    y, W_final, act, delta = _run(u, W, u.shape[2] if save else 1)
    return y, W_final, (u, W_final, act, delta)


def srwm_cpu(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """u [B, H, T, D], W [B, H, R, D] -> y [B, H, T, D], final W [B, H, R, D]."""
    if torch.compiler.is_compiling():
        y, W_final, _, _ = srwm_forward(u, W)
        return y, W_final
    # Without the dispatcher, which would add two thirds to the time of one step of one stream.
    return differentiable(_eager, _backward, u, W)
