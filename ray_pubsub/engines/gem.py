"""GEM (Fan, Liu, Tang: An Analytic Geometrical Approach to Fast Event Matching) as a segment: kernels/triangle_cells.py and
kernels/triangle_match.py, which name the paper's sections.

What was replaced, and why:
- Values are codes, so a cell is a whole number of codes, and open and closed bounds are the same (Theorems 1 and 2 become comparisons).
- A cell's linked list is a run of an array, the set of clauses still in the race a bit set, per block small enough for the L1 cache.
- Caches (section II.G) lie on edges of cells, so that a cache is a union of whole cells, and serve every partitioned column, not only the
  first: ANDing a bit set costs less than comparing even one row of cells. What is replayed is a few rows and columns of cells.
- Algorithm 4's costs count what is done here: predicates replayed, words ANDed, clauses compared; so selection may also come first.
- A batch goes through one block before the next, so that the block's bit sets are read from the cache.
- The paper keeps caches right under insertion and deletion. A segment never changes: the live index puts what is added into a tail, what is
  removed behind a tombstone, and merging builds a new segment.
- Columns that few clauses of a block test have no triangle; selection, which reads a clause's own tests, covers them. Clauses are ordered
  by a column they need (OpIndex section 4.1), so that an event meets only those that can match. Without both, wide tables would cost
  columns times clauses in memory and in time.
"""

from __future__ import annotations

import threading
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cache_use import CacheUse
from ray_pubsub.engines.coded_segment import BLOCK, CodedSegment
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.plan import Partitions
from ray_pubsub.engines.trace import OwnTests, Trace, Traced, numbers_of, values_of
from ray_pubsub.kernels import triangle_cells
from ray_pubsub.kernels.pivot_lists import count_order
from ray_pubsub.kernels.triangle_match import (
    SELECTION_COST,
    WORD_COST,
    gather_events,
    match_triangles,
    partition,
    partitioning_pays,
    sort_by_rate,
)

__all__ = ["GemSegment"]

WORD = 64
THICK = 64
"""A column has a triangle in a block if one in so many of its clauses tests it; a bit set then costs at most 8 bytes a predicate."""
BATCH = 256
"""Events that go through a block one after the other, before the next block."""
MATCHES = 256
"""Expected per event; more only make the output grow."""


