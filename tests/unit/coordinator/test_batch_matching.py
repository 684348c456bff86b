"""One batch by one view of the routing table, and a whole publication through a coordinator, with shards that are only pretended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from actors.client.preparing import prepare
from actors.coordinator.batch_matching import BatchMatcher
from actors.coordinator.coordinator import Coordinator
from actors.coordinator.publish_counts import PublishCounts
from actors.coordinator.routing_table import RoutingTable
from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline
from actors.transport.matching import MatchRequest, ShardReply
from actors.transport.messages import CoordinatorState
from actors.transport.object_refs import SMALL_EVENTS, StoredRef
from actors.transport.published_events import PublishRequest
from ray_pubsub.errors import FencedError, OverloadedError, UnavailableError
from ray_pubsub.sharding.merging import ShardMatches
from ray_pubsub.sharding.pivots import Route

X = Route(("x",))


def state(**changed: Any) -> CoordinatorState:
    fields: dict[str, Any] = {
        "epoch": 1,
        "registry_epoch": 5,
        "lineage": "line",
        "serial": 3,
        "version": 10,
        "needed": np.array([7, 8]),
        "routes": [(0, X, 2), (1, X, 1)],
        "subscribers": {1: "desk", 2: "floor"},
        "rules": [],
        "moving": False,
        "lease": 3600.0,
    }
    return CoordinatorState(**{**fields, **changed})


class Shards:
    """Shard s gives for every event the match 10 * x + s; `before` is called first, with the shard and its events."""

    def __init__(self, before: Callable[[int, MatchRequest], Exception | None] = lambda shard, request: None) -> None:
        self.before = before
        self.requests: list[tuple[int, MatchRequest]] = []
        self.stored: dict[str, ShardMatches] = {}
        self.far = False

    def match(self, requests: Sequence[tuple[int, MatchRequest]], timeout: float) -> list[ShardReply | Exception]:
        return [self._reply(*request) for request in requests]

    def _reply(self, shard: int, request: MatchRequest) -> ShardReply | Exception:
        self.requests.append((shard, request))
        error = self.before(shard, request)
        if error is not None:
            return error
        batch = request.events.batch
        ids = 10 * batch.lanes[0].whole + (0 if request.numbers else shard)  # of two shards the same, while they move
        matches = ShardMatches.each(
            np.arange(batch.size + 1), ids, np.full(batch.size, shard + 1, np.int32), ids if request.numbers else None
        )
        if not self.far:
            return ShardReply(1, request.needed, 0.0, batch.size, matches)
        self.stored[f"{shard}"] = matches
        return ShardReply(1, request.needed, 0.0, batch.size, StoredRef(f"{shard}", batch.size))

    def fetch(self, stored: StoredRef) -> Any:
        return self.stored[stored.reference]

    def alive(self, shard: int, timeout: float) -> int | None:
        return len(self.requests)  # a new instance every time

    def explain(self, requests: Any, timeout: float) -> list[Any]:
        return []

    def counts(self) -> dict[str, int]:
        return {"socket_replies": 0}

    def close(self) -> None:
        pass


def matcher(shards: Shards, table: RoutingTable) -> BatchMatcher:
    return BatchMatcher(shards, table, PublishCounts())


@pytest.fixture
def table() -> RoutingTable:
    found = RoutingTable(ServerSettings())
    found.load(state(), time.monotonic())
    return found


def ids(parts: Sequence[Any]) -> list[list[int]]:
    return [part.match_ids.tolist() for part in parts]


def test_each_shard_gets_the_batch_and_the_version_it_needs(table: RoutingTable) -> None:
    shards = Shards()
    found = matcher(shards, table).match(prepare([{"x": 1}, {"x": 2}], None, "k"), "k", Deadline(60))
    assert ids(found.parts) == [[10, 20], [11, 21]]
    assert [(shard, each.lineage, each.needed, each.numbers) for shard, each in shards.requests] == [
        (0, "line", 7, False),
        (1, "line", 8, False),
    ]
    assert shards.requests[0][1].events is shards.requests[1][1].events  # encoded once for both


def test_a_match_from_two_shards_counts_once(table: RoutingTable) -> None:
    table.load(state(moving=True, serial=4), time.monotonic())
    for far in (False, True):
        shards = Shards()
        shards.far = far
        found = matcher(shards, table).match(prepare([{"x": 1}, {"x": 2}], None, "k"), "k", Deadline(60))
        assert ids(found.parts) == [[10, 20]]
        assert isinstance(found.parts[0], ShardMatches) and found.parts[0].numbers is None


def test_a_batch_is_matched_again_if_its_view_did_not_hold(table: RoutingTable) -> None:
    def replaced(shard: int, request: MatchRequest) -> None:
        if request.lineage == "line":
            table.load(state(lineage="another", routes=[(1, X, 1)]), time.monotonic())

    shards = Shards(replaced)  # type: ignore[arg-type]
    found = matcher(shards, table).match(prepare([{"x": 1}], None, "k"), "k", Deadline(60))
    assert (found.view.lineage, ids(found.parts)) == ("another", [[11]])
    with pytest.raises(UnavailableError, match="not matched again in time"):
        never = Shards(lambda shard, request: table.load(state(), time.monotonic()))  # type: ignore[func-returns-value]
        matcher(never, table).match(prepare([{"x": 1}], None, "k"), "k", Deadline(0.05))


def test_an_event_that_crashes_its_shard_is_left_out(table: RoutingTable) -> None:
    died = UnavailableError("shard", "its process died", died=True)

    def crashing(shard: int, request: MatchRequest) -> Exception | None:
        return died if shard == 1 and 7 in request.events.batch.lanes[0].whole else None

    shards = Shards(crashing)
    events = prepare([{"x": 5}, "bad", {"x": 7}, {"x": 9}], None, "k")
    found = matcher(shards, table).match(events, "k", Deadline(60))
    assert ids(found.parts) == [[50, 70, 90], [51, 91]]
    assert [(error.position, "crashes" in error.reason) for error in found.errors] == [(2, True)]


class Registry:
    def start_coordinator(self, coordinator: int) -> int:
        return 1

    def attach_coordinator(self, coordinator: int, epoch: int, age: float) -> CoordinatorState:
        return state()

    def renew(self, *_: Any) -> bool:
        return True


class FencingRegistry(Registry):
    def start_coordinator(self, coordinator: int) -> int:
        raise FencedError("coordinator 0", 1, 2)


class Mailboxes:
    def __init__(self) -> None:
        self.batches: list[tuple[DeliveryBatch, Mapping[int, str]]] = []

    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        self.batches.append((batch, names))
        return DeliverReport(len(batch), 0, 0, 0, np.empty(0, np.int64), (), 0)


def coordinator(shards: Shards, mailboxes: Mailboxes, registry: Any = None, **settings: Any) -> Coordinator:
    return Coordinator(0, ServerSettings(**settings), registry or Registry(), shards, mailboxes)


def test_a_publication_is_matched_delivered_and_counted() -> None:
    shards, mailboxes = Shards(), Mailboxes()
    found = coordinator(shards, mailboxes)
    result = found.publish([{"x": 1}, 5, {"x": 2}])
    assert [sorted(each) for each in result.matches()] == [[10, 11], [], [20, 21]]
    assert result.subscribers.tolist() == ["desk", "floor"] * 2
    assert ([error.position for error in result.errors], result.deliveries.delivered) == ([1], 4)
    [(batch, names)] = mailboxes.batches
    assert (batch.event_rows.tolist(), names) == ([0, 2, 0, 2], {1: "desk", 2: "floor"})
    stats = found.stats()
    assert (stats["batches"], stats["events"], stats["bad_events"], stats["matches"]) == (1, 3, 1, 4)
    assert result.event_ids.tolist() == batch.event_ids.tolist()  # type: ignore[union-attr]
    found.close()


def test_what_is_far_away_is_fetched_for_delivery_and_passed_on_by_reference() -> None:
    shards, mailboxes = Shards(), Mailboxes()
    shards.far = True
    found = coordinator(shards, mailboxes)
    events = prepare([{"x": place} for place in range(SMALL_EVENTS + 1)], None, "k")
    reply = found.publish_prepared(PublishRequest(events, True, "k", 60.0))
    assert all(isinstance(part, StoredRef) for part in reply.parts)
    assert len(mailboxes.batches[0][0]) == len(reply) == 2 * (SMALL_EVENTS + 1)
    found.close()


def test_a_replaced_coordinator_publishes_nothing() -> None:
    found = coordinator(Shards(), Mailboxes(), FencingRegistry(), timeout=0.05)
    ends = time.monotonic() + 60
    while True:
        with pytest.raises((FencedError, UnavailableError)) as caught:
            found.publish({"x": 1})
        if caught.type is FencedError:
            return
        assert time.monotonic() < ends


def test_a_failure_is_counted() -> None:
    def overloaded(shard: int, request: MatchRequest) -> Exception:
        return OverloadedError("batches", 1, 0.5)

    found = coordinator(Shards(overloaded), Mailboxes())
    with pytest.raises(OverloadedError):
        found.publish({"x": 1})
    assert (found.stats()["failed"], found.stats()["batches"]) == (1, 0)
    found.close()
