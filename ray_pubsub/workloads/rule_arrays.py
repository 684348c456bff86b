"""Rules of sets and ranges over numbered values, in arrays: the form in which generated rules are added to an index and compared with
references."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.workloads.segments import BETWEEN, IN, NOT_IN, predicate_table

__all__ = ["GeneratedRules", "RuleWriter", "ranges_of", "taken"]

DIGITS = 5
"""Values are written as words of this many digits where rules have patterns, so that words are ordered as the values are."""


@dataclass(frozen=True, slots=True)
class GeneratedRules:
    """The arrays are those of `Segments`; an event's value is -1 where it has no such attribute."""

    offsets: NDArray[np.int64]
    attribute: NDArray[np.int32]
    kind: NDArray[np.int8]
    value_offsets: NDArray[np.int64]
    value: NDArray[np.int32]
    events: NDArray[np.int32]
    pattern: NDArray[np.int32] | None = None
    """For each test the two digits that it searches for, or -1. Its values are all that have them. Values are words then."""
    owner: NDArray[np.int64] | None = None
    """The rule of each conjunction, ascending from 0, if rules are disjunctions; then `offsets` are those of the conjunctions."""

    @property
    def names(self) -> list[str]:
        return [f"a{number}" for number in range(self.events.shape[1])]

    @property
    def count(self) -> int:
        return len(self.offsets) - 1 if self.owner is None else int(self.owner[-1]) + 1

    @property
    def plain(self) -> bool:
        """Whether the rules are conjunctions of sets and ranges; patterns and disjunctions are only written as texts."""
        return self.pattern is None and self.owner is None

    def predicates(self) -> Any:
        """Returns the rules, which must be plain, as a table for `MatchIndex.add_predicates`."""
        assert self.plain
        return predicate_table(self, self.names)

    def add_to(self, index: Any) -> None:
        """Adds the rules under their numbers."""
        if self.plain:
            index.add_predicates(self.predicates())
        else:
            index.add_many(range(self.count), self.texts(), atomic=True)

    def texts(self) -> list[str]:
        tests = [self._text(test) for test in range(len(self.attribute))]
        ends = self.offsets.tolist()
        clauses = [" and ".join(tests[first:last]) for first, last in itertools.pairwise(ends)]
        if self.owner is None:
            return clauses
        starts = np.searchsorted(self.owner, np.arange(self.count + 1)).tolist()
        return [" or ".join(map("({})".format, clauses[a:b])) for a, b in itertools.pairwise(starts)]

    def _text(self, test: int) -> str:
        name = f"a{self.attribute[test]}"
        if self.pattern is not None and self.pattern[test] >= 0:
            return f"{name} like '%{self.pattern[test]:02}%'"
        values = self.value[self.value_offsets[test] : self.value_offsets[test + 1]].tolist()
        written = [str(value) if self.pattern is None else f"'{value:0{DIGITS}}'" for value in values]
        if self.kind[test] == BETWEEN:
            return f"{name} between {written[0]} and {written[1]}"
        negation = "not " if self.kind[test] == NOT_IN else ""
        return (
            f"{name} {negation}in ({', '.join(written)})" if negation or len(written) > 1 else f"{name} = {written[0]}"
        )

    def event_dicts(self) -> list[dict[str, Any]]:
        names = self.names
        rows = [(row, np.flatnonzero(row >= 0).tolist()) for row in self.events]
        if self.pattern is None:
            return [{names[place]: int(row[place]) for place in places} for row, places in rows]
        return [{names[place]: f"{row[place]:0{DIGITS}}" for place in places} for row, places in rows]

    def with_patterns(self, values: int, chosen: NDArray[np.bool_], rng: np.random.Generator) -> GeneratedRules:
        """Makes patterns of the chosen equalities: each searches for two digits of its value."""
        first = self.value_offsets[:-1]
        place = rng.integers(0, DIGITS - 1, len(chosen))
        digits = self.value[first] // 10 ** (DIGITS - 2 - place) % 100
        pattern = np.where(chosen, digits, -1).astype(np.int32)
        having = [np.flatnonzero(_have(np.arange(values), number)).astype(np.int32) for number in range(100)]
        sizes = np.diff(self.value_offsets)
        sizes[chosen] = np.array([len(each) for each in having])[digits[chosen]]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        value = np.empty(offsets[-1], np.int32)
        kept = np.repeat(chosen, sizes)
        value[~kept] = self.value[~np.repeat(chosen, np.diff(self.value_offsets))]
        if chosen.any():
            value[kept] = np.concatenate([having[number] for number in digits[chosen].tolist()])
        return replace(self, value_offsets=offsets, value=value, pattern=pattern)


