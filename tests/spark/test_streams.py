"""Structured Streaming with a server: matches of a stream, a stream as a publisher, a stream as a subscriber. Tasks fail, queries die in
the middle of a micro-batch and go on from their checkpoints; every event is delivered once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException

from pyspark_ray_pubsub import DefaultSource
from ray_pubsub.errors import SettingError
from spark_bridge import match_events
from tests.spark.attempts import failing_first, failing_while

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from actors.client.server import Server

SCHEMA = "n long, kind string, place struct<x: long>"


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    spark.dataSource.register(DefaultSource)


def write_events(spark: SparkSession, folder: Path, kind: str, first: int, count: int) -> None:
    """A file that a stream will find."""
    frame = spark.range(first, first + count, 1, 1)
    rows = frame.selectExpr("id as n", f"'{kind}' as kind", "named_struct('x', id % 10) as place")
    rows.write.mode("append").parquet(str(folder))


def stream_of(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(folder))


def run(
    frame: DataFrame, checkpoint: Path, server: Server | None = None, target: str = "ray_pubsub", **options: str
) -> None:
    """All there is now, to its end."""
    writer = frame.writeStream.format(target).option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    if server is not None:
        options |= {"server": server.name, "address": server.address}
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def delivered(server: Server, subscriber: str) -> list[Any]:
    found: list[Any] = []
    while messages := server.poll(subscriber, limit=10_000):
        found += [message.event["n"] for message in messages if message.event]
        server.ack(messages)
    return sorted(found)


def test_matches_of_a_stream_and_the_stream_delivered_once(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    """The same stream through match_events into files, and into the sink with its events' ids. In the sink's first micro-batch every task
    fails once, its rows in another order the next time; in the second all fail, the query dies and goes on with other partitions."""
    server.subscribe("sunk", "kind = 'sunk' and place.x < 5", id="sunk-1")
    events, checkpoint, flag = tmp_path / "events", tmp_path / "checkpoint", tmp_path / "flag"
    write_events(spark, events, "sunk", 10_000, 60)
    matched = match_events(stream_of(spark, events), server, event_id="n")
    run(matched, tmp_path / "matching", target="parquet", path=str(tmp_path / "matches"))
    rows = spark.read.parquet(str(tmp_path / "matches")).collect()
    assert sorted((row.event_id, row.subscription_id) for row in rows) == [
        (n, "sunk-1") for n in range(10_000, 10_060) if n % 10 < 5
    ]

    run(failing_first(stream_of(spark, events).repartition(2)), checkpoint, server, event_id="n", batch_rows="8")
    assert delivered(server, "sunk") == [n for n in range(10_000, 10_060) if n % 10 < 5]
    write_events(spark, events, "sunk", 10_060, 40)
    flag.touch()
    with pytest.raises(StreamingQueryException, match="the flag is up"):
        run(failing_while(stream_of(spark, events).repartition(2), flag), checkpoint, server, event_id="n")
    flag.unlink()
    run(failing_while(stream_of(spark, events).repartition(3), flag), checkpoint, server, event_id="n")
    assert delivered(server, "sunk") == [n for n in range(10_060, 10_100) if n % 10 < 5]
    server.unsubscribe("sunk-1")


def test_a_committed_batch_is_passed_over_and_equal_rows_are_events_of_their_own(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Without ids. Spark forgets that it has committed the batch (its file is gone), and cuts it in another way."""
    server.subscribe("unnamed", "kind = 'unnamed'", id="unnamed-1")
    events, checkpoint = tmp_path / "events", tmp_path / "checkpoint"
    for _ in range(2):
        write_events(spark, events, "unnamed", 0, 10)
    frame = failing_first(stream_of(spark, events).coalesce(1))
    run(frame, checkpoint, server)
    assert delivered(server, "unnamed") == sorted([*range(10), *range(10)])
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    run(stream_of(spark, events).repartition(3), checkpoint, server)
    assert delivered(server, "unnamed") == []
    server.unsubscribe("unnamed-1")


