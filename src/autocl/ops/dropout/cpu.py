# numba's extension interface is untyped:
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs
"""Dropout by a numba kernel; its gradient is the same function of the gradient."""

from functools import partial
from typing import Any

import numpy as np
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic
from torch import Tensor

from autocl.ops.bfloat16 import narrow, numbers, widen
from autocl.ops.jit import njit
from autocl.ops.threads import in_threads


@intrinsic
def mix(_, i, first, second):
    """A hash of place i under two words, all bits of it of use.

    In LLVM's terms, because numba would widen every product of 32-bit numbers to 64 bits.
    """
    word = ir.IntType(32)

    def lower(context, builder, signature, args):
        i, first, second = args
        h = builder.trunc(i, word)
        h = builder.xor(builder.mul(h, word(0x9E3779B1)), first)
        h = builder.xor(h, builder.lshr(h, word(16)))
        h = builder.xor(builder.mul(h, word(0x85EBCA6B)), second)
        h = builder.xor(h, builder.lshr(h, word(13)))
        h = builder.mul(h, word(0xC2B2AE35))
        return builder.xor(h, builder.lshr(h, word(16)))

    return types.uint32(types.intp, types.uint32, types.uint32), lower


@njit(nogil=True, error_model="numpy")
def drop(first, second, threshold, scale, lo, hi, x, out):
    """Fill out[lo:hi] with x[lo:hi] times 0 where the hash is below the threshold, else times scale.

    Both may be bfloat16, as bits in uint16; scale is float32 then.
    """
    zero = scale - scale  # of the same precision
    # Slices, because an index that cannot be negative lets the loop become vector instructions.
    x, out = x[lo:hi], out[lo:hi]
    for i in range(len(x)):
        out[i] = narrow(widen(x[i]) * (scale if mix(lo + i, first, second) >= threshold else zero), out)


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
        return _Dropout.apply(grads[0], *ctx.how), None, None


def dropout_cpu(x: Tensor, rate: float) -> Tensor:
    """Dropout of a tensor on the CPU; see `autocl.ops.dropout.dropout`."""
    words = tuple(torch.randint(2**32, (2,)).tolist())
    out: Tensor = _Dropout.apply(x, rate, words)
    return out
