"""Ids of events from a column."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from tests.unit.model.arrow_reading import problems


def test_event_ids_of_a_column() -> None:
    table = pa.table({"n": pa.array([7, 8], pa.int32()), "s": ["p", "q"], "x": [1, 2]})
    assert from_arrow(table, "n").ids.tolist() == [7, 8]
    assert from_arrow(table, "n").ids.dtype == np.int64
    assert from_arrow(table, "s").ids.tolist() == ["p", "q"]
    assert from_arrow(pa.table({"s": table["s"].dictionary_encode()}), "s").ids.tolist() == ["p", "q"]
    assert from_arrow(table).ids.tolist() == [0, 1]


def test_event_ids_of_the_good_rows() -> None:
    batch = from_arrow(pa.table({"id": ["p", "q", "r"], "x": pa.array([None, b"x", None])}), "id")
    assert batch.ids.tolist() == ["p", "r"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, 2.0]),
        pa.array([True, False]),
        pa.array(["a", None]),
        pa.array([1, None]),
        pa.nulls(2),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None])),
        pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array([7, None])),
    ],
    ids=["float", "boolean", "null string", "null int", "nulls", "null in strings", "null in ints"],
)
def test_event_ids_are_strings_or_integers_none_missing(column: pa.Array) -> None:
    with pytest.raises(TableError) as caught:
        from_arrow(pa.table({"id": column}), "id")
    assert caught.value.column == "id"


def test_event_ids_beyond_64_signed_bits() -> None:
    """The row is bad or the column is; nothing of Arrow's comes through."""
    table = pa.table({"id": pa.array([1, 2**63], pa.uint64())})
    try:
        batch = from_arrow(table, "id")
    except TableError as error:
        assert error.column == "id"
    else:
        assert problems(batch) == [(1, "id")]


def test_event_ids_of_no_column() -> None:
    with pytest.raises(TableError, match="no such column"):
        from_arrow(pa.table({"x": [1]}), "id")
