"""Queries of Elasticsearch against a reading of their own: two truth values, and an absent field matches nothing."""

from __future__ import annotations

import datetime as dt
import re
from fnmatch import fnmatchcase
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_elasticsearch
from ray_pubsub.importers.minimum_match import least_of


def passes(query: dict[str, Any], event: dict[str, Any]) -> bool:
    ((name, body),) = query.items()
    if name in ("match_all", "match_none"):
        return name == "match_all"
    if name == "bool":
        parts = {clause: [passes(each, event) for each in _listed(body.get(clause, []))] for clause in CLAUSES}
        needed = parts["must"] + parts["filter"]
        least = _least(body.get("minimum_should_match", 0 if needed else 1), len(parts["should"]))
        enough = sum(parts["should"]) >= least or not parts["should"]
        return all(needed) and not any(parts["must_not"]) and enough
    if name == "constant_score":
        return passes(body["filter"], event)
    if name == "exists":
        return event.get(body["field"]) is not None
    if name == "nested":
        prefix = body["path"] + "."
        return any(
            passes(body["query"], {prefix + k: v for k, v in item.items()})
            for item in _listed(event.get(body["path"], []))
        )
    ((field, given),) = body.items()
    value = event.get(field)
    options = given if isinstance(given, dict) else {}
    wanted: Any = options.get("value", options.get("wildcard")) if options else given
    if value is None:
        return False
    if name == "terms":
        return value in given
    if name == "range":
        tests = {
            "gt": lambda b: value > b,
            "gte": lambda b: value >= b,
            "lt": lambda b: value < b,
            "lte": lambda b: value <= b,
        }
        return all(tests[each](bound) for each, bound in given.items())
    if options.get("case_insensitive"):
        value, wanted = value.lower(), wanted.lower()
    if name == "wildcard":
        return fnmatchcase(value, wanted)
    if name == "regexp":
        return re.fullmatch(wanted, value) is not None
    return bool(value.startswith(wanted) if name == "prefix" else value == wanted)


CLAUSES = ("must", "filter", "should", "must_not")


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _least(given: Any, count: int) -> int:
    if isinstance(given, str) and given.endswith("%"):
        share = int(given[:-1]) * count / 100
        return int(share) if share >= 0 else count - int(-share)
    return int(given) if int(given) >= 0 else max(0, count + int(given))


