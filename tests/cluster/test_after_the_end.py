"""A server that was stopped or closed, here or elsewhere: a later use raises an error that says so, at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import ray_pubsub
from actors.client.server import Server
from actors.cluster.joining import Joined
from ray_pubsub.errors import ServerClosedError, UnavailableError

TABLE = pa.table({"id": [1], "subscriber": ["a"], "expression": ["x = 1"]})
USES: dict[str, Callable[[Server], Any]] = {
    "subscribe": lambda server: server.subscribe("a", "x = 1"),
    "subscribe_many": lambda server: server.subscribe_many(TABLE),
    "unsubscribe": lambda server: server.unsubscribe("a"),
    "unsubscribe_many": lambda server: server.unsubscribe_many([]),
    "subscription": lambda server: server.subscription("a"),
    "subscriptions": lambda server: server.subscriptions("a"),
    "prioritize": lambda server: server.prioritize("r", "high", "x = 1"),
    "prioritize_many": lambda server: server.prioritize_many(["r"], ["high"], ["x = 1"]),
    "unprioritize": lambda server: server.unprioritize("r"),
    "rules": lambda server: server.rules(),
    "subscribers": lambda server: server.subscribers(),
    "remove_subscriber": lambda server: server.remove_subscriber("a"),
    "backup": lambda server: server.backup("never-made"),
    "publish": lambda server: server.publish([{"x": 1}]),
    "publish of a table": lambda server: server.publish(pa.table({"x": range(1000)})),
    "publish_async": lambda server: asyncio.run(server.publish_async([{"x": 1}])),
    "publish_json": lambda server: server.publish_json(b'{"x": 1}'),
    "publish_json_async": lambda server: asyncio.run(server.publish_json_async(b'{"x": 1}')),
    "publish_stream": lambda server: server.publish_stream([[{"x": 1}]]),
    "poll": lambda server: server.poll("a"),
    "poll_async": lambda server: asyncio.run(server.poll_async("a")),
    "listen": lambda server: server.listen("a"),
    "ack": lambda server: server.ack([]),
    "ack_async": lambda server: asyncio.run(server.ack_async([])),
    "nack": lambda server: server.nack([]),
    "release": lambda server: server.release([]),
    "extend": lambda server: server.extend([], 1.0),
    "dead_letters": lambda server: server.dead_letters("a"),
    "redrive": lambda server: server.redrive("a"),
    "purge_dead": lambda server: server.purge_dead("a"),
    "end_stream": lambda server: server.end_stream("a"),
    "explain": lambda server: server.explain({"x": 1}),
    "explain one": lambda server: server.explain({"x": 1}, "a"),
    "stats": lambda server: server.stats(),
    "rebalance": lambda server: server.rebalance(),
    "a handle": lambda server: server.coordinator.publish.remote([{"x": 1}]),
}
ENDING = {"stop", "close"}
PROPERTIES = {"address", "coordinator", "ends_with_program"}


@pytest.fixture(scope="module")
def stopped(cluster: Joined) -> Iterator[tuple[Server, Server]]:
    """Two that had the same server: one has stopped it, the other does not know."""
    stopping = ray_pubsub.start(1, name="ended", coordinators=2)
    other = ray_pubsub.connect("ended")
    stopping.subscribe("a", "x = 1", id="a")
    assert len(other.publish({"x": 1})) == 1
    stopping.stop()
    yield stopping, other
    other.close()


def test_every_method_is_tried() -> None:
    public = {name for name in vars(Server) if not name.startswith("_")}
    assert public - PROPERTIES - ENDING <= set(USES)


@pytest.mark.parametrize("use", USES)
def test_stopped_here(stopped: tuple[Server, Server], use: str) -> None:
    with pytest.raises(ServerClosedError, match="the server 'ended' was stopped here") as caught:
        USES[use](stopped[0])
    assert (caught.value.name, caught.value.how) == ("ended", "stopped")


def test_stopping_again_does_nothing(stopped: tuple[Server, Server]) -> None:
    stopped[0].stop()
    stopped[0].close()
    with stopped[0]:
        pass
    assert repr(stopped[0]).endswith("1 shard, stopped)")


@pytest.mark.parametrize(
    "use", ["publish", "publish of a table", "publish_async", "poll", "poll_async", "subscribe", "rules", "rebalance"]
)
def test_stopped_by_somebody_else(stopped: tuple[Server, Server], use: str) -> None:
    """Not taken for one that restarts, which is waited for."""
    with pytest.raises(UnavailableError, match="the server 'ended' runs no more") as caught:
        USES[use](stopped[1])
    assert caught.value.gone and caught.value.died


def test_numbers_of_one_that_somebody_else_stopped(stopped: tuple[Server, Server]) -> None:
    assert "the server 'ended' runs no more" in str(stopped[1].stats())


def test_closed_is_not_stopped(server: Server) -> None:
    with ray_pubsub.connect("shared") as connected:
        stream = connected.publish_stream([{"after.x": number}] for number in range(10))
        assert len(next(stream)) == 0
    with pytest.raises(ServerClosedError, match="closed here"):
        list(stream)
    with pytest.raises(ServerClosedError, match="closed here"):
        connected.stop()
    connected.close()
    assert repr(connected).endswith(", closed)")
    assert len(server.publish({"after.x": 1})) == 0
