"""GEM (Fan, Liu, Tang: An Analytic Geometrical Approach to Fast Event Matching) as a segment: kernels/papers/triangle_cells.py and
kernels/papers/triangle_match.py, which name the paper's sections.

What was replaced, and why:
- Values are codes, so a cell is a whole number of codes, and open and closed bounds are the same (Theorems 1 and 2 become comparisons).
- A cell's linked list is a run of an array, the set of clauses still in the race a bit set, per block small enough for the L1 cache.
- Caches (section II.G) lie on edges of cells, so that a cache is a union of whole cells, and serve every partitioned column, not only the
  first: ANDing a bit set costs less than comparing even one row of cells. What is replayed is a few rows and columns of cells.
- A test of several intervals (a set, `!=`, `not between`) is a point of the triangle by its hull, and each of its gaps is two boundaries
  that toggle a bit (kernels/papers/gap_toggles.py). What lies in a gap is taken out before the first column is partitioned.
- Algorithm 4's costs count what is done here: predicates replayed, words ANDed, clauses compared; so selection may also come first.
- A batch goes through one block before the next, so that the block's bit sets are read from the cache.
- The paper keeps caches right under insertion and deletion. A segment never changes: the live index puts what is added into a tail, what is
  removed behind a tombstone, and merging builds a new segment.
- A predicate is stored twice, by rows and by columns of the triangle, where the paper stores it once: what a value removes is then a few
  runs of memory instead of a cell at a time (5.5 µs a partition with one order, 1.5 with both, for 6 more bytes a predicate).
- Columns that few clauses of a block test have no triangle; selection, which reads a clause's own tests, covers them. Clauses are ordered
  by a column they need (OpIndex section 4.1), so that an event meets only those that can match. Without both, wide tables would cost
  columns times clauses in memory and in time.

`paper_costs` decides by the paper's own costs (section II.F): the first column is always partitioned, further ones while the expected rest
exceeds 1 - rate, and caches serve the first column only. `uniform_rates` takes the rates from the closed form for uniform intervals,
2 v (R - v) / R², instead of from counters; a plan by wrong rates is slower, never wrong. With tau=80 and cache 0, 10 or 20, `paper_costs`
is GEM as published, for comparisons with its figures.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

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
from ray_pubsub.engines.papers.gap_lists import gap_toggles
from ray_pubsub.engines.segment_stats import CacheStats
from ray_pubsub.kernels.papers import triangle_cells
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests, merge_tests
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps
from ray_pubsub.kernels.papers.triangle_cells import Bounds, Predicates, RowPlan, Shape, Triangles
from ray_pubsub.kernels.papers.triangle_match import (
    SELECTION_COST,
    WORD_COST,
    Leads,
    Part,
    Scratch,
    TriangleIndex,
    gather_events,
    match_triangles,
    partition,
    partitioning_pays,
    published_edge,
    sort_by_rate,
)
from ray_pubsub.kernels.pivot.pivot_lists import count_order

__all__ = ["GemSegment", "uniform_matches"]

WORD = 64
THICK = 64
"""A column has a triangle in a block if at least one in THICK of the block's clauses tests it; a bit set then costs at most 8 bytes per
predicate."""
BATCH = 256
"""The number of events that go through a block before the next block is read."""
MATCHES = 256
"""The expected number of matches per event; with more, the output array grows."""


class GemSegment(CodedSegment):
    """`cache` is the paper's ω (0: none), `tau` the cells in a row of the triangle; the other options are for comparisons with the paper.

    Measured on W1, a million clauses, ms an event: the paper's tau 80 with ω 0, 10, 20: 1.62, 0.81, 0.58; tau 128, 256, 512 with ω 63:
    0.41, 0.39, 0.44. A cache costs 8 bytes per 64 clauses and column: 64 of them as much as the bounds."""

    engine = "gem"
    _toggles_gaps = True

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        cache: int = 63,
        tau: int = 256,
        paper_costs: bool = False,
        uniform_rates: bool = False,
        block: int = BLOCK,
    ) -> None:
        assert cache >= 0 and tau >= 1 and 1 <= block <= BLOCK
        self._cache, self._tau, self._block = cache, tau, block
        self._paper_costs, self._uniform_rates = paper_costs, uniform_rates
        self.cache_use = CacheUse()
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        count, columns = len(coded.offsets) - 1, coded.space.columns
        tests = ClauseTests(np.zeros(count + 1, np.int64), *(np.empty(len(coded.column), np.int32) for _ in range(3)))
        used = merge_tests(tests_of(coded), coded.space.top, np.full(columns, -1, np.int64), tests)
        # An empty interval has no point in the triangle, and Theorem 4 as printed would accept it.
        hopeless = np.zeros(count, bool)
        hopeless[np.repeat(np.arange(count), np.diff(tests.offsets))[tests.low[:used] > tests.high[:used]]] = True
        leads = np.empty(count, np.int64)
        triangle_cells.choose_leads(tests, hopeless, np.bincount(tests.column[:used], minlength=columns), leads)
        by_lead, starts = count_order(leads, columns + 2)
        order = by_lead[: starts[columns + 1]].astype(np.int32)
        lead_of_run = np.flatnonzero(np.diff(starts[: columns + 2])).astype(np.int32)
        lead_runs = np.append(starts[lead_of_run], len(order)).astype(np.int64)
        blocks = self._blocks(columns, order, tests)
        firsts = np.minimum(np.arange(len(blocks)) * self._block, len(order))
        lasts = np.minimum(firsts + self._block, len(order))
        runs = np.searchsorted(lead_runs, firsts, side="right") - 1, np.searchsorted(lead_runs, lasts)
        of_block = np.cumsum([0, *(len(thick) for thick, _, _ in blocks)])
        column = np.concatenate([np.empty(0, np.int64), *(thick for thick, _, _ in blocks)])
        predicates = np.concatenate([np.empty(0, np.int64), *(sizes for _, sizes, _ in blocks)])
        clauses = np.repeat(lasts - firsts, np.diff(of_block))
        codes = coded.space.top[column].astype(np.int64) + 1
        triangles = self._laid_out(of_block, column, codes, clauses, predicates)
        by_both = Predicates(
            *(
                self._filled(order, tests, triangles, in_columns, int(predicates.sum()), columns)
                for in_columns in (False, True)
            )
        )
        plan = RowPlan(*(np.empty(int(triangles.first_row[-1]), np.int32) for _ in range(4)))
        bit_sets = np.zeros(int(triangles.first_set[-1]), np.uint64)
        for triangle, (size, tested) in enumerate(zip(clauses.tolist(), predicates.tolist(), strict=True)):
            cells, first_cell = int(triangles.cells[triangle]), int(triangles.first_cell[triangle])
            words = slice(*triangles.first_set[triangle : triangle + 2])
            bits = bit_sets[words].reshape(-1, -(-size // WORD))
            # Section III: the locations of ω caches split the diagonal into ω + 1 equal parts; here rounded to edges of cells.
            edges = np.rint(np.arange(len(bits)) * (cells / len(bits))).astype(np.int64)
            triangle_cells.fill_bit_sets(size, cells, edges, by_both.rows, first_cell, bits)
            planned = slice(*triangles.first_row[triangle : triangle + 2])
            of_triangle = RowPlan(*(part[planned] for part in plan))
            triangle_cells.plan_rows(size, tested, cells, edges, by_both.rows, first_cell, of_triangle)
            if self._uniform_rates:
                of_triangle.matched[:] = uniform_matches(cells, tested) + size - tested
        covered = np.array([covered for _, _, covered in blocks], bool)
        leading = Leads(lead_runs, lead_of_run, np.stack(runs, axis=1))
        gaps = gap_toggles(coded, order, self._block)
        self._index = TriangleIndex(
            order, self._block, leading, covered, triangles, by_both, bit_sets, plan, self._paper_costs, gaps
        )

    def _blocks(
        self, columns: int, order: NDArray[np.int32], tests: ClauseTests
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64], bool]]:
        """Returns for each block the columns that get a triangle, how many clauses test each, and whether the triangles cover all tests."""
        found = []
        for start in range(0, len(order), self._block):
            chosen = order[start : start + self._block]
            tested = np.zeros(columns, np.int64)
            triangle_cells.count_tests(chosen, tests, tested)
            thick = np.flatnonzero((tested > 0) & (tested * THICK >= len(chosen)))
            found.append((thick, tested[thick], bool(tested[thick].sum() == tested.sum())))
        return found

    def _laid_out(
        self,
        of_block: NDArray[np.int64],
        column: NDArray[np.int64],
        codes: NDArray[np.int64],
        clauses: NDArray[np.int64],
        predicates: NDArray[np.int64],
    ) -> Triangles:
        """Computes the sizes of the triangles: not many more cells than predicates, and not more in a row than codes."""
        cells = np.array([min(self._tau, 1 + isqrt(2 * size)) for size in predicates.tolist()], np.int64)
        widths = -(-codes // cells)
        cells = -(-codes // widths)
        sets = np.minimum(np.minimum(self._cache + 1, cells), THICK * predicates // clauses)
        firsts = (_starts(lengths) for lengths in (cells * (cells + 1) // 2, cells, -(-clauses // WORD) * sets))
        return Triangles(of_block, column, widths, cells, *firsts)

    def _filled(
        self,
        order: NDArray[np.int32],
        tests: ClauseTests,
        triangles: Triangles,
        in_columns: bool,
        total: int,
        columns: int,
    ) -> Bounds:
        starts = np.zeros(int(triangles.first_cell[-1]) + 2, np.uint32)
        bounds = Bounds(starts, np.empty(total, np.uint16), np.empty(total, np.int32))
        triangle_of = np.full(columns, -1, np.int64)
        triangle_cells.fill_cells(order, self._block, tests, triangles, in_columns, triangle_of, bounds)
        return bounds

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, np.int64)
        parts = [
            self._match_some(codes, first, min(BATCH, events - first), offsets) for first in range(0, events, BATCH)
        ]
        return offsets, np.concatenate([np.empty(0, np.int32), *parts])

    def _match_some(self, codes: EventCodes, first: int, events: int, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        """Returns the matches of some events, from `first` on; fills in their offsets."""
        tests, in_columns = tests_of(self.coded), events_of(codes)
        ends = np.zeros(len(self._index.is_covered) * events + 1, np.int64)
        found = np.empty(self._block + 1 + MATCHES * events, np.int32)
        step = 0
        while step < len(ends) - 1:
            step, taken, cached = match_triangles(
                self._index, tests, in_columns, Part(first, events, step), self._scratch(), ends, found
            )
            self.cache_use.add(taken, cached)
            if step < len(ends) - 1:
                found = np.concatenate([found, np.empty(len(found), np.int32)])
        out = np.empty(int(ends[-1]), np.int32)
        gather_events(events, ends, found, offsets[first:], out)
        return out

    def _trace(self, codes: EventCodes) -> Traced:
        """Traces a match. A partition is the clauses of one lead column; blocks are cut without regard to partitions."""
        values = values_of(codes, self.coded.space.columns)
        lead_runs, lead_of_run, _ = self._index.leads
        carried = np.append(values > 0, True)[lead_of_run]
        in_race = np.repeat(carried, np.diff(lead_runs))
        hopeless = len(self) - len(self._index.order)
        traces, verified = [], 0
        for part in range(len(self._index.is_covered)):
            first = part * self._block
            alive = in_race[first : first + self._block]
            if alive.any():
                trace, selected = self._trace_block(part, alive, values)
                traces.append(trace)
                verified += selected
        visited = int(in_race.sum())
        counts = int(carried.sum()), int((~carried).sum()) + (hopeless > 0)
        return Traced(Partitions("lead attributes", *counts, visited, len(self) - visited), traces, verified)

    def _trace_block(self, part: int, alive: NDArray[np.bool_], values: NDArray[np.int32]) -> tuple[Trace, int]:
        """Returns what is left of a block, and how many clauses were selected from. As in Algorithm 4, an estimate is the rate of the
        value's cell times the number of clauses left before."""
        index, size, left = self._index, len(alive), int(alive.sum())
        of_block, columns, widths, cells, first_cell, first_row, first_set = index.triangles
        bits = np.packbits(np.pad(alive, (0, -size % WORD)), bitorder="little").view(np.uint64)
        trace, words = Trace("block", left), len(bits)
        if exclude_gaps(index.gaps, values, part, words, np.empty_like(bits), bits):
            left = int(np.bitwise_count(bits).sum())
            trace.add(self._named(*index.gaps.columns), "gaps toggled", left)
        triangles = np.arange(of_block[part], of_block[part + 1])
        here = values[columns[triangles]] // widths[triangles]
        start_set, start_edge, matched, cost = (column[first_row[triangles] + here] for column in index.plan)
        rates, turn = matched / size, np.empty(len(triangles), np.int64)
        sort_by_rate(rates, turn, len(triangles))
        done, expected = 0, 1.0
        for place in turn:
            rate, triangle, edge, new = rates[place], triangles[place], start_edge[place], np.empty_like(bits)
            if self._paper_costs:
                pays = done == 0 or partitioning_pays(expected, 1 - rate)
                edge = published_edge(edge, done, cells[triangle])
                expected *= rate
            else:
                pays = partitioning_pays(left * (1 - rate) * SELECTION_COST, cost[place] + WORD_COST * words)
            if left == 0 or not pays:
                break
            start = first_set[triangle] + start_set[place] * words
            column = columns[triangle]
            shape = Shape(cells[triangle], widths[triangle], first_cell[triangle])
            start_bits = index.bit_sets[start : start + words]
            partition(index.predicates, shape, values[column], edge, start_bits, bits, new)
            estimated = left * rates[place]
            bits, left, done = new, int(np.bitwise_count(new).sum()), done + 1
            # Of the clauses that test it.
            whole = {triangle_cells.FULL: "all", 0: "none", int(cells[triangle]): "none"}
            method = f"partitioning at cell {here[place]} of {cells[triangle]}, from {whole.get(int(edge), 'a cache')}"
            trace.add(self._named(column), method, left, estimated)
        trace.numbers = index.order[part * self._block + numbers_of(bits, size)]
        if left == 0 or (done == len(triangles) and index.is_covered[part]):
            return trace, 0
        coded, selected = self.coded, left
        own = OwnTests(trace.numbers, coded.offsets, coded.column, coded.low, coded.high, values)
        for place in turn[done:]:
            column, estimated = columns[triangles[place]], left * rates[place]
            left = own.after(column)
            trace.add(self._named(column), "selection", left, estimated)
        trace.numbers = own.left()
        thin = np.setdiff1d(own.columns, columns[triangles])
        if len(thin):
            trace.add(self._named(*thin), "selection, no triangle", len(trace.numbers))
        return trace, selected

    def _new_scratch(self) -> Scratch:
        columns, words = self.coded.space.columns, -(-self._block // WORD)
        dimensions = int(np.diff(self._index.triangles.of_block).max(initial=0))
        present = np.zeros(columns + 1, np.uint8)
        present[columns] = 1
        bits = np.empty(words, np.uint64), np.empty(words, np.uint64)
        turn = np.empty(dimensions, np.float64), np.empty(dimensions, np.int64)
        return Scratch(np.zeros(columns, np.int32), present, *bits, np.empty(self._block, np.int32), *turn)

    def _cache_stats(self) -> CacheStats:
        return self.cache_use.stats()

    def _details(self) -> dict[str, int]:
        triangles = self._index.triangles
        counts = {"triangles": len(triangles.column), "cells": int(triangles.first_cell[-1])}
        return {"τ": self._tau, "ω": self._cache, **counts, "leads": len(self._index.leads.column)}


def uniform_matches(cells: int, predicates: int) -> NDArray[np.int64]:
    """Section II.F's closed form: returns how many of the predicates, spread evenly over a triangle, hold for a value in each cell of the
    diagonal."""
    value = (np.arange(cells) + 0.5) / cells
    return np.rint(2 * value * (1 - value) * predicates).astype(np.int64)


def _starts(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Returns where each of consecutive runs starts, and where the last ends."""
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return starts