BRAND, PRICE, COLOR = (
    {"term": {"brand": "acme"}},
    {"range": {"price": {"gte": 5, "lt": 9.5}}},
    {"terms": {"color": ["red", "blue"]}},
)
GONE = {"exists": {"field": "items.gone"}}
QUERIES: list[dict[str, Any]] = [
    {"match_all": {}},
    {"match_none": {}},
    BRAND,
    {"term": {"brand": {"value": "ACME", "case_insensitive": True, "boost": 2.0}}},
    COLOR,
    PRICE,
    {"range": {"price": {"gt": 5}}},
    {"exists": {"field": "color"}},
    {"prefix": {"brand": "ac_"}},
    {"prefix": {"brand": {"value": "AC", "case_insensitive": True}}},
    {"wildcard": {"brand": "a*m?"}},
    {"wildcard": {"brand": {"wildcard": "A*", "case_insensitive": True}}},
    {"regexp": {"brand": "a[a-c]me?"}},
    {"bool": {"must": [BRAND, PRICE]}},
    {"bool": {"filter": BRAND, "must_not": [COLOR]}},
    {"bool": {"must_not": [PRICE, {"bool": {"must": [BRAND, COLOR]}}]}},
    {"bool": {"should": [BRAND, PRICE]}},
    {"bool": {"must": [COLOR], "should": [BRAND, PRICE]}},
    {"bool": {"must": [COLOR], "should": [BRAND, PRICE], "minimum_should_match": 1}},
    {"bool": {"should": [BRAND, PRICE, COLOR], "minimum_should_match": 2}},
    {"bool": {"should": [BRAND, PRICE, COLOR], "minimum_should_match": "-34%"}},
    {"bool": {"should": [BRAND, PRICE, COLOR], "minimum_should_match": "70%"}},
    {"bool": {"must_not": {"bool": {"should": [BRAND, PRICE, COLOR], "minimum_should_match": 2}}}},
    {"constant_score": {"filter": BRAND}},
    {"bool": {"must_not": {"exists": {"field": "price"}}, "adjust_pure_negative": True, "boost": 1.0}},
    {"nested": {"path": "items", "query": {"bool": {"must": [{"term": {"items.sku": 1}}], "must_not": [GONE]}}}},
    {"bool": {"must_not": {"nested": {"path": "items", "query": {"range": {"items.sku": {"gt": 1}}}}}}},
    {"nested": {"path": "items", "query": {"bool": {"must_not": [GONE, {"term": {"items.sku": 2}}]}}}},
]  # fmt: skip
EVENTS: list[dict[str, Any]] = [
    {name: value for name, value in (("brand", brand), ("price", price), ("color", color), ("items", items)) if value is not None}
    for brand in (None, "acme", "Acme", "ac_me", "abme")
    for price in (None, 4, 5, 9.5)
    for color in (None, "red", "green")
    for items in (None, [], [{"sku": 1}, {"sku": 2, "gone": True}], [{"sku": 1, "gone": True}], {"sku": 1}, {"sku": 2, "gone": True})
]  # fmt: skip


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_every_query_on_every_event(engine: str) -> None:
    report = from_elasticsearch(QUERIES)
    assert (report.rejections, len(report)) == ([], len(QUERIES))
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    expected = [[place for place, query in enumerate(QUERIES) if passes(query, event)] for event in EVENTS]
    assert [sorted(ids) for ids in index.match_many(EVENTS)] == expected
    assert {place for ids in expected for place in ids} == set(range(len(QUERIES))) - {1}


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_at_least_two_of_three_ignoring_case(engine: str) -> None:
    query = {"bool": {"should": [BRAND, PRICE, COLOR], "minimum_should_match": 2}}
    index = MatchIndex(engine, ignore_case=True)
    index.add_many(**from_elasticsearch({"two": query}).columns())
    events = [
        {**event, **{name: event[name].lower() for name in ("brand", "color") if name in event}} for event in EVENTS
    ]
    expected = [["two"] if passes(query, event) else [] for event in events]
    assert [list(ids) for ids in index.match_many(EVENTS)] == expected
    assert any(passes(query, event) != passes(query, lower) for event, lower in zip(EVENTS, events, strict=True))


@pytest.mark.parametrize("least", [0, "0%", -9])
def test_if_nothing_else_is_needed_one_clause_must_match(least: Any) -> None:
    """As Lucene has it, to which Elasticsearch gives no number below 1."""
    queries = {
        "alone": {"bool": {"should": [BRAND, COLOR], "minimum_should_match": least}},
        "not": {"bool": {"should": [BRAND], "must_not": [COLOR], "minimum_should_match": least}},
        "beside": {"bool": {"should": [BRAND], "filter": [{"match_all": {}}], "minimum_should_match": least}},
    }
    index = MatchIndex()
    index.add_many(**from_elasticsearch(queries).columns())
    assert index.match({"brand": "acme"}) == ["alone", "not", "beside"]
    assert index.match({"brand": "other"}) == ["beside"]


OBJECTS: list[tuple[dict[str, Any], list[str]]] = [
    ({"item": {"price": 3}}, ["exists", "inner", "none"]),
    ({"item": {"price": 9, "part": {"n": 1}}}, ["exists", "inner", "part"]),
    ({"item": {"price": 3, "part": [{"n": 1}, {"n": 2}]}}, ["exists", "inner", "none", "part"]),
    ({"item": [{"price": 9}, {"price": 3}]}, ["exists", "inner", "none"]),
    ({"item": [{"part": {"n": 1}}]}, ["exists", "none", "part"]),
    ({"item": {"other": 3}}, []),
    ({"item": 5}, ["exists"]),
    ({}, []),
]


