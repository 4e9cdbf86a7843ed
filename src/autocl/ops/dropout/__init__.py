"""Dropout whose mask is a hash of places: nothing is drawn one by one, nothing is kept. See README.md."""

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.ops.backends import available

__all__ = ["dropout"]


def dropout(x: Tensor, rate: float) -> Tensor:
    """Zero each element with chance `rate` and scale the others, so that the mean stays.

    On the CPU by a numba kernel, elsewhere by torch; both take their randomness from
    torch's generator, but not the same numbers.

    Args:
        x: any shape.
        rate: in [0, 1).

    Example:
        >>> kept = dropout(torch.ones(10_000), 0.5)
        >>> kept.unique().tolist(), abs(float(kept.mean()) - 1) < 0.05
        ([0.0, 2.0], True)
    """
    if rate == 0:
        return x
    fits = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64, torch.bfloat16)
    if fits and not torch.compiler.is_compiling() and available("numba"):
        # Imported here because importing numba takes longer than importing all of autocl.
        from autocl.ops.dropout.cpu import dropout_cpu

        return dropout_cpu(x, rate)
    return F.dropout(x, rate)
