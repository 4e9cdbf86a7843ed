"""Dropout whose mask is a hash of places: nothing is drawn one by one, nothing is kept. See README.md."""

import torch
from torch import Tensor
from torch.nn import functional as F

from autocl.ops.backends import available

__all__ = ["dropout", "dropout_add", "relu_dropout"]


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
    if _fits(x):
        # Imported here because importing numba takes longer than importing all of autocl.
        from autocl.ops.dropout.cpu import dropout_cpu

        return dropout_cpu(x, rate)
    return F.dropout(x, rate)


def dropout_add(h: Tensor, x: Tensor, rate: float) -> Tensor:
    """h + dropout(x, rate) in one pass, for tensors of one shape; x may be bfloat16 where h is float32.

    Example:
        >>> dropout_add(torch.ones(3), torch.ones(3), 0.0)
        tensor([2., 2., 2.])
    """
    if rate and _fits(x, h) and h.shape == x.shape and (h.dtype == x.dtype or h.dtype == torch.float32):
        from autocl.ops.dropout.cpu import dropout_add_cpu

        return dropout_add_cpu(h, x, rate)
    return h + dropout(x, rate)


def relu_dropout(x: Tensor, rate: float) -> Tensor:
    """dropout(relu(x), rate) in one pass.

    Example:
        >>> relu_dropout(torch.tensor([-1.0, 2.0]), 0.0)
        tensor([0., 2.])
    """
    if rate and _fits(x):
        from autocl.ops.dropout.cpu import relu_dropout_cpu

        return relu_dropout_cpu(x, rate)
    return dropout(x.relu(), rate)


def _fits(*tensors: Tensor) -> bool:
    """Whether the kernels can take them: on the CPU, of a precision they know, outside `torch.compile`."""
    known = (torch.float32, torch.float64, torch.bfloat16)
    fit = all(x.device.type == "cpu" and x.dtype in known for x in tensors)
    return fit and not torch.compiler.is_compiling() and available("numba")
