"""The k×k systems of many candidate children at once, one per lane.

Candidates are gathered 32 at a time into one small array of rows × 64 lanes, the
left children in the first 32 lanes, the right children in the others. The first
rows are those of a statistics row, transposed:

    row 0                count
    rows 1 …             gradient, one row per score; becomes the solution
    rows 1 + k …         packed curvature
    rows width …         reciprocal pivots, one per score
    last rows            scores q, scratch

All arithmetic runs over the lanes, so that k stays a run-time variable, and the
chunk stays in the first-level cache. The operations on whole rows are emitted as
explicit vector instructions: Numba's loops would check at run time, again and
again, whether the rows overlap.

The solution has the wrong sign (it solves for g, not -g), which none of its uses
here can see: the score, the range and the largest component are even.

The guaranteed gain is never above the quadratic one. A chunk whose quadratic
gains do not reach the best guaranteed gain so far is dropped before the back
substitution: the same result for less work.

The Laplacian elimination subtracts nothing (see ``solve``), which is why float32
lanes are enough for it at every λ; sums and differences of sums are float64. The
dense layout uses float64 lanes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .compile import kernel
from .solve import (
    DENSE,
    DIAGONAL,
    LAPLACIAN,
    capped_score,
    edge_index,
    guaranteed_share,
    packed_index,
)

HALF = 32  # candidates in a chunk: k=10 takes 70 rows × 64 lanes × 4 B, 18 KB
LANES = 2 * HALF
VECTOR = 8  # lanes in one emitted instruction
SCRATCH_ROWS = 4
HUGE = 1e30  # scores and ranges are clipped here, so that no infinity meets a zero
TINY = 1e-30  # pivots below carry no information


class SplitSettings(NamedTuple):
    """What the split search needs to know."""

    layout: int
    k: int
    n_curvature: int
    width: int  # of a statistics row
    reg_lambda: float
    cat_smooth: float
    max_cat_to_onehot: int
    min_samples_leaf: int
    min_child_weight: float
    damped: bool  # guaranteed gain: β is the range of the step
    max_delta_step: float


def new_lanes(layout, k, width):
    """The lanes of one thread, zeros."""
    dtype = np.float64 if layout == DENSE else np.float32
    return np.zeros((width + k + SCRATCH_ROWS, LANES), dtype)


def _row_operation(emit, scalar):
    """An intrinsic ``(lanes, target, a, b)`` that runs ``emit`` over whole rows.

    ``emit(builder, target, a, b, vector type)`` gets the operands' vectors and returns
    the target's new one; with ``scalar`` b is a number instead of a row.
    """

    @intrinsic
    def operation(typingctx, lanes, target, a, b):
        def codegen(context, builder, signature, args):
            element = context.get_data_type(lanes.dtype)
            vector = ir.VectorType(element, VECTOR)
            align = 4 if lanes.dtype.bitwidth == 32 else 8
            data = context.make_array(lanes)(context, builder, args[0]).data
            number = None
            if scalar:
                number = context.cast(builder, args[3], signature.args[3], lanes.dtype)
                number = _splat(builder, number, vector)
            rows = [args[1], args[2]] if scalar else args[1:4]
            width = ir.Constant(ir.IntType(64), LANES)
            starts = [builder.gep(data, [builder.mul(row, width)]) for row in rows]
            for v in range(0, LANES, VECTOR):
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
    mask = ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), [0] * VECTOR)
    return builder.shuffle_vector(first, ir.Constant(vector, ir.Undefined), mask)


def _emit_muladd(builder, target, a, b, vector):
    """Fused where the processor can: llvm.fmuladd leaves the choice to the target."""
    suffix = "f32" if isinstance(vector.element, ir.FloatType) else "f64"
    function = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector] * 3),
        f"llvm.fmuladd.v{VECTOR}{suffix}",
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


def _ones(vector):
    return ir.Constant(vector, [1.0] * VECTOR)


def _emit_reciprocal(builder, target, a, floor, vector):
    return builder.fdiv(_ones(vector), _emit_larger(builder, a, floor))


def _emit_guarded_reciprocal(builder, target, a, floor, vector):
    zero = ir.Constant(vector, [0.0] * VECTOR)
    usable = builder.fcmp_ordered(">", a, floor)
    return builder.select(usable, builder.fdiv(_ones(vector), a), zero)


def _transpose(builder, vectors, vector):
    """Eight vectors of eight, transposed: interleaving halves three times."""
    lanes = ir.VectorType(ir.IntType(32), VECTOR)
    low = ir.Constant(lanes, [0, 8, 1, 9, 2, 10, 3, 11])
    high = ir.Constant(lanes, [4, 12, 5, 13, 6, 14, 7, 15])
    for _ in range(3):
        mixed = []
        for i in range(4):
            mixed.append(builder.shuffle_vector(vectors[i], vectors[i + 4], low))
            mixed.append(builder.shuffle_vector(vectors[i], vectors[i + 4], high))
        vectors = mixed
    return vectors


@intrinsic
def _load_tile(typingctx, lanes, lane, column, prefixes, total):
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
            for s, values in enumerate(_transpose(builder, rows, vector)):
                row = builder.add(args[2], ir.Constant(index, s))
                start = builder.add(builder.mul(row, ir.Constant(index, LANES)), args[1])
                start = builder.add(start, ir.Constant(index, side * HALF))
                pointer = builder.bitcast(builder.gep(target, [start]), vector.as_pointer())
                builder.store(values, pointer).align = 4 if narrow else 8
        return context.get_dummy_value()

    return types.void(lanes, types.intp, types.intp, prefixes, total), codegen


@kernel
def load_candidates(lanes, n, prefixes, total):
    """Gather n candidates: prefixes (HALF, width) and their rest of total (width,)."""
    for lane in range(0, n, VECTOR):
        for column in range(0, total.shape[0], VECTOR):
            _load_tile(lanes, lane, column, prefixes, total)


_add = _row_operation(lambda builder, t, a, b, v: builder.fadd(a, b), False)
_mul = _row_operation(lambda builder, t, a, b, v: builder.fmul(a, b), False)
_muladd = _row_operation(_emit_muladd, False)  # target += a * b
_submul = _row_operation(_emit_submul, False)  # target -= a * b
_larger = _row_operation(lambda builder, t, a, b, v: _emit_larger(builder, a, b), False)
_smaller = _row_operation(lambda builder, t, a, b, v: _emit_smaller(builder, a, b), False)
_guarded_reciprocal = _row_operation(_emit_guarded_reciprocal, False)  # 1/a where a > b
_fill = _row_operation(lambda builder, t, a, s, v: s, True)
_larger_scalar = _row_operation(lambda builder, t, a, s, v: _emit_larger(builder, a, s), True)
_clip = _row_operation(_emit_clip, True)  # target = min(a, s), NaN stays NaN
_add_scalar = _row_operation(lambda builder, t, a, s, v: builder.fadd(a, s), True)
_mul_scalar = _row_operation(lambda builder, t, a, s, v: builder.fmul(a, s), True)
_muladd_scalar = _row_operation(_emit_muladd, True)  # target += a * s
_reciprocal = _row_operation(_emit_reciprocal, True)  # target = 1 / max(a, s)


@kernel
def _eliminate_laplacian(lanes, k, q):
    """Forward sweep; row q = g·(A+λI)⁻¹g. λ/k is already in the edges."""
    edges = 1 + k
    inverse = q - k
    factor = q + 1
    _fill(lanes, q, q, 0.0)
    for i in range(k - 1):
        row_i = edges + edge_index(i, i + 1, k)
        pivot = inverse + i
        _fill(lanes, pivot, pivot, 0.0)
        for e in range(row_i, row_i + k - 1 - i):
            _add(lanes, pivot, pivot, e)
        _reciprocal(lanes, pivot, pivot, TINY)
        _mul(lanes, factor, 1 + i, pivot)
        _muladd(lanes, q, factor, 1 + i)
        for j in range(i + 1, k - 1):  # the last class is the reference
            _mul(lanes, factor, row_i + j - i - 1, pivot)
            _muladd(lanes, 1 + j, factor, 1 + i)
            row_j = edges + edge_index(j, j + 1, k)
            for l in range(j + 1, k):
                _muladd(lanes, row_j + l - j - 1, factor, row_i + l - i - 1)


@kernel
def _substitute_laplacian(lanes, k, q):
    """Back substitution in place: g becomes the solution, the last class 0."""
    edges = 1 + k
    inverse = q - k
    _fill(lanes, k, k, 0.0)
    for i in range(k - 2, -1, -1):
        row_i = edges + edge_index(i, i + 1, k)
        for j in range(i + 1, k - 1):
            _muladd(lanes, 1 + i, row_i + j - i - 1, 1 + j)
        _mul(lanes, 1 + i, 1 + i, inverse + i)


@kernel
def _eliminate_dense(lanes, k, q):
    """Forward sweep of LDLᵀ; a vanishing pivot gets no step."""
    packed = 1 + k
    inverse = q - k
    factor = q + 1
    _fill(lanes, q, q, 0.0)
    for i in range(k):  # pivots are compared with the diagonal before elimination
        _mul_scalar(lanes, inverse + i, packed + packed_index(i, i, k), 1e-13)
        _add_scalar(lanes, inverse + i, inverse + i, TINY)
    for i in range(k):
        row_i = packed + packed_index(i, i, k)
        pivot = inverse + i
        _guarded_reciprocal(lanes, pivot, row_i, pivot)
        _mul(lanes, factor, 1 + i, pivot)
        _muladd(lanes, q, factor, 1 + i)
        for j in range(i + 1, k):
            _mul(lanes, factor, row_i + j - i, pivot)
            _submul(lanes, 1 + j, factor, 1 + i)
            row_j = packed + packed_index(j, j, k)
            for l in range(j, k):
                _submul(lanes, row_j + l - j, factor, row_i + l - i)


@kernel
def _substitute_dense(lanes, k, q):
    packed = 1 + k
    inverse = q - k
    for i in range(k - 1, -1, -1):
        row_i = packed + packed_index(i, i, k)
        for j in range(i + 1, k):
            _submul(lanes, 1 + i, row_i + j - i, 1 + j)
        _mul(lanes, 1 + i, 1 + i, inverse + i)


@kernel
def _eliminate_diagonal(lanes, k, q):
    _fill(lanes, q, q, 0.0)
    for j in range(k):
        pivot = q - k + j
        _reciprocal(lanes, pivot, 1 + k + j, TINY)
        _mul(lanes, q + 1, 1 + j, pivot)
        _muladd(lanes, q, q + 1, 1 + j)


@kernel
def _add_lambda(lanes, layout, k, n_curvature, reg_lambda):
    """λ in each layout: on every edge as λ/k, or on the diagonal.

    Rounding may have left a curvature just below zero; it is read as zero first.
    """
    first = 1 + k
    if layout == DENSE:
        for j in range(k):
            entry = first + packed_index(j, j, k)
            _add_scalar(lanes, entry, entry, reg_lambda)
        return
    for entry in range(first, first + n_curvature):
        _larger_scalar(lanes, entry, entry, 0.0)
        _add_scalar(lanes, entry, entry, reg_lambda / k if layout == LAPLACIAN else reg_lambda)


@kernel
def _shift_center(lanes, layout, k, center):
    """g += A·center: the gradient at the node's own value (path prior)."""
    first = 1 + k
    for i in range(k):
        if layout == DIAGONAL:
            _muladd_scalar(lanes, 1 + i, first + i, center[i])
            continue
        if layout == DENSE:
            _muladd_scalar(lanes, 1 + i, first + packed_index(i, i, k), center[i])
        for j in range(i + 1, k):
            if layout == LAPLACIAN:
                edge = first + edge_index(i, j, k)
                _muladd_scalar(lanes, 1 + i, edge, center[i] - center[j])
                _muladd_scalar(lanes, 1 + j, edge, center[j] - center[i])
            else:
                entry = first + packed_index(i, j, k)
                _muladd_scalar(lanes, 1 + i, entry, center[j])
                _muladd_scalar(lanes, 1 + j, entry, center[i])


