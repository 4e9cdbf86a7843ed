"""The delta-rule recurrence for GPUs: Triton kernels that never store a weight matrix per token.

No GPU has run these kernels yet. What has been checked is their arithmetic (in Triton's interpreter) and that
they compile to machine code without spilling registers.

Shapes: B streams, H heads, T tokens, D head size. Step t updates, then reads:
error = v − W k (or v alone when additive), W ← W + b error k^T, y = W q.

One program owns one (stream, head) and keeps its weights in registers for all T tokens, as a tile [P, P] with
D rounded up to a power of two and zeros as padding. The forward pass saves only the errors; the backward pass
walks from the last token to the first and takes each update off the final weights again.

This module imports triton, so autocl imports it only when the backend is chosen. With `TRITON_INTERPRET=1`
in the environment *before that import* the kernels run on CPU tensors: slow, but the same program.
"""

import torch
from torch import Tensor

from autocl.ops.passes import differentiable
from autocl.ops.triton_support import launch_options, require_gpu, tl, triton


@triton.jit(do_not_specialize=["T"])
def _forward_kernel(
    q_ptr, k_ptr, v_ptr, b_ptr, W_ptr, y_ptr, error_ptr, W_final_ptr, T,
    D: tl.constexpr, P: tl.constexpr, ADDITIVE: tl.constexpr, SAVE: tl.constexpr,
):  # fmt: skip
    # 64-bit, because programs × T × D overflows 32 bits at sizes that still fit a large GPU.
    program = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, P)
    inside = index < D
    at_weight = program * D * D + index[:, None] * D + index[None, :]
    is_weight = inside[:, None] & inside[None, :]
    W = tl.load(W_ptr + at_weight, mask=is_weight, other=0.0)
    for t in range(T):
        token = program * T + t
        at = token * D + index
        q = tl.load(q_ptr + at, mask=inside, other=0.0)
        k = tl.load(k_ptr + at, mask=inside, other=0.0)
        error = tl.load(v_ptr + at, mask=inside, other=0.0)
        b = tl.load(b_ptr + token)
        if not ADDITIVE:
            error -= tl.sum(W * k[None, :], 1)
        W += (b * error)[:, None] * k[None, :]
        tl.store(y_ptr + at, tl.sum(W * q[None, :], 1), mask=inside)
        if SAVE:
            tl.store(error_ptr + at, error, mask=inside)
    tl.store(W_final_ptr + at_weight, W, mask=is_weight)


@triton.jit(do_not_specialize=["T"])
def _backward_kernel(
    q_ptr, k_ptr, b_ptr, error_ptr, W_final_ptr, dy_ptr, dW_final_ptr,
    dq_ptr, dk_ptr, dv_ptr, db_ptr, dW_ptr, T,
    D: tl.constexpr, P: tl.constexpr, ADDITIVE: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    index = tl.arange(0, P)
    inside = index < D
    at_weight = program * D * D + index[:, None] * D + index[None, :]
    is_weight = inside[:, None] & inside[None, :]
    W = tl.load(W_final_ptr + at_weight, mask=is_weight, other=0.0)
    G = tl.load(dW_final_ptr + at_weight, mask=is_weight, other=0.0)  # dL/dW_t
    for back in range(T):
        token = program * T + (T - 1 - back)
        at = token * D + index
        q = tl.load(q_ptr + at, mask=inside, other=0.0)
        k = tl.load(k_ptr + at, mask=inside, other=0.0)
        b = tl.load(b_ptr + token)
        error = tl.load(error_ptr + at, mask=inside, other=0.0)
        dy = tl.load(dy_ptr + at, mask=inside, other=0.0)

        # Through the read y = W_t q ...
        tl.store(dq_ptr + at, tl.sum(W * dy[:, None], 0), mask=inside)
        G += dy[:, None] * q[None, :]
        # ... through the update W_t = W + b error k^T ...
        step = b * error
        W -= step[:, None] * k[None, :]
        dstep = tl.sum(G * k[None, :], 1)
        dk = tl.sum(G * step[:, None], 0)
        derror = b * dstep
        tl.store(db_ptr + token, tl.sum(dstep * error, 0))
        tl.store(dv_ptr + at, derror, mask=inside)
        # ... and through error = v − W k.
        if not ADDITIVE:
            dk -= tl.sum(W * derror[:, None], 0)
            G -= derror[:, None] * k[None, :]
        tl.store(dk_ptr + at, dk, mask=inside)
    tl.store(dW_ptr + at_weight, G, mask=is_weight)


def _launch_options(D: int) -> dict[str, int | bool]:
    """See `launch_options`: one warp holds the tiles up to P = 32; at P = 64 the additive kernel needs 4."""
    return launch_options(D, lambda P: 1 if P <= 32 else 4)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, b: Tensor, W: Tensor, *, additive: bool, save: bool
) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """y and final W, and if `save` the errors [B, H, T, D]."""
    B, H, T, D = q.shape
    y, W_final, error = q.new_empty(q.shape), W.new_empty(W.shape), q.new_empty(B, H, T if save else 0, D)
    with torch.cuda.device_of(q):
        _forward_kernel[(B * H,)](
            q.contiguous(), k.contiguous(), v.contiguous(), b.contiguous(), W.contiguous(),
            y, error, W_final, T,
            D=D, ADDITIVE=additive, SAVE=save, **_launch_options(D),
        )  # fmt: skip
    return y, W_final, (q, k, b, error, W_final)


def _backward(dy: Tensor, dW_final: Tensor, *kept: Tensor, additive: bool) -> tuple[Tensor, ...]:
    q, k, b, error, W_final = kept
    gradients = [x.new_empty(x.shape) for x in (q, k, error, b, W_final)]
    B, H, T, D = q.shape
    with torch.cuda.device_of(q):
        _backward_kernel[(B * H,)](
            q.contiguous(), k.contiguous(), b.contiguous(), error, W_final,
            dy.contiguous(), dW_final.contiguous(), *gradients, T,
            D=D, ADDITIVE=additive, **_launch_options(D),
        )  # fmt: skip
    return tuple(gradients)


def delta_triton(
    q: Tensor, k: Tensor, v: Tensor, b: Tensor, W: Tensor, *, additive: bool = False
) -> tuple[Tensor, Tensor]:
    """Same contract as `delta_naive`, with values as long as keys; an InputError without a GPU.

    What it keeps beside its inputs is D floats per token and head, and nothing when no gradient is wanted.
    """
    require_gpu(q=q, k=k, v=v, b=b, W=W)
    return differentiable(_forward, _backward, q, k, v, b, W, additive=additive)
