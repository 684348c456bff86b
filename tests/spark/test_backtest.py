"""How often subscriptions would have matched, on real Spark: the same counts as an index in this process gives on the same rows."""

from __future__ import annotations

import datetime
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.errors import PythonException

from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    ExpressionSyntaxError,
    RejectedSubscriptionsError,
    SettingError,
    SubscriptionIdError,
    TableError,
    UnknownSubscriptionError,
)
from spark_bridge import backtest
from spark_bridge.backtesting.backtest import _explained
from tests.spark.event_samples import expressions, frame_of, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def counted(subscriptions: dict[str, str], events: list[dict[str, Any]]) -> dict[str, int]:
    index = MatchIndex(engine="scan")
    assert index.add_many(subscriptions.keys(), subscriptions.values())
    counts = dict.fromkeys(subscriptions, 0)
    for _, identity in index.match_many(events).pairs():
        counts[identity] += 1
    return counts


def test_counts_are_those_of_an_index_in_process(spark: SparkSession) -> None:
    events, subscriptions = rows(500), expressions(150)
    found = backtest(subscriptions, frame_of(spark, events), event_id="n", examples=3)
    expected = counted(subscriptions, events)
    assert dict(zip(found.ids, found.counts.tolist(), strict=True)) == expected
    assert (found.rows, found.bad, found.rejections) == (500, [], [])
    index = MatchIndex()
    index.add_many(subscriptions.keys(), subscriptions.values())
    assert found.matched_rows == sum(bool(index.match(event)) for event in events)
    for identity, count in expected.items():
        examples = found.examples(identity)
        assert len(examples) == min(3, count)
        assert len({example.event_id for example in examples}) == len(examples)
        for example in examples:  # an example is an event: it can be matched and explained
            assert identity in index.match(example.event)
            assert example.event["n"] == int(example.event_id or "")
            assert identity in index.match(events[example.event["n"]])


def test_skewed_and_empty_partitions(spark: SparkSession) -> None:
    events, subscriptions = rows(1000), expressions(20)
    one = frame_of(spark, events, 1).coalesce(1)
    skewed = one.union(one.limit(0)).union(frame_of(spark, events[:1], 4))
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
    try:
        found = backtest(subscriptions, skewed, examples=1)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert found.rows == 1001
    assert dict(zip(found.ids, found.counts.tolist(), strict=True)) == counted(subscriptions, [*events, events[0]])


def test_no_events(spark: SparkSession) -> None:
    found = backtest(["price < 5", "price is null"], frame_of(spark, rows(3)).limit(0), by="at")
    assert (found.rows, found.counts.tolist(), found.matched_rows, found.windows) == (0, [0, 0], 0, [])
    assert found.rates.tolist() == found.per_window().tolist() == [0, 0]
    assert found.windows_to_arrow().num_rows == 0
    assert "0 events" in str(found)


def test_no_examples(spark: SparkSession) -> None:
    found = backtest("price < 5", frame_of(spark, rows(50)), examples=0)
    assert found.examples(0) == [] and found.count(0) > 0


def test_bad_events_are_counted_with_the_reason(spark: SparkSession) -> None:
    frame = spark.sql(
        "select id, if(id % 4 = 0, cast('12345678901234567.1' || id as decimal(38, 10)), cast(id as decimal(38, 10))) as amount, "
        "if(id % 8 = 1, cast('99999999999999999999' as decimal(38)), null) as big from range(0, 40, 1, 2)"
    )
    found = backtest(["id >= 0", "amount = 2", "big = 1"], frame, examples=100)
    assert (found.rows, found.bad_rows, found.counts.tolist()) == (40, 15, [25, 1, 0])
    assert [reason.count for reason in found.bad] == [10, 5]
    assert "amount: the decimal 12345678901234567." in found.bad[0].reason and "more digits" in found.bad[0].reason
    assert found.bad[1].reason == "big: the integer 99999999999999999999 does not fit 64 bits"
    assert found.rates.tolist() == [1.0, 1 / 25, 0.0]
    assert "10 x amount: the decimal" in str(found)
    narrower = frame.drop("big")  # a column that no server could take makes its rows bad, tested or not
    without = backtest(["id >= 0", "amount = 2"], narrower, examples=100)
    assert (without.rows, without.bad_rows, without.counts.tolist()) == (40, 10, [30, 1])
    shown = {example.event["id"]: example.event for example in without.examples(0)}
    assert shown[1] == {"id": 1, "amount": 1} and len(shown) == 30  # what nobody tests and cannot be read is left out


