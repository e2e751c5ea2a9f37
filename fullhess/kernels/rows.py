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

HALF = 32  # candidates in a chunk: k=10 takes 70 rows × 64 lanes × 4 B, 18 KB
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


# Shuffles of two vectors of eight that are one instruction each on AVX: they stay inside
# the halves of a register, but for the last pair, which swaps whole halves.
_ONES = ([0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15])
_PAIRS = ([0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
_HALVES = ([0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])


def _transpose(builder, v):
    """Eight vectors of eight, transposed."""
    index = ir.VectorType(ir.IntType(32), VECTOR)

    def mix(a, b, masks):
        return [builder.shuffle_vector(a, b, ir.Constant(index, mask)) for mask in masks]

    t = [x for i in (0, 2, 4, 6) for x in mix(v[i], v[i + 1], _ONES)]
    u = [x for i in (0, 1, 4, 5) for x in mix(t[i], t[i + 2], _PAIRS)]
    ends = [mix(u[i], u[i + 4], _HALVES) for i in range(4)]
    return [low for low, _ in ends] + [high for _, high in ends]


@intrinsic
def load_tile(typingctx, lanes, lane, column, prefixes, total):
    """Eight statistics of eight candidates into the lanes of both children.

    lanes[column + s, lane + c] = prefixes[lane + c, column + s], and in the second half
    total[column + s] minus that, for c, s < 8; prefixes and total are float64.
    """

    def codegen(context, builder, signature, args):
        index = ir.IntType(64)
        element = context.get_data_type(lanes.dtype)
        vector = ir.VectorType(element, VECTOR)
        doubles = ir.VectorType(ir.DoubleType(), VECTOR)
        narrow = lanes.dtype.bitwidth == 32
        target = context.make_array(lanes)(context, builder, args[0]).data
        source = context.make_array(prefixes)(context, builder, args[3])
        width = builder.extract_value(source.shape, 1)
        sums = context.make_array(total)(context, builder, args[4]).data

        def load(pointer):
            value = builder.load(builder.bitcast(pointer, doubles.as_pointer()))
            value.align = 8
            return value

        everything = load(builder.gep(sums, [args[2]]))
        left, right = [], []
        for c in range(VECTOR):
            row = builder.add(args[1], ir.Constant(index, c))
            start = builder.add(builder.mul(row, width), args[2])
            value = load(builder.gep(source.data, [start]))
            rest = builder.fsub(everything, value)
            left.append(builder.fptrunc(value, vector) if narrow else value)
            right.append(builder.fptrunc(rest, vector) if narrow else rest)
        for side, rows in enumerate((left, right)):
            for s, values in enumerate(_transpose(builder, rows)):
                row = builder.add(args[2], ir.Constant(index, s))
                start = builder.add(builder.mul(row, ir.Constant(index, LANES)), args[1])
                start = builder.add(start, ir.Constant(index, side * HALF))
                pointer = builder.bitcast(builder.gep(target, [start]), vector.as_pointer())
                builder.store(values, pointer).align = 4 if narrow else 8
        return context.get_dummy_value()

    return types.void(lanes, types.intp, types.intp, prefixes, total), codegen


@intrinsic
def add_cell(typingctx, cells, cell, left, prefixes, n):
    """left += cells[cell], and the result is candidate n: prefixes[n] = left.

    cells is (c, width) float32, left (width,) and prefixes (HALF, width) float64; the
    width is a multiple of VECTOR.
    """

    def codegen(context, builder, signature, args):
        index = ir.IntType(64)
        floats = ir.VectorType(ir.FloatType(), VECTOR)
        doubles = ir.VectorType(ir.DoubleType(), VECTOR)
        table = context.make_array(cells)(context, builder, args[0])
        width = builder.extract_value(table.shape, 1)
        target = context.make_array(prefixes)(context, builder, args[3]).data
        starts = (
            builder.gep(table.data, [builder.mul(args[1], width)]),
            context.make_array(left)(context, builder, args[2]).data,
            builder.gep(target, [builder.mul(args[4], width)]),
        )
        step = ir.Constant(index, VECTOR)
        with cgutils.for_range(builder, builder.udiv(width, step)) as loop:
            offset = builder.mul(loop.index, step)
            pointers = [
                builder.bitcast(builder.gep(start, [offset]), kind.as_pointer())
                for start, kind in zip(starts, (floats, doubles, doubles), strict=True)
            ]
            term = builder.load(pointers[0])
            term.align = 4
            total = builder.load(pointers[1])
            total.align = 8
            total = builder.fadd(total, builder.fpext(term, doubles))
            for pointer in pointers[1:]:
                builder.store(total, pointer).align = 8
        return context.get_dummy_value()

    return types.void(cells, types.intp, left, prefixes, types.intp), codegen


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
larger_scalar = _row_operation(lambda builder, t, a, s, v: _emit_larger(builder, a, s), True)
clip = _row_operation(_emit_clip, True)  # target = min(a, s), NaN stays NaN
add_scalar = _row_operation(lambda builder, t, a, s, v: builder.fadd(a, s), True)
mul_scalar = _row_operation(lambda builder, t, a, s, v: builder.fmul(a, s), True)
muladd_scalar = _row_operation(_emit_muladd, True)  # target += a * s
reciprocal = _row_operation(_emit_reciprocal, True)  # target = 1 / max(a, s)