class RuleWriter:
    """Collects the tests of rules, attribute by attribute."""

    def __init__(self, rules: int) -> None:
        self.rules = rules
        self._parts: list[tuple[Any, ...]] = []

    def sets(
        self,
        attribute: int,
        rules: NDArray[Any],
        values: NDArray[Any],
        sizes: NDArray[Any] | int = 1,
        *,
        negated: bool = False,
    ) -> None:
        """`values`: of all the sets, one after the other."""
        kind = NOT_IN if negated else IN
        self._parts.append((rules, np.full(len(rules), attribute), kind, np.broadcast_to(sizes, len(rules)), values))

    def ranges(self, attribute: int, rules: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> None:
        ends = np.stack([low, np.maximum(low, high)], axis=1).reshape(-1)
        self._parts.append((rules, np.full(len(rules), attribute), BETWEEN, np.full(len(rules), 2), ends))

    def written(self, events: NDArray[Any], owner: NDArray[np.int64] | None = None) -> GeneratedRules:
        """Returns the rules, each of which must have a test."""
        rule = np.concatenate([part[0] for part in self._parts])
        attribute = np.concatenate([part[1] for part in self._parts]).astype(np.int32)
        kind = np.concatenate([np.full(len(part[0]), part[2], np.int8) for part in self._parts])
        sizes = np.concatenate([part[3] for part in self._parts])
        value = np.concatenate([part[4] for part in self._parts]).astype(np.int32)
        starts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        order = np.argsort(rule, kind="stable")
        counts = np.bincount(rule, minlength=self.rules)
        assert counts.all(), "a rule without a test"
        value = value[ranges_of(starts[order], sizes[order])]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        ends = np.concatenate([[0], np.cumsum(sizes[order])])
        return GeneratedRules(offsets, attribute[order], kind[order], ends, value, events.astype(np.int32), None, owner)


def taken(rules: GeneratedRules, rows: NDArray[np.int64]) -> GeneratedRules:
    """Returns these rules, in this order; a row that occurs again is a repeated rule."""
    assert rules.owner is None, "a disjunction cannot be divided"
    sizes = np.diff(rules.offsets)[rows]
    test = ranges_of(rules.offsets[rows], sizes)
    members = np.diff(rules.value_offsets)[test]
    value = rules.value[ranges_of(rules.value_offsets[test], members)]
    return GeneratedRules(
        np.concatenate([[0], np.cumsum(sizes)]), rules.attribute[test], rules.kind[test], np.concatenate([[0], np.cumsum(members)]),
        value, rules.events, None if rules.pattern is None else rules.pattern[test],
    )  # fmt: skip


def ranges_of(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns start … start + length - 1 for each range, one after the other."""
    ends = np.cumsum(lengths)
    size = int(ends[-1]) if len(ends) else 0
    return np.arange(size) + np.repeat(starts - ends + lengths, lengths)


def _have(values: NDArray[np.int64], digits: int) -> NDArray[np.bool_]:
    """Returns which values have two digits in their words."""
    found = np.zeros(len(values), bool)
    for place in range(DIGITS - 1):
        found |= values // 10**place % 100 == digits
    return found
