"""What must hold for the moments in which processes are replaced; each of these was found by killing some."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.coordinator.crash_counting import counting_crashes_once
from actors.coordinator.routing_table import RoutingTable
from actors.coordinator.shard_fanout import ShardQuery
from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.host import MailboxHost
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from actors.registry.leases import CoordinatorLeases
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.storage.data_folder import DataFolder
from actors.transport.actor_handles import ActorHandles
from actors.transport.calls import Deadline
from actors.transport.messages import CoordinatorState, News, Note
from ray_pubsub.errors import UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.pivots import Route

X = Route(("x",))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def known(serial: int, lease: float = 3600.0, **changed: Any) -> CoordinatorState:
    fields: dict[str, Any] = {"routes": [], "subscribers": {}, "rules": [], "moving": False, "lease": lease}
    return CoordinatorState(1, 5, "line", serial, 10, np.zeros(1, np.int64), **{**fields, **changed})


def test_a_note_that_overtook_the_answer_is_not_forgotten() -> None:
    table = RoutingTable(ServerSettings(shards=1))
    table.load(known(3), time.monotonic())
    assert table.apply(Note(5, "line", 4, News(11, (0,), [(0, X, 1)])), 1.0)
    table.load(known(3), time.monotonic())  # asked for before the note was sent, and here after it
    assert table.serial == 4  # or its lease would never be renewed again
    with table.view(read_events([{"x": 1}]), Deadline(0.0)) as view:
        assert (view.shards, view.needed) == ((0,), (11,))


def test_a_batch_that_outlived_its_lease_does_not_hold() -> None:
    table = RoutingTable(ServerSettings(shards=1))
    table.load(known(3), time.monotonic())
    with table.view(read_events([{"x": 1}]), Deadline(0.0)) as view:
        assert table.held(view)
        table.drop_lease()
        assert not table.held(view)
        table.load(known(4), time.monotonic())  # a coordinator that attaches again has not waited for this batch
        assert not table.held(view)


def test_a_lease_that_is_renewed_does_not_confirm_a_barrier_that_still_waits() -> None:
    table = RoutingTable(ServerSettings(shards=1))
    table.load(known(3), time.monotonic())
    with table.view(read_events([{"x": 1}]), Deadline(0.0)):
        assert not table.apply(Note(5, "line", 4, News(11, barrier=True)), 0.01)
        assert table.serial == 3
    assert table.apply(Note(5, "line", 4, News(11, barrier=True)), 1.0)
    assert table.serial == 4


def test_what_a_shard_needs_never_becomes_less() -> None:
    table = RoutingTable(ServerSettings(shards=1))
    table.load(known(3, routes=[(0, X, 1)]), time.monotonic())
    table.apply(Note(5, "line", 4, News(20, (0,))), 1.0)
    table.apply(Note(5, "line", 5, News(15, (0,))), 1.0)
    with table.view(read_events([{"x": 1}]), Deadline(0.0)) as view:
        assert view.needed == (20,)


def test_a_successor_of_the_registry_need_not_wait_for_one_who_was_alone() -> None:
    clock = Clock()
    leases = CoordinatorLeases(2, 5.0, clock)
    leases.attach(0, 7, 0, age=5.0)
    leases.attach(1, 3, 0, age=4.9)  # its predecessor may have got a lease just before it came
    assert leases._ends(0, 0) == 100.0
    assert leases._ends(1, 0) == 105.0


def test_a_shard_that_stays_away_has_crashed_once() -> None:
    """Calls to a process that is not back yet fail as those to one that dies; a batch is not to blame for them."""
    alive: list[int | None] = [None, None, 1, 1, 2]
    dead = UnavailableError("shard 0", "died", died=True)
    ask = counting_crashes_once(lambda queries, _: [dead] * len(queries), lambda shard, _: alive.pop(0))
    told = [ask([ShardQuery(0)], 1.0)[0] for _ in range(6)]
    assert [isinstance(each, UnavailableError) and each.died for each in told] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def batch(number: int, *subscribers: int) -> DeliveryBatch:
    rows = np.zeros(len(subscribers), np.int64)
    return DeliveryBatch(
        rows, list(subscribers), np.array(subscribers), rows, [number], None, None, f"request {number}"
    )


def test_a_mailbox_is_its_subscribers_by_name() -> None:
    """A registry that lost everything numbers subscribers from the beginning; no subscriber gets what waits for another."""
    host = MailboxHost(ServerSettings(), None)
    host.deliver(batch(1, 1, 2), {1: "ann", 2: "bob"})
    host.deliver(batch(2, 1, 2, 3), {1: "bob", 2: "cid", 3: "ann"})
    found = {name: host.poll(name).event_id.tolist() for name in ("ann", "bob", "cid")}
    assert found == {"ann": [1, 2], "bob": [1, 2], "cid": [2]}


def test_names_are_on_disk_with_the_delivery(tmp_path: Path) -> None:
    with DataFolder(tmp_path, "", new=True) as folder:
        folder.record("registry", "identity")
    host = MailboxHost(ServerSettings(), str(tmp_path))
    host.deliver(batch(1, 1), {1: "ann"})
    after = MailboxHost(ServerSettings(), str(tmp_path))  # the first was killed
    assert after.poll("ann").event_id.tolist() == [1]
    after.deliver(batch(2, 4), {4: "new"})  # and nobody has told the second of anybody
    assert after.poll("new").event_id.tolist() == [2]
    for each in (host, after):
        each.close_mailboxes()


def test_what_was_refused_for_the_last_time_is_dead_after_a_crash_too(tmp_path: Path) -> None:
    settings = MailboxSettings(delivery_limit=1)
    before = Mailboxes(MailboxStore(tmp_path / "mail"), settings)
    before.adopt({1: "ann"})
    before.deliver(batch(1, 1))
    before.nack("ann", before.poll("ann").deliveries(), reason="broken")
    after = Mailboxes(MailboxStore(tmp_path / "mail"), settings)
    assert [letter.reason for letter in after.dead_letters("ann")] == ["broken"]
    assert after.poll("ann").deliveries() == []
    for each in (before, after):
        each.close()


class Alone(ActorHandles):
    """Nobody can be reached."""

    def cluster(self) -> str:
        return "here"

    def restarted(self) -> bool:
        return False

    def _handle(self, role: str) -> Any:
        raise UnavailableError(role, "is not there")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    first = Registry(Alone("alone"), str(tmp_path), {"shards": 3, "timeout": 1.0})
    for number in range(9):
        first.subscribe("desk", f"a{number} = 1", number)
    first.unsubscribe(8)
    first.subscribe("desk", "zz = 1", 8)
    assert {first.get(number).shard for number in range(9)} == {0, 1, 2}
    first.close()
    yield str(tmp_path)


def test_what_was_on_shards_that_are_no_more_goes_to_the_others(folder: str) -> None:
    """Few subscriptions: no pivot was split, so there was nothing of the placement to keep."""
    second = Registry(Alone("alone"), folder, {"shards": 1})
    assert {second.get(number).shard for number in range(9)} == {0}
    assert second.stats()["sizes"] == [9]
    second.close()
