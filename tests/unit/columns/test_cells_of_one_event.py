"""The cells of one event are those that it has in a batch, whichever types its values have."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.single_event import single_of

MOMENT = datetime.datetime(2024, 5, 1, 12, 30, 1, 250, datetime.UTC)


@pytest.mark.parametrize(
    "event",
    [
        {"a": 1, "b": -7, "c": 2**63 - 1, "d": -(2**63)},
        {"a": True, "b": False},
        {"a": 5, "b": True, "c": "text"},
        {"a": "x", "b": "y"},
        {"a": 2**53 + 1, "b": float(2**53), "c": 1e300, "d": -1e300, "e": -0.75},
        {"a": MOMENT, "b": 3},
        {"a": MOMENT, "b": 3.5, "c": "x", "d": True, "l": [1, "a"]},
        {"a": 1, "l": ["a", "b"]},
        {},
    ],
)  # fmt: skip
def test_cells(event: dict[str, Any]) -> None:
    batch = from_dicts([event, event])
    single = single_of(from_dicts([event]))
    assert single is not None
    single._cells = None
    cells, of_two = single.cells(), batch.cells()
    found = {
        lane.attribute: (cells.whole[place], cells.rest[place])
        for place, lane in enumerate(batch.lanes)
        if single.names[place] == lane.attribute and lane.strings is None and lane.lists is None
    }
    right = {
        lane.attribute: (of_two.whole[2 * place], of_two.rest[2 * place])
        for place, lane in enumerate(batch.lanes)
        if lane.strings is None and lane.lists is None
    }
    assert found == right
    assert cells.whole.dtype == of_two.whole.dtype and cells.rest.dtype == of_two.rest.dtype
    assert [len(part) for part in (cells.offsets, cells.rows)] == [len(event) + 1, len(event)]
