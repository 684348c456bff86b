"""Parses JSON syntax over bytes, as Python's json module does: NaN, Infinity and -Infinity are numbers, control characters in strings are
refused.

A function takes the address of the text and a position in it, and returns the position after what it has read, or FAILED. Failing does
not mean that the text is invalid: the caller passes it to the json module, which either finds the error or reads it. So these functions
may refuse a valid text, but never accept an invalid one. UTF-8 is checked elsewhere.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import count_ones, load_byte, load_uint32, load_uint64

__all__ = [
    "DEEPEST",
    "FAILED",
    "has_lone_surrogate",
    "number_end",
    "skip_colon",
    "skip_space",
    "skip_value",
    "string_end",
    "word_end",
]

FAILED = -1
DEEPEST = 256
"""Levels of values that are skipped. Python's json module goes deeper, so it is asked then."""
QUOTE, BACKSLASH, COMMA, COLON, MINUS, ZERO, NINE = 34, 92, 44, 58, 45, 48, 57
OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST = 123, 125, 91, 93
ONES, HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
QUOTES, BACKSLASHES, SPACES = (
    np.uint64(0x2222222222222222),
    np.uint64(0x5C5C5C5C5C5C5C5C),
    np.uint64(0x2020202020202020),
)
TRUE, NULL, ALSE = np.uint64(0x65757274), np.uint64(0x6C6C756E), np.uint64(0x65736C61)
LETTERS, MEANT = b'"\\/bfnrt', b'"\\/\b\f\n\r\t'
MEANING = np.zeros(256, np.uint8)
MEANING[list(LETTERS)] = list(MEANT)
"""Of the letter behind a backslash; zero if it has none."""
INFINITY = np.uint64(0x7974696E69666E49)


@compiled
def is_digit(byte):
    return byte - np.uint64(ZERO) <= np.uint64(9)


@compiled
def skip_space(first, place, stop):
    while place < stop:
        byte = load_byte(first + place)
        if byte > 32 or (byte != 32 and byte != 10 and byte != 13 and byte != 9):
            break
        place += 1
    return place


@compiled
def escape_end(first, place, stop):
    """Of an escape whose backslash is at `place`."""
    end = FAILED
    if place + 1 < stop:
        letter = load_byte(first + place + 1)
        if letter == 117:  # u
            if place + 5 < stop:
                end = place + 6
                for digit in range(place + 2, place + 6):
                    byte = load_byte(first + digit)
                    lower = byte | np.uint64(32)
                    if not (is_digit(byte) or (lower >= 97 and lower <= 102)):
                        end = FAILED
        elif MEANING[letter] != 0:
            end = place + 2
    return end


@compiled
def string_end(first, place, stop):
    """Of a string whose first character is at `place`: the place of its closing quote, and its escapes: 0 for none, 1 for some, 3 if one is
    half of a surrogate pair."""
    escaped = 0
    while True:
        # Eight bytes at a time: the lowest marked byte is a quote, a backslash or a control character.
        while place + 8 <= stop:
            word = load_uint64(first + place)
            quote, backslash = word ^ QUOTES, word ^ BACKSLASHES
            marks = (
                ((quote - ONES) & ~quote) | ((backslash - ONES) & ~backslash) | ((word - SPACES) & ~word)
            ) & HIGHS  # fmt: skip
            if marks != 0:
                place += np.int64(count_ones((marks & (~marks + np.uint64(1))) - np.uint64(1)) >> np.uint64(3))
                break
            place += 8
        if place >= stop:
            return FAILED, escaped
        byte = load_byte(first + place)
        if byte == QUOTE:
            return place, escaped
        if byte == BACKSLASH:
            escape = place
            place = escape_end(first, escape, stop)
            if place < 0:
                return FAILED, escaped
            half = place == escape + 6 and load_byte(first + escape + 2) | np.uint64(32) == 100  # \\uD…
            escaped |= 3 if half and load_byte(first + escape + 3) >= 56 else 1
        elif byte < 32:
            return FAILED, escaped
        else:  # near the end of the text
            place += 1


@compiled
def _half(first, place, stop):
    """1 for the first half of a surrogate pair as an escape at `place`, 2 for the second, 0 for anything else."""
    half = 0
    if place + 6 <= stop and load_byte(first + place) == BACKSLASH and load_byte(first + place + 1) == 117:
        digit = load_byte(first + place + 3)
        if load_byte(first + place + 2) | np.uint64(32) == 100 and digit >= 56:  # D8…DF
            half = 1 if digit <= NINE or digit | np.uint64(32) < 99 else 2
    return half


