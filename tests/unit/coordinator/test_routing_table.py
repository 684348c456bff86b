"""What a coordinator knows: everything at first, then notes in their order; and whether it may act on it."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from actors.coordinator.coordinator import Coordinator
from actors.coordinator.routing_table import RoutingTable
from actors.registry.columns import Rule
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline
from actors.transport.messages import CoordinatorState, News, Note, RuleChange
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.sharding.pivots import UNIVERSAL, Route

X, Y = Route(("x",)), Route(("y",))
LEASE = 3600.0
BATCH = read_events([{"x": 1}])


def state(serial: int = 3, **changed: Any) -> CoordinatorState:
    known: dict[str, Any] = {
        "epoch": 1,
        "registry_epoch": 5,
        "lineage": "line",
        "serial": serial,
        "version": 10,
        "needed": np.array([7, 8]),
        "routes": [(0, X, 2), (1, Y, 1)],
        "subscribers": {1: "a"},
        "rules": [Rule("r1", "high", "x = 1", 4)],
        "moving": False,
        "lease": LEASE,
    }
    return CoordinatorState(**{**known, **changed})


def note(serial: int, news: News, registry_epoch: int = 5, lineage: str = "line") -> Note:
    return Note(registry_epoch, lineage, serial, news)


@pytest.fixture
def table() -> RoutingTable:
    found = RoutingTable(ServerSettings())
    found.load(state(), time.monotonic())
    return found


def visited(table: RoutingTable, **event: Any) -> dict[int, int]:
    """The shards a batch visits, and the versions it needs there."""
    with table.view(read_events([event]), Deadline(0.0)) as view:
        return dict(zip(view.shards, view.needed, strict=True))


def test_nothing_goes_without_a_lease(table: RoutingTable) -> None:
    for found in (RoutingTable(ServerSettings()), table):
        found.drop_lease()
        with pytest.raises(UnavailableError, match="lease"), found.view(BATCH, Deadline(0.0)):
            pass
    table.renew_lease(time.monotonic() - 2 * LEASE, LEASE)
    with pytest.raises(UnavailableError), table.view(BATCH, Deadline(0.0)):
        pass
    table.renew_lease(time.monotonic(), LEASE)
    assert visited(table, x=1) == {0: 7}


def test_a_batch_waits_for_the_lease(table: RoutingTable) -> None:
    table.drop_lease()
    found: list[Any] = []

    def match() -> None:
        with table.view(BATCH, Deadline(60)) as view:
            found.append(view.version)

    waiting = threading.Thread(target=match)
    waiting.start()
    table.load(state(4, version=11), time.monotonic())
    waiting.join(60)
    assert found == [11]  # by what was learned with the lease, not by what was known before


def test_everything_at_first(table: RoutingTable) -> None:
    assert (visited(table, x=1), visited(table, y=1), visited(table, z=1)) == ({0: 7}, {1: 8}, {})
    assert visited(table, x=1, y=1) == {0: 7, 1: 8}
    assert table.rules.priority({"x": 1}) == "high"
    assert table.names_of("line", [1], Deadline(0.0)) == {1: "a"}
    assert table.state()["rules"] == 1


def test_notes_in_their_order(table: RoutingTable) -> None:
    assert table.apply(note(4, News(11, (1,), [(1, X, 1)], [(0, X, 1)], {2: "b"})), 0.0)
    assert visited(table, x=1) == {0: 7, 1: 11}
    rules = [RuleChange("r2", "critical", "x = 2"), RuleChange("r1")]
    assert table.apply(note(5, News(12, (0,), [(0, UNIVERSAL, 1)], [(0, X, 1)], rules=rules)), 0.0)
    assert (visited(table, x=1), visited(table, z=1)) == ({0: 12, 1: 11}, {0: 12})
    assert (table.rules.priority({"x": 1}), table.rules.priority({"x": 2})) == ("low", "critical")
    assert table.names_of("line", [1, 2], Deadline(0.0)) == {1: "a", 2: "b"}
    assert table.serial == 5


def test_a_note_that_is_repeated_is_taken_once(table: RoutingTable) -> None:
    added = note(4, News(11, (1,), [(1, X, 1)]))
    assert table.apply(added, 0.0) and table.apply(added, 0.0) and table.apply(note(2, News(9)), 0.0)
    assert table.apply(note(5, News(12, (1,), [], [(1, X, 1)])), 0.0)
    assert visited(table, x=1) == {0: 7}
    assert table.serial == 5


def test_what_does_not_follow_is_not_taken(table: RoutingTable) -> None:
    assert not table.apply(note(5, News(12, (0,))), 0.0)
    assert not table.apply(note(4, News(12, (0,)), lineage="another"), 0.0)
    assert not table.apply(note(4, News(12, (0,)), registry_epoch=6), 0.0)
    with pytest.raises(FencedError):
        table.apply(note(4, News(12, (0,)), registry_epoch=4), 0.0)
    assert (visited(table, x=1), table.serial) == ({0: 7}, 3)


def test_a_barrier_waits_for_the_batches_before_it(table: RoutingTable) -> None:
    barrier = note(4, News(11, moving=True, barrier=True))
    with table.view(BATCH, Deadline(60)) as before:
        assert not before.moving
        assert not table.apply(barrier, 0.0)
        with table.view(BATCH, Deadline(60)) as after:
            assert after.moving
    taken: list[bool] = []
    first = table.view(BATCH, Deadline(60))
    first.__enter__()
    telling = threading.Thread(target=lambda: taken.append(table.apply(note(5, News(12, barrier=True)), 60.0)))
    telling.start()
    while table.state()["serial"] < 5:  # until it waits
        pass
    with table.view(BATCH, Deadline(60)):  # one that came later is not waited for
        assert taken == []
        first.__exit__(None, None, None)
        telling.join(60)
        assert taken == [True]


def test_a_view_is_outdated_when_everything_was_learned_anew(table: RoutingTable) -> None:
    with table.view(BATCH, Deadline(60)) as view:
        assert table.is_current(view) and table.held(view)
        table.apply(note(4, News(11)), 0.0)
        assert table.is_current(view) and table.held(view)
        table.drop_lease()
        assert table.is_current(view) and not table.held(view)
        table.load(state(9, lineage="another"), time.monotonic())
        assert not table.is_current(view) and not table.held(view)


def test_a_new_subscriber_is_waited_for(table: RoutingTable) -> None:
    with pytest.raises(UnavailableError, match="new subscriber"):
        table.names_of("line", [1, 2], Deadline(0.0))
    found: list[dict[int, str]] = []
    asking = threading.Thread(target=lambda: found.append(table.names_of("line", [1, 2], Deadline(60))))
    asking.start()
    table.apply(note(4, News(11, subscribers={2: "b"})), 0.0)
    asking.join(60)
    assert found == [{1: "a", 2: "b"}]
    with pytest.raises(UnavailableError):
        table.names_of("another", [1], Deadline(0.0))


class RegistryThatLooks:
    """It has the coordinator attach again and again, and looks whether it may publish while it asks."""

    def __init__(self) -> None:
        self.coordinator: Coordinator | None = None
        self.lease_left: list[float] = []
        self.enough = threading.Event()

    def start_coordinator(self, coordinator: int) -> int:
        return 1

    def attach_coordinator(self, coordinator: int, epoch: int, age: float) -> CoordinatorState:
        while self.coordinator is None:
            pass
        self.lease_left.append(self.coordinator.health()["lease_left"])
        if len(self.lease_left) == 3:
            self.enough.set()
        return state(len(self.lease_left))

    def renew(self, *_: Any) -> bool | None:
        return None


class Nobody:
    def close(self) -> None:
        pass


def test_a_coordinator_lets_its_lease_go_before_it_asks_for_everything() -> None:
    """The registry takes it to know everything from when it has answered, which is before the answer is here."""
    asked = RegistryThatLooks()
    coordinator = Coordinator(0, ServerSettings(lease=0.05), asked, Nobody(), Nobody())  # type: ignore[arg-type]
    asked.coordinator = coordinator
    assert asked.enough.wait(60)
    coordinator.close()
    assert asked.lease_left[:3] == [0, 0, 0]


def test_no_batch_waits_while_a_rule_is_compiled(table: RoutingTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule of 99,000 constants takes seconds. It was compiled under the lock that every batch takes."""
    compiling, go_on = threading.Event(), threading.Event()
    add_many = PriorityRules.add_many

    def slow(rules: PriorityRules, *columns: Any, **options: Any) -> Any:
        compiling.set()
        assert go_on.wait(60)
        return add_many(rules, *columns, **options)

    monkeypatch.setattr(PriorityRules, "add_many", slow)
    news = News(11, rules=[RuleChange("r2", "critical", "x > 5")], subscribers={2: "b"})
    with ThreadPoolExecutor(2) as pool:
        applied = pool.submit(table.apply, note(4, news), 1.0)
        assert compiling.wait(60)
        try:
            assert pool.submit(visited, table, x=1).result(60) == {0: 7}
            assert (table.state()["serial"], table.serial) == (3, 3)  # it does not hold yet
        finally:
            go_on.set()
        assert applied.result(60)
    assert (table.state()["serial"], len(table.rules), table.names[2]) == (4, 2, "b")


def test_a_rule_that_is_compiled_while_the_state_is_loaded_is_in_the_new_state_too(
    table: RoutingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_many = PriorityRules.add_many
    loads = iter([True])

    def loading(rules: PriorityRules, *columns: Any, **options: Any) -> Any:
        if next(loads, False):
            table.load(state(rules=[]), time.monotonic())
        return add_many(rules, *columns, **options)

    monkeypatch.setattr(PriorityRules, "add_many", loading)
    assert table.apply(note(4, News(11, rules=[RuleChange("r2", "critical", "x > 5")])), 1.0)
    assert list(table.rules) == ["r2"]
