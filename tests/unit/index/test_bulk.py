"""Adding in bulk: what is added, what is reported, and what a table must look like."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ray_pubsub import AddReport, Limits, MatchIndex
from ray_pubsub.errors import (
    ExpressionLimitError,
    ExpressionSyntaxError,
    ExpressionTypeError,
    RayPubSubError,
    RejectedSubscriptionsError,
    SettingError,
    SubscriptionIdError,
    TableError,
)

INF, NAN = float("inf"), float("nan")


def matches(index: MatchIndex, **event: Any) -> list[str | int]:
    return index.match(event)


# -------------------------------------------------------------------------------------------------------------- add_many


def test_all_good() -> None:
    index = MatchIndex()
    report = index.add_many(["a", 1], ["x = 1", "x = 2"])
    assert report
    assert report == AddReport(2)
    assert list(index) == ["a", 1]


def test_none_at_all() -> None:
    index = MatchIndex()
    assert index.add_many([], []) == AddReport(0)
    assert len(index) == 0


def test_any_iterables() -> None:
    index = MatchIndex()
    assert index.add_many((f"s{number}" for number in range(3)), iter(["x = 1"] * 3)).added == 3
    assert index.add_many(range(2), ("x = 1", "x = 2")).added == 2


def test_the_bad_ones_are_reported_and_the_good_ones_added() -> None:
    index = MatchIndex(limits=Limits(leaves=2))
    ids = ["good", "syntax", None, "type", True, "limit", "last", 2**63, 1.5, "\ud800", b"x"]
    expressions = ["x = 1", "x =", "x = 1", 5, "x = 1", "a = 1 or b = 1 or c = 1", "x = 1", *["x = 1"] * 4]
    report = index.add_many(ids, expressions)  # type: ignore[arg-type]
    assert not report
    assert report.added == 2
    assert list(index) == ["good", "last"]
    assert [(rejection.position, type(rejection.error)) for rejection in report.rejections] == [
        (1, ExpressionSyntaxError),
        (2, SubscriptionIdError),
        (3, ExpressionTypeError),
        (4, SubscriptionIdError),
        (5, ExpressionLimitError),
        (7, SubscriptionIdError),
        (8, SubscriptionIdError),
        (9, SubscriptionIdError),
        (10, SubscriptionIdError),
    ]
    assert [rejection.id for rejection in report.rejections] == [ids[place] for place in (1, 2, 3, 4, 5, 7, 8, 9, 10)]
    assert "#1 ('syntax')" in str(report.rejections[0])


def test_a_bad_replacement_leaves_the_old_one() -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    index.add_many(["s"], ["x ="])
    assert index.expression("s") == "x = 1"


def test_all_or_nothing() -> None:
    index = MatchIndex()
    index.add("old", "x = 1")
    with pytest.raises(RejectedSubscriptionsError) as caught:
        index.add_many(["old", "bad", "new", None], ["x = 2", "x =", "x = 3", "x = 4"], atomic=True)  # type: ignore[list-item]
    assert [rejection.position for rejection in caught.value.rejections] == [1, 3]
    assert "#1 ('bad')" in str(caught.value)
    assert list(index) == ["old"]
    assert index.expression("old") == "x = 1"
    assert index.add_many(["old", "new"], ["x = 2", "x = 3"], atomic=True) == AddReport(2)
    assert index.expression("old") == "x = 2"


def test_a_long_list_of_bad_ones_is_shown_in_part() -> None:
    with pytest.raises(RejectedSubscriptionsError) as caught:
        MatchIndex().add_many(range(25), ["x ="] * 25, atomic=True)
    assert len(caught.value.rejections) == 25
    assert "15 more" in str(caught.value)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert [rejection.position for rejection in copied.rejections] == list(range(25))
    assert str(copied) == str(caught.value)


def test_of_equal_ids_in_one_call_the_last_wins() -> None:
    index = MatchIndex()
    index.add_many(["a", "b", "a"], ["x = 1", "x = 2", "x = 3"])
    assert len(index) == 2
    assert index.expression("a") == "x = 3"
    assert matches(index, x=1) == []
    assert matches(index, x=3) == ["a"]
    assert matches(index, x=2) == ["b"]
    assert index.remove("a")
    assert matches(index, x=3) == []


def test_of_equal_ids_in_one_call_the_last_bad_one_loses() -> None:
    index = MatchIndex()
    report = index.add_many(["a", "a"], ["x = 1", "x ="])
    assert [rejection.position for rejection in report.rejections] == [1]
    assert index.expression("a") == "x = 1"


def test_equal_ids_in_one_call_have_one_order() -> None:
    """Iterating and matching both promise the order of adding."""
    index = MatchIndex()
    index.add_many(["a", "b", "a"], ["x > 0", "x > 0", "x > 0"])
    assert matches(index, x=1) == list(index)


def test_one_and_its_text_in_one_call() -> None:
    index = MatchIndex()
    assert index.add_many([1, "1"], ["x = 1", "x = 1"]).added == 2
    assert matches(index, x=1) == [1, "1"]


def test_ids_and_expressions_of_different_lengths() -> None:
    index = MatchIndex()
    with pytest.raises(SettingError, match="2 ids but 1 expressions"):
        index.add_many(["a", "b"], ["x = 1"])
    assert len(index) == 0


# ------------------------------------------------------------------------------------------------------------- add_table

SUBSCRIPTIONS = {"id": ["a", "b"], "expression": ["x = 1", "x = 2"]}


@pytest.mark.parametrize(
    "table",
    [
        pa.table(SUBSCRIPTIONS),
        pa.table({**SUBSCRIPTIONS, "other": [1, 2]}),
        pa.table({"expression": SUBSCRIPTIONS["expression"], "id": SUBSCRIPTIONS["id"]}),
        pa.table({name: pa.array(values).dictionary_encode() for name, values in SUBSCRIPTIONS.items()}),
        pa.record_batch(SUBSCRIPTIONS),
        pa.concat_tables([pa.table(SUBSCRIPTIONS).slice(0, 1), pa.table(SUBSCRIPTIONS).slice(1)]),
        pd.DataFrame(SUBSCRIPTIONS),
    ],
    ids=["table", "more columns", "other order", "dictionaries", "record batch", "chunks", "pandas"],
)
def test_tables_of_expressions(table: Any) -> None:
    index = MatchIndex()
    assert index.add_table(table) == AddReport(2)
    assert {identity: index.expression(identity) for identity in index} == {"a": "x = 1", "b": "x = 2"}


@pytest.mark.parametrize("column", [pa.array([1, 2], pa.int32()), pa.array([1, 2], pa.uint64()), np.array([1, 2])])
def test_tables_with_numbers_for_ids(column: Any) -> None:
    index = MatchIndex()
    frame = isinstance(column, np.ndarray)
    table = (pd.DataFrame if frame else pa.table)({"id": column, "expression": SUBSCRIPTIONS["expression"]})
    assert index.add_table(table).added == 2
    assert list(index) == [1, 2]
    assert matches(index, x=2) == [2]


def test_tables_with_bad_rows() -> None:
    table = pa.table({"id": ["a", None, "c", "d"], "expression": ["x = 1", "x = 2", None, "x ="]})
    index = MatchIndex()
    report = index.add_table(table)
    assert report.added == 1
    assert [(rejection.position, rejection.id) for rejection in report.rejections] == [(1, None), (2, "c"), (3, "d")]
    with pytest.raises(RejectedSubscriptionsError):
        MatchIndex().add_table(table, atomic=True)
    frame = pd.DataFrame({"id": ["a", None, "c", "d"], "expression": ["x = 1", "x = 2", None, "x ="]})
    assert [rejection.position for rejection in MatchIndex().add_table(frame).rejections] == [1, 2, 3]


@pytest.mark.parametrize("missing", ["id", "expression"])
@pytest.mark.parametrize("make", [pa.table, pa.record_batch, pd.DataFrame], ids=["table", "record batch", "pandas"])
def test_tables_that_lack_a_column(make: Any, missing: str) -> None:
    columns = {name: values for name, values in SUBSCRIPTIONS.items() if name != missing}
    with pytest.raises(TableError, match="missing") as caught:
        MatchIndex().add_table(make(columns))
    assert caught.value.column == missing


@pytest.mark.parametrize("thing", [SUBSCRIPTIONS, [("a", "x = 1")], "x = 1", None, 5], ids=repr)
def test_no_table_of_expressions(thing: Any) -> None:
    with pytest.raises(TableError):
        MatchIndex().add_table(thing)


def test_two_columns_of_one_name() -> None:
    for table in (
        pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"]), pa.array(["x = 1"])], ["id", "id", "expression"]),
        pd.DataFrame([["a", "b", "x = 1"]], columns=["id", "id", "expression"]),
    ):
        with pytest.raises(TableError) as caught:
            MatchIndex().add_table(table)
        assert caught.value.column == "id"


# -------------------------------------------------------------------------------------------------------- add_predicates


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


# ----------------------------------------------------------------------------------------------------------- remove_many


def test_remove_many() -> None:
    index = MatchIndex()
    index.add_many(["a", "b", 1], ["x = 1"] * 3)
    assert index.remove_many(["a", "missing", 1, "a"]) == 2
    assert list(index) == ["b"]
    assert index.remove_many([]) == 0
    assert index.remove("b") is True
    assert index.remove("b") is False


@pytest.mark.parametrize("identity", [None, True, 1.0, b"a", 2**63], ids=repr)
def test_remove_of_what_is_no_id(identity: Any) -> None:
    index = MatchIndex()
    index.add("a", "x = 1")
    with pytest.raises(SubscriptionIdError) as caught:
        index.remove_many(["a", identity])
    assert caught.value.id == identity
    assert list(index) == ["a"]


def test_ids_and_texts_in_numpy_arrays() -> None:
    index = MatchIndex()
    assert index.add_many(np.arange(3), np.array(["x = 1", "x = 2", "x = 1"])) == AddReport(3)
    assert matches(index, x=1) == [0, 2]
    assert index.remove_many(np.array([0, 2])) == 2 and list(index) == [1]


def test_one_text_is_not_many_ids() -> None:
    index = MatchIndex()
    index.add_many(["a", "b", "ab"], ["x = 1"] * 3)
    with pytest.raises(SettingError, match="must be a list or a column, not one str"):
        index.remove_many("ab")
    assert len(index) == 3


def test_an_emptied_index_is_as_small_as_a_new_one() -> None:
    index = MatchIndex()
    index.add_many(range(5000), [f"x = {number}" for number in range(5000)])
    for number in range(5000):
        index.remove(number)
    assert index.nbytes < 2 * MatchIndex().nbytes
    assert index.explain({"x": 1}).segments == ()


@pytest.mark.parametrize("engine", ["auto", "dexin", "gem", "opindex", "rein"])
def test_numbers_at_the_ends_of_64_bits(engine: str) -> None:
    """Their differences do not fit 64 bits."""
    index, scan = MatchIndex(engine), MatchIndex("scan")
    least, most = -(2**63), 2**63 - 1
    texts = [f"x >= {-number} and x <= {number} and y != {number}" for number in range(300)]
    texts += [
        "x in (0, -1, 13)",
        "x > 10",
        f"x = {least}",
        f"x <= {most}",
        f"y > {least}",
        "y > -1e30",
        f"x between {least} and -5",
    ]
    for each in (index, scan):
        each.add_many(range(4 * len(texts)), texts * 4, atomic=True)
        each.add_many([f"s{number}" for number in range(3000)], ["z = 0.5"] * 3000, atomic=True)
    events = [
        {"x": x, "y": y}
        for x in (least, least + 1, -6, 0, 13, most - 1, most, 1e300, -1e300)
        for y in (5, least, most, 1)
    ]
    assert [sorted(found) for found in index.match_many(events)] == [sorted(found) for found in scan.match_many(events)]
    assert [sorted(index.match(event)) for event in events[:5]] == [sorted(scan.match(event)) for event in events[:5]]