@pytest.mark.parametrize("engine", ["auto", "scan"])
@pytest.mark.parametrize("lists", [False, True])
def test_an_object_is_a_list_of_one(engine: str, lists: bool) -> None:
    part = {"nested": {"path": "item.part", "query": {"term": {"item.part.n": 1}}}}
    dear = {"range": {"item.price": {"gt": 5}}}
    queries = {
        "exists": {"exists": {"field": "item"}},
        "inner": {"nested": {"path": "item", "query": {"exists": {"field": "item.price"}}}},
        "none": {"nested": {"path": "item", "query": {"bool": {"must_not": dear}}}},
        "part": {"nested": {"path": "item", "query": part}},
    }
    report = from_elasticsearch(queries, lists=lists, fields=["item.price", "item.part.n"])
    assert report.rejections == []
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    for event, found in OBJECTS:
        assert sorted(index.match(event)) == found, event


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_places(engine: str) -> None:
    circle = {"geo_distance": {"distance": "12km", "spot": {"lat": 40, "lon": -70}}}
    corners = {"top_left": {"lat": 40.73, "lon": 170}, "bottom_right": [-170, 39.01]}
    queries = {
        "circle": circle,
        "miles": {"geo_distance": {"distance": "7.5mi", "spot": "40,-70"}},
        "metres": {"geo_distance": {"distance": 12000, "distance_type": "arc", "spot": [-70, 40]}},
        "box": {"geo_bounding_box": {"spot": corners}},
        "sides": {"geo_bounding_box": {"spot": {"top": 40.73, "left": 170, "bottom": 39.01, "right": -170}}},
        "outside": {"bool": {"must_not": [circle]}},
        "nested": {"nested": {"path": "stops", "query": {"geo_distance": {"distance": "12km", "stops.at": [-70, 40]}}}},
    }
    report = from_elasticsearch(queries)
    assert report.rejections == []
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    near, across = {"lat": 40.1, "lon": -70.02}, {"lat": 40, "lon": -175}
    assert index.match({"spot": near}) == ["circle", "miles", "metres"]
    assert index.match({"spot": across}) == ["box", "sides", "outside"]
    assert index.match({"stops": [{"at": across}, {"at": near}]}) == ["outside", "nested"]
    assert index.match({"spot": {"lat": 40.107, "lon": -70}}) == ["circle", "miles", "metres"]
    assert index.match({"spot": {"lat": 40.1083, "lon": -70}}) == ["miles", "outside"]
    several = MatchIndex(engine)
    several.add_many(**from_elasticsearch(queries, lists=True).columns())
    assert several.match({"spot": [across, near]}) == ["circle", "miles", "metres", "box", "sides"]
    assert several.match({"spot": near}) == ["circle", "miles", "metres"]


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("[", "not JSON"),
        ({"match": {"title": "cheap phone"}}, "'match' searches analysed text"),
        ({"fuzzy": {"a": "b"}}, "'fuzzy' is not known"),
        ({"term": {"a": "b"}, "prefix": {"a": "b"}}, "object with one name"),
        ({"bool": {"must": [], "may": []}}, "bool has no may"),
        ({"range": {"a": {"gt": 1, "format": "yyyy"}}}, "format cannot be expressed"),
        ({"range": {"at": {"gt": "now-1Q/d"}}}, "there is no unit 'Q' of time"),
        ({"range": {"at": {"gt": "now-1d/Q"}}}, "no unit 'Q'"),
        ({"term": {"at": "yesterday"}}, "'yesterday' is no date: write it as 2024-05-01 or"),
        ({"range": {"at": {"gt": "2024-02-30"}}}, "'2024-02-30' is no date: day is out of range"),
        ({"range": {"at": {"gt": "now-"}}}, "'now-' cannot be expressed"),
        ({"geo_distance": {"distance": "9 parsec", "spot": [0, 0]}}, "'9 parsec' is no distance"),
        ({"geo_distance": {"distance": "9km", "spot": "u4pru"}}, "'u4pru' is no place"),
        (
            {"geo_distance": {"distance": "9km", "distance_type": "plane", "spot": [0, 0]}},
            "'plane' cannot be expressed",
        ),
        ({"geo_bounding_box": {"spot": {"wkt": "BBOX (0, 1, 1, 0)"}}}, "cannot be expressed"),
        ({"terms": {"a": {"index": "other", "id": 1, "path": "x"}}}, "lookup in another index"),
        ({"terms": {"a": [["x"], {}]}}, "is no text, number or boolean"),
        ({"regexp": {"a": "x~y"}}, "only Lucene"),
        ({"regexp": {"a": "(?=x)"}}, "regexp"),
        ({"regexp": {"a": "^ab$"}}, "has an anchor"),
        ({"regexp": {"a": "\\bab"}}, "has \\b, which is another character"),
        ({"regexp": {"a": "a{,2}"}}, "has { where nothing belongs to it"),
        ({"regexp": {"a": "[ab"}}, "has [ where nothing belongs to it"),
        ({"regexp": {"a": {"value": "[a-c]+", "case_insensitive": True}}}, "Lucene does not ignore case"),
        ({"bool": {"must_not": [BRAND], "adjust_pure_negative": False}}, "bool has no adjust_pure_negative"),
        ({"bool": {"should": [{"match_all": {}}], "minimum_should_match": "2<75%<"}}, "'2<75%<' cannot be expressed"),
        ({"range": {"at": {"gt": 5, "time_zone": "Europe/Berlin"}}}, "time_zone 'Europe/Berlin' cannot"),
        ({"range": {"at": {"gt": "now/d", "time_zone": "+01:00"}}}, "rounded in the time zone"),
        ({"range": {"at": {"gt": True}}}, "True is no date"),
        ({"range": {"src": {"gt": "10.0.0.1"}}}, "addresses cannot be expressed"),
        ({"term": {"src": "10.0.0.0/40"}}, "is no network"),
        ({"terms_set": {"a": {"terms": [1], "minimum_should_match_script": {}}}}, "cannot be expressed"),
        ({"terms_set": {"a": {"terms": "x"}}}, "has a list of terms"),
        ({"dis_max": {"queries": []}}, "dis_max has a list"),
        ({"boosting": {"negative": BRAND}}, "boosting has a positive query"),
        ({"geo_polygon": {"spot": {"points": [[0, 0]]}}}, "three points or more"),
        ({"geo_polygon": {"spot": {"points": [[200, 0], [0, 1], [1, 1]]}}}, "no place"),
        ({"nested": {"path": "items", "query": {"term": {"other": 1}}}}, "not within the nested 'items'"),
    ],
)
def test_what_cannot_be_expressed_is_reported(query: Any, reason: str) -> None:
    report = from_elasticsearch([query, BRAND], timestamps=["at"], ips=["src"])
    assert [rule.id for rule in report] == [1]
    assert reason in str(report.rejections[0])


