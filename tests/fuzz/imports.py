"""Rules of other systems, changed at random: what is imported can be added, and every engine answers as the scan does."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import yaml

from ray_pubsub import MatchIndex
from ray_pubsub.importers import from_cesql, from_elasticsearch, from_eventbridge, from_sigma
from ray_pubsub.importers.report import ImportReport
from tests.fuzz.inputs import changed_bytes, strange_field
from tests.unit.importers import (
    test_elasticsearch,
    test_elasticsearch_documented,
    test_elasticsearch_texts,
    test_eventbridge,
    test_sigma,
)

__all__ = ["changed_rules"]

PATTERNS = [*test_eventbridge.PATTERNS, *test_eventbridge.LISTED]
QUERIES = [
    *test_elasticsearch.QUERIES,
    *test_elasticsearch.LISTED,
    *(query for query, _, _ in test_elasticsearch_documented.DOCUMENTED),
    *(query for query, _, _ in test_elasticsearch_texts.NUMBERS_AND_TEXTS),
    *({"regexp": {"a": pattern}} for pattern, _, _ in test_elasticsearch_texts.LUCENE),
    *(
        {"range": {"at": {"lte": date}}}
        for date in ("2024-05-01T10", "2024-05-01T10:30:15.250+02:00", "now-1M/d", "1714559415250")
    ),
]
RULES = [*yaml.safe_load_all(test_sigma.RULES), *yaml.safe_load_all(test_sigma.CLOUD)]
EXPRESSIONS = [
    "a = 1 AND (b LIKE 'x%' OR NOT EXISTS c)",
    "LEFT(a, 3) = 'abc' XOR b IN (1, -2, INT('5'))",
    "CONCAT_WS(',', a, \"b\", EXISTS c) <> 'x' AND -a / 2 % 3 >= LENGTH(b)",
    "IS_BOOL(a) OR SUBSTRING(b, -2, 1) != UPPER(TRIM(c))",
]
STRANGE: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    10**5000,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "'",
    "\\",
    "%",
    "\0",
    "\ud800",
    "a.b",
    ".",
    "9" * 5000,
    "(",
    "*",
    b"x",
    [],
    {},
    [[]],
    {"": {}},
    {1: 2},
    (1, 2),
    {"$or": [{}, {}]},
    {"exists": False},
    {"numeric": []},
    "10.0.0.0/8",
    "now-1d/d",
    "2<3",
]
OPTIONS: list[dict[str, Any]] = [{}, {"lists": True}, {"lists": ["tags", "items", "detail", "User"]}]
EVENTS: list[dict[str, Any]] = [
    {
        "tags": ["a", 5, None],
        "a": 1,
        "b": "xy",
        "detail": {"state": "running", "cpu": 5},
        "User": ["bob"],
        "items": [{"price": 5, "color": "red"}],
    },
    {
        "brand": "acme",
        "price": 7,
        "tags": "a",
        "c": True,
        "Image": r"C:\\whoami.exe",
        "items": {"price": 4},
        "spot": {"lat": 35, "lon": -85},
    },
    {},
]


def changed_rules(seed: int, count: int) -> None:
    """Imports rules that were changed; `count` of each format."""
    chance = random.Random(f"rules {seed}")
    options = chance.choice(OPTIONS)
    _use(from_eventbridge([_changed(chance, chance.choice(PATTERNS)) for _ in range(count)], **options))
    queries = [_changed(chance, chance.choice(QUERIES)) for _ in range(count)]
    _use(from_elasticsearch(queries, timestamps=["at"], ips=["src", "tags"], **options))
    rules = [_changed(chance, chance.choice(RULES), yaml.safe_dump) for _ in range(count)]
    _use(from_sigma(rules, keywords=chance.choice([None, "words"]), placeholders={"x": ["a", "b"]}, **options))
    _use(from_cesql([_text(chance, chance.choice(EXPRESSIONS)) for _ in range(count)]))


def _changed(chance: random.Random, rule: Any, written: Callable[[Any], str] = json.dumps) -> Any:
    found = rule
    for _ in range(chance.randrange(1, 4)):
        found = _with_strange_part(chance, found)
    if chance.random() < 0.7:
        return found
    try:
        text = written(found)
    except (TypeError, ValueError, RecursionError, yaml.YAMLError):
        return found
    return _text(chance, text) if chance.random() < 0.7 else changed_bytes(chance, text.encode("utf-8", "replace"))


def _with_strange_part(chance: random.Random, value: Any) -> Any:
    if chance.random() < 0.3:
        return strange_field(chance, value)
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        if chance.random() < 0.2:
            other = chance.choice(["", "a|expand", "x|re|cidr", "a.b..c", 5, "bool", "range", "$or", "condition"])
            return {other if name == key else name: each for name, each in value.items()}
        return {**value, key: _with_strange_part(chance, value[key])}
    if isinstance(value, list) and value and chance.random() < 0.9:
        place = chance.randrange(len(value))
        return [*value[:place], _with_strange_part(chance, value[place]), *value[place + 1 :]]
    if chance.random() < 0.1:
        for _ in range(chance.choice([8, 200, 3000])):
            value = chance.choice([{"bool": {"must_not": value}}, {"x": value}, [value]])
    return chance.choice([*STRANGE, value])


def _text(chance: random.Random, text: str) -> str:
    place = chance.randrange(len(text) + 1)
    return (
        text[:place]
        + chance.choice(["", "'", "(", ")", "--", "NOT ", "5" * 30, "\0", "ä", "\\", "*", ": ["])
        + text[place + chance.randrange(3) :]
    )


def _use(report: ImportReport) -> None:
    str(report)
    index, scan = MatchIndex(), MatchIndex("scan")
    rules = {place: rule.expression for place, rule in enumerate(report)}
    for each in (index, scan):
        assert each.add_many(list(rules), list(rules.values())).added == len(rules), rules
    for event in EVENTS:
        assert set(index.match(event)) == set(scan.match(event)), (event, rules)
