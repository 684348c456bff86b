"""Queries in the form of the examples of Elasticsearch's reference, with events that match them and events that do not."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_elasticsearch

DOCUMENTED: list[tuple[dict[str, Any], list[Any], list[Any]]] = [
    # Each query has the form of an example in Elasticsearch's reference, with events that match it and events that do not.
    (
        {"terms_set": {"languages": {"terms": ["c++", "java", "php"], "minimum_should_match_field": "required"}}},
        [{"languages": ["java", "php"], "required": 2}, {"languages": "java", "required": 1}],
        [{"languages": ["java"], "required": 2}, {"languages": ["java", "php"]}],
    ),
    (
        {"terms_set": {"languages": {"terms": ["c++", "java", "php"], "minimum_should_match": 2}}},
        [{"languages": ["java", "php", "go"]}],
        [{"languages": ["java", "go"]}, {}],
    ),
    (
        {"dis_max": {"queries": [{"term": {"title": "pets"}}, {"term": {"body": "pets"}}], "tie_breaker": 0.7}},
        [{"body": "pets"}],
        [{}],
    ),
    (
        {"boosting": {"positive": {"term": {"t": "apple"}}, "negative": {"term": {"t": "pie"}}, "negative_boost": 0.5}},
        [{"t": ["apple", "pie"]}],
        [{"t": "pie"}],
    ),
    (
        {"range": {"age": {"from": 10, "to": 20, "include_lower": True, "include_upper": False}}},
        [{"age": 10}],
        [{"age": 20}, {"age": 9}],
    ),
    (
        {"range": {"at": {"time_zone": "+01:00", "gte": "2020-01-01T00:00:00", "lte": "now"}}},
        [{"at": dt.datetime(2019, 12, 31, 23)}],
        [{"at": dt.datetime(2019, 12, 31, 22, 59)}],
    ),
    (
        {"range": {"at": {"gte": 1577836800000, "format": "epoch_millis"}}},
        [{"at": dt.datetime(2020, 1, 1)}],
        [{"at": dt.datetime(2019, 12, 31)}],
    ),
    (
        {"range": {"at": {"lt": "1577836800", "format": "epoch_second"}}},
        [{"at": dt.datetime(2019, 12, 31)}],
        [{"at": dt.datetime(2020, 1, 1)}],
    ),
    (
        {"term": {"src": "192.168.0.0/16"}},
        [{"src": "192.168.4.5"}, {"src": ["::1", "192.168.0.1"]}],
        [{"src": "192.169.0.1"}, {"src": "x"}],
    ),
    (
        {"terms": {"src": ["2001:db8::/48", "10.0.0.1"]}},
        [{"src": "2001:DB8::7"}, {"src": "10.0.0.1"}],
        [{"src": "10.0.0.2"}, {}],
    ),
    (
        {
            "geo_polygon": {
                "spot": {
                    "points": [{"lat": 40, "lon": -70}, {"lat": 30, "lon": -80}, {"lat": 20, "lon": -90}, "40,-90"]
                }
            }
        },
        [{"spot": {"lat": 35, "lon": -85}}],
        [{"spot": {"lat": 35, "lon": -65}}, {}],
    ),
]


@pytest.mark.parametrize(("query", "matching", "others"), DOCUMENTED)
def test_documented_queries(query: dict[str, Any], matching: list[Any], others: list[Any]) -> None:
    queries = {"query": query, "not": {"bool": {"must_not": query}}}
    report = from_elasticsearch(queries, timestamps=["at"], ips=["src"], lists=["languages", "t", "src"])
    assert report.rejections == []
    index = MatchIndex()
    index.add_many(**report.columns())
    assert [index.match(event) for event in matching] == [["query"]] * len(matching)
    assert [index.match(event) for event in others] == [["not"]] * len(others)
