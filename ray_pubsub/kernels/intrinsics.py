"""Machine instructions that numba does not expose, written in LLVM IR."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

__all__ = [
    "and_rows_64",
    "and_rows_128",
    "and_rows_256",
    "and_rows_512",
    "bytes_equal",
    "bytes_greater",
    "count_ones",
    "line_and",
    "line_and_all",
    "line_fill",
    "load_big_endian",
    "load_byte",
    "load_int32",
    "load_uint16",
    "load_uint32",
    "load_uint64",
    "or_rows_64",
    "or_rows_128",
    "or_rows_256",
    "or_rows_512",
    "pointer_float64",
    "pointer_int32",
    "pointer_int64",
    "pointer_uint8",
    "pointer_uint64",
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


@intrinsic
def line_and_all(typing_context, target, source, start, ahead, offsets, count):
    """*target = *source & the lines at start + each of the `count` (at least 1) int64 offsets; asks for the lines at ahead + the same.

    Bit t of the result: word t of *target is not zero. The line stays in registers: one load a column, where an AND of two lines in memory
    would take two and a store."""

    def generate(context, builder, signature, arguments):
        target, source, start, ahead, offsets, count = arguments
        function_type = ir.FunctionType(ir.VoidType(), [BYTE.as_pointer(), INT32, INT32, INT32])
        ask = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
        first = builder.load(_at(builder, source, LINE), align=8)
        before = builder.basic_block
        loop, done = builder.append_basic_block("and.lines"), builder.append_basic_block("and.done")
        builder.branch(loop)
        builder.position_at_end(loop)
        number, value = builder.phi(INT64), builder.phi(LINE)
        number.add_incoming(INT64(0), before)
        value.add_incoming(first, before)
        offset = builder.load(_at(builder, builder.add(offsets, builder.shl(number, INT64(3))), INT64), align=8)
        builder.call(ask, [_at(builder, builder.add(ahead, offset), BYTE), INT32(0), INT32(3), INT32(1)])
        line = builder.load(_at(builder, builder.add(start, offset), LINE), align=8)
        result = builder.and_(value, line)
        following = builder.add(number, INT64(1))
        number.add_incoming(following, loop)
        value.add_incoming(result, loop)
        builder.cbranch(builder.icmp_signed("<", following, count), loop, done)
        builder.position_at_end(done)
        builder.store(result, _at(builder, target, LINE), align=8)
        filled = builder.icmp_unsigned("!=", result, ir.Constant(LINE, [0] * 8))
        return builder.zext(builder.bitcast(filled, BYTE), INT64)

    number = types.int64
    return types.uint64(number, number, number, number, number, number), generate


@intrinsic
def count_ones(typing_context, bits):
    def generate(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


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


@intrinsic
def load_uint16(typing_context, address):
    def generate(context, builder, signature, arguments):
        return builder.zext(builder.load(_at(builder, arguments[0], ir.IntType(16)), align=1), INT64)

    return types.int64(types.int64), generate


def _load(bits):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            value = builder.load(_at(builder, arguments[0], ir.IntType(bits)), align=1)
            return value if bits == 64 else builder.zext(value, INT64)

        return types.uint64(types.int64), generate

    return load


load_byte, load_uint32, load_uint64 = _load(8), _load(32), _load(64)
"""The unsigned number at an address, wherever that is."""


@intrinsic
def load_big_endian(typing_context, address):
    """Eight bytes as a number that orders as the bytes do."""

    def generate(context, builder, signature, arguments):
        return builder.bswap(builder.load(_at(builder, arguments[0], INT64), align=1))

    return types.uint64(types.int64), generate


def _pointer(kind, number):
    @intrinsic
    def pointer(typing_context, address):
        def generate(context, builder, signature, arguments):
            return _at(builder, arguments[0], number)

        return types.CPointer(kind)(types.int64), generate

    return pointer


pointer_int32, pointer_int64 = _pointer(types.int32, INT32), _pointer(types.int64, INT64)
pointer_uint8, pointer_uint64 = _pointer(types.uint8, BYTE), _pointer(types.uint64, INT64)
pointer_float64 = _pointer(types.float64, ir.DoubleType())
"""An address as a pointer, of which numba.carray makes an array. The caller keeps the memory alive."""


def _and_rows(width):
    @intrinsic
    def and_rows(typing_context, table, rows, quads, target):
        # Four 16-bit offsets come with one 64-bit load: the two load ports are the limit.
        def generate(context, builder, signature, arguments):
            table, rows, quads, target = arguments
            words = ir.VectorType(INT64, width) if width > 1 else INT64
            zero = ir.Constant(words, [0] * width if width > 1 else 0)
            ones = ir.Constant(words, [-1] * width if width > 1 else -1)
            before = builder.basic_block
            loop, done = builder.append_basic_block("and.rows"), builder.append_basic_block("and.done")
            builder.branch(loop)
            builder.position_at_end(loop)
            quad, mask = builder.phi(INT64), builder.phi(words)
            quad.add_incoming(INT64(0), before)
            mask.add_incoming(ones, before)
            offsets = builder.load(
                _at(builder, builder.add(rows, builder.shl(quad, INT64(3))), INT64),
                align=8,
            )
            result = mask
            for part in range(4):
                offset = builder.lshr(offsets, INT64(16 * part)) if part else offsets
                if part < 3:
                    offset = builder.and_(offset, INT64(65535))
                row = builder.add(table, builder.mul(offset, INT64(width)))
                result = builder.and_(result, builder.load(_at(builder, row, words), align=8))
            following = builder.add(quad, INT64(1))
            quad.add_incoming(following, loop)
            mask.add_incoming(result, loop)
            builder.cbranch(builder.icmp_signed("<", following, quads), loop, done)
            builder.position_at_end(done)
            builder.store(result, _at(builder, target, words), align=8)
            filled = builder.icmp_unsigned("!=", result, zero)
            return builder.zext(builder.bitcast(filled, ir.IntType(width)), INT64)

        return types.uint64(types.int64, types.int64, types.int64, types.int64), generate

    return and_rows


and_rows_64, and_rows_128, and_rows_256, and_rows_512 = (_and_rows(width) for width in (1, 2, 4, 8))
"""*target = the AND of 4 * quads (at least 4) rows of a table of rows that wide. Row r is given as 8 r, in 16 bits at `rows`. Bit t of
the result: word t of the AND is not zero."""


def _or_rows(width):
    @intrinsic
    def or_rows(typing_context, source, step, target, count):
        def generate(context, builder, signature, arguments):
            source, step, target, count = arguments
            words = ir.VectorType(INT64, width) if width > 1 else INT64
            size = INT64(8 * width)
            before = builder.basic_block
            test, loop = builder.append_basic_block("or.test"), builder.append_basic_block("or.rows")
            done = builder.append_basic_block("or.done")
            builder.branch(test)
            builder.position_at_end(test)
            row, mask = builder.phi(INT64), builder.phi(words)
            row.add_incoming(INT64(0), before)
            mask.add_incoming(ir.Constant(words, [0] * width if width > 1 else 0), before)
            builder.cbranch(builder.icmp_signed("<", row, count), loop, done)
            builder.position_at_end(loop)
            offset = builder.mul(row, size)
            place = builder.add(source, builder.mul(offset, step))
            result = builder.or_(mask, builder.load(_at(builder, place, words), align=8))
            builder.store(result, _at(builder, builder.sub(target, offset), words), align=8)
            row.add_incoming(builder.add(row, INT64(1)), loop)
            mask.add_incoming(result, loop)
            builder.branch(test)
            builder.position_at_end(done)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64, types.int64), generate

    return or_rows


or_rows_64, or_rows_128, or_rows_256, or_rows_512 = (_or_rows(width) for width in (1, 2, 4, 8))
"""Running OR of `count` rows that wide: target row -i = OR of the source rows 0, step, … i * step (step is 1 or -1)."""
