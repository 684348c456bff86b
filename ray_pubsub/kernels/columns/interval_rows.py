"""Finds the plain rows in a table of intervals, and writes the tests of a subscription of intervals."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray_pubsub.kernels.compiled import compiled, holding_gil

__all__ = ["IntervalShape", "RowBounds", "find_plain", "put_intervals", "put_many_intervals"]


class RowBounds(NamedTuple):
    """The low or the high bounds of a table's rows."""

    whole: Any
    rest: Any
    given: Any
    closed: Any


class IntervalShape(NamedTuple):
    """A clause of intervals without its constants: the places of the bounds among the constants, and the test records to put them in."""

    lows: Any
    highs: Any
    template: Any


@compiled
def find_plain(offsets, attribute, lows, highs, last, plain, continued):
    """plain[i] = every attribute of subscription i has an interval that is not empty. continued[row]: the row before is of the same
    subscription and attribute. Returns whether all rows of an attribute follow one another. `last`: per attribute, -1."""
    low, low_rest, has_low, low_closed = lows
    high, high_rest, has_high, high_closed = highs
    together = True
    for number in range(len(offsets) - 1):
        good = True
        some = True
        for row in range(offsets[number], offsets[number + 1]):
            name = attribute[row]
            before = last[name]
            continued[row] = before == row - 1 and row > offsets[number]
            together &= continued[row] or before < offsets[number]
            last[name] = row
            empty = False
            if has_low[row] and has_high[row] and low[row] >= high[row]:
                if low[row] > high[row] or low_rest[row] > high_rest[row]:
                    empty = True
                elif low_rest[row] == high_rest[row]:
                    empty = not (low_closed[row] and high_closed[row])
            if continued[row]:
                some |= not empty
            else:
                good &= some
                some = not empty
        plain[number] = good and some
    return together


@holding_gil
def put_intervals(values, lows, highs, template, tests, start):
    """Writes a clause of intervals, given by a template and the places of their bounds among the values; False if one is empty: then
    nothing is written. Holds the GIL: letting go of it costs as much as the work."""
    for number in range(len(lows)):
        if values[lows[number]] > values[highs[number]]:
            return False
    for number in range(len(lows)):
        tests[start + number] = template[number]
        tests[start + number].low_whole = values[lows[number]]
        tests[start + number].high_whole = values[highs[number]]
    return True


@compiled
def put_many_intervals(values, shape, new_owners, count, table):
    """Writes a clause for every row of values, behind the table's first `count`; returns how many the table has then."""
    lows, highs, template = shape
    owners, offsets, tests = table
    for row in range(len(values)):
        start = offsets[count]
        if put_intervals(values[row], lows, highs, template, tests, start):
            owners[count] = new_owners[row]
            offsets[count + 1] = start + len(lows)
            count += 1
    return count
