"""Linear maps whose products are taken in bfloat16 where a training step asks for it.

A CPU with AVX-512-BF16 takes them more than twice as fast as in float32. Weights and their gradients are
float32 all the same; sums within a product are, too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

_bf16: ContextVar[bool] = ContextVar("bf16", default=False)


def bf16_pays(device: torch.device) -> bool:
    """Whether products in bfloat16 are faster there: GPUs, and CPUs with AVX-512-BF16 or AMX."""
    # Not public, but there is no other way: `torch.backends.cpu.get_cpu_capability` knows no bfloat16.
    has = torch.cpu._is_avx512_bf16_supported, torch.cpu._is_amx_tile_supported
    return device.type != "cpu" or any(ask() for ask in has)


@contextmanager
def bf16_products(enabled: bool = True) -> Iterator[None]:
    """Within it, `linear` takes float32 products on the CPU in bfloat16, forwards and backwards.

    Example:
        >>> x, w = torch.full((1, 1), 1.01), torch.ones(1, 1)
        >>> with bf16_products():
        ...     linear(x, w)
        tensor([[1.0078]], dtype=torch.bfloat16)
    """
    before = _bf16.set(enabled)
    try:
        yield
    finally:
        _bf16.reset(before)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x [..., K] times the transpose of weight [N, K], plus bias [N] -> [..., N]; see `bf16_products`.

    In bfloat16 its output is bfloat16, too, and gradients cannot be differentiated again.
    """
    if _bf16.get() and x.device.type == "cpu" and weight.dtype == torch.float32:
        y: Tensor = _InBfloat16.apply(x, weight, bias)  # type: ignore[no-untyped-call]
        return y
    return F.linear(x, weight, bias)


LEAST_ROWS = 8
"""Products of fewer rows are filled up with zeros. With one to three, matrix libraries sum in another order,
so that a row's product would depend on how many came with it; from four on it does not (MKL)."""


def product_by_rows(x: Tensor, matrix: Tensor) -> Tensor:
    """x [n, K] times a matrix [K, N], of which no row depends on how many others there are.

    Example:
        >>> product_by_rows(torch.ones(1, 2), torch.eye(2))
        tensor([[1., 1.]])
    """
    if len(x) >= LEAST_ROWS:
        return x @ matrix
    return (F.pad(x, (0, 0, 0, LEAST_ROWS - len(x))) @ matrix)[: len(x)]


class _InBfloat16(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows, weight = x.reshape(-1, x.shape[-1]).bfloat16(), weight.bfloat16()
        ctx.save_for_backward(rows, weight)
        ctx.dtype = x.dtype
        out = rows @ weight.T if bias is None else torch.addmm(bias.bfloat16(), rows, weight.T)
        return out.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        g = grads[0].reshape(-1, len(weight)).bfloat16()
        dx = (g @ weight).to(ctx.dtype).view(*grads[0].shape[:-1], -1) if ctx.needs_input_grad[0] else None
        dbias = g.sum(0, dtype=torch.float32) if ctx.needs_input_grad[2] else None
        return dx, (g.T @ rows).float(), dbias
