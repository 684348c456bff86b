"""A segment of clauses in pivot lists (kernels/pivot/pivot_lists.py): for clauses with a selective test, and for any that a dense engine
cannot take.

A set is indexed by its values: as a pivot it has an entry under each value; as another test it has a bit for each bucket that contains
one of its values; in a batch it is the union of its values' events (engines/pivot/batch_masks.py). The same holds for gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests, code_clauses
from ray_pubsub.columns.coding_state import restored_space, space_state
from ray_pubsub.columns.decoding import decode_clauses
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.saved_state import SavedState, State, check, check_within
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cached_segment import CachedSegment
from ray_pubsub.engines.contract import Frequency, Hits, PivotCost
from ray_pubsub.engines.explain.trace import Traced
from ray_pubsub.engines.pivot.lists import are_alike, build_lists, coded_of_rows, places, rows_of
from ray_pubsub.engines.pivot.match_ways import MatchWays, Way
from ray_pubsub.engines.pivot.pivot_cost import cost_of_pivots
from ray_pubsub.engines.pivot.trace import trace_pivots
from ray_pubsub.engines.pivot.trace_states import trace_states
from ray_pubsub.engines.vector_cache.cache import VectorCache
from ray_pubsub.kernels.pivot.clause_rows import check_rows
from ray_pubsub.kernels.pivot.pivot_lists import BUCKETS, PROVEN, SLOTS, PivotLists, match_event, match_events
from ray_pubsub.preemption import offer, part_of
from ray_pubsub.workspace import PerThread

__all__ = ["PivotSegment"]

EVENT_WORK = 1 << 17
"""What following the lists of an event costs, in units of preemption.part_of: 128 events take about a millisecond."""


class PivotSegment(CachedSegment):
    """Immutable. `match` may run in several threads at once: scratch is per thread."""

    engine = "pivot"

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None) -> None:
        """`frequency`: for each attribute number the share of events that have it, by default equal for all."""
        coded = code_clauses(table, vocabulary, sparseness=4)
        self.vocabulary = vocabulary
        self.space = coded.space
        self._set(*build_lists(coded, table.owners[: table.count], frequency))

    def _set(self, lists: PivotLists, rows: NDArray[np.uint32], owners: NDArray[np.int32]) -> None:
        self._lists, self._rows = lists, rows
        self._plain = tuple(lists)
        by_entry = lists.entries.view(np.int32)[2::4]
        # With one entry per clause, the entries have the owners in this order.
        self.owners: NDArray[Any] = by_entry if len(by_entry) == len(rows) else owners
        self._scratch: PerThread[tuple[NDArray[Any], ...]] = PerThread()
        self._ways = MatchWays(lists, rows, self.owners, self.space)
        self._cache = VectorCache(self.nbytes)

    @property
    def nbytes(self) -> int:
        arrays: list[Any] = [*self._lists, self._rows, *(getattr(self.space, name) for name in self.space.__slots__)]
        if self.owners.base is None:
            arrays.append(self.owners)
        return sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) + self._ways.nbytes

    def prepare(self) -> None:
        self._ways.prepare()

    def wait(self) -> None:
        self._ways.wait()

    def state(self, slots: NDArray[np.int64] | None = None) -> State:
        """`slots` maps each slot to the number that is saved for it."""
        lists = self._lists
        entries = lists.entries
        if slots is not None:
            entries = entries.copy()
            entries[2::4] = slots[entries[2::4]]
        return {
            "kind": self.engine,
            "space": space_state(self.space),
            "directory": lists.directory,
            "bucket": lists.bucket,
            "universal": lists.universal,
            "entries": entries,
            "words": lists.words,
            "clauses": len(self),
        }

    @classmethod
    def restored(
        cls, state: SavedState, vocabulary: Vocabulary, slots: int, frequency: Frequency = None
    ) -> PivotSegment:
        """`frequency` is ignored: pivots are those that were saved."""
        self = cls.__new__(cls)
        self.vocabulary = vocabulary
        self.space = restored_space(state.state("space"), vocabulary)
        base, spread = places(self.space.top)
        entries = state.array("entries", np.uint32, None)
        count, rest = divmod(len(entries), 4)
        check(not rest, "a part of an entry")
        check_within(entries[2::4], 0, slots - 1, "owners")
        for part in (0, 1):
            check_within(entries[part::4] >> 16, 0, min(self.space.columns, SLOTS), "slots of columns")
        bucket = state.array("bucket", np.uint8, spread)
        check_within(bucket, 0, BUCKETS - 1, "buckets")
        universal = state.number("universal", 0, count)
        directory = state.array("directory", np.uint32, 4 * spread)
        _check_directory(directory, base, universal)
        words = state.array("words", (np.uint16, np.int32), None)
        rows = np.empty(state.number("clauses", 0, count), np.uint32)
        check(check_rows(words, self.space.top, rows), "rows are not of tests")
        lists = PivotLists(base, bucket, directory, entries, words, universal, are_alike(entries, len(base)))
        place, starts = rows_of(lists, rows), entries[3::4] & (PROVEN - 1)
        check(not count or (place.max() < len(rows) and (rows[place] == starts).all()), "entries are not of rows")
        check((np.bincount(place, minlength=len(rows)) > 0).all(), "clauses without entries")
        owners = np.empty(len(rows), np.int32)
        owners[place] = entries.view(np.int32)[2::4]
        self._set(lists, rows, owners)
        return self

    def table(self, chosen: NDArray[np.int64] | None = None) -> ClauseTable:
        """Returns the clauses as records again, for merging; or the chosen ones."""
        owners = self.owners if chosen is None else self.owners[chosen]
        return decode_clauses(self._coded(chosen), owners.astype(np.int64), self.vocabulary)

    def _coded(self, chosen: NDArray[np.int64] | None = None) -> CodedTests:
        rows = self._rows if chosen is None else self._rows[chosen]
        return coded_of_rows(self.space, self._lists.words, rows)

    def _match_one(self, column: NDArray[np.int32], code: NDArray[np.int32]) -> NDArray[np.int64]:
        scratch = self._scratch.get(self._make_scratch)
        ways = self._ways
        if ways.untried:
            ways.untried -= 1
            states = ways.states
            if states is not None:
                return states.match_single(column, code, *scratch[1:])
        slots: NDArray[np.int64]
        slots, met = match_event(column, code, self._plain, scratch, ways.most)
        if met <= ways.watched:
            ways.crowded = 0
            return slots
        if met > ways.most:
            states = ways.states_of_event(met)
            if states is not None:
                return states.match_single(column, code, *scratch[1:])
            slots, _ = match_event(column, code, self._plain, scratch, met)
        ways.visited(met, len(slots))
        return slots

    def _match_codes(self, codes: EventCodes) -> Hits:
        cells, size = (codes.offsets, codes.column, codes.code), len(codes.offsets) - 1
        if not size:
            return Hits(codes.offsets, np.empty(0, np.int64))
        way = self._ways.for_batch(cells)
        hits = None
        if way is Way.MASKS:
            hits = self._ways.masks.match(cells)
        elif way is Way.STATES and self._ways.states is not None:
            _, codes_of, candidates = self._scratch.get(self._make_scratch)
            hits = self._ways.states.match(cells, codes_of, candidates, self._ways.room(size))
        if hits is None:
            hits = self._match_lists(cells)
        self._ways.matched(size, len(hits.slots))
        return hits

    def _match_lists(self, cells: tuple[NDArray[Any], ...]) -> Hits:
        ends, column, code = cells
        size = len(ends) - 1
        scratch = self._scratch.get(self._make_scratch)
        offsets = np.zeros(size + 1, dtype=np.int64)
        out = np.empty(max(1024, 64 * size), dtype=np.int64)
        event = end = 0
        part = part_of(size, EVENT_WORK)
        while event < size:
            if event == end:
                offer()
                end = min(size, end + part)
                cells = (ends[: end + 1], column, code)
            event, needed = match_events(event, cells, self._plain, scratch, offsets, out)
            if event < end:
                out = np.concatenate([out, np.empty(len(out) + needed, dtype=np.int64)])
        return Hits(offsets, out[: offsets[-1]])

    def _trace(self, codes: EventCodes, matches: int) -> Traced:
        if (
            self._ways.states is not None
            and self._ways.met((codes.offsets, codes.column, codes.code)) > self._ways.most
        ):
            return trace_states(codes, self._coded(), self._ways.states, self.vocabulary)
        return trace_pivots(codes, self._coded(), self._lists, self._rows, self.vocabulary)

    def _details(self) -> dict[str, int]:
        """`pivots`: the values under which clauses are stored alone; `ranges`: entries under ranges of values; `unpivoted`: clauses that
        every event visits."""
        lists = self._lists
        entries, by_value = len(lists.entries) // 4, 0
        pivots = 0
        if len(lists.directory):
            equal, behind, *_ = lists.directory.reshape(-1, 4).T
            pivots, by_value = int(np.count_nonzero(behind > equal)), int(behind[-1])
        ranges, unpivoted = lists.universal - by_value, entries - lists.universal
        return {"columns": self.space.columns, "pivots": pivots, "ranges": ranges, "unpivoted": unpivoted}

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost:
        return cost_of_pivots(self._lists, self._rows, self.space, frequency)

    def _make_scratch(self) -> tuple[NDArray[Any], ...]:
        """Makes the scratch arrays of one thread, as the kernel takes them."""
        columns = self.space.columns
        signature = np.zeros(min(columns, SLOTS) + 1, dtype=np.uint16)
        signature[0] = 0xFFFF
        room = len(self._lists.entries) // 4 + 1
        return signature, np.zeros(columns, dtype=np.int32), np.empty(room, dtype=np.int64)


def _check_directory(directory: NDArray[np.uint32], base: NDArray[np.int64], universal: int) -> None:
    """Checks that runs of different columns share no clause: an event then visits no entry twice, so the output has room for all."""
    if not len(directory):
        return
    equal, behind, first, last = directory.reshape(-1, 4).T
    check(equal[0] == 0 and (equal[1:] == behind[:-1]).all() and (equal <= behind).all(), "runs by value overlap")
    check((first[1:] >= first[:-1]).all() and (last[1:] >= last[:-1]).all(), "range runs do not ascend")
    ends = np.append(base[1:] - 1, len(last) - 1)
    check(behind[-1] <= first[0] and (last[ends[:-1]] <= first[base[1:]]).all(), "range runs overlap")
    check(last[-1] <= universal, "runs go beyond the last pivot")
