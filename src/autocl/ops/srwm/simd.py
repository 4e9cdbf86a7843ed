# numba's extension interface is untyped:
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-untyped-decorators
# mypy: no-check-untyped-defs
"""Vector registers as numba values: a kernel written with them is vector code, whatever the optimiser thinks.

A `Vector` value fills 32 bytes: 8 floats or 4 doubles, seen as four *quarters* of 2 or 1 lanes. The SRWM
kernels keep four consecutive rows in the quarters and 2 or 1 independent items in the lanes of a quarter.
Arrays are addressed by flat index, without bounds checks.

numba's cache on disk watches only the file of the cached kernel: after a change here, touch both kernels'.
"""

import math
import operator

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable
from numpy.polynomial import Chebyshev, Polynomial

BYTES = 32
QUARTERS = 4


class Vector(types.Type):
    """The numba type of one register full of `dtype`."""

    def __init__(self, dtype) -> None:
        self.dtype = dtype
        self.bytes = dtype.bitwidth // 8
        self.width = BYTES // self.bytes
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager, kind: Vector) -> None:
        element = manager.lookup(kind.dtype).get_value_type()
        super().__init__(manager, kind, ir.VectorType(element, kind.width))


def _elementwise(context):
    return lambda a, b: a if isinstance(a, Vector) and a == b else None


for _operator, _instruction in (
    (operator.add, "fadd"),
    (operator.sub, "fsub"),
    (operator.mul, "fmul"),
    (operator.truediv, "fdiv"),
):
    type_callable(_operator)(_elementwise)
    lower_builtin(_operator, Vector, Vector)(
        lambda context, builder, signature, args, name=_instruction: getattr(builder, name)(*args)
    )


def _pointer(context, builder, array_type, array, index, vector):
    data = cgutils.create_struct_proxy(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())


def _shuffle(builder, a, b, order):
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order))


def _larger(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", a, b), b, a)


@intrinsic
def load(_, a, i):
    """The register at a[i], a[i+1], …"""
    kind = Vector(a.dtype)

    def lower(context, builder, signature, args):
        pointer = _pointer(context, builder, a, *args, context.get_value_type(kind))
        return builder.load(pointer, align=kind.bytes)

    return kind(a, types.intp), lower


@intrinsic
def broadcast(_, a, i):
    """One quarter, from a[i], a[i+1], …, in all four."""
    kind = Vector(a.dtype)
    lanes = kind.width // QUARTERS

    def lower(context, builder, signature, args):
        quarter = ir.VectorType(context.get_value_type(a.dtype), lanes)
        value = builder.load(_pointer(context, builder, a, *args, quarter), align=kind.bytes)
        return _shuffle(builder, value, value, [*range(lanes)] * QUARTERS)

    return kind(a, types.intp), lower


@intrinsic
def store(_, a, i, v):
    """a[i], a[i+1], … = v."""

    def lower(context, builder, signature, args):
        pointer = _pointer(context, builder, a, *args[:2], args[2].type)
        builder.store(args[2], pointer, align=v.bytes)
        return context.get_dummy_value()

    return types.void(a, types.intp, v), lower


@intrinsic
def prefetch(_, a, i):
    """Ask for the cache line of a[i]; nothing happens where there is none."""

    def lower(context, builder, signature, args):
        byte = ir.IntType(8).as_pointer()
        pointer = builder.bitcast(_pointer(context, builder, a, *args, context.get_value_type(a.dtype)), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte] + [ir.IntType(32)] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [pointer] + [ir.IntType(32)(x) for x in (0, 3, 1)])
        return context.get_dummy_value()

    return types.void(a, types.intp), lower


@intrinsic
def gather(_, a, i, step):
    """Quarter n = a[i + n], a[i + step + n], …: four neighbours of each item, the items `step` apart."""
    kind = Vector(a.dtype)

    def lower(context, builder, signature, args):
        array, index, stride = args
        vector = ir.VectorType(context.get_value_type(a.dtype), QUARTERS)
        first = builder.load(_pointer(context, builder, a, array, index, vector), align=kind.bytes)
        if kind.width == QUARTERS:
            return first
        pointer = _pointer(context, builder, a, array, builder.add(index, stride), vector)
        return _shuffle(builder, first, builder.load(pointer, align=kind.bytes), [0, 4, 1, 5, 2, 6, 3, 7])

    return kind(a, types.intp, types.intp), lower


@intrinsic
def scatter(_, a, i, step, v):
    """The inverse of gather: a[i + n], a[i + step + n], … = quarter n."""
    lanes = v.width // QUARTERS

    def lower(context, builder, signature, args):
        array, index, stride, value = args
        for lane in range(lanes):
            part = _shuffle(builder, value, value, [*range(lane, v.width, lanes)])
            builder.store(part, _pointer(context, builder, a, array, index, part.type), align=v.bytes)
            index = builder.add(index, stride)
        return context.get_dummy_value()

    return types.void(a, types.intp, types.intp, v), lower


@intrinsic
def splat(_, x):
    """The number x in every lane."""
    kind = Vector(x)

    def lower(context, builder, signature, args):
        empty = ir.Constant(context.get_value_type(kind), ir.Undefined)
        one = builder.insert_element(empty, args[0], ir.IntType(32)(0))
        return _shuffle(builder, one, empty, [0] * kind.width)

    return kind(x), lower


def _quarters(lanes, *order: int) -> list[int]:
    """Lane numbers of the given quarters; 4 … 7 are those of a second register."""
    return [q * lanes + lane for q in order for lane in range(lanes)]


