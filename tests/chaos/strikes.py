"""What happens to a server while it is used: processes are killed, stopped and crash while they write, disks fail and are full.

A seed decides all of it, so that a run can be repeated; how the processes interleave is up to the machine.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ray_pubsub.errors import RayPubSubError
from tests.chaos.processes import kill, pid_of, roles

__all__ = ["CRASHES", "FAILURES", "Strikes"]

CRASHES = (
    "registry.append", "registry.fsync", "registry.apply", "registry.acknowledge", "registry.merge",
    "mailboxes.append", "mailboxes.fsync", "mailboxes.apply", "mailboxes.deliver", "mailboxes.acknowledge",
    "mailboxes.merge", "checksums.append", "checksums.sync", "checksums.rename", "checkpoint",
)  # fmt: skip
"""Places of a running server (ray_pubsub/failpoints.py). A crash before an acknowledgement is a reply that is lost."""
FAILURES = ("registry.append", "registry.fsync", "mailboxes.append", "mailboxes.fsync", "checksums.sync")
SHORTEST, LONGEST = 0.05, 2.5
"""Seconds that a process is stopped, or a disk fails: below and above what servers of the suite take as a lease."""
PATIENCE = 3.0
"""Seconds in which a place is reached, if it is reached at all."""


class Strikes:
    """Strikes one server, which was started with RAY_PUBSUB_FAILPOINTS naming the file `failpoints`."""

    def __init__(self, server: Any, failpoints: Path, chance: random.Random) -> None:
        self.server, self._failpoints, self._chance = server, failpoints, chance
        self._kinds: dict[str, Callable[[], object]] = {
            "kill": self.kill,
            "stop": self.stop,
            "stop, then kill": self.stop_and_kill,
            "crash": self.crash_somewhere,
            "failing disk": lambda: self.fail("fail"),
            "full disk": lambda: self.fail("full"),
            "rebalance": self.rebalance,
        }

    def strike(self) -> str:
        """One, by chance; returns its name, of a crash with its place. Returns when the blow is over, not when the server has recovered."""
        kind = self._chance.choice(["kill", *self._kinds])  # kills are the most frequent
        found = self._kinds[kind]()
        return f"crash at {found}" if kind == "crash" else kind

    def kill(self) -> None:
        kill(self.server, *self._chance.sample(list(roles(self.server)), self._chance.choice((1, 1, 1, 2, 3))))

    def stop(self, then: signal.Signals = signal.SIGCONT) -> None:
        """A process that hangs; Ray may start another beside it."""
        pid = pid_of(self.server, self._chance.choice(list(roles(self.server))))
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(self._chance.uniform(SHORTEST, LONGEST))
        finally:
            with suppress(ProcessLookupError):
                os.kill(pid, then)

    def stop_and_kill(self) -> None:
        self.stop(signal.SIGKILL)

    def crash_somewhere(self) -> str:
        """Returns the place at which a process has ended. Some are rarely reached under a small load; another one is tried then."""
        for place in self._chance.sample(CRASHES, len(CRASHES)):
            if self.crash(place, PATIENCE / 2):
                return place
        return "no place"

    def crash(self, place: str, patience: float = PATIENCE) -> bool:
        """The next process that reaches a place ends there; returns whether one did."""
        self._failpoints.write_text(f"{place} crash-once\n")
        ends = time.monotonic() + patience
        while self._failpoints.exists() and time.monotonic() < ends:
            time.sleep(0.01)
        crashed = not self._failpoints.exists()
        self._failpoints.unlink(missing_ok=True)
        return crashed

    def fail(self, action: str, place: str | None = None) -> None:
        """Every write at a place fails for a while."""
        self._failpoints.write_text(f"{place or self._chance.choice(FAILURES)} {action}\n")
        try:
            time.sleep(self._chance.uniform(SHORTEST, LONGEST))
        finally:
            self._failpoints.unlink(missing_ok=True)

    def rebalance(self) -> None:
        with suppress(RayPubSubError):
            self.server.rebalance(1.0)