def test_streams_without_ids_put_together_and_with_another_schema(
    spark: SparkSession, server: Server, tmp_path: Path
) -> None:
    """Equal rows in several partitions of which one task is made, matched with deliveries; two such streams in one query, which then goes
    on from its checkpoint with a column more."""
    server.subscribe("equal", "kind = 'equal'", id="equal-1")
    events, checkpoint, out = tmp_path / "events", tmp_path / "checkpoint", str(tmp_path / "out")
    for _ in range(3):
        write_events(spark, events, "equal", 0, 5)

    def matched(schema: str) -> DataFrame:
        stream = spark.readStream.schema(schema).parquet(str(events))
        one = match_events(stream.filter("n < 2"), server, deliver=True)
        return failing_first(one.union(match_events(stream, server, deliver=True).coalesce(1)))

    run(matched("n long, kind string"), checkpoint, target="parquet", path=out)
    assert delivered(server, "equal") == sorted([*range(5), 0, 1] * 3)
    write_events(spark, events, "equal", 5, 2)
    run(matched("n long, kind string, place struct<x: long>"), checkpoint, target="parquet", path=out)
    assert delivered(server, "equal") == [5, 6]
    assert spark.read.parquet(out).select("event_id").distinct().count() == 23
    server.unsubscribe("equal-1")


def test_a_stream_is_a_subscriber(spark: SparkSession, server: Server, tmp_path: Path) -> None:
    server.subscribe("streamed", "streamed_x >= 0", id="streamed-1")
    server.publish([{"streamed_x": n, "key": f"k{n}"} for n in range(50)], event_id="key")
    given = {"server": server.name, "address": server.address, "subscriber": "streamed"}
    look = spark.read.format("ray_pubsub").options(**given).load()
    assert look.count() == 50
    rows, checkpoint, flag = tmp_path / "rows", tmp_path / "checkpoint", tmp_path / "flag"

    def read(**options: str) -> None:
        source = spark.readStream.format("ray_pubsub").options(**given, **options).load()
        run(failing_while(source, flag), checkpoint, target="parquet", path=str(rows))

    read(maxRows="20")  # three micro-batches
    assert len(list((checkpoint / "commits").glob("[0-9]*"))) == 3
    server.publish([{"streamed_x": n, "key": f"k{n}"} for n in range(50, 70)], event_id="key")
    flag.touch()
    with pytest.raises(StreamingQueryException, match="the flag is up"):
        read()
    flag.unlink()
    server.publish([{"streamed_x": n, "key": f"k{n}"} for n in range(70, 80)], event_id="key")
    read()
    found = spark.read.parquet(str(rows)).orderBy("sequence").collect()
    assert [row.event_id for row in found] == [f"k{n}" for n in range(80)]
    assert [json.loads(row.event)["streamed_x"] for row in found] == list(range(80))
    assert {(row.subscription_id, row.priority) for row in found} == {("streamed-1", "low")}
    assert len({row.sequence for row in found}) == 80
    (left,) = server._call_mailboxes("mailbox_stats", "streamed")
    assert (
        left.acked >= 70 and left.waiting == 80 - left.acked
    )  # the last batch is acknowledged when the next one begins
    with pytest.raises(SettingError, match="read by offset"):
        server.poll("streamed")
    server.unsubscribe("streamed-1")


def test_a_frame_is_written_and_what_is_wrong_is_told(spark: SparkSession, server: Server) -> None:
    server.subscribe("saved", "saved_x < 3", id="saved-1")
    frame = spark.range(0, 10, 1, 2).selectExpr("id as saved_x", "20000 + id as n")
    given = {"server": server.name, "address": server.address}
    frame.write.format("ray_pubsub").mode("append").options(**given, event_id="n").save()
    assert delivered(server, "saved") == [20_000, 20_001, 20_002]
    for wrong in ({"evnt_id": "n"}, {"errors": "ignore"}, {"event_id": "missing"}, {"batch_rows": "many"}):
        with pytest.raises(Exception, match=r"option of ray_pubsub|'drop' or 'fail'|no such column|a whole number"):
            frame.write.format("ray_pubsub").mode("append").options(**given, **wrong).save()
    reading = spark.read.format("ray_pubsub").options(**given, subscriber="saved")
    with pytest.raises(AnalysisException, match=r"leave out \.schema"):
        reading.schema("n long").load().collect()
    server.unsubscribe("saved-1")