@pytest.mark.parametrize(
    "query", [{"term": {"a": 1}}, {"terms": {"a": ["x", "y"]}}, {"range": {"a": {"gte": 1, "lt": 5}}}, {"prefix": {"a": "x"}}]
)  # fmt: skip
@pytest.mark.parametrize("lists", [False, True])
def test_of_a_query_and_its_negation_one_holds_whatever_kind_the_value_is_of(
    query: dict[str, Any], lists: bool
) -> None:
    index = MatchIndex()
    index.add_many(**from_elasticsearch([query, {"bool": {"must_not": query}}], lists=lists).columns())
    assert all(
        len(index.match({"a": value})) == 1
        for value in [1, 7, "x", "z", True, None, dt.datetime(2024, 5, 1), *([[], ["x"]] if lists else [])]
    )


def values_at(event: Any, path: list[str]) -> list[Any]:
    """All values that an index has for a field: of objects in lists, those of every object."""
    if isinstance(event, list):
        return [value for each in event for value in values_at(each, path)]
    if path:
        return values_at(event.get(path[0]), path[1:]) if isinstance(event, dict) else []
    return [] if event is None else [event]


def passes_with_lists(query: dict[str, Any], event: dict[str, Any]) -> bool:
    ((name, body),) = query.items()
    if name == "bool":
        return not any(passes_with_lists(each, event) for each in _listed(body.get("must_not", []))) and all(
            passes_with_lists(each, event) for each in _listed(body.get("filter", []))
        )
    if name == "exists":
        return bool(values_at(event, body["field"].split(".")))
    (field,) = body
    values = values_at(event, field.split("."))
    return any(_is_comparable(name, body[field], value) and passes(query, {field: value}) for value in values)


