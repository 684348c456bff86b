"""The code space of a block: for every attribute that its clauses test, the code of each value and the codes that each test admits.

An attribute is a column of the block. Code 0 means absence; then each kind of value has a contiguous range of codes, its track
(kernels/columns/coding.py). Because all kinds share one axis, every test is a union of code intervals, and mostly a single interval.

A pattern is a column of its own, on which an event has code 0 (not a string), 1 (no match) or 2 (match): a pattern is evaluated once per
distinct string, not once per clause. A clause with a negated pattern also tests that the attribute is a string. Codes 0 and 1 are
therefore equivalent there, and an event needs no code for the patterns that do not match it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.opaque.pattern_list import PatternList
from ray_pubsub.columns.test_records import ABSENCE, Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.code_space import TRACK_DTYPES, Bounds, CodeIntervals, Pieces
from ray_pubsub.kernels.columns.coding import Ranges, bound_codes, encode_each, operand_ranges
from ray_pubsub.kernels.columns.opaque_sets import NEGATED_PATTERN
from ray_pubsub.kernels.columns.pattern_tests import ClauseTests, SetPatterns, add_pattern_tests, count_patterns
from ray_pubsub.kernels.columns.runs import distinct_pairs, join_runs
from ray_pubsub.model.values import Kind

__all__ = ["CodeSpace", "CodedTests", "code_clauses", "track_layout"]

KINDS = len(Kind)
RANKED = np.iinfo(np.int64).min
"""The value of `least` for a track whose operands are listed in memory."""
UNKNOWN, NO_MATCH, MATCH = 0, 1, 2
LARGEST_CODE = 2**30
MOST_SPARSE = 16
"""A table of all strings of the vocabulary is made if it is at most this many times as large as what is looked up."""


@dataclass(slots=True, eq=False)
class CodeSpace:
    """Columns 0 … len(attributes) - 1 are attributes, the others are patterns. The track of a column and kind has the number column * 4 +
    kind."""

    attributes: NDArray[np.int32]
    patterns: PatternList
    base: NDArray[np.int32]
    count: NDArray[np.int64]
    least: NDArray[np.int64]
    start: NDArray[np.int64]
    operand_whole: NDArray[np.int64]
    operand_rest: NDArray[np.float64]
    strings: dict[int, list[str]]
    """The sorted string operands of each column."""
    top: NDArray[np.int32]
    """The largest code of each column."""
    plans: dict[Any, Any] = field(default_factory=dict)
    """Cache of event_codes.py: how the events of a layout are coded."""
    single_plans: dict[Any, Any] = field(default_factory=dict)
    """Cache of event_codes.py for single events."""
    lanes: dict[tuple[str, int], int] = field(default_factory=dict)
    """Cache of event_codes.py: the track of an attribute and kind."""
    new_layouts: set[int] = field(default_factory=set)
    """Cache of event_codes.py: the layouts, as hashes, of single events that have no plan yet."""
    pattern_sets: dict[int, Any] = field(default_factory=dict)
    """Cache of event_codes.py: how patterns are evaluated."""
    string_tables: dict[int, Any] = field(default_factory=dict)
    """Cache of event_codes.py: how strings are coded."""
    refusals: set[int] = field(default_factory=set)
    """Pattern columns in which some test admits NO_MATCH alone, rather than both UNKNOWN and NO_MATCH."""
    string_codes: dict[int, dict[str, int]] = field(init=False)
    """The code of each string operand, by column."""
    row: NDArray[np.int64] = field(init=False)
    """The addresses of Tracks' arrays, as kernels read them; the arrays are never replaced (kernels/columns/code_space.py)."""

    def __post_init__(self) -> None:
        addresses = []
        for name, dtype in TRACK_DTYPES.items():
            array = np.require(getattr(self, name), dtype, ["C", "ALIGNED"])
            setattr(self, name, array)
            addresses.append(array.ctypes.data)
        self.row = np.array([*addresses, len(self.base), len(self.operand_whole)], np.int64)
        self.string_codes = {}
        for column, texts in self.strings.items():
            first = self.base.item(column * KINDS + Kind.STRING) + 1
            self.string_codes[column] = dict(zip(texts, range(first, first + 2 * len(texts), 2), strict=True))

    @property
    def columns(self) -> int:
        return len(self.attributes) + len(self.patterns)

    def columns_of(self, attributes: NDArray[np.int32]) -> NDArray[np.int32]:
        """Returns the columns of attribute numbers, -1 where no clause tests the attribute."""
        if not len(self.attributes):
            return np.full(len(attributes), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.attributes, attributes), len(self.attributes) - 1)
        return np.where(self.attributes[place] == attributes, place, -1).astype(np.int32)

    def encode(self, track: NDArray[Any], whole: NDArray[Any], rest: NDArray[Any]) -> NDArray[np.int32]:
        codes = np.empty(len(track), dtype=np.int32)
        encode_each(track, whole, rest, self.row, codes)
        return codes


