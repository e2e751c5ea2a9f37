"""Instructions that Numba's loops do not reach."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def row_pointer(context, builder, array_type, array, row, width):
    """Emit the address of row ``row`` of a C-ordered array of this width."""
    data = context.make_array(array_type)(context, builder, array).data
    element = context.get_data_type(array_type.dtype)
    start = builder.mul(row, width)
    return builder.gep(builder.bitcast(data, element.as_pointer()), [start])


@intrinsic
def prefetch(typingctx, array, element):
    """Ask for the cache line of ``array.flat[element]``."""

    def codegen(context, builder, signature, args):
        one = ir.Constant(ir.IntType(64), 1)
        pointer = row_pointer(context, builder, signature.args[0], args[0], args[1], one)
        byte_pointer = ir.IntType(8).as_pointer()
        int32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte_pointer, int32, int32, int32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        read, keep, data_cache = 0, 3, 1
        flags = [ir.Constant(int32, flag) for flag in (read, keep, data_cache)]
        builder.call(function, [builder.bitcast(pointer, byte_pointer), *flags])
        return context.get_dummy_value()

    return types.void(array, types.intp), codegen


SEARCH_LANES = 8  # gathers of 8 addresses fill a vector of 512 bits


@intrinsic
def search_step(typingctx, cuts, height, strict, values, passed, first):
    """One step of SEARCH_LANES bisections side by side.

    For each lane, p = ``passed`` grows by 2**height if the value has passed the cut
    ``cuts[p + 2**height - 1]``: if it is greater, or with ``strict`` equal too. Nothing
    is checked: p + 2**height may be at most ``len(cuts)``.

    Parameters
    ----------
    cuts : (m,) float32 or float64, C-ordered.
    height : int64.
    strict : bool.
    values : dtype of ``cuts``, the lanes from element ``first`` on.
    passed : int64, likewise.
    """
    lanes = SEARCH_LANES
    size = cuts.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        i1, i32, i64 = (ir.IntType(bits) for bits in (1, 32, 64))
        number = context.get_data_type(cuts.dtype)
        numbers, offsets = ir.VectorType(number, lanes), ir.VectorType(i64, lanes)
        one = ir.Constant(i64, 1)

        def pointer(at, vector):
            start = row_pointer(context, builder, signature.args[at], args[at], args[5], one)
            return builder.bitcast(start, vector.as_pointer())

        def splat(scalar):
            undefined = ir.Constant(ir.VectorType(scalar.type, lanes), ir.Undefined)
            filled = builder.insert_element(undefined, scalar, ir.Constant(i32, 0))
            zeros = ir.Constant(ir.VectorType(i32, lanes), [0] * lanes)
            return builder.shuffle_vector(filled, undefined, zeros)

        value = builder.load(pointer(3, numbers), align=size)
        place = pointer(4, offsets)
        old = builder.load(place, align=8)
        data = context.make_array(cuts)(context, builder, args[0]).data
        skipped = builder.sub(builder.shl(one, args[1]), one)
        start = builder.add(
            builder.ptrtoint(data, i64), builder.mul(skipped, ir.Constant(i64, size))
        )
        address = builder.add(splat(start), builder.mul(old, ir.Constant(offsets, [size] * lanes)))
        pointers = ir.VectorType(number.as_pointer(), lanes)
        mask = ir.VectorType(i1, lanes)
        gather = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(numbers, [pointers, i32, mask, numbers]),
            f"llvm.masked.gather.v{lanes}f{8 * size}.v{lanes}p0",
        )
        cut = builder.call(
            gather,
            [
                builder.inttoptr(address, pointers),
                ir.Constant(i32, size),
                ir.Constant(mask, [1] * lanes),
                ir.Constant(numbers, ir.Undefined),
            ],
        )
        equal = builder.and_(builder.fcmp_ordered("==", cut, value), splat(args[2]))
        beyond = builder.or_(builder.fcmp_ordered("<", cut, value), equal)
        step = builder.shl(builder.zext(beyond, offsets), splat(args[1]))
        builder.store(builder.add(old, step), place, align=8)
        return context.get_dummy_value()

    return types.void(cuts, types.intp, types.boolean, values, passed, types.intp), codegen


VECTOR = 8  # numbers of one addition: a register of AVX in float32, of AVX-512 in float64


@intrinsic
def add_rows(typingctx, target, row, source, source_row):
    """``target[row] += source[source_row]``.

    Both are C-ordered arrays of one dtype and width, a multiple of VECTOR. Numba's own
    loop would first check, for every row, whether the two overlap.
    """

    def codegen(context, builder, signature, args):
        element = context.get_data_type(target.dtype)
        vector = ir.VectorType(element, VECTOR)
        align = target.dtype.bitwidth // 8
        shape = context.make_array(target)(context, builder, args[0]).shape
        width = builder.extract_value(shape, 1)
        starts = [
            row_pointer(context, builder, signature.args[a], args[a], args[a + 1], width)
            for a in (0, 2)
        ]
        zero, step = (ir.Constant(width.type, value) for value in (0, VECTOR))
        with cgutils.for_range_slice(builder, zero, width, step, width.type) as (column, _):
            places = [
                builder.bitcast(builder.gep(start, [column]), vector.as_pointer())
                for start in starts
            ]
            old, more = (builder.load(place, align=align) for place in places)
            builder.store(builder.fadd(old, more), places[0], align=align)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp), codegen


@intrinsic
def add_scaled(typingctx, array, target, source, n, factor):
    """``array[target + i] += factor * array[source + i]`` for i < n, without overlap.

    array is C-ordered float64. Numba's own loop would check each time whether the two
    parts overlap, which takes longer than the additions where n is below 30.
    """

    def codegen(context, builder, signature, args):
        i1, i32, i64 = (ir.IntType(bits) for bits in (1, 32, 64))
        vector = ir.VectorType(ir.DoubleType(), VECTOR)
        lanes, mask = ir.VectorType(i64, VECTOR), ir.VectorType(i1, VECTOR)
        data = context.make_array(array)(context, builder, args[0]).data
        undefined = ir.Constant(vector, ir.Undefined)

        def splat(scalar, kind):
            filled = builder.insert_element(
                ir.Constant(kind, ir.Undefined), scalar, ir.Constant(i32, 0)
            )
            zeros = ir.Constant(ir.VectorType(i32, VECTOR), [0] * VECTOR)
            return builder.shuffle_vector(filled, ir.Constant(kind, ir.Undefined), zeros)

        def function(name, result, arguments):
            kind = ir.FunctionType(result, arguments)
            return cgutils.get_or_insert_function(builder.module, kind, name)

        pointer = vector.as_pointer()
        load = function("llvm.masked.load.v8f64.p0", vector, [pointer, i32, mask, vector])
        store = function("llvm.masked.store.v8f64.p0", ir.VoidType(), [vector, pointer, i32, mask])
        fma = function("llvm.fmuladd.v8f64", vector, [vector] * 3)
        align = ir.Constant(i32, 8)
        scale = splat(args[4], vector)
        numbers = ir.Constant(lanes, list(range(VECTOR)))
        zero, step = (ir.Constant(i64, value) for value in (0, VECTOR))
        with cgutils.for_range_slice(builder, zero, args[3], step, i64) as (first, _):
            left = splat(builder.sub(args[3], first), lanes)
            used = builder.icmp_signed("<", numbers, left)
            places = [
                builder.bitcast(builder.gep(data, [builder.add(start, first)]), pointer)
                for start in args[1:3]
            ]
            old, more = (builder.call(load, [place, align, used, undefined]) for place in places)
            total = builder.call(fma, [scale, more, old])
            builder.call(store, [total, places[0], align, used])
        return context.get_dummy_value()

    number = types.intp
    return types.void(array, number, number, number, types.float64), codegen
