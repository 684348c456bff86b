"""Events in the code space of a block: for every event its columns and codes; a column it has not is absent (code 0)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import KINDS, MATCH, NO_MATCH, CodeSpace
from ray_pubsub.columns.pattern_set import PatternSet
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.cells import order_by_row
from ray_pubsub.kernels.coding import encode_lanes
from ray_pubsub.model.event_batch import Cells, EventBatch, Lane, Layout
from ray_pubsub.model.values import Kind

__all__ = ["EventCodes", "LanePlan", "encode_events", "plan_for", "string_codes"]

MOST_PLANS = 1024


@dataclass(slots=True, eq=False)
class EventCodes:
    """Event i has the codes `code[offsets[i]:offsets[i + 1]]` in the columns beside them."""

    offsets: NDArray[np.int64]
    column: NDArray[np.int32]
    code: NDArray[np.int32]


class LanePlan(NamedTuple):
    """What coding needs to know of a batch's lanes; events come in few layouts, so it is worked out once per layout and block."""

    column: NDArray[np.int32]
    """Per lane, -1 if no clause tests the attribute."""
    track: NDArray[np.int32]
    """Per lane, -1 if it has none or is of strings."""
    strings: list[int]
    """The lanes of strings that some clause tests."""
    patterns: list[int]
    """Those of them whose attribute has patterns."""


def encode_events(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> EventCodes:
    """The codes of a batch; what no clause of the block tests is left out."""
    plan = plan_for(batch, space, vocabulary)
    cells = batch.cells()
    codes = np.empty(len(cells.rows), dtype=np.int32)
    encode_lanes(plan.track, cells.offsets, cells.whole, cells.rest, *space.arrays, codes)
    lane_column, lane_offsets, rows = plan.column, cells.offsets, cells.rows
    for number in plan.strings:
        lane = batch.lanes[number]
        codes[lane_offsets[number] : lane_offsets[number + 1]] = string_codes(space, int(plan.column[number]), lane)[
            lane.whole
        ]
    if plan.patterns:
        lane_column, lane_offsets, rows, codes = _with_patterns(batch, space, plan, cells, codes)
    offsets = np.zeros(batch.size + 1, dtype=np.int64)
    column_out, code_out = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int32)
    used = order_by_row(lane_column, lane_offsets, rows, codes, offsets, column_out, code_out)
    return EventCodes(offsets, column_out[:used], code_out[:used])


def plan_for(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> LanePlan:
    """The plan of the batch's layout. The batch remembers it too: a layout of 20,000 attributes takes a millisecond to hash."""
    plan: LanePlan | None = batch.plans.get(space)
    if plan is None:
        layout = batch.layout()
        plan = space.plans.get(layout)
        if plan is None:
            if len(space.plans) >= MOST_PLANS:
                space.plans.clear()
            plan = space.plans[layout] = _plan(layout, space, vocabulary)
        if len(batch.plans) >= MOST_PLANS:
            batch.plans.clear()
        batch.plans[space] = plan
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


def _with_patterns(
    batch: EventBatch, space: CodeSpace, plan: LanePlan, cells: Cells, codes: NDArray[np.int32]
) -> tuple[NDArray[Any], ...]:
    """More cells, each a lane of its own: what patterns say of strings. Most say nothing: see PatternColumns."""
    columns, rows, parts = [plan.column], [cells.rows], [codes]
    for number in plan.patterns:
        lane = batch.lanes[number]
        assert lane.strings is not None
        offsets, column, code = space.pattern_sets[int(plan.column[number])].codes(lane.strings)
        counts = np.diff(offsets)[lane.whole]
        ends = np.cumsum(counts)
        chosen = np.arange(int(counts.sum())) + np.repeat(offsets[lane.whole] - ends + counts, counts)
        columns.append(column[chosen])
        parts.append(code[chosen])
        rows.append(np.repeat(cells.rows[cells.offsets[number] : cells.offsets[number + 1]], counts))
    added = sum(map(len, columns[1:]))
    lane_offsets = np.concatenate([cells.offsets, cells.offsets[-1] + np.arange(1, added + 1)])
    return np.concatenate(columns), lane_offsets, np.concatenate(rows), np.concatenate(parts)


def string_codes(space: CodeSpace, column: int, lane: Lane) -> NDArray[np.int32]:
    """Code of each distinct string of the lane."""
    base = int(space.base[column * KINDS + Kind.STRING])
    operands, ranks = space.strings.get(column, []), space.string_ranks.get(column, {})
    assert lane.strings is not None
    codes = []
    for text in lane.strings:
        rank = ranks.get(text)
        codes.append(base + 2 * rank + 1 if rank is not None else base + 2 * bisect_left(operands, text))
    return np.array(codes, dtype=np.int32)


def _pattern_sets(space: CodeSpace) -> dict[int, PatternColumns]:
    """Column of an attribute → its patterns."""
    by_attribute: dict[int, list[int]] = {}
    for number, pattern in enumerate(space.patterns):
        by_attribute.setdefault(pattern.attribute, []).append(number)
    of = space.columns_of(np.array(list(by_attribute), dtype=np.int32)).tolist()
    return {column: PatternColumns(space, numbers) for column, numbers in zip(of, by_attribute.values(), strict=True)}


class PatternColumns:
    """The pattern columns of one attribute. A string has MATCH in the columns of the patterns that match it. That a pattern does not match
    is as if there were no string, except in the few columns where NO_MATCH is asked for (CodeSpace.refusals): so a string has cells
    for what matches it, not for thousands of patterns that do not."""

    def __init__(self, space: CodeSpace, numbers: list[int]) -> None:
        self._columns = np.array(numbers, dtype=np.int32) + np.int32(len(space.attributes))
        self._set = PatternSet([space.patterns[number].leaf for number in numbers])
        self._refusals = np.flatnonzero(np.isin(self._columns, list(space.refusals)))

    def codes(self, strings: list[str]) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
        """String i has the cells offsets[i]:offsets[i + 1]: columns and codes."""
        offsets, numbers = self._set.matches(strings)
        codes = np.full(len(numbers), MATCH, dtype=np.int32)
        if len(self._refusals):
            string = np.repeat(np.arange(len(strings)), np.diff(offsets))
            refused = np.ones((len(strings), len(self._columns)), dtype=bool)
            refused[string, numbers] = False
            refusing, place = np.nonzero(refused[:, self._refusals])
            order = np.argsort(np.concatenate([string, refusing]), kind="stable")
            numbers = np.concatenate([numbers, self._refusals[place]])[order]
            codes = np.concatenate([codes, np.full(len(place), NO_MATCH, dtype=np.int32)])[order]
            offsets = offsets + np.concatenate([[0], np.cumsum(np.bincount(refusing, minlength=len(strings)))])
        return offsets, self._columns[numbers], codes
