"""Processes that hang (SIGSTOP) rather than die, instances that were replaced and do not know it, and too much at once."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.store.store import MailboxStore
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.shard.shard import Shard
from actors.transport.actor_handles import ActorHandles
from actors.transport.calls import answer
from actors.transport.matching import MatchRequest
from actors.transport.object_refs import SharedEvents
from ray_pubsub.errors import FencedError, OverloadedError, UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.merging import ShardMatches
from tests.chaos.processes import pid_of, stopped

LEASE = 1.0


@pytest.fixture(scope="module")
def server(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings: dict[str, Any] = {"max_in_flight": 1, "patience": 0.2, "mailbox": {"capacity": 50}}
    with ray_pubsub.start(1, tmp_path_factory.mktemp("stopped"), "stopped", lease=LEASE, **settings) as server:
        yield server


def test_a_coordinator_that_hung_does_not_publish_by_what_it_knew(server: Server) -> None:
    server.subscribe("desk", "a = 1", id="before")
    assert server.publish({"a": 1})[0] == ["before"]
    with ThreadPoolExecutor(1) as pool:
        with stopped(server, "coordinator-0"):
            server.subscribe("new-desk", "a = 1", id="after")  # returns, when the lease is over
            server.unsubscribe("before")
            server.prioritize("rule", "critical", "a = 1")
            begun = pool.submit(server.publish, {"a": 1})  # reaches it as soon as it goes on
        result = begun.result()
    assert result[0] == ["after"]
    assert result.priorities.tolist() == ["critical"]
    server.unsubscribe("after")
    server.unprioritize("rule")


def when_admitted(call: Callable[[], Any]) -> Any:
    """The batch that was given up may still have the only place."""
    while True:
        try:
            return call()
        except OverloadedError as error:
            time.sleep(error.retry_after)


def test_a_shard_that_hangs_is_waited_for_until_the_deadline(server: Server) -> None:
    server.subscribe("desk", "b = 1", id="b")
    with stopped(server, "shard-0"):
        began = time.monotonic()
        with pytest.raises(UnavailableError):
            server.publish({"b": 1}, timeout=1.0)
        assert time.monotonic() - began >= 0.9
    assert when_admitted(lambda: server.publish({"b": 1}))[0] == ["b"]


def test_beyond_what_is_allowed_in_flight_callers_are_told_to_come_back(server: Server) -> None:
    server.subscribe("desk", "c = 1", id="c")
    with ThreadPoolExecutor(9) as pool:
        with stopped(server, "shard-0"):
            slow = pool.submit(server.publish, [{"c": 1}] * 1000, deliver=False)
            while not answer(server.coordinator.stats.remote(), "the coordinator", 10)["in_flight"]:
                time.sleep(0.01)
            others = [pool.submit(server.publish, {"c": 1}) for _ in range(8)]
            for other in others:
                with pytest.raises(OverloadedError) as told:
                    other.result()
                assert told.value.retry_after > 0
            stats = answer(server.coordinator.stats.remote(), "the coordinator", 10)
            assert (stats["in_flight"], stats["waiting"]) == (1, 0)
            assert stats["refused"] >= 8
        assert len(slow.result()) == 1000
    assert server.publish({"c": 1})[0] == ["c"]
    assert answer(server.coordinator.stats.remote(), "the coordinator", 10)["in_flight_bytes"] == 0


def test_a_consumer_that_is_slow_harms_nobody_else(server: Server) -> None:
    server.subscribe("slow", "d >= 0", id="slow")
    server.subscribe("fast", "d >= 0", id="fast")
    rejected, fetched = 0, []
    for number in range(60):
        result = server.publish({"d": number})
        assert sorted(result[0]) == ["fast", "slow"]
        rejected += result.deliveries.rejected
        found = server.poll("fast")
        server.ack(found)
        fetched += [each.event["d"] for each in found if each.event]
    assert fetched == list(range(60))
    assert rejected == 10
    waiting = server.poll("slow", limit=1000)
    assert sorted(each.event["d"] for each in waiting if each.event) == list(range(50))
    server.ack(waiting)
    server.unsubscribe_many(["slow", "fast"])


class Alone(ActorHandles):
    """Nobody can be reached."""

    def cluster(self) -> str:
        return "here"

    def restarted(self) -> bool:
        return False

    def _handle(self, role: str) -> Any:
        raise UnavailableError(role, "is not there")


@pytest.fixture
def registries(tmp_path: Path) -> Iterator[tuple[Registry, Registry]]:
    """Two instances over the same data, of which the first does not know that it was replaced."""
    given = {"shards": 1, "lease": 0.1, "timeout": 1.0}
    old = Registry(Alone("twice"), str(tmp_path), given)
    old.subscribe("desk", "a = 1", "s1")
    epoch = old.start_coordinator(0)
    state = old.attach_coordinator(0, epoch)
    assert old.renew(0, epoch, state.registry_epoch, state.serial) is True
    new = Registry(Alone("twice"), str(tmp_path), given)
    new.opened()  # it opens in the background, and replaces the other then
    yield old, new
    for each in (old, new):
        with suppress(FencedError):
            each.close()


def test_a_registry_that_was_replaced_neither_writes_nor_gives_leases(registries: tuple[Registry, Registry]) -> None:
    old, new = registries
    with pytest.raises(FencedError):
        old.subscribe("desk", "a = 2", "s2")
    with pytest.raises(FencedError):
        old.unsubscribe("s1")
    with pytest.raises(FencedError):
        old.start_shard(0)
    state = new.attach_coordinator(0, new.start_coordinator(0))
    with pytest.raises(FencedError):
        old.attach_coordinator(0, state.epoch)
    with pytest.raises(FencedError):
        old.renew(0, state.epoch, old.health()["epoch"], 10**6)
    assert new.get("s1").expression == "a = 1"
    new.subscribe("desk", "a = 2", "s2")


def test_instances_that_were_replaced_are_refused(registries: tuple[Registry, Registry]) -> None:
    _, registry = registries
    old = registry.start_coordinator(0)
    registry.attach_coordinator(0, old)
    new = registry.start_coordinator(0)
    with pytest.raises(FencedError):
        registry.attach_coordinator(0, old)
    assert registry.attach_coordinator(0, new).epoch == new
    assert registry.renew(0, old, registry.health()["epoch"], 10**6) is None


def test_a_shard_that_was_replaced_does_not_answer_for_changes_it_cannot_have(
    registries: tuple[Registry, Registry],
) -> None:
    _, registry = registries
    settings = ServerSettings.of_state(registry.opened()["settings"])
    old, new = Shard(0, settings, registry), None
    events = [{"a": 1}]
    lineage, version = registry.lineage, registry.health()["version"]
    assert len(matches_of(old, events, lineage, version)) == 1
    new = Shard(0, settings, registry)
    assert len(matches_of(new, events, lineage, version)) == 1
    later = registry.subscribe("desk", "a >= 0", "s3")
    assert len(matches_of(new, events, lineage, later)) == 2
    with pytest.raises(FencedError):
        matches_of(old, events, lineage, later)


def matches_of(shard: Shard, events: list[dict[str, Any]], lineage: str, needed: int) -> Any:
    matches = shard.match(MatchRequest(SharedEvents(read_events(events)), lineage, needed, 10.0)).matches
    assert isinstance(matches, ShardMatches)
    return matches.subscribers


def test_mailboxes_that_were_replaced_take_and_settle_nothing(cluster: Joined, server: Server) -> None:
    """The server's own, beside which others open the same file; after that it is restarted, and goes on."""
    server.subscribe("desk", "e >= 0", id="e")
    server.publish({"e": 1})
    (delivery,) = [each for each in server.poll("desk", limit=1000) if each.subscription_id == "e"]
    assert server.data_dir is not None
    intruder = Mailboxes(MailboxStore(Path(server.data_dir) / "mailboxes.sqlite"), server.settings.mailbox_settings())
    with pytest.raises(FencedError):
        server.publish({"e": 2})
    with pytest.raises(FencedError):
        server.ack(delivery)
    intruder.close()
    os.kill(pid_of(server, "coordinator-0"), signal.SIGKILL)
    server.publish({"e": 3})
    found = [each.event["e"] for each in server.poll("desk", limit=1000, wait=10) if each.event and "e" in each.event]
    assert sorted(found) == [1, 3]
