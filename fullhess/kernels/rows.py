"""Operations on rows of lanes, as explicit vector instructions.

An array of lanes is (rows, LANES) float32 or float64. An operation is called as
``add(lanes, target, a, b)``: row numbers, or a number in place of b where the name
ends in ``_scalar``. Numba's own loops would check at run time, again and again,
whether the rows overlap.
"""

from __future__ import annotations

import math

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

# Candidates in a chunk. 16 and 32 take the same time up to k=10 (70 rows × 32 lanes × 4 B,
# 9 KB); at k=26 a chunk of 32 leaves the first-level cache, and took 1.6 times as long.
HALF = 16
LANES = 2 * HALF
VECTOR = 8  # lanes of a transposed tile
REGISTER_BITS = 512  # of one emitted instruction: a register of AVX-512, two of AVX
HUGE = 1e30  # scores and ranges are clipped here, so that no infinity meets a zero


def _row_operation(emit, scalar):
    """An intrinsic ``(lanes, target, a, b)`` that runs ``emit`` over whole rows.

    ``emit(builder, target, a, b, vector type)`` gets the operands' vectors and returns
    the target's new one; with ``scalar`` b is a number instead of a row.
    """

    @intrinsic
    def operation(typingctx, lanes, target, a, b):
        def codegen(context, builder, signature, args):
            element = context.get_data_type(lanes.dtype)
            vector = ir.VectorType(element, REGISTER_BITS // lanes.dtype.bitwidth)
            align = 4 if lanes.dtype.bitwidth == 32 else 8
            data = context.make_array(lanes)(context, builder, args[0]).data
            number = None
            if scalar:
                number = context.cast(builder, args[3], signature.args[3], lanes.dtype)
                number = _splat(builder, number, vector)
            rows = [args[1], args[2]] if scalar else args[1:4]
            width = ir.Constant(ir.IntType(64), LANES)
            starts = [builder.gep(data, [builder.mul(row, width)]) for row in rows]
            for v in range(0, LANES, vector.count):
                offset = ir.Constant(ir.IntType(64), v)
                pointers = [
                    builder.bitcast(builder.gep(start, [offset]), vector.as_pointer())
                    for start in starts
                ]
                values = []
                for pointer in pointers:
                    value = builder.load(pointer)
                    value.align = align
                    values.append(value)
                if scalar:
                    values.append(number)
                builder.store(emit(builder, *values, vector), pointers[0]).align = align
            return context.get_dummy_value()

        last = b if scalar else types.intp
        return types.void(lanes, types.intp, types.intp, last), codegen

    return operation


def _splat(builder, number, vector):
    first = builder.insert_element(
        ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
    )
    mask = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def _emit_muladd(builder, target, a, b, vector):
    """Fused where the processor can: llvm.fmuladd leaves the choice to the target."""
    suffix = "f32" if isinstance(vector.element, ir.FloatType) else "f64"
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector] * 3),
        f"llvm.fmuladd.v{vector.count}{suffix}",
    )
    return builder.call(function, [a, b, target])


def _emit_submul(builder, target, a, b, vector):
    return _emit_muladd(builder, target, builder.fneg(a), b, vector)


def _emit_larger(builder, a, b):
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _emit_smaller(builder, a, b):
    return builder.select(builder.fcmp_ordered("<", a, b), a, b)


def _emit_clip(builder, target, a, limit, vector):
    return builder.select(builder.fcmp_ordered(">", a, limit), limit, a)


def _emit_reciprocal(builder, target, a, floor, vector):
    return builder.fdiv(_constant(vector, 1.0), _emit_larger(builder, a, floor))


def _emit_guarded_reciprocal(builder, target, a, floor, vector):
    usable = builder.fcmp_ordered(">", a, floor)
    inverse = builder.fdiv(_constant(vector, 1.0), a)
    return builder.select(usable, inverse, _constant(vector, 0.0))


def _emit_veto(builder, target, a, least, vector):
    enough = builder.fcmp_ordered(">=", a, least)
    return builder.select(enough, _constant(vector, 0.0), _constant(vector, -math.inf))


def _emit_floored_sum(builder, target, a, s, vector):
    return builder.fadd(_emit_larger(builder, a, _constant(vector, 0.0)), s)


def _constant(vector, value):
    return ir.Constant(vector, [value] * vector.count)