@kernel
def _measure_ranges(lanes, k, high, low):
    """Rows ``high`` and ``low`` become the largest and least component of the solution."""
    _add_scalar(lanes, high, 1, 0.0)
    _add_scalar(lanes, low, 1, 0.0)
    for j in range(2, 1 + k):
        _larger(lanes, high, high, j)
        _smaller(lanes, low, low, j)


@kernel(fastmath={"contract"})
def _damp_scores(scores, high, bits, log):
    """scores *= h(high - log), ``guaranteed_share`` of the range, for float32 lanes.

    The logarithm is 2·atanh of the mantissa plus the exponent: LLVM has no vector
    log here, and this form vectorises. ``bits`` is an int32 view of ``high``.
    """
    one = np.float32(1)
    two = np.float32(2)
    huge = np.float32(HUGE)
    for c in range(LANES):
        spread = high[c] - log[c]
        high[c] = one + (spread if spread < huge else huge)
    for c in range(LANES):
        y = high[c]
        exponent = np.int32((bits[c] - np.int32(0x3F3504F3)) >> 23)  # mantissa in [√½, √2)
        bits[c] -= exponent << 23
        m = high[c]
        s = (m - one) / (m + one)
        z = s * s
        series = np.float32(1 / 5) + z * (np.float32(1 / 7) + z * np.float32(1 / 9))
        series = one + z * (np.float32(1 / 3) + z * series)
        log[c] = two * s * series + np.float32(exponent) * np.float32(0.6931471805599453)
        high[c] = y - one
    for c in range(LANES):
        x = high[c]
        s = x / (two + x)
        z = s * s
        tail = np.float32(1 / 11) + z * (np.float32(1 / 13) + z * np.float32(1 / 15))
        tail = np.float32(1 / 5) + z * (np.float32(1 / 7) + z * (np.float32(1 / 9) + z * tail))
        small = (one - s) * (one + (one + s) * s * (np.float32(1 / 3) + z * tail))
        large = two * ((one + x) * log[c] - x) / max(x * x, one)
        scores[c] *= small if x < one else large


