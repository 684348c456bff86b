"""Machine instructions that numba has no name for, written in LLVM's terms."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = ["prefetch"]


@intrinsic
def prefetch(typing_context, array, index):
    """Asks for the cache line of array[index] (one dimension, contiguous). Changes nothing but time."""
    signature = types.void(array, index)

    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        place = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        function_type = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [place, word(0), word(3), word(1)])  # for reading, keep in all levels, data
        return context.get_dummy_value()

    return signature, generate
