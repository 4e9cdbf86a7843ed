# numba's extension interface is untyped:
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators, no-check-untyped-defs
"""Dropout by numba kernels, alone or with its neighbour; its gradient is the same function of gradients."""

from functools import partial
from typing import Any, NamedTuple

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


@njit(nogil=True, error_model="numpy")
def drop_add(first, second, threshold, scale, lo, hi, x, h, out):
    """Fill out[lo:hi] with h[lo:hi] plus what `drop` makes of x[lo:hi]."""
    zero = scale - scale
    x, h, out = x[lo:hi], h[lo:hi], out[lo:hi]
    for i in range(len(x)):
        kept = widen(x[i]) * (scale if mix(lo + i, first, second) >= threshold else zero)
        out[i] = narrow(widen(h[i]) + kept, out)


@njit(nogil=True, error_model="numpy")
def drop_relu(first, second, threshold, scale, lo, hi, x, out):
    """Fill out[lo:hi] with what `drop` makes of the positive part of x[lo:hi]."""
    zero = scale - scale
    x, out = x[lo:hi], out[lo:hi]
    for i in range(len(x)):
        z = widen(x[i])
        z = zero if z <= zero else z  # NaN is passed on
        out[i] = narrow(z * (scale if mix(lo + i, first, second) >= threshold else zero), out)


@njit(nogil=True, error_model="numpy")
def pass_where_positive(scale, lo, hi, g, y, out):
    """Fill out[lo:hi] with g[lo:hi] times scale where y[lo:hi] is positive, else with 0."""
    zero = scale - scale
    g, y, out = g[lo:hi], y[lo:hi], out[lo:hi]
    for i in range(len(g)):
        out[i] = narrow(zero if widen(y[i]) <= zero else widen(g[i]) * scale, out)


class How(NamedTuple):
    """What decides which elements are dropped."""

    rate: float
    first: int
    second: int

    def scale(self, dtype: torch.dtype) -> Any:
        """Factor of what is kept, in the precision of the arithmetic."""
        return (np.float64 if dtype == torch.float64 else np.float32)(1 / (1 - self.rate))

    def run(self, kernel: Any, out: Tensor, *inputs: Tensor) -> Tensor:
        """Let a kernel fill out from inputs of the same shape."""
        words = map(np.uint32, (self.first, self.second, self.rate * 2**32))
        arrays = (numbers(x.detach().contiguous().view(-1)) for x in (*inputs, out))
        in_threads(partial(kernel, *words, self.scale(out.dtype)), 1, *arrays)
        return out


def draw(rate: float) -> How:
    """Take two random words from torch's generator."""
    return How(rate, *torch.randint(2**32, (2,)).tolist())


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, how: How, dtype: torch.dtype) -> Tensor:
        ctx.how, ctx.dtype = how, x.dtype
        return how.run(drop, torch.empty(x.shape, dtype=dtype), x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        # The function itself, not its kernel: so it can be differentiated again.
        return _Dropout.apply(grads[0], ctx.how, ctx.dtype), None, None


class _DropoutAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, h: Tensor, x: Tensor, how: How) -> Tensor:
        ctx.how, ctx.dtype = how, x.dtype
        return how.run(drop_add, torch.empty(h.shape, dtype=h.dtype), x, h)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return grads[0], _Dropout.apply(grads[0], ctx.how, ctx.dtype), None


class _ReLUDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, how: How) -> Tensor:
        y = how.run(drop_relu, torch.empty(x.shape, dtype=x.dtype), x)
        ctx.save_for_backward(y)
        ctx.scale = how.scale(x.dtype)
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _WherePositive.apply(grads[0], *ctx.saved_tensors, ctx.scale), None


class _WherePositive(torch.autograd.Function):
    """The gradient of `_ReLUDropout`: what it let through is positive, so no mask is needed."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor, scale: Any) -> Tensor:
        ctx.save_for_backward(y)
        ctx.scale = scale
        out = torch.empty(y.shape, dtype=g.dtype)
        arrays = (numbers(x.detach().contiguous().view(-1)) for x in (g, y, out))
        in_threads(partial(pass_where_positive, scale), 1, *arrays)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _WherePositive.apply(grads[0], *ctx.saved_tensors, ctx.scale), None, None


def dropout_cpu(x: Tensor, rate: float) -> Tensor:
    """Dropout of a tensor on the CPU; see `autocl.ops.dropout.dropout`."""
    out: Tensor = _Dropout.apply(x, draw(rate), x.dtype)
    return out


def dropout_add_cpu(h: Tensor, x: Tensor, rate: float) -> Tensor:
    """h plus dropout of x on the CPU; see `autocl.ops.dropout.dropout_add`."""
    out: Tensor = _DropoutAdd.apply(h, x, draw(rate))
    return out


def relu_dropout_cpu(x: Tensor, rate: float) -> Tensor:
    """Dropout of the positive part on the CPU; see `autocl.ops.dropout.relu_dropout`."""
    out: Tensor = _ReLUDropout.apply(x, draw(rate))
    return out
