"""Columns in chunks, run-end encoded, sliced or damaged, and attributes given by two columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import Kind, Value
from ray_pubsub.settings import EVENT_DEPTH
from tests.unit.model.arrow_reading import bad_strings, kinds, plains, problems


def test_chunked_tables() -> None:
    table = pa.concat_tables(
        [pa.table({"x": [1, None], "s": ["a", "b"]}), pa.table({"x": [2**53 + 1], "s": pa.array([None], pa.string())})]
    )
    assert table.column("x").num_chunks == 2
    assert from_arrow(table).rows() == from_dicts(table.to_pylist()).rows()
    assert from_arrow(table.slice(1)).rows() == from_dicts(table.to_pylist()[1:]).rows()


def test_a_column_without_chunks() -> None:
    assert from_arrow(pa.table({"x": pa.chunked_array([], pa.int64())})).size == 0


def test_run_end_encoded() -> None:
    column = pa.RunEndEncodedArray.from_arrays([2, 3, 5], pa.array(["a", None, "b"]))
    assert plains(column) == ["a", "a", None, "b", "b"]
    assert plains(column[1:4]) == ["a", None, "b"]
    assert plains(pa.RunEndEncodedArray.from_arrays([2, 3], pa.array([2**53 + 1, None]))) == [2**53 + 1] * 2 + [None]


def test_run_end_encoded_beside_a_bad_row() -> None:
    column = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None]))
    batch = from_arrow(pa.table({"x": column, "y": pa.array([b"bad", None, None])}))
    assert problems(batch) == [(0, "y")]
    assert batch.rows() == [{"x": Value(Kind.STRING, "a")}, {}]


def test_extension_types_are_read_as_what_they_store() -> None:
    assert plains(pa.array(["{}", None], pa.json_())) == ["{}", None]


def test_booleans_stored_as_bytes_are_booleans() -> None:
    column = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0, None], pa.int8()))
    assert kinds(column) == {Kind.BOOLEAN}
    assert plains(column) == [True, False, None]


def test_a_record_batch_is_a_table() -> None:
    assert from_arrow(pa.record_batch({"x": [1, 2]})).rows() == from_dicts([{"x": 1}, {"x": 2}]).rows()
    assert read_events(pa.record_batch({"x": [1]})).rows() == from_dicts([{"x": 1}]).rows()


def test_a_stream_of_batches_is_read_or_refused() -> None:
    """What has a schema but no columns is not a table."""
    try:
        batch = read_events(pa.table({"x": [1]}).to_reader())
    except Exception as error:
        assert type(error).__module__ == "ray_pubsub.errors", repr(error)
    else:
        assert batch.rows() == [{"x": Value(Kind.NUMBER, 1)}]


def test_tables_without_rows_or_columns() -> None:
    assert from_arrow(pa.table({})).size == 0
    assert from_arrow(pa.table({"x": pa.array([], pa.int64()), "s": pa.array([], pa.string())})).rows() == []


def test_two_columns_of_one_name() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(TableError, match="two columns of this name") as caught:
        from_arrow(table)
    assert caught.value.column == "x"


@pytest.mark.parametrize("dotted", [[1, None, 3, None], ["x", None, "y", None], [[1], None, [2], None]])
@pytest.mark.parametrize("chunks", [1, 2])
def test_a_dotted_column_and_a_nested_one(dotted: list[Any], chunks: int) -> None:
    """A row may have one of the two values, not both, even if they are of different kinds; as a dict with both."""
    table = pa.table({"a.b": dotted, "a": [{"b": 2}, {"b": 5}, {"b": None}, None], "c": [1, 2, 3, 4]})
    if chunks == 2:
        table = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    dicts = from_dicts(table.to_pylist(), strict=False)
    batch = from_arrow(table, strict=False)
    assert batch.rows() == dicts.rows()
    assert batch.rows()[0] == {"c": Value(Kind.NUMBER, 1)}
    assert batch.rows()[1]["a.b"] == Value(Kind.NUMBER, 5)
    assert list(map(str, batch.warnings)) == list(map(str, dicts.warnings))
    assert problems(from_arrow(table)) == problems(from_dicts(table.to_pylist())) == [(0, "a.b")]


def test_elements_with_a_dotted_field_and_a_nested_one() -> None:
    rows = [[{"a.b": 1, "a": {"b": None}}], [{"a.b": None, "a": {"b": 3}}, {"a.b": 1, "a": {"b": 3}}], [{"a.b": 7}]]
    table = pa.table({"list": rows})
    dicts = from_dicts(table.to_pylist(), strict=False)
    batch = from_arrow(table, strict=False)
    assert batch.rows() == dicts.rows()
    assert [(each.position, each.attribute) for each in batch.warnings] == [(1, "list")]
    assert problems(from_arrow(table)) == [(1, "list")]


def test_ids_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(TableError, match="an event id is a string that is not valid UTF-8"):
        from_arrow(pa.table({"x": bad_strings()}), "x")


def test_damaged_columns_are_refused() -> None:
    """Arrow does not check its buffers; reading beyond them would read other memory."""
    for offsets in ([0, 9, 1, 2], [0, 1, -7, 2]):
        buffers = [None, pa.py_buffer(np.array(offsets, dtype=np.int32).tobytes()), pa.py_buffer(b"abc")]
        with pytest.raises(TableError, match="damaged"):
            from_arrow(pa.table({"x": pa.Array.from_buffers(pa.string(), 3, buffers)}))
    for index in (5, -1):
        indices = pa.array([0, index], pa.int8())
        column = pa.DictionaryArray.from_arrays(indices, pa.array(["a"]), safe=False)
        with pytest.raises(TableError, match="damaged"):
            from_arrow(pa.table({"x": column}))


def test_a_character_cut_in_two_is_not_utf8() -> None:
    """All bytes together are valid."""
    offsets = pa.py_buffer(np.array([0, 1, 2, 3], dtype=np.int32).tobytes())
    column = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer("é!".encode())])
    assert problems(from_arrow(pa.table({"x": column}))) == [(0, "x"), (1, "x")]


@pytest.mark.parametrize("innermost", [5, {"n": 5}], ids=["number", "object"])
def test_lists_nest_as_deep_as_in_dicts(innermost: Any) -> None:
    for depth in (EVENT_DEPTH - 1, EVENT_DEPTH, EVENT_DEPTH + 1):
        value = innermost
        for _ in range(depth):
            value = [value]
        events = [{"x": value, "y": 1}]
        dicts, arrow = from_dicts(events), from_arrow(pa.Table.from_pylist(events))
        assert list(arrow.rows()) == list(dicts.rows())
        assert problems(arrow) == problems(dicts)
        assert bool(arrow.errors) == (depth + isinstance(innermost, dict) > EVENT_DEPTH)


def test_a_string_that_ends_within_a_character_because_a_null_holds_the_rest_is_invalid() -> None:
    offsets, data = np.array([0, 1, 2, 3], np.int32), "éa".encode()
    valid = pa.py_buffer(np.array([0b101], np.uint8))
    array = pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(data), valid, 1)
    batch = from_arrow(pa.table({"s": array}))
    assert [(error.attribute, error.position) for error in batch.errors] == [("s", 0)]


def test_strings_of_a_slice_with_nulls() -> None:
    texts = ["a", None, "é", "", None, None, "long " * 9, "z", None, "b", "日本"]
    for start in range(len(texts)):
        batch = from_arrow(pa.table({"s": pa.array(texts)[start:]}))
        lanes = batch.lanes
        present = [(row, text) for row, text in enumerate(texts[start:]) if text is not None]
        assert [(row, lanes[0].plain(place)) for place, (row, _) in enumerate(present)] == present
        rows = lanes[0].rows
        assert (list(range(len(texts) - start)) if rows is None else rows.tolist()) == [row for row, _ in present]


@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("kind", ["struct", "map"])
def test_objects_are_nested_as_deeply_as_dicts(kind: str, in_list: bool) -> None:
    """Whether a value is used does not depend on the form of the events."""
    for depth in range(EVENT_DEPTH - 2, EVENT_DEPTH + 2):
        raw, type_ = 1, pa.int64()
        for _ in range(depth):
            raw = {"o": raw}  # type: ignore[assignment]
            type_ = pa.struct([("o", type_)]) if kind == "struct" else pa.map_(pa.string(), type_)
        event = {"x": 1, "a": [raw] if in_list else raw}
        table = pa.Table.from_pylist(
            [event], pa.schema([("x", pa.int64()), ("a", pa.list_(type_) if in_list else type_)])
        )
        dicts, arrow = from_dicts([event], strict=False), from_arrow(table, strict=False)
        assert arrow.rows() == dicts.rows()
        assert len(arrow.warnings) == len(dicts.warnings) == (depth + in_list > EVENT_DEPTH)
