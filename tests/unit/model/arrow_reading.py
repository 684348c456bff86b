"""What Arrow columns read as, beside the same values in dicts."""

from __future__ import annotations

from decimal import Context
from typing import Any

import numpy as np
import pyarrow as pa

from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind

DAY = 86_400_000_000
EXACT = Context(prec=100)


def plains(column: Any) -> list[Any]:
    """What the column's rows read as, None for absent; every row must be good."""
    batch = from_arrow(pa.table({"x": column}))
    assert batch.errors == []
    return [row["x"].plain if "x" in row else None for row in batch.rows()]


def kinds(column: Any) -> set[Kind]:
    return {value.kind for row in from_arrow(pa.table({"x": column})).rows() for value in row.values()}


def problems(batch: EventBatch) -> list[tuple[int | None, str | None]]:
    return [(error.position, error.attribute) for error in batch.errors]


def same(batch: EventBatch, events: list[dict[str, Any]]) -> None:
    expected = from_dicts(events)
    assert problems(batch) == problems(expected)
    assert batch.rows() == expected.rows()
    assert [{name: value.kind for name, value in row.items()} for row in batch.rows()] == [
        {name: value.kind for name, value in row.items()} for row in expected.rows()
    ]


def bad_strings() -> pa.Array:
    """Arrow does not check that strings are UTF-8."""
    offsets = pa.py_buffer(np.array([0, 1, 2, 4], dtype=np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"a\xffbc")])
