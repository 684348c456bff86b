"""The bins of each attribute, and the signature vectors. Both grow with new attributes and new sets of attributes. Chosen bins stay,
because cells are counted in them, until all rules are instantiated again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.test_records import Form
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, ValueSet
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.discretizer import Discretizer
from ray_pubsub.priority.instantiation.bins import FunctionBins, OrderedBins, Ranges
from ray_pubsub.priority.instantiation.clause_groups import ClauseGroup
from ray_pubsub.priority.instantiation.granularity import (
    candidate_bins,
    exact_groups,
    most_bins,
    quantile_groups,
    within_budget,
)
from ray_pubsub.priority.instantiation.vectors import Vector

__all__ = ["Layout"]

SAMPLE = 1 << 16
"""The bins of a vector are chosen from a sample of this many clauses."""
FEWEST_SIGNATURES = 1 << 16
SIGNATURES_PER_CLAUSE = 1024
EXACT = 4
"""A vector may have up to this many times its budget if its bins are exact then: what a cell says is certain, and no index is searched.
With 1 instead, `python -m
benchmarks figures --only priority-5a` takes several times as long for a confirmed level of 1,000 and of 2,500 rules."""
TOTAL = 4
"""All vectors together have at most this many times the bound of one."""


class Layout:
    """Columns (an attribute's bins) and vectors (sets of columns)."""

    def __init__(self, vocabulary: Vocabulary, discretizers: dict[str, Discretizer], signatures: int) -> None:
        self.vocabulary = vocabulary
        self.discretizers = discretizers
        self.signatures = signatures
        self.columns: list[OrderedBins | FunctionBins] = []
        self.names: list[str] = []
        self.column_of: dict[int, int] = {}
        self.vectors: list[Vector] = []
        self.vector_of: dict[tuple[int, ...], int] = {}

    def extend(self, table: ClauseTable, groups: list[ClauseGroup]) -> None:
        """Creates vectors for sets of attributes that have none, and chooses their bins from these clauses."""
        groups = [_sampled(group) for group in groups if group.attributes not in self.vector_of]
        fresh = len(self.columns)
        for attribute in dict.fromkeys(attribute for group in groups for attribute in group.attributes):
            if attribute not in self.column_of:
                name = self.vocabulary.attributes.texts[attribute]
                self.column_of[attribute] = len(self.columns)
                self.columns.append(self._candidate(table, groups, attribute, name))
                self.names.append(name)
        room = TOTAL * self.signatures - sum(vector.cells for vector in self.vectors)
        first = len(self.vectors)
        budgets = [self._budget(len(group.clauses)) for group in groups]
        scale = min(1.0, max(0, room) / max(1, sum(budgets)))
        spare = room - sum(budgets)
        for group, budget in zip(groups, budgets, strict=True):
            self.vector_of[group.attributes] = len(self.vectors)
            exact = min(self.signatures, EXACT * budget, budget + max(0, spare))
            fewest = 2 ** len(group.attributes)
            vector = self._vector(table, group, max(fewest, int(budget * scale)), max(fewest, exact))
            self.vectors.append(vector)
            spare -= max(0, vector.cells - budget)
        for column in range(fresh, len(self.columns)):
            self._thin(column)
        for vector in self.vectors[first:]:
            vector.identify([self.columns[column].fingerprint() for column in vector.columns])

    def _budget(self, clauses: int) -> int:
        """Returns the budget of signatures: smaller for few rules, which need fewer and whose filters are then built faster."""
        return min(self.signatures, max(FEWEST_SIGNATURES, SIGNATURES_PER_CLAUSE * clauses))

    def _candidate(
        self, table: ClauseTable, groups: list[ClauseGroup], attribute: int, name: str
    ) -> OrderedBins | FunctionBins:
        places = [
            group.tests[:, group.attributes.index(attribute)] for group in groups if attribute in group.attributes
        ]
        tests = _records(table, np.concatenate(places))
        numbers = np.unique(tests["low_whole"][tests["form"] == Form.OPAQUE]).tolist()
        sets = [table.opaque.value_set(number, self.vocabulary) for number in numbers]
        return candidate_bins(tests, sets, self.vocabulary.strings, self.discretizers.get(name))

    def _vector(self, table: ClauseTable, group: ClauseGroup, budget: int, exact_budget: int) -> Vector:
        """Returns a vector of at most `budget` signatures, or of at most `exact_budget` if all bins are exact then."""
        bounds, exact, caps = [], [], []
        columns = tuple(self.column_of[attribute] for attribute in group.attributes)
        for place, column in enumerate(columns):
            lows, highs = self.test_bounds(table, group.tests[:, place], column)
            bounds.append((lows, highs))
            exact.append(exact_groups(self.columns[column].size, lows, highs))
            caps.append(most_bins(self.discretizers.get(self.names[column])))
        needed = [int(groups.max()) for groups in exact]
        if math.prod(need + 1 for need in needed) <= exact_budget:
            budget = exact_budget
        allowed = within_budget(needed, caps, budget)
        chosen = []
        for column, (lows, highs), groups, need, most in zip(columns, bounds, exact, needed, allowed, strict=True):
            chosen.append(groups if need <= most else quantile_groups(self.columns[column].size, lows, highs, most))
        return Vector(tuple(self.names[column] for column in columns), columns, chosen)

    def _thin(self, column: int) -> None:
        """Drops the edges that make no difference in any vector, so that the search for an event's bin stays short."""
        bins = self.columns[column]
        if not isinstance(bins, OrderedBins):
            return
        users = [(vector, vector.columns.index(column)) for vector in self.vectors if column in vector.columns]
        kept = np.zeros(bins.size, dtype=bool)
        for vector, place in users:
            kept[1:] |= np.diff(vector.groups[place]) != 0
        self.columns[column], old = bins.thinned(kept)
        for vector, place in users:
            vector.remap(place, old)

    def test_bounds(
        self, table: ClauseTable, places: NDArray[np.int64], column: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the ranges of bins that tests admit, in one list; a test on a set may have several."""
        bins = self.columns[column]
        tests = _records(table, places)
        lows, highs = [], []
        is_interval = tests["form"] == Form.INTERVAL
        if isinstance(bins, OrderedBins):
            chosen = {field: tests[field][is_interval] for field in FIELDS}
            low, high = self.interval_bounds(chosen, bins, inner=False)
            lows.append(low)
            highs.append(high)
            others = np.flatnonzero(~is_interval)
        else:
            others = np.arange(len(places))
        known: dict[Any, Ranges] = {}
        for place in others.tolist():
            key = tuple(tests[field][place].item() for field in FIELDS)
            if key not in known:
                known[key] = bins.ranges(self.allowed(table, tests, place)) or []
        if known:
            pairs = np.array([pair for ranges in known.values() for pair in ranges], dtype=np.int64).reshape(-1, 2)
            lows.append(pairs[:, 0])
            highs.append(pairs[:, 1])
        joined_low, joined_high = np.concatenate(lows), np.concatenate(highs)
        if not len(joined_low):  # no test can be instantiated, but a vector needs at least one bin
            return np.zeros(1, np.int64), np.zeros(1, np.int64)
        return joined_low, joined_high

    def interval_bounds(
        self, tests: dict[str, NDArray[Any]], bins: OrderedBins, *, inner: bool
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the first and last bins of interval tests; a test of a string is an equality. If there are no inner bins, the last
        comes before the first."""
        kind = tests["kind"].astype(np.int64)
        is_string = kind == Kind.STRING
        sides: list[NDArray[np.int64]] = []
        for name, upper in (("low", False), ("high", True)):
            cut = (tests[f"{name}_{field}"][~is_string] for field in ("side", "whole", "rest"))
            found = np.empty(len(kind), np.int64)
            found[~is_string] = bins.bounds(kind[~is_string], *cut, upper=upper, inner=inner)
            sides.append(found)
        low, high = sides
        if is_string.any():
            numbers, which = np.unique(tests["low_whole"][is_string], return_inverse=True)
            texts = self.vocabulary.strings.texts
            found = np.array([bins.point(texts[number]) for number in numbers.tolist()], dtype=np.int64)[which.ravel()]
            low[is_string], high[is_string] = found[:, 0], found[:, 1 if inner else 0]
        return low, high

    def allowed(self, table: ClauseTable, tests: Any, place: int) -> ValueSet:
        """Returns the set of values that a test admits."""
        if tests["form"][place] == Form.OPAQUE:
            return table.opaque.value_set(int(tests["low_whole"][place]), self.vocabulary)
        kind = Kind(int(tests["kind"][place]))
        enter = self._cut(tests, place, kind, "low") or BELOW_ALL
        leave = self._cut(tests, place, kind, "high") or ABOVE_ALL
        cuts: dict[Kind, tuple[Cut, ...]] = dict.fromkeys(Kind, ())
        cuts[kind] = (enter, leave)
        numbers, strings, booleans, timestamps, lists = (cuts[each] for each in Kind)
        return ValueSet(False, numbers, strings, booleans, timestamps, lists)

    def _cut(self, tests: Any, place: int, kind: Kind, end: str) -> Cut | None:
        side = int(tests[f"{end}_side"][place])
        if side > 1:
            return None
        whole, rest = int(tests[f"{end}_whole"][place]), float(tests[f"{end}_rest"][place])
        if kind == Kind.STRING:
            return (0, self.vocabulary.strings.texts[whole], side)
        plain: Any = whole if rest == 0 else (rest if abs(rest) >= 2.0**63 else whole + rest)
        return (0, bool(plain) if kind == Kind.BOOLEAN else plain, side)


FIELDS = ("form", "kind", "low_side", "high_side", "low_whole", "low_rest", "high_whole", "high_rest")


def _records(table: ClauseTable, places: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    return {field: table.tests[field][places] for field in FIELDS}


def _sampled(group: ClauseGroup) -> ClauseGroup:
    if len(group.clauses) <= SAMPLE:
        return group
    chosen = np.random.default_rng(len(group.clauses)).choice(len(group.clauses), SAMPLE, replace=False)
    chosen.sort()
    return ClauseGroup(group.attributes, group.clauses[chosen], group.tests[chosen])
