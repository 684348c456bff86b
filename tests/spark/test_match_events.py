"""match_events on real Spark and a real server: the rows that a MatchIndex in this process gives for the same events."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException

from ray_pubsub import MatchIndex
from ray_pubsub.errors import EventSchemaError, SettingError, TableError
from spark_bridge import bad_events, match_events
from tests.spark.attempts import failing_first
from tests.spark.event_samples import expressions, frame_of, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from actors.client.server import Server

SUBSCRIBERS = 7


@pytest.fixture
def subscribed(server: Server) -> Iterator[tuple[Server, dict[str, str]]]:
    """150 subscriptions to the sample events, of 7 subscribers, and a rule; some match whatever events others have."""
    import pyarrow as pa

    texts = expressions(150)
    owners = [f"sample-{number % SUBSCRIBERS}" for number in range(len(texts))]
    table = pa.table({"id": list(texts), "subscriber": owners, "expression": list(texts.values())})
    assert server.subscribe_many(table).added == 150
    server.prioritize("dear", "high", "price > 25")
    yield server, texts
    assert server.unsubscribe_many(texts) == 150


def expected(texts: dict[str, str], events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    index = MatchIndex(engine="scan")
    index.add_many(texts.keys(), texts.values())
    found = []
    for event in events:
        dear = event["price"] is not None and event["price"] > 25
        for identity in index.match(event):
            owner = f"sample-{int(str(identity)[1:]) % SUBSCRIBERS}"
            found.append((event["n"], identity, owner, "high" if dear else "low"))
    return sorted(found)


def found(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_the_same_as_an_index_in_process(
    spark: SparkSession,
    subscribed: tuple[Server, dict[str, str]],
    session_setting: Callable[[str, str], None],
) -> None:
    """Partitions of all rows, of one, and of none; many small batches joined, and large ones cut."""
    server, texts = subscribed
    events = rows(1200)
    one = frame_of(spark, events[:1000], 1).coalesce(1)
    skewed = (
        one.union(one.limit(0)).union(frame_of(spark, events[1000:1001], 3)).union(frame_of(spark, events[1001:], 1))
    )
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
    matched = match_events(skewed, server, event_id="n", batch_rows=300)
    assert (
        matched.schema.simpleString()
        == "struct<event_id:bigint,subscription_id:string,subscriber:string,priority:string>"
    )
    matches = expected(texts, events)
    assert found(matched) == matches
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    whole = match_events(frame_of(spark, events, 2), "spark", event_id="n", batch_rows=250, max_in_flight=2)
    assert found(whole) == matches


def test_columns_are_kept_and_ids_are_what_they_are(spark: SparkSession, server: Server) -> None:
    server.subscribe("keeper", "keep.x < 3 and keep.m.color = 'red'", id=5, data={"title": "five"}, tags=["b", "a"])
    frame = spark.sql(
        "select 'e' || id as event_id, named_struct('x', id, 'm', map('color', 'red')) as keep, array(id, id + 1) as tags, "
        "cast(id as decimal(5, 2)) as amount, timestamp'2024-05-01 10:00:00' as at from range(0, 6, 1, 2)"
    )
    matched = match_events(frame, server, event_id="event_id", columns=["keep"], keep=True, subscription_ids="long")
    assert matched.schema.simpleString() == (
        "struct<event_id:string,subscription_id:bigint,subscriber:string,priority:string,keep:struct<x:bigint,m:map<string,string>>,"
        "tags:array<bigint>,amount:decimal(5,2),at:timestamp>"
    )
    got = sorted(matched.filter("subscriber = 'keeper'").collect())
    assert [(row.event_id, row.subscription_id, row.tags, row.keep.x, row.keep.m) for row in got] == [
        (f"e{n}", 5, [n, n + 1], n, {"color": "red"}) for n in range(3)
    ]
    assert {row.at for row in got} == {datetime.datetime(2024, 5, 1, 10)}
    (row,) = match_events(frame, server, columns=["keep"], keep=["keep.x"], metadata=True).take(1)
    assert row.asDict() | {"event_id": 0} == {
        "event_id": 0, "subscription_id": "5", "subscriber": "keeper", "priority": row.priority,
        "data": '{"title":"five"}', "tags": ["a", "b"], "keep.x": 0,
    }  # fmt: skip
    server.unsubscribe(5)


def bad_frame(spark: SparkSession) -> DataFrame:
    """Of 40 rows, 10 have a decimal that is no number of ours, 5 others no id."""
    return spark.sql(
        "select if(id % 8 = 1, null, id) as id, 'bad' as kind, if(id % 4 = 0, cast('12345678901234567.1' || id as decimal(38, 10)), "
        "cast(id as decimal(38, 10))) as amount from range(0, 40, 1, 2)"
    )


def test_bad_rows_are_told_as_chosen(spark: SparkSession, server: Server) -> None:
    server.subscribe("bad rows", "kind = 'bad'", id="bad-1")
    frame = bad_frame(spark)
    good = {n for n in range(40) if n % 4 and n % 8 != 1}
    assert {row.event_id for row in match_events(frame, server, event_id="id").collect()} == good
    told = match_events(frame, server, event_id="id", errors="column", keep=["amount"], metadata=True).collect()
    assert {(row.data, tuple(row.tags or ())) for row in told} == {(None, ())}
    assert {row.event_id for row in told if row.error is None} == good
    bad = [row for row in told if row.error is not None]
    assert all(row.subscription_id is row.subscriber is row.priority is None and row.amount is not None for row in bad)
    reasons = [(row.event_id, row.error.partition(" 1")[0].partition(": the d")[0]) for row in bad]
    wanted = [(n, "amount") for n in range(0, 40, 4)] + [(None, "the event's id is null")] * 5
    assert sorted(reasons, key=str) == sorted(wanted, key=str)
    apart = bad_events(frame, event_id="id").collect()
    assert sorted(((row.event_id, row.error) for row in apart), key=str) == sorted(
        ((row.event_id, row.error) for row in bad), key=str
    )
    with pytest.raises(PythonException, match="EventError: event"):
        match_events(frame.coalesce(1), server, event_id="id", errors="fail").collect()
    server.unsubscribe("bad-1")


def test_a_map_that_clashes_harms_its_own_row_only(spark: SparkSession, server: Server) -> None:
    server.subscribe("maps", "clash.a.b.c > 0", id="clash-1")
    frame = spark.sql(
        "select id, case id % 3 when 0 then map('a', map('b.c', 1)) when 1 then map('a.b', map('c', 2)) "
        "else map('a', map('b.c', 1), 'a.b', map('c', 2)) end as clash from range(0, 9, 1, 1)"
    )
    told = match_events(frame, server, event_id="id", errors="column").collect()
    assert sorted(row.event_id for row in told if row.error is None) == [0, 1, 3, 4, 6, 7]
    assert sorted((row.event_id, row.error.partition(":")[0]) for row in told if row.error) == [
        (n, "clash.a.b.c") for n in (2, 5, 8)
    ]


def delivered(server: Server, subscriber: str) -> list[Any]:
    """All that waits, taken."""
    events: list[Any] = []
    while messages := server.poll(subscriber, limit=10_000):
        events += [message.event for message in messages]
        server.ack(messages)
    return events


@pytest.mark.parametrize("event_id", ["once_n", None])
def test_deliveries_are_made_once_however_often_a_task_runs(
    spark: SparkSession, server: Server, event_id: str | None
) -> None:
    """A first attempt fails when all is delivered; the second has the rows in another order; then all of it again."""
    name = f"once-{event_id}"
    server.subscribe(name, f"once_kind = '{name}' and once_x >= 0", id=name)
    frame = spark.sql(  # of equal rows there are several, in one partition and in two
        f"select '{name}' as once_kind, {'40000 + id' if event_id else 'id % 5'} as once_n, 1 as once_x from range(0, 60, 1, 2)"
    )
    matched = match_events(failing_first(frame), server, event_id=event_id, deliver=True, batch_rows=7)
    assert matched.filter(f"subscriber = '{name}'").count() == 60
    assert matched.filter(f"subscriber = '{name}'").count() == 60
    events = delivered(server, name)
    assert sorted(event["once_n"] for event in events) == sorted(40_000 + n if event_id else n % 5 for n in range(60))
    assert events[0].keys() == {"once_kind", "once_n", "once_x"}
    server.unsubscribe(name)


def test_a_full_mailbox_is_waited_for(spark: SparkSession, server: Server) -> None:
    """6,000 deliveries into a mailbox that holds 2,000, while somebody polls."""
    import threading

    server.subscribe("narrow", "narrow_x >= 0", id="narrow-1")
    over, taken = threading.Event(), []

    def consume() -> None:
        last = False
        while True:
            messages = server.poll("narrow", limit=500, wait=0.5)
            taken.extend(message.event_id for message in messages)
            server.ack(messages)
            if last and not messages:
                return
            last = over.is_set()  # before the next poll: what was delivered by then is taken

    consumer = threading.Thread(target=consume)
    frame = spark.range(500_000, 506_000, 1, 2).selectExpr("id as narrow_x")
    consumer.start()
    try:
        count = match_events(frame, server, event_id="narrow_x", deliver=True).filter("subscriber = 'narrow'").count()
    finally:
        over.set()
        consumer.join()
        server.unsubscribe("narrow-1")
    assert count == 6000
    assert sorted(taken) == list(range(500_000, 506_000))


def test_what_is_refused_before_a_job_runs(spark: SparkSession) -> None:
    frame = spark.sql("select 1 as x, cast('a' as binary) as tags, 2 as priority")
    with pytest.raises(EventSchemaError, match="tags"):
        match_events(frame)
    with pytest.raises(TableError, match="no such column"):
        match_events(frame, columns=["x"], event_id="id")
    with pytest.raises(TableError, match="two columns of this name"):
        match_events(frame, columns=["x"], keep=True)
    arguments: list[dict[str, Any]] = [
        {"server": 5}, {"address": 5}, {"errors": "ignore"}, {"subscription_ids": "int"}, {"batch_rows": 0}, {"max_in_flight": 0},
        {"timeout": 0}, {"patience": -1}, {"keep": "x"}, {"columns": "x"},
    ]  # fmt: skip
    for wrong in arguments:
        with pytest.raises(SettingError):
            match_events(frame, **{"columns": ["x"], **wrong})
    with pytest.raises(SettingError, match="DataFrame"):
        match_events([{"x": 1}])  # type: ignore[arg-type]


def test_the_example_in_the_documents(spark: SparkSession, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    block, _ = re.findall(r"^```python\n(from pyspark.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert "ray_pubsub.start()" in block
    block = block.replace("ray_pubsub.start()", f'ray_pubsub.connect("{server.name}")')
    exec(compile(block, "docs/spark.md", "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "100 subscriptions added, 0 rejected" in printed
    assert "|event_id|subscription_id|subscriber|priority|model|" in printed
    assert server.unsubscribe_many([f"w{number}" for number in range(100)]) == 100


def test_lists_and_computed_attributes(spark: SparkSession, server: Server) -> None:
    """Arrays, arrays of structs and functions of columns, with a server and in a back-test without one."""
    from spark_bridge import backtest

    texts = {
        "tagged": "list_contains(tags, 'red') and lower(name) = 'anna'",
        "item": "exists(items, price < 5 and color = 'red')",
        "long": "len(tags) >= 2 and n * 2 > 3",
    }
    server.subscribe_many(texts.keys(), texts.values(), subscriber="lists")
    schema = "n long, name string, tags array<string>, items array<struct<price: double, color: string>>"
    events = [
        (1, "ANNA", ["red", None], [(9.0, "red"), (1.0, "blue")]),
        (2, "Anna", ["blue", "red"], [(1.0, "red")]),
        (3, "Bert", None, []),
    ]
    frame = spark.createDataFrame(events, schema)
    matched = match_events(frame, server, event_id="n").select("event_id", "subscription_id")
    assert found(matched) == [(1, "tagged"), (2, "item"), (2, "long"), (2, "tagged")]
    counted = backtest(texts, frame, event_id="n")
    assert dict(zip(counted.ids, counted.counts.tolist(), strict=True)) == {"tagged": 2, "item": 1, "long": 1}
    assert server.unsubscribe_many(texts) == 3
