"""The code space of a block: for every attribute its clauses test, what code a value gets, and what codes a test admits.

Per attribute (a column of the block) code 0 is absence, then each kind has a run of codes (a track; kernels/coding.py). All kinds lie in
one line, so every test, whatever it says, is a union of code intervals; mostly one. A pattern is a column of its own, on which an event has
code 0 (not a string), 1 (no match) or 2 (match): patterns are asked once per distinct string, not once per clause. Beside a negated pattern
a clause has a test that the attribute is a string, so there 0 and 1 are as good, and an event needs no code for what does not match it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.coding import bound_codes, encode_each, operand_ranges
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, ValueSet
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind

__all__ = ["CodeSpace", "CodedTests", "PatternColumn", "code_clauses", "track_layout"]

KINDS = len(Kind)
RANKED = np.iinfo(np.int64).min
"""In `least`: the track's operands are in memory."""
UNKNOWN, NO_MATCH, MATCH = 0, 1, 2
LARGEST_CODE = 2**30


@dataclass(frozen=True, slots=True)
class PatternColumn:
    """A column that says whether a pattern (never negated) matches the attribute."""

    attribute: int
    leaf: Like | Regexp


@dataclass(slots=True, eq=False)
class CodeSpace:
    """Columns 0 … len(attributes) - 1 are attributes, the rest patterns. Track number column * 4 + kind."""

    attributes: NDArray[np.int32]
    patterns: list[PatternColumn]
    base: NDArray[np.int32]
    count: NDArray[np.int64]
    least: NDArray[np.int64]
    start: NDArray[np.int64]
    operand_whole: NDArray[np.int64]
    operand_rest: NDArray[np.float64]
    strings: dict[int, list[str]]
    """Column → its string operands, sorted."""
    string_ranks: dict[int, dict[str, int]]
    top: NDArray[np.int32]
    """Column → its largest code."""
    plans: dict[Any, Any] = field(default_factory=dict)
    """A place for event_codes.py to remember how a layout of events is coded."""
    pattern_sets: dict[int, Any] = field(default_factory=dict)
    """Another, for how patterns are asked."""
    refusals: set[int] = field(default_factory=set)
    """Pattern columns in which a test asks for NO_MATCH alone, not for UNKNOWN or NO_MATCH."""

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """What the coding kernels read."""
        return self.base, self.count, self.least, self.start, self.operand_whole, self.operand_rest

    @property
    def columns(self) -> int:
        return len(self.attributes) + len(self.patterns)

    def columns_of(self, attributes: NDArray[np.int32]) -> NDArray[np.int32]:
        """The columns of attribute numbers, -1 where no clause tests the attribute."""
        if not len(self.attributes):
            return np.full(len(attributes), -1, dtype=np.int32)
        place = np.minimum(np.searchsorted(self.attributes, attributes), len(self.attributes) - 1)
        return np.where(self.attributes[place] == attributes, place, -1).astype(np.int32)

    def encode(self, track: NDArray[Any], whole: NDArray[Any], rest: NDArray[Any]) -> NDArray[np.int32]:
        codes = np.empty(len(track), dtype=np.int32)
        encode_each(track, whole, rest, *self.arrays, codes)
        return codes


@dataclass(slots=True, eq=False)
class CodedTests:
    """The tests of a table's clauses in a code space. Test i admits the hull low[i] … high[i]; if it is more than one interval,
    those are `piece_low/high[piece_offsets[k]:piece_offsets[k + 1]]` with k = pieces[i], else pieces[i] is -1."""

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
    """Codes for all tests of the table. A track whose operands are integers, of which at least one in `sparseness` between the
    least and the largest is used, needs no dictionary: rank is a subtraction instead of a search in cold memory.

    The clauses are all of one sort: of alternatives, or not."""
    tests = table.tests[: table.test_count]
    offsets = table.offsets[: table.count + 1]
    used = table.uses() > 0
    attributes = np.flatnonzero(used).astype(np.int32)
    # Mostly every attribute is used, and its number is its column.
    attribute = np.ascontiguousarray(tests["attribute"])
    column = attribute if used.all() else (np.cumsum(used, dtype=np.int32) - 1)[attribute]
    is_opaque = tests["form"] & Form.OPAQUE != 0
    opaque_tests = np.flatnonzero(is_opaque)
    operands = _Operands(column, tests, is_opaque, vocabulary)
    # A set is coded once per column that uses it, however many clauses share it.
    opaque_pairs = list(zip(column[opaque_tests].tolist(), tests["low_whole"][opaque_tests].tolist(), strict=True))
    for place, number in set(opaque_pairs):
        operands.add_set(place, table.opaque[number][1])
    space = operands.space(attributes, sparseness)
    low, high = _interval_codes(space, vocabulary, column, operands.track, tests, is_opaque)
    nothing = np.empty(0, np.int32)
    coded = CodedTests(space, offsets, column, low, high, None, np.zeros(1, np.int64), nothing, nothing)
    if not len(opaque_tests):
        return coded
    alternatives = bool(tests["form"][opaque_tests[0]] & Form.ALTERNATIVE)
    return _with_opaque(coded, opaque_tests, opaque_pairs, table.opaque, alternatives)


