"""Events for the cost model to count work on: those of the stream, or made up from the clauses.

Nobody writes rules that hardly anything matches: where values depend on each other, rules say so, because they are written for such events.
So an event is made up like one clause (its origin): most tests of that clause hold, values of other attributes are drawn as constants of
clauses are. It is not compared with its origin. If attributes are independent in rules, they are in these events, too.

Limits, on the other hand, are written so that they are seldom exceeded: a quiet event has values that the fewest of them admit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import MATCH, NO_MATCH
from ray_pubsub.columns.event_codes import encode_events
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.selection.clause_statistics import PATTERN_RATE, ClauseSample, Floats
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["SampledEvents", "events_alike", "events_quiet", "events_seen"]

COUNT, PAIRS, CLAUSES_AN_EVENT = 128, 1 << 15, 32
"""Events of a sample; pairs of an event and a clause that are counted in any case; the clauses for which there is one more event. A block
of a thousand clauses, which a tail becomes, gets 32 events: with all, choosing its engine took ten times as long as building it."""
MOST_CELLS = 1 << 20
"""The most codes of a sample: with thousands of columns it has fewer events."""
HOLDING = 0.9
"""The share of a clause's tests that hold for the events that are made up like it."""
AS_TESTS = 0.5
"""The share of values that are taken from what tests admit; the others are drawn as constants are."""
BY_VALUE, MOST_SCALES, FEWEST_INTERVALS = 0.5, 64, 8
"""The share of numbers that are drawn evenly from all between the least and the largest constant; for how many columns; and how many
intervals a column must have."""
QUIET, LIMITED, FEW = 0.9, 0.7, 0.2
"""The share of the values of limited attributes that are quiet; the shares of clauses that admit the ends of such an attribute."""


class SampledEvents(NamedTuple):
    code: NDArray[np.int32]
    """[event, column]; 0 is absence."""
    origin: NDArray[np.int64]
    """The clause that each event was made from, or -1."""


