"""Sets of values as sorted cuts (language/value_set.py), where values are numbers: strings are their ranks among the strings in question.

A cut has a kind and lies below all values of it, just before one, just behind one, or above all; cuts alternate between entering a set and
leaving it. Absence is a kind of its own. Timestamps are whole: just behind one is just before the next.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import piece
from ray_pubsub.kernels.texts.layout import BOOLEAN, TIMESTAMP

__all__ = [
    "ABOVE", "ABSENCE", "BEHIND", "BELOW", "CUT", "HIGHEST", "LEAD", "LOWEST", "Edge", "complement", "is_after", "put_cut",
    "put_everything", "put_interval", "sweep",
]  # fmt: skip

CUT = np.dtype([("whole", "<i8"), ("rest", "<f8"), ("kind", "u1"), ("place", "u1"), ("step", "i1")], align=True)
BELOW, LEAD, BEHIND, ABOVE = 0, 1, 2, 3
"""Places of a cut: below all, before a value, behind it, above all."""
ABSENCE = 5
LARGEST = np.int64(2**63 - 1)
FEW = 16
"""Cuts up to which they are sorted by insertion."""
PACKED_KIND, PACKED_VALUE = 60, 2
"""A cut as one number has its kind from bit 60 on, its value in 58 bits, then whether it lies behind the value, and whether it enters."""
PACKED_ZERO, PACKED_MOST = np.int64(1 << 57), np.int64((1 << 58) - 1)
"""In that number: the value 0; and what stands for a cut above all values. Below all values is 0."""


class Edge(NamedTuple):
    """Where an interval begins or ends: the place of a cut, and the value it is at."""

    place: Any
    whole: Any
    rest: Any


LOWEST, HIGHEST = Edge(BELOW, 0, 0.0), Edge(ABOVE, 0, 0.0)


@piece
def is_after(cut, other):
    """Returns whether a cut lies behind another."""
    if cut.kind != other.kind:
        return cut.kind > other.kind
    if cut.place != other.place and (cut.place in (BELOW, ABOVE) or other.place in (BELOW, ABOVE)):
        return cut.place > other.place
    if cut.whole != other.whole:
        return cut.whole > other.whole
    if cut.rest != other.rest:
        return cut.rest > other.rest
    return cut.place > other.place


@piece
def put_cut(cut, kind, place, whole, rest, step):
    if kind == TIMESTAMP and place == BEHIND:
        if whole == LARGEST:
            place = ABOVE
        else:
            place, whole = LEAD, whole + 1
    bounded = place in (LEAD, BEHIND)
    cut.kind, cut.place, cut.step = kind, place, step
    cut.whole, cut.rest = whole if bounded else 0, rest + 0.0 if bounded else 0.0


@piece
def put_interval(cuts, at, kind, low, high):
    """Two more cuts, if there is anything between them; where the next ones go."""
    put_cut(cuts[at], kind, low.place, low.whole, low.rest, 1)
    put_cut(cuts[at + 1], kind, high.place, high.whole, high.rest, -1)
    return at + 2 if is_after(cuts[at + 1], cuts[at]) else at


@piece
def put_everything(cuts, at, kind):
    return put_interval(cuts, at, kind, LOWEST, HIGHEST)


@piece
def copy_cut(target, source):
    target.whole, target.rest = source.whole, source.rest
    target.kind, target.place, target.step = source.kind, source.place, source.step


@piece
def sorted_order(cuts, start, stop, order, scratch):
    """order[i]: where the i-th cut in order is. Runs are sorted by insertion, then merged in pairs."""
    count = stop - start
    for first in range(0, count, FEW):
        last = min(first + FEW, count)
        for number in range(first, last):
            place = number
            while place > first and is_after(cuts[order[place - 1]], cuts[start + number]):
                order[place] = order[place - 1]
                place -= 1
            order[place] = start + number
    width = FEW
    while width < count:
        for first in range(0, count, 2 * width):
            middle, last = min(first + width, count), min(first + 2 * width, count)
            left, right = first, middle
            for place in range(first, last):
                if left < middle and (right >= last or not is_after(cuts[order[left]], cuts[order[right]])):
                    scratch[place] = order[left]
                    left += 1
                else:
                    scratch[place] = order[right]
                    right += 1
        for place in range(count):
            order[place] = scratch[place]
        width *= 2


@piece
def pack_cuts(cuts, start, stop, packed):
    """Fills `packed` with a number for each cut that orders as cuts do and says whether it enters the set. Returns False if there is none:
    for a fraction, or a value that is too large."""
    for place in range(start, stop):
        cut = cuts[place]
        value = cut.whole + PACKED_ZERO
        if cut.place == BELOW:
            value = np.int64(0)
        elif cut.place == ABOVE:
            value = PACKED_MOST
        elif cut.rest != 0 or value <= 0 or value >= PACKED_MOST:
            return False
        bits = np.int64(cut.place == BEHIND) << 1 | np.int64(cut.step > 0)
        packed[place - start] = np.int64(cut.kind) << PACKED_KIND | value << PACKED_VALUE | bits
    return True


@piece
def sort_packed(packed, count, scratch):
    """Sorts numbers, by insertion where they are few; runs of them are then merged in pairs."""
    for first in range(0, count, FEW):
        for number in range(first + 1, min(first + FEW, count)):
            value, place = packed[number], number
            while place > first and packed[place - 1] > value:
                packed[place] = packed[place - 1]
                place -= 1
            packed[place] = value
    width = FEW
    while width < count:
        for first in range(0, count, 2 * width):
            middle, last = min(first + width, count), min(first + 2 * width, count)
            if middle == last or packed[middle - 1] <= packed[middle]:
                continue
            for place in range(first, middle):
                scratch[place] = packed[place]
            left, right, place = first, middle, first
            while left < middle:
                if right >= last or scratch[left] <= packed[right]:
                    packed[place] = scratch[left]
                    left += 1
                else:
                    packed[place] = packed[right]
                    right += 1
                place += 1
        width *= 2


@piece
def unpack_cut(packed, cut, step):
    value = packed >> PACKED_VALUE & PACKED_MOST
    cut.kind, cut.step, cut.rest, cut.whole = packed >> PACKED_KIND, step, 0.0, 0
    if value == 0:
        cut.place = BELOW
    elif value == PACKED_MOST:
        cut.place = ABOVE
    else:
        cut.place, cut.whole = BEHIND if packed & 2 else LEAD, value - PACKED_ZERO


@piece
def sweep(cuts, start, stop, needed, order, scratch, out, at):
    """Writes the cuts of what at least `needed` of the sets admit whose cuts are cuts[start:stop]; where the next go. They are sorted as
    single numbers where that is possible, which takes a third of the time."""
    if not pack_cuts(cuts, start, stop, order):
        return sweep_any(cuts, start, stop, needed, order, scratch, out, at)
    sort_packed(order, stop - start, scratch)
    depth, number, count = 0, 0, stop - start
    first = at
    while number < count:
        here = order[number] >> 1
        before = depth
        while number < count and order[number] >> 1 == here:
            depth += 2 * (order[number] & 1) - 1
            number += 1
        if (before >= needed) != (depth >= needed):
            unpack_cut(here << 1, out[at], 1 if depth >= needed else -1)
            at += 1
    return two_valued(out, first, at)


@piece
def sweep_any(cuts, start, stop, needed, order, scratch, out, at):
    """The same for any cuts."""
    sorted_order(cuts, start, stop, order, scratch)
    depth, number, count = 0, 0, stop - start
    first = at
    while number < count:
        cut = cuts[order[number]]
        before = depth
        depth += cut.step
        number += 1
        while number < count and not is_after(cuts[order[number]], cut):
            depth += cuts[order[number]].step
            number += 1
        if (before >= needed) != (depth >= needed):
            copy_cut(out[at], cut)
            out[at].step = 1 if depth >= needed else -1
            at += 1
    return two_valued(out, first, at)


@piece
def two_valued(cuts, start, stop):
    """Booleans are two: what admits both admits all, and what lies between them is nothing. Where the cuts end now."""
    first = start
    while first < stop and cuts[first].kind < BOOLEAN:
        first += 1
    last = first
    false = true = False
    while last < stop and cuts[last].kind == BOOLEAN:
        low, high = cuts[last], cuts[last + 1]
        above = low.place == BELOW or low.whole < 0 or (low.whole == 0 and low.place == LEAD)
        beyond = high.place == ABOVE or high.whole > 0 or (high.whole == 0 and high.place == BEHIND)
        false |= above and beyond
        above = low.place == BELOW or low.whole < 1 or (low.whole == 1 and low.place == LEAD)
        beyond = high.place == ABOVE or high.whole > 1 or (high.whole == 1 and high.place == BEHIND)
        true |= above and beyond
        last += 2
    if first == last:
        return stop
    at = first
    if false and true:
        at = put_everything(cuts, at, BOOLEAN)
    elif false or true:
        value = 1 if true else 0
        at = put_interval(cuts, at, BOOLEAN, Edge(LEAD, value, 0.0), Edge(BEHIND, value, 0.0))
    while last < stop:
        copy_cut(cuts[at], cuts[last])
        at += 1
        last += 1
    return at


@piece
def complement(cuts, start, stop, kind):
    """The cuts of everything of the kind but the set, whose cuts are in order; where they end now. Two more may be written."""
    if stop > start and cuts[start].place == BELOW:
        for place in range(start + 1, stop):
            copy_cut(cuts[place - 1], cuts[place])
        stop -= 1
    else:
        for place in range(stop, start, -1):
            copy_cut(cuts[place], cuts[place - 1])
        put_cut(cuts[start], kind, BELOW, 0, 0.0, 1)
        stop += 1
    if stop > start and cuts[stop - 1].place == ABOVE:
        stop -= 1
    else:
        put_cut(cuts[stop], kind, ABOVE, 0, 0.0, -1)
        stop += 1
    for place in range(start, stop):
        cuts[place].step = 1 if (place - start) & 1 == 0 else -1
    return stop
