"""Uses every kernel once, in the order in which programs need them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.engines.vector_cache.cache import VectorCache
from ray_pubsub.engines.vector_cache.policy import CachePolicy
from ray_pubsub.index.match_index import MatchIndex
from ray_pubsub.model.dict_events import from_dicts, read_single
from ray_pubsub.priority.rules import PriorityRules

__all__ = ["EXERCISES"]

MANY = 3000
"""More subscriptions than stay in a tail."""
MODELS = [f"m{number}" for number in range(40)]
Event = dict[str, Any]


def _event(random: Random) -> Event:
    event: Event = {f"a{number}": random.randint(0, 100) for number in range(4)}
    return {**event, "f": random.random(), "model": random.choice(MODELS), "flag": random.random() < 0.5}


def _events(count: int) -> list[Event]:
    random = Random(count)
    return [_event(random) for _ in range(count)]


def _ranges(count: int) -> list[str]:
    random = Random(1)
    return [
        " and ".join(f"a{number} between {random.randint(0, 50)} and {random.randint(51, 100)}" for number in range(4))
        for _ in range(count)
    ]


def _mixed(count: int) -> list[str]:
    random = Random(2)
    texts = [
        "model = '{model}' and a0 <= {low}", "model in ('{model}', 'm1') and f > 0.{low}", "a1 not in ({low}, 7) and flag = true",
        "a0 = {low} or model = '{model}'", "a9 is null and a2 != {low}", "b{low} = 1 and a0 > {low}",
        "model like '%{low}%' and a0 < 50", "model like '%{low}' or a1 = {low}",
    ]  # fmt: skip
    return [random.choice(texts).format(model=random.choice(MODELS), low=random.randint(1, 99)) for _ in range(count)]


def _match_in_every_way(index: MatchIndex) -> None:
    for count in (2, 300, 5000):
        index.match_many(_events(count))
    table = pa.Table.from_pylist(_events(300))
    index.match_many(table)
    index.match_many(table.set_column(table.column_names.index("model"), "model", table["model"].dictionary_encode()))
    index.match_distinct(_events(300))
    for event in _events(5):
        index.match(event)


def first_match() -> None:
    kinds: list[list[str | int]] = [list(range(100)), [str(number) for number in range(100)]]
    for ids in kinds:
        index = MatchIndex()
        for number, text in zip(ids, _mixed(100), strict=True):
            index.add(number, text)
        index.add("x", "model = 'm1'")
        index.match(_events(1)[0])
        index.match_many(_events(20))
        index.remove(ids[5])
        index.match(_events(1)[0])


def dense() -> None:
    index = MatchIndex()
    index.add_many(range(MANY), _ranges(MANY))
    _match_in_every_way(index)
    index.remove_many(range(0, MANY, 3))
    for number in range(50):
        index.add(number, f"a0 = {number}")
    _match_in_every_way(index)
    index.explain(_events(1)[0])
    index.stats()


def mixed() -> None:
    index = MatchIndex()
    index.add_many([f"s{number}" for number in range(MANY)], _mixed(MANY))
    _match_in_every_way(index)
    for number, text in enumerate(_mixed(2 * MANY)):
        index.add(number, text)
    index.remove_many([f"s{number}" for number in range(0, MANY, 2)])
    _match_in_every_way(index)
    index.explain(_events(1)[0])
    with tempfile.TemporaryDirectory() as folder:
        index.save(Path(folder) / "index")
        MatchIndex.load(Path(folder) / "index").match_many(_events(20))


def intervals() -> None:
    random = Random(3)
    rows = [
        (number, f"a{place}", random.randint(0, 50), random.randint(51, 100))
        for number in range(MANY)
        for place in range(3)
    ]
    ids, attributes, low, high = (list(column) for column in zip(*rows, strict=True))
    index = MatchIndex()
    index.add_predicates(pa.table({"id": ids, "attribute": attributes, "low": low, "high": high}))
    _match_in_every_way(index)
    index.remove_many(range(0, MANY, 2))
    _match_in_every_way(index)


def crowded() -> None:
    """States of clauses, whose numbers have 16 or 32 bits."""
    for count in (MANY, 2**16 + 1):
        numbers = np.arange(count)
        index = MatchIndex()
        index.add_predicates(
            pa.table({"id": numbers, "attribute": ["a0"] * count, "low": numbers % 50, "high": numbers % 50 + 50})
        )
        block = PivotSegment(*index._books.engine.clauses_of(numbers))
        block.prepare()
        block.match(from_dicts(_events(300)))
        for event in _events(5):
            block.match_single(read_single(event, None))


def patterns() -> None:
    index = MatchIndex()
    kinds = [
        "model like '%{0}x%'", "model like '%{0}'", "model like '_{0}%'", "model regexp '(?i)m{0}[a-f]'", "model regexp '^.{0}$'",
    ]  # fmt: skip
    index.add_many(range(MANY), [kinds[number % len(kinds)].format(number) for number in range(MANY)])
    _match_in_every_way(index)


def terms() -> None:
    index = MatchIndex()
    kinds = [
        "list_contains(tags, 't{0}')", "list_contains(tags, {0})", "geo_within(lat, lon, 50, 8, {0})", "ip_in(model, '10.0.{1}.0/24')",
        "lower(model) = 'm{0}'", "trim(model) = 'm{0}' and length(model) > 1", "ip_in(model, '2001:db8:{0}::/48')",
    ]  # fmt: skip
    index.add_many(range(MANY), [kinds[number % len(kinds)].format(number, number % 256) for number in range(MANY)])
    events: list[Event] = [
        {"tags": ["t0", 1, "t7", "t0"], "lat": 50.0, "lon": 8.0 + number, "model": model}
        for number, model in enumerate((" M4", "ß", "10.0.3.4", "2001:db8:6::1"))
    ]
    index.match_many(events * 20)
    for event in events:
        index.match(event)


def repeats() -> None:
    codes = EventCodes(np.arange(41), np.zeros(40, np.int32), np.arange(40, dtype=np.int32) % 3)
    policy = CachePolicy()
    policy.on, policy.plain = True, 1.0
    for cache in (VectorCache(0), VectorCache(0, policy)):
        for _ in range(2):
            cache.match(codes, lambda some: (some.offsets.copy(), some.code.astype(np.int64)))


def json_lines() -> None:
    index = MatchIndex()
    index.add_many(range(100), _mixed(100))
    index.add("tags", "list_contains(tags, 'a')")
    first = b'{"a0": 1, "a1": 2.5, "model": "m\\u00e91", "flag": true, "b": {"c": [1]}, "tags": ["a", 1]}\n'
    index.match_json((first + b'{"model": "m1", "f": null}\n') * 8)  # few documents are not scanned


def priorities() -> None:
    rules = PriorityRules(levels=["low", "high", "critical"], confirm=True)
    for number, text in enumerate(_ranges(50) + _mixed(50)):
        rules.add(f"r{number}", ("high", "critical")[number % 2], text)
    rules.priority(_events(1)[0])
    rules.priorities(_events(300))
    rules.remove("r1")
    rules.priority(_events(1)[0])


def other_engines() -> None:
    for engine in engine_names():
        if engine not in ("auto", "scan"):
            index = MatchIndex(engine)
            index.add_many(range(MANY), _ranges(MANY // 2) + _mixed(MANY // 2))
            index.match_many(_events(300))
            index.match(_events(1)[0])


EXERCISES: dict[str, Callable[[], None]] = {
    "the first match": first_match,
    "ranges": dense,
    "mixed rules": mixed,
    "intervals": intervals,
    "crowded events": crowded,
    "patterns": patterns,
    "terms": terms,
    "repeats": repeats,
    "JSON": json_lines,
    "priorities": priorities,
    "other engines": other_engines,
}
