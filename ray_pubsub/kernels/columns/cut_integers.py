"""Splits a text into skeleton and integers, byte by byte; a regular expression would create an object for each integer."""

from __future__ import annotations

from ray_pubsub.kernels.compiled import compiled, holding_gil

__all__ = ["PLACE", "cut_integers", "cut_many"]

PLACE = 1
"""Stands in the skeleton where an integer was. A text that has this byte is not cut."""
NOT_CUT = -1
MOST_DIGITS = 18
QUOTE, DOUBLE_QUOTE, BACKTICK, DOT, DOLLAR, UNDERSCORE = 0x27, 0x22, 0x60, 0x2E, 0x24, 0x5F


@holding_gil
def cut_integers(text, length, skeleton, values):
    """Of the first `length` bytes: (bytes of the skeleton, integers), the first -1 if the text is not of ASCII letters, signs and integers
    of up to 18 digits that stand alone: then it has strings, fractions or quoted names, and is cut with care (language/shapes.py).

    An integer starts where the byte before is no part of a name or number, exactly as in the grammar's lexer."""
    written = 0
    found = 0
    place = 0
    inside = False  # a name or number
    while place < length:
        byte = text[place]
        digit = 48 <= byte <= 57
        if digit and not inside:
            value = 0
            start = place
            while place < length and 48 <= text[place] <= 57:
                value = 10 * value + (text[place] - 48)
                place += 1
                if place - start > MOST_DIGITS:
                    return NOT_CUT, 0
            if place < length:
                after = text[place]
                if after in (DOT, DOLLAR, UNDERSCORE) or 97 <= after | 32 <= 122 or after >= 128:
                    return NOT_CUT, 0
            if found == len(values):
                return NOT_CUT, 0
            values[found] = value
            found += 1
            skeleton[written] = PLACE
            written += 1
            continue
        letter = 97 <= (byte | 32) <= 122
        if byte in (QUOTE, DOUBLE_QUOTE, BACKTICK, PLACE) or byte >= 128:
            return NOT_CUT, 0
        if byte == DOT and not inside:  # `.5`
            return NOT_CUT, 0
        inside = letter or digit or byte in (UNDERSCORE, DOLLAR, DOT)
        skeleton[written] = byte
        written += 1
        place += 1
    return written, found


@compiled
def cut_many(text, offsets, most, skeletons, skeleton_offsets, values, value_offsets, alike):
    """The same for many texts, one after the other, each of up to `most` integers. alike[i]: 1 if text i has the skeleton of the text
    before it, 0 if not, NOT_CUT if it has none."""
    written, found = 0, 0
    before, length_before = 0, -1
    for number in range(len(offsets) - 1):
        start, end = offsets[number], offsets[number + 1]
        length, integers = cut_integers(text[start:end], end - start, skeletons[written:], values[found : found + most])
        if length < 0 or integers == 0:
            alike[number] = NOT_CUT
            length, integers = 0, 0
        else:
            same = length == length_before
            place = 0
            while same and place < length:
                same = skeletons[before + place] == skeletons[written + place]
                place += 1
            alike[number] = same
            before, length_before = written, length
        written += length
        found += integers
        skeleton_offsets[number + 1] = written
        value_offsets[number + 1] = found
