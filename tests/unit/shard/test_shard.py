"""A shard beside a registry's store, without a cluster: what it loads, what it receives, what it asks for, and when it does not answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.registry.changes import MoveSubscriptions, Subscribe, Unsubscribe
from actors.registry.columns import ShardChanges
from actors.registry.interval_load import read_intervals
from actors.registry.store.store import RegistryStore
from actors.server_settings import ServerSettings
from actors.shard.shard import Shard
from actors.transport.matching import MatchRequest
from actors.transport.messages import ShardPush, ShardStart
from actors.transport.object_refs import SharedEvents
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.merging import ShardMatches, unpacked_ids
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn

TIMEOUT = 60.0


class RegistryBeside:
    """What a shard asks of the beside, answered from a store."""

    def __init__(self) -> None:
        self.store, self.lineage = RegistryStore(), "first"
        self.away = threading.Event()
        self.asked = 0
        self.frequencies: dict[str, float] = {}

    def start_shard(self, shard: int) -> ShardStart:
        if self.away.is_set():
            raise UnavailableError("the registry", "is away")
        content = self.store.snapshot_for_shard(shard)
        return ShardStart(self.store.take_epoch("shard", shard), self.lineage, content, self.frequencies)

    def changes_for_shard(self, shard: int, epoch: int, lineage: str, since: int) -> ShardChanges | None:
        self.asked += 1
        if self.away.is_set():
            raise UnavailableError("the registry", "is away")
        if lineage != self.lineage:
            return None
        self.store.check_epoch("shard", shard, epoch)
        return self.store.changes_since(since, shard)

    def add(self, id: Any, text: str, shard: int = 0) -> int:
        return self.store.commit([Subscribe(id, "desk", text, shard)])[0].version

    def add_intervals(self, ids: list[Any], low: int, high: int, shard: int = 0) -> int:
        count = len(ids)
        table = pa.table({"id": ids, "attribute": ["x"] * count, "low": [low] * count, "high": [high] * count})
        load = read_intervals(table, "desk")
        pivots = PivotColumn.of([UNIVERSAL] * len(load))
        return self.store.commit_intervals(load, np.full(len(load), shard, np.int32), pivots).version

    def changes(self, since: int, shard: int = 0) -> ShardPush:
        found = self.store.changes_since(since, shard)
        assert found is not None
        return ShardPush(self.lineage, found)


@contextmanager
def shard(beside: RegistryBeside, number: int = 0) -> Iterator[Shard]:
    found = Shard(number, ServerSettings(), beside)
    yield found


@pytest.fixture
def beside() -> Iterator[RegistryBeside]:
    found = RegistryBeside()
    yield found
    found.store.close()


def request(lineage: str, needed: int, *values: Any, timeout: float = TIMEOUT, numbers: bool = False) -> MatchRequest:
    """An event for each value of x."""
    batch = read_events([{"x": value} for value in values])
    return MatchRequest(SharedEvents(batch), lineage, needed, timeout, numbers)


def matching(found: Shard, beside: RegistryBeside, needed: int, x: Any, timeout: float = TIMEOUT) -> list[Any]:
    matches = found.match(request(beside.lineage, needed, x, timeout=timeout)).matches
    assert isinstance(matches, ShardMatches)
    return sorted(unpacked_ids(matches.match_ids).tolist(), key=str)


def test_a_shard_that_starts_again_knows_what_events_carry(beside: RegistryBeside) -> None:
    """Its index is built by it: an event with x alone meets none of the clauses, of which most would else be filed under x. With this many
    attributes they are filed under pivots in any case."""
    texts = [f"x = {number % 7} and y{number % 60} >= {number}" for number in range(1500)]
    version = beside.store.commit([Subscribe(number, "desk", text) for number, text in enumerate(texts)])[-1].version
    met = {}
    rare = {f"y{number}": 0.01 for number in range(60)}
    for known in ({}, {"x": 1.0} | rare):
        beside.frequencies = known
        with shard(beside) as found:
            assert matching(found, beside, version, 1) == []
            found.wait_for_merges()
            plan = found.explain({"x": 1}, beside.lineage, version, TIMEOUT)
            met[len(known)] = sum(part.partitions.clauses_visited for part in plan.segments)
    assert met[0] > 1000 and met[61] == 0


def test_it_loads_what_is_its_own(beside: RegistryBeside) -> None:
    beside.add("a", "x = 1")
    beside.add("other", "x = 1", shard=1)
    version = beside.add_intervals([1, 2], 0, 3)
    with shard(beside) as found:
        assert matching(found, beside, version, 1) == [1, 2, "a"]
        assert matching(found, beside, version, 3) == [1, 2]
        assert found.health()["subscriptions"] == 3
        reply = found.match(request(beside.lineage, version, 1, 9, numbers=True))
        assert (reply.epoch, reply.version, reply.count) == (1, version, 3)
        assert isinstance(reply.matches, ShardMatches) and reply.matches.numbers is not None
        assert reply.matches.offsets.tolist() == [0, 3, 3]


def test_it_waits_for_the_registry(beside: RegistryBeside) -> None:
    beside.away.set()
    version = beside.add("a", "x = 1")
    with shard(beside) as found:
        with pytest.raises(UnavailableError, match="is loading"):
            matching(found, beside, version, 1, timeout=0.01)
        with pytest.raises(UnavailableError, match="is loading"):
            found.catch_up(beside.lineage, version)
        assert found.apply(beside.changes(0)) == -1
        beside.away.clear()
        assert matching(found, beside, version, 1) == ["a"]


def test_it_is_told_what_changes(beside: RegistryBeside) -> None:
    first = beside.add("a", "x = 1")
    with shard(beside) as found:
        assert matching(found, beside, first, 1) == ["a"]
        second = beside.add("a", "x = 2")
        assert found.apply(beside.changes(first)) == second
        assert (matching(found, beside, second, 1), matching(found, beside, second, 2)) == ([], ["a"])
        third = beside.store.commit([Unsubscribe("a"), Subscribe("b", "desk", "x = 2")])[0].version
        push = beside.changes(second)
        assert (found.apply(push), found.apply(push), found.apply(beside.changes(first))) == (third, third, third)
        assert matching(found, beside, third, 2) == ["b"]
        assert beside.asked == 0


def test_it_asks_for_what_it_lacks(beside: RegistryBeside) -> None:
    first = beside.add("a", "x = 1")
    with shard(beside) as found:
        assert matching(found, beside, first, 1) == ["a"]
        second = beside.add("b", "x = 1")
        assert matching(found, beside, second, 1) == ["a", "b"]  # a batch says that there is more
        third = beside.add("c", "x = 1")
        fourth = beside.add("d", "x = 1")
        assert found.apply(beside.changes(third)) == fourth  # a change is missing between
        assert matching(found, beside, fourth, 1) == ["a", "b", "c", "d"]
        fifth = beside.add("e", "x = 1")
        assert found.catch_up(beside.lineage, fifth) == fifth
        assert beside.asked == 3
        beside.away.set()
        with pytest.raises(UnavailableError):
            matching(found, beside, fifth + 1, 1, timeout=0.01)


def test_another_lineage_is_loaded_anew(beside: RegistryBeside, caplog: pytest.LogCaptureFixture) -> None:
    version = beside.add("a", "x = 1")
    with shard(beside) as found:
        assert matching(found, beside, version, 1) == ["a"]
        beside.store, beside.lineage = RegistryStore(), "second"
        for number in range(3):
            beside.add(number, "x = 1")
        assert matching(found, beside, 1, 1) == [0, 1, 2]
        with pytest.raises(UnavailableError, match="another registry"):
            found.match(request("first", version, 1))
    assert "reload shard=0 epoch=1 version=1 lineage=first" in caplog.text


def test_one_that_was_replaced_answers_nobody(beside: RegistryBeside, caplog: pytest.LogCaptureFixture) -> None:
    version = beside.add("a", "x = 1")
    with shard(beside) as old, shard(beside) as new:
        assert matching(old, beside, version, 1) == matching(new, beside, version, 1) == ["a"]
        epochs = {each.health()["epoch"]: each for each in (old, new)}
        later = beside.add("b", "x = 1")
        assert matching(epochs[2], beside, later, 1) == ["a", "b"]
        with pytest.raises(FencedError):
            matching(epochs[1], beside, later, 1)
        with pytest.raises(FencedError):
            matching(epochs[1], beside, later, 1)
    assert f"fenced shard=0 epoch=1 version={version}" in caplog.text


def test_what_is_taken_over_is_matched_at_once_and_let_go_if_it_stays_away(beside: RegistryBeside) -> None:
    beside.add("here", "x = 1")
    beside.add("a", "x = 1", shard=1)
    beside.add_intervals(["b"], 0, 3, shard=1)
    version = beside.add("c", "x = 1", shard=1)
    numbers = {each: beside.store.get(each).number for each in ("a", "b", "c")}
    with shard(beside) as found:
        assert matching(found, beside, version, 1) == ["here"]
        found.take_over(beside.store.columns_of(np.array(list(numbers.values())), 1))
        assert matching(found, beside, version, 1) == ["a", "b", "c", "here"]
        assert found.health()["moving"] == 3
        moved = beside.store.commit([MoveSubscriptions([numbers["a"], numbers["b"]], 1, 0)])[0].version
        assert found.let_go(beside.lineage, moved) == 1
        assert matching(found, beside, moved, 1) == ["a", "b", "here"]
        assert found.let_go(beside.lineage, moved) == 0


def test_what_leaves_during_a_move_leaves(beside: RegistryBeside) -> None:
    version = beside.add("a", "x = 1", shard=1)
    number = beside.store.get("a").number
    with shard(beside) as found:
        assert matching(found, beside, version, 1) == []
        found.take_over(beside.store.columns_of(np.array([number]), 1))
        beside.store.commit([MoveSubscriptions([number], 1, 0)])
        gone = beside.store.commit([Unsubscribe("a")])[0].version
        assert found.catch_up(beside.lineage, gone) == gone
        assert matching(found, beside, gone, 1) == []


def test_numbers(beside: RegistryBeside) -> None:
    version = beside.add("a", "x >= 1")
    with shard(beside) as found:
        for x in (0, 1, 2):
            matching(found, beside, version, x)
        stats = found.stats()
        assert (stats["events"], stats["matches"], stats["batches"], stats["subscriptions"]) == (3, 2, 3, 1)
        counts = found._content.columns.counts()
        assert (counts.ids.tolist(), counts.matches.tolist()) == (["a"], [2])
        assert "1 match" in str(found.explain({"x": 1}, beside.lineage, version, TIMEOUT))
        found.wait_for_merges()
