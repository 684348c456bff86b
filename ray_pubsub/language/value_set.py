"""Sets of values of one attribute: unions of disjoint intervals per kind, and whether absence is allowed.

A kind's part is a sorted tuple of cuts. A cut lies just before a value (v, 0) or just after it (v, 1), so open and closed
bounds are the same thing (REIN Fig. 4's doubling); cuts alternate between entering and leaving the set. A pattern that is not
an interval (`like '%x%'`, `regexp`) is kept beside the set and must hold too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ray_pubsub.language.patterns import like_shape, prefix_successor
from ray_pubsub.language.tree import Between, BooleanAttribute, Comparison, In, IsNull, Like, Regexp, Tree
from ray_pubsub.model.values import INT64_MAX, Kind, Value

__all__ = [
    "ANYTHING",
    "EVERYTHING",
    "Cuts",
    "Interval",
    "PatternTest",
    "ValueSet",
    "intersection",
    "intervals",
    "leaf_value_set",
    "union",
]

Cut = tuple[Any, ...]
Cuts = tuple[Cut, ...]

BELOW_ALL: Cut = (-1,)
ABOVE_ALL: Cut = (1,)
EVERYTHING: Cuts = (BELOW_ALL, ABOVE_ALL)


@dataclass(frozen=True, slots=True)
class PatternTest:
    """A string test with no interval form: `like` or `regexp`, perhaps negated. Holds only for strings."""

    leaf: Like | Regexp


@dataclass(frozen=True, slots=True)
class ValueSet:
    """What an attribute may be: absent or not, per kind a set of values, and patterns that must hold as well."""

    absent: bool
    numbers: Cuts = ()
    strings: Cuts = ()
    booleans: Cuts = ()
    timestamps: Cuts = ()
    lists: Cuts = ()
    """All or nothing: lists are not compared."""
    patterns: frozenset[PatternTest] = frozenset()

    def cuts(self, kind: Kind) -> Cuts:
        return (self.numbers, self.strings, self.booleans, self.timestamps, self.lists)[kind]

    @property
    def is_empty(self) -> bool:
        return not (self.absent or self.numbers or self.strings or self.booleans or self.timestamps)

    @property
    def is_present(self) -> bool:
        """Whether the set is exactly `is not null`."""
        return self == PRESENT

    def __and__(self, other: ValueSet) -> ValueSet:
        return intersection([self, other])

    def contains(self, value: Value | None) -> bool:
        """Returns whether the intervals (not the patterns) admit the value."""
        if value is None:
            return self.absent
        if value.kind is Kind.LIST:
            return bool(self.lists)
        # The value lies between the cuts (v, 0) and (v, 1); an odd number of cuts before it means inside.
        return bisect_left(self.cuts(value.kind), (0, value.plain, 1)) % 2 == 1


def intersection(sets: Sequence[ValueSet]) -> ValueSet:
    """Returns the values that all sets admit. All are combined at once: one after the other would be quadratic in `x != 1 and x != 2 and
    …`."""
    if len(sets) == 1:
        return sets[0]
    patterns = frozenset[PatternTest]().union(*(each.patterns for each in sets))
    if patterns:  # a pattern holds for strings only
        return ValueSet(False, strings=_merge([each.strings for each in sets], len(sets)), patterns=patterns)
    numbers, strings, booleans, timestamps, lists = _merged(sets, len(sets))
    return ValueSet(all(each.absent for each in sets), numbers, strings, booleans, timestamps, lists)


def union(sets: Sequence[ValueSet]) -> ValueSet:
    """Returns the values that at least one of the sets admits; none of them may have patterns."""
    if len(sets) == 1:
        return sets[0]
    numbers, strings, booleans, timestamps, lists = _merged(sets, 1)
    return ValueSet(any(each.absent for each in sets), numbers, strings, _two_valued(booleans), timestamps, lists)


PRESENT = ValueSet(False, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING)
ABSENT = ValueSet(True)
NOTHING = ValueSet(False)
ANYTHING = ValueSet(True, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING, EVERYTHING)


@dataclass(frozen=True, slots=True)
class Interval:
    """One interval; None means no bound."""

    low: Any
    low_closed: bool
    high: Any
    high_closed: bool


def intervals(cuts: Cuts) -> Iterator[Interval]:
    """Yields the intervals of a kind's part, in order."""
    for enter, leave in zip(cuts[::2], cuts[1::2], strict=True):
        low, low_closed = (None, False) if enter == BELOW_ALL else (enter[1], enter[2] == 0)
        high, high_closed = (None, False) if leave == ABOVE_ALL else (leave[1], leave[2] == 1)
        yield Interval(low, low_closed, high, high_closed)


def leaf_value_set(leaf: Tree, negated: bool) -> ValueSet:
    """Returns the values for which a predicate (or its negation) is TRUE: unknown is never in the set."""
    match leaf:
        case Comparison(_, operator, operand):
            if operand.kind is None:
                return NOTHING
            return _of_kind(operand.kind, _compared(operator, operand.plain), negated)
        case BooleanAttribute():
            return _of_kind(Kind.BOOLEAN, _compared("=", True), negated)
        case Between(_, low, high, already):
            return _between(low.kind, low.plain, high.kind, high.plain, negated != already)
        case In(_, members, already):
            kinds = {member.kind for member in members}
            if None in kinds and negated != already:
                return NOTHING  # `x not in (1, null)` is never true
            cuts: Cuts = _points(sorted({member.plain for member in members if member.kind is not None}))
            kind = next((kind for kind in kinds if kind is not None), None)
            return NOTHING if kind is None else _of_kind(kind, cuts, negated != already)
        case IsNull(_, already):
            return PRESENT if negated != already else ABSENT
        case Like(attribute, pattern, escape, already):
            shape = like_shape(pattern.plain, escape)
            if shape.form == "equal":
                return _of_kind(Kind.STRING, _compared("=", shape.text), negated != already)
            if shape.form == "prefix":
                return _of_kind(Kind.STRING, _prefixed(shape.text), negated != already)
            test = PatternTest(Like(attribute, pattern, escape, negated != already))
            return ValueSet(False, strings=EVERYTHING, patterns=frozenset([test]))
        case Regexp(attribute, pattern, already):
            test = PatternTest(Regexp(attribute, pattern, negated != already))
            return ValueSet(False, strings=EVERYTHING, patterns=frozenset([test]))
        case _:
            raise AssertionError(f"not a predicate on an attribute: {leaf}")