@dataclass(slots=True, eq=False)
class CodedTests:
    """The tests of a table's clauses in a code space. Test i admits codes within low[i] … high[i]. If it consists of several intervals,
    they are `piece_low/high[piece_offsets[k]:piece_offsets[k + 1]]`, ascending, with k = pieces[i]; otherwise pieces[i] is -1. `pieces`
    is None if no test has several intervals."""

    space: CodeSpace
    offsets: NDArray[np.int64]
    column: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    pieces: NDArray[np.int32] | None
    piece_offsets: NDArray[np.int64]
    piece_low: NDArray[np.int32]
    piece_high: NDArray[np.int32]


def code_clauses(table: ClauseTable, vocabulary: Vocabulary, *, sparseness: float) -> CodedTests:
    """Codes all tests of the table. A track of integers that uses at least one in `sparseness` of the integers between its least and
    largest operand needs no dictionary: the rank is a subtraction instead of a search in cold memory.

    The clauses must either all be of alternatives, or none."""
    records = table.tests[: table.test_count]
    offsets = table.offsets[: table.count + 1]
    used = table.uses() > 0
    attributes = np.flatnonzero(used).astype(np.int32)
    # Usually every attribute is used, so its number is its column.
    attribute = np.ascontiguousarray(records["attribute"])
    column = attribute if used.all() else (np.cumsum(used, dtype=np.int32) - 1)[attribute]
    form = records["form"]
    is_opaque = form & Form.OPAQUE != 0
    opaque_records = np.flatnonzero(is_opaque)
    operands = _Operands(vocabulary)
    tests = operands.add(column, records, ~is_opaque)
    # A set is coded once, however many clauses share it; its pieces are ordinary records.
    which, first = distinct_pairs(column[opaque_records], np.ascontiguousarray(records["low_whole"][opaque_records]))
    sets = _Sets(table.opaque.take(records["low_whole"][opaque_records[first]]), column[opaque_records[first]])
    pieces = operands.add(sets.piece_column, sets.bounds, ~sets.absent)
    space = operands.space(attributes, sparseness)
    coded = CodedTests(space, offsets, column, *tests.codes(space), None, np.zeros(1, np.int64), NOTHING, NOTHING)
    if (form & (Form.CONTINUED | Form.EXCLUDED)).any():
        coded = _joined_runs(coded, np.ascontiguousarray(form), tests.track)
        # The numbers of the tests that the opaque records belong to.
        opaque_tests = (np.cumsum(form & Form.CONTINUED == 0) - 1)[opaque_records]
    else:
        opaque_tests = opaque_records
    if not len(opaque_tests):
        return coded
    alternatives = bool(form[opaque_records[0]] & Form.ALTERNATIVE)
    return _with_sets(
        coded, opaque_tests, which, sets.coded(space, *pieces.codes(space)), sets, vocabulary, alternatives
    )


NOTHING = np.empty(0, np.int32)


def _joined_runs(coded: CodedTests, form: NDArray[np.uint8], track: NDArray[np.int32]) -> CodedTests:
    """Converts records to tests: sorts the pieces of each run and joins those that touch."""
    tests = int(np.count_nonzero(form & Form.CONTINUED == 0))
    excluded = int(np.count_nonzero(form & (Form.EXCLUDED | Form.CONTINUED) == Form.EXCLUDED))
    room = len(form) + excluded
    offsets = np.empty(len(coded.offsets), np.int64)
    records = CodeIntervals(coded.column, coded.low, coded.high)
    joined = CodeIntervals(*(np.empty(tests, np.int32) for _ in range(3)))
    piece_offsets = np.zeros(tests + 1, np.int64)
    pieces = Pieces(np.empty(tests, np.int32), piece_offsets, np.empty(room, np.int32), np.empty(room, np.int32))
    several, used = join_runs(coded.offsets, form, records, track, coded.space.row, offsets, joined, pieces)
    return CodedTests(
        coded.space, offsets, *joined, pieces.number if several else None,
        piece_offsets[: several + 1].copy(), pieces.low[:used].copy(), pieces.high[:used].copy(),
    )  # fmt: skip


