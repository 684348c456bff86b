"""Every hand-picked case (cases.toml) and every example of the papers (paper_cases.toml), on every engine."""

from __future__ import annotations

import datetime
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names

HERE = Path(__file__).parent
CASES = [
    case for name in ("cases.toml", "paper_cases.toml") for case in tomllib.loads((HERE / name).read_text())["case"]
]

# An engine may keep a few subscriptions in one way and thousands in another: each case stands alone and in two crowds that
# never match, of as many as make a block (sparse), and of those that test all of the case's attributes (dense).
CROWDS = {"alone": 0, "sparse": 1_100, "dense": 1_300}

every_engine = pytest.mark.parametrize(
    ("engine", "crowd"),
    [(engine, crowd) for engine in engine_names() for crowd in CROWDS if engine != "scan" or crowd == "alone"],
)
every_case = pytest.mark.parametrize("number", range(len(CASES)), ids=[case["name"] for case in CASES])


@every_engine
@every_case
def test_match(engine: str, crowd: str, number: int) -> None:
    """Event by event, as a batch of dicts, and as tables."""
    index, items = index_of(engine, crowd, number), CASES[number]["events"]
    found = [(item["event"], sorted(index.match(item["event"]))) for item in items]
    assert found == [(item["event"], item["matches"]) for item in items]
    assert_batch(index, items, [item["event"] for item in items])
    for alike in groups_of_one_schema(items):
        assert_batch(index, alike, table_of([item["event"] for item in alike]))


def assert_batch(index: MatchIndex, items: list[dict[str, Any]], events: Any) -> None:
    result = index.match_many(events)
    assert result.errors == []
    found = [(item["event"], sorted(result[place])) for place, item in enumerate(items)]
    assert found == [(item["event"], item["matches"]) for item in items]


def test_the_tables_are_well_formed() -> None:
    names = [case["name"] for case in CASES]
    assert len(set(names)) == len(names)
    for case in CASES:
        for item in case["events"]:
            assert item["matches"] == sorted(item["matches"]), case["name"]
            assert set(item["matches"]) <= set(case["subscriptions"]), case["name"]


def index_of(engine: str, crowd: str, number: int) -> MatchIndex:
    case = CASES[number]
    index = MatchIndex(engine)
    names = [name for item in case["events"] for name, _ in types_of(item["event"], ())]
    tests = [f'"{name.replace(chr(34), chr(34) * 2)}"' for name in dict.fromkeys(names)] if crowd == "dense" else []
    size = CROWDS[crowd]
    strangers = {
        place: " and ".join([f"stranger = {place}", *(f"{name} >= {place}" for name in tests)]) for place in range(size)
    }
    together = {**case["subscriptions"], **strangers}
    assert index.add_many(together.keys(), together.values())
    return index


def groups_of_one_schema(items: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The events, split so that within a group every attribute has one type (an Arrow column has no two)."""
    groups: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for item in items:
        types = dict(types_of(item["event"], ()))
        for known, members in groups:
            if all(known.get(path, kind) == kind for path, kind in types.items()):
                known.update(types)
                members.append(item)
                break
        else:
            groups.append((types, [item]))
    return (members for _, members in groups)


def types_of(event: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Attribute → how it comes (nested or with a dot in its name) and its type."""
    for name, value in event.items():
        here = (*path, name)
        if isinstance(value, dict):
            yield ".".join(here), (here, dict)
            yield from types_of(value, here)
        elif isinstance(value, datetime.datetime):
            yield ".".join(here), (here, datetime.datetime, value.utcoffset())
        else:
            yield ".".join(here), (here, type(value))


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    names = list(dict.fromkeys(name for event in events for name in event))
    columns = {name: pa.array([event.get(name) for event in events]) for name in names}
    # A table without columns has no rows either: the column of nulls keeps the empty events.
    return pa.table({**columns, "always null": pa.nulls(len(events))})