def _of_kind(kind: Kind, cuts: Cuts, negated: bool) -> ValueSet:
    if negated:
        cuts = _complement(cuts)
    if kind == Kind.NUMBER:
        return ValueSet(False, numbers=cuts)
    if kind == Kind.STRING:
        return ValueSet(False, strings=cuts)
    if kind == Kind.BOOLEAN:
        return ValueSet(False, booleans=_two_valued(cuts))
    return ValueSet(False, timestamps=_whole_steps(cuts))


def _compared(operator: str, plain: Any) -> Cuts:
    before, after = (0, plain, 0), (0, plain, 1)
    return {
        "=": (before, after),
        "!=": (BELOW_ALL, before, after, ABOVE_ALL),
        "<": (BELOW_ALL, before),
        "<=": (BELOW_ALL, after),
        ">": (after, ABOVE_ALL),
        ">=": (before, ABOVE_ALL),
    }[operator]


def _between(low_kind: Kind | None, low: Any, high_kind: Kind | None, high: Any, negated: bool) -> ValueSet:
    """`x >= low and x <= high`; a null bound makes its half unknown, so only the other half's falsehood is certain."""
    below = NOTHING if low_kind is None else _of_kind(low_kind, _compared("<", low), False)
    above = NOTHING if high_kind is None else _of_kind(high_kind, _compared(">", high), False)
    if negated:
        return union([below, above])
    if low_kind is None or high_kind is None:
        return NOTHING
    return _of_kind(low_kind, _compared(">=", low), False) & _of_kind(high_kind, _compared("<=", high), False)


def _points(values: list[Any]) -> Cuts:
    return tuple(cut for value in values for cut in ((0, value, 0), (0, value, 1)))


def _prefixed(prefix: str) -> Cuts:
    successor = prefix_successor(prefix)
    return (0, prefix, 0), ABOVE_ALL if successor is None else (0, successor, 0)


def _complement(cuts: Cuts) -> Cuts:
    inner = cuts[1:] if cuts[:1] == (BELOW_ALL,) else (BELOW_ALL, *cuts)
    return inner[:-1] if inner[-1:] == (ABOVE_ALL,) else (*inner, ABOVE_ALL)


def _merged(sets: Sequence[ValueSet], needed: int) -> tuple[Cuts, Cuts, Cuts, Cuts, Cuts]:
    """Merges kind by kind."""
    return (
        _merge([each.numbers for each in sets], needed),
        _merge([each.strings for each in sets], needed),
        _merge([each.booleans for each in sets], needed),
        _merge([each.timestamps for each in sets], needed),
        _merge([each.lists for each in sets], needed),
    )


def _merge(parts: list[Cuts], needed: int) -> Cuts:
    """Returns the cuts of the places that at least `needed` of the sets cover."""
    if parts.count(parts[0]) == len(parts):
        return parts[0]
    if len(parts) == needed == 2 and min(map(len, parts)) <= 2:
        fewer, more = sorted(parts, key=len)
        return _clipped(more, *fewer) if fewer else ()
    steps = sorted(
        [(cut, 1 - 2 * (rank % 2)) for cuts in parts for rank, cut in enumerate(cuts)], key=lambda step: step[0]
    )
    merged: list[Cut] = []
    depth = position = 0
    while position < len(steps):
        cut = steps[position][0]
        before = depth
        while position < len(steps) and steps[position][0] == cut:
            depth += steps[position][1]
            position += 1
        if (before >= needed) != (depth >= needed):
            merged.append(cut)
    return tuple(merged)


def _clipped(cuts: Cuts, enter: Cut, leave: Cut) -> Cuts:
    """Returns the part of a set that lies in one interval: a slice, however large the set is."""
    first, last = bisect_right(cuts, enter), bisect_left(cuts, leave)
    return (*((enter,) if first % 2 else ()), *cuts[first:last], *((leave,) if last % 2 else ()))


def _two_valued(cuts: Cuts) -> Cuts:
    """Returns canonical cuts over {false, true}, so that `b = true or b = false` is recognised as all values."""
    inside = [bisect_left(cuts, (0, value, 1)) % 2 == 1 for value in (False, True)]
    if all(inside):
        return EVERYTHING
    return _points([value for value, member in zip((False, True), inside, strict=True) if member])


def _next_step(cut: Cut) -> Cut:
    return ABOVE_ALL if cut[1] == INT64_MAX else (0, cut[1] + 1, 0)


def _whole_steps(cuts: Cuts) -> Cuts:
    """Converts cuts of timestamps, which are whole microseconds: just after t is just before t + 1."""
    stepped = [_next_step(cut) if len(cut) == 3 and cut[2] == 1 else cut for cut in cuts]
    kept: list[Cut] = []
    for enter, leave in zip(stepped[::2], stepped[1::2], strict=True):
        if kept and kept[-1] == enter:
            kept[-1] = leave
        elif enter != leave:
            kept += [enter, leave]
    return tuple(kept)