def _is_comparable(name: str, given: Any, value: Any) -> bool:
    return (
        isinstance(value, str)
        if name in ("prefix", "wildcard", "regexp")
        else name != "range" or type(value) in (int, float)
    )


LISTED: list[dict[str, Any]] = [
    {"term": {"tags": "a"}},
    {"terms": {"tags": ["a", 5]}},
    {"range": {"tags": {"gt": 3, "lt": 5}}},
    {"range": {"tags": {"gte": 5}}},
    {"prefix": {"tags": "a"}},
    {"wildcard": {"tags": "*b"}},
    {"regexp": {"tags": "[a-b]+"}},
    {"exists": {"field": "tags"}},
    {"exists": {"field": "items.price"}},
    {"term": {"items.color": "red"}},
    {"bool": {"filter": [{"term": {"items.price": 5}}, {"term": {"items.color": "red"}}]}},
    {"range": {"items.parts.n": {"gte": 1, "lt": 2}}},
    {"exists": {"field": "items"}},
]
LISTED += [{"bool": {"must_not": query}} for query in LISTED]
WITH_LISTS: list[dict[str, Any]] = [
    {},
    *({"tags": tags} for tags in ("a", 5, 4, [], [None], [2, 9], ["x", "a"], ["xb", 4], ["ab", None], [dt.datetime(2024, 5, 1)], True)),
    *(
        {"items": items}
        for items in (
            [], [None], 5, [{"price": 5, "color": "red"}], [{"price": 5}, {"color": "red"}], [{"price": [1, 5], "color": ["red"]}],
            [{"price": 4}], [{"parts": [{"n": 0}, {"n": 2}]}, {"parts": {"n": [7, 1]}}], [{"parts": {"n": "1"}}],
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_fields_that_may_be_lists(engine: str) -> None:
    report = from_elasticsearch(LISTED, lists=True)
    assert (report.rejections, len(report)) == ([], len(LISTED))
    index = MatchIndex(engine)
    index.add_many(**report.columns())
    for event in WITH_LISTS:
        expected = [place for place, query in enumerate(LISTED) if passes_with_lists(query, event)]
        assert sorted(index.match(event)) == expected, event


def test_fields_that_may_be_lists_are_named() -> None:
    query = {"term": {"items.color": "red"}}
    (rule,) = from_elasticsearch([query], lists=["items"])
    assert rule.expression == "items.color = 'red' or exists(items, color = 'red')"
    (rule,) = from_elasticsearch([query], lists=["tags"])
    assert rule.expression == "items.color = 'red'"


@pytest.mark.parametrize(
    ("given", "by_count"),
    [
        ("2<75%", [1, 2, 2, 3]),
        ("2<-25% 9<-3", [1, 2, 3, 3]),
        ("3 < 90%", [1, 2, 3, 3]),
        ("1<2 3<-1", [1, 2, 2, 3]),
        (-9, [0, 0, 0, 0]),
    ],
)
def test_the_least_number_of_clauses_depends_on_how_many_there_are(given: Any, by_count: list[int]) -> None:
    assert [least_of(given, count, "") for count in (1, 2, 3, 4)] == by_count
