"""Compiled references for rules of sets and ranges, honestly optimised: a scan that stops at the first test that fails, and inverted lists
by value with counters.

Rules and events are integers: rule i has the tests offsets[i]:offsets[i + 1], test t an attribute, a kind (a set, a negated set, a range)
and the values value_offsets[t]:value_offsets[t + 1], of a range its two ends. An event has a value per attribute, -1 if it is absent.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN

__all__ = ["Counting", "RuleArrays", "Scan", "count_event", "rule_arrays", "scan_event"]

MOST_EXPANDED = 1024
"""A range on an attribute with at most this many values is posted under each of them, else compared in a list."""


class RuleArrays(NamedTuple):
    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.int8]
    value_offsets: NDArray[np.int64]
    value: NDArray[np.int32]


def rule_arrays(rules: Any) -> RuleArrays:
    return RuleArrays(*(np.ascontiguousarray(getattr(rules, name)) for name in RuleArrays._fields))


@njit(nogil=True, cache=True)
def _holds(rules, test, value):
    first, last = rules.value_offsets[test], rules.value_offsets[test + 1]
    if value < 0:
        return False
    if rules.kind[test] == BETWEEN:
        return rules.value[first] <= value and value <= rules.value[first + 1]
    found = False
    for place in range(first, last):
        if rules.value[place] == value:
            found = True
            break
    return found != (rules.kind[test] == NOT_IN)


@njit(nogil=True, cache=True)
def scan_event(rules, values, out):
    """Lists the rules that hold for the values of an event. Returns how many there are."""
    filled = 0
    for rule in range(len(rules.offsets) - 1):
        holds = True
        for test in range(rules.offsets[rule], rules.offsets[rule + 1]):
            if not _holds(rules, test, values[rules.attribute[test]]):
                holds = False
                break
        out[filled] = rule
        filled += holds
    return filled


class Scan:
    """Rule by rule."""

    def __init__(self, rules: RuleArrays) -> None:
        self.rules = rules
        self.out = np.empty(len(rules.offsets), np.int32)

    def match(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return self.out[: scan_event(self.rules, values, self.out)]


class _Lists(NamedTuple):
    base: NDArray[np.int64]
    """Attribute → where its values begin in `starts`."""
    size: NDArray[np.int64]
    """Attribute → how many values it has."""
    starts: NDArray[np.int64]
    posting: NDArray[np.int32]
    range_starts: NDArray[np.int64]
    """Attribute → its ranges that are not expanded."""
    range_rule: NDArray[np.int32]
    range_low: NDArray[np.int32]
    range_high: NDArray[np.int32]
    need: NDArray[np.int16]
    """Rule → its tests that are counted; negated sets are compared for those whose count is complete."""
    always: NDArray[np.int32]
    """Rules of negated sets only."""


@njit(nogil=True, cache=True)
def _post(rules, base, size, expand, fill, starts, posting, range_starts, range_rule, range_low, range_high, need):
    """Twice: once to count (into starts[key + 1]), once to fill (starts[key] moves on)."""
    for rule in range(len(rules.offsets) - 1):
        for test in range(rules.offsets[rule], rules.offsets[rule + 1]):
            attribute, kind = rules.attribute[test], rules.kind[test]
            first, last = rules.value_offsets[test], rules.value_offsets[test + 1]
            if kind == NOT_IN:
                continue
            if not fill:
                need[rule] += 1
            if kind == BETWEEN and not expand[attribute]:
                if fill:
                    place = range_starts[attribute]
                    range_rule[place] = rule
                    range_low[place], range_high[place] = rules.value[first], rules.value[first + 1]
                    range_starts[attribute] += 1
                else:
                    range_starts[attribute + 1] += 1
                continue
            steps = last - first if kind == IN else rules.value[first + 1] - rules.value[first] + 1
            for step in range(steps):
                value = rules.value[first + step] if kind == IN else rules.value[first] + step
                if kind == IN:
                    again = False
                    for before in range(first, first + step):
                        again |= rules.value[before] == value
                    if again:
                        continue
                elif value >= size[attribute]:
                    continue
                if fill:
                    posting[starts[base[attribute] + value]] = rule
                    starts[base[attribute] + value] += 1
                else:
                    starts[base[attribute] + value + 1] += 1


@njit(nogil=True, cache=True)
def count_event(rules, lists, values, left, touched, out):
    """The same by counting."""
    count = 0
    for attribute in range(len(values)):
        value = values[attribute]
        if value < 0:
            continue
        if value < lists.size[attribute]:
            key = lists.base[attribute] + value
            for place in range(lists.starts[key], lists.starts[key + 1]):
                touched[count] = lists.posting[place]
                count += 1
        for place in range(lists.range_starts[attribute], lists.range_starts[attribute + 1]):
            touched[count] = lists.range_rule[place]
            count += (lists.range_low[place] <= value) & (value <= lists.range_high[place])
    found = 0
    for place in range(count):
        rule = touched[place]
        left[rule] -= 1
        out[found] = rule
        found += left[rule] == 0
    for place in range(count):
        left[touched[place]] += 1
    for place in range(len(lists.always)):
        out[found] = lists.always[place]
        found += 1
    filled = 0
    for place in range(found):
        rule = out[place]
        holds = True
        for test in range(rules.offsets[rule], rules.offsets[rule + 1]):
            if rules.kind[test] == NOT_IN and not _holds(rules, test, values[rules.attribute[test]]):
                holds = False
                break
        out[filled] = rule
        filled += holds
    return filled


class Counting:
    """Lists by value, a counter per rule."""

    def __init__(self, rules: RuleArrays, attributes: int) -> None:
        of = np.repeat(rules.attribute, np.diff(rules.value_offsets))
        size = np.zeros(attributes, np.int64)
        np.maximum.at(size, of, rules.value.astype(np.int64) + 1)
        base = np.concatenate([[0], np.cumsum(size)])
        count = len(rules.offsets) - 1
        need, expand = np.zeros(count, np.int16), size <= MOST_EXPANDED
        starts, range_starts = np.zeros(base[-1] + 2, np.int64), np.zeros(attributes + 2, np.int64)
        none = np.empty(0, np.int32)
        _post(rules, base, size, expand, False, starts, none, range_starts, none, none, none, need)
        starts, range_starts = np.cumsum(starts), np.cumsum(range_starts)
        posting = np.empty(starts[-1], np.int32)
        ranges = [np.empty(range_starts[-1], np.int32) for _ in range(3)]
        _post(rules, base, size, expand, True, starts.copy(), posting, range_starts.copy(), *ranges, need)
        always = np.flatnonzero(need == 0).astype(np.int32)
        self.rules = rules
        self.lists = _Lists(base, size, starts, posting, range_starts, ranges[0], ranges[1], ranges[2], need, always)
        self.left = need.copy()
        self.touched = np.empty(len(posting) + len(ranges[0]) + 1, np.int32)
        self.out = np.empty(2 * count + 1, np.int32)

    def match(self, values: NDArray[np.int32]) -> NDArray[np.int32]:
        return self.out[: count_event(self.rules, self.lists, values, self.left, self.touched, self.out)]
