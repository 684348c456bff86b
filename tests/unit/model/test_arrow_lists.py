"""Lists of Arrow, in every layout, are the lists of dicts."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.values import Kind, Value

LISTS = [pa.list_(pa.int64()), pa.large_list(pa.int8()), pa.list_(pa.int16(), 2), pa.list_view(pa.int8())]


@pytest.mark.parametrize("kind", LISTS, ids=str)
def test_lists_of_every_layout_are_values(kind: pa.DataType) -> None:
    array = pa.array([[9, 9], None, [1, None], [3, 4]], kind)[1:]
    rows = from_arrow(pa.table({"x": array})).rows()
    elements = [Value(Kind.NUMBER, number) for number in (1, 3, 4)]
    assert rows == [{}, {"x": Value(Kind.LIST, (elements[0], None))}, {"x": Value(Kind.LIST, tuple(elements[1:]))}]


ELEMENTS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["a", None, "\u00e9"]),
    (pa.string_view(), ["a", None, "longer than the twelve bytes of a view"]),
    (pa.struct({"s": pa.string_view()}), [{"s": "a"}, None, {"s": None}]),
    (pa.float64(), [1.5, None, 2.0]),
    (pa.struct({"n": pa.int64()}), [{"n": 1}, None, {"n": None}]),
    (pa.timestamp("us"), [datetime.datetime(2024, 5, 1), None, datetime.datetime(1969, 1, 1)]),
]
LAYOUTS: list[Callable[[pa.DataType], pa.DataType]] = [
    pa.list_, pa.large_list, lambda kind: pa.list_(kind, 2), pa.list_view, pa.large_list_view,
]  # fmt: skip


@pytest.mark.parametrize("element", ELEMENTS, ids=lambda element: str(element[0]))
@pytest.mark.parametrize("layout", LAYOUTS, ids=["list", "large", "fixed", "view", "large view"])
def test_slices_of_lists_with_nulls_read_as_in_dicts(
    layout: Callable[[pa.DataType], pa.DataType], element: tuple[pa.DataType, list[Any]]
) -> None:
    kind, (first, null, last) = element
    array = pa.array([[first, last], None, [first, null], [last, first], [null, null]], layout(kind))
    for part in (array, array[1:], array[2:4], array[4:], array[:0], pa.chunked_array([array[3:], array[:2]])):
        found = from_arrow(pa.table({"x": part}))
        assert found.rows() == from_dicts([{"x": each} for each in part.to_pylist()]).rows()
        assert not found.errors


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=["list", "large"])
@pytest.mark.parametrize("elements", [100_000, 100_001])
def test_a_list_has_as_many_elements_as_in_dicts(layout: Callable[[pa.DataType], pa.DataType], elements: int) -> None:
    array = pa.array([None, ["x"] * elements, ["y"]], layout(pa.string()))
    found = from_arrow(pa.table({"x": array}), strict=False)
    assert [(warning.position, warning.attribute) for warning in found.warnings] == [(1, "x")] * (elements - 100_000)
    assert ["x" in row for row in found.rows()] == [False, elements == 100_000, True]


def test_lists_of_structs_are_lists_of_objects() -> None:
    kind = pa.list_(pa.struct({"n": pa.int64(), "l": pa.list_(pa.string())}))
    table = pa.table({"x": pa.array([[{"n": 1, "l": ["a", None]}, None, {"n": None, "l": None}], [], None], kind)})
    objects = ({"n": Value(Kind.NUMBER, 1), "l": Value(Kind.LIST, (Value(Kind.STRING, "a"), None))}, None, {})
    assert from_arrow(table).rows() == [{"x": Value(Kind.LIST, objects)}, {"x": Value(Kind.LIST, ())}, {}]
    assert from_dicts(table.to_pylist()).rows() == from_arrow(table).rows()
