"""The delta rule: a matrix that others write, key by key, correcting what it holds. See README.md."""

from collections.abc import Callable

from torch import Tensor

from autocl.errors import InputError
from autocl.ops.backends import check_tensors, choose

__all__ = ["delta"]


def delta(
    q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor, *, additive: bool = False, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Run the multi-head delta-rule recurrence over a segment: update, then read.

    At every step W ← W + β (v − W k) ⊗ k, then y = W q. Gradients are exact for all inputs and through the
    final matrix, which may start the next segment.

    Args:
        q: queries [B, H, T, D], feature-mapped already, float32 or float64.
        k: keys [B, H, T, D], feature-mapped already.
        v: values [B, H, T, E].
        beta: learning rates [B, H, T], in (0, 1).
        W: initial matrices [B or 1, H, E, D].
        additive: linear attention instead, W ← W + β v ⊗ k.
        backend: "auto", "naive" (the definition), "recompute" (PyTorch loop, memory linear in T with a
            small constant), "cpu" (numba) or "triton" (E = D only).

    Returns:
        y [B, H, T, E], each step read after that step's update, and the final W [B, H, E, D].

    Example:
        >>> import torch
        >>> q, k, v = torch.rand(2, 3, 5, 8), torch.rand(2, 3, 5, 8), torch.randn(2, 3, 5, 4)
        >>> y, W = delta(q, k, v, torch.rand(2, 3, 5), torch.zeros(1, 3, 4, 8))
        >>> y.shape, W.shape
        (torch.Size([2, 3, 5, 4]), torch.Size([2, 3, 4, 8]))
    """
    _check(q, k, v, beta, W)
    name = choose(backend, q)
    square = v.shape[-1] == q.shape[-1]
    if name == "triton" and not square:
        if backend == "triton":
            raise InputError(
                f"delta: backend 'triton' needs values as long as keys, got {v.shape[-1]} and {q.shape[-1]}; "
                "use backend='auto'"
            )
        name = "recompute"
    run: Callable[..., tuple[Tensor, Tensor]]
    if name == "naive":
        from autocl.ops.delta.naive import delta_naive as run
    elif name == "recompute":
        from autocl.ops.delta.naive import delta_recompute as run
    elif name == "cpu":
        from autocl.ops.delta.cpu import delta_cpu as run
    else:
        from autocl.ops.delta.triton import delta_triton as run
    return run(q, k, v, beta, W.expand(len(q), -1, -1, -1), additive=additive)


def _check(q: Tensor, k: Tensor, v: Tensor, beta: Tensor, W: Tensor) -> None:
    check_tensors("delta", q=(q, 4), k=(k, 4), v=(v, 4), beta=(beta, 3), W=(W, 4))
    B, H, T, D = q.shape
    E = v.shape[-1]
    fits = {"k": [B, H, T, D], "v": [B, H, T, E], "beta": [B, H, T], "W": [B if len(W) != 1 else 1, H, E, D]}
    for (name, shape), x in zip(fits.items(), (k, v, beta, W), strict=True):
        if list(x.shape) != shape:
            raise InputError(
                f"delta: {name} {list(x.shape)} does not fit q {list(q.shape)} and v "
                f"{list(v.shape)}: expected {shape}"
            )
    if T == 0:
        raise InputError("delta: the segment is empty (q has T = 0 steps); give at least one step")
