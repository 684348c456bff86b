"""Machine instructions that numba has no name for, written in LLVM's terms."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "bytes_equal",
    "bytes_greater",
    "line_and",
    "line_fill",
    "load_int32",
    "prefetch",
    "prefetch_address",
]

BYTE, INT32, INT64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
LINE = ir.VectorType(INT64, 8)
LANES = ir.VectorType(BYTE, 32)


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


def _at(builder, address, kind):
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def prefetch_address(typing_context, address):
    """Asks for the cache line at an address. Never faults, changes nothing but time."""

    def generate(context, builder, signature, arguments):
        function_type = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), INT32, INT32, INT32])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        builder.call(function, [_at(builder, arguments[0], BYTE), INT32(0), INT32(3), INT32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def line_and(typing_context, target, left, right):
    """*target = *left & *right, 64 bytes each; the result is the OR of the eight words: not zero means something is left.

    Written out because numba's vectoriser gives up on eight words that may alias: 8 ns a line instead of 12."""

    def generate(context, builder, signature, arguments):
        value = builder.and_(
            builder.load(_at(builder, arguments[1], LINE), align=8),
            builder.load(_at(builder, arguments[2], LINE), align=8),
        )
        builder.store(value, _at(builder, arguments[0], LINE), align=8)
        count = 8
        while count > 1:
            half, undefined = count // 2, ir.Constant(ir.VectorType(INT64, count), ir.Undefined)
            places = ir.VectorType(INT32, half)
            value = builder.or_(
                builder.shuffle_vector(value, undefined, ir.Constant(places, list(range(half)))),
                builder.shuffle_vector(value, undefined, ir.Constant(places, list(range(half, count)))),
            )
            count = half
        return builder.extract_element(value, INT32(0))

    return types.uint64(types.int64, types.int64, types.int64), generate


@intrinsic
def line_fill(typing_context, target, bits):
    """Word t of the 64 bytes at target = all ones if bit t of `bits` is set, else zero."""

    def generate(context, builder, signature, arguments):
        undefined = ir.Constant(LINE, ir.Undefined)
        value = builder.insert_element(undefined, arguments[1], INT32(0))
        value = builder.shuffle_vector(value, undefined, ir.Constant(ir.VectorType(INT32, 8), [0] * 8))
        value = builder.and_(value, ir.Constant(LINE, [1 << bit for bit in range(8)]))
        value = builder.sext(builder.icmp_unsigned("!=", value, ir.Constant(LINE, [0] * 8)), LINE)
        builder.store(value, _at(builder, arguments[0], LINE), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), generate


def _compare_bytes(operator):
    @intrinsic
    def compare(typing_context, left, right):
        def generate(context, builder, signature, arguments):
            values = [builder.load(_at(builder, argument, LANES), align=1) for argument in arguments]
            return builder.bitcast(builder.icmp_unsigned(operator, *values), INT32)

        return types.uint32(types.int64, types.int64), generate

    return compare


bytes_greater = _compare_bytes(">")
"""Bit i of the result: byte i at the first address is greater than byte i at the second, for 32 unsigned bytes."""
bytes_equal = _compare_bytes("==")
"""The same for equality."""


@intrinsic
def load_int32(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.load(_at(builder, arguments[0], INT32), align=1)

    return types.int32(types.int64), generate
