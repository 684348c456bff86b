"""DEXIN (Fan, Liu, Tang; FGCS 2016): dynamic exclusive and inclusive methods, one attribute after the other.

Section 3.3: per attribute the low and the high bounds, sorted, in slots. The exclusive method (Algorithm 1) removes the clauses whose
low bound is above the event's value or whose high bound is below; the inclusive method (Algorithm 2) looks at the clauses still left.
Section 3.4: each event gets a pipeline of attributes (Algorithm 3), planned by the cost model (engines/papers/dexin_plan.py).

What is different here, and why:

- Boundary types (section 3.2) are gone: an open bound is the closed bound of the code next to it (columns/coding.py), so Rules 1 and 3
  become `low > code` and `high < code`.
- RB-trees became runs sorted once, since segments are immutable; the hash map with a linked list, which held the partial result, became
  a bit set and, for the inclusive method, a list of the survivors.
- The inclusive method goes clause by clause through the tests a clause has, in their own order. It makes the comparisons of Algorithm
  2 on all remaining attributes, but meets a clause's memory once.
- Formula (3) takes the slot the value falls in as excluded on both sides. Here it counts by half, and not at all if the slot is one
  code wide: equality tests would all be counted as excluded twice.
- A test of several intervals (section 3.2 makes two of `!=`) is in the lists with its hull, and each of its gaps is two boundaries that
  toggle a bit (kernels/papers/gap_toggles.py). What lies in a gap is taken out before the pipeline begins; the planner does not know of it.
- `cache`: GEM's caches (its section II.G) on DEXIN's boundaries, for all attributes of the exclusive part and not the first alone. 0 gives
  the plain Algorithm 1. Lists of few boundaries have no caches, so memory grows with the tests, not with columns times clauses.

`exclusive_only` and `inclusive_only` are section 4.4's (Fig. 17). `paper_costs` plans by the printed formulas (3) to (5): removing a clause
is as slow as checking one, so that on W1 the inclusive method mostly follows after one attribute, where by the measured costs four or
five are excluded by. With cache=0 that is DEXIN as published, for comparisons with its figures; it is slower.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import OwnTests, Trace, Traced, numbers_of, values_of
from ray_pubsub.engines.papers.cache_use import CacheUse
from ray_pubsub.engines.papers.coded_segment import BLOCK, CodedSegment, events_of, tests_of
from ray_pubsub.engines.papers.dexin_plan import Floats, Plan, cached_cost, first_fit, published_plan, removal_costs
from ray_pubsub.engines.papers.gap_lists import gap_toggles
from ray_pubsub.engines.segment_stats import CacheStats
from ray_pubsub.kernels.papers.boundaries import (
    BoundaryIndex,
    Caches,
    Lists,
    Rows,
    Scratch,
    all_on,
    exclude,
    fill_caches,
    match_pipeline,
    place_caches,
    sort_slots,
)
from ray_pubsub.kernels.papers.bucket_lists import WORD, BucketList, Grid, bucket_grid, bucket_list
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests, merge_tests
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps

__all__ = ["DexinSegment"]

SLOTS = 1500
"""τ of Table 1."""
SHARE = 16
"""Bounds per slot at least, so that a rarely tested attribute has few slots."""
PLANNED = 1 << 20
"""Cells of a plan made at once (events times columns)."""


class DexinSegment(CodedSegment):
    """`cache` is ω: the number of cached bit sets for each attribute that all clauses test."""

    engine = "dexin"
    _toggles_gaps = True

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        cache: int = 64,
        exclusive_only: bool = False,
        inclusive_only: bool = False,
        paper_costs: bool = False,
        block: int = BLOCK,
    ) -> None:
        """`cache`: ω, the number of cached bit sets for each attribute that all clauses test. `paper_costs`: plan with the printed
        formulas."""
        assert block <= BLOCK, "a clause's number within its block fits 16 bits"
        assert not (exclusive_only and inclusive_only)
        self._omega = cache
        self._only = int(exclusive_only) - int(inclusive_only)
        self._paper_costs = paper_costs
        self._block = block
        self.cache_use = CacheUse()
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        top, count, block = coded.space.top, len(coded.offsets) - 1, self._block
        parts = [np.empty(len(coded.column), np.int32) for _ in range(3)]
        tests = ClauseTests(np.zeros(count + 1, np.int64), *parts)
        used = merge_tests(tests_of(coded), top, np.full(len(top), -1, np.int64), tests)
        column, low, high = (part[:used] for part in parts)
        empty = low > high  # becomes a low bound above the largest code, which no value reaches
        low[empty], high[empty] = top[column[empty]] + 1, top[column[empty]]
        rows = Rows(tests.offsets.astype(np.uint32), np.stack([column, low, high], axis=1).reshape(-1))
        blocks = max(1, -(-count // block))
        self._grid = grid = Grid(*bucket_grid(column, top, blocks, SLOTS, SHARE))
        bounds = [
            BucketList(*bucket_list(tests.offsets, column, bound, free, block, grid))
            for bound, free in ((low, np.zeros_like(top)), (high, top))
        ]
        for each in bounds:
            sort_slots(each)
        begins = (np.arange(blocks)[:, None] * grid.first[-1] + grid.first[:-1]).reshape(-1)
        # Where the list of each block and column begins, and after the last one its end.
        firsts = [np.append(each.starts[begins], len(each.ids)) for each in bounds]
        lows, highs = bounds
        lists = Lists(lows, highs, len(top), count, block)
        first, at_low, at_high, word, words = place_caches(lists, *firsts, self._omega)
        caches = Caches(first, at_low, at_high, word, np.empty(words, np.uint64))
        fill_caches(lists, *firsts, caches, self._bits())
        self._index = BoundaryIndex(grid, lists, caches, rows, self._omega, gap_toggles(coded, np.arange(count), block))
        self._count_excluded(np.bincount(column, minlength=len(top)))

    def _count_excluded(self, tests: NDArray[np.int64]) -> None:
        """Computes the counters behind formula (3): for each slot, the share of all clauses that a value in it excludes."""
        clauses, cells = max(1, len(self)), int(self._grid.first[-1])
        low, high = (
            np.diff(part.starts).reshape(-1, cells).sum(axis=0) if cells else np.zeros(0)
            for part in (self._index.lists.lows, self._index.lists.highs)
        )
        column = np.repeat(np.arange(len(tests)), np.diff(self._grid.first))
        below, above = np.cumsum(high), np.cumsum(low[::-1])[::-1]  # the slot itself included
        before = np.concatenate([[0], below])[self._grid.first[:-1]]
        after = np.concatenate([above, [0]])[self._grid.first[1:]]
        # The printed formula counts the value's own slot as excluded on both sides.
        partly = 0.0 if self._paper_costs else np.where(self._grid.shift > 0, 0.5, 1.0)[column]
        self._excluded: Floats = (above - after[column] + below - before[column] - partly * (low + high)) / clauses
        absent = np.add.reduceat(low, self._grid.first[:-1]) / clauses if cells else np.zeros(0)
        shares = tests / clauses
        # An attribute that few clauses test is never worth a step of the exclusive method, so it is not planned.
        worth = shares > removal_costs(np.ones(1), self._clauses)
        self._planned = np.flatnonzero(worth | (self._only > 0) | self._paper_costs)
        self._place = np.full(len(tests), -1)
        self._place[self._planned] = np.arange(len(self._planned))
        self._absent_excluded: Floats = absent[self._planned]
        self._shares: Floats = shares[self._planned]

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, dtype=np.int64)
        out = np.empty(max(1024, 64 * events), dtype=np.int32)
        step = max(1, PLANNED // max(1, len(self._planned)))
        for start in range(0, events, step):
            out = self._perform(self._plan(codes, start, min(start + step, events)), codes, start, offsets, out)
        return offsets, out[: offsets[-1]]

    def _plan(self, codes: EventCodes, start: int, stop: int) -> Plan:
        """Runs Algorithm 4 for the events start … stop - 1, from counters alone."""
        rates = self._rates(codes, start, stop)
        if self._paper_costs:
            order, exclusive = published_plan(rates)
        else:
            costs = removal_costs(rates, self._clauses)
            if self._omega:
                np.minimum(costs, cached_cost(2 * self._clauses / self._omega, self._clauses), out=costs)
            order, exclusive = first_fit(rates, costs, np.broadcast_to(self._shares, rates.shape))
        if self._only:
            exclusive[:] = len(self._planned) if self._only > 0 else 0
        return Plan(self._planned[order], exclusive)

    def _rates(self, codes: EventCodes, start: int, stop: int) -> Floats:
        """Computes formula (3): the matching rates of the planned columns."""
        cells = slice(int(codes.offsets[start]), int(codes.offsets[stop]))
        column, code = codes.column[cells], codes.code[cells]
        event = np.repeat(np.arange(stop - start), np.diff(codes.offsets[start : stop + 1]))
        planned = self._place[column] >= 0
        if not planned.all():
            column, code, event = column[planned], code[planned], event[planned]
        excluded = np.tile(self._absent_excluded, (stop - start, 1))
        slot = self._grid.first[column] + (code >> self._grid.shift[column])
        excluded[event, self._place[column]] = self._excluded[slot]
        rates: Floats = 1 - excluded
        return rates

    @property
    def _clauses(self) -> int:
        """The number of clauses in a full block."""
        return max(1, min(self._block, len(self)))

    def _perform(
        self, plan: Plan, codes: EventCodes, start: int, offsets: NDArray[np.int64], out: NDArray[np.int32]
    ) -> NDArray[np.int32]:
        """Executes a plan. Any plan gives the same matches; only the time differs."""
        event, stop = start, start + len(plan.exclusive)
        while event < stop:
            event, needed, taken, cached = match_pipeline(
                self._index, events_of(codes), event, plan, start, self._scratch(), offsets, out
            )
            self.cache_use.add(taken, cached)
            if event < stop:
                out = np.concatenate([out, np.empty(len(out) + needed, dtype=np.int32)])
        return out

    def _trace(self, codes: EventCodes) -> Traced:
        """Traces a match. Estimates are the planner's: ε of Algorithm 4, accumulated. The inclusive part is reported by attribute, in the
        plan's order; last come the columns that are never planned, which have no rate."""
        values, count, block = values_of(codes, self.coded.space.columns), len(self), self._block
        plan = self._plan(codes, 0, 1)
        order, exclusive = plan.order[0], int(plan.exclusive[0])
        expected = count * np.cumprod(self._rates(codes, 0, 1)[0][self._place[order]])
        starts = range(0, count, block)
        sizes = [min(block, count - start) for start in starts]
        alive = [self._bits() for _ in starts]
        words = [all_on(size, bits) for size, bits in zip(sizes, alive, strict=True)]
        trace, gaps = Trace("all clauses", count), self._index.gaps
        if sum(exclude_gaps(gaps, values, place, words[place], self._bits(), bits) for place, bits in enumerate(alive)):
            left = sum(int(np.bitwise_count(bits[:used]).sum()) for bits, used in zip(alive, words, strict=True))
            trace.add(self._named(*gaps.columns), "gaps toggled", left)
        for column, estimated in zip(order[:exclusive], expected, strict=False):
            cached = 0
            for place, bits in enumerate(alive):
                spare = self._bits()
                if exclude(self._index, column, values[column], place, sizes[place], bits, spare):
                    alive[place] = spare
                    cached += 1
            left = sum(int(np.bitwise_count(bits[:used]).sum()) for bits, used in zip(alive, words, strict=True))
            trace.add(self._named(column), _exclusive_method(cached, len(starts)), left, estimated)
        found = [start + numbers_of(bits, size) for start, bits, size in zip(starts, alive, sizes, strict=True)]
        trace.numbers = survivors = np.concatenate([np.empty(0, np.int64), *found])
        verified = 0 if exclusive == len(values) else len(survivors)
        if verified:
            rows = self._index.rows
            column, low, high = rows.tests.reshape(-1, 3).T
            own = OwnTests(survivors, rows.offsets, column, low, high, values)
            for column, estimated in zip(order[exclusive:], expected[exclusive:], strict=True):
                trace.add(self._named(column), "inclusive", own.after(column), estimated)
            trace.numbers = own.left()
            unplanned = own.columns[self._place[own.columns] < 0]
            if len(unplanned):
                trace.add(self._named(*unplanned), "inclusive, not planned", len(trace.numbers))
        return Traced(Partitions("blocks", len(starts), 0, count, 0), [trace], verified)

    def _cache_stats(self) -> CacheStats:
        return self.cache_use.stats()

    def _details(self) -> dict[str, int]:
        index = self._index
        return {
            "τ": SLOTS,
            "ω": self._omega,
            "slots": int(self._grid.first[-1]),
            "cached bit sets": int(index.caches.first[-1]),
        }

    def _bits(self) -> NDArray[np.uint64]:
        return np.empty(-(-min(self._block, len(self)) // WORD), dtype=np.uint64)

    def _new_scratch(self) -> Scratch:
        codes = np.zeros(self.coded.space.columns, dtype=np.int32)
        return Scratch(codes, self._bits(), self._bits(), np.empty(min(self._block, len(self)), dtype=np.int32))


def _exclusive_method(cached: int, blocks: int) -> str:
    """Names the method. The kernel uses caches or removals block by block, whichever is cheaper."""
    if cached in (0, blocks):
        return "exclusive, from a cache" if cached else "exclusive, by removals"
    return f"exclusive, from a cache in {cached} of {blocks} blocks"