@compiled
def has_lone_surrogate(first, place, stop):
    """Returns whether a valid string has an escape that is half of a surrogate pair without the other half."""
    while place < stop:
        if load_byte(first + place) != BACKSLASH:
            place += 1
            continue
        half = _half(first, place, stop)
        if half == 0:
            place += 2
        elif half == 1 and _half(first, place + 6, stop) == 2:
            place += 12
        else:
            return True
    return False


@compiled
def number_end(first, place, stop):
    """The place behind a number, and whether it is an integer; Infinity and -Infinity are not read here."""
    if place < stop and load_byte(first + place) == MINUS:
        place += 1
    digits = place
    while place < stop and is_digit(load_byte(first + place)):
        place += 1
    if place == digits or (place > digits + 1 and load_byte(first + digits) == ZERO):
        return FAILED, False
    whole = True
    if place < stop and load_byte(first + place) == 46:
        whole = False
        place += 1
        digits = place
        while place < stop and is_digit(load_byte(first + place)):
            place += 1
        if place == digits:
            return FAILED, False
    if place < stop and load_byte(first + place) | np.uint64(32) == 101:
        whole = False
        place += 1
        if place < stop and (load_byte(first + place) == 43 or load_byte(first + place) == MINUS):
            place += 1
        digits = place
        while place < stop and is_digit(load_byte(first + place)):
            place += 1
        if place == digits:
            return FAILED, False
    return place, whole


@compiled
def word_end(first, place, stop):
    """The place behind a word, and its first letter, which tells them apart: true, false, null, NaN, Infinity, and - for -Infinity."""
    letter = load_byte(first + place)
    end = FAILED
    if letter == 116 or letter == 110:  # t, n
        if place + 4 <= stop and load_uint32(first + place) == (TRUE if letter == 116 else NULL):
            end = place + 4
    elif letter == 102:  # f
        if place + 5 <= stop and load_uint32(first + place + 1) == ALSE:
            end = place + 5
    elif letter == 78:  # N
        if place + 3 <= stop and load_byte(first + place + 1) == 97 and load_byte(first + place + 2) == 78:
            end = place + 3
    else:
        begin = place + (1 if letter == MINUS else 0)
        if begin + 8 <= stop and load_uint64(first + begin) == INFINITY:
            end = begin + 8
    return end, letter


@compiled
def skip_colon(first, place, stop):
    """Behind the colon that follows a key, and the space around it."""
    place = skip_space(first, place, stop)
    if place < stop and load_byte(first + place) == COLON:
        return skip_space(first, place + 1, stop)
    return FAILED


@compiled
def skip_key(first, place, stop):
    place = skip_space(first, place, stop)
    if place < stop and load_byte(first + place) == QUOTE:
        place, _ = string_end(first, place + 1, stop)
        if place >= 0:
            return skip_colon(first, place + 1, stop)
    return FAILED


@compiled
def skip_value(first, place, stop, stack):
    """Behind a value of any kind. `stack`: uint8[DEEPEST], scratch."""
    depth = 0
    while True:
        place = skip_space(first, place, stop)
        if place >= stop:
            return FAILED
        byte = load_byte(first + place)
        if byte == QUOTE:
            place, _ = string_end(first, place + 1, stop)
            if place < 0:
                return FAILED
            place += 1
        elif byte in (OPEN_OBJECT, OPEN_LIST):
            if depth == DEEPEST:
                return FAILED
            stack[depth] = byte
            depth += 1
            place = skip_space(first, place + 1, stop)
            if place >= stop:
                return FAILED
            if load_byte(first + place) != byte + np.uint64(2):  # not closed at once
                if byte == OPEN_OBJECT:
                    place = skip_key(first, place, stop)
                    if place < 0:
                        return FAILED
                continue
            depth -= 1
            place += 1
        else:
            if is_digit(byte) or (byte == MINUS and place + 1 < stop and is_digit(load_byte(first + place + 1))):
                place, _ = number_end(first, place, stop)
            else:
                place, _ = word_end(first, place, stop)
            if place < 0:
                return FAILED
        while True:  # behind a value
            if depth == 0:
                return place
            place = skip_space(first, place, stop)
            if place >= stop:
                return FAILED
            byte = load_byte(first + place)
            opened = np.uint64(stack[depth - 1])
            place += 1
            if byte == COMMA:
                if opened == OPEN_OBJECT:
                    place = skip_key(first, place, stop)
                    if place < 0:
                        return FAILED
                break
            if byte != opened + np.uint64(2):
                return FAILED
            depth -= 1
