"""Subscriptions added as tables of intervals: which bounds mean what, and which tables and subscriptions are rejected."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ray_pubsub import AddReport, MatchIndex
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    TableError,
)
from tests.unit.index.test_bulk import INF, NAN, matches


def predicates(**columns: Any) -> pa.Table:
    size = len(columns["low"])
    return pa.table({"id": ["s"] * size, "attribute": ["x"] * size, "high": pa.nulls(size), **columns})


def found(table: Any, values: list[Any], name: str = "x") -> list[Any]:
    """Which of the values the table's subscriptions match."""
    index = MatchIndex()
    assert index.add_predicates(table)
    return [value for value in values if index.match({name: value})]


def test_bounds_are_closed_unless_said_otherwise() -> None:
    around = [0, 1, 1.5, 2, 3]
    assert found(predicates(low=[1], high=[2]), around) == [1, 1.5, 2]
    assert found(predicates(low=[1], high=[2], low_closed=[False]), around) == [1.5, 2]
    assert found(predicates(low=[1], high=[2], high_closed=[False]), around) == [1, 1.5]
    assert found(predicates(low=[1], high=[2], low_closed=[False], high_closed=[False]), around) == [1.5]
    nulls = pa.array([None], pa.bool_())
    assert found(predicates(low=[1], high=[2], low_closed=nulls, high_closed=nulls), around) == [1, 1.5, 2]


def test_a_null_bound_is_none() -> None:
    around = [-1, 1, 5, "a", True, None]
    assert found(predicates(low=[1]), around) == [1, 5]
    assert found(predicates(low=pa.array([None], pa.int64()), high=[1]), around) == [-1, 1]
    assert found(predicates(low=pa.array([None], pa.int64())), around) == [-1, 1, 5]
    strings = pa.array([None], pa.string())
    assert found(predicates(low=strings, high=strings), around) == ["a"]


def test_infinite_bounds() -> None:
    around = [-INF, -1, 5, INF]
    assert found(predicates(low=[-INF], high=[INF]), around) == around
    assert found(predicates(low=[-INF], high=[INF], low_closed=[False], high_closed=[False]), around) == [-1, 5]
    assert found(predicates(low=[INF], high=[INF]), around) == [INF]


def test_bounds_the_wrong_way_round_match_nothing() -> None:
    assert found(predicates(low=[2], high=[1]), [0, 1, 1.5, 2, 3]) == []
    assert found(predicates(low=[1], high=[1], low_closed=[False]), [0, 1, 2]) == []


def test_bounds_are_exact() -> None:
    around = [2**53, 2**53 + 1, 2**53 + 2]
    assert found(predicates(low=[2**53 + 1], high=[2**53 + 1]), around) == [2**53 + 1]
    assert found(predicates(low=[2.0**53], high=[2**53 + 1]), around) == [2**53, 2**53 + 1]


def test_bounds_of_every_kind() -> None:
    assert found(predicates(low=["b"], high=["c"]), ["a", "b", "bz", "c", "ca", 5]) == ["b", "bz", "c"]
    assert found(predicates(low=[True], high=[True]), [True, False, 1]) == [True]
    day = datetime.datetime(2024, 5, 1)
    moments = [day, day + datetime.timedelta(microseconds=1), day - datetime.timedelta(microseconds=1), 5]
    assert found(predicates(low=[day]), moments) == moments[:2]
    assert found(predicates(low=[day.date()]), moments) == moments[:2]
    assert found(predicates(low=[Decimal("0.1")], high=[Decimal("0.3")]), [0.1, 0.3, 0.30000000000000004]) == [0.1, 0.3]


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_bounds_of_every_width(width: int) -> None:
    for name in (f"int{width}", f"uint{width}", "float16", "float32"):
        kind = getattr(pa, name)()
        bounds = [np.float16(1), np.float16(2)] if name == "float16" else [1, 2]
        table = predicates(low=pa.array(bounds[:1], kind), high=pa.array(bounds[1:], kind))
        assert found(table, [0, 1, 1.5, 2, 3]) == [1, 1.5, 2], name


