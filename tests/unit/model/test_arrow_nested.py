"""Structs and maps of Arrow are flattened as nested dicts are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.values import Kind, Value
from tests.unit.model.arrow_reading import bad_strings, problems


def test_structs_are_flattened_and_a_null_parent_hides_its_children() -> None:
    inner = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3, 4])], names=["b"], mask=pa.array([False, True, False, False])
    )
    outer = pa.StructArray.from_arrays(
        [inner, pa.array(["p", "q", None, "s"])], names=["a", "s"], mask=pa.array([False, False, False, True])
    )
    rows = from_arrow(pa.table({"x": outer})).rows()
    assert rows == [
        {"x.a.b": Value(Kind.NUMBER, 1), "x.s": Value(Kind.STRING, "p")},
        {"x.s": Value(Kind.STRING, "q")},
        {"x.a.b": Value(Kind.NUMBER, 3)},
        {},
    ]
    assert from_arrow(pa.table({"x": outer[1:3]})).rows() == rows[1:3]


def test_a_bad_value_in_a_struct_names_its_path() -> None:
    batch = from_arrow(pa.table({"x": pa.array([None, {"a": {"b": b"x"}}, {"a": {"b": None}}, {"a": None}])}))
    assert problems(batch) == [(1, "x.a.b")]
    assert batch.size == 3


def test_a_struct_without_fields() -> None:
    assert from_arrow(pa.table({"x": pa.array([{}, None], pa.struct([])), "y": [1, 2]})).size == 2


STRING_TO_INT = pa.map_(pa.string(), pa.int64())
MAPS = pa.array([[("a", 1), ("b", None)], None, [], [("b", 2), ("a", 3)], [("c", 2**53 + 1)]], STRING_TO_INT)
READ_MAPS: list[dict[str, Value]] = [
    {"m.a": Value(Kind.NUMBER, 1)},
    {},
    {},
    {"m.b": Value(Kind.NUMBER, 2), "m.a": Value(Kind.NUMBER, 3)},
    {"m.c": Value(Kind.NUMBER, 2**53 + 1)},
]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 5), (3, 4), (1, 3), (2, 2)])
def test_maps_are_flattened(start: int, stop: int) -> None:
    assert from_arrow(pa.table({"m": MAPS[start:stop]})).rows() == READ_MAPS[start:stop]


def test_maps_in_chunks() -> None:
    assert from_arrow(pa.table({"m": pa.chunked_array([MAPS[:2], MAPS[2:3], MAPS[3:]])})).rows() == READ_MAPS


def test_maps_without_any_entry() -> None:
    assert from_arrow(pa.table({"m": pa.array([], STRING_TO_INT)})).size == 0
    assert from_arrow(pa.table({"m": pa.array([None, None], STRING_TO_INT)})).rows() == [{}, {}]
    assert from_arrow(pa.table({"m": pa.array([[], None], STRING_TO_INT)})).rows() == [{}, {}]


def test_a_key_given_twice_in_one_map() -> None:
    batch = from_arrow(
        pa.table({"m": pa.array([[("a", 1)], [("a", 1), ("b", 5), ("a", 2)], [("b", 3)]], STRING_TO_INT)})
    )
    assert problems(batch) == [(1, "m.a")]
    assert batch.rows() == [{"m.a": Value(Kind.NUMBER, 1)}, {"m.b": Value(Kind.NUMBER, 3)}]


def test_maps_of_structs_and_of_maps() -> None:
    structs = pa.map_(pa.string(), pa.struct([("x", pa.int64()), ("y", pa.string())]))
    maps = pa.map_(pa.large_string(), STRING_TO_INT)
    table = pa.table(
        {
            "s": pa.array([[("k", {"x": 1, "y": None})], [("l", None)], None], structs),
            "m": pa.array([[("k", [("i", 1)])], [], [("k", [("i", 2), ("j", 3)]), ("l", None)]], maps),
        }
    )
    assert from_arrow(table).rows() == [
        {"s.k.x": Value(Kind.NUMBER, 1), "m.k.i": Value(Kind.NUMBER, 1)},
        {},
        {"m.k.i": Value(Kind.NUMBER, 2), "m.k.j": Value(Kind.NUMBER, 3)},
    ]


def test_keys_of_maps_are_strings() -> None:
    with pytest.raises(TableError, match="a map's keys are attribute names") as caught:
        from_arrow(pa.table({"m": pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))}))
    assert caught.value.column == "m"


def test_keys_of_maps_that_are_not_utf8() -> None:
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), bad_strings(), pa.array([1, 2, 3]))
    batch = from_arrow(pa.table({"m": maps}))
    assert [error.position for error in batch.errors] == [1]
    assert batch.rows() == [{"m.a": Value(Kind.NUMBER, 1)}, {"m.bc": Value(Kind.NUMBER, 3)}]
