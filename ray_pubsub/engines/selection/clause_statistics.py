"""What the cost model knows of a set of clauses, from a sample of them: how many an event meets, checks and matches on the way.

Up to SAMPLE tests, of clauses evenly spaced, are coded (columns/coding.py), so that strings, sets, patterns and absence need no cases of
their own. Values are supposed to be as the choice of pivots supposes them (kernels/pivot/pivot_choice.py): drawn partly as the clauses'
constants are, partly evenly from them; between constants, as constants lie among themselves. Only an interval may admit as many as its
length says, if that is more.

    q(c)     part of events that carry column c          r(t)     part of the values of its column that test t admits
    a test holds with probability q r, or 1 - q + q r if it admits absence; those of one clause independently

How many different constants there are is scaled up from the sample: s constants drawn from d different ones show d (1 - exp(-s / d)).
Engines that index one interval a test prune by the hull of a set: what their lists let pass is counted by hulls. Those that toggle gaps
(kernels/papers/gap_toggles.py) exclude what lies between the intervals as well, for a pass over a bit set per column that has gaps.

What events carry is known from events (`known_events`) or guessed from the clauses, in two ways: events of a table, with all its columns or
at least WIDE of them, the often tested ones first (`wide_events`); events that carry an attribute NARROW times as often as clauses test
it (`narrow_events`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import MATCH, CodedTests, code_clauses
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.lists import coded_rows, pivots_of, shares_of, weights_of
from ray_pubsub.model.values import Kind

__all__ = ["ClauseSample", "ClauseStatistics", "known_events", "narrow_events", "wide_events"]

Floats = NDArray[np.float64]

SAMPLE = 16_384
MOST_CLAUSES = 2048
MOST_RECORDS = 131_072
"""Values of sets are records too: this also limits the records of a sample, while SAMPLE limits its tests."""
WIDE, NARROW = 64, 4
PATTERN_RATE = 0.1
"""The assumed share of strings that a pattern matches; nothing is known about it."""


@dataclass(frozen=True, slots=True, eq=False)
class ClauseStatistics:
    """Statistics of a set of clauses for a typical event. Shares are of all clauses."""

    clauses: int
    columns: int
    """Attributes and patterns tested."""
    cells: float
    """Columns that an event has."""
    tests: float
    """Tests per clause."""
    numbers: float
    """Numbers in the row of codes, per clause (kernels/pivot/clause_rows.py)."""
    shares: Floats
    """For each column of the sample, the share of the clauses that test it."""
    passing: Floats
    """For each column of the sample, the share of the clauses that it does not exclude, by the hulls of sets."""
    run: float
    """Entries of pivot lists that an event's values lead to, per clause; clauses without a pivot are always visited."""
    checked: float
    """The share whose tests are then compared, because the buckets of two other tests admit the event."""
    led: float
    """The share whose rarest column the event has: OpIndex's partitions, GEM's runs."""
    counted: float
    """Predicates per clause that OpIndex counts."""
    matched: float
    """The share that holds."""
    survivors: float
    """The share whose tests hold by their hulls."""
    holed: float
    """The share of `survivors` with a test of several intervals."""
    gapped: float
    """Columns with tests of several intervals that an event has."""
    between: float
    """The share of the clauses with a gap that holds the event's value."""