def test_bounds_in_dictionaries() -> None:
    assert found(predicates(low=pa.array(["b"]).dictionary_encode()), ["a", "b"]) == ["b"]
    assert found(predicates(low=pa.array([1]).dictionary_encode()), [0, 1]) == [1]
    assert found(predicates(low=pa.array([1.5]).dictionary_encode()), [1, 1.5]) == [1.5]


def test_rows_of_one_attribute_are_alternatives_and_attributes_must_all_hold() -> None:
    index = MatchIndex()
    table = pa.table(
        {
            "id": ["s", "t", "s", "s", "t"],
            "attribute": ["x", "x", "y", "x", "a.b"],
            "low": [1, 0, 5, 7, 1],
            "high": [2, 9, 6, 8, 1],
        }
    )
    assert index.add_predicates(table) == AddReport(2)
    assert list(index) == ["s", "t"]
    assert matches(index, x=1, y=5) == ["s"]
    assert matches(index, x=8, y=6) == ["s"]
    assert matches(index, x=5, y=6) == []
    assert matches(index, x=1) == []
    assert matches(index, x=5, a={"b": 1}) == ["t"]
    assert index.expression("s") == "(x between 1 and 2 or x between 7 and 8) and y between 5 and 6"


@pytest.mark.parametrize(
    "make", [lambda table: table, lambda table: table.to_batches()[0], lambda table: table.to_pandas()]
)
def test_tables_of_predicates(make: Any) -> None:
    table = pa.table({"id": [1, 2], "attribute": ["x", "x"], "low": [1.0, None], "high": [2.0, 9.0]})
    index = MatchIndex()
    assert index.add_predicates(make(table)) == AddReport(2)
    assert list(index) == [1, 2]
    assert matches(index, x=2) == [1, 2]
    assert matches(index, x=-5) == [2]


def test_no_rows() -> None:
    index = MatchIndex()
    assert index.add_predicates(
        predicates(low=pa.array([], pa.int64()), id=pa.array([], pa.string()), attribute=pa.array([], pa.string()))
    ) == AddReport(0)


def test_chunks_and_dictionaries_of_ids() -> None:
    table = pa.table({"id": ["a", "b", "a"], "attribute": ["x", "x", "y"], "low": [1, 2, 3], "high": [1, 2, 3]})
    chunked = pa.concat_tables([table.slice(0, 1), table.slice(1, 1), table.slice(2)])
    encoded = table.set_column(0, "id", table["id"].dictionary_encode()).set_column(
        1, "attribute", table["attribute"].dictionary_encode()
    )
    for given in (chunked, encoded):
        index = MatchIndex()
        assert index.add_predicates(given).added == 2
        assert matches(index, x=1, y=3) == ["a"]
        assert matches(index, x=2) == ["b"]


def test_predicates_replace_and_are_replaced() -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    index.add_predicates(predicates(low=[2], high=[2]))
    assert (matches(index, x=1), matches(index, x=2), len(index)) == ([], ["s"], 1)
    index.add_predicates(predicates(low=[3], high=[3]))
    assert (matches(index, x=2), matches(index, x=3)) == ([], ["s"])
    index.add("s", "x = 4")
    assert (matches(index, x=3), matches(index, x=4)) == ([], ["s"])


@pytest.mark.parametrize(
    ("low", "reason"),
    [
        (pa.array([1.0, NAN, 3.0]), "NaN is no bound"),
        (pa.array([1, 2**63, 3], pa.uint64()), "64 signed bits"),
        (pa.array([Decimal(1), Decimal("0.1234567890123456789"), Decimal(3)]), "more digits"),
    ],
    ids=["NaN", "uint64", "decimal"],
)
def test_a_subscription_with_a_bad_bound_is_refused_whole(low: pa.Array, reason: str) -> None:
    table = pa.table({"id": ["a", "b", "b"], "attribute": ["x", "x", "y"], "low": low, "high": pa.nulls(3, pa.int64())})
    index = MatchIndex()
    report = index.add_predicates(table)
    assert report.added == 1
    ((position, identity, error),) = [(item.position, item.id, item.error) for item in report.rejections]
    assert (position, identity) == (1, "b")
    assert reason in str(error)
    assert list(index) == ["a"]
    assert matches(index, x=1) == ["a"]
    with pytest.raises(RejectedSubscriptionsError):
        MatchIndex().add_predicates(table, atomic=True)


