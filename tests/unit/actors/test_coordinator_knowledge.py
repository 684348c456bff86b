"""What a coordinator knows: everything at first, then notes in their order; and whether it may act on it."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from actors.calls import Deadline
from actors.coordinator import Coordinator
from actors.coordinator_knowledge import CoordinatorKnowledge
from actors.messages import CoordinatorState, News, Note, RuleChange
from actors.registry_columns import Rule
from actors.server_settings import ServerSettings
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.events import read_events
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
def knowledge() -> CoordinatorKnowledge:
    found = CoordinatorKnowledge(ServerSettings())
    found.learn(state(), time.monotonic())
    return found


def visited(knowledge: CoordinatorKnowledge, **event: Any) -> dict[int, int]:
    """The shards a batch visits, and the versions it needs there."""
    with knowledge.view(read_events([event]), Deadline(0.0)) as view:
        return dict(zip(view.shards, view.needed, strict=True))


def test_nothing_goes_without_a_lease(knowledge: CoordinatorKnowledge) -> None:
    for found in (CoordinatorKnowledge(ServerSettings()), knowledge):
        found.let_lease_go()
        with pytest.raises(UnavailableError, match="lease"), found.view(BATCH, Deadline(0.0)):
            pass
    knowledge.renewed(time.monotonic() - 2 * LEASE, LEASE)
    with pytest.raises(UnavailableError), knowledge.view(BATCH, Deadline(0.0)):
        pass
    knowledge.renewed(time.monotonic(), LEASE)
    assert visited(knowledge, x=1) == {0: 7}


def test_a_batch_waits_for_the_lease(knowledge: CoordinatorKnowledge) -> None:
    knowledge.let_lease_go()
    found: list[Any] = []

    def match() -> None:
        with knowledge.view(BATCH, Deadline(60)) as view:
            found.append(view.version)

    waiting = threading.Thread(target=match)
    waiting.start()
    knowledge.learn(state(4, version=11), time.monotonic())
    waiting.join(60)
    assert found == [11]  # by what was learned with the lease, not by what was known before


def test_everything_at_first(knowledge: CoordinatorKnowledge) -> None:
    assert (visited(knowledge, x=1), visited(knowledge, y=1), visited(knowledge, z=1)) == ({0: 7}, {1: 8}, {})
    assert visited(knowledge, x=1, y=1) == {0: 7, 1: 8}
    assert knowledge.rules.priority({"x": 1}) == "high"
    assert knowledge.names_of("line", [1], Deadline(0.0)) == {1: "a"}
    assert knowledge.state()["rules"] == 1


def test_notes_in_their_order(knowledge: CoordinatorKnowledge) -> None:
    assert knowledge.take(note(4, News(11, (1,), [(1, X, 1)], [(0, X, 1)], {2: "b"})), 0.0)
    assert visited(knowledge, x=1) == {0: 7, 1: 11}
    rules = [RuleChange("r2", "critical", "x = 2"), RuleChange("r1")]
    assert knowledge.take(note(5, News(12, (0,), [(0, UNIVERSAL, 1)], [(0, X, 1)], rules=rules)), 0.0)
    assert (visited(knowledge, x=1), visited(knowledge, z=1)) == ({0: 12, 1: 11}, {0: 12})
    assert (knowledge.rules.priority({"x": 1}), knowledge.rules.priority({"x": 2})) == ("low", "critical")
    assert knowledge.names_of("line", [1, 2], Deadline(0.0)) == {1: "a", 2: "b"}
    assert knowledge.serial == 5


def test_a_note_that_is_repeated_is_taken_once(knowledge: CoordinatorKnowledge) -> None:
    added = note(4, News(11, (1,), [(1, X, 1)]))
    assert knowledge.take(added, 0.0) and knowledge.take(added, 0.0) and knowledge.take(note(2, News(9)), 0.0)
    assert knowledge.take(note(5, News(12, (1,), [], [(1, X, 1)])), 0.0)
    assert visited(knowledge, x=1) == {0: 7}
    assert knowledge.serial == 5


def test_what_does_not_follow_is_not_taken(knowledge: CoordinatorKnowledge) -> None:
    assert not knowledge.take(note(5, News(12, (0,))), 0.0)
    assert not knowledge.take(note(4, News(12, (0,)), lineage="another"), 0.0)
    assert not knowledge.take(note(4, News(12, (0,)), registry_epoch=6), 0.0)
    with pytest.raises(FencedError):
        knowledge.take(note(4, News(12, (0,)), registry_epoch=4), 0.0)
    assert (visited(knowledge, x=1), knowledge.serial) == ({0: 7}, 3)


def test_a_barrier_waits_for_the_batches_before_it(knowledge: CoordinatorKnowledge) -> None:
    barrier = note(4, News(11, moving=True, barrier=True))
    with knowledge.view(BATCH, Deadline(60)) as before:
        assert not before.moving
        assert not knowledge.take(barrier, 0.0)
        with knowledge.view(BATCH, Deadline(60)) as after:
            assert after.moving
    taken: list[bool] = []
    first = knowledge.view(BATCH, Deadline(60))
    first.__enter__()
    telling = threading.Thread(target=lambda: taken.append(knowledge.take(note(5, News(12, barrier=True)), 60.0)))
    telling.start()
    while knowledge.state()["serial"] < 5:  # until it waits
        pass
    with knowledge.view(BATCH, Deadline(60)):  # one that came later is not waited for
        assert taken == []
        first.__exit__(None, None, None)
        telling.join(60)
        assert taken == [True]


def test_a_view_is_outdated_when_everything_was_learned_anew(knowledge: CoordinatorKnowledge) -> None:
    with knowledge.view(BATCH, Deadline(60)) as view:
        assert knowledge.is_current(view) and knowledge.held(view)
        knowledge.take(note(4, News(11)), 0.0)
        assert knowledge.is_current(view) and knowledge.held(view)
        knowledge.let_lease_go()
        assert knowledge.is_current(view) and not knowledge.held(view)
        knowledge.learn(state(9, lineage="another"), time.monotonic())
        assert not knowledge.is_current(view) and not knowledge.held(view)


def test_a_new_subscriber_is_waited_for(knowledge: CoordinatorKnowledge) -> None:
    with pytest.raises(UnavailableError, match="new subscriber"):
        knowledge.names_of("line", [1, 2], Deadline(0.0))
    found: list[dict[int, str]] = []
    asking = threading.Thread(target=lambda: found.append(knowledge.names_of("line", [1, 2], Deadline(60))))
    asking.start()
    knowledge.take(note(4, News(11, subscribers={2: "b"})), 0.0)
    asking.join(60)
    assert found == [{1: "a", 2: "b"}]
    with pytest.raises(UnavailableError):
        knowledge.names_of("another", [1], Deadline(0.0))


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
