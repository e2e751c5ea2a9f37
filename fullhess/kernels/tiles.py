"""Tiles of eight by eight, transposed between rows of statistics and rows of lanes.

A statistics row or histogram cell holds one number of each kind, a row of lanes one kind
for many candidates or data rows. Here are the moves from one to the other, and the sums
of cells that come before.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .rows import HALF, LANES, VECTOR

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
def store_tile(typingctx, lanes, offset, lane, column, n, rows, first, out):
    """Eight kinds of numbers of eight data rows, rounded into their statistics rows.

    out[rows[first + lane + c], column + s] = lanes[offset + column + s, lane + c] for
    c, s < 8 and lane + c < n; lanes is float64, rows int32, out (…, width) float32.
    """

    def codegen(context, builder, signature, args):
        index = ir.IntType(64)
        doubles = ir.VectorType(ir.DoubleType(), VECTOR)
        floats = ir.VectorType(ir.FloatType(), VECTOR)
        source = context.make_array(lanes)(context, builder, args[0]).data
        numbers = context.make_array(rows)(context, builder, args[5]).data
        target = context.make_array(out)(context, builder, args[7])
        width = builder.extract_value(target.shape, 1)
        kinds = []
        for s in range(VECTOR):
            row = builder.add(builder.add(args[1], args[3]), ir.Constant(index, s))
            start = builder.add(builder.mul(row, ir.Constant(index, LANES)), args[2])
            value = builder.load(
                builder.bitcast(builder.gep(source, [start]), doubles.as_pointer())
            )
            value.align = 8
            kinds.append(builder.fptrunc(value, floats))
        for c, values in enumerate(_transpose(builder, kinds)):
            place = builder.add(args[2], ir.Constant(index, c))
            with builder.if_then(builder.icmp_signed("<", place, args[4])):
                number = builder.load(builder.gep(numbers, [builder.add(args[6], place)]))
                start = builder.add(builder.mul(builder.sext(number, index), width), args[3])
                pointer = builder.gep(target.data, [start])
                builder.store(values, builder.bitcast(pointer, floats.as_pointer())).align = 4
        return context.get_dummy_value()

    number = types.intp
    return types.void(lanes, number, number, number, number, rows, number, out), codegen


@intrinsic
def add_cells(typingctx, cells, places, n, base, alone, prefixes):
    """prefixes[i] = base + the cells at places[0] … places[i], or with ``alone`` of the
    one at places[i]; for i < n, and base += all n of them.

    cells is (c, width) float32, places (HALF,) int64, base (width,) and prefixes
    (HALF, width) float64; the width is a multiple of VECTOR. The running sum stays in a
    register: through memory each step would wait for the store of the one before.
    """

    def codegen(context, builder, signature, args):
        index = ir.IntType(64)
        floats = ir.VectorType(ir.FloatType(), VECTOR)
        doubles = ir.VectorType(ir.DoubleType(), VECTOR)
        table = context.make_array(cells)(context, builder, args[0])
        width = builder.extract_value(table.shape, 1)
        order = context.make_array(places)(context, builder, args[1]).data
        start = context.make_array(base)(context, builder, args[3]).data
        target = context.make_array(prefixes)(context, builder, args[5]).data
        running = cgutils.alloca_once(builder, doubles)
        step = ir.Constant(index, VECTOR)

        def vector_at(data, row, column, kind):
            place = builder.add(builder.mul(row, width), column)
            return builder.bitcast(builder.gep(data, [place]), kind.as_pointer())

        with cgutils.for_range(builder, builder.udiv(width, step)) as loop:
            column = builder.mul(loop.index, step)
            base_pointer = vector_at(start, ir.Constant(index, 0), column, doubles)
            first = builder.load(base_pointer)
            first.align = 8
            builder.store(first, running)
            with cgutils.for_range(builder, args[2]) as candidate:
                cell = builder.load(builder.gep(order, [candidate.index]))
                term = builder.load(vector_at(table.data, cell, column, floats))
                term.align = 4
                before = builder.select(args[4], first, builder.load(running))
                total = builder.fadd(before, builder.fpext(term, doubles))
                builder.store(total, running)
                builder.store(total, vector_at(target, candidate.index, column, doubles)).align = 8
            last = builder.select(args[4], first, builder.load(running))
            builder.store(last, base_pointer).align = 8
        return context.get_dummy_value()

    return (
        types.void(cells, places, types.intp, base, types.boolean, prefixes),
        codegen,
    )


@intrinsic
def sum_cells(typingctx, cells, total):
    """total = sum of all cells, (width,) float64, in a fixed order.

    Four sums take turns, since each addition waits for the one before it.
    """

    def codegen(context, builder, signature, args):
        index = ir.IntType(64)
        floats = ir.VectorType(ir.FloatType(), VECTOR)
        doubles = ir.VectorType(ir.DoubleType(), VECTOR)
        table = context.make_array(cells)(context, builder, args[0])
        n_cells, width = cgutils.unpack_tuple(builder, table.shape)
        target = context.make_array(total)(context, builder, args[1]).data
        sums = [cgutils.alloca_once(builder, doubles) for _ in range(4)]

        def add_to(place, cell, column):
            pointer = builder.gep(table.data, [builder.add(builder.mul(cell, width), column)])
            term = builder.load(builder.bitcast(pointer, floats.as_pointer()))
            term.align = 4
            term = builder.fpext(term, doubles)
            builder.store(builder.fadd(builder.load(place), term), place)

        four = ir.Constant(index, 4)
        with cgutils.for_range(builder, builder.udiv(width, ir.Constant(index, VECTOR))) as loop:
            column = builder.mul(loop.index, ir.Constant(index, VECTOR))
            for place in sums:
                builder.store(ir.Constant(doubles, [0.0] * VECTOR), place)
            with cgutils.for_range(builder, builder.udiv(n_cells, four)) as group:
                first = builder.mul(group.index, four)
                for i, place in enumerate(sums):
                    add_to(place, builder.add(first, ir.Constant(index, i)), column)
            rest = builder.urem(n_cells, four)
            with cgutils.for_range(builder, rest) as last:
                cell = builder.add(builder.sub(n_cells, rest), last.index)
                add_to(sums[0], cell, column)
            halves = [
                builder.fadd(builder.load(sums[i]), builder.load(sums[i + 1])) for i in (0, 2)
            ]
            pointer = builder.bitcast(builder.gep(target, [column]), doubles.as_pointer())
            builder.store(builder.fadd(*halves), pointer).align = 8
        return context.get_dummy_value()

    return types.void(cells, total), codegen
