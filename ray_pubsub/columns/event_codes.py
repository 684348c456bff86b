"""Events in the code space of a block: for every event its columns and codes; a column it has not is absent (code 0)."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import KINDS, MATCH, NO_MATCH, CodeSpace
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.cells import order_by_row
from ray_pubsub.kernels.coding import encode_lanes
from ray_pubsub.language.patterns import compile_regexp, like_to_regexp
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.model.event_batch import Cells, EventBatch, Lane, Layout
from ray_pubsub.model.values import Kind

__all__ = ["EventCodes", "encode_events"]

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
    patterns: dict[int, list[tuple[int, Like | Regexp]]]
    """Lane → the pattern columns of its attribute."""


def encode_events(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> EventCodes:
    """The codes of a batch; what no clause of the block tests is left out."""
    plan = _plan_for(batch, space, vocabulary)
    cells = batch.cells()
    codes = np.empty(len(cells.rows), dtype=np.int32)
    encode_lanes(plan.track, cells.offsets, cells.whole, cells.rest, *space.arrays, codes)
    lane_column, lane_offsets, rows = plan.column, cells.offsets, cells.rows
    for number in plan.strings:
        lane = batch.lanes[number]
        codes[lane_offsets[number] : lane_offsets[number + 1]] = _string_codes(space, int(plan.column[number]), lane)[
            lane.whole
        ]
    if plan.patterns:
        lane_column, lane_offsets, rows, codes = _with_patterns(batch, plan, cells, codes)
    offsets = np.zeros(batch.size + 1, dtype=np.int64)
    column_out, code_out = np.empty(len(rows), dtype=np.int32), np.empty(len(rows), dtype=np.int32)
    used = order_by_row(lane_column, lane_offsets, rows, codes, offsets, column_out, code_out)
    return EventCodes(offsets, column_out[:used], code_out[:used])


def _plan_for(batch: EventBatch, space: CodeSpace, vocabulary: Vocabulary) -> LanePlan:
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
    by_attribute = _patterns_by_attribute(space)
    patterns = {lane: by_attribute[int(attribute[lane])] for lane in strings if int(attribute[lane]) in by_attribute}
    return LanePlan(column, track, strings, patterns)


def _with_patterns(
    batch: EventBatch, plan: LanePlan, cells: Cells, codes: NDArray[np.int32]
) -> tuple[NDArray[Any], ...]:
    """More lanes: what each pattern says of each string."""
    columns, rows, parts = [], [cells.rows], [codes]
    lengths = []
    for number, found in plan.patterns.items():
        lane = batch.lanes[number]
        for column, leaf in found:
            columns.append(column)
            rows.append(cells.rows[cells.offsets[number] : cells.offsets[number + 1]])
            parts.append(_pattern_codes(leaf, lane)[lane.whole])
            lengths.append(len(lane))
    lane_offsets = np.concatenate([cells.offsets, cells.offsets[-1] + np.cumsum(lengths)])
    lane_column = np.concatenate([plan.column, np.array(columns, dtype=np.int32)])
    return lane_column, lane_offsets, np.concatenate(rows), np.concatenate(parts)


def _string_codes(space: CodeSpace, column: int, lane: Lane) -> NDArray[np.int32]:
    """Code of each distinct string of the lane."""
    base = int(space.base[column * KINDS + Kind.STRING])
    operands, ranks = space.strings.get(column, []), space.string_ranks.get(column, {})
    assert lane.strings is not None
    codes = []
    for text in lane.strings:
        rank = ranks.get(text)
        codes.append(base + 2 * rank + 1 if rank is not None else base + 2 * bisect_left(operands, text))
    return np.array(codes, dtype=np.int32)


def _patterns_by_attribute(space: CodeSpace) -> dict[int, list[tuple[int, Like | Regexp]]]:
    found: dict[int, list[tuple[int, Like | Regexp]]] = {}
    for number, pattern in enumerate(space.patterns):
        found.setdefault(pattern.attribute, []).append((len(space.attributes) + number, pattern.leaf))
    return found


def _pattern_codes(leaf: Like | Regexp, lane: Lane) -> NDArray[np.int32]:
    program = (
        like_to_regexp(leaf.pattern.plain, leaf.escape)
        if isinstance(leaf, Like)
        else compile_regexp(leaf.pattern.plain)
    )
    assert lane.strings is not None
    return np.array([MATCH if program.search(text) is not None else NO_MATCH for text in lane.strings], dtype=np.int32)
