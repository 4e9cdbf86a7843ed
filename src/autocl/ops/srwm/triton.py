"""The SRWM recurrence for GPUs: Triton kernels that never store a weight matrix per token.

No GPU has run these kernels yet. What has been checked is their arithmetic (in Triton's interpreter, against
the definition in `naive.py`) and that they compile to machine code without spilling registers.

Shapes: B streams, H heads, T tokens, D head size, R = 3D + 4 rows. One program owns one (stream, head) and
keeps its weights in registers for all T tokens, as a tile [4, P, P] of the row blocks y, q, k, β, where P is
D rounded up to a power of two. Padded rows and columns start as zeros and every update leaves them zero, so
only loads and stores need masks.

The forward pass saves, per token, the activations q, k, b and delta = W(q − k). The backward pass walks from
the last token to the first and takes each token's update off the final weights again:
W_{t-1} = W_t − (b ∘ delta) k^T.

This module imports triton, so autocl imports it only when the backend is chosen. With `TRITON_INTERPRET=1`
in the environment *before that import* the kernels run on CPU tensors: slow, but the same program.
"""

import torch
from torch import Tensor

from autocl.ops.passes import differentiable
from autocl.ops.triton_support import launch_options, require_gpu, tl, triton


@triton.jit
def _expand_rates(b, P: tl.constexpr):
    """The four learning rates at the start of b [P], one for each row block [4, 1]."""
    return tl.sum(tl.where(_owner(P), b[None, :], 0.0), 1)[:, None]


@triton.jit
def _owner(P: tl.constexpr):
    """Mask [4, P] that is true where learning rate j drives row block i."""
    return tl.arange(0, P)[None, :] == tl.arange(0, 4)[:, None]


@triton.jit
def _pick(blocks, index: tl.constexpr):
    """One row [P] of a tile [4, P]."""
    return tl.sum(tl.where(tl.arange(0, 4)[:, None] == index, blocks, 0.0), 0)


@triton.jit
def _read(W, x):
    """W x for every row block: [4, P, P] times [P] gives [4, P]."""
    return tl.sum(W * x[None, None, :], 2)


@triton.jit
def _read_transposed(W, rows):
    """W^T rows, summed over the blocks: [4, P, P] with [4, P] gives [P]."""
    return tl.sum(tl.sum(W * rows[:, :, None], 0), 0)


@triton.jit
def _outer(rows, columns):
    """Outer product of [4, P] with [P]: [4, P, P]."""
    return rows[:, :, None] * columns[None, None, :]


@triton.jit(do_not_specialize=["T"])
def _forward_kernel(
    u_ptr, W_ptr, y_ptr, gates_ptr, delta_ptr, W_final_ptr, T,
    D: tl.constexpr, P: tl.constexpr, SAVE: tl.constexpr,
):  # fmt: skip
    # 64-bit, because programs × T × R overflows 32 bits at sizes that still fit a large GPU.
    program = tl.program_id(0).to(tl.int64)
    R: tl.constexpr = 3 * D + 4
    column = tl.arange(0, P)
    block = tl.arange(0, 4)[:, None]
    row = tl.arange(0, P)[None, :]
    is_column = column < D
    is_row = row < tl.where(block == 3, 4, D)
    at_row = block * D + row
    at_weight = at_row[:, :, None] * D + column[None, None, :]
    is_weight = is_row[:, :, None] & is_column[None, None, :]

    u_ptr += program * T * D
    y_ptr += program * T * D
    gates_ptr += program * T * (R - D)
    delta_ptr += program * T * R
    W = tl.load(W_ptr + program * R * D + at_weight, mask=is_weight, other=0.0)
    for _ in range(T):
        u = tl.load(u_ptr + column, mask=is_column, other=0.0)
        z = _read(W, u)
        # Of these two [4, P] tiles only the q and k rows, and the β row, are used.
        logits = tl.where(row < D, z, float("-inf"))
        odds = tl.exp(logits - tl.max(logits, 1)[:, None])
        softmax = odds / tl.sum(odds, 1)[:, None]
        sigmoid = 1.0 / (1.0 + tl.exp(-z))
        q = _pick(softmax, 1)
        k = _pick(softmax, 2)
        b = _pick(sigmoid, 3)
        delta = _read(W, q - k)
        W += _outer(_expand_rates(b, P) * delta, k)

        tl.store(y_ptr + column, _pick(z, 0), mask=is_column)
        if SAVE:
            tl.store(gates_ptr + column, q, mask=is_column)
            tl.store(gates_ptr + D + column, k, mask=is_column)
            tl.store(gates_ptr + 2 * D + column, b, mask=column < 4)
            tl.store(delta_ptr + at_row, delta, mask=is_row)
        u_ptr += D
        y_ptr += D
        gates_ptr += R - D
        delta_ptr += R
    tl.store(W_final_ptr + program * R * D + at_weight, W, mask=is_weight)


