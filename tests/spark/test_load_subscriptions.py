"""Subscriptions of a DataFrame: all good ones are in, every bad one comes back with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ray_pubsub.errors import SettingError, TableError
from spark_bridge import load_subscriptions
from tests.spark.attempts import failing_first

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from actors.client.server import Server

SCHEMA = "id string, subscriber string, expression string, note int"


def test_good_ones_are_in_and_bad_ones_come_back(
    spark: SparkSession, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [(f"load-{n}", f"loader-{n % 3}", f"load_x = {n}", n) for n in range(500)]
    bad = [
        ("load-syntax", "loader-0", "load_x <", 0),
        ("load-nobody", None, "load_x = 1", 0),
        (None, "loader-0", "load_x = 1", 0),
        (None, "loader-0", "load_x = 2", 0),
        ("load-empty", "loader-0", None, 0),
        ("load-twice", "loader-0", "load_x = 1", 0),
        ("load-twice", "loader-0", "load_x = 2", 0),
    ]
    frame = failing_first(spark.createDataFrame([*good, *bad], SCHEMA).repartition(2))
    report = load_subscriptions(frame, server, batch_rows=100, progress=True)
    assert (report.added, report.rejections, str(report)) == (500, 7, "500 subscriptions added, 7 rejected")
    assert "subscribing" in capsys.readouterr().err
    rejected = report.rejected.collect()
    assert report.rejected.columns == ["id", "subscriber", "expression", "reason"]
    assert sorted((row.id, row.expression) for row in rejected if row.id and row.expression) == [
        (identity, text) for identity, _, text, _ in sorted(bad, key=str) if identity and text
    ]
    reasons: dict[Any, str] = {(row.id, row.expression): row.reason for row in rejected}
    assert "unexpected end at position 8" in reasons["load-syntax", "load_x <"]
    assert reasons["load-twice", "load_x = 2"] == "the id occurs 2 times; none of them was added"
    assert "not None" in reasons[None, "load_x = 1"]
    for number in (0, 77, 499):
        assert server.publish({"load_x": number}, deliver=False)[0] == [f"load-{number}"]
    assert server.subscription("load-77").subscriber == "loader-2"
    assert len(list(server.subscriptions("loader-0"))) == 167


def test_other_names_and_ints_and_nothing(spark: SparkSession, server: Server) -> None:
    frame = spark.sql("select cast(7 as int) as number, named_struct('who', 'inty', 'when', 'load_y = 1') as s")
    report = load_subscriptions(frame, server, id="number", subscriber="s.who", expression="s.when")
    assert (report.added, report.rejected.count()) == (1, 0)
    assert server.publish({"load_y": 1}, deliver=False)[0] == [7]
    none = load_subscriptions(frame.limit(0), server, id="number", subscriber="s.who", expression="s.when")
    assert (none.added, none.rejections) == (0, 0)


def test_what_subscriptions_carry(spark: SparkSession, server: Server) -> None:
    frame = spark.sql(
        """select id, 'bearer' as subscriber, 'load_z = 1' as expression, data, tags,
        named_struct('n', n, 'none', null) as inner, concat_ws(' , ', tags) as texts from values
        ('bear-1', '{"title": "cheap"}', array('b', 'a'), 1),
        ('bear-2', null, null, 2),
        ('bear-3', '"text"', array(), 3),
        ('bear-4', null, array('a,b'), 4),
        ('bear-5', null, array(cast(X'ff' as string)), 5)
        as t(id, data, tags, n)"""
    ).repartition(2)
    report = load_subscriptions(frame, server)
    assert (report.added, report.rejections) == (3, 2)
    reasons = {row.id: row.reason for row in report.rejected.collect()}
    assert reasons["bear-5"] == "the tags are not valid UTF-8" and "without a comma" in reasons["bear-4"]
    found = {each.id: (each.data, each.tags) for each in server.subscriptions("bearer")}
    assert found == {"bear-1": ({"title": "cheap"}, ("a", "b")), "bear-2": (None, ()), "bear-3": ("text", ())}
    first = frame.where("id = 'bear-1'")
    load_subscriptions(first, server, data="inner", tags="texts")
    assert server.subscription("bear-1").data == {"n": 1, "none": None}
    assert server.subscription("bear-1").tags == ("a", "b")
    for wrong in ({"data": "nowhere"}, {"tags": "inner"}):
        with pytest.raises(TableError):
            load_subscriptions(first, server, **wrong)  # type: ignore[arg-type]
    server.remove_subscriber("bearer")


def test_texts_that_are_none_or_very_long_and_ids_that_only_look_alike(spark: SparkSession, server: Server) -> None:
    frame = spark.sql(
        """select id collate UTF8_LCASE as id, subscriber, expression from values
        ('odd-a', 'odd', concat('odd_x in (', array_join(sequence(1, 18000), ','), ')')),
        ('odd-A', 'odd', concat('odd_y = ', char(39), repeat('a', 100000), char(39))),
        ('odd-deep', 'odd', repeat('(', 100000)),
        ('odd-end', 'odd', 'odd_x = 1 and'),
        (cast(X'ff' as string), 'odd', 'odd_x = 1'),
        ('odd-1', cast(X'ff' as string), 'odd_x = 1'),
        ('odd-2', 'odd', cast(X'ff' as string))
        as t(id, subscriber, expression)"""
    ).repartition(2)
    report = load_subscriptions(frame, server)
    assert (report.added, report.rejections) == (2, 5)
    reasons = sorted(row.reason.partition("\n")[0].partition(":")[0] for row in report.rejected.collect())
    assert reasons == [
        "the expression is not valid UTF-8",
        "the expression's nesting depth",
        "the id is not valid UTF-8",
        "the subscriber is not valid UTF-8",
        "unexpected end at position 13",
    ]
    events = [{"odd_x": 17_999}, {"odd_x": 18_001}, {"odd_y": "a" * 100_000}, {"odd_y": "a"}]
    assert [server.publish(event, deliver=False)[0] for event in events] == [["odd-a"], [], ["odd-A"], []]
    assert server.unsubscribe_many(["odd-a", "odd-A"]) == 2


def test_what_is_refused_before_a_job_runs(spark: SparkSession) -> None:
    frame = spark.sql("select 1.5 as id, 'a' as subscriber, 'x = 1' as expression")
    with pytest.raises(TableError, match="strings or integers"):
        load_subscriptions(frame)
    with pytest.raises(TableError, match="must be a string"):
        load_subscriptions(frame, id="subscriber", subscriber="id")
    with pytest.raises(TableError, match="no such column"):
        load_subscriptions(frame.drop("expression"), id="subscriber")
    with pytest.raises(SettingError):
        load_subscriptions(frame, id="subscriber", batch_rows=0)
    with pytest.raises(SettingError, match="DataFrame"):
        load_subscriptions([("a", "b", "x = 1")])  # type: ignore[arg-type]
