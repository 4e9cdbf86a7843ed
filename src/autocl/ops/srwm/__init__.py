"""The self-referential weight matrix: a matrix that rewrites itself while it reads. See README.md."""

from torch import Tensor

from autocl.errors import InputError
from autocl.ops.backends import check_tensors, choose

__all__ = ["srwm"]


def srwm(u: Tensor, W: Tensor, *, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """Run the multi-head SRWM recurrence (Eqs. 1-5 of the paper) over a segment.

    At every step the matrix is read with the input, Wu = [y; q; k; β], and then rewritten by the delta rule
    with keys, values and learning rates of its own making. Gradients are exact for u, for W, and through
    the final matrix, which may start the next segment.

    Args:
        u: inputs [B, H, T, D], float32 or float64, D from 1 to 64.
        W: initial matrices [B or 1, H, R, D], R = 3D + 4 in row blocks y, q, k, β: β has the learning rates
            of the four blocks, in that order.
        backend: "auto", "naive" (the definition), "recompute" (PyTorch loop, memory linear in T with a
            small constant), "cpu" (numba) or "triton".

    Returns:
        y [B, H, T, D], each step read before that step's update, and the final W [B, H, R, D].

    Example:
        >>> import torch
        >>> u, W = torch.randn(2, 3, 5, 8), torch.randn(1, 3, 28, 8)
        >>> y, W1 = srwm(u, W)
        >>> y.shape, W1.shape
        (torch.Size([2, 3, 5, 8]), torch.Size([2, 3, 28, 8]))
    """
    check_tensors("srwm", u=(u, 4), W=(W, 4))
    B, H, T, D = u.shape
    if W.shape[0] not in (1, B) or W.shape[1] != H or W.shape[3] != D:
        raise InputError(
            f"srwm: W {list(W.shape)} does not fit u {list(u.shape)}: batch must be 1 or equal, "
            "heads and head size equal"
        )
    if not 1 <= D <= 64:
        raise InputError(f"srwm: head size must be 1 to 64, got {D} (last axis of u {list(u.shape)})")
    if W.shape[2] != 3 * D + 4:
        raise InputError(
            f"srwm: W must have 3D + 4 = {3 * D + 4} rows at head size D = {D}, "
            f"got {W.shape[2]} in {list(W.shape)}"
        )
    if T == 0:
        raise InputError("srwm: the segment is empty (u has T = 0 steps); give at least one step")
    name = choose(backend, u)
    if W.shape[0] != B:
        W = W.expand(B, -1, -1, -1)
    if name == "naive":
        from autocl.ops.srwm.naive import srwm_naive as run
    elif name == "recompute":
        from autocl.ops.srwm.naive import srwm_recompute as run
    elif name == "cpu":
        from autocl.ops.srwm.cpu import srwm_cpu as run
    else:
        from autocl.ops.srwm.triton import srwm_triton as run
    return run(u, W)