def test_maps_that_clash_in_some_rows_only(spark: SparkSession) -> None:
    """A key with a dot beside a nested key: a batch in which both give one attribute is not refused as a whole."""
    frame = spark.sql(
        "select id, case id % 3 when 0 then map('a', map('b.c', 1)) when 1 then map('a.b', map('c', 2)) "
        "else map('a', map('b.c', 1), 'a.b', map('c', 2)) end as m from range(0, 9, 1, 1)"
    )
    found = backtest({"one": "m.a.b.c = 1", "two": "m.a.b.c = 2"}, frame)
    assert found.counts.tolist() == [3, 3]
    assert [(reason.count, reason.reason.partition(":")[0]) for reason in found.bad] == [(3, "m.a.b.c")]


def test_times_and_ids_that_python_does_not_have(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 1 as x, id, timestamp_millis(id * 31556952000) as at, if(id = 0, cast(X'ff61' as string), 'e' || id) as name "
        "from values (0), (54), (12000), (200000), (-3000), (-200000), (null) as t(id)"
    )
    found = backtest("x = 1", frame, by="at", window="month", columns=["x", "at"], event_id="name", examples=10)
    assert (found.rows, found.count(0)) == (7, 7)
    assert found.windows == [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 1, 1), None]
    assert found.window_rows.tolist() == [1, 1, 5]
    ids = {example.event_id for example in found.examples(0)}
    assert ids == {"\ufffda", "e54", "e12000", "e200000", "e-3000", "e-200000", None}


@pytest.mark.usefixtures("session_zone")
def test_days_are_those_of_the_sessions_zone(spark: SparkSession) -> None:
    frame = spark.sql(
        "select * from values (1, timestamp'2024-03-09 23:30:00'), (1, timestamp'2024-03-10 00:30:00'), "
        "(2, timestamp'2024-03-10 23:59:59'), (1, timestamp'2024-03-12 12:00:00'), (1, null) as t(x, at)"
    )
    found = backtest({"one": "x = 1", "two": "x = 2"}, frame, by="at", columns=["x"])
    days = [datetime.datetime(2024, 3, day) for day in (9, 10, 12)]
    assert found.windows == [*days, None]
    assert found.window_rows.tolist() == [1, 2, 1, 1]
    table = sorted(map(tuple, (row.values() for row in found.windows_to_arrow().to_pylist())), key=str)
    assert table == sorted(
        [("one", days[0], 1), ("one", days[1], 1), ("two", days[1], 1), ("one", days[2], 1), ("one", None, 1)], key=str
    )
    assert (found.busiest().tolist(), found.per_window().tolist()) == ([1, 1], [1.0, 1 / 3])
    assert found.to_arrow().column_names == ["id", "expression", "matches", "rate", "per_window", "busiest"]
    assert found.count("one") == 4 and "no time" in str(found)


@pytest.mark.parametrize(
    ("column", "window", "starts"),
    [
        ("timestamp_ntz'2024-03-10 02:31:00'", "15 minutes", datetime.datetime(2024, 3, 10, 2, 30)),
        ("timestamp'2024-03-10 12:31:00'", "hour", datetime.datetime(2024, 3, 10, 12)),
        ("date'2024-03-13'", "1 week", datetime.datetime(2024, 3, 11)),
        ("date'2024-03-13'", "2 Months", datetime.datetime(2024, 3, 1)),
        ("date'2024-03-13'", "year", datetime.datetime(2024, 1, 1)),
    ],
)
@pytest.mark.usefixtures("session_zone")
def test_windows(spark: SparkSession, column: str, window: str, starts: datetime.datetime) -> None:
    """Wall clocks: 02:31 of that day is no time in New York, but it is one of a timestamp_ntz."""
    found = backtest("x = 1", spark.sql(f"select 1 as x, {column} as at"), by="at", window=window)
    assert found.windows == [starts]


def test_subscriptions_in_every_form(spark: SparkSession) -> None:
    frame = frame_of(spark, rows(60), 1)
    texts = ["price < 20", "model = 'pixel'"]
    index = MatchIndex()
    index.add_many(["a", "b"], texts)
    table = pa.table({"id": ["a", "b"], "expression": texts})
    found = {
        "list": backtest(texts, frame),
        "dict": backtest(dict(zip("ab", texts, strict=True)), frame),
        "index": backtest(index, frame),
        "arrow": backtest(table, frame),
        "pandas": backtest(table.to_pandas(), frame),
        "spark": backtest(
            spark.createDataFrame([("a", texts[0]), ("b", texts[1])], "id string, expression string"), frame
        ),
    }
    expected = list(counted(dict(zip("ab", texts, strict=True)), rows(60)).values())
    assert {name: one.counts.tolist() for name, one in found.items()} == dict.fromkeys(found, expected)
    assert {name: one.ids for name, one in found.items()} == {name: ["a", "b"] for name in found} | {"list": [0, 1]}
    assert backtest(texts[0], frame).counts.tolist() == expected[:1]


