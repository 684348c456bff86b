"""Codes events in the code space of a block: for every event its columns and codes. A column that an event does not have is absent (code
0)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import KINDS, MATCH, NO_MATCH, CodeSpace
from ray_pubsub.columns.opaque.remembered_strings import CodesOfString, RememberedStrings
from ray_pubsub.columns.pattern_set import PatternSet
from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.columns.string_table import StringTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.cells import order_by_row, pattern_cells
from ray_pubsub.kernels.columns.coding import RANKED, encode_lanes
from ray_pubsub.model.event_batch import Cells, EventBatch, Flags, Layout
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.model.text_column import TextColumn
from ray_pubsub.model.values import Kind

__all__ = ["EventCodes", "LanePlan", "encode_events", "encode_single", "plan_for", "string_code"]

MOST_PLANS = 1024
MOST_NEW_LAYOUTS, MOST_LANES = 1 << 14, 1 << 16
OF_STRINGS = -2
"""Instead of a track: the lane has strings that some clause tests."""
CellColumns = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Cells as three parallel arrays: rows, columns, codes."""
NO_CELLS = np.empty(0, np.int32)
NO_STRINGS: dict[str, int] = {}


@dataclass(slots=True, eq=False)
class EventCodes:
    """Event i has the codes `code[offsets[i]:offsets[i + 1]]` in the columns at the same positions."""

    offsets: NDArray[np.int64]
    column: NDArray[np.int32]
    code: NDArray[np.int32]

    @classmethod
    def of_one(cls, column: NDArray[np.int32], code: NDArray[np.int32]) -> EventCodes:
        return cls(np.array([0, len(code)]), column, code)


class LanePlan(NamedTuple):
    """What coding needs to know about a batch's lanes. Events come in few layouts, so it is computed once per layout and block."""

    column: NDArray[np.int32]
    """The column of each lane; -1 if no clause tests the attribute."""
    track: NDArray[np.int32]
    """Of each lane; -1 if it has none or contains strings."""
    strings: list[int]
    """Lanes of strings that some clause tests."""
    patterns: list[int]
    """Those of `strings` whose attribute has patterns."""


def encode_events(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> EventCodes:
    """Returns the codes of a batch, without values that no clause of the block tests."""
    if isinstance(batch, SingleEvent):
        return EventCodes.of_one(*encode_single(batch, space, vocabulary))
    plan = plan_for(batch, space, vocabulary)
    cells = batch.cells()
    codes = np.empty(len(cells.rows), dtype=np.int32)
    encode_lanes(plan.track, cells.offsets, cells.whole, cells.rest, space.row, codes)
    for number in plan.strings:
        lane = batch.lanes[number]
        assert lane.strings is not None
        of_strings = _string_codes(space, int(plan.column[number]), lane.strings)
        codes[cells.offsets[number] : cells.offsets[number + 1]] = of_strings[lane.whole]
    more = [_cells_of_patterns(batch, space, plan, cells, number) for number in plan.patterns]
    if batch.flags is not None:
        more.append(_cells_of_flags(batch.flags, space))
    joined = _joined(more)
    offsets, room = np.zeros(batch.size + 1, dtype=np.int64), len(cells.rows) + len(joined[0])
    column_out, code_out = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.int32)
    lanes = plan.column, cells.offsets, cells.rows, codes
    used = order_by_row(lanes, joined, offsets, column_out, code_out)
    return EventCodes(offsets, column_out[:used], code_out[:used])


