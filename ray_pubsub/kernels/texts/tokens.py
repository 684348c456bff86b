"""Tokens of an expression, byte by byte, as language/parser.py's regular expression cuts them.

A function that reads a token returns where the next one begins, or FAILED. Only ASCII is read outside quotes: whatever else occurs is
FAILED, and the whole text is given to language/parser.py.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.layout import (
    BOOLEAN,
    DATE,
    DOUBLE,
    EQUAL,
    GREATER,
    GREATER_OR_EQUAL,
    LESS,
    LESS_OR_EQUAL,
    MOMENT,
    NUMBER,
    ODD_NUMBER,
    STRING,
    UNEQUAL,
    UNKNOWN,
)

__all__ = [
    "AND", "BACKTICK", "BETWEEN_WORD", "CLOSE", "COMMA", "DOLLAR", "DOT", "DOUBLE_QUOTE", "FAILED", "ILIKE_WORD",
    "IN_WORD", "IS_WORD", "LIKE_WORD", "NONE", "NOT_WORD", "NULL_WORD", "OPEN", "OR", "QUOTE", "REGEXP_WORD",
    "UNDERSCORE", "is_escape", "name_end", "next_place", "read_constant", "read_name", "read_operator",
    "stands_before_string", "word_at",
]  # fmt: skip

FAILED, NONE = -1, -2
QUOTE, DOUBLE_QUOTE, BACKTICK, DOT, DOLLAR, UNDERSCORE = 0x27, 0x22, 0x60, 0x2E, 0x24, 0x5F
OPEN, CLOSE, COMMA, MINUS, PLUS = 0x28, 0x29, 0x2C, 0x2D, 0x2B

AND, OR, NOT_WORD, BETWEEN_WORD, IN_WORD, LIKE_WORD, REGEXP_WORD, IS_WORD, NULL_WORD, TRUE_WORD, FALSE_WORD = range(
    1, 12
)
BEFORE_STRING = 12
"""From here on: words that are names, but for those before a string, where they say what the string is."""
TIMESTAMP_WORD, DATE_WORD, DOUBLE_WORD, ESCAPE_WORD, ILIKE_WORD = 12, 13, 14, 15, 16

WORDS = (
    (AND, b"and"), (OR, b"or"), (NOT_WORD, b"not"), (BETWEEN_WORD, b"between"), (IN_WORD, b"in"), (LIKE_WORD, b"like"),
    (REGEXP_WORD, b"regexp"), (REGEXP_WORD, b"rlike"), (IS_WORD, b"is"), (NULL_WORD, b"null"), (TRUE_WORD, b"true"),
    (FALSE_WORD, b"false"), (TIMESTAMP_WORD, b"timestamp"), (DATE_WORD, b"date"), (DOUBLE_WORD, b"double"), (ESCAPE_WORD, b"escape"),
    (ILIKE_WORD, b"ilike"),
)  # fmt: skip
LONGEST_WORD = 9
MOMENT_BEGINS = np.frombuffer(b"current_", np.uint8)


def _packed(word: bytes) -> int:
    """A word of up to nine letters as one number: six bits a letter, since only a to z and `_` matter; others are zero."""
    bits = 0
    for byte in word:
        bits = bits << 6 | (byte & 31)
    return bits << 4 | len(word)


SLOTS = 61
"""Modulo this number no two of the words have the same remainder."""
WORD_TABLE, CODE_TABLE = np.zeros(SLOTS, np.int64), np.zeros(SLOTS, np.int64)
for _code, _word in WORDS:
    assert CODE_TABLE[_packed(_word) % SLOTS] == 0
    WORD_TABLE[_packed(_word) % SLOTS], CODE_TABLE[_packed(_word) % SLOTS] = _packed(_word), _code

MOST_DIGITS, MOST_EXACT_DIGITS, LARGEST_POWER = 18, 15, 22
"""An integer of 18 digits fits 64 bits. A fraction whose digits and power of ten are exact doubles is rounded once, so correctly."""
POWERS = np.array([10.0**exponent for exponent in range(LARGEST_POWER + 1)])


@piece
def next_place(text, place, end):
    """Behind white space."""
    while place < end and (text[place] == 32 or 9 <= text[place] <= 13):
        place += 1
    return place


@piece
def name_end(text, place, end):
    """Behind a bare name that begins here; `place` itself if none does."""
    byte = text[place] if place < end else 0
    if not (97 <= byte | 32 <= 122 or byte == UNDERSCORE):
        return place
    while place < end:
        byte = text[place]
        if not (97 <= byte | 32 <= 122 or 48 <= byte <= 57 or byte in (UNDERSCORE, DOLLAR)):
            break
        place += 1
    return place


@piece
def word_at(text, start, stop):
    """Returns which word a bare name is, 0 for none."""
    if stop - start > LONGEST_WORD or stop - start < 2:
        return 0
    bits = 0
    for place in range(start, stop):
        byte = text[place]
        if not 97 <= byte | 32 <= 122:
            return 0
        bits = bits << 6 | (byte & 31)
    bits = bits << 4 | (stop - start)
    slot = bits % SLOTS
    return CODE_TABLE[slot] if WORD_TABLE[slot] == bits else 0


@piece
def stands_before_string(text, stop, end):
    place = next_place(text, stop, end)
    return place < end and text[place] == QUOTE


@piece
def is_escape(text, place, end):
    """Returns whether `escape '…'` is next; then where its string begins, else NONE."""
    stop = name_end(text, place, end)
    if word_at(text, place, stop) != ESCAPE_WORD or not stands_before_string(text, stop, end):
        return NONE
    return next_place(text, stop, end)


@piece
def may_be_moment(text, start, stop):
    """Returns whether a bare name may be `current_timestamp` or `current_date`, which Python tells from attributes."""
    if stop - start != 17 and stop - start != 12:
        return False
    for place in range(len(MOMENT_BEGINS)):  # noqa: SIM110 - compiled code knows no all() of a generator
        if text[start + place] | 32 != MOMENT_BEGINS[place] | 32:
            return False
    return True


@piece
def copy_quoted(text, place, end, buffer, written):
    """The content of what is quoted here, a doubled quote as one; where it ends, and where the copy does."""
    quote = text[place]
    place += 1
    while place < end:
        byte = text[place]
        place += 1
        if byte == quote:
            if place < end and text[place] == quote:
                place += 1
            else:
                return place, written
        buffer[written] = byte
        written += 1
    return FAILED, written


@piece
def read_name(text, place, end, buffer, written):
    """A name with its parts between dots; where it ends, and where its copy does."""
    while True:
        if place >= end:
            return FAILED, written
        if text[place] == DOUBLE_QUOTE or text[place] == BACKTICK:
            start = written
            place, written = copy_quoted(text, place, end, buffer, written)
            if place == FAILED or written == start:
                return FAILED, written
        else:
            stop = name_end(text, place, end)
            if stop == place:
                return FAILED, written
            word = word_at(text, place, stop)
            if may_be_moment(text, place, stop):
                return FAILED, written
            if 0 < word < BEFORE_STRING or (word >= BEFORE_STRING and stands_before_string(text, stop, end)):
                return FAILED, written
            while place < stop:
                buffer[written] = text[place]
                written += 1
                place += 1
        after = next_place(text, place, end)
        if after >= end or text[after] != DOT:
            return after, written
        if after + 1 < end and 48 <= text[after + 1] <= 57:
            return FAILED, written
        buffer[written] = DOT
        written += 1
        place = next_place(text, after + 1, end)


@piece
def read_operator(text, place, end):
    """The comparison that stands here, NONE for none, and where it ends."""
    byte = text[place] if place < end else 0
    after = text[place + 1] if place + 1 < end else 0
    if byte == 61:  # =
        return EQUAL, place + 2 if after == 61 else place + 1
    if byte == 33 and after == 61:  # !=
        return UNEQUAL, place + 2
    if byte == 60:  # <
        if after == 61:
            return LESS_OR_EQUAL, place + 2
        if after == 62:
            return UNEQUAL, place + 2
        return LESS, place + 1
    if byte == 62:  # >
        if after == 61:
            return GREATER_OR_EQUAL, place + 2
        return GREATER, place + 1
    return NONE, place


@piece
def read_number(text, place, end, negative, operand, buffer, written):
    start = place
    digits, mantissa, fraction, exponent = 0, 0, 0, 0
    whole = True
    while place < end and 48 <= text[place] <= 57:
        if digits < MOST_DIGITS:  # one more could overflow
            mantissa = 10 * mantissa + (text[place] - 48)
        digits += digits > 0 or text[place] != 48
        place += 1
    some = place > start
    if place < end and text[place] == DOT:
        whole = False
        place += 1
        while place < end and 48 <= text[place] <= 57:
            if digits < MOST_DIGITS:
                mantissa = 10 * mantissa + (text[place] - 48)
            digits += digits > 0 or text[place] != 48
            fraction += 1
            some = True
            place += 1
    if not some:
        return FAILED, written
    if place < end and text[place] | 32 == 101:
        whole = False
        place += 1
        minus = place < end and text[place] == MINUS
        if minus or (place < end and text[place] == PLUS):
            place += 1
        first = place
        while place < end and 48 <= text[place] <= 57:
            exponent = min(10 * exponent + (text[place] - 48), 100_000)
            place += 1
        if place == first:
            return FAILED, written
        if minus:
            exponent = -exponent
    if place < end:
        byte = text[place]
        if 97 <= byte | 32 <= 122 or 48 <= byte <= 57 or byte in (UNDERSCORE, DOLLAR, DOT) or byte >= 128:
            return FAILED, written
    power = exponent - fraction
    operand.kind = NUMBER
    operand.rest = 0.0
    if whole and digits <= MOST_DIGITS:
        operand.whole = -mantissa if negative else mantissa
    elif not whole and digits <= MOST_EXACT_DIGITS and -LARGEST_POWER <= power <= LARGEST_POWER:
        value = float(mantissa)
        value = value * POWERS[power] if power >= 0 else value / POWERS[-power]
        if value >= 9e18:
            return read_odd(text, start, place, negative, operand, buffer, written)
        if negative:
            value = -value
        operand.whole = int(value)
        operand.rest = value - int(value)
    else:
        return read_odd(text, start, place, negative, operand, buffer, written)
    return place, written


@piece
def read_odd(text, start, place, negative, operand, buffer, written):
    """A number that Python shall read."""
    operand.kind = ODD_NUMBER
    operand.rest = -1.0 if negative else 1.0
    operand.start = written
    for digit in range(start, place):
        buffer[written] = text[digit]
        written += 1
    operand.stop = written
    return place, written


@piece
def read_string(text, place, end, kind, operand, buffer, written):
    operand.kind = kind
    operand.start = written
    place, written = copy_quoted(text, place, end, buffer, written)
    operand.stop = written
    return place, written


@piece
def read_constant(text, place, end, operand, buffer, written):
    """The constant that stands here; where it ends (NONE: there is none), and where what was copied of it does."""
    byte = text[place] if place < end else 0
    if byte == QUOTE:
        return read_string(text, place, end, STRING, operand, buffer, written)
    if 48 <= byte <= 57:
        return read_number(text, place, end, False, operand, buffer, written)
    if byte == DOT:
        if place + 1 < end and 48 <= text[place + 1] <= 57:
            return read_number(text, place, end, False, operand, buffer, written)
        return FAILED, written
    if byte in (MINUS, PLUS):
        return read_number(text, next_place(text, place + 1, end), end, byte == MINUS, operand, buffer, written)
    stop = name_end(text, place, end)
    word = word_at(text, place, stop)
    if word == 0:
        return NONE, written
    if word in (TRUE_WORD, FALSE_WORD):
        operand.kind, operand.whole, operand.rest = BOOLEAN, word == TRUE_WORD, 0.0
        return stop, written
    if word == NULL_WORD:
        operand.kind = UNKNOWN
        return stop, written
    if word >= BEFORE_STRING and stands_before_string(text, stop, end):
        if word in (ESCAPE_WORD, ILIKE_WORD):
            return FAILED, written
        kind = MOMENT if word == TIMESTAMP_WORD else DATE if word == DATE_WORD else DOUBLE
        return read_string(text, next_place(text, stop, end), end, kind, operand, buffer, written)
    return NONE, written