def test_bad_subscriptions_are_left_out(spark: SparkSession) -> None:
    frame = frame_of(spark, rows(10), 1)
    table = pd.DataFrame({"id": ["a", "b", "a", 1.5, 7], "expression": ["n >= 0", "n >", "n >= 5", "n = 1", "n < 3"]})
    found = backtest(table, frame)
    assert (found.ids, found.counts.tolist()) == (["a", 7], [5, 3])
    assert [(rejection.position, rejection.id) for rejection in found.rejections] == [(1, "b"), (3, 1.5)]
    assert isinstance(found.rejections[1].error, SubscriptionIdError)
    assert found.to_pandas()["id"].tolist() == ["a", 7]
    with pytest.raises(TableError, match="both str and int"):
        found.to_arrow()
    assert "#1 ('b')" in str(found)


def test_what_is_refused_before_a_job_runs(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as n, raise_error('a job ran') as text, current_timestamp() as at")
    with pytest.raises(ExpressionSyntaxError):
        backtest("n >", frame)
    with pytest.raises(RejectedSubscriptionsError):
        backtest(["n >", "n <"], frame)
    for nothing in ([], {}, MatchIndex()):
        with pytest.raises(SettingError, match="there is none"):
            backtest(nothing, frame)
    with pytest.raises(SettingError, match="not int"):
        backtest(5, frame)
    with pytest.raises(TableError, match="missing; subscriptions have the columns"):
        backtest(pa.table({"id": ["a"]}), frame)
    with pytest.raises(TableError, match="missing; subscriptions have the columns"):
        backtest(frame, frame)
    with pytest.raises(TableError, match="windows need a timestamp or a date, this is int"):
        backtest("n = 1", frame, by="n")
    for window in ("1 parsec", "0 days", "-1 day", "", None, "1.5 days"):
        with pytest.raises(SettingError, match="window"):
            backtest("n = 1", frame, by="at", window=window)  # type: ignore[arg-type]
    for examples in (-1, 1.5, True, None):
        with pytest.raises(SettingError, match="examples"):
            backtest("n = 1", frame, examples=examples)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="a Spark DataFrame, not list"):
        backtest("n = 1", [{"n": 1}])  # type: ignore[arg-type]
    with pytest.raises(TableError, match="a stream has no end"):
        backtest("n = 1", spark.readStream.format("rate").load())


def test_what_the_job_itself_raises_is_passed_on(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="the data is broken"):
        backtest("n = 1", spark.sql("select 1 as n, raise_error('the data is broken') as text"))


def test_workers_with_another_python_are_named() -> None:
    said = _explained(PythonException("…\nModuleNotFoundError: No module named 'ray_pubsub'"))
    assert isinstance(said, SettingError) and said.setting == "PYSPARK_PYTHON" and "'ray_pubsub'" in str(said)
    other = PythonException("ZeroDivisionError")
    assert _explained(other) is other


def test_it_prints_as_a_table(spark: SparkSession) -> None:
    frame = frame_of(spark, rows(100), 1)
    many = {f"s{number}": f"n < {number}" for number in range(30)}
    found = backtest(many, frame, event_id="n", by="at")
    text = str(found)
    assert repr(found) == "Backtest(30 subscriptions, 100 events, 435 matches)"
    assert max(map(len, text.splitlines())) <= 120
    assert "100 events; 29 (29 %) match at least one of 30 subscriptions" in text
    assert "and 10 more in .to_pandas()" in text
    first = next(line for line in text.splitlines() if "s29" in line)
    assert "n < 29" in first and "29 %" in first and "0: n=0" in first
    with pytest.raises(UnknownSubscriptionError):
        found.count("nobody")


def test_the_example_in_the_documents(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    _, block = re.findall(r"^```python\n(from pyspark.*?)^```", text, re.MULTILINE | re.DOTALL)
    exec(compile(block, "docs/spark.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "match at least one of 2 subscriptions" in printed
    assert "100 {'id': 0, 'price': 0, " in printed
