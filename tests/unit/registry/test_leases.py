"""Leases under a clock of our own: a change is acknowledged only when nobody may publish who does not have it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from actors.registry.leases import CoordinatorLeases

LEASE = 5.0
COORDINATORS = 2


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Instance:
    """A process that publishes as a coordinator while it has a lease, as `Coordinator` does."""

    epoch: int
    knows: int = -1
    lease_until: float = 0.0
    attach: bool = True
    """It must ask for everything before it may publish again."""


@dataclass
class World:
    """The registry and all instances there ever were; none of them is known to be dead."""

    clock: Clock = field(default_factory=Clock)
    serial: int = 0
    instances: dict[int, list[Instance]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.leases = CoordinatorLeases(COORDINATORS, LEASE, self.clock)
        for coordinator in range(COORDINATORS):
            self.leases.expect(coordinator)
            self.instances[coordinator] = [Instance(1)]

    def restart(self, coordinator: int, _: float) -> None:
        """There is a new instance; the old one may live on without knowing."""
        self.instances[coordinator].append(Instance(len(self.instances[coordinator]) + 1))

    def ask(self, coordinator: int, delay: float, *, lost: bool = False) -> None:
        """The newest instance asks for a lease; the answer takes a while, or never comes."""
        instance, asked_at, serial = self.instances[coordinator][-1], self.clock.now, self.serial
        if instance.attach:
            instance.lease_until = 0.0
            self.clock.now += delay
            self.leases.attach(coordinator, instance.epoch, serial)
            self.check()
            self.clock.now += delay
            if not lost:
                instance.knows, instance.attach, instance.lease_until = serial, False, asked_at + LEASE
            return
        self.clock.now += delay
        renewed = self.leases.renew(coordinator, instance.epoch, instance.knows, self.serial)
        self.check()
        self.clock.now += delay
        if not lost and renewed:
            instance.lease_until = max(instance.lease_until, asked_at + LEASE)
        if not lost:
            instance.attach = renewed is None

    def lose(self, coordinator: int, delay: float) -> None:
        self.ask(coordinator, delay, lost=True)

    def change(self, silent: int, delay: float) -> None:
        """All are notified, but one does not answer, although it may have received the note."""
        self.serial += 1
        for coordinator, epoch in self.leases.attached().items():
            instance = self.instances[coordinator][-1]
            heard = instance.epoch == epoch and instance.knows == self.serial - 1
            if heard and (coordinator != silent or delay > 1):
                instance.knows = self.serial
            if heard and coordinator != silent:
                self.leases.confirm(coordinator, epoch, self.serial)
            else:
                self.leases.miss(coordinator, self.serial)

    def wait(self, _: int, delay: float) -> None:
        self.clock.now += delay

    def check(self) -> None:
        for serial in range(max(0, self.serial - 3), self.serial + 1):
            if self.leases.until_known(serial) <= 0:
                for each in (instance for found in self.instances.values() for instance in found):
                    assert each.knows >= serial or each.lease_until <= self.clock.now


STEPS = st.tuples(
    st.sampled_from(["ask", "ask", "ask", "lose", "change", "change", "wait", "restart"]),
    st.integers(0, COORDINATORS - 1),
    st.sampled_from([0.0, 0.1, 1.0, 2.0, 6.0]),
)


@given(st.lists(STEPS, min_size=20, max_size=40))
def test_nobody_publishes_without_what_was_acknowledged(steps: list[tuple[str, int, float]]) -> None:
    world = World()
    for step, coordinator, delay in steps:
        getattr(world, step)(coordinator, delay)
        world.check()
        assert world.leases.until_known(world.serial) <= LEASE


def test_one_who_missed_something_publishes_only_when_it_has_everything() -> None:
    """Not when the registry has answered: the answer is still on its way then, and the old lease would last."""
    world = World()
    world.ask(0, 0.0)
    world.change(silent=0, delay=0.0)
    world.ask(0, 0.1)
    assert world.instances[0][0].attach
    world.lose(0, 0.1)
    assert world.leases.until_known(1) == 0
    world.check()


def test_a_change_waits_for_a_silent_coordinator_as_long_as_its_lease() -> None:
    world = World()
    for coordinator in range(COORDINATORS):
        world.ask(coordinator, 0.0)
    world.wait(0, 2.0)
    world.change(silent=1, delay=0.0)
    assert world.leases.until_known(1) == LEASE - 2
    assert world.leases.renew(1, 1, 0, 1) is None  # it must ask for everything
    world.wait(0, 3.0)
    assert world.leases.until_known(1) == 0


def test_a_successor_of_the_registry_waits_for_leases_it_knows_nothing_of() -> None:
    clock = Clock()
    leases = CoordinatorLeases(1, LEASE, clock)
    assert leases.until_known(0) == LEASE
    leases.attach(0, 7, 3)
    assert leases.until_known(3) == LEASE  # an older instance may be publishing
    clock.now += LEASE
    assert leases.until_known(3) == 0
    assert leases.attached() == {0: 7}


def test_a_note_that_is_on_its_way_keeps_the_lease_from_being_renewed() -> None:
    world = World()
    world.ask(0, 0.0)
    assert world.leases.renew(0, 1, 0, 1) is False
    assert world.leases.renew(0, 1, 1, 1) is True
    assert world.leases.renew(0, 2, 1, 1) is None
    assert world.leases.renew(1, 1, 1, 1) is None


def test_waiting_ends_with_the_confirmation() -> None:
    leases = CoordinatorLeases(1, 3600.0)
    leases.expect(0)
    leases.attach(0, 1, 0)
    waiting = threading.Thread(target=leases.wait_until_known, args=(1,))
    waiting.start()
    leases.confirm(0, 2, 1)  # another instance than the one that is attached
    assert waiting.is_alive()
    leases.confirm(0, 1, 1)
    waiting.join(60)
    assert not waiting.is_alive()
