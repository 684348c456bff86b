"""What the cost model knows of a set of clauses, from a sample of them: how many an event meets, checks and matches on the way.

Up to SAMPLE tests, of clauses evenly spaced, are coded (columns/coding.py), so that strings, sets, patterns and absence need no cases of
their own. Values are supposed to fall between operands as operands do among themselves; only an interval may admit as many as its length
says, if that is more.

    q(c)     part of events that carry column c          r(t)     part of the values of its column that test t admits
    a test holds with probability q r, or 1 - q + q r if it admits absence; those of one clause independently

A value equal to one of d operands is one of about d: an equality has r = 1 / d, a set of k points k / d. d is scaled up from the sample:
s operands drawn from d different ones show d (1 - exp(-s / d)).

What events carry is known from events (`known_events`) or guessed from the clauses, in two ways: events of a table, with all its columns or
at least WIDE of them, the often tested ones first (`wide_events`); events that carry an attribute NARROW times as often as clauses test
it (`narrow_events`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Form, Side
from ray_pubsub.columns.coding import MATCH, CodedTests, code_clauses
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.model.values import Kind

__all__ = ["ClauseSample", "ClauseStatistics", "known_events", "narrow_events", "wide_events"]

Floats = NDArray[np.float64]

SAMPLE = 16_384
MOST_CLAUSES = 2048
WIDE, NARROW = 64, 4
PATTERN_RATE = 0.1
"""Part of strings that a pattern matches; nothing is known of it."""


@dataclass(frozen=True, slots=True, eq=False)
class ClauseStatistics:
    """Parts are of all clauses, for a typical event."""

    clauses: int
    columns: int
    """Attributes and patterns tested."""
    cells: float
    """Columns that an event carries."""
    tests: float
    """Per clause."""
    shares: Floats
    """Per column of the sample, the part of the clauses that test it."""
    passing: Floats
    """Per column of the sample, the part of the clauses that it does not exclude."""
    run: float
    """Part of the clauses that lie in the pivot lists an event's values lead to; those without a pivot are always met."""
    checked: float
    """Part whose tests are compared then, as another column they need is there too."""
    led: float
    """Part whose rarest column the event carries: OpIndex's partitions, GEM's runs."""
    counted: float
    """Predicates per clause that OpIndex counts."""
    matched: float
    """Part that holds."""
    holed: float
    """Part that holds but for the holes of a test of several intervals."""


