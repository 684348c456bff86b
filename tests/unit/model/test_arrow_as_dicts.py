"""Any table reads as the same dicts, and every type inside every other."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub.errors import TableError
from ray_pubsub.model.arrow.arrow_events import from_arrow
from tests.examples import scaled
from tests.unit.model.arrow_reading import same


def moments(unit: str, most: int) -> st.SearchStrategy[np.datetime64]:
    return st.integers(-most, most).map(lambda count: np.datetime64(count, unit))  # type: ignore[call-overload]


STRINGS = st.text(max_size=4)
COLUMNS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    *[(getattr(pa, f"int{w}")(), st.integers(-(2 ** (w - 1)), 2 ** (w - 1) - 1)) for w in (8, 16, 32, 64)],
    *[(getattr(pa, f"uint{w}")(), st.integers(0, 2**w - 1)) for w in (8, 16, 32, 64)],
    (pa.float16(), st.floats(width=16).map(np.float16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.bool_(), st.booleans()),
    (pa.string(), STRINGS),
    (pa.large_string(), STRINGS),
    (pa.dictionary(pa.int32(), pa.string()), STRINGS),
    (pa.dictionary(pa.int8(), pa.int64()), st.integers(-5, 5)),
    (pa.decimal128(12, 3), st.decimals(-99_999_999, 99_999_999, places=3)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.timestamp("s"), moments("s", 2**42)),
    (pa.timestamp("ms"), moments("ms", 2**52)),
    (pa.timestamp("us"), moments("us", 2**62)),
    (pa.timestamp("ns"), moments("ns", 2**62)),
    (pa.timestamp("us", "Asia/Tokyo"), moments("us", 2**62)),
    (pa.binary(), st.binary(max_size=2)),
    (pa.null(), st.none()),
]


def optional(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


def column_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        counts = [None if value is None else int(value.astype(np.int64)) for value in values]
        return pa.array(counts, pa.int64()).cast(kind)
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode().cast(kind)
    return pa.array(values, kind)


@st.composite
def nested(draw: st.DrawFn, size: int) -> tuple[pa.Array, list[Any]]:
    """A struct or a map column, and its values as dicts."""
    kind, values = draw(st.sampled_from([(pa.int64(), st.integers(-9, 9)), (pa.string(), STRINGS)]))
    keys = st.sampled_from(["p", "q", "r"])
    if draw(st.booleans()):
        dicts = draw(st.lists(optional(st.dictionaries(keys, optional(values))), min_size=size, max_size=size))
        pairs = [None if entry is None else list(entry.items()) for entry in dicts]
        return pa.array(pairs, pa.map_(pa.string(), kind)), dicts
    inner = st.fixed_dictionaries({"i": optional(values)})
    whole = st.fixed_dictionaries({"p": optional(values), "q": optional(inner)})
    dicts = draw(st.lists(optional(whole), min_size=size, max_size=size))
    return pa.array(dicts, pa.struct([("p", kind), ("q", pa.struct([("i", kind)]))])), dicts


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, list[dict[str, Any]]]:
    """A table, sliced and chunked anyhow, and the same events as dicts."""
    size = draw(st.integers(0, 7))
    columns: dict[str, pa.Array] = {}
    events: list[dict[str, Any]] = [{} for _ in range(size)]
    for name in draw(st.lists(st.sampled_from(["a", "b", "c.d", "e f"]), min_size=1, max_size=4, unique=True)):
        if draw(st.integers(0, 3)) == 0:
            column, values = draw(nested(size))
        else:
            kind, strategy = draw(st.sampled_from(COLUMNS))
            values = draw(st.lists(optional(strategy), min_size=size, max_size=size))
            column = column_of(values, kind)
        columns[name] = column
        for event, value in zip(events, values, strict=True):
            event[name] = value
    table = pa.table(columns)
    cut = draw(st.integers(0, size))
    if draw(st.booleans()):
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    start = draw(st.integers(0, size))
    return (table.slice(start), events[start:]) if draw(st.booleans()) else (table, events)


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(tables())
def test_any_table_reads_as_the_same_dicts(drawn: tuple[pa.Table, list[dict[str, Any]]]) -> None:
    table, events = drawn
    same(from_arrow(table), events)


LEAVES: dict[str, pa.Array] = {
    "string": pa.array(["a", None, "b\u00e9"]),
    "large_string": pa.array(["a", None, "b"], pa.large_string()),
    "string_view": pa.array(["a", None, "b" * 20], pa.string_view()),
    "int64": pa.array([1, None, 2**53 + 1]),
    "double": pa.array([1.5, None, 3]),
    "half": pa.array([1.0, None, 2.0], pa.float16()),
    "bool": pa.array([True, None, False]),
    "timestamp": pa.array([1000, None, 3000], pa.timestamp("ns", "UTC")),
    "decimal": pa.array([Decimal("1.5"), None, Decimal(2)], pa.decimal128(30, 2)),
    "null": pa.nulls(3),
    "binary": pa.array([b"x", None, b"y"]),
    "list": pa.array([[1], None, []]),
    "struct": pa.array([{"p": 1, "q": "x"}, None, {"p": None, "q": "y"}]),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "map of views": pa.array([[("k", "v")], None, []], pa.map_(pa.string_view(), pa.string_view())),
    "uuid": pa.array([b"0" * 16, None, b"1" * 16], pa.uuid()),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array([*"abc"])]
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a"])]
    ),
}


def wrapped(name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array, list[Any]]]:
    """The array inside others, where Arrow can make them, and which element each of theirs is; None for null."""
    yield name, array, list(range(len(array)))
    for how, make, places in (
        (
            "dictionary",
            lambda: pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 1], pa.int8()), array),
            [0, None, 2, 1],
        ),
        ("runs", lambda: pa.RunEndEncodedArray.from_arrays(pa.array([2, 3, 5], pa.int16()), array), [0, 0, 1, 2, 2]),
    ):
        try:
            yield f"{how} of {name}", make(), places
        except pa.ArrowException:
            continue


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_type_inside_others_reads_as_the_same_values(leaf: str) -> None:
    """Arrow's own functions know only some types of values of dictionaries and runs."""

    def read(array: Any) -> list[Any]:
        batch = from_arrow(pa.table({"x": array}))
        rows: list[Any] = ["bad"] * batch.input_size
        for place, row in zip(
            range(batch.size) if batch.positions is None else batch.positions, batch.rows(), strict=True
        ):
            rows[place] = row
        return rows

    alone = read(LEAVES[leaf])
    for name, outer, places in wrapped(leaf, LEAVES[leaf]):
        for deeper, array, inner in wrapped(name, outer):
            values = [None if place is None or places[place] is None else alone[places[place]] for place in inner]
            expected = [{} if value is None else value for value in values]
            assert read(array) == expected, deeper
            assert read(array[1:]) == expected[1:], deeper
            assert read(pa.chunked_array([array, array[:0], array[:1]])) == [*expected, expected[0]], deeper


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_type_inside_others_as_ids_is_read_or_refused(leaf: str) -> None:
    for name, outer, _ in wrapped(leaf, LEAVES[leaf]):
        for _, array, _ in wrapped(name, outer):
            for column in (array, array[:1], array[:0]):
                try:
                    ids = from_arrow(pa.table({"x": column}), "x").ids
                except TableError:
                    continue
                assert all(isinstance(identity, str | int) for identity in ids.tolist())
