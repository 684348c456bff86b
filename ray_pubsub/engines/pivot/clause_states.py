"""The part of a pivot block that matches an event by states (kernels.pivot.clause_states.py), for events that visit many entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.engines.contract import Hits
from ray_pubsub.kernels.pivot.clause_states import (
    StateTables,
    choose_rows,
    count_changes,
    fill_changes,
    fill_rows,
    match_states,
    match_states_event,
    order_tests,
)
from ray_pubsub.preemption import offer, part_of
from ray_pubsub.workspace import PerThread

__all__ = ["ClauseStates", "expected_cost"]

LINE = 512
MOST_ROWS = 1024
"""States that are stored of all columns: each takes a bit of every clause."""
STORED = 64
"""With this many states for as many changes as there are clauses, the flips of an event take no longer than reading a state."""
MOST_COVERED = 64
COMMON = 64
"""A column has states if one in this many clauses tests it."""
MOST_CHANGES = 256
"""For each clause on average. Columns of large sets are left out beyond that."""
COLUMN, LINES, FLIP, COMPARED = 60.0, 2.0, 0.9, 15.0
"""Approximate nanoseconds: for a column of an event, for a line of its state, for a flip, for a clause that must be compared."""
PAIRS = 17
"""Of an event and a clause, in units of preemption.part_of, in a nanosecond."""
Intervals = tuple[NDArray[Any], NDArray[Any], NDArray[np.int32]]
"""Of the tests on one column: lows, highs and clauses."""
ALIVE = 0.3
"""The share of the clauses with other tests that the states leave, to be compared."""


class ClauseStates:
    """Immutable. It reads the rows of the block's clauses and does not copy them."""

    def __init__(
        self, coded: CodedTests, words: NDArray[Any], starts: NDArray[np.uint32], owners: NDArray[Any]
    ) -> None:
        """`coded`: the tests of the clauses, which have their rows of `words` at `starts`."""
        count, columns = len(owners), coded.space.columns
        uses, changes = np.bincount(coded.column, minlength=columns), _changes(coded)
        chosen = _covered(uses, changes, count)
        covered = np.full(columns, -1, np.int64)
        covered[chosen] = np.arange(len(chosen))
        top = coded.space.top[chosen].astype(np.int64)
        base = np.cumsum(top + 1) - (top + 1)
        width = -(-max(1, count) // LINE) * 8
        every = np.packbits(np.arange(width * 64) < count, bitorder="little").view(np.uint64)
        first, closed = _aligned(len(chosen), width), np.zeros(width, np.uint64)
        first[:] = every
        intervals = _intervals(coded, covered, uses[chosen], first, closed)
        most = int(changes[chosen].sum())
        offsets, ids = _listed(intervals, base, top, first, np.uint16 if count <= 2**16 else np.int32, most)
        stored = np.maximum(1, STORED * changes[chosen] // max(1, count))
        stored = np.minimum(stored, top + 1)
        if stored.sum() > MOST_ROWS:
            stored = np.maximum(1, (stored * (MOST_ROWS / stored.sum())).astype(np.int64))
        nearest, place = np.empty(len(offsets) - 1, np.uint16), np.empty(int(stored.sum()) + 1, np.int64)
        rows = choose_rows(base, top, stored, offsets, nearest, place)
        table = _aligned(rows + 1, width)
        table[rows] = every
        self._bits = StateTables(
            chosen, base, nearest, place[:rows].copy(), np.zeros(rows, np.int64), table, offsets, ids, closed, starts,
            np.ascontiguousarray(owners, np.int32),
        )  # fmt: skip
        self._plain = tuple(self._bits)
        self._sets: PerThread[tuple[NDArray[np.uint64], NDArray[np.uint64]]] = PerThread()
        self._words = words
        fill_rows(base, top, first, self._plain)
        flips = float((changes[chosen] / (4 * stored)).sum())
        self.compared = 1 - int(np.bitwise_count(closed).sum()) / max(1, count)
        """The share of the clauses that test other columns."""
        self.cost = COLUMN * len(chosen) + LINES * len(chosen) * width / 8 + FLIP * flips
        self.cost += COMPARED * ALIVE * self.compared * count
        """About how many nanoseconds an event takes, beside those for its matches."""

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._bits[:-2])

    def match(
        self, cells: tuple[NDArray[Any], ...], codes: NDArray[np.int32], candidates: NDArray[np.int64], room: int = 256
    ) -> Hits:
        """`codes`, `candidates`: scratch of the calling thread, see `StateScratch`; `room`: about how many matches there will be."""
        ends, column, code = cells
        offsets, out, events = np.zeros(len(ends), np.int64), np.empty(room, np.int64), len(ends) - 1
        scratch, part = (codes, candidates, *self._sets.get(self._two_sets)), part_of(events, int(PAIRS * self.cost))
        for first in range(0, events, part):
            offer()
            some = (ends[: min(events, first + part) + 1], column, code)
            out = match_states(some, first, self._plain, self._words, scratch, offsets, out)
        return Hits(offsets, out[: offsets[-1]])

    def match_single(
        self,
        column: NDArray[np.int32],
        code: NDArray[np.int32],
        codes: NDArray[np.int32],
        candidates: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        scratch = (codes, candidates, *self._sets.get(self._two_sets))
        slots: NDArray[np.int64] = match_states_event(column, code, self._plain, self._words, scratch)
        return slots

    @property
    def columns(self) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self._bits.column
        return found

    def all_clauses(self) -> NDArray[np.uint64]:
        every: NDArray[np.uint64] = self._bits.rows[-1]
        return every

    def state(self, column: int, code: int) -> tuple[NDArray[np.uint64], int]:
        """Returns the clauses that hold for a code of a column, and how many flips it took, for `explain`."""
        bits = self._bits
        place = int(bits.base[np.searchsorted(bits.column, column)]) + code
        row = int(bits.nearest[place])
        begin, end = sorted((int(bits.offsets[place + 1]), int(bits.offsets[bits.place[row] + 1])))
        state, ids = bits.rows[row].copy(), bits.ids[begin:end].astype(np.int64)
        np.bitwise_xor.at(state, ids >> 6, np.uint64(1) << (ids & 63).astype(np.uint64))
        return state, end - begin

    def closed(self, clauses: NDArray[Any]) -> NDArray[np.bool_]:
        """Returns which of these clauses test no other column."""
        found: NDArray[np.bool_] = (
            self._bits.closed[clauses >> 6] >> (clauses & 63).astype(np.uint64) & np.uint64(1) > 0
        )
        return found

    def _two_sets(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        first, second = _aligned(2, self._bits.rows.shape[1])
        return first, second


def expected_cost(clauses: int, columns: int) -> float:
    """Returns about what `cost` will be for this many clauses and columns."""
    return columns * (COLUMN + LINES * clauses / LINE + FLIP * clauses / (4 * STORED))


def _covered(uses: NDArray[np.int64], changes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Returns the columns that have states. `uses`, `changes`: how many tests each column has, and what they change."""
    common = np.flatnonzero(uses * COMMON >= max(1, count))
    common = common[np.argsort(-uses[common], kind="stable")[:MOST_COVERED]]
    cheap = common[np.argsort(changes[common], kind="stable")]
    found: NDArray[np.int64] = np.sort(cheap[np.cumsum(changes[cheap]) <= MOST_CHANGES * count])
    return found


def _changes(coded: CodedTests) -> NDArray[np.int64]:
    """Returns about how many changes the tests of each column make: two for each interval."""
    intervals = np.ones(len(coded.column), np.int64)
    if coded.pieces is not None:
        several = coded.pieces >= 0
        intervals[several] = np.diff(coded.piece_offsets)[coded.pieces[several]]
    found: NDArray[np.int64] = 2 * np.bincount(coded.column, intervals, coded.space.columns).astype(np.int64)
    return found


def _intervals(
    coded: CodedTests,
    covered: NDArray[np.int64],
    uses: NDArray[np.int64],
    first: NDArray[np.uint64],
    closed: NDArray[np.uint64],
) -> list[Intervals]:
    """Returns for each column with states the intervals of its tests. Fills `first` and `closed`
    (`order_tests`)."""
    begins = np.cumsum(uses) - uses
    ends = begins.copy()
    order, clauses = np.empty((2, int(uses.sum())), np.int32)
    order_tests(coded.offsets, coded.column, covered, ends, order, clauses, first, closed)
    found = []
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        tests, of = order[begin:end], clauses[begin:end]
        if coded.pieces is None or not (several := coded.pieces[tests] >= 0).any():
            found.append((coded.low[tests], coded.high[tests], of))
            continue
        piece = coded.pieces[tests[several]]
        counts = coded.piece_offsets[piece + 1] - coded.piece_offsets[piece]
        pieces = np.arange(int(counts.sum())) + np.repeat(
            coded.piece_offsets[piece] - (np.cumsum(counts) - counts), counts
        )
        alone = tests[~several]
        found.append(
            (
                np.concatenate([coded.low[alone], coded.piece_low[pieces]]),
                np.concatenate([coded.high[alone], coded.piece_high[pieces]]),
                np.concatenate([of[~several], np.repeat(of[several], counts)]),
            )
        )
    return found


def _listed(
    intervals: list[Intervals],
    base: NDArray[np.int64],
    top: NDArray[np.int64],
    first: NDArray[np.uint64],
    clause: Any,
    most: int,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Returns `offsets` and `ids` of the tables: the changes at each place, of which there are at most `most`. `clause`: the type of an
    id. Completes `first`."""
    offsets = np.zeros(int((top + 1).sum()) + 1, np.int32 if most < 2**31 else np.int64)
    runs = [slice(begin, begin + last + 2) for begin, last in zip(base.tolist(), top.tolist(), strict=True)]
    for number, (low, high, clauses) in enumerate(intervals):
        count_changes(low, high, clauses, top[number], offsets[runs[number]], first[number])
    np.cumsum(offsets, out=offsets)
    ids, behind = np.empty(offsets[-1], clause), offsets.copy()
    for number, (low, high, clauses) in enumerate(intervals):
        fill_changes(low, high, clauses, top[number], behind[runs[number]], ids)
    return offsets, ids


def _aligned(rows: int, words: int) -> NDArray[np.uint64]:
    """Returns zeros, of which each row begins at a cache line."""
    raw = np.zeros(rows * words + 8, np.uint64)
    start = -raw.ctypes.data % 64 // 8
    return raw[start : start + rows * words].reshape(rows, words)