def events_seen(sample: ClauseSample, events: EventBatch, vocabulary: Vocabulary) -> SampledEvents:
    """Returns events of the stream, in the codes of the sample."""
    space = sample.coded.space
    found = encode_events(events, space, vocabulary)
    count = _count(sample, events.size)
    code = np.zeros((events.size, space.columns), np.int32)
    code[np.repeat(np.arange(events.size), np.diff(found.offsets)), found.column] = found.code
    return SampledEvents(code[np.arange(count) * events.size // max(1, count)], np.full(count, -1))


def events_alike(sample: ClauseSample, carried: Floats) -> SampledEvents:
    """Makes events up. `carried`: for each attribute number the share of events that have it."""
    coded, rng = sample.coded, np.random.default_rng(1)
    space, clauses = coded.space, len(coded.offsets) - 1
    count = _count(sample, COUNT) if clauses else 0
    scales = _scales(sample)
    code = _drawn(sample, rng, count)
    for scale in scales:
        rows = np.flatnonzero(rng.random(count) < BY_VALUE)
        code[rows, scale.column] = scale.code_of(rng.uniform(scale.value[0], scale.value[-1], len(rows)))
    # Values of other clauses' tests, then those of the origin's.
    order = np.argsort(coded.column, kind="stable")
    begins = np.searchsorted(coded.column[order], np.arange(space.columns + 1))
    lengths = np.diff(begins)
    tested = np.flatnonzero(lengths)
    event, column = (part.reshape(-1) for part in np.meshgrid(np.arange(count), tested, indexing="ij"))
    test = order[begins[column] + (rng.random(len(column)) * lengths[column]).astype(np.int64)]
    chosen = rng.random(len(column)) < AS_TESTS
    _put(code, event[chosen], test[chosen], sample, scales, rng)
    code[rng.random(code.shape) >= carried[sample.attribute]] = 0
    origin = (np.arange(count) * clauses) // count
    if not count:
        return SampledEvents(code, np.empty(0, np.int64))
    sizes = np.diff(coded.offsets)[origin]
    ends = np.cumsum(sizes)
    test = np.arange(int(ends[-1])) + np.repeat(coded.offsets[origin] - ends + sizes, sizes)
    event = np.repeat(np.arange(count), sizes)
    holding = rng.random(len(test)) < HOLDING
    _put(code, event[holding], test[holding], sample, scales, rng)
    return SampledEvents(code, origin)


def _count(sample: ClauseSample, most: int) -> int:
    """Returns how many of at most this many events to take."""
    fitting, clauses = MOST_CELLS // max(1, sample.coded.space.columns), max(1, sample.clauses)
    return min(most, max(PAIRS // clauses, clauses // CLAUSES_AN_EVENT), max(8, fitting))


def events_quiet(sample: ClauseSample, events: SampledEvents) -> SampledEvents | None:
    """Returns the same events with most values of limited attributes where the fewest clauses admit them; None if no attribute is limited.
    One is if at one end of its constants most clauses admit a value, and few at the other."""
    coded, rng = sample.coded, np.random.default_rng(2)
    needs = coded.low > 0
    column, low, high = coded.column[needs], coded.low[needs], coded.high[needs]
    columns = coded.space.columns
    first, last = np.full(columns, np.iinfo(np.int32).max, np.int32), np.zeros(columns, np.int32)
    np.minimum.at(first, column, low)
    np.maximum.at(last, column, high)
    tested = np.maximum(1, np.bincount(column, minlength=columns))
    ends = [
        np.bincount(column[(low <= end[column]) & (end[column] <= high)], minlength=columns) / tested
        for end in (first, last)
    ]
    limited = np.flatnonzero((np.maximum(*ends) > LIMITED) & (np.minimum(*ends) < FEW))
    if not len(limited):
        return None
    quiet = np.where(ends[0] < ends[1], first, last)[limited]
    code = events.code.copy()
    chosen = (rng.random((len(code), len(limited))) < QUIET) & (code[:, limited] > 0)
    code[:, limited] = np.where(chosen, quiet, code[:, limited])
    return SampledEvents(code, np.full(len(code), -1))


def _drawn(sample: ClauseSample, rng: np.random.Generator, count: int) -> NDArray[np.int32]:
    """Returns codes drawn as the choice of pivots assumes of values."""
    space, shares = sample.coded.space, sample.values
    columns = np.arange(space.columns)
    place = np.repeat(columns, shares.top.astype(np.int64) + 1)
    total = shares.below[shares.base + shares.top]
    scaled = place + shares.below / np.maximum(total[place], 1e-12)
    found = np.searchsorted(scaled, columns + rng.random((count, space.columns)), side="right")
    code: NDArray[np.int32] = np.clip(found - shares.base, 1, shares.top).astype(np.int32)
    patterns = columns >= len(space.attributes)
    of_patterns = rng.random((count, int(patterns.sum()))) < PATTERN_RATE
    code[:, patterns] = np.where(of_patterns, MATCH, NO_MATCH)
    return code


class _Scale(NamedTuple):
    """Codes of a column and the numbers that they stand for, ascending."""

    column: int
    value: Floats
    code: NDArray[np.int64]

    def code_of(self, values: Floats) -> NDArray[np.int64]:
        return np.interp(values, self.value, self.code).astype(np.int64)


def _scales(sample: ClauseSample) -> list[_Scale]:
    """Returns a scale for each column with many intervals of numbers. Between constants that lie far apart are more values than codes."""
    given, coded = sample.bounded, sample.coded
    if given is None or not len(given.test):
        return []
    column = coded.column[given.test]
    counts = np.bincount(column)
    found = []
    for number in np.argsort(-counts)[:MOST_SCALES].tolist():
        if counts[number] < FEWEST_INTERVALS:
            break
        mine = given.test[column == number]
        value = np.concatenate([given.low[column == number], given.high[column == number]])
        code = np.concatenate([coded.low[mine], coded.high[mine]]).astype(np.int64)
        order = np.lexsort((code, value))
        found.append(_Scale(number, value[order], code[order]))
    return found


def _put(
    code: NDArray[np.int32], event: NDArray[np.int64], test: NDArray[np.int64], sample: ClauseSample, scales: list[_Scale],
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Gives events codes that these tests admit; nothing where a test admits absence."""
    coded = sample.coded
    low, high = coded.low[test].astype(np.int64), coded.high[test].astype(np.int64)
    if coded.pieces is not None:
        several = np.flatnonzero(coded.pieces[test] >= 0)
        pieces = coded.pieces[test[several]]
        first, behind = coded.piece_offsets[pieces], coded.piece_offsets[pieces + 1]
        piece = first + (rng.random(len(several)) * (behind - first)).astype(np.int64)
        low[several], high[several] = coded.piece_low[piece], coded.piece_high[piece]
    some = (low > 0) & (low <= high)
    part = rng.random(len(low))
    value = low + (part * (high - low + 1)).astype(np.int64)
    if scales and sample.bounded is not None:
        place = np.full(len(coded.column), -1)
        place[sample.bounded.test] = np.arange(len(sample.bounded.test))
        bounds = place[test]
        for scale in scales:
            mine = np.flatnonzero((bounds >= 0) & (coded.column[test] == scale.column))
            begin, end = sample.bounded.low[bounds[mine]], sample.bounded.high[bounds[mine]]
            found = scale.code_of(begin + part[mine] * (end - begin))
            value[mine] = np.clip(found, low[mine], high[mine])
    code[event[some], coded.column[test[some]]] = value[some]
