# numba's extension interface is untyped:
# mypy: allow-untyped-defs, allow-untyped-calls, allow-untyped-decorators
"""The numba kernel of dropout."""

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from autocl.ops.bfloat16 import narrow, widen
from autocl.ops.jit import njit


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