@intrinsic
def hsum(_, v):
    """The sum of the quarters, in all four."""

    def lower(context, builder, signature, args):
        value, lanes = args[0], v.width // QUARTERS
        value = builder.fadd(value, _shuffle(builder, value, value, _quarters(lanes, 2, 3, 0, 1)))
        return builder.fadd(value, _shuffle(builder, value, value, _quarters(lanes, 1, 0, 3, 2)))

    return v(v), lower


@intrinsic
def hmax(_, v):
    """The largest of the quarters, in all four."""

    def lower(context, builder, signature, args):
        value, lanes = args[0], v.width // QUARTERS
        value = _larger(builder, value, _shuffle(builder, value, value, _quarters(lanes, 2, 3, 0, 1)))
        return _larger(builder, value, _shuffle(builder, value, value, _quarters(lanes, 1, 0, 3, 2)))

    return v(v), lower


def _halves(builder, lanes, a, b):
    """Lower halves of two registers, and upper halves."""
    low, high = _quarters(lanes, 0, 1, 4, 5), _quarters(lanes, 2, 3, 6, 7)
    return _shuffle(builder, a, b, low), _shuffle(builder, a, b, high)


def _alternate(builder, lanes, a, b):
    """Even quarters of two registers by turns, and odd quarters."""
    even, odd = _quarters(lanes, 0, 4, 2, 6), _quarters(lanes, 1, 5, 3, 7)
    return _shuffle(builder, a, b, even), _shuffle(builder, a, b, odd)


@intrinsic
def hsum4(_, a, b, c, d):
    """Quarter n = the sum of the quarters of the n-th argument."""

    def lower(context, builder, signature, args):
        lanes = a.width // QUARTERS
        ab = builder.fadd(*_alternate(builder, lanes, args[0], args[1]))
        cd = builder.fadd(*_alternate(builder, lanes, args[2], args[3]))
        return builder.fadd(*_halves(builder, lanes, ab, cd))

    return a(a, a, a, a), lower


@intrinsic
def transpose(_, a, b, c, d):
    """Four registers; quarter m of the n-th = quarter n of the m-th argument."""

    def lower(context, builder, signature, args):
        lanes = a.width // QUARTERS
        even_ab, odd_ab = _alternate(builder, lanes, args[0], args[1])
        even_cd, odd_cd = _alternate(builder, lanes, args[2], args[3])
        r0, r2 = _halves(builder, lanes, even_ab, even_cd)
        r1, r3 = _halves(builder, lanes, odd_ab, odd_cd)
        return context.make_tuple(builder, signature.return_type, (r0, r1, r2, r3))

    return types.UniTuple(a, 4)(a, a, a, a), lower


@intrinsic
def maximum(_, a, b):
    """The larger of each pair of lanes; a NaN in `a` survives."""

    def lower(context, builder, signature, args):
        return _larger(builder, *args)

    return a(a, a), lower


@intrinsic
def fma(_, a, b, c):
    """a · b + c, rounded once."""

    def lower(context, builder, signature, args):
        kind = args[0].type
        name = f"llvm.fma.v{a.width}f{a.dtype.bitwidth}"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
        return builder.call(function, args)

    return a(a, b, c), lower


def _polynomial(single: bool) -> list[float]:
    """Coefficients, lowest first, of e^f for |f| <= ln(2)/2, to less than an ulp.

    For float32 one that meets e^f at the Chebyshev points, a term shorter than Taylor's; for float64, whose
    coefficients could not be found to the last digit in float64, Taylor's.
    """
    if not single:
        return [1.0 / math.factorial(i) for i in range(14)]
    half = math.log(2.0) / 2
    meeting = Chebyshev.interpolate(np.exp, 6, domain=[-half, half])
    return [float(c) for c in meeting.convert(kind=Polynomial).coef]


@intrinsic
def exp(_, v):
    """e^v to about an ulp, v clamped to where the result is a normal number; NaN stays NaN.

    v = n ln 2 + f with |f| <= ln(2)/2. Adding 1.5 x 2^(mantissa bits) rounds v / ln 2 to the integer n and
    leaves n in the low bits of the sum, from where a shift makes it the exponent of 2^n; e^f is a polynomial
    whose error is below an ulp. libm's exp would be a scalar call for each lane.
    """
    single = v.dtype is types.float32
    shift, bias, limit = (23, 127, 87.0) if single else (52, 1023, 708.0)
    coefficients = _polynomial(single)
    # ln 2 in two parts: so few bits in the first that n times it is exact, and the rest.
    ln2, rest = 0.69314718036912381649, 1.90821492927058770e-10
    if single:
        ln2, rest = 0.693359375, -2.12194440054690583e-4

    def lower(context, builder, signature, args):
        floats = args[0].type
        integers = ir.VectorType(ir.IntType(v.dtype.bitwidth), v.width)

        def number(x):
            return ir.Constant(floats, [x] * v.width)

        def integer(x):
            return ir.Constant(integers, [x] * v.width)

        x = _larger(builder, args[0], number(-limit))
        x = builder.select(builder.fcmp_ordered(">", x, number(limit)), number(limit), x)
        magic = number(1.5 * 2.0**shift)
        rounded = builder.fadd(builder.fmul(x, number(1.0 / math.log(2.0))), magic)
        n = builder.fsub(rounded, magic)
        f = builder.fsub(x, builder.fmul(n, number(ln2)))
        f = builder.fsub(f, builder.fmul(n, number(rest)))
        g = number(coefficients[-1])
        for c in coefficients[-2::-1]:
            g = builder.fadd(builder.fmul(g, f), number(c))
        exponent = builder.shl(builder.bitcast(rounded, integers), integer(shift))
        exponent = builder.add(exponent, integer(bias << shift))
        return builder.fmul(g, builder.bitcast(exponent, floats))

    return v(v), lower
