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

Where there are events, of the stream or made up to be alike (engines/selection/event_sample.py), the sampled clauses are compared with
them and the work is counted (engines/selection/sampled_work.py): attributes that depend on each other would be misjudged by
multiplying shares, by orders of magnitude. What hardly happens among the pairs of the sample is taken from the shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import MATCH, CodedTests, code_clauses
from ray_pubsub.columns.test_records import Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.pivot.lists import coded_rows, pivots_of, shares_of, weights_of
from ray_pubsub.engines.selection.sample_growth import different_constants, grown_codes
from ray_pubsub.kernels.pivot.pivot_choice import Choice
from ray_pubsub.model.values import Kind

__all__ = ["Bounded", "ClauseSample", "ClauseStatistics", "known_events", "narrow_events", "wide_events"]

Floats = NDArray[np.float64]

SAMPLE = 16_384
MOST_CLAUSES = 2048
MOST_RECORDS = 131_072
"""Values of sets are records too: this also limits the records of a sample, while SAMPLE limits its tests."""
WIDE, NARROW = 64, 4
THICK = 64
MOST_LINES = 512
"""The most lines of equal codes that a column is expected to have."""
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
    lines: float
    """The lines of bits that a batch makes of its events' codes (kernels/pivot/batch_masks.py)."""
    shares: Floats
    """For each column of the sample, the share of the clauses that test it."""
    passing: Floats
    """For each column of the sample, the share of the clauses that it does not exclude, by the hulls of sets."""
    left: Floats
    """The share of the clauses that are left after 0, 1, … of the columns that one clause in THICK tests, the most selective first."""
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

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary, whole: int | None = None) -> None:
        """`whole`: the number of clauses of which those of the table are an even sample."""
        uses = table.uses()
        self.clauses = table.count if whole is None else whole
        self.tested: Floats = uses / max(1, table.count)
        step = max(1, table.count // MOST_CLAUSES, int(uses.sum()) // SAMPLE, table.test_count // MOST_RECORDS)
        sample = table if step == 1 else table.take(np.arange(0, table.count, step))
        self.coded = code_clauses(sample, vocabulary, sparseness=4)
        space, rows = self.coded.space, coded_rows(self.coded)
        step = max(step, round(self.clauses / max(1, sample.count)))
        different = different_constants(self.coded, step) if step > 1 else None
        self.values = shares = shares_of(rows, space, different=different, grown=grown_codes(self.coded, step))
        self.weights = weights_of(rows, shares)
        base, column = shares.base[self.coded.column], self.coded.column
        hull = shares.below[base + self.coded.high] - shares.below[base + np.maximum(self.coded.low, 1) - 1]
        rate = self.weights.admitted
        self.bounded = _bounded(sample) if not space.patterns else None
        """None if there are patterns: then some of the coded tests are not the table's."""
        if self.bounded is not None:
            lengths = self.bounded.lengths(self.coded)
            rate, hull = np.maximum(rate, lengths), np.maximum(hull, lengths)
        is_pattern = column >= len(space.attributes)
        rate[is_pattern] = hull[is_pattern] = np.where(
            self.coded.low[is_pattern] == MATCH, PATTERN_RATE, 1 - PATTERN_RATE
        )
        self._rate, self._hull = np.clip(rate, 0.0, 1.0), np.clip(hull, 0.0, 1.0)
        self._led = np.where(is_pattern, self._rate, self.weights.led)
        tested = np.bincount(column, minlength=space.columns)
        self.shares: Floats = tested / max(1, len(self.coded.offsets) - 1)
        """For each column, the share of the clauses that test it."""
        ranged = np.bincount(column, self.coded.low < self.coded.high, minlength=space.columns) > 0
        codes = space.top * np.where(ranged, shares.grown, 1.0)
        self._lines = float((np.minimum(codes, MOST_LINES) * (1 + ranged)).sum())
        present = np.where(self.coded.low > 0, tested[column].astype(np.float64), np.inf)
        self.lead = _least(present, self.coded.offsets)
        """For each clause the test on its rarest column, or -1."""
        self.two_sided = (
            (self.coded.low > 1) & (self.coded.high < space.top[column]) & (self.coded.low < self.coded.high)
        )
        self.attribute = np.concatenate([space.attributes, space.patterns.attributes]).astype(np.int64)
        self.columns = int((uses > 0).sum()) + table.opaque.pattern_count()

    def statistics(self, carried: Floats, *, known: bool = False) -> ClauseStatistics:
        """`carried`: for each attribute number the share of events that have it; `known`: whether pivots are chosen by it."""
        coded, rate = self.coded, self._rate
        space, count = coded.space, max(1, len(coded.offsets) - 1)
        presence = carried[self.attribute]
        clause = np.repeat(np.arange(len(coded.offsets) - 1), np.diff(coded.offsets))
        q, needs = presence[coded.column], coded.low > 0
        holds, held = (np.where(needs, q * part, 1 - q + q * part) for part in (rate, self._hull))
        matched, survivors = np.ones(count), np.ones(count)
        np.multiply.at(matched, clause, holds)
        np.multiply.at(survivors, clause, held)

        # The pivot as it will be chosen. Two other tests are then checked by their buckets before a clause is compared.
        choice = self.pivots(presence if known else None)
        pivot = choice.pivot
        chosen = pivot[pivot >= 0]
        met, left = np.ones(count), np.ones(count)
        met[: len(pivot)][pivot >= 0] = (q * self._led)[chosen]
        asked = np.where(needs, q * np.maximum(self.weights.masked, rate), np.inf)
        asked[chosen] = np.inf
        for _ in range(2):
            other = _least(asked, coded.offsets)
            left[: len(other)][other >= 0] *= asked[other[other >= 0]]
            asked[other[other >= 0]] = np.inf

        several = np.zeros(len(clause), bool) if coded.pieces is None else coded.pieces >= 0
        holed = np.unique(clause[several])
        outside = np.ones(count)
        np.multiply.at(outside, clause, np.where(several, 1 - q * np.clip(self._hull - rate, 0.0, 1.0), 1.0))
        has_lead = self.lead >= 0
        led = np.ones(count)
        led[: len(has_lead)][has_lead] = q[self.lead[has_lead]]
        # Of a two-sided test, the side that holds is counted even if the other fails.
        predicates = np.where(needs, q * np.where(self.two_sided, 1 + self._hull, self._hull), 0.0)
        passing = 1 - np.bincount(coded.column, 1 - held, minlength=space.columns) / count
        thick = self.shares * THICK >= 1
        return ClauseStatistics(
            clauses=self.clauses,
            columns=self.columns,
            cells=float(carried.sum() + presence[len(space.attributes) :].sum()),
            tests=len(coded.column) / count,
            numbers=_numbers(coded) / count,
            lines=self._lines,
            shares=self.shares,
            passing=passing,
            left=np.concatenate([[1.0], np.cumprod(np.sort(passing[thick]))]),
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

    def pivots(self, presence: Floats | None) -> Choice:
        """Returns what pivot lists would choose; `presence`: for each column the share of events that have it, if that is known."""
        frequency = np.ones(self.coded.space.columns) if presence is None else presence + 1e-9
        return pivots_of(coded_rows(self.coded), self.values._replace(frequency=frequency), self.weights)


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


class Bounded(NamedTuple):
    """The tests of one interval of numbers with two ends."""

    test: NDArray[np.int64]
    low: Floats
    high: Floats

    def lengths(self, coded: CodedTests) -> Floats:
        """Returns for each test of all the length of its interval relative to all operands of its column; 0 for those not among these."""
        least, largest = np.full(coded.space.columns, np.inf), np.full(coded.space.columns, -np.inf)
        place = coded.column[self.test]
        np.minimum.at(least, place, self.low)
        np.maximum.at(largest, place, self.high)
        lengths = np.zeros(len(coded.column))
        with np.errstate(invalid="ignore", over="ignore"):
            lengths[self.test] = (self.high - self.low) / (largest[place] - least[place])
        return np.nan_to_num(lengths, posinf=0.0)


def _bounded(table: ClauseTable) -> Bounded:
    records = table.tests[: table.test_count]
    begins = records["form"] & Form.CONTINUED == 0
    tests = records[begins]
    alone = np.append(begins[1:], True)[begins]
    low, high = tests["low_whole"] + tests["low_rest"], tests["high_whole"] + tests["high_rest"]
    bounded = (tests["low_side"] != Side.NONE) & (tests["high_side"] != Side.NONE)
    bounded &= alone & (tests["form"] == Form.INTERVAL) & (tests["kind"] != Kind.STRING) & (low < high)
    test = np.flatnonzero(bounded)
    return Bounded(test, low[test], high[test])


def _numbers(coded: CodedTests) -> int:
    """Returns how many numbers the rows of all clauses have."""
    codes = np.where(coded.low == coded.high, 1, 2)
    if coded.pieces is not None and len(coded.piece_low):
        first = coded.piece_offsets[:-1]
        points = np.minimum.reduceat(coded.piece_low == coded.piece_high, first)
        several = coded.pieces >= 0
        codes[several] = (np.diff(coded.piece_offsets) * (2 - points))[coded.pieces[several]]
    return len(coded.offsets) - 1 + 2 * len(coded.column) + int(codes.sum())


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