def track_layout(count: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns where the codes of each track begin, and each column's largest code, given the number of operands of each track."""
    sizes = (2 * count + 1).reshape(-1, KINDS)
    ends = 1 + np.cumsum(sizes, axis=1)
    return (ends - sizes).reshape(-1), ends[:, -1] - 1


BOUNDS = (("low_side", "low_whole", "low_rest"), ("high_side", "high_whole", "high_rest"))


class _Bounds:
    """Records of intervals, with those of their bounds that are strings."""

    def __init__(self, column: NDArray[np.int32], tests: Any, chosen: NDArray[np.bool_]) -> None:
        """`chosen` marks the records that are intervals."""
        self.tests = tests
        self.track = column * np.int32(KINDS) + tests["kind"]
        self._column = column
        is_string = chosen & (tests["kind"] == Kind.STRING)
        self.is_number = chosen & ~is_string
        self.strings = [np.flatnonzero(is_string & (tests[side] != Side.NONE)) for side, _, _ in BOUNDS]
        self.pairs: list[NDArray[np.int64]] = []
        """For each bound, and each of `strings`, its position among the distinct pairs of column and string."""

    def string_operands(self) -> tuple[list[NDArray[np.int32]], list[NDArray[np.int64]]]:
        """Returns the columns and numbers of the strings, for each bound."""
        columns = [self._column[places] for places in self.strings]
        return columns, [self.tests[whole][places] for places, (_, whole, _) in zip(self.strings, BOUNDS, strict=True)]

    def codes(self, space: CodeSpace) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Returns the first and the last code that each record admits; for records that are not intervals the result is arbitrary."""
        bounds = []
        for upper, (side, whole, rest) in enumerate(BOUNDS):
            codes = np.empty(len(self.track), dtype=np.int32)
            places, sides = self.strings[upper], self.tests[side]
            if len(places):  # string operands are not among the numbers
                sides = sides.copy()
                sides[places] = Side.NONE
            bound_codes(self.track, Bounds(sides, self.tests[whole], self.tests[rest]), space.row, upper == 1, codes)
            if len(places):
                codes[places] = space.base[self.track[places]] + 2 * self._ranks[self.pairs[upper]] + 1
                codes[places] += self.tests[side][places].astype(np.int32) - upper
            bounds.append(codes)
        return bounds[0], bounds[1]

    def rank_strings(self, ranks: NDArray[np.int32], pairs: list[NDArray[np.int64]]) -> None:
        """Sets the ranks of the string bounds; `ranks` has the rank of each distinct pair within its column."""
        self._ranks, self.pairs = ranks, pairs


class _Operands:
    """Collects the operands of every track, then lays the tracks out."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._texts = vocabulary.strings.texts
        self._parts: list[_Bounds] = []

    def add(self, column: NDArray[np.int32], tests: Any, chosen: NDArray[np.bool_]) -> _Bounds:
        self._parts.append(_Bounds(column, tests, chosen))
        return self._parts[-1]

    def space(self, attributes: NDArray[np.int32], sparseness: float) -> CodeSpace:
        tracks = len(attributes) * KINDS
        count = np.zeros(tracks, dtype=np.int64)
        least = np.full(tracks, RANKED, dtype=np.int64)
        self._make_direct(count, least, sparseness)
        track, whole, rest = self._ranked(least)
        order = np.lexsort((rest, whole, track))
        track, whole, rest = track[order], whole[order], rest[order]
        fresh = np.ones(len(track), dtype=bool)
        fresh[1:] = (track[1:] != track[:-1]) | (whole[1:] != whole[:-1]) | (rest[1:] != rest[:-1])
        track, whole, rest = track[fresh], whole[fresh], rest[fresh]
        start = np.searchsorted(track, np.arange(tracks))
        count += np.bincount(track, minlength=tracks)
        strings = self._ordered_strings()
        for column, texts in strings.items():
            count[column * KINDS + Kind.STRING] = len(texts)
        base, top = track_layout(count)
        assert top.max(initial=0) < LARGEST_CODE - 1, "a block's operands fit 30 bits of codes"
        return CodeSpace(
            attributes=attributes,
            patterns=PatternList.none(),
            base=base.astype(np.int32),
            count=count,
            least=least,
            start=start.astype(np.int64),
            operand_whole=whole,
            operand_rest=rest,
            strings=strings,
            top=top.astype(np.int32),
        )

    def _ordered_strings(self) -> dict[int, list[str]]:
        """Returns the sorted strings of each column. Texts are compared once per string, not once per column that has the string."""
        each = [part.string_operands() for part in self._parts]
        columns = np.concatenate([column for found, _ in each for column in found])
        numbers = np.concatenate([number for _, found in each for number in found])
        if not len(columns):
            return {}
        which, first = distinct_pairs(columns, numbers)
        column, number = columns[first], numbers[first]
        used = np.unique(number)
        texts = [self._texts[each] for each in used.tolist()]
        order = np.array(sorted(range(len(texts)), key=texts.__getitem__))
        rank = np.empty(len(texts), np.int64)
        rank[order] = np.arange(len(texts))
        if len(self._texts) <= MOST_SPARSE * len(number):
            place_of = np.empty(len(self._texts), np.int64)
            place_of[used] = np.arange(len(used))
            place = place_of[number]
        else:
            place = np.searchsorted(used, number)
        sequence = np.argsort(column.astype(np.int64) * len(used) + rank[place])
        starts = np.flatnonzero(np.diff(column[sequence], prepend=-1))
        ends = np.append(starts[1:], len(sequence))
        ranks = np.empty(len(sequence), np.int32)
        ranks[sequence] = np.arange(len(sequence)) - np.repeat(starts, ends - starts)
        ends_of_parts = np.cumsum([len(places) for part in self._parts for places in part.strings])[:-1]
        parts = iter(np.split(which, ends_of_parts))
        for part in self._parts:
            part.rank_strings(ranks, [next(parts) for _ in part.strings])
        in_order = list(map(texts.__getitem__, place[sequence].tolist()))
        spans = zip(column[sequence[starts]].tolist(), starts.tolist(), ends.tolist(), strict=True)
        return {here: in_order[start:end] for here, start, end in spans}

    def _make_direct(self, count: NDArray[np.int64], least: NDArray[np.int64], sparseness: float) -> None:
        """Marks the tracks whose integers lie close enough together that their ranks are computed and need no list."""
        tracks = len(count)
        lowest, highest = np.full(tracks, np.iinfo(np.int64).max), np.full(tracks, np.iinfo(np.int64).min)
        uses, fractional = np.zeros(tracks, dtype=np.int64), np.zeros(tracks, dtype=np.bool_)
        ranges = Ranges(lowest, highest, uses, fractional)
        for part in self._parts:
            for fields in BOUNDS:
                bounds = Bounds(*(part.tests[name] for name in fields))
                operand_ranges(part.track, part.is_number, bounds, ranges)
        used = np.flatnonzero((uses > 0) & ~fractional & (lowest != RANKED))
        span = highest[used].astype(np.float64) - lowest[used]
        chosen = used[(span < 2**28) & (span <= sparseness * uses[used])]
        least[chosen] = lowest[chosen]
        count[chosen] = highest[chosen] - lowest[chosen] + 1
        self._has_ranked = len(chosen) < np.count_nonzero(uses)

    def _ranked(self, least: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Returns the operands of all other tracks: track, whole, rest."""
        tracks, wholes, rests = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
        for part in self._parts if self._has_ranked else ():
            listed = part.is_number & (least[part.track] == RANKED)
            for side, whole, rest in BOUNDS:
                chosen = np.flatnonzero(listed & (part.tests[side] != Side.NONE))
                tracks.append(part.track[chosen].astype(np.int64))
                wholes.append(part.tests[whole][chosen])
                rests.append(part.tests[rest][chosen])
        return np.concatenate(tracks), np.concatenate(wholes), np.concatenate(rests) + 0.0  # + 0.0 turns -0.0 into 0.0


class _Sets:
    """The sets that clauses test, each on one column."""

    def __init__(self, sets: OpaqueSets, column: NDArray[np.int32]) -> None:
        self.sets, self.column = sets, column
        self.piece_column = np.repeat(column, np.diff(sets.piece_offsets))
        self.bounds = sets.pieces
        self.absent = self.bounds["kind"] == ABSENCE
        if self.absent.any():  # absence has no track
            self.bounds["kind"][self.absent] = Kind.NUMBER

    def coded(self, space: CodeSpace, low: NDArray[np.int32], high: NDArray[np.int32]) -> CodedTests:
        """Returns the sets as if each were a clause with one test, which is a run of pieces."""
        low[self.absent] = high[self.absent] = 0
        form = np.full(len(low), Form.CONTINUED, np.uint8)
        form[self.sets.piece_offsets[:-1]] = Form.INTERVAL
        track = self.piece_column * np.int32(KINDS)
        none = np.zeros(1, np.int64)
        runs = CodedTests(space, self.sets.piece_offsets, self.piece_column, low, high, None, none, NOTHING, NOTHING)
        return _joined_runs(runs, form, track)


def _with_sets(
    coded: CodedTests, tests: NDArray[np.int64], which: NDArray[np.int64], found: CodedTests, sets: _Sets,
    vocabulary: Vocabulary, alternatives: bool,
) -> CodedTests:  # fmt: skip
    """Fills in the tests that are sets (test tests[i] is set which[i]), and adds a test on a pattern column for each pattern. A clause of
    alternatives has patterns only on their own (columns/disjunctions.py), so there the pattern's test replaces the set's."""
    pieces = np.full(len(coded.column), -1, dtype=np.int32) if coded.pieces is None else coded.pieces
    coded.low[tests], coded.high[tests] = found.low[which], found.high[which]
    if found.pieces is not None:
        mine = found.pieces[which]
        pieces[tests] = np.where(mine < 0, -1, mine + len(coded.piece_offsets) - 1)
    patterns = _PatternTests(coded.space, sets, vocabulary)
    if alternatives:
        patterns.replace_tests(coded, tests, which)
    coded = replace(
        coded,
        pieces=pieces,
        piece_offsets=np.concatenate([coded.piece_offsets, found.piece_offsets[1:] + coded.piece_offsets[-1]]),
        piece_low=np.concatenate([coded.piece_low, found.piece_low]),
        piece_high=np.concatenate([coded.piece_high, found.piece_high]),
    )
    return coded if alternatives else patterns.added_to(coded, tests, which)


class _PatternTests:
    """The tests on pattern columns of sets; set i has the tests `offsets[i]:offsets[i + 1]`. There are far fewer sets than tests that use
    them."""

    def __init__(self, space: CodeSpace, sets: _Sets, vocabulary: Vocabulary) -> None:
        self._space = space
        keys = sets.sets.patterns
        self._offsets = sets.sets.pattern_offsets
        self._negated = keys & NEGATED_PATTERN != 0
        self._implied = _are_implied(sets.sets, self._negated)
        column, key = np.repeat(sets.column, np.diff(self._offsets)), keys & ~NEGATED_PATTERN
        which, first = distinct_pairs(column, key)
        self._places = (which + len(space.attributes)).astype(np.int32)
        space.patterns = PatternList(space.attributes[column[first]], key[first], vocabulary)
        space.top = np.concatenate([space.top, np.full(len(first), MATCH, dtype=np.int32)])

    def replace_tests(self, coded: CodedTests, tests: NDArray[np.int64], which: NDArray[np.int64]) -> None:
        """Replaces every test of a set that has a pattern by the test on the pattern."""
        rows, mine = self._of(which)
        codes = np.where(self._negated[mine], NO_MATCH, MATCH)
        coded.column[tests[rows]] = self._places[mine]
        coded.low[tests[rows]] = coded.high[tests[rows]] = codes
        self._space.refusals.update(self._places[mine[self._negated[mine]]].tolist())

    def added_to(self, coded: CodedTests, tests: NDArray[np.int64], which: NDArray[np.int64]) -> CodedTests:
        """Returns the tests with one more for each pattern, in the clauses of the given tests."""
        if not len(self._places):
            return coded
        assert coded.pieces is not None
        low = np.where(self._negated, UNKNOWN, MATCH).astype(np.int32)
        high = np.where(self._negated, NO_MATCH, MATCH).astype(np.int32)
        patterns = SetPatterns(tests, which, self._offsets, self._places, low, high, self._implied)
        count = len(coded.column) + count_patterns(patterns)
        found = ClauseTests(np.empty(len(coded.offsets), np.int64), *(np.empty(count, np.int32) for _ in range(4)))
        given = ClauseTests(coded.offsets, coded.column, coded.low, coded.high, coded.pieces)
        add_pattern_tests(given, patterns, found)
        return replace(coded, **found._asdict())

    def _of(self, which: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns the tests that have patterns, repeated once per pattern, and those patterns' positions in the lists."""
        counts = np.diff(self._offsets)[which]
        ends = np.cumsum(counts)
        mine = np.arange(int(counts.sum())) + np.repeat(self._offsets[which] - ends + counts, counts)
        return np.repeat(np.arange(len(which)), counts), mine


def _are_implied(sets: OpaqueSets, negated: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Returns which sets admit all strings that match a pattern, and maybe others. `negated`: which patterns must not match."""
    some = np.flatnonzero(np.diff(sets.pattern_offsets))
    found = np.zeros(len(sets), np.bool_)
    if len(some):
        matched = np.logical_or.reduceat(~negated, sets.pattern_offsets[some])
        piece = sets.pieces[sets.piece_offsets[some]]
        unbounded = (piece["low_side"] == Side.NONE) & (piece["high_side"] == Side.NONE)
        alone = np.diff(sets.piece_offsets)[some] == 1
        found[some] = matched & alone & unbounded & (piece["kind"] == Kind.STRING)
    return found
