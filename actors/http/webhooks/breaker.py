"""A circuit breaker: an endpoint that keeps failing gets no requests for a while, and is then tried with one request."""

from __future__ import annotations

from typing import Literal

__all__ = ["Breaker"]

THRESHOLD = 5
FIRST_PAUSE, LONGEST_PAUSE = 10.0, 600.0


class Breaker:
    """Closed: requests are sent. Open: nothing is sent until `reopens`. Half-open: one request decides."""

    def __init__(self, threshold: int = THRESHOLD, pause: float = FIRST_PAUSE, longest: float = LONGEST_PAUSE) -> None:
        self._threshold = threshold
        self._first = pause
        self._longest = longest
        self._pause = pause
        self.failures = 0
        """The number of failures in a row."""
        self.reopens: float | None = None

    def state(self, now: float) -> Literal["closed", "open", "half-open"]:
        if self.reopens is None:
            return "closed"
        return "open" if now < self.reopens else "half-open"

    def most(self, now: float, concurrency: int) -> int:
        """Returns how many requests may be in flight."""
        return {"closed": concurrency, "open": 0, "half-open": 1}[self.state(now)]

    def succeeded(self) -> None:
        self.failures = 0
        self.reopens = None
        self._pause = self._first

    def failed(self, now: float) -> None:
        self.failures += 1
        if self.state(now) == "half-open":
            self._pause = min(2 * self._pause, self._longest)
            self.reopens = now + self._pause
        elif self.reopens is None and self.failures >= self._threshold:
            self.reopens = now + self._pause
