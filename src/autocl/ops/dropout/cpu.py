"""Dropout by a numba kernel; its gradient is the same function of the gradient."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autocl.ops.bfloat16 import numbers
from autocl.ops.dropout.kernel import drop
from autocl.ops.threads import in_threads


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rate: float, words: tuple[int, int]) -> Tensor:
        ctx.how = rate, words
        flat = x.contiguous().view(-1)
        out = torch.empty_like(flat)
        scale = (np.float64 if x.dtype == torch.float64 else np.float32)(1 / (1 - rate))
        first, second = map(np.uint32, words)
        run = partial(drop, first, second, np.uint32(rate * 2**32), scale)
        in_threads(run, 1, numbers(flat.detach()), numbers(out))
        return out.view(x.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        # The function itself, not its kernel: so it can be differentiated again.
        return _Dropout.apply(grads[0], *ctx.how), None, None  # type: ignore[no-untyped-call]


def dropout_cpu(x: Tensor, rate: float) -> Tensor:
    """See `autocl.ops.dropout.dropout`."""
    words = tuple(torch.randint(2**32, (2,)).tolist())
    out: Tensor = _Dropout.apply(x, rate, words)  # type: ignore[no-untyped-call]
    return out
