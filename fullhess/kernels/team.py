"""Threads that meet inside kernels.

A sleeping thread takes 50 to 100 µs to wake, and so does one that waits for Python's
lock: longer than most nodes of a tree take to search. So threads stay inside a kernel
while a tree grows, take tasks off a shared counter and spin in between. Here are the
instructions that takes, and calls of kernels that were compiled before.

``control`` is an array of int64, one number to a cache line:

    LEFT     tasks of the phase that nobody has begun
    DONE     tasks that are finished
    CLOSED   helpers are to leave
    INSIDE   helpers that are at work or waiting for it
"""

from __future__ import annotations

import platform

import numpy as np
from llvmlite import ir
from numba import typeof, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from .compile import kernel

LEFT, DONE, CLOSED, INSIDE = 0, 8, 16, 24
CONTROL_SIZE = 32
# Turns of the waiting loop before a thread gives up, about a millisecond.
SPINS = 20_000

_X86 = ("x86_64", "AMD64")
_INT64 = ir.IntType(64)


def new_control():
    """The counters of one tree; a helper of an earlier one finds its own closed."""
    return np.zeros(CONTROL_SIZE, np.int64)


def _pointer(context, builder, array_type, array, place):
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [place])


@intrinsic
def atomic_add(typingctx, array, place, number):
    """array[place] += number as one step; the value before."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.atomic_rmw("add", pointer, args[2], "seq_cst")

    return types.int64(array, types.intp, types.int64), codegen


@intrinsic
def atomic_load(typingctx, array, place):
    """array[place], and all that was written before it was stored there."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.load_atomic(pointer, "seq_cst", 8)

    return types.int64(array, types.intp), codegen


@intrinsic
def atomic_store(typingctx, array, place, number):
    """array[place] = number, after all that was written before."""

    def codegen(context, builder, signature, args):
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store_atomic(args[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.int64), codegen


@intrinsic
def pause(typingctx):
    """Tell the processor that this is a waiting loop."""

    def codegen(context, builder, signature, args):
        if platform.machine() in _X86:
            kind = ir.FunctionType(ir.VoidType(), [])
            name = "llvm.x86.sse2.pause"
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), [])
        return context.get_dummy_value()

    return types.void(), codegen


@kernel
def close(control):
    """Send the helpers away."""
    atomic_store(control, CLOSED, 1)


@intrinsic
def array_at(typingctx, address, shape):
    """The C-ordered float32 matrix of this shape at an address; nobody owns it."""
    kind = types.Array(types.float32, 2, "C")

    def codegen(context, builder, signature, args):
        array = context.make_array(kind)(context, builder)
        data = builder.inttoptr(args[0], array.data.type)
        sizes = cgutils.unpack_tuple(builder, args[1], 2)
        itemsize = context.get_constant(types.intp, 4)
        strides = [builder.mul(sizes[1], itemsize), itemsize]
        populate_array(array, data, sizes, strides, itemsize, None)
        return array._getvalue()

    return kind(types.int64, shape), codegen


def address_of(dispatcher, args):
    """Address of a kernel that returns nothing, compiled for arguments like these."""
    signature = tuple(typeof(arg) for arg in args)
    dispatcher.compile(signature)
    compiled = dispatcher.overloads[signature]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)


@intrinsic
def call_at(typingctx, address, args):
    """Call the kernel at ``address`` (``address_of``) with a tuple of arguments.

    Their types must be those it was compiled for. A caller that names the kernel would be
    compiled together with it, for every width of a row.
    """

    def codegen(context, builder, signature, values):
        arg_types = signature.args[1].types
        convention = context.call_conv
        kind = convention.get_function_type(types.none, arg_types)
        function = builder.inttoptr(values[0], kind.as_pointer())
        arguments = cgutils.unpack_tuple(builder, values[1])
        status, _ = convention.call_function(builder, function, types.none, arg_types, arguments)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(types.int64, args), codegen
