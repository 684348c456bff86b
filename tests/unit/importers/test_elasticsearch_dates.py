"""Dates in queries of Elasticsearch: constants, date math and rounding."""

from __future__ import annotations

import datetime as dt
import json

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_elasticsearch


def test_points_in_time() -> None:
    queries = {
        "since": {"query": {"range": {"at": {"gte": "2024-05-01T10:00:00Z"}}}},
        "recent": json.dumps({"range": {"at": {"gt": "now-1h"}}}),
        "on": {"term": {"at": "2024-05-01T10:00:00Z"}},
    }
    report = from_elasticsearch(queries, timestamps=["at"])
    assert [rule.expression for rule in report] == [
        "at >= timestamp '2024-05-01 10:00:00'",
        "at > now() - interval '1 hours'",
        "at in (timestamp '2024-05-01 10:00:00')",
    ]
    index = MatchIndex()
    index.add_many(**report.columns())
    assert index.match({"at": dt.datetime(2024, 5, 1, 10)}) == ["since", "on"]
    assert index.match({"at": dt.datetime.now(dt.UTC)}) == ["since", "recent"]
    assert index.match({"at": dt.datetime(2024, 5, 1)}) == []


@pytest.mark.parametrize(
    ("operator", "since"),
    [("gte", dt.datetime(2024, 2, 1)), ("gt", dt.datetime(2024, 3, 1)), ("lt", dt.datetime(2024, 2, 1)), ("lte", dt.datetime(2024, 3, 1))],
)  # fmt: skip
@pytest.mark.parametrize("date", ["2024-02-29||/M", "2024-01-31T23:30:00Z||+1h+30m/M"])
def test_a_rounded_date_stands_for_its_whole_unit(operator: str, since: dt.datetime, date: str) -> None:
    """Which moments are compared is from the reference of Elasticsearch's range query, "Date math and rounding"."""
    queries = [{"range": {"at": {operator: date}}}, {"range": {"at": {operator: "2024-02-10||/d"}}}]
    index = MatchIndex()
    index.add_many(**from_elasticsearch(queries, timestamps=["at"]).columns())
    day = dt.datetime(2024, 2, 11 if operator in ("gt", "lte") else 10)
    for place, turn in ((0, since), (1, day)):
        after, before = turn, turn - dt.timedelta(microseconds=1)
        found = [place in index.match({"at": moment}) for moment in (before, after)]
        assert found == ([False, True] if operator.startswith("g") else [True, False])


def test_days_from_now() -> None:
    queries = {
        "yesterday": {"range": {"at": {"gte": "now-1d/d", "lt": "now/d"}}},
        "until today": {"range": {"at": {"lte": "now/d"}}},
    }
    report = from_elasticsearch(queries, timestamps=["at"])
    assert [rule.expression for rule in report] == [
        "at >= date_trunc('day', now() - interval '1 days') and at < date_trunc('day', now())",
        "at < date_trunc('day', now()) + interval '1 day'",
    ]
    index = MatchIndex()
    index.add_many(**report.columns())
    assert index.match({"at": dt.datetime(2024, 5, 1)}) == ["until today"]
    assert index.match({"at": dt.datetime(2224, 5, 1)}) == []


@pytest.mark.parametrize("engine", ["auto", "scan"])
@pytest.mark.parametrize(
    ("date", "last"),
    [
        ("2024-03-31||-1M", dt.datetime(2024, 2, 29)),
        ("2024-02-29||-1y", dt.datetime(2023, 2, 28)),
        ("2023-12-31||+2M-1d", dt.datetime(2024, 2, 28)),
        ("2024-01-30||+1M/M", dt.datetime(2024, 2, 29, 23, 59, 59, 999_999)),
        ("2024-05-05||-1y/y", dt.datetime(2023, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_months_and_years_may_be_added(engine: str, date: str, last: dt.datetime) -> None:
    """As in Java's calendar, a day that a month does not have is its last one."""
    index = MatchIndex(engine)
    index.add_many(**from_elasticsearch({"s": {"range": {"at": {"lte": date}}}}, timestamps=["at"]).columns())
    assert index.match({"at": last}) == ["s"]
    assert index.match({"at": last + dt.timedelta(microseconds=1)}) == []
    report = from_elasticsearch([{"range": {"at": {"gt": "now-1M"}}}], timestamps=["at"])
    assert [rule.expression for rule in report] == ["at > now() - interval '1 months'"]