@triton.jit(do_not_specialize=["T"])
def _backward_kernel(
    u_ptr, gates_ptr, delta_ptr, W_final_ptr, dy_ptr, dW_final_ptr, du_ptr, dW_ptr, T,
    D: tl.constexpr, P: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    R: tl.constexpr = 3 * D + 4
    column = tl.arange(0, P)
    block = tl.arange(0, 4)[:, None]
    row = tl.arange(0, P)[None, :]
    is_column = column < D
    is_row = row < tl.where(block == 3, 4, D)
    at_row = block * D + row
    at_weight = program * R * D + at_row[:, :, None] * D + column[None, None, :]
    is_weight = is_row[:, :, None] & is_column[None, None, :]

    last = program * T + T - 1
    u_ptr += last * D
    dy_ptr += last * D
    du_ptr += last * D
    gates_ptr += last * (R - D)
    delta_ptr += last * R
    W = tl.load(W_final_ptr + at_weight, mask=is_weight, other=0.0)
    G = tl.load(dW_final_ptr + at_weight, mask=is_weight, other=0.0)  # dL/dW_t
    for _ in range(T):
        u = tl.load(u_ptr + column, mask=is_column, other=0.0)
        dy = tl.load(dy_ptr + column, mask=is_column, other=0.0)
        q = tl.load(gates_ptr + column, mask=is_column, other=0.0)
        k = tl.load(gates_ptr + D + column, mask=is_column, other=0.0)
        b = tl.load(gates_ptr + 2 * D + column, mask=column < 4, other=0.0)
        delta = tl.load(delta_ptr + at_row, mask=is_row, other=0.0)
        rates = _expand_rates(b, P)
        step = rates * delta
        W -= _outer(step, k)

        # Through the update W_t = W + step k^T ...
        dstep = _read(G, k)
        dk = _read_transposed(G, step)
        ddelta = rates * dstep
        drates = tl.sum(dstep * delta, 1)[:, None]
        db = tl.sum(tl.where(_owner(P), drates, 0.0), 0)
        # ... through delta = W (q − k) ...
        dq = _read_transposed(W, ddelta)
        dk -= dq
        G += _outer(ddelta, q - k)
        # ... and through z = W u with its softmaxes and sigmoid.
        dz_q = q * (dq - tl.sum(q * dq, 0))
        dz_k = k * (dk - tl.sum(k * dk, 0))
        dz_b = b * (1.0 - b) * db
        dz = tl.where(block == 0, dy[None, :], dz_q[None, :])
        dz = tl.where(block == 2, dz_k[None, :], dz)
        dz = tl.where(block == 3, dz_b[None, :], dz)
        G += _outer(dz, u)
        tl.store(du_ptr + column, _read_transposed(W, dz), mask=is_column)

        u_ptr -= D
        dy_ptr -= D
        du_ptr -= D
        gates_ptr -= R - D
        delta_ptr -= R
    tl.store(dW_ptr + at_weight, G, mask=is_weight)


def _launch_options(D: int) -> dict[str, int | bool]:
    """See `launch_options`: one warp holds the tiles up to P = 16; 4 are needed at P = 32 and 8 at P = 64."""
    return launch_options(D, lambda P: 1 if P <= 16 else P // 8)


def _forward(u: Tensor, W: Tensor, *, save: bool) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
    """y and final W, and if `save` the gates [B, H, T, R − D] and delta [B, H, T, R]."""
    B, H, T, D = u.shape
    R, saved = W.shape[2], T if save else 0
    y, W_final = u.new_empty(u.shape), W.new_empty(W.shape)
    gates, delta = u.new_empty(B, H, saved, R - D), u.new_empty(B, H, saved, R)
    with torch.cuda.device_of(u):
        _forward_kernel[(B * H,)](
            u.contiguous(), W.contiguous(), y, gates, delta, W_final, T,
            D=D, SAVE=save, **_launch_options(D),
        )  # fmt: skip
    return y, W_final, (u, W_final, gates, delta)


def _backward(dy: Tensor, dW_final: Tensor, *kept: Tensor) -> tuple[Tensor, ...]:
    u, W_final, gates, delta = kept
    du, dW = u.new_empty(u.shape), W_final.new_empty(W_final.shape)
    B, H, T, D = u.shape
    with torch.cuda.device_of(u):
        _backward_kernel[(B * H,)](
            u.contiguous(), gates, delta, W_final, dy.contiguous(), dW_final.contiguous(), du, dW, T,
            D=D, **_launch_options(D),
        )  # fmt: skip
    return du, dW


def srwm_triton(u: Tensor, W: Tensor) -> tuple[Tensor, Tensor]:
    """Same contract as `srwm_naive`; an InputError without a GPU.

    What it keeps for the backward pass is 5D + 8 floats per token and head, and nothing when no gradient is
    wanted.
    """
    require_gpu(u=u, W=W)
    return differentiable(_forward, _backward, u, W)