def track_layout(count: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the codes of every track begin, and every column's largest code, for so many operands per track."""
    sizes = (2 * count + 1).reshape(-1, KINDS)
    ends = 1 + np.cumsum(sizes, axis=1)
    return (ends - sizes).reshape(-1), ends[:, -1] - 1


BOUNDS = (("low_side", "low_whole", "low_rest"), ("high_side", "high_whole", "high_rest"))


class _Operands:
    """Gathers the operands of every track, then lays the tracks out."""

    def __init__(
        self, column: NDArray[np.int32], tests: NDArray[Any], is_opaque: NDArray[np.bool_], vocabulary: Vocabulary
    ) -> None:
        self._strings: dict[int, set[str]] = {}
        self._extra: list[tuple[int, int, float]] = []
        self._tests = tests
        self.track = column * np.int32(KINDS) + tests["kind"]
        is_string = ~is_opaque & (tests["kind"] == Kind.STRING)
        self._is_number = ~is_opaque & ~is_string
        if is_string.any():  # a string test is an equality: its two operands are one
            chosen = np.flatnonzero(is_string)
            pairs = np.unique(np.stack([column[chosen].astype(np.int64), tests["low_whole"][chosen]]), axis=1)
            for place, number in pairs.T.tolist():
                self._strings.setdefault(place, set()).add(vocabulary.strings.texts[number])

    def add_set(self, column: int, allowed: ValueSet) -> None:
        for kind in Kind:
            for cut in allowed.cuts(kind):
                if len(cut) == 1:
                    continue
                if kind == Kind.STRING:
                    self._strings.setdefault(column, set()).add(cut[1])
                else:
                    self._extra.append((column * KINDS + kind, *split_number(cut[1])))

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
        strings = {column: sorted(texts) for column, texts in self._strings.items()}
        for column, texts in strings.items():
            count[column * KINDS + Kind.STRING] = len(texts)
        base, top = track_layout(count)
        assert top.max(initial=0) < LARGEST_CODE - 1, "a block's operands fit 30 bits of codes"
        return CodeSpace(
            attributes=attributes,
            patterns=[],
            base=base.astype(np.int32),
            count=count,
            least=least,
            start=start.astype(np.int64),
            operand_whole=whole,
            operand_rest=rest,
            strings=strings,
            string_ranks={column: {text: rank for rank, text in enumerate(texts)} for column, texts in strings.items()},
            top=top.astype(np.int32),
        )

    def _make_direct(self, count: NDArray[np.int64], least: NDArray[np.int64], sparseness: float) -> None:
        """Tracks of integers that lie close enough together are counted, not listed."""
        tracks = len(count)
        lowest, highest = np.full(tracks, np.iinfo(np.int64).max), np.full(tracks, np.iinfo(np.int64).min)
        uses, fractional = np.zeros(tracks, dtype=np.int64), np.zeros(tracks, dtype=np.bool_)
        for side, whole, rest in BOUNDS:
            fields = (self._tests[side], self._tests[whole], self._tests[rest])
            operand_ranges(self.track, self._is_number, *fields, lowest, highest, uses, fractional)
        self._used = uses > 0  # by a test that is one interval
        for track, extra_whole, extra_rest in self._extra:
            lowest[track], highest[track] = min(lowest[track], extra_whole), max(highest[track], extra_whole)
            uses[track] += 1
            fractional[track] |= extra_rest != 0
        used = np.flatnonzero((uses > 0) & ~fractional & (lowest != RANKED))
        span = highest[used].astype(np.float64) - lowest[used]
        chosen = used[(span < 2**28) & (span <= sparseness * uses[used])]
        least[chosen] = lowest[chosen]
        count[chosen] = highest[chosen] - lowest[chosen] + 1

    def _ranked(self, least: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The operands of all other tracks: track, whole, rest."""
        extra = [operand for operand in self._extra if least[operand[0]] == RANKED]
        tracks = [np.array([operand[0] for operand in extra], dtype=np.int64)]
        wholes = [np.array([operand[1] for operand in extra], dtype=np.int64)]
        rests = [np.array([operand[2] for operand in extra], dtype=np.float64)]
        if (least[self._used] == RANKED).any():
            listed = self._is_number & (least[self.track] == RANKED)
            for side, whole, rest in BOUNDS:
                chosen = np.flatnonzero(listed & (self._tests[side] != Side.NONE))
                tracks.append(self.track[chosen].astype(np.int64))
                wholes.append(self._tests[whole][chosen])
                rests.append(self._tests[rest][chosen])
        return np.concatenate(tracks), np.concatenate(wholes), np.concatenate(rests) + 0.0  # -0.0 is 0.0


def _interval_codes(
    space: CodeSpace,
    vocabulary: Vocabulary,
    column: NDArray[np.int32],
    track: NDArray[np.int32],
    tests: NDArray[Any],
    is_opaque: NDArray[np.bool_],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The codes that interval tests admit; for opaque ones, something."""
    bounds = []
    is_string = np.flatnonzero(~is_opaque & (tests["kind"] == Kind.STRING))
    for upper, (side, whole, rest) in enumerate(BOUNDS):
        codes = np.empty(len(track), dtype=np.int32)
        sides = tests[side]
        if len(is_string):  # their operands are not among the numbers
            sides = sides.copy()
            sides[is_string] = Side.NONE
        bound_codes(track, sides, tests[whole], tests[rest], *space.arrays, upper == 1, codes)
        if len(is_string):
            chosen = (column[is_string], tests[whole][is_string], tests[side][is_string])
            codes[is_string] = _string_cut_codes(space, vocabulary, *chosen) - upper
        bounds.append(codes)
    return bounds[0], bounds[1]


def _string_cut_codes(
    space: CodeSpace,
    vocabulary: Vocabulary,
    column: NDArray[np.int32],
    numbers: NDArray[np.int64],
    sides: NDArray[np.uint8],
) -> NDArray[np.int32]:
    """As above; the rank is looked up once per distinct operand of a column."""
    pairs, which = np.unique(np.stack([column.astype(np.int64), numbers]), axis=1, return_inverse=True)
    codes = [
        int(space.base[place * KINDS + Kind.STRING])
        + 2 * space.string_ranks[place].get(vocabulary.strings.texts[number], 0)
        + 1
        for place, number in pairs.T.tolist()
    ]
    return np.array(codes, dtype=np.int32)[which.reshape(-1)] + sides


def _with_opaque(
    coded: CodedTests,
    opaque_tests: NDArray[np.int64],
    pairs: list[tuple[int, int]],
    sets: list[tuple[int, ValueSet]],
    alternatives: bool,
) -> CodedTests:
    """Fills in the tests that are not one interval, and adds a test on a pattern column for each pattern. Among alternatives a pattern
    comes alone (columns/disjunctions.py): there that is the test."""
    space = coded.space
    pieces = np.full(len(coded.column), -1, dtype=np.int32)
    piece_offsets, piece_low, piece_high = [0], [], []
    owner = np.repeat(np.arange(len(coded.offsets) - 1), np.diff(coded.offsets))
    pattern_columns: dict[PatternColumn, int] = {}
    added: list[tuple[int, int, int, int]] = []  # clause, column, low, high
    known: dict[tuple[int, int], tuple[int, int, int]] = {}  # column and set → low, high, pieces
    number_codes = _number_codes(space, dict.fromkeys(pairs), sets)
    for test, pair in zip(opaque_tests.tolist(), pairs, strict=True):
        column, number = pair
        allowed = sets[number][1]
        if pair not in known:
            found = _set_codes(space, column, allowed, number_codes)
            piece = -1
            if len(found) > 1:
                piece = len(piece_offsets) - 1
                piece_low += [low for low, _ in found]
                piece_high += [high for _, high in found]
                piece_offsets.append(len(piece_low))
            known[pair] = (found[0][0], found[-1][1], piece)
        coded.low[test], coded.high[test], pieces[test] = known[pair]
        for pattern in allowed.patterns:
            key = PatternColumn(int(space.attributes[column]), replace(pattern.leaf, negated=False))
            place = pattern_columns.setdefault(key, len(space.attributes) + len(pattern_columns))
            code = NO_MATCH if pattern.leaf.negated else MATCH
            if alternatives:
                coded.column[test], coded.low[test], coded.high[test] = place, code, code
                if pattern.leaf.negated:
                    space.refusals.add(place)
            else:
                added.append((int(owner[test]), place, UNKNOWN if pattern.leaf.negated else MATCH, code))
    space.patterns = list(pattern_columns)
    space.top = np.concatenate([space.top, np.full(len(pattern_columns), MATCH, dtype=np.int32)])
    coded = replace(
        coded,
        pieces=pieces,
        piece_offsets=np.array(piece_offsets, dtype=np.int64),
        piece_low=np.array(piece_low, dtype=np.int32),
        piece_high=np.array(piece_high, dtype=np.int32),
    )
    return _with_tests(coded, owner, added) if added else coded


def _with_tests(coded: CodedTests, owner: NDArray[np.int64], added: list[tuple[int, int, int, int]]) -> CodedTests:
    assert coded.pieces is not None
    new_owner, new_column, new_low, new_high = (np.array(part) for part in zip(*added, strict=True))
    owners = np.concatenate([owner, new_owner])
    order = np.argsort(owners, kind="stable")
    return replace(
        coded,
        offsets=np.searchsorted(owners[order], np.arange(len(coded.offsets))),
        column=np.concatenate([coded.column, new_column]).astype(np.int32)[order],
        low=np.concatenate([coded.low, new_low]).astype(np.int32)[order],
        high=np.concatenate([coded.high, new_high]).astype(np.int32)[order],
        pieces=np.concatenate([coded.pieces, np.full(len(added), -1)]).astype(np.int32)[order],
    )


def _number_codes(
    space: CodeSpace, pairs: Iterable[tuple[int, int]], sets: list[tuple[int, ValueSet]]
) -> Iterator[int]:
    """The codes of the operands of all sets but for strings, in the order of their cuts: encoded at once, one by one took most of the
    time that coding takes."""
    operands = [
        (column * KINDS + kind, *split_number(cut[1]))
        for column, number in pairs
        for kind in Kind
        if kind != Kind.STRING
        for cut in sets[number][1].cuts(kind)
        if len(cut) == 3
    ]
    track, whole, rest = zip(*operands, strict=True) if operands else ((), (), ())
    codes = space.encode(np.array(track, np.int64), np.array(whole, np.int64), np.array(rest, np.float64) + 0.0)
    return iter(codes.tolist())


def _set_codes(space: CodeSpace, column: int, allowed: ValueSet, number_codes: Iterator[int]) -> list[tuple[int, int]]:
    """The code intervals of a set, ascending and not touching each other."""
    found: list[tuple[int, int]] = [(0, 0)] if allowed.absent else []
    for kind in Kind:
        cuts = allowed.cuts(kind)
        for enter, leave in zip(cuts[::2], cuts[1::2], strict=True):
            first = _cut_code(space, column, kind, enter, number_codes)
            last = _cut_code(space, column, kind, leave, number_codes) - 1
            if found and found[-1][1] + 1 == first:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
    return found


def _cut_code(space: CodeSpace, column: int, kind: Kind, cut: Cut, number_codes: Iterator[int]) -> int:
    track = column * KINDS + kind
    base = int(space.base[track])
    if cut == BELOW_ALL:
        return base
    if cut == ABOVE_ALL:
        return base + 2 * int(space.count[track]) + 1
    if kind == Kind.STRING:
        return base + 2 * space.string_ranks[column][cut[1]] + 1 + int(cut[2])
    return next(number_codes) + int(cut[2])