@kernel
def _cap_scores(lanes, k, q, n, damped, centred, max_delta_step):
    """Scores of steps whose largest component must not exceed max_delta_step (if any).

    Rows q + 2 and q + 3 hold the largest and least component.
    """
    for half in range(2):
        for c in range(half * HALF, half * HALF + n):
            high = float(lanes[q + 2, c])
            low = float(lanes[q + 3, c])
            mean = 0.0
            for j in range(1, 1 + k):
                mean += lanes[j, c]
            mean = mean / k if centred else 0.0
            beta = high - low if damped else 0.0
            t = math.log1p(beta) / beta if beta > 1e-12 else 1.0
            largest = max(high - mean, mean - low)
            score = float(lanes[q, c])
            if max_delta_step > 0.0 and t * largest > max_delta_step:
                lanes[q, c] = capped_score(score, beta, max_delta_step / largest)
            else:
                lanes[q, c] = score * guaranteed_share(beta)


@kernel
def evaluate_chunk(lanes, n, settings, center, shifted, needed):
    """Scores of the first n lanes of either half, into row ``score_row(settings)``.

    Returns False when no candidate can reach ``needed`` (scores then undefined).
    """
    k = settings.k
    layout = settings.layout
    q = score_row(settings)
    if shifted:
        _shift_center(lanes, layout, k, center)
    _add_lambda(lanes, layout, k, settings.n_curvature, settings.reg_lambda)
    if layout == LAPLACIAN:
        _eliminate_laplacian(lanes, k, q)
    elif layout == DENSE:
        _eliminate_dense(lanes, k, q)
    else:
        _eliminate_diagonal(lanes, k, q)
    _clip(lanes, q, q, HUGE)  # a NaN never compares as better, so it is never chosen
    highest = -1.0
    for c in range(n):
        highest = max(highest, float(lanes[q, c]) + float(lanes[q, HALF + c]))
    if highest <= needed:
        return False
    if not (settings.damped or settings.max_delta_step > 0.0):
        return True
    if layout == LAPLACIAN:
        _substitute_laplacian(lanes, k, q)
    elif layout == DENSE:
        _substitute_dense(lanes, k, q)
    else:
        for j in range(k):
            _mul(lanes, 1 + j, 1 + j, q - k + j)
    _measure_ranges(lanes, k, q + 2, q + 3)
    if layout == DENSE or settings.max_delta_step > 0.0:
        centred = layout == LAPLACIAN
        _cap_scores(lanes, k, q, n, settings.damped, centred, settings.max_delta_step)
    else:
        high = lanes[q + 2]
        _damp_scores(lanes[q], high, high.view(np.int32), lanes[q + 3])
    return True


@kernel
def score_row(settings):
    """The row of the scores: after the statistics and the pivots."""
    return settings.width + settings.k