def _horner(builder, z, coefficients, vector):
    """c0 + z (c1 + z (c2 + …))."""
    total = _constant(vector, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        total = _emit_muladd(builder, _constant(vector, coefficient), z, total, vector)
    return total


def _emit_log(builder, y, vector):
    """Natural logarithm of y >= 1: 2·atanh of the mantissa plus the exponent.

    LLVM has no vector logarithm here. The mantissa is taken in [√½, √2).
    """
    double = isinstance(vector.element, ir.DoubleType)
    whole = ir.VectorType(ir.IntType(64 if double else 32), vector.count)
    bits = builder.bitcast(y, whole)
    shift = _constant(whole, 52 if double else 23)
    root_half = _constant(whole, 0x3FE6A09E667F3BCD if double else 0x3F3504F3)
    exponent = builder.ashr(builder.sub(bits, root_half), shift)
    mantissa = builder.bitcast(builder.sub(bits, builder.shl(exponent, shift)), vector)
    one = _constant(vector, 1.0)
    s = builder.fdiv(builder.fsub(mantissa, one), builder.fadd(mantissa, one))
    terms = range(1, 20 if double else 10, 2)  # |s| < 0.172
    series = _horner(builder, builder.fmul(s, s), [2.0 / n for n in terms], vector)
    ln2 = builder.fmul(builder.sitofp(exponent, vector), _constant(vector, math.log(2.0)))
    return _emit_muladd(builder, ln2, s, series, vector)


def _emit_guaranteed(builder, score, high, low, vector):
    """score · h(high - low): ``guaranteed_share`` of the range, both its branches."""
    one, two = _constant(vector, 1.0), _constant(vector, 2.0)
    spread = builder.fsub(high, low)
    huge = _constant(vector, HUGE)
    beta = builder.select(builder.fcmp_ordered("<", spread, huge), spread, huge)
    s = builder.fdiv(beta, builder.fadd(two, beta))
    double = isinstance(vector.element, ir.DoubleType)
    terms = range(3, 33 if double else 17, 2)  # s < 1/3 where this branch is taken
    tail = _horner(builder, builder.fmul(s, s), [1.0 / n for n in terms], vector)
    small = _emit_muladd(builder, one, builder.fmul(builder.fadd(one, s), s), tail, vector)
    small = builder.fmul(builder.fsub(one, s), small)
    y = builder.fadd(one, beta)
    large = builder.fsub(builder.fmul(y, _emit_log(builder, y, vector)), beta)
    square = _emit_larger(builder, builder.fmul(beta, beta), one)
    large = builder.fdiv(builder.fmul(two, large), square)
    share = builder.select(builder.fcmp_ordered("<", beta, one), small, large)
    return builder.fmul(score, share)


_MAGIC = 6755399441055744.0  # 1.5·2^52: adding it rounds to an integer in the low bits
_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10


def _emit_exp(builder, target, a, b, vector):
    """exp(a - b) for a <= b in float64, with a relative error below 1e-14.

    2^n · exp(r) with |r| <= ln(2)/2; n is added to the exponent's bits.
    """
    whole = ir.VectorType(ir.IntType(64), vector.count)
    x = _emit_larger(builder, builder.fsub(a, b), _constant(vector, -700.0))
    magic = _constant(vector, _MAGIC)
    power = _emit_muladd(builder, magic, x, _constant(vector, 1.0 / math.log(2.0)), vector)
    n = builder.fsub(power, magic)
    r = _emit_submul(builder, x, n, _constant(vector, _LN2_HIGH), vector)
    r = _emit_submul(builder, r, n, _constant(vector, _LN2_LOW), vector)
    series = _horner(builder, r, [1.0 / math.factorial(i) for i in range(13)], vector)
    shift = builder.shl(builder.bitcast(power, whole), _constant(whole, 52))
    return builder.bitcast(builder.add(builder.bitcast(series, whole), shift), vector)


@intrinsic
def dot(typingctx, lanes, a, b):
    """Sum over the lanes of row a times row b, always in the same order."""

    def codegen(context, builder, signature, args):
        element = context.get_data_type(lanes.dtype)
        vector = ir.VectorType(element, REGISTER_BITS // lanes.dtype.bitwidth)
        data = context.make_array(lanes)(context, builder, args[0]).data
        width = ir.Constant(ir.IntType(64), LANES)
        starts = [builder.gep(data, [builder.mul(row, width)]) for row in args[1:]]
        total = _constant(vector, 0.0)
        for v in range(0, LANES, vector.count):
            factors = []
            for start in starts:
                pointer = builder.gep(start, [ir.Constant(ir.IntType(64), v)])
                value = builder.load(builder.bitcast(pointer, vector.as_pointer()))
                value.align = lanes.dtype.bitwidth // 8
                factors.append(value)
            total = _emit_muladd(builder, total, *factors, vector)
        parts = [
            builder.extract_element(total, ir.Constant(ir.IntType(32), i))
            for i in range(vector.count)
        ]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(parts[i], parts[half + i]) for i in range(half)]
        return parts[0]

    return lanes.dtype(lanes, types.intp, types.intp), codegen


def _looping(lanes, emit):
    """The code of an intrinsic on several rows of lanes, which ``emit`` loops over.

    ``emit(builder, vector type, offsets, load, store, args)``: ``load(row, offset)`` and
    ``store(value, row, offset)`` move the vector at an offset of a row.
    """

    def codegen(context, builder, signature, args):
        element = context.get_data_type(lanes.dtype)
        vector = ir.VectorType(element, REGISTER_BITS // lanes.dtype.bitwidth)
        align = lanes.dtype.bitwidth // 8
        data = context.make_array(lanes)(context, builder, args[0]).data
        width = ir.Constant(ir.IntType(64), LANES)

        def place(row, v):
            start = builder.add(builder.mul(row, width), ir.Constant(ir.IntType(64), v))
            return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())

        def load(row, v):
            return builder.load(place(row, v), align=align)

        def store(value, row, v):
            builder.store(value, place(row, v), align=align)

        emit(builder, vector, range(0, LANES, vector.count), load, store, args[1:])
        return context.get_dummy_value()

    return codegen


def _emit_muladd_rows(builder, vector, offsets, load, store, args):
    target, a, b, n = args
    factors = [load(a, v) for v in offsets]
    with cgutils.for_range(builder, n) as loop:
        row, source = (builder.add(first, loop.index) for first in (target, b))
        for v, factor in zip(offsets, factors, strict=True):
            total = _emit_muladd(builder, load(row, v), factor, load(source, v), vector)
            store(total, row, v)


def _emit_add_products(builder, vector, offsets, load, store, args):
    target, a, b, n = args
    sums = [cgutils.alloca_once(builder, vector) for _ in offsets]
    for v, total in zip(offsets, sums, strict=True):
        builder.store(load(target, v), total)
    with cgutils.for_range(builder, n) as loop:
        left, right = (builder.add(first, loop.index) for first in (a, b))
        for v, total in zip(offsets, sums, strict=True):
            factors = (load(left, v), load(right, v))
            builder.store(_emit_muladd(builder, builder.load(total), *factors, vector), total)
    for v, total in zip(offsets, sums, strict=True):
        store(builder.load(total), target, v)


def _emit_add_up(builder, vector, offsets, load, store, args):
    target, a, n = args
    sums = [cgutils.alloca_once(builder, vector) for _ in offsets]
    for v, total in zip(offsets, sums, strict=True):
        builder.store(load(a, v), total)
    one = ir.Constant(ir.IntType(64), 1)
    with cgutils.for_range(builder, builder.sub(n, one)) as loop:
        row = builder.add(builder.add(a, one), loop.index)
        for v, total in zip(offsets, sums, strict=True):
            builder.store(builder.fadd(builder.load(total), load(row, v)), total)
    for v, total in zip(offsets, sums, strict=True):
        store(builder.load(total), target, v)


@intrinsic
def muladd_rows(typingctx, lanes, target, a, b, n):
    """lanes[target + i] += lanes[a] * lanes[b + i] for i < n, with row a in registers."""
    return types.void(lanes, *[types.intp] * 4), _looping(lanes, _emit_muladd_rows)


@intrinsic
def add_products(typingctx, lanes, target, a, b, n):
    """lanes[target] += Σ lanes[a + i] * lanes[b + i] over i < n, summed in registers.

    Through memory each term would wait for the store of the one before.
    """
    return types.void(lanes, *[types.intp] * 4), _looping(lanes, _emit_add_products)


@intrinsic
def add_up(typingctx, lanes, target, a, n):
    """lanes[target] = Σ lanes[a + i] over i < n, n ≥ 1, summed in registers."""
    return types.void(lanes, *[types.intp] * 3), _looping(lanes, _emit_add_up)


@intrinsic
def weighted_dots(typingctx, lanes, a, weight, first, n, sums, entry):
    """sums[entry + i, v] += Σ lanes[a] · lanes[weight] · lanes[first + i] for i < n.

    sums is (m, VECTOR) of the dtype of the lanes, whose lane v goes to column v % VECTOR:
    adding up the lanes each time would take longer than the products.
    """

    def codegen(context, builder, signature, args):
        element = context.get_data_type(lanes.dtype)
        vector = ir.VectorType(element, VECTOR)
        align = lanes.dtype.bitwidth // 8
        data = context.make_array(lanes)(context, builder, args[0]).data
        totals = context.make_array(sums)(context, builder, args[5]).data
        width, step = (ir.Constant(ir.IntType(64), size) for size in (LANES, VECTOR))

        def load(row, v):
            place = builder.add(builder.mul(row, width), ir.Constant(ir.IntType(64), v))
            pointer = builder.bitcast(builder.gep(data, [place]), vector.as_pointer())
            return builder.load(pointer, align=align)

        offsets = range(0, LANES, VECTOR)
        factors = [builder.fmul(load(args[1], v), load(args[2], v)) for v in offsets]
        with cgutils.for_range(builder, args[4]) as loop:
            row = builder.add(args[3], loop.index)
            place = builder.mul(builder.add(args[6], loop.index), step)
            pointer = builder.bitcast(builder.gep(totals, [place]), vector.as_pointer())
            total = builder.load(pointer, align=align)
            for v, factor in zip(offsets, factors, strict=True):
                total = _emit_muladd(builder, total, factor, load(row, v), vector)
            builder.store(total, pointer, align=align)
        return context.get_dummy_value()

    number = types.intp
    return types.void(lanes, number, number, number, number, sums, number), codegen


@intrinsic
def best_of_pairs(typingctx, lanes, row):
    """The largest sum of a left child's entry and its right child's; NaN is passed over."""

    def codegen(context, builder, signature, args):
        element = context.get_data_type(lanes.dtype)
        vector = ir.VectorType(element, VECTOR)
        align = 4 if lanes.dtype.bitwidth == 32 else 8
        data = context.make_array(lanes)(context, builder, args[0]).data
        start = builder.mul(args[1], ir.Constant(ir.IntType(64), LANES))

        def load(offset):
            place = builder.add(start, ir.Constant(ir.IntType(64), offset))
            value = builder.load(builder.bitcast(builder.gep(data, [place]), vector.as_pointer()))
            value.align = align
            return value

        best = _constant(vector, -math.inf)
        for v in range(0, HALF, VECTOR):
            best = _emit_larger(builder, builder.fadd(load(v), load(HALF + v)), best)
        result = builder.extract_element(best, ir.Constant(ir.IntType(32), 0))
        for v in range(1, VECTOR):
            entry = builder.extract_element(best, ir.Constant(ir.IntType(32), v))
            result = _emit_larger(builder, entry, result)
        return builder.fpext(result, ir.DoubleType()) if align == 4 else result

    return types.float64(lanes, types.intp), codegen


add = _row_operation(lambda builder, t, a, b, v: builder.fadd(a, b), False)
mul = _row_operation(lambda builder, t, a, b, v: builder.fmul(a, b), False)
muladd = _row_operation(_emit_muladd, False)  # target += a * b
submul = _row_operation(_emit_submul, False)  # target -= a * b
larger = _row_operation(lambda builder, t, a, b, v: _emit_larger(builder, a, b), False)
smaller = _row_operation(lambda builder, t, a, b, v: _emit_smaller(builder, a, b), False)
guarded_reciprocal = _row_operation(_emit_guarded_reciprocal, False)  # 1/a where a > b
exp_difference = _row_operation(_emit_exp, False)  # target = exp(a - b), float64
damp = _row_operation(_emit_guaranteed, False)  # target *= h(a - b)
fill = _row_operation(lambda builder, t, a, s, v: s, True)
clip = _row_operation(_emit_clip, True)  # target = min(a, s), NaN stays NaN
add_scalar = _row_operation(lambda builder, t, a, s, v: builder.fadd(a, s), True)
floored_sum = _row_operation(_emit_floored_sum, True)  # target = max(a, 0) + s
mul_scalar = _row_operation(lambda builder, t, a, s, v: builder.fmul(a, s), True)
muladd_scalar = _row_operation(_emit_muladd, True)  # target += a * s
veto = _row_operation(_emit_veto, True)  # target = 0 where a >= s, else -inf
reciprocal = _row_operation(_emit_reciprocal, True)  # target = 1 / max(a, s)