def plan_for(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> LanePlan:
    """Returns the plan of the batch's layout. The batch caches it too: hashing a layout of 20,000 attributes takes a millisecond."""
    plan: LanePlan | None = batch.plans.get(space)
    if plan is None:
        layout = batch.layout()
        plan = space.plans.get(layout)
        if plan is None:
            if len(space.plans) >= MOST_PLANS:
                space.plans.clear()
            plan = space.plans[layout] = _plan(layout, space, vocabulary)
        batch.plans.remember(space, plan)
    return plan


def _plan(layout: Layout, space: CodeSpace, vocabulary: Vocabulary) -> LanePlan:
    attribute = np.array([vocabulary.attributes.find(name) for name, _ in layout], dtype=np.int32)
    kind = np.array([kind for _, kind in layout], dtype=np.int32)
    column = space.columns_of(attribute)
    is_string = kind == Kind.STRING
    track = np.where((column < 0) | is_string, -1, column * KINDS + kind).astype(np.int32)
    strings = np.flatnonzero(is_string & (column >= 0)).tolist()
    if space.patterns and not space.pattern_sets:
        space.pattern_sets = _pattern_sets(space)
    patterns = [lane for lane in strings if int(column[lane]) in space.pattern_sets]
    return LanePlan(column, track, strings, patterns)


FEW = 4
"""Up to this many numbers of an event are coded one by one, which takes a third of a microsecond each; arrays for the kernel take three."""


class IntegerTrack(NamedTuple):
    """A track that needs no operands in memory (`kernels/columns/coding.py`)."""

    target: int
    """The position of the code."""
    place: int
    """The position of the value."""
    base: int
    """The code of everything below `least`."""
    least: int
    largest: int

    def code(self, value: int) -> int:
        """The same as `direct_offset`, of a whole number."""
        if value < self.least:
            return self.base
        return self.base + 2 * (min(value, self.largest + 1) - self.least) + (value <= self.largest)


class _SinglePlan(NamedTuple):
    """What coding needs to know about single events of one layout."""

    places: NDArray[np.int64]
    """The positions of the values that some clause tests."""
    column: NDArray[np.int32]
    """The columns of those values."""
    strings: list[tuple[int, dict[str, int]]]
    """For each of them that is a string: the position of the value, and the codes of the operands."""
    others: list[tuple[int, list[str], int]]
    """For the same values: the position of the code, the operands, and the code before the first operand."""
    patterns: list[tuple[int, PatternColumns]]
    """Positions of values with patterns, and those patterns."""
    numbers: bool
    """Whether some values are not strings."""
    integers: list[IntegerTrack] | None
    """Those values, if they are few and may be coded one by one."""
    track: NDArray[np.int32]
    cell_offsets: NDArray[np.int64]
    extended: dict[tuple[int, ...], NDArray[np.int32]]
    """`column` followed by columns of patterns: events of one layout mostly match one of a few combinations of patterns."""

    def with_patterns(self, columns: list[int]) -> NDArray[np.int32]:
        """Returns the columns of the values, and these."""
        key = tuple(columns)
        found = self.extended.get(key)
        if found is None:
            if len(self.extended) >= MOST_PLANS:
                self.extended.clear()
            found = self.extended[key] = np.concatenate([self.column, np.array(columns, np.int32)])
        return found


def _single_plan(event: SingleEvent, space: CodeSpace, vocabulary: Vocabulary) -> _SinglePlan:
    plan = plan_for(event, space, vocabulary)
    places = np.flatnonzero(plan.column >= 0)
    column = plan.column[places]
    texts = [(target, place) for target, place in enumerate(places.tolist()) if place in plan.strings]
    strings = [(place, space.string_codes.get(int(plan.column[place]), {})) for _, place in texts]
    others = [
        (
            target,
            space.strings.get(int(plan.column[place]), []),
            int(space.base[plan.column[place] * KINDS + Kind.STRING]),
        )
        for target, place in texts
    ]
    patterns = [(place, space.pattern_sets[int(plan.column[place])]) for place in plan.patterns]
    cells = np.arange(len(plan.column) + 1)
    numbers = len(strings) < len(places)
    integers = _integer_tracks(places, plan.track, space) if numbers else None
    return _SinglePlan(places, column, strings, others, patterns, numbers, integers, plan.track, cells, {})


def _integer_tracks(places: NDArray[np.int64], track: NDArray[np.int32], space: CodeSpace) -> list[IntegerTrack] | None:
    """Returns the tracks of the values that are no strings, or None if they are many or one of them has its operands in memory."""
    targets = np.flatnonzero(track[places] >= 0)
    tracks = track[places[targets]]
    least, count = space.least[tracks], space.count[tracks]
    if len(targets) > FEW or (least == RANKED).any():
        return None
    columns = (targets, places[targets], space.base[tracks], least, least + (count - 1))
    return [IntegerTrack(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]


def encode_single(
    event: SingleEvent, space: CodeSpace, vocabulary: Vocabulary
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Returns the columns and codes of one event, which must not be changed. A string takes one look-up in a dictionary; if all values are
    strings, the codes are the only array created."""
    key = (*event.names, *event.kinds)
    plan: _SinglePlan | None = space.single_plans.get(key)
    if plan is None:
        codes_of_numbers = _encode_new_layout(event, space, vocabulary, hash(key))
        if codes_of_numbers is not None:
            return codes_of_numbers
        if len(space.single_plans) >= MOST_PLANS:
            space.single_plans.clear()
        plan = space.single_plans[key] = _single_plan(event, space, vocabulary)
    plains = event.plains
    of_strings: list[Any] = [known.get(plains[place]) for place, known in plan.strings]
    if None in of_strings:  # not an operand: the code of the gap that it lies in
        for number, (_, operands, base) in enumerate(plan.others):
            if of_strings[number] is None:
                of_strings[number] = base + 2 * bisect_left(operands, plains[plan.strings[number][0]])
    column, patterned = plan.column, []
    if plan.patterns:
        columns: list[int] = []
        for place, patterns in plan.patterns:
            more, said = patterns.single(plains[place])
            columns += more
            patterned += said
        if columns:
            column = plan.with_patterns(columns)
    if plan.integers is not None and all(type(plains[each.place]) is int for each in plan.integers):
        several = [0] * len(plan.places)
        for each in plan.integers:
            several[each.target] = each.code(plains[each.place])
        for (target, _, _), code in zip(plan.others, of_strings, strict=True):
            several[target] = code
        codes = np.array(several + patterned, dtype=np.int32)
    elif plan.numbers:
        cells = event.cells()
        every = np.empty(len(plains), dtype=np.int32)
        encode_lanes(plan.track, plan.cell_offsets, cells.whole, cells.rest, space.row, every)
        codes = every if len(plan.places) == len(plains) else every[plan.places]
        for (target, _, _), code in zip(plan.others, of_strings, strict=True):
            codes[target] = code
        if patterned:
            codes = np.concatenate([codes, np.array(patterned, np.int32)])
    else:
        codes = np.array(of_strings + patterned, dtype=np.int32)
    if event.flags is not None:
        _, columns_of_flags, true = _flag_codes(event.flags, space)
        column, codes = np.concatenate([column, columns_of_flags]), np.concatenate([codes, true])
    return column, codes


def _encode_new_layout(
    event: SingleEvent, space: CodeSpace, vocabulary: Vocabulary, layout: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]] | None:
    """Codes an event of a layout that was not met lately, lane by lane: making a plan takes several times as long, and of 20,000 attributes
    each event has others. Returns None for a layout that was met before, which is worth a plan, and for tested strings and flags."""
    seen, lanes = space.new_layouts, space.lanes
    if layout in seen or event.flags is not None:
        return None
    if len(seen) >= MOST_NEW_LAYOUTS:
        seen.clear()
    seen.add(layout)
    pairs = list(zip(event.names, event.kinds, strict=True))
    tracks = [lanes.get(pair) for pair in pairs]
    if None in tracks:
        if len(lanes) >= MOST_LANES:
            lanes.clear()
        new = [pair for pair, track in zip(pairs, tracks, strict=True) if track is None]
        known = dict(zip(new, _tracks_of(new, space, vocabulary), strict=True))
        lanes.update(known)
        tracks = [known[pair] if track is None else track for pair, track in zip(pairs, tracks, strict=True)]
    if OF_STRINGS in tracks:
        return None
    track, cells = np.array(tracks, dtype=np.int32), event.cells()
    every = np.empty(len(tracks), dtype=np.int32)
    encode_lanes(track, cells.offsets, cells.whole, cells.rest, space.row, every)
    places = np.flatnonzero(track >= 0)
    return track[places] // KINDS, every[places]


def _tracks_of(lanes: list[tuple[str, int]], space: CodeSpace, vocabulary: Vocabulary) -> list[int]:
    """Returns the track of each lane, -1 if no clause tests it, OF_STRINGS for a tested lane of strings."""
    attribute = np.array([vocabulary.attributes.find(name) for name, _ in lanes], np.int32)
    kind = np.array([kind for _, kind in lanes], np.int32)
    column = space.columns_of(attribute)
    tracks: list[int] = np.where(
        column < 0, -1, np.where(kind == Kind.STRING, OF_STRINGS, column * KINDS + kind)
    ).tolist()
    return tracks


def _cells_of_patterns(batch: EventBatch, space: CodeSpace, plan: LanePlan, cells: Cells, number: int) -> CellColumns:
    """Evaluates the patterns on the strings of a lane. Most patterns give no cell: see PatternColumns."""
    lane = batch.lanes[number]
    assert lane.strings is not None
    which, distinct = distinct_of(lane.strings)
    offsets, column, code = space.pattern_sets[int(plan.column[number])].codes(distinct)
    string, rows = which[lane.whole], cells.rows[cells.offsets[number] : cells.offsets[number + 1]]
    room = int((offsets[string + 1] - offsets[string]).sum())
    found = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int32)
    pattern_cells(rows, string, offsets, (column, code), found)
    return found


def _cells_of_flags(flags: Flags, space: CodeSpace) -> CellColumns:
    """Returns the flags of events that some clause of the block tests."""
    chosen, column, true = _flag_codes(flags, space)
    return flags.rows[chosen].astype(np.int32, copy=False), column, true


def _joined(parts: list[CellColumns]) -> CellColumns:
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return NO_CELLS, NO_CELLS, NO_CELLS
    rows, column, code = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, column, code


def _flag_codes(flags: Flags, space: CodeSpace) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Returns which flags some clause of the block tests, with their columns and codes."""
    column = space.columns_of(flags.numbers)
    chosen = np.flatnonzero(column >= 0)
    column = column[chosen]
    true = space.encode(column * KINDS + int(Kind.BOOLEAN), np.ones(len(chosen), np.int64), np.zeros(len(chosen)))
    return chosen, column, true


def string_code(space: CodeSpace, column: int, text: str) -> int:
    """Returns the code of one string."""
    code = space.string_codes.get(column, NO_STRINGS).get(text)
    if code is not None:
        return code
    return int(space.base[column * KINDS + Kind.STRING]) + 2 * bisect_left(space.strings.get(column, []), text)


def _string_codes(space: CodeSpace, column: int, strings: TextColumn) -> NDArray[np.int32]:
    """Returns the code of each string."""
    base = int(space.base[column * KINDS + Kind.STRING])
    table: StringTable | None = space.string_tables.get(column)
    if table is None:
        table = space.string_tables[column] = StringTable(space.strings.get(column, []))
    return table.codes(strings, base)


def _pattern_sets(space: CodeSpace) -> dict[int, PatternColumns]:
    """Returns the patterns of each attribute's column."""
    by_attribute: dict[int, list[int]] = {}
    for number, attribute in enumerate(space.patterns.attributes.tolist()):
        by_attribute.setdefault(attribute, []).append(number)
    of = space.columns_of(np.array(list(by_attribute), dtype=np.int32)).tolist()
    return {column: PatternColumns(space, numbers) for column, numbers in zip(of, by_attribute.values(), strict=True)}


class PatternColumns:
    """The pattern columns of one attribute. A string has MATCH in the columns of the patterns that match it. A pattern that does not
    match is treated as if there were no string, except in the few columns where NO_MATCH is tested (CodeSpace.refusals). So a string has
    cells for the patterns that match it, not for the thousands that do not."""

    def __init__(self, space: CodeSpace, numbers: list[int]) -> None:
        self._columns = np.array(numbers, dtype=np.int32) + np.int32(len(space.attributes))
        self._set = PatternSet([space.patterns[number].leaf for number in numbers])
        self._remembered = RememberedStrings()
        self._refusals = np.flatnonzero(np.isin(self._columns, list(space.refusals)))
        self._rank = np.full(len(numbers), -1, np.int32)
        """For each pattern its position in `_refusals`, or -1."""
        self._rank[self._refusals] = np.arange(len(self._refusals))

    def single(self, text: str) -> CodesOfString:
        """Returns the columns and codes of one string; the lists must not be changed."""
        known = self._remembered.get(text)
        if known is None:
            known = self._evaluated(text)
            self._remembered.put(text, known)
        return known

    def _evaluated(self, text: str) -> CodesOfString:
        numbers = self._set.matches_of(text)
        columns = self._columns
        found = [int(columns[number]) for number in numbers]
        codes = [MATCH] * len(found)
        if len(self._refusals):
            matched = set(numbers)
            refused = [int(columns[number]) for number in self._refusals.tolist() if number not in matched]
            found += refused
            codes += [NO_MATCH] * len(refused)
        return found, codes

    def codes(self, strings: TextColumn) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """Returns offsets, columns and codes: string i has the cells offsets[i]:offsets[i + 1]."""
        offsets, numbers = self._set.matches(strings)
        codes = np.full(len(numbers), MATCH, dtype=np.int32)
        if len(self._refusals):
            string = np.repeat(np.arange(len(strings)), np.diff(offsets))
            rank = self._rank[numbers]
            both = np.flatnonzero(rank >= 0)
            refused = np.ones((len(strings), len(self._refusals)), dtype=bool)
            refused[string[both], rank[both]] = False
            refusing, place = np.nonzero(refused)
            order = np.argsort(np.concatenate([string, refusing]), kind="stable")
            numbers = np.concatenate([numbers, self._refusals[place]])[order]
            codes = np.concatenate([codes, np.full(len(place), NO_MATCH, dtype=np.int32)])[order]
            offsets = offsets + np.concatenate([[0], np.cumsum(np.bincount(refusing, minlength=len(strings)))])
        return offsets, self._columns[numbers], codes
