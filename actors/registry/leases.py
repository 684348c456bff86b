"""Which coordinators may be publishing, and what they know: so that a change is acknowledged only when no publication can miss it.

A coordinator publishes only while it has a lease. A change is sent to every coordinator and acknowledged when all have confirmed it; one
that does not answer is waited for until its lease has run out, and then may not publish until it has asked the registry for everything.
So a change never waits for longer than a lease, and a coordinator that is cut off cannot publish by what it knew before.
Time is only ever measured, never compared between machines: the coordinator counts its lease from when it asked, the registry from
when it answered, which is later.
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
    """The last note it is known to have."""
    granted: float
    missed: bool = False


class CoordinatorLeases:
    """Safe to use from several threads. `clock` is monotonic."""

    def __init__(self, coordinators: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds = seconds
        self._clock = clock
        self._lock = threading.Condition()
        self._attached: dict[int, Attached] = {}
        # An earlier instance of the registry may have given leases up to now.
        self._free_at = dict.fromkeys(range(coordinators), clock() + seconds)
        """When the leases end that were given to instances other than the attached one."""

    def attach(self, coordinator: int, epoch: int, serial: int, age: float = 0.0) -> None:
        """An instance that knows everything up to this note. `age`: for so long it has been the attached one, of this registry or an
        earlier one; after a lease's time no instance before it can have a lease any more."""
        with self._lock:
            if age >= self.seconds:
                self._free_at[coordinator] = min(self._free_at[coordinator], self._clock())
            known = self._attached.get(coordinator)
            if known is not None and known.epoch != epoch:
                self._free_at[coordinator] = max(self._free_at[coordinator], known.granted + self.seconds)
            self._attached[coordinator] = Attached(epoch, serial, self._clock())
            self._lock.notify_all()

    def expect(self, coordinator: int) -> None:
        """Nobody has ever published as this coordinator: there is nothing to wait for."""
        with self._lock:
            self._free_at[coordinator] = self._clock()

    def renew(self, coordinator: int, epoch: int, serial: int, current: int) -> bool | None:
        """Whether the lease was renewed; None if the coordinator must attach again. `current` is the last note sent."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is None or known.epoch != epoch or known.missed:
                return None
            if serial >= current:
                known.confirmed, known.granted = serial, self._clock()
                self._lock.notify_all()
                return True
            return False  # a note is on its way to it

    def confirm(self, coordinator: int, epoch: int, serial: int) -> None:
        """It has said that it has this note."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is not None and known.epoch == epoch:
                known.confirmed = max(known.confirmed, serial)
                self._lock.notify_all()

    def miss(self, coordinator: int, serial: int) -> None:
        """It did not answer to this note: its lease is not renewed until it has attached again."""
        with self._lock:
            known = self._attached.get(coordinator)
            if known is not None and known.confirmed < serial:
                known.missed = True

    def wait_until_known(self, serial: int) -> None:
        """Returns when every coordinator has this note or may not publish."""
        with self._lock:
            while (longest := self.until_known(serial)) > 0:
                self._lock.wait(longest)

    def until_known(self, serial: int) -> float:
        """Seconds that this takes at most, as of now."""
        with self._lock:
            now = self._clock()
            return max([0.0, *(self._ends(coordinator, serial) - now for coordinator in self._free_at)])

    def attached(self) -> dict[int, int]:
        """The epochs of the coordinators that are attached."""
        with self._lock:
            return {coordinator: known.epoch for coordinator, known in self._attached.items()}

    def _ends(self, coordinator: int, serial: int) -> float:
        """Until when somebody may publish as this coordinator without the note."""
        known = self._attached.get(coordinator)
        ends = self._free_at[coordinator]
        if known is not None and known.confirmed < serial:
            ends = max(ends, known.granted + self.seconds)
        return ends
