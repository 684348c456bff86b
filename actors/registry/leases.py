"""Tracks which coordinators may be publishing and what they know, so that a change is acknowledged only when no publication can miss it.

A coordinator publishes only while it has a lease. A change is sent to every coordinator and acknowledged when all have confirmed it. If a
coordinator does not answer, the registry waits until its lease has run out; it then may not publish until it has requested the whole state.
So a change never waits for longer than a lease, and a coordinator that is cut off cannot publish with outdated knowledge. Clocks are never
compared between machines: the coordinator counts its lease from when it asked, the registry from when it answered, which is later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["CoordinatorLeases"]


@dataclass(slots=True)
class Attached:
    epoch: int
    confirmed: int
    """The serial of the last note that it is known to have."""
    granted: float
    missed: bool = False


class CoordinatorLeases:
    """The leases of all coordinators. Safe to use from several threads. `clock` must be monotonic."""

    def __init__(self, coordinators: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Condition()
        self._attached: dict[int, Attached] = {}
        # An earlier instance of the registry may have granted leases until now.
        self._free_at = dict.fromkeys(range(coordinators), clock() + seconds)
        """The time at which the leases end that were granted to instances other than the attached one."""

    def attach(self, coordinator: int, epoch: int, serial: int, age: float = 0.0) -> None:
        """Attaches an instance that knows everything up to this note. `age` is the number of seconds for which it has been the attached
        instance, of this registry or an earlier one: after the duration of a lease no earlier instance can still have one."""
        with self._lock:
            if age >= self.seconds:
                self._free_at[coordinator] = min(self._free_at[coordinator], self._clock())
            known = self._attached.get(coordinator)
            if known is not None and known.epoch != epoch:
                self._free_at[coordinator] = max(self._free_at[coordinator], known.granted + self.seconds)
            self._attached[coordinator] = Attached(epoch, serial, self._clock())
            self._lock.notify_all()

    def expect(self, coordinator: int) -> None:
        """Records that nobody has ever published as this coordinator, so that there is no lease to wait for."""
        with self._lock:
            self._free_at[coordinator] = self._clock()

    def renew(self, coordinator: int, epoch: int, serial: int, current: int) -> bool | None:
        """Returns whether the lease was renewed, or None if the coordinator must attach again. `current` is the serial of the last note
        sent."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is None or known.epoch != epoch or known.missed:
                return None
            if serial >= current:
                known.confirmed, known.granted = serial, self._clock()
                self._lock.notify_all()
                return True
            return False  # a note is on its way to this coordinator

    def confirm(self, coordinator: int, epoch: int, serial: int) -> None:
        """Records that a coordinator has confirmed this note."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is not None and known.epoch == epoch:
                known.confirmed = max(known.confirmed, serial)
                self._lock.notify_all()

    def miss(self, coordinator: int, serial: int) -> None:
        """Records that a coordinator did not answer to this note. Its lease is not renewed until it has attached again."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is not None and known.confirmed < serial:
                known.missed = True

    def wait_until_known(self, serial: int) -> None:
        """Waits until every coordinator has this note or may not publish."""
        with self._lock:
            while (longest := self.until_known(serial)) > 0:
                self._lock.wait(longest)

    def until_known(self, serial: int) -> float:
        """Returns the longest time, in seconds from now, that `wait_until_known` may take."""
        with self._lock:
            now = self._clock()
            return max([0.0, *(self._ends(coordinator, serial) - now for coordinator in self._free_at)])

    def attached(self) -> dict[int, int]:
        """Returns the epochs of the attached coordinators, by coordinator number."""
        with self._lock:
            return {coordinator: known.epoch for coordinator, known in self._attached.items()}

    def _ends(self, coordinator: int, serial: int) -> float:
        """Returns the time until which somebody may publish as this coordinator without the note."""
        known = self._attached.get(coordinator)
        ends = self._free_at[coordinator]
        if known is not None and known.confirmed < serial:
            ends = max(ends, known.granted + self.seconds)
        return ends
