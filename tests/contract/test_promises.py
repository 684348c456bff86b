"""What every engine promises beyond single cases: ids, order, bad events, thousands of subscriptions, and threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from tests.contract.test_against_model import every_engine, in_order


@every_engine
def test_one_and_its_text_are_different_ids(engine: str) -> None:
    index = MatchIndex(engine)
    index.add(1, "x = 1")
    index.add("1", "x = 2")
    assert index.match({"x": 1}) == [1]
    assert index.match({"x": 2}) == ["1"]
    assert index.remove("1")
    assert 1 in index
    assert "1" not in index
    assert True not in index


@every_engine
def test_matches_come_in_the_order_of_adding(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("b", "x > 0")
    index.add_predicates(pa.table({"id": [7, 3], "attribute": ["x", "x"], "low": [0, 0], "high": [9, 9]}))
    index.add("a", "x > 1")
    index.add_many(["c", "b"], ["x > 2", "x > 3"])
    assert index.match({"x": 5}) == list(index) == [7, 3, "a", "c", "b"]


@every_engine
def test_a_bad_event_is_reported_and_the_others_match(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("s", "x = 1")
    events = [{"x": 1}, {"x": b"1"}, {"x": 2}, {"x": 1}, 5]
    result = index.match_many(events)
    assert [result[place] for place in range(5)] == [["s"], [], [], ["s"], []]
    assert [(error.position, error.attribute) for error in result.errors] == [(4, None)]
    assert [(warning.position, warning.attribute) for warning in result.warnings] == [(1, "x")]
    strict = index.match_many(events, strict=True)
    assert [(error.position, error.attribute) for error in strict.errors] == [(1, "x"), (4, None)]


@every_engine
@pytest.mark.parametrize("nothing", [[], pa.table({"x": pa.array([], pa.int64())})], ids=["list", "table"])
def test_no_events(engine: str, nothing: Any) -> None:
    index = MatchIndex(engine)
    index.add("s", "true")
    result = index.match_many(nothing)
    assert (len(result), result.event_ids.tolist(), result.offsets.tolist()) == (0, [], [0])


@every_engine
def test_no_subscriptions(engine: str) -> None:
    index = MatchIndex(engine)
    assert index.match({"x": 1}) == []
    index.add("s", "x = 1")
    index.remove("s")
    assert index.match({"x": 1}) == []
    assert index.match_many([{"x": 1}, {}]).offsets.tolist() == [0, 0, 0]


@every_engine
def test_many_changes_of_one_subscription(engine: str) -> None:
    index = MatchIndex(engine)
    for value in range(120):
        index.add("s", f"x = {value}")
        assert index.match({"x": value}) == ["s"]
        assert index.match({"x": value - 1}) == []
    assert len(index) == 1


def random_templates(random: Random, count: int) -> list[str]:
    """Expressions with places for constants: {0} to {3} anywhere, {4} where a set of values has holes."""
    templates = []
    for _ in range(count):
        tests = []
        for name in random.sample("abcd", random.randint(2, 4)):
            forms = [f"{name} {random.choice(['=', '<', '<=', '>', '>='])} {{0}}", f"{name} between {{1}} and {{2}}.5"]
            if name in "ab":
                forms += [f"{name} != {{4}}", f"{name} not in ({{4}}, 30)", f"{name} not between {{4}} and 40"]
                forms += [f"({name} is null or {name} > {{4}})", f"{name} = 's{{3}}'", f"{name} like 's%'"]
            tests.append(random.choice(forms))
        templates.append((" and " if random.random() < 0.8 else " or ").join(tests))
    return templates


def random_event(random: Random) -> dict[str, Any]:
    values = [random.randint(0, 60), random.randint(0, 240) / 4, f"s{random.randint(0, 9)}", None]
    return {name: random.choice([values[0], values[1], *values]) for name in "abcd"}


class Change(NamedTuple):
    identities: list[int]
    expressions: list[str]
    gone: list[str | int]
    matches: list[list[str | int]]
    """Of each event, afterwards."""


@cache
def thousands(holes: int, seed: int) -> tuple[list[dict[str, Any]], list[Change]]:
    """Events and changes, with the answers of the engine that has no size: they take longest, and are the same for all engines."""
    random = Random(seed)
    oracle = MatchIndex("scan")
    templates = random_templates(random, 40)
    batch = [random_event(random) for _ in range(8)]
    changes = []
    for size, kept in ((5_500, 1.0), (0, 0.6), (1_200, 0.1)):
        identities = random.sample(range(9_000), size)
        constants = [[random.randint(0, 60) for _ in range(4)] + [random.randrange(holes)] for _ in range(size)]
        expressions = [random.choice(templates).format(*row) for row in constants]
        assert oracle.add_many(identities, expressions)
        gone = [identity for identity in oracle if random.random() > kept]
        assert oracle.remove_many(gone) == len(gone)
        result = oracle.match_many(batch)
        changes.append(Change(identities, expressions, gone, [sorted(result[place]) for place in range(len(batch))]))
    return batch, changes


@pytest.mark.parametrize("engine", [engine for engine in engine_names() if engine != "scan"])
@pytest.mark.parametrize(("holes", "seed"), [(2, 0), (60, 1)], ids=["few sets with holes", "many sets with holes"])
def test_thousands_of_subscriptions_on_few_attributes(engine: str, holes: int, seed: int) -> None:
    """Engines that only pay for themselves beyond some size."""
    batch, changes = thousands(holes, seed)
    index = MatchIndex(engine)
    for change in changes:
        assert index.add_many(change.identities, change.expressions)
        assert index.remove_many(change.gone) == len(change.gone)
        result = index.match_many(batch)
        assert [sorted(result[place]) for place in range(len(batch))] == change.matches
        assert [sorted(index.match(event)) for event in batch[:4]] == change.matches[:4]


# ------------------------------------------------------------------------------------------------------------- threads

CHANGES = 120
SIDES = [{"x": 1}, {"x": 2}]


@contextmanager
def threads_switch_often() -> Iterator[None]:
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def change_while_reading(write: Callable[[int], None], read: Callable[[], None]) -> None:
    """Two readers go on until the writer has made all its changes; whatever fails in a thread fails the test."""
    done = threading.Event()

    def reading() -> int:
        rounds = 0
        while not done.is_set() or rounds == 0:
            read()
            rounds += 1
        return rounds

    def writing() -> None:
        try:
            for number in range(CHANGES):
                write(number)
        finally:
            done.set()

    with threads_switch_often(), ThreadPoolExecutor(3) as pool:
        tasks: list[Future[Any]] = [pool.submit(reading), pool.submit(reading), pool.submit(writing)]
        for task in tasks:
            task.result(timeout=60)


@every_engine
def test_a_replaced_subscription_is_always_one_of_the_two(engine: str) -> None:
    index = MatchIndex(engine)
    steady: list[str | int] = ["s0", 1, "s2", 3]
    strangers = range(10_000, 11_100)
    index.add_many(steady, ["x = 1"] * 4)

    def write(number: int) -> None:
        index.add(steady[number % 4], f"x = {1 + number // 4 % 2}")
        index.add(f"fresh {number}" if number % 2 else number + 100, "x = 3")  # the ids' column grows meanwhile
        if number % 50 == 0:  # and blocks come and go
            index.add_many(strangers, [f"stranger = {each}" for each in strangers])
        elif number % 50 == 25:
            index.remove_many(strangers)

    def read() -> None:
        result = index.match_many(SIDES)
        assert in_order([*result[0], *result[1]]) == in_order(steady)

    change_while_reading(write, read)


@every_engine
def test_a_bulk_replacement_is_seen_whole(engine: str) -> None:
    index = MatchIndex(engine)
    names = [f"s{number}" for number in range(20)]
    index.add_many(names, ["x = 1"] * 20)

    def write(number: int) -> None:
        side = 1 + (number + 1) % 2
        if number % 3:
            index.add_many(names, [f"x = {side}"] * 20)
        else:
            bounds = [side] * 20
            index.add_predicates(pa.table({"id": names, "attribute": ["x"] * 20, "low": bounds, "high": bounds}))

    def read() -> None:
        result = index.match_many(SIDES)
        assert sorted([len(result[0]), len(result[1])]) == [0, 20]
        assert sorted([*result[0], *result[1]]) == sorted(names)

    change_while_reading(write, read)


@every_engine
def test_added_and_removed_together(engine: str) -> None:
    index = MatchIndex(engine)
    pair: list[str | int] = ["left", 2]

    def write(number: int) -> None:
        if number % 2:
            assert index.remove_many(pair) == 2
        else:
            index.add_many(pair, ["x = 1 or y = 1", "true"])

    def read() -> None:
        assert index.match({"x": 1}) in ([], pair)
        assert all(in_order(found) in ([], in_order(pair)) for found in index.match_many([{"x": 1}, {"y": 1}]))

    change_while_reading(write, read)


@every_engine
@pytest.mark.usefixtures("no_sync")
def test_saving_and_listing_while_writing(engine: str, tmp_path: Path) -> None:
    index = MatchIndex(engine)
    index.add_many(["left", "right"], ["x = 1", "x = 1"])

    def write(number: int) -> None:
        index.add_many(["left", "right"], [f"x = {number}"] * 2)

    def read() -> None:
        assert set(index) <= {"left", "right"}
        path = tmp_path / f"{threading.get_ident()}"
        index.save(path)
        loaded = MatchIndex.load(path)
        assert loaded.expression("left") == loaded.expression("right")

    change_while_reading(write, read)
