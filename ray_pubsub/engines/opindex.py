"""OpIndex (Zhang, Chan, Tan: An Efficient Publish/Subscribe Index for E-Commerce Databases) as a segment: kernels/predicate_lists.py.

What was replaced, and why:
- Hash maps by pivot are arrays by column; a list's directory and signatures are arrays, too, and the three lists of a pivot are laid out
  segment by segment, so that one cache line answers for an event's value.
- Operators are those of codes: every test is a union of code intervals, and becomes =, <= and >= on them.
- The operators of section 6.2 need no lists of their own. A prefix is an interval of strings, so its trie is the sorted list of operands,
  and it is counted like any interval. Every other pattern is a column on which a string that matches has one code: the predicate is an
  equality. What matches a string is found for all patterns of an attribute at once, before matching and once per distinct string
  (columns/pattern_set.py): suffixes and inner texts by a trie with failure links, in place of the paper's RE-tree the text that a pattern
  requires, looked for by the same trie, and automata for sets of the patterns that require none.
- Values have kinds, which the paper's have not: "at least 5" ends where the numbers end. A scan therefore stays within the kind of the
  event's value.
- A test that admits absence (`x is null or x > 5`), which the paper does not know, is no predicate; it is checked when the others hold.
  Clauses of such tests only, or of none, are in one universal partition, which every event visits.

DNF (section 6.1) is several clauses with one owner; CNF is engines/opindex_cnf.py, whatever the engine. Insertion and removal are the live
index's.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import KINDS, MATCH, CodedTests, CodeSpace
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_segment import CodedSegment
from ray_pubsub.engines.plan import Partitions
from ray_pubsub.engines.trace import OwnTests, Trace, Traced, ranges, values_of
from ray_pubsub.kernels import predicate_lists
from ray_pubsub.kernels.pivot_lists import count_order
from ray_pubsub.kernels.predicate_lists import AT_LEAST, AT_MOST, EQUAL, OPERATORS

__all__ = ["OpIndexSegment"]

SMALL_COUNTER = 255


class OpIndexSegment(CodedSegment):
    """`frequency`: per attribute number, the part of events that carry it; by default as often as predicates name it (section 4.1).
    `segments` and `bits` are the paper's b and w."""

    engine = "opindex"

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: NDArray[np.float64] | None = None,
        *,
        segments: int = 32,
        bits: int = 64,
    ) -> None:
        assert segments >= 1 and 1 <= bits <= 64
        self._frequency, self._segments, self._bits = frequency, segments, bits
        self._scratch = threading.local()
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        space, count = coded.space, len(coded.offsets) - 1
        self._tracks = _tracks(space)
        self._base = np.concatenate([[0], np.cumsum(space.top.astype(np.int64) + 1)])
        need = np.zeros(len(coded.column), np.int32)
        test_of, operator, operand = self._rewritten(coded, need)
        frequency = self._frequencies(space, coded.column[test_of])
        pivots, initial = np.empty(count, np.int64), np.empty(count, np.int32)
        optional = np.zeros(count, bool)
        predicate_lists.choose_pivots(
            coded.offsets, coded.column, coded.low, frequency, need, pivots, initial, optional
        )
        order, starts = count_order(pivots, space.columns + 1)
        self._order: NDArray[np.int32] = order.astype(np.int32)
        self.pivots = np.unique(pivots[pivots < space.columns])
        """The columns that are some clause's pivot."""
        self._partition_of = np.full(space.columns, -1, np.int64)
        self._partition_of[self.pivots] = np.arange(len(self.pivots))
        self._partition_starts = np.concatenate([starts[self.pivots], starts[space.columns], [count]], axis=None)
        counter = np.uint8 if initial.max(initial=0) <= SMALL_COUNTER else np.int32
        self._initial = initial[order].astype(counter)
        self._optional = optional[order]
        position = np.empty(count, np.int32)
        position[order] = np.arange(count, dtype=np.int32)
        clause_of_test = np.repeat(np.arange(count), np.diff(coded.offsets))
        self._fill(coded.column[test_of], operator, operand, clause_of_test[test_of], pivots, position)

    def _rewritten(self, coded: CodedTests, need: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """The predicates: the test each comes from, its operator and its operand. Counted first, then written."""
        pieces = np.empty(0, np.int32) if coded.pieces is None else coded.pieces
        total = 0
        for writing in (False, True):
            parts = np.empty(total, np.int32), np.empty(total, np.int8), np.empty(total, np.int32)
            total = predicate_lists.rewrite_tests(
                coded.column, coded.low, coded.high, pieces, coded.piece_offsets, coded.piece_low, coded.piece_high,
                self._tracks, writing, need, *parts,
            )  # fmt: skip
        return parts

    def _frequencies(self, space: CodeSpace, named: NDArray[np.int32]) -> NDArray[np.float64]:
        if self._frequency is None:
            return np.bincount(named, minlength=space.columns).astype(np.float64)
        attributes = np.concatenate([space.attributes, [pattern.attribute for pattern in space.patterns]]).astype(
            np.int64
        )
        found = np.ones(len(attributes))
        known = attributes < len(self._frequency)
        found[known] = self._frequency[attributes[known]]
        return found

    def _fill(
        self, column: NDArray[np.int32], operator: NDArray[np.int8], operand: NDArray[np.int32], clause: NDArray[np.int64],
        pivots: NDArray[np.int64], position: NDArray[np.int32],
    ) -> None:  # fmt: skip
        lists = OPERATORS * max(1, len(self.pivots))
        # More segments than predicates in a list would only be empty ones.
        self._segments = max(1, min(self._segments, len(column) // lists))
        partition = self._partition_of[pivots[clause]]
        group = (partition * self._segments + column % self._segments) * OPERATORS + operator
        groups = lists * self._segments
        key = self._base[column] + operand
        by_key = np.argsort(key, kind="stable")
        within, starts = count_order(group[by_key], groups)
        sorted_ = by_key[within]
        self._group_offsets = starts[: groups + 1].astype(np.uint32)
        self._keys = key[sorted_].astype(np.uint32 if self._base[-1] < 2**32 else np.int64)
        self._targets = position[clause[sorted_]]
        self._signatures = np.zeros(groups, np.uint64)
        predicate_lists.sign_groups(
            self._group_offsets, self._keys, column[sorted_], self._bits, OPERATORS, self._signatures
        )

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        coded, events = self.coded, len(codes.offsets) - 1
        offsets = np.zeros(events + 1, np.int64)
        out = np.empty(max(1024, 256 * events), np.int32)
        event = 0
        while event < events:
            event, needed = predicate_lists.match_lists(
                event, codes.offsets, codes.column, codes.code, self._base, self._tracks, self._partition_of,
                self._partition_starts, self._segments, self._bits, self._signatures, self._group_offsets, self._keys,
                self._targets, self._initial, self._optional, self._order,
                coded.offsets, coded.column, coded.low, coded.high, *self._buffers(), offsets, out,
            )  # fmt: skip
            if event < events:
                out = np.concatenate([out, np.empty(len(out) + needed, np.int32)])
        return offsets, out[: offsets[-1]]

    def _trace(self, codes: EventCodes) -> Traced:
        """Partition by partition; OpIndex estimates nothing once the pivots are chosen."""
        values, count = values_of(codes, self.coded.space.columns), len(self)
        carried = codes.column[codes.code > 0]
        universal = self._order[self._partition_starts[-2] :]
        traces, verified = [], len(universal)
        for column in carried[self._partition_of[carried] >= 0].tolist():
            trace, compared = self._trace_partition(column, carried, values)
            traces.append(trace)
            verified += compared
        if len(universal):
            traces.append(Trace("no pivot", len(universal)))
            traces[-1].numbers = self._holding(universal, values)
            traces[-1].add("", "own tests compared", len(traces[-1].numbers))
        visited = sum(trace.clauses for trace in traces)
        skipped = len(self.pivots) + (len(universal) > 0) - len(traces)
        return Traced(Partitions("pivots", len(traces), skipped, visited, count - visited), traces, verified)

    def _trace_partition(self, pivot: int, carried: NDArray[np.int32], values: NDArray[np.int32]) -> tuple[Trace, int]:
        """What is left of a pivot's clauses, and how many were compared. A clause is left as long as its counter can still reach zero: no
        attribute so far has failed to count for it."""
        partition = int(self._partition_of[pivot])
        first, last = self._partition_starts[partition : partition + 2].tolist()
        numbers, missing = self._order[first:last], self._initial[first:last].astype(np.int64)
        clause, column, need = self._needs(numbers)
        trace, alive = Trace(f"pivot {self._named(pivot)}", len(numbers)), np.ones(len(numbers), bool)
        found = {place: self._counted(partition, place, int(values[place])) for place in carried.tolist()}
        passed = [place for place, lists in found.items() if not lists]
        alive[clause[np.isin(column, passed) & (need > 0)]] = False
        if passed:
            trace.add(self._named(*passed), "passed over by signature", int(alive.sum()))
        for place, lists in found.items():
            if not lists:
                continue
            counted = np.bincount(np.concatenate([*lists.values()]) - first, minlength=len(numbers))
            chosen = column == place
            alive &= counted >= np.bincount(clause[chosen], need[chosen], len(numbers))
            missing -= counted
            trace.add(self._named(place), f"lists searched: {' '.join(lists)}", int(alive.sum()))
        done = np.flatnonzero(missing == 0)
        trace.add("", "counters at zero", len(done))
        optional = self._optional[first + done]
        trace.numbers = numbers[done]
        if optional.any():
            compared = self._holding(trace.numbers[optional], values)
            trace.numbers = np.concatenate([trace.numbers[~optional], compared])
            trace.add("", "tests that admit absence compared", len(trace.numbers))
        return trace, int(optional.sum())

    def _needs(self, numbers: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """The tests of some clauses: which of the clauses, the column, and how many predicates must count for it."""
        coded = self.coded
        starts = coded.offsets[numbers]
        lengths = coded.offsets[numbers + 1] - starts
        test = ranges(starts, lengths)
        need, pieces = (
            np.zeros(len(test), np.int32),
            np.empty(0, np.int32) if coded.pieces is None else coded.pieces[test],
        )
        predicate_lists.rewrite_tests(
            coded.column[test], coded.low[test], coded.high[test], pieces, coded.piece_offsets, coded.piece_low,
            coded.piece_high, self._tracks, False, need, np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int32),
        )  # fmt: skip
        return np.repeat(np.arange(len(numbers)), lengths), coded.column[test], need

    def _counted(self, partition: int, column: int, code: int) -> dict[str, NDArray[np.int32]]:
        """The lists of a partition that signatures leave for a value: operator → the positions it counts for."""
        base, track = int(self._base[column]), predicate_lists.track_of(self._tracks, column, code)
        group = (partition * self._segments + column % self._segments) * OPERATORS
        first, last = base + int(self._tracks[column, track]), base + int(self._tracks[column, track + 1]) - 1
        key, found = base + code, {}
        equality, ranged = (
            predicate_lists.equality_bit(key, self._bits),
            predicate_lists.range_bit(column, self._bits),
        )
        for name, operator, mask, lowest, highest in (
            ("=", EQUAL, equality, key, key), ("<=", AT_MOST, ranged, key, last), (">=", AT_LEAST, ranged, first, key),
        ):  # fmt: skip
            if int(self._signatures[group + operator]) & int(mask):
                run = slice(*self._group_offsets[group + operator : group + operator + 2].tolist())
                kind = self._keys.dtype.type
                start = np.searchsorted(self._keys[run], kind(lowest))
                end = np.searchsorted(self._keys[run], kind(highest), side="right")
                found[name] = self._targets[run][start:end]
        return found

    def _holding(self, numbers: NDArray[np.int32], values: NDArray[np.int32]) -> NDArray[Any]:
        coded = self.coded
        return OwnTests(numbers, coded.offsets, coded.column, coded.low, coded.high, values).left()

    def _buffers(self) -> tuple[Any, ...]:
        buffers: tuple[Any, ...] | None = getattr(self._scratch, "buffers", None)
        if buffers is None:
            columns = self.coded.space.columns
            buffers = (
                np.zeros(columns, np.int32),
                np.empty_like(self._initial),
                np.empty((columns, 5), np.int64),
                np.empty((columns, 2), np.uint64),
                np.empty(columns, np.int64),
            )
            self._scratch.buffers = buffers
        return buffers

    def _index_bytes(self) -> int:
        own = [part for name, part in vars(self).items() if isinstance(part, np.ndarray) and name != "owners"]
        return sum(part.nbytes for part in own)


def _tracks(space: CodeSpace) -> NDArray[np.int32]:
    """Per column the first code of each kind, and the code behind the last kind. A pattern's codes are one run."""
    columns = len(space.attributes)
    tracks = np.full((space.columns, KINDS + 1), MATCH + 1, np.int32)
    tracks[:columns, :KINDS] = space.base.reshape(columns, KINDS)
    tracks[:columns, KINDS] = space.top[:columns] + 1
    tracks[columns:, 0] = 1
    return tracks