class ClauseSample:
    """Some clauses of a table, coded once. `tested`: per attribute number, the part of all clauses that test it."""

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary) -> None:
        uses = table.uses()
        self.clauses = table.count
        self.tested: Floats = uses / max(1, table.count)
        step = max(1, table.count // MOST_CLAUSES, table.test_count // SAMPLE)
        sample = table if step == 1 else table.take(np.arange(0, table.count, step))
        self._coded = code_clauses(sample, vocabulary, sparseness=4)
        self._rate, self._run_rate = _rates(self._coded, step)
        space = self._coded.space
        if not space.patterns:  # else some of the coded tests are not the table's
            self._rate = np.maximum(self._rate, _lengths(sample, self._coded))
        patterns = [pattern.attribute for pattern in space.patterns]
        self._attribute = np.concatenate([space.attributes, patterns]).astype(np.int64)
        every_pattern = {(number, each.leaf) for number, allowed in table.opaque for each in allowed.patterns}
        self.columns = int((uses > 0).sum()) + len(every_pattern)

    def statistics(self, carried: Floats) -> ClauseStatistics:
        """`carried`: per attribute number, the part of events that carry it."""
        coded, rate = self._coded, self._rate
        space, count = coded.space, max(1, len(coded.offsets) - 1)
        presence = carried[self._attribute]
        clause = np.repeat(np.arange(len(coded.offsets) - 1), np.diff(coded.offsets))
        q, needs = presence[coded.column], coded.low > 0
        holds = np.where(needs, q * rate, 1 - q + q * rate)
        matched = np.ones(count)
        np.multiply.at(matched, clause, holds)

        # The pivot as pivot_lists.py chooses it; another column a clause needs is asked for before its tests are.
        pivot = _least(np.where(needs, rate, np.inf), coded.offsets)
        has_pivot = pivot >= 0
        met, second = np.ones(count), np.ones(count)
        met[has_pivot] = (q * self._run_rate)[pivot[has_pivot]]
        other = needs.copy()
        other[pivot[has_pivot]] = False
        first_other = _least(np.where(other, np.arange(len(q), dtype=np.float64), np.inf), coded.offsets)
        second[first_other >= 0] = q[first_other[first_other >= 0]]

        tested = np.bincount(coded.column, minlength=space.columns)
        lead = _least(np.where(needs, tested[coded.column].astype(np.float64), np.inf), coded.offsets)
        has_lead = lead >= 0
        led = np.ones(count)
        led[has_lead] = q[lead[has_lead]]
        two_sided = (coded.low > 1) & (coded.high < space.top[coded.column]) & (coded.low < coded.high)
        # Of a two-sided test the side that holds is counted also when the other fails.
        predicates = np.where(needs, q * np.where(two_sided, 1 + rate, rate), 0.0)

        return ClauseStatistics(
            clauses=self.clauses,
            columns=self.columns,
            cells=float(carried.sum() + presence[len(space.attributes) :].sum()),
            tests=len(coded.column) / count,
            shares=tested / count,
            passing=1 - np.bincount(coded.column, 1 - holds, minlength=space.columns) / count,
            run=float(met.mean()),
            checked=float((met * second).mean()),
            led=float(led.mean()),
            counted=float((led[clause] * predicates).sum() / count),
            matched=float(matched.mean()),
            holed=0.0 if coded.pieces is None else float(matched[np.unique(clause[coded.pieces >= 0])].sum() / count),
        )


def known_events(tested: Floats, frequency: Floats) -> Floats:
    """`frequency`: per attribute number, the part of events that carry it; what it does not reach is in none."""
    carried = np.zeros(len(tested))
    known = min(len(frequency), len(tested))
    carried[:known] = np.where(tested[:known] > 0, np.clip(frequency[:known], 0.0, 1.0), 0.0)
    return carried


def narrow_events(tested: Floats) -> Floats:
    """An event carries what NARROW clauses test."""
    carried: Floats = np.minimum(1.0, NARROW * tested)
    return carried


def wide_events(tested: Floats) -> Floats:
    """An event carries all attributes, or WIDE, or twice as many as in `narrow_events`: each in proportion to its tests."""
    width = max(WIDE, 2 * NARROW * float(tested.sum()))
    if (tested > 0).sum() <= width:
        return (tested > 0).astype(np.float64)
    carried: Floats = tested / max(1e-9, float(tested.max(initial=0.0)))
    for _ in range(10):  # what is cut off at 1 goes to the others
        carried = np.minimum(1.0, carried * (width / max(1e-9, carried.sum())))
    return carried


def _lengths(table: ClauseTable, coded: CodedTests) -> Floats:
    """Per test: of an interval with two ends, how long it is beside all operands of its column; else 0."""
    tests = table.tests[: table.test_count]
    low, high = tests["low_whole"] + tests["low_rest"], tests["high_whole"] + tests["high_rest"]
    bounded = (tests["low_side"] != Side.NONE) & (tests["high_side"] != Side.NONE)
    bounded &= (tests["form"] == Form.INTERVAL) & (tests["kind"] != Kind.STRING) & (low < high)
    least, largest = np.full(coded.space.columns, np.inf), np.full(coded.space.columns, -np.inf)
    np.minimum.at(least, coded.column[bounded], low[bounded])
    np.maximum.at(largest, coded.column[bounded], high[bounded])
    lengths = np.zeros(len(coded.column))
    place = coded.column[bounded]
    with np.errstate(invalid="ignore", over="ignore"):
        lengths[bounded] = (high[bounded] - low[bounded]) / (largest[place] - least[place])
    return np.nan_to_num(lengths, posinf=0.0)


def _rates(coded: CodedTests, step: int) -> tuple[Floats, Floats]:
    """Per test: the part of values it admits, and the part for which a pivot list leads to it."""
    space, column = coded.space, coded.column
    top = space.top[column].astype(np.float64)
    width = (coded.high - coded.low + 1).astype(np.float64) - (coded.low == 0)
    pieces = np.ones(len(column))
    if coded.pieces is not None:
        several = np.flatnonzero(coded.pieces >= 0)
        sizes = np.concatenate([[0], np.cumsum(coded.piece_high - coded.piece_low + 1)])
        number = coded.pieces[several]
        first, last = coded.piece_offsets[number], coded.piece_offsets[number + 1]
        width[several] = sizes[last] - sizes[first]
        pieces[several] = last - first
    points = (width == pieces) & (coded.low > 0)
    different = _different(column[points], coded.low[points], space.columns, step)[column]
    rate = np.where(points, np.minimum(1.0, pieces / np.maximum(1.0, different)), np.clip(width / top, 0.0, 1.0))
    is_pattern = column >= len(space.attributes)
    rate[is_pattern] = np.where(coded.low[is_pattern] == MATCH, PATTERN_RATE, 1 - PATTERN_RATE)
    from_above = coded.high / top
    from_below = 1 - (coded.low - 1) / top
    run = np.where(points & (pieces == 1), rate, np.where(coded.low <= 1, from_above, from_below))
    return rate, np.clip(run, 0.0, 1.0)


def _different(column: NDArray[np.int32], operand: NDArray[np.int32], columns: int, step: int) -> Floats:
    """Per column, how many operands of equalities all clauses have, from those of one clause in `step`."""
    drawn = np.bincount(column, minlength=columns).astype(np.float64)
    key = np.unique(column.astype(np.int64) << 32 | operand)
    seen = np.bincount(key >> 32, minlength=columns).astype(np.float64)
    if step == 1:
        return np.maximum(1.0, seen)
    estimate = np.maximum(1.0, seen)
    with np.errstate(over="ignore"):
        for _ in range(20):  # a fixed point: d = seen / (1 - exp(-drawn / d))
            estimate = np.minimum(seen * step, seen / -np.expm1(-np.maximum(drawn, 1e-9) / estimate))
            estimate = np.maximum(1.0, estimate)
    return estimate


def _least(weight: Floats, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Per clause the first test of least weight, -1 if none has a finite one."""
    found = np.full(len(offsets) - 1, -1, np.int64)
    filled = np.flatnonzero(np.diff(offsets))
    if not len(filled):
        return found
    least = np.minimum.reduceat(weight, offsets[filled])
    lengths = np.diff(offsets)[filled]
    candidate = np.flatnonzero((weight == np.repeat(least, lengths)) & np.isfinite(weight))
    owner = np.repeat(filled, lengths)[candidate]
    found[owner[::-1]] = candidate[::-1]
    return found
