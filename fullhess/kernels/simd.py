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