def test_a_refused_subscription_leaves_the_old_one() -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    assert not index.add_predicates(predicates(low=[NAN], high=[1.0]))
    assert index.expression("s") == "x = 1"


@pytest.mark.parametrize("missing", ["id", "attribute", "low", "high"])
def test_predicates_that_lack_a_column(missing: str) -> None:
    with pytest.raises(TableError, match="missing") as caught:
        MatchIndex().add_predicates(predicates(low=[1]).drop_columns([missing]))
    assert caught.value.column == missing


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("id", pa.array([1.0])),
        ("id", pa.array([True])),
        ("id", pa.array([None], pa.string())),
        ("id", pa.array([b"s"])),
        ("id", pa.array([2**63], pa.uint64())),
        ("id", pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.string()))),
        ("attribute", pa.array([1])),
        ("attribute", pa.array([None], pa.string())),
        ("attribute", pa.DictionaryArray.from_arrays(pa.array([0]), pa.array([None], pa.string()))),
        ("low", pa.array([[1]])),
        ("low", pa.array([b"x"])),
        ("low", pa.array([{"a": 1}])),
        ("low", pa.array([datetime.time(1)])),
        ("low", pa.array(["a"])),
        ("low", pa.nulls(1)),
        ("low_closed", pa.array([1])),
        ("high_closed", pa.array(["yes"])),
    ],
    ids=lambda value: str(value.type) if isinstance(value, pa.Array) else value,
)
def test_predicates_with_a_column_of_the_wrong_type(column: str, values: pa.Array) -> None:
    """With `high` a column of ints, but for a `low` without a type of its own."""
    table = predicates(low=[1], high=pa.nulls(1) if pa.types.is_null(values.type) else pa.array([1]))
    table = table.drop_columns([column]) if column in table.column_names else table
    index = MatchIndex()
    try:
        report = index.add_predicates(table.append_column(column, values))
    except TableError as error:
        assert error.column is not None
    else:
        assert (report.added, len(report.rejections)) == (0, 1)
    assert len(index) == 0


def test_a_missing_id_in_a_dictionary_drops_no_row() -> None:
    ids = pa.DictionaryArray.from_arrays(pa.array([0, 1]), pa.array(["a", None]))
    table = pa.table({"id": ids, "attribute": ["x", "y"], "low": [1, 1], "high": [2, 2]})
    with pytest.raises(TableError) as caught:
        MatchIndex().add_predicates(table)
    assert caught.value.column == "id"


@pytest.mark.parametrize(
    "thing", [[{"id": "s"}], {"id": ["s"]}, "s", None, pd.Series([1])], ids=lambda thing: type(thing).__name__
)
def test_no_table_of_predicates(thing: Any) -> None:
    with pytest.raises(TableError):
        MatchIndex().add_predicates(thing)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"id": [1, "a"], "attribute": ["x", "x"], "low": [1, 2], "high": [3, 4]}),
        pd.DataFrame({"id": ["a", "b"], "attribute": ["x", "x"], "low": [1, "b"], "high": [3, "c"]}),
        pd.DataFrame([["a", "b", "x", 1, 2]], columns=["id", "id", "attribute", "low", "high"]),
    ],
    ids=["ids of two types", "bounds of two kinds", "two columns of one name"],
)
def test_frames_of_predicates_that_arrow_refuses(frame: pd.DataFrame) -> None:
    """Read or refused with an error of ours, never with one of another library."""
    try:
        MatchIndex().add_predicates(frame)
    except RayPubSubError as error:
        assert isinstance(error, TableError)


def test_two_columns_of_one_name_in_predicates() -> None:
    table = predicates(low=[1]).append_column("id", pa.array(["t"]))
    with pytest.raises(TableError) as caught:
        MatchIndex().add_predicates(table)
    assert caught.value.column == "id"
