"""OpIndex (Zhang, Chan, Tan: An Efficient Publish/Subscribe Index for E-Commerce Databases) as a segment:
kernels/papers/predicate_lists.py.

What was replaced, and why:
- Hash maps by pivot are arrays by column; a list's directory and signatures are arrays, too, and the three lists of a pivot are laid out
  segment by segment, so that one cache line answers for an event's value.
- Operators are those of codes: every test is a union of code intervals, and becomes =, <= and >= on its hull. The gaps of a set, of `!=`
  or of `not between` are compared for the clauses whose other predicates are all counted (engines/interval_gaps.py).
- The operators of section 6.2 need no lists of their own. A prefix is an interval of strings, so its trie is the sorted list of operands,
  and it is counted like any interval. Every other pattern is a column on which a string that matches has one code: the predicate is an
  equality. What matches a string is found for all patterns of an attribute at once, before matching and once per distinct string
  (columns/pattern_set.py): suffixes and inner texts by a trie with failure links, in place of the paper's RE-tree the text that a pattern
  requires, looked for by the same trie, and automata for sets of the patterns that require none.
- Values have kinds, which the paper's have not: "at least 5" ends where the numbers end. A scan therefore stays within the kind of the
  event's value.
- A test that admits absence (`x is null or x > 5`), which the paper does not know, is no predicate; it is checked when the others hold.
  Clauses of such tests only, or of none, are in one universal partition, which every event visits.

DNF (section 6.1) is several clauses with one owner; CNF is engines/cnf/conjunctive_index.py, whatever the engine. Insertion and removal
are the live index's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import KINDS, MATCH, CodedTests, CodeSpace
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.column_frequency import column_frequency
from ray_pubsub.engines.contract import PivotCost
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import OwnTests, Trace, Traced, ranges, values_of
from ray_pubsub.engines.papers.coded_segment import CodedSegment, events_of, tests_of
from ray_pubsub.kernels.papers import predicate_lists
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests
from ray_pubsub.kernels.papers.predicate_lists import AT_LEAST, AT_MOST, EQUAL, OPERATORS
from ray_pubsub.kernels.pivot.pivot_lists import count_order

__all__ = ["OpIndexSegment"]

SMALL_COUNTER = 255


class OpIndexSegment(CodedSegment):
    """`frequency`: for each attribute number the share of events that have it; by default proportional to how often predicates name it
    (section 4.1). `segments` and `bits` are the paper's b and w."""

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
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        space, count = coded.space, len(coded.offsets) - 1
        tracks, base = _tracks(space), np.concatenate([[0], np.cumsum(space.top.astype(np.int64) + 1)])
        need = np.zeros(len(coded.column), np.int32)
        written = _rewritten(coded, tracks, need)
        frequency = self._frequencies(space, coded.column[written.test])
        pivots, initial = np.empty(count, np.int64), np.empty(count, np.int32)
        optional = np.zeros(count, bool)
        predicate_lists.choose_pivots(tests_of(coded), frequency, need, pivots, initial, optional)
        order, starts = count_order(pivots, space.columns + 1)
        self.pivots = np.unique(pivots[pivots < space.columns])
        """The columns that are some clause's pivot."""
        of_column = np.full(space.columns, -1, np.int64)
        of_column[self.pivots] = np.arange(len(self.pivots))
        partition_starts = np.concatenate([starts[self.pivots], starts[space.columns], [count]], axis=None)
        counter = np.uint8 if initial.max(initial=0) <= SMALL_COUNTER else np.int32
        partitions = predicate_lists.Partitions(
            of_column, partition_starts, order.astype(np.int32), initial[order].astype(counter), optional[order]
        )
        position = np.empty(count, np.int32)
        position[order] = np.arange(count, dtype=np.int32)
        clause = np.repeat(np.arange(count), np.diff(coded.offsets))[written.test]
        column = coded.column[written.test]
        lists = self._lists(column, written, base, of_column[pivots[clause]], position[clause])
        self._index = predicate_lists.ListIndex(base, tracks, partitions, lists)

    def _frequencies(self, space: CodeSpace, named: NDArray[np.int32]) -> NDArray[np.float64]:
        if self._frequency is None:
            return np.bincount(named, minlength=space.columns).astype(np.float64)
        return column_frequency(space, self._frequency)

    def pivot_cost(self, frequency: NDArray[np.float64]) -> PivotCost:
        """Returns what the formula minimizes: an event visits the clauses of every pivot that it has."""
        coded, partitions = self.coded, self._index.partitions
        shares = column_frequency(coded.space, frequency)
        now = shares[self.pivots] @ np.diff(partitions.starts)[: len(self.pivots)]
        needed = np.append(np.where(coded.low > 0, shares[coded.column], np.inf), np.inf)
        least = np.minimum.reduceat(needed, coded.offsets[:-1])[np.diff(coded.offsets) > 0]
        return PivotCost(float(now), float(least[np.isfinite(least)].sum()))

    def _lists(
        self,
        column: NDArray[np.int32],
        written: predicate_lists.Written,
        base: NDArray[np.int64],
        partition: NDArray[np.int64],
        position: NDArray[np.int32],
    ) -> predicate_lists.Lists:
        """Takes for each predicate its column, its partition, and the position to count for."""
        count = OPERATORS * max(1, len(self.pivots))
        # A list with fewer predicates than segments would only have empty segments.
        segments = max(1, min(self._segments, len(column) // count))
        group = (partition * segments + column % segments) * OPERATORS + written.operator
        groups = count * segments
        key = base[column] + written.operand
        by_key = np.argsort(key, kind="stable")
        within, starts = count_order(group[by_key], groups)
        chosen = by_key[within]
        keys = key[chosen].astype(np.uint32 if base[-1] < 2**32 else np.int64)
        offsets, signatures = starts[: groups + 1].astype(np.uint32), np.zeros(groups, np.uint64)
        lists = predicate_lists.Lists(signatures, offsets, keys, position[chosen], segments, self._bits)
        predicate_lists.sign_groups(lists, column[chosen])
        return lists

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        tests, in_columns, events = tests_of(self.coded), events_of(codes), len(codes.offsets) - 1
        offsets = np.zeros(events + 1, np.int64)
        out = np.empty(max(1024, 256 * events), np.int32)
        event = 0
        while event < events:
            event, needed = predicate_lists.match_lists(
                self._index, tests, in_columns, event, self._scratch(), offsets, out
            )
            if event < events:
                out = np.concatenate([out, np.empty(len(out) + needed, np.int32)])
        return offsets, out[: offsets[-1]]

    def _trace(self, codes: EventCodes) -> Traced:
        """Traces a match partition by partition. OpIndex estimates nothing once the pivots are chosen."""
        values, count = values_of(codes, self.coded.space.columns), len(self)
        partitions = self._index.partitions
        carried = codes.column[codes.code > 0]
        universal = partitions.order[partitions.starts[-2] :]
        traces, verified = [], len(universal)
        for column in carried[partitions.of_column[carried] >= 0].tolist():
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
        """Returns what is left of a pivot's clauses, and how many were compared. A clause is left while its counter can still reach zero,
        that is while no attribute so far has failed to count for it."""
        partitions = self._index.partitions
        partition = int(partitions.of_column[pivot])
        first, last = partitions.starts[partition : partition + 2].tolist()
        numbers, missing = partitions.order[first:last], partitions.initial[first:last].astype(np.int64)
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
        optional = partitions.optional[first + done]
        trace.numbers = numbers[done]
        if optional.any():
            compared = self._holding(trace.numbers[optional], values)
            trace.numbers = np.concatenate([trace.numbers[~optional], compared])
            trace.add("", "tests that admit absence compared", len(trace.numbers))
        return trace, int(optional.sum())

    def _needs(self, numbers: NDArray[np.int32]) -> tuple[NDArray[Any], ...]:
        """Returns the tests of some clauses: which of the clauses, the column, and how many predicates must count for it."""
        coded = self.coded
        starts = coded.offsets[numbers]
        lengths = coded.offsets[numbers + 1] - starts
        test = ranges(starts, lengths)
        need, tests = np.zeros(len(test), np.int32), tests_of(coded)
        chosen = ClauseTests(tests.offsets, *(part[test] for part in tests[1:]))
        _rewrite(chosen, _pieces(coded, test), self._index.tracks, need, None)
        return np.repeat(np.arange(len(numbers)), lengths), coded.column[test], need

    def _counted(self, partition: int, column: int, code: int) -> dict[str, NDArray[np.int32]]:
        """Returns the lists of a partition that signatures leave for a value: operator → the positions it counts for."""
        tracks, lists = self._index.tracks, self._index.lists
        base, track = int(self._index.base[column]), predicate_lists.track_of(tracks, column, code)
        group = (partition * lists.segments + column % lists.segments) * OPERATORS
        first, last = base + int(tracks[column, track]), base + int(tracks[column, track + 1]) - 1
        key, found = base + code, {}
        equality, ranged = (
            predicate_lists.signature_bit(key, self._bits),
            predicate_lists.signature_bit(column, self._bits),
        )
        for name, operator, mask, lowest, highest in (
            ("=", EQUAL, equality, key, key), ("<=", AT_MOST, ranged, key, last), (">=", AT_LEAST, ranged, first, key),
        ):  # fmt: skip
            if int(lists.signatures[group + operator]) & int(mask):
                run = slice(*lists.offsets[group + operator : group + operator + 2].tolist())
                kind = lists.keys.dtype.type
                start = np.searchsorted(lists.keys[run], kind(lowest))
                end = np.searchsorted(lists.keys[run], kind(highest), side="right")
                found[name] = lists.targets[run][start:end]
        return found

    def _holding(self, numbers: NDArray[np.int32], values: NDArray[np.int32]) -> NDArray[Any]:
        coded = self.coded
        return OwnTests(numbers, coded.offsets, coded.column, coded.low, coded.high, values).left()

    def _details(self) -> dict[str, int]:
        return {
            "pivots": len(self.pivots),
            "predicates": len(self._index.lists.keys),
            "segments": self._index.lists.segments,
        }

    def _new_scratch(self) -> predicate_lists.Scratch:
        columns = self.coded.space.columns
        return predicate_lists.Scratch(
            np.zeros(columns, np.int32),
            np.empty_like(self._index.partitions.initial),
            np.empty((columns, 5), np.int64),
            np.empty((columns, 2), np.uint64),
            np.empty(columns, np.int64),
        )


def _rewritten(coded: CodedTests, tracks: NDArray[np.int32], need: NDArray[np.int32]) -> predicate_lists.Written:
    """Returns all tests as predicates. Counted first, then written."""
    total = _rewrite(tests_of(coded), _pieces(coded), tracks, need, None)
    written = predicate_lists.Written(np.empty(total, np.int32), np.empty(total, np.int8), np.empty(total, np.int32))
    _rewrite(tests_of(coded), _pieces(coded), tracks, need, written)
    return written


def _rewrite(
    tests: ClauseTests,
    pieces: predicate_lists.Pieces,
    tracks: NDArray[np.int32],
    need: NDArray[np.int32],
    written: predicate_lists.Written | None,
) -> int:
    """Fills in `need`, and `written` if it is given; returns the number of predicates."""
    nothing = predicate_lists.Written(np.empty(0, np.int32), np.empty(0, np.int8), np.empty(0, np.int32))
    given = nothing if written is None else written
    return int(predicate_lists.rewrite_tests(tests, pieces, tracks, written is not None, need, given))


def _pieces(coded: CodedTests, chosen: Any = slice(None)) -> predicate_lists.Pieces:
    of_test = np.empty(0, np.int32) if coded.pieces is None else coded.pieces[chosen]
    return predicate_lists.Pieces(of_test, coded.piece_offsets, coded.piece_low, coded.piece_high)


def _tracks(space: CodeSpace) -> NDArray[np.int32]:
    """Returns for each column the first code of each kind, and the code after the last kind. A pattern's codes are one run."""
    columns = len(space.attributes)
    tracks = np.full((space.columns, KINDS + 1), MATCH + 1, np.int32)
    tracks[:columns, :KINDS] = space.base.reshape(columns, KINDS)
    tracks[:columns, KINDS] = space.top[:columns] + 1
    tracks[columns:, 0] = 1
    return tracks