class ClauseSample:
    """Some clauses of a table, coded once. `tested`: for each attribute number the share of all clauses that test it."""

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary) -> None:
        uses = table.uses()
        self.clauses = table.count
        self.tested: Floats = uses / max(1, table.count)
        step = max(1, table.count // MOST_CLAUSES, int(uses.sum()) // SAMPLE, table.test_count // MOST_RECORDS)
        sample = table if step == 1 else table.take(np.arange(0, table.count, step))
        self._coded = code_clauses(sample, vocabulary, sparseness=4)
        space, rows = self._coded.space, coded_rows(self._coded)
        self._shares = shares = shares_of(rows, space, different=_different(self._coded, step) if step > 1 else None)
        self._weights = weights_of(rows, shares)
        base, column = shares.base[self._coded.column], self._coded.column
        hull = shares.below[base + self._coded.high] - shares.below[base + np.maximum(self._coded.low, 1) - 1]
        rate = self._weights.admitted
        if not space.patterns:  # else some of the coded tests are not the table's
            lengths = _lengths(sample, self._coded)
            rate, hull = np.maximum(rate, lengths), np.maximum(hull, lengths)
        is_pattern = column >= len(space.attributes)
        rate[is_pattern] = hull[is_pattern] = np.where(
            self._coded.low[is_pattern] == MATCH, PATTERN_RATE, 1 - PATTERN_RATE
        )
        self._rate, self._hull = np.clip(rate, 0.0, 1.0), np.clip(hull, 0.0, 1.0)
        self._led = np.where(is_pattern, self._rate, self._weights.led)
        self._attribute = np.concatenate([space.attributes, space.patterns.attributes]).astype(np.int64)
        self.columns = int((uses > 0).sum()) + table.opaque.pattern_count()

    def statistics(self, carried: Floats, *, known: bool = False) -> ClauseStatistics:
        """`carried`: for each attribute number the share of events that have it; `known`: whether pivots are chosen by it."""
        coded, rate = self._coded, self._rate
        space, count = coded.space, max(1, len(coded.offsets) - 1)
        presence = carried[self._attribute]
        clause = np.repeat(np.arange(len(coded.offsets) - 1), np.diff(coded.offsets))
        q, needs = presence[coded.column], coded.low > 0
        holds, held = (np.where(needs, q * part, 1 - q + q * part) for part in (rate, self._hull))
        matched, survivors = np.ones(count), np.ones(count)
        np.multiply.at(matched, clause, holds)
        np.multiply.at(survivors, clause, held)

        # The pivot as it will be chosen. Two other tests are then checked by their buckets before a clause is compared.
        weighing = self._shares._replace(frequency=presence + 1e-9 if known else np.ones(space.columns))
        choice = pivots_of(coded_rows(coded), weighing, self._weights)
        pivot = choice.pivot
        chosen = pivot[pivot >= 0]
        met, left = np.ones(count), np.ones(count)
        met[: len(pivot)][pivot >= 0] = (q * self._led)[chosen]
        asked = np.where(needs, q * np.maximum(self._weights.masked, rate), np.inf)
        asked[chosen] = np.inf
        for _ in range(2):
            other = _least(asked, coded.offsets)
            left[: len(other)][other >= 0] *= asked[other[other >= 0]]
            asked[other[other >= 0]] = np.inf

        tested = np.bincount(coded.column, minlength=space.columns)
        several = np.zeros(len(clause), bool) if coded.pieces is None else coded.pieces >= 0
        holed = np.unique(clause[several])
        outside = np.ones(count)
        np.multiply.at(outside, clause, np.where(several, 1 - q * np.clip(self._hull - rate, 0.0, 1.0), 1.0))
        lead = _least(np.where(needs, tested[coded.column].astype(np.float64), np.inf), coded.offsets)
        has_lead = lead >= 0
        led = np.ones(count)
        led[has_lead] = q[lead[has_lead]]
        two_sided = (coded.low > 1) & (coded.high < space.top[coded.column]) & (coded.low < coded.high)
        # Of a two-sided test, the side that holds is counted even if the other fails.
        predicates = np.where(needs, q * np.where(two_sided, 1 + self._hull, self._hull), 0.0)

        return ClauseStatistics(
            clauses=self.clauses,
            columns=self.columns,
            cells=float(carried.sum() + presence[len(space.attributes) :].sum()),
            tests=len(coded.column) / count,
            numbers=_numbers(coded) / count,
            shares=tested / count,
            passing=1 - np.bincount(coded.column, 1 - held, minlength=space.columns) / count,
            run=float(met.mean()),
            checked=float((met * left)[: len(pivot)][~choice.proven].sum() / count),
            led=float(led.mean()),
            counted=float((led[clause] * predicates).sum() / count),
            matched=float(matched.mean()),
            survivors=float(survivors.mean()),
            holed=float(survivors[holed].sum() / count),
            gapped=float(presence[np.unique(coded.column[several])].sum()),
            between=float(1 - outside.mean()),
        )


def known_events(tested: Floats, frequency: Floats) -> Floats:
    """`frequency`: for each attribute number the share of events that have it; attributes beyond its end are in no event."""
    carried = np.zeros(len(tested))
    known = min(len(frequency), len(tested))
    carried[:known] = np.where(tested[:known] > 0, np.clip(frequency[:known], 0.0, 1.0), 0.0)
    return carried


def narrow_events(tested: Floats) -> Floats:
    """Assumes that an event has as many attributes as NARROW clauses test."""
    carried: Floats = np.minimum(1.0, NARROW * tested)
    return carried


def wide_events(tested: Floats) -> Floats:
    """Assumes that an event has all attributes, or WIDE of them, or twice as many as in `narrow_events`, each in proportion to its
    tests."""
    width = max(WIDE, 2 * NARROW * float(tested.sum()))
    if (tested > 0).sum() <= width:
        return (tested > 0).astype(np.float64)
    carried: Floats = tested / max(1e-9, float(tested.max(initial=0.0)))
    for _ in range(10):  # what is cut off at 1 goes to the others
        carried = np.minimum(1.0, carried * (width / max(1e-9, carried.sum())))
    return carried


def _lengths(table: ClauseTable, coded: CodedTests) -> Floats:
    """Returns for each test the length of its interval relative to all operands of its column, if it has two ends; else 0."""
    records = table.tests[: table.test_count]
    begins = records["form"] & Form.CONTINUED == 0
    tests = records[begins]
    alone = np.append(begins[1:], True)[begins]
    low, high = tests["low_whole"] + tests["low_rest"], tests["high_whole"] + tests["high_rest"]
    bounded = (tests["low_side"] != Side.NONE) & (tests["high_side"] != Side.NONE)
    bounded &= alone & (tests["form"] == Form.INTERVAL) & (tests["kind"] != Kind.STRING) & (low < high)
    least, largest = np.full(coded.space.columns, np.inf), np.full(coded.space.columns, -np.inf)
    np.minimum.at(least, coded.column[bounded], low[bounded])
    np.maximum.at(largest, coded.column[bounded], high[bounded])
    lengths = np.zeros(len(coded.column))
    place = coded.column[bounded]
    with np.errstate(invalid="ignore", over="ignore"):
        lengths[bounded] = (high[bounded] - low[bounded]) / (largest[place] - least[place])
    return np.nan_to_num(lengths, posinf=0.0)


def _numbers(coded: CodedTests) -> int:
    """Returns how many numbers the rows of all clauses have."""
    codes = np.where(coded.low == coded.high, 1, 2)
    if coded.pieces is not None and len(coded.piece_low):
        first = coded.piece_offsets[:-1]
        points = np.minimum.reduceat(coded.piece_low == coded.piece_high, first)
        several = coded.pieces >= 0
        codes[several] = (np.diff(coded.piece_offsets) * (2 - points))[coded.pieces[several]]
    return len(coded.offsets) - 1 + 2 * len(coded.column) + int(codes.sum())


def _different(coded: CodedTests, step: int) -> Floats:
    """Estimates for each column how many constants of equalities and sets all clauses have, from those of one clause in `step`."""
    columns = coded.space.columns
    points = (coded.low == coded.high) & (coded.low > 0)
    column, code = [coded.column[points]], [coded.low[points]]
    if coded.pieces is not None:
        several = np.flatnonzero(coded.pieces >= 0)
        first = coded.piece_offsets[coded.pieces[several]]
        lengths = coded.piece_offsets[coded.pieces[several] + 1] - first
        piece = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        single = coded.piece_low[piece] == coded.piece_high[piece]
        column.append(np.repeat(coded.column[several], lengths)[single])
        code.append(coded.piece_low[piece][single])
    place = np.concatenate(column).astype(np.int64)
    drawn = np.bincount(place, minlength=columns).astype(np.float64)
    seen = np.bincount(np.unique(place << 32 | np.concatenate(code)) >> 32, minlength=columns).astype(np.float64)
    estimate = np.maximum(1.0, seen)
    with np.errstate(over="ignore"):
        for _ in range(20):  # a fixed point: d = seen / (1 - exp(-drawn / d))
            estimate = np.minimum(seen * step, seen / -np.expm1(-np.maximum(drawn, 1e-9) / estimate))
            estimate = np.maximum(1.0, estimate)
    return estimate


def _least(weight: Floats, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns for each clause the first test of least weight, -1 if none has a finite weight."""
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
