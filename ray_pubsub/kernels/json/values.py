"""Reads the values of JSON texts: numbers, strings, booleans, absence, and lists of those."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import load_byte
from ray_pubsub.kernels.json.syntax import (
    CLOSE_LIST,
    COMMA,
    FAILED,
    MINUS,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    has_lone_surrogate,
    is_digit,
    number_end,
    skip_space,
    skip_value,
    string_end,
    word_end,
)

__all__ = [
    "KINDS", "LIST", "NOT_TEXT", "NUMBER", "STRING",
    "ElementLane", "Elements", "count_elements", "group_elements", "read_list", "read_value",
]  # fmt: skip

KINDS, NUMBER, STRING, BOOLEAN, LIST = 4, 0, 1, 2, 3
"""The kinds that JSON has; the numbers of the first three are those of model/values.py."""
NOT_TEXT = -1
"""In `stop`, of a cell whose number is known."""
LARGEST, SMALLEST = np.uint64(2**63 - 1), np.uint64(2**63)
TENS = np.array([10.0**power for power in range(23)])
EXACT = np.uint64(2**53)
MOST_ELEMENTS = 100_000
"""Of one list (ray_pubsub/settings.py)."""


class Elements(NamedTuple):
    """The elements of lists, one list after the other, in the order of the documents. Fields as those of cells; a null's kind is -1."""

    kind: Any
    whole: Any
    stop: Any
    rest: Any


class ElementLane(NamedTuple):
    """Room for the elements of one kind."""

    row: Any
    whole: Any
    start: Any
    stop: Any
    rest: Any


@compiled
def _is_number(first, place, stop):
    byte = load_byte(first + place)
    return is_digit(byte) or (byte == MINUS and place + 1 < stop and is_digit(load_byte(first + place + 1)))


@compiled
def _read_number(first, place, end, whole):
    """(certain, integer part, rest) of the number from `place` to `end`. What is not certain needs more than these few steps."""
    negative = load_byte(first + place) == MINUS
    if negative:
        place += 1
    mantissa, digits, behind = np.uint64(0), 0, 0
    point, exponent = False, 0
    while place < end:
        byte = load_byte(first + place)
        place += 1
        if is_digit(byte):
            mantissa = mantissa * np.uint64(10) + (byte - np.uint64(48))
            # Counted from the first that is not zero on; a mantissa that has run over 64 bits may be zero again.
            digits += 1 if mantissa != 0 or digits > 0 else 0
            behind += 1 if point else 0
        elif byte == 46:
            point = True
        else:
            below = load_byte(first + place) == MINUS
            if below or load_byte(first + place) == 43:
                place += 1
            while place < end:
                exponent = min(exponent * 10 + np.int64(load_byte(first + place) - np.uint64(48)), 10_000)
                place += 1
            exponent = -exponent if below else exponent
    if digits > 19:  # more than 64 bits hold
        return False, 0, 0.0
    if whole:
        if mantissa > (SMALLEST if negative else LARGEST):
            return False, 0, 0.0
        return True, (np.int64(~mantissa + np.uint64(1)) if negative else np.int64(mantissa)), 0.0
    exponent -= behind
    if mantissa > EXACT or exponent < -22 or exponent > 22:
        return False, 0, 0.0
    # Both are exact, so there is one rounding, as there must be.
    value = np.float64(mantissa)
    value = value / TENS[-exponent] if exponent < 0 else value * TENS[exponent]
    value = -value if negative else value
    if not (value >= -(2.0**63) and value < 2.0**63):
        return True, (np.int64(2**63 - 1) if value > 0 else np.int64(-(2**63))), value
    part = np.int64(value)
    return True, part, value - part


@compiled
def read_value(first, place, end, stack):
    """(place behind it, kind or -1 for absence, whole, stop, rest, escaped) of the value of an attribute."""
    byte = load_byte(first + place)
    if byte == QUOTE:
        closing, escaped = string_end(first, place + 1, end)
        if closing < 0 or (escaped == 3 and has_lone_surrogate(first, place + 1, closing)):
            return FAILED, -1, place, 0, 0.0, False
        return closing + 1, STRING, place + 1, closing, 0.0, escaped > 0
    if byte == OPEN_LIST:
        return FAILED, -1, place, 0, 0.0, False
    if byte == OPEN_OBJECT:  # what is in it has another name
        return skip_value(first, place, end, stack), -1, place, 0, 0.0, False
    if _is_number(first, place, end):
        behind, whole = number_end(first, place, end)
        if behind < 0:
            return FAILED, -1, place, 0, 0.0, False
        certain, integer, rest = _read_number(first, place, behind, whole)
        if certain:
            return behind, NUMBER, integer, NOT_TEXT, rest, False
        if whole:
            return FAILED, -1, place, 0, 0.0, False
        return behind, NUMBER, place, behind, 0.0, False
    behind, letter = word_end(first, place, end)
    if letter == 116 or letter == 102:  # t, f
        return behind, BOOLEAN, np.int64(letter == 116), NOT_TEXT, 0.0, False
    if letter == 110 or letter == 78:  # null, NaN
        return behind, -1, place, 0, 0.0, False
    if letter == MINUS:
        return behind, NUMBER, np.int64(-(2**63)), NOT_TEXT, -np.inf, False
    return behind, NUMBER, np.int64(2**63 - 1), NOT_TEXT, np.inf, False


@compiled
def read_list(first, place, end, stack, elements, used):
    """(place behind it, elements used, escaped) of a list whose bracket is at `place`. A list of lists or of objects is not read."""
    begin, any_escaped = used, False
    place = skip_space(first, place + 1, end)
    if place < end and load_byte(first + place) == CLOSE_LIST:
        return place + 1, used, False
    while True:
        place = skip_space(first, place, end)
        if place >= end or used - begin == MOST_ELEMENTS:
            return FAILED, used, False
        byte = load_byte(first + place)
        if byte in (OPEN_LIST, OPEN_OBJECT):
            return FAILED, used, False
        place, kind, whole, stop, rest, escaped = read_value(first, place, end, stack)
        if place < 0:
            return FAILED, used, False
        elements.kind[used], elements.whole[used], elements.stop[used], elements.rest[used] = kind, whole, stop, rest
        any_escaped |= escaped
        used += 1
        place = skip_space(first, place, end)
        if place >= end:
            return FAILED, used, False
        byte = load_byte(first + place)
        place += 1
        if byte == CLOSE_LIST:
            return place, used, any_escaped
        if byte != COMMA:
            return FAILED, used, False


@compiled
def count_elements(elements, start, stop, counts):
    """How many elements of each kind some lists have; `counts` comes zeroed."""
    for number in range(len(start)):
        for element in range(start[number], stop[number]):
            if elements.kind[element] >= 0:
                counts[elements.kind[element]] += 1


@compiled
def group_elements(elements, start, stop, chosen, lane):
    """The elements of one kind in the lists from `start` to `stop`, by their place among all elements of these lists. A string's `whole` is
    its number, and its bytes are data[start:stop] of the lane."""
    filled, place = 0, 0
    for number in range(len(start)):
        for element in range(start[number], stop[number]):
            if elements.kind[element] == chosen:
                lane.row[filled] = place
                lane.whole[filled] = filled if chosen == STRING else elements.whole[element]
                lane.start[filled], lane.stop[filled] = elements.whole[element], elements.stop[element]
                lane.rest[filled] = elements.rest[element]
                filled += 1
            place += 1
