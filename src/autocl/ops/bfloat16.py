# numba's extension interface is untyped:
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
"""bfloat16 in numba kernels: its bits in uint16, as which a tensor of it is viewed.

numba's cache on disk watches only the file of the cached kernel: after a change here, touch the kernels'.
"""

from typing import Any

import numpy.typing as npt
import torch
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


def numbers(t: torch.Tensor) -> npt.NDArray[Any]:
    """A view of a tensor for a kernel; bfloat16 as its bits."""
    return (t.view(torch.uint16) if t.dtype == torch.bfloat16 else t).numpy()


@intrinsic
def widen(_, x):
    """The float32 of a bfloat16's bits; other numbers as they are."""
    if x != types.uint16:
        return x(x), lambda context, builder, signature, args: args[0]

    def lower(context, builder, signature, args):
        word = builder.zext(args[0], ir.IntType(32))
        return builder.bitcast(builder.shl(word, ir.IntType(32)(16)), ir.FloatType())

    return types.float32(x), lower


@intrinsic
def narrow(_, x, a):
    """The number x as the array a keeps it: uint16 are the bits of the nearest bfloat16, ties to even.

    x is float32 then. Infinity stays infinity and NaN stays NaN.
    """
    if a.dtype != types.uint16:
        return x(x, a), lambda context, builder, signature, args: args[0]

    def lower(context, builder, signature, args):
        word = ir.IntType(32)
        bits = builder.bitcast(args[0], word)
        odd = builder.and_(builder.lshr(bits, word(16)), word(1))
        rounded = builder.lshr(builder.add(bits, builder.add(odd, word(0x7FFF))), word(16))
        # Rounding could carry a NaN's bits over into the sign: a NaN is cut off instead, and stays quiet.
        quiet = builder.or_(builder.lshr(bits, word(16)), word(0x40))
        is_nan = builder.fcmp_unordered("uno", args[0], args[0])
        return builder.trunc(builder.select(is_nan, quiet, rounded), ir.IntType(16))

    return types.uint16(x, a), lower
