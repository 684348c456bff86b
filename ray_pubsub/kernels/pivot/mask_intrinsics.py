"""The inner loops of kernels/pivot/batch_masks.py in LLVM IR: a mask of 1,024 events stays in registers while the rows of a set are
gathered. As loops over arrays, every step would go through memory."""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

__all__ = ["WORDS", "and_intervals", "and_points"]

INT64 = ir.IntType(64)
WORDS = 16
LINE = ir.VectorType(INT64, WORDS)


def _data(context, builder, kind, value):
    return context.make_array(kind)(context, builder, value).data


def _number(builder, kind, data, place):
    """The number at a place of an array, as 64 bits."""
    number = builder.load(builder.gep(data, [place]))
    return builder.sext(number, INT64) if kind.dtype.signed else builder.zext(number, INT64)


def _line(builder, table, row):
    place = builder.add(table, builder.shl(row, INT64(7)))
    return builder.load(builder.inttoptr(place, LINE.as_pointer()), align=8)


def _anded(builder, mask, count, gathered):
    """*mask &= the XOR of gathered(i, so far) over `count` steps; bit t of the result: word t of *mask is not zero."""
    before = builder.basic_block
    test, loop = builder.append_basic_block("mask.test"), builder.append_basic_block("mask.rows")
    done = builder.append_basic_block("mask.done")
    builder.branch(test)
    builder.position_at_end(test)
    number, value = builder.phi(INT64), builder.phi(LINE)
    number.add_incoming(INT64(0), before)
    value.add_incoming(ir.Constant(LINE, [0] * WORDS), before)
    builder.cbranch(builder.icmp_signed("<", number, count), loop, done)
    builder.position_at_end(loop)
    result = gathered(number, value)
    number.add_incoming(builder.add(number, INT64(1)), loop)
    value.add_incoming(result, loop)
    builder.branch(test)
    builder.position_at_end(done)
    place = builder.inttoptr(mask, LINE.as_pointer())
    left = builder.and_(value, builder.load(place, align=8))
    builder.store(left, place, align=8)
    filled = builder.icmp_unsigned("!=", left, ir.Constant(LINE, [0] * WORDS))
    return builder.zext(builder.bitcast(filled, ir.IntType(WORDS)), INT64)


@intrinsic
def and_points(typing_context, mask, table, row_of, base, words, place, count):
    """*mask (128 bytes) &= the events whose code is one of words[place:place + count]: row_of[base + code] is the code's row in the table
    of lines. Bit t of the result: word t of what is left is not zero."""

    def generate(context, builder, signature, arguments):
        mask, table, row_of, base, words, place, count = arguments
        rows, codes = (
            _data(context, builder, signature.args[2], row_of),
            _data(context, builder, signature.args[4], words),
        )

        def gathered(number, value):
            code = _number(builder, signature.args[4], codes, builder.add(place, number))
            row = _number(builder, signature.args[2], rows, builder.add(base, code))
            return builder.xor(value, _line(builder, table, row))

        return _anded(builder, mask, count, gathered)

    number = types.int64
    return types.uint64(number, number, row_of, number, words, number, number), generate


@intrinsic
def and_intervals(typing_context, mask, table, row_of, base, words, place, count):
    """The same for `count` intervals, each a low and a high code: row_of[base + code] is the row of the events with a lower code. The rows
    of an interval's two ends differ by its events, so a union of intervals is the XOR of all ends."""

    def generate(context, builder, signature, arguments):
        mask, table, row_of, base, words, place, count = arguments
        rows, codes = (
            _data(context, builder, signature.args[2], row_of),
            _data(context, builder, signature.args[4], words),
        )

        def gathered(number, value):
            first = builder.add(place, builder.shl(number, INT64(1)))
            for end in range(2):
                code = _number(builder, signature.args[4], codes, builder.add(first, INT64(end)))
                row = _number(builder, signature.args[2], rows, builder.add(base, builder.add(code, INT64(end))))
                value = builder.xor(value, _line(builder, table, row))
            return value

        return _anded(builder, mask, count, gathered)

    number = types.int64
    return types.uint64(number, number, row_of, number, words, number, number), generate
