"""Rows that Spark can hold and others cannot: each is matched, or delivered, or told, and harms no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import SettingError, TableError
from spark_bridge import bad_events, match_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from actors.client.server import Server

BEYOND = "a moment outside of the years 1 to 9999 cannot be delivered"
WRONG = {
    # key: the columns at, day, sparse, text; what is reported if it is delivered
    "late": ("timestamp'+12000-01-01 00:00:00'", "null", "null", "'a'", f"hostile_at: {BEYOND}"),
    "early": ("null", "date'-0100-01-01'", "null", "'a'", f"hostile_day: {BEYOND}"),
    "nested": ("null", "null", "map('k', timestamp_ntz'-0001-01-01 00:00:00')", "'a'", f"hostile_sparse: {BEYOND}"),
    "garbled": ("null", "null", "null", "cast(X'ff61' as string)", "hostile_text: a string that is not valid UTF-8"),
}  # fmt: skip


def hostile_frame(spark: SparkSession) -> DataFrame:
    rows = [
        f"select '{key}' as key, {at} as hostile_at, {day} as hostile_day, {sparse} as hostile_sparse, {text} as hostile_text"
        for key, (at, day, sparse, text, _) in WRONG.items()
    ]
    good = "timestamp'2024-05-01 10:00:00', date'2024-05-01', map('k', timestamp_ntz'2024-05-01 10:00:00'), 'a'"
    rows += [f"select 'good-{number}', {good}" for number in range(3)]
    return spark.sql(" union all ".join(rows)).repartition(2)


def taken(server: Server, subscriber: str) -> list[Any]:
    found: list[Any] = []
    while messages := server.poll(subscriber, limit=10_000):
        found += messages
        server.ack(messages)
    return found


@pytest.mark.parametrize("event_id", ["key", None])
def test_what_cannot_be_delivered_is_told_and_the_others_are_delivered(
    spark: SparkSession, server: Server, session_setting: Callable[[str, str], None], event_id: str | None
) -> None:
    """In a zone that Spark knows and Python does not."""
    session_setting("spark.sql.session.timeZone", "GMT-04:00")
    server.subscribe("hostile", "hostile_text is not null or key = 'garbled'", id="hostile")
    try:
        frame = hostile_frame(spark)
        told = match_events(frame, server, event_id=event_id, deliver=True, errors="column", keep=["key"]).collect()
        assert sorted(row.key for row in told if row.error is None) == [f"good-{number}" for number in range(3)]
        expected = {key: reason for key, (*_, reason) in WRONG.items()}
        assert {row.key: row.error for row in told if row.error is not None} == expected
        events = [message.event for message in taken(server, "hostile")]
        assert sorted(event["key"] for event in events) == [f"good-{number}" for number in range(3)]
        assert {event["hostile_at"].isoformat() for event in events} == {"2024-05-01T14:00:00+00:00"}
        assert {event["hostile_sparse"]["k"].isoformat() for event in events} == {"2024-05-01T10:00:00"}
        apart = bad_events(frame, event_id="key", deliver=True).collect()
        assert {row.event_id: row.error for row in apart} == expected
        # Not strict, only the value is left out.
        garbled = frame.where("key = 'garbled'")
        lenient = match_events(
            garbled, server, event_id=event_id, deliver=True, strict=False, errors="fail", keep=["key"]
        )
        assert [row.key for row in lenient.collect()] == ["garbled"]
        (message,) = taken(server, "hostile")
        assert (message.event["key"], message.event["hostile_text"]) == ("garbled", None)
        assert {row.event_id for row in bad_events(frame, event_id="key", strict=False).collect()} == set()
        # Without a delivery moments are moments.
        matched = match_events(frame, server, event_id="key", errors="column").collect()
        assert sorted(row.event_id for row in matched if row.error) == ["garbled"]
        assert len(matched) == len(WRONG) + 3
    finally:
        server.unsubscribe("hostile")


def test_ids_that_are_no_text(spark: SparkSession, server: Server) -> None:
    server.subscribe("unnamable", "unnamable_x = 1", id="unnamable")
    frame = spark.sql(
        "select 1 as unnamable_x, if(id = 0, cast(X'ff61' as string), 'unnamable-' || id) as key from range(3)"
    )
    given: dict[str, Any] = {"event_id": "key", "columns": ["unnamable_x"]}
    assert match_events(frame, server, **given).count() == 3
    told = match_events(frame, server, **given, deliver=True, errors="column").collect()
    assert sorted(row.event_id for row in told if row.error is None) == ["unnamable-1", "unnamable-2"]
    assert [row.error for row in told if row.error] == ["the event's id is not valid UTF-8"]
    assert sorted(message.event_id for message in taken(server, "unnamable")) == ["unnamable-1", "unnamable-2"]
    server.unsubscribe("unnamable")


def test_one_task_for_several_partitions(spark: SparkSession, server: Server) -> None:
    """Equal rows in partitions that are put together afterwards: each has a number, and a delivery, of its own; once for the same DataFrame
    put together otherwise, or used twice."""
    server.subscribe("together", "together_x = 1", id="together")
    frame = spark.range(0, 12, 1, 4).selectExpr("1 as together_x")
    matched = match_events(frame, server)
    numbers = sorted(row.event_id for row in matched.coalesce(1).collect())
    assert numbers == sorted(row.event_id for row in matched.collect()) and len(set(numbers)) == 12
    delivering = match_events(frame, server, deliver=True)
    assert delivering.coalesce(1).count() == 12
    assert len(taken(server, "together")) == 12
    assert delivering.coalesce(3).union(delivering).count() == 24
    joined = delivering.alias("a").join(delivering.alias("b"), "event_id")
    assert joined.count() == 12
    assert taken(server, "together") == []
    server.unsubscribe("together")


def test_names_differ_in_case_within_a_struct(spark: SparkSession, server: Server) -> None:
    """And hold what a name usually does not."""
    server.subscribe("cased", "cased.a = 1 and cased.`A` = 2 and cased.x.y = 3 and `naïve 漢字` = 4", id="cased")
    schema = "cased struct<a: int, A: int, `x.y`: int, `q``q`: array<int>>, `naïve 漢字` int"
    frame = spark.createDataFrame([((1, 2, 3, [4]), 4), ((2, 1, 3, [4]), 4)], schema)
    columns = ["cased.a", "cased.A", "cased.x.y", "naïve 漢字"]
    matched = match_events(frame, server, columns=columns, keep=["cased.A", "cased.q`q", "naïve 漢字"])
    assert [tuple(row)[1:] for row in matched.collect()] == [("cased", "cased", "low", 2, [4], 4)]
    twice = frame.selectExpr("named_struct('a', 1, 'a', 2) as cased")
    with pytest.raises(TableError, match="two fields of this name"):
        match_events(twice, server, columns=["cased.a"])
    server.unsubscribe("cased")


def test_rows_of_a_megabyte(spark: SparkSession, server: Server, session_setting: Callable[[str, str], None]) -> None:
    """Beside short ones; and kept in every one of their matches."""
    for number in range(15):
        server.subscribe("long", f"long_x >= {number}", id=f"long-{number}")
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    frame = spark.range(0, 120, 1, 2).selectExpr(
        "id as long_x", "repeat(char(65 + id % 26), if(id % 10 = 0, 1000000, 10)) as text"
    )
    found = match_events(frame, server, event_id="long_x", keep=["text"]).selectExpr(
        "count(*) as matches", "sum(length(text)) as characters", "count(distinct event_id) as events"
    )
    counts = [min(x, 14) + 1 for x in range(120)]
    lengths = [1_000_000 if x % 10 == 0 else 10 for x in range(120)]
    expected = (sum(counts), sum(c * n for c, n in zip(counts, lengths, strict=True)), 120)
    assert [tuple(row) for row in found.collect()] == [expected]
    server.unsubscribe_many([f"long-{number}" for number in range(15)])


def test_a_million_rows_in_a_few_batches(
    spark: SparkSession, server: Server, session_setting: Callable[[str, str], None]
) -> None:
    """Against an index in this process, on the same rows; some are null, and most are in one partition."""
    count, texts = 1_000_000, {}
    rng = np.random.default_rng(7)
    for number, start in enumerate(rng.integers(0, count, 40).tolist()):
        texts[f"million-{number}"] = f"million_x between {start} and {start + 500} and million_y != {number % 7}"
    texts["million-null"] = "million_y is null and million_x >= 999000"
    owners = pa.table({"id": list(texts), "expression": list(texts.values())})
    assert server.subscribe_many(owners, subscriber="million").added == len(texts)
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "400000")
    columns = ("id as million_x", "if(id % 11 = 0, null, id % 7) as million_y")
    frame = spark.range(0, 900_000, 1, 1).union(spark.range(900_000, count, 1, 2)).selectExpr(*columns)
    table = match_events(frame, server, event_id="million_x", batch_rows=300_000).toArrow()
    index = MatchIndex()
    assert index.add_many(texts.keys(), texts.values())
    x = np.arange(count)
    events = pa.table({"million_x": x, "million_y": pa.array(x % 7, mask=x % 11 == 0)})
    pairs = sorted(index.match_many(events, event_id="million_x").pairs())
    assert sorted(zip(table["event_id"].to_pylist(), table["subscription_id"].to_pylist(), strict=True)) == pairs
    assert len(pairs) > 10_000
    server.unsubscribe_many(texts)


def test_an_address_that_is_none_is_told_at_once(spark: SparkSession) -> None:
    frame = spark.range(3)
    for address in ("nonsense", "ray://127.0.0.1:10001", "local", "10.0.0.5:", ""):
        with pytest.raises(SettingError, match="address"):
            match_events(frame, "spark", address=address)
    with pytest.raises(SettingError, match="empty"):
        match_events(frame, "", address="10.0.0.5:6379")
    for kind in ("make_interval(1, 1)", "interval '1' year"):
        with pytest.raises(TableError, match="column 'kept': Spark hands no interval"):
            match_events(spark.sql(f"select 1 as x, {kind} as kept"), "spark", columns=["x"], keep=True)
