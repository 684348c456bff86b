"""Adding in bulk: what is added, what is reported, and what a table must look like."""

from __future__ import annotations

import pickle
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
    with pytest.raises(SettingError, match="2 ids and 1 expressions"):
        index.add_many(["a", "b"], ["x = 1"])
    assert len(index) == 0


# ------------------------------------------------------------------------------------------------------------- add_table

SUBSCRIPTIONS = {"id": ["a", "b"], "expression": ["x = 1", "x = 2"]}


@pytest.mark.parametrize("kind", [pa.table, pa.RecordBatch.from_pydict, pd.DataFrame])
def test_add_many_takes_a_table_instead_of_ids_and_expressions(kind: Any) -> None:
    index = MatchIndex()
    assert index.add_many(kind(SUBSCRIPTIONS), removing=["b"]).added == 2
    assert index.match({"x": 2}) == ["b"]
    with pytest.raises(TableError, match="'expression': missing; the table must have the columns id, expression"):
        index.add_many(pa.table({"id": ["a"]}))
    with pytest.raises(SettingError, match="expressions: must be given, unless ids is a table"):
        index.add_many(["a", "b"])


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


def not_utf8(kind: pa.DataType = pa.string()) -> pa.Array:  # noqa: B008 - a constant
    content = pa.array(
        [b"good", b"\xff\xfe", b"also good"], pa.large_binary() if kind == pa.large_string() else pa.binary()
    )
    found = pa.Array.from_buffers(pa.large_string() if kind == pa.large_string() else pa.string(), 3, content.buffers())
    return found.dictionary_encode() if pa.types.is_dictionary(kind) else found


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_strings_of_arrow_that_are_not_utf8_are_rejected_alone(kind: pa.DataType) -> None:
    report = MatchIndex().add_many(pa.table({"id": not_utf8(kind), "expression": ["x = 1"] * 3}))
    assert (report.added, [each.position for each in report.rejections]) == (2, [1])
    report = MatchIndex().add_many(pa.table({"id": [1, 2, 3], "expression": not_utf8(kind)}))
    assert (report.added, [each.position for each in report.rejections]) == (1, [1, 2])  # "also good" is no expression
    for column in ("id", "attribute"):
        columns = {
            "id": ["a", "b", "c"],
            "attribute": ["x"] * 3,
            "low": [1, 2, 3],
            "high": [1, 2, 3],
            column: not_utf8(kind),
        }
        with pytest.raises(TableError, match=f"column '{column}': has a string that is not valid UTF-8"):
            MatchIndex().add_predicates(pa.table(columns))
