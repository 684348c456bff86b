"""How much a process works on at once, by number and by bytes. What is beyond waits a little, and is then refused rather than kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ray_pubsub.errors import OverloadedError

__all__ = ["Turnstile"]


class Turnstile:
    """In the order in which they came, roughly. What is larger than all that is allowed may go alone."""

    def __init__(self, most: int, most_bytes: int, patience: float) -> None:
        self._most, self._most_bytes, self._patience = most, most_bytes, patience
        self._change = threading.Condition()
        self.inside = self.bytes = self.waiting = self.refused = 0
        self._seconds = 0.05
        """What a batch takes, lately."""

    @contextmanager
    def passed(self, size: int, patience: float | None = None) -> Iterator[None]:
        """Raises OverloadedError if it is not this one's turn in time."""
        with self._change:
            self.waiting += 1
            try:
                wait = self._patience if patience is None else min(self._patience, patience)
                if not self._change.wait_for(lambda: self._fits(size), wait):
                    self.refused += 1
                    raise OverloadedError("batches", self.waiting, self._retry_after())
            finally:
                self.waiting -= 1
            self.inside += 1
            self.bytes += size
        started = time.monotonic()
        try:
            yield
        finally:
            with self._change:
                self.inside -= 1
                self.bytes -= size
                self._seconds += 0.1 * (time.monotonic() - started - self._seconds)
                self._change.notify_all()

    def _fits(self, size: int) -> bool:
        return self.inside == 0 or (self.inside < self._most and self.bytes + size <= self._most_bytes)

    def _retry_after(self) -> float:
        """About when those that wait now will be through."""
        return round(max(0.05, self._seconds * self.waiting / self._most), 3)