class GemSegment(CodedSegment):
    """`cache` is the paper's ω (0: none), `tau` the cells in a row of the triangle.

    Measured on W1, a million clauses, ms an event: the paper's tau 80 with ω 0, 10, 20: 1.62, 0.81, 0.58; tau 128, 256, 512 with ω 63:
    0.41, 0.39, 0.44. A cache costs 8 bytes per 64 clauses and column: 64 of them as much as the bounds."""

    engine = "gem"

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        cache: int = 63,
        tau: int = 256,
        block: int = BLOCK,
    ) -> None:
        assert cache >= 0 and tau >= 1 and 1 <= block <= BLOCK
        self._cache, self._tau, self._block = cache, tau, block
        self._scratch = threading.local()
        self.cache_use = CacheUse()
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        count, columns, tests = len(coded.offsets) - 1, coded.space.columns, len(coded.column)
        hopeless, offsets = np.zeros(count, bool), np.zeros(count + 1, np.int64)
        column, low, high = (np.empty(tests, np.int32) for _ in range(3))
        used = triangle_cells.merge_tests(
            coded.offsets, coded.column, coded.low, coded.high, coded.space.top, np.full(columns, -1, np.int64),
            hopeless, offsets, column, low, high,
        )  # fmt: skip
        leads = np.empty(count, np.int64)
        tested = np.bincount(column[:used], minlength=columns)
        triangle_cells.choose_leads(offsets, column, low, hopeless, tested, leads)
        order, starts = count_order(leads, columns + 2)
        self._order: NDArray[np.int32] = order[: starts[columns + 1]].astype(np.int32)
        lead_of_run = np.flatnonzero(np.diff(starts[: columns + 2])).astype(np.int32)
        lead_runs = np.append(starts[lead_of_run], len(self._order)).astype(np.int64)
        blocks = self._blocks(columns, offsets, column)
        firsts = np.minimum(np.arange(len(blocks)) * self._block, len(self._order))
        lasts = np.minimum(firsts + self._block, len(self._order))
        runs = np.searchsorted(lead_runs, firsts, side="right") - 1, np.searchsorted(lead_runs, lasts)
        self._runs = (lead_runs, lead_of_run, np.stack(runs, axis=1))
        self._block_triangles = np.cumsum([0, *(len(thick) for thick, _, _ in blocks)])
        self._is_covered = np.array([covered for _, _, covered in blocks], bool)
        self._columns = np.concatenate([np.empty(0, np.int64), *(thick for thick, _, _ in blocks)])
        predicates = np.concatenate([np.empty(0, np.int64), *(sizes for _, sizes, _ in blocks)])
        clauses = np.repeat(lasts - firsts, np.diff(self._block_triangles))
        self._lay_out(coded.space.top[self._columns].astype(np.int64) + 1, clauses, predicates)
        total, triangle_of = int(predicates.sum()), np.full(columns, -1, np.int64)
        for part, in_columns in ((slice(0, 3), False), (slice(3, 6), True)):
            self._predicates[part] = (
                np.zeros(int(self._first_cell[-1]) + 2, np.uint32),
                np.empty(total, np.uint16),
                np.empty(total, np.int32),
            )
            triangle_cells.fill_cells(
                self._block, self._order, offsets, column, low, high, self._block_triangles, self._columns, self._widths,
                self._cells, self._first_cell, in_columns, triangle_of, *self._predicates[part],
            )  # fmt: skip
        self._fill(clauses, predicates)

    def _blocks(
        self, columns: int, offsets: NDArray[np.int64], column: NDArray[np.int32]
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64], bool]]:
        """Per block the columns that get a triangle, how many clauses test each, and whether no test is left over."""
        found = []
        for start in range(0, len(self._order), self._block):
            chosen = self._order[start : start + self._block]
            tested = np.zeros(columns, np.int64)
            triangle_cells.count_tests(chosen, offsets, column, tested)
            thick = np.flatnonzero((tested > 0) & (tested * THICK >= len(chosen)))
            found.append((thick, tested[thick], bool(tested[thick].sum() == tested.sum())))
        return found

    def _lay_out(self, codes: NDArray[np.int64], clauses: NDArray[np.int64], predicates: NDArray[np.int64]) -> None:
        """Sizes of the triangles: not many more cells than predicates, and not more in a row than codes."""
        cells = np.array([min(self._tau, 1 + isqrt(2 * size)) for size in predicates.tolist()], np.int64)
        self._widths = -(-codes // cells)
        self._cells = -(-codes // self._widths)
        self._first_cell = _starts(self._cells * (self._cells + 1) // 2)
        self._first_row = _starts(self._cells)
        self._sets = np.minimum(np.minimum(self._cache + 1, self._cells), THICK * predicates // clauses)
        self._first_set = _starts(-(-clauses // WORD) * self._sets)
        self._predicates: list[NDArray[Any]] = []
        """By rows: cells, clause numbers, highs; by columns: cells, clause numbers, lows."""

    def _fill(self, clauses: NDArray[np.int64], predicates: NDArray[np.int64]) -> None:
        self._bit_sets = np.zeros(int(self._first_set[-1]), np.uint64)
        rows = int(self._first_row[-1])
        self._plan = tuple(np.empty(rows, np.int32) for _ in range(4))
        row_cells, row_number = self._predicates[:2]
        for triangle, (size, tested) in enumerate(zip(clauses.tolist(), predicates.tolist(), strict=True)):
            cells, first_cell, sets = (int(part[triangle]) for part in (self._cells, self._first_cell, self._sets))
            # Section III: the locations of ω caches split the diagonal into ω + 1 equal parts; here rounded to edges of cells.
            edges = np.rint(np.arange(sets) * (cells / sets)).astype(np.int64)
            bits = self._bit_sets[self._first_set[triangle] : self._first_set[triangle + 1]].reshape(sets, -1)
            triangle_cells.fill_bit_sets(size, cells, edges, row_cells, first_cell, row_number, bits)
            row = slice(self._first_row[triangle], self._first_row[triangle + 1])
            plan = (part[row] for part in self._plan)
            triangle_cells.plan_rows(size, tested, cells, edges, row_cells, first_cell, *plan)

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, np.int64)
        parts = [
            self._match_some(codes, first, min(BATCH, events - first), offsets) for first in range(0, events, BATCH)
        ]
        return offsets, np.concatenate([np.empty(0, np.int32), *parts])

    def _match_some(self, codes: EventCodes, first: int, events: int, offsets: NDArray[np.int64]) -> NDArray[np.int32]:
        """The matches of some events, from `first` on; fills in their offsets."""
        coded = self.coded
        ends = np.zeros(len(self._is_covered) * events + 1, np.int64)
        found = np.empty(self._block + 1 + MATCHES * events, np.int32)
        step = 0
        while step < len(ends) - 1:
            step, taken, cached = match_triangles(
                step, first, events, codes.offsets, codes.column, codes.code, self._block, self._order,
                coded.offsets, coded.column, coded.low, coded.high, *self._runs, self._block_triangles, self._is_covered,
                self._columns, self._widths, self._cells, self._first_cell, *self._predicates, self._first_set,
                self._bit_sets, self._first_row, *self._plan, *self._buffers(), ends, found,
            )  # fmt: skip
            self.cache_use.add(taken, cached)
            if step < len(ends) - 1:
                found = np.concatenate([found, np.empty(len(found), np.int32)])
        out = np.empty(int(ends[-1]), np.int32)
        gather_events(events, ends, found, offsets[first:], out)
        return out

    def _trace(self, codes: EventCodes) -> Traced:
        """A partition is the clauses of one lead column; blocks are cut without regard to them."""
        values = values_of(codes, self.coded.space.columns)
        lead_runs, lead_of_run, _ = self._runs
        carried = np.append(values > 0, True)[lead_of_run]
        in_race = np.repeat(carried, np.diff(lead_runs))
        hopeless = len(self) - len(self._order)
        traces, verified = [], 0
        for part in range(len(self._is_covered)):
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
        """What is left of a block, and how many clauses were selected from. As for Algorithm 4, an estimate is the rate of the value's cell
        times what was left before."""
        size, left = len(alive), int(alive.sum())
        bits = np.packbits(np.pad(alive, (0, -size % WORD)), bitorder="little").view(np.uint64)
        trace, words = Trace("block", left), len(bits)
        triangles = np.arange(self._block_triangles[part], self._block_triangles[part + 1])
        here = values[self._columns[triangles]] // self._widths[triangles]
        rows = self._first_row[triangles] + here
        start_set, start_edge, matched, cost = (column[rows] for column in self._plan)
        rates, turn = matched / size, np.empty(len(triangles), np.int64)
        sort_by_rate(rates, turn, len(triangles))
        done = 0
        for place in turn:
            saved = left * (1 - rates[place]) * SELECTION_COST
            if left == 0 or not partitioning_pays(saved, cost[place] + WORD_COST * words):
                break
            triangle, edge, new = triangles[place], start_edge[place], np.empty_like(bits)
            start = self._first_set[triangle] + start_set[place] * words
            column = self._columns[triangle]
            partition(
                values[column], here[place], self._cells[triangle], edge, self._bit_sets[start : start + words], bits, new,
                self._first_cell[triangle], *self._predicates,
            )  # fmt: skip
            estimated = left * rates[place]
            bits, left, done = new, int(np.bitwise_count(new).sum()), done + 1
            whole = {
                triangle_cells.FULL: "all",
                0: "none",
                int(self._cells[triangle]): "none",
            }  # of the clauses that test it
            trace.add(self._named(column), f"partitioning, from {whole.get(int(edge), 'a cache')}", left, estimated)
        trace.numbers = self._order[part * self._block + numbers_of(bits, size)]
        if left == 0 or (done == len(triangles) and self._is_covered[part]):
            return trace, 0
        coded, selected = self.coded, left
        own = OwnTests(trace.numbers, coded.offsets, coded.column, coded.low, coded.high, values)
        for place in turn[done:]:
            column, estimated = self._columns[triangles[place]], left * rates[place]
            left = own.after(column)
            trace.add(self._named(column), "selection", left, estimated)
        trace.numbers = own.left()
        thin = np.setdiff1d(own.columns, self._columns[triangles])
        if len(thin):
            trace.add(self._named(*thin), "selection, no triangle", len(trace.numbers))
        return trace, selected

    def _buffers(self) -> tuple[Any, ...]:
        buffers: tuple[Any, ...] | None = getattr(self._scratch, "buffers", None)
        if buffers is None:
            columns, words = self.coded.space.columns, -(-self._block // WORD)
            dimensions = int(np.diff(self._block_triangles).max(initial=0))
            present = np.zeros(columns + 1, np.uint8)
            present[columns] = 1
            buffers = (
                np.zeros(columns, np.int32),
                present,
                np.empty(words, np.uint64),
                np.empty(words, np.uint64),
                np.empty(self._block, np.int32),
                np.empty(dimensions, np.float64),
                np.empty(dimensions, np.int64),
            )
            self._scratch.buffers = buffers
        return buffers

    def _index_bytes(self) -> int:
        own = [part for name, part in vars(self).items() if isinstance(part, np.ndarray) and name != "owners"]
        return sum(part.nbytes for part in (*own, *self._runs, *self._predicates, *self._plan))


def _starts(lengths: NDArray[Any]) -> NDArray[np.int64]:
    """Where each of consecutive runs starts, and where the last ends."""
    starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return starts
