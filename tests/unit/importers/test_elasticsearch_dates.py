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
        "at >= timestamp '2024-05-01 10:00:00' and at < timestamp '2024-05-01 10:00:01'",
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


@pytest.mark.parametrize(
    ("date", "first", "next_one"),
    [
        ("2024-05-01", dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)),
        ("2024-05", dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)),
        ("2024", dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)),
        (2024, dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2)),
        ("2024-12-31T23", dt.datetime(2024, 12, 31, 23), dt.datetime(2025, 1, 1)),
        ("2024-05-01T10:30Z", dt.datetime(2024, 5, 1, 10, 30), dt.datetime(2024, 5, 1, 10, 31)),
        ("2024-05-01T12:30:15+02:00", dt.datetime(2024, 5, 1, 10, 30, 15), dt.datetime(2024, 5, 1, 10, 30, 16)),
        ("2024-05-01||/d", dt.datetime(2024, 5, 1), dt.datetime(2024, 5, 2)),
        ("2024-05-01T10:30:15.250Z", dt.datetime(2024, 5, 1, 10, 30, 15, 250_000), None),
        ("1714559415250", dt.datetime(2024, 5, 1, 10, 30, 15, 250_000), None),
    ],
)
def test_a_date_without_time_of_day_stands_for_its_day(
    date: str | int, first: dt.datetime, next_one: dt.datetime | None
) -> None:
    """As in the reference of the range query, "Missing date components": parts that are missing are the last ones behind gt and lte; but a
    missing month or day is the first. A term is the range from itself to itself."""
    step = dt.timedelta(microseconds=1)
    last = first if next_one is None else next_one - step
    queries: dict[str, dict[str, object]] = {
        each: {"range": {"at": {each: date}}} for each in ("gte", "gt", "lt", "lte")
    }
    queries |= {"term": {"term": {"at": date}}, "terms": {"terms": {"at": [date, "1999-01-01"]}}}
    report = from_elasticsearch(queries, timestamps=["at"])
    assert report.rejections == []
    index = MatchIndex()
    index.add_many(**report.columns())
    assert index.match({"at": first - step}) == ["lt", "lte"]
    assert index.match({"at": first}) == index.match({"at": last}) == ["gte", "lte", "term", "terms"]
    assert index.match({"at": last + step}) == ["gte", "gt"]


@pytest.mark.parametrize("date", ["now-1d", "now", "now/d", "2024-05-01||/M", "2024-05-01", "2024-05-01T10:30:00Z"])
def test_a_date_of_a_field_that_is_not_known_to_hold_dates_is_reported(date: str) -> None:
    """As a text it would be compared letter by letter with moments, or with other forms of the same moment."""
    (rejection,) = from_elasticsearch([{"range": {"at": {"lte": date}}}]).rejections
    assert f"range of at: '{date}' is a date; name the field in timestamps=" in str(rejection)


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
