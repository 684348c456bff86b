"""Decides when a segment's cache is used: if enough events repeat the codes of others, and only while measurements show that it saves
time.

Without a cache, some batches are probed: their time is measured, and the events that repeat others are counted. Probes become rare while
they find nothing to gain. With the cache, a batch now and then is matched without it, and the two are compared.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

__all__ = ["BATCHES", "SINGLE_EVENTS", "CachePolicy", "Pace", "Step"]


class Step(Enum):
    """What to do with the next batch."""

    PLAIN = "plain"
    """Match it, measure nothing."""
    PROBE = "probe"
    """Match it, time that, and count repeats."""
    CACHED = "cached"
    """Match it through the cache, and time that."""
    CONTROL = "control"
    """While the cache is in use: match it without, and time that."""


CHEAP = 1e-6
"""If matching an event takes at most this many seconds, no cache is considered."""


class Pace(NamedTuple):
    """How often each kind of measurement is made."""

    look_up: float
    """The approximate seconds of a look-up. The expected gain must exceed it; after that, the measured gain decides."""
    least: int
    """Batches that are probed before the cache may be used."""
    probes: int
    """Batches that are probed before pauses between probes grow."""
    longest: int
    """Batches between two probes."""
    warm: int
    """Batches after which the cache's gain is judged: at first it is empty."""
    every: int
    """One batch in this many is matched without the cache, to compare."""
    newest: float
    """Share of the newest measurement in the average."""
    newest_repeats: float
    """The same for repeats, of which a single event has none or one."""


BATCHES = Pace(look_up=0.3e-6, least=2, probes=8, longest=512, warm=8, every=32, newest=0.25, newest_repeats=1.0)
SINGLE_EVENTS = Pace(2e-6, least=64, probes=256, longest=4096, warm=512, every=32, newest=0.03, newest_repeats=0.03)
KEEP = 0.9
"""The cache is kept while a batch takes less than this part of the time that it takes without."""
MOST = 4.0
"""A measurement counts as at most this many times the average, because a thread may have been interrupted."""


class CachePolicy:
    """Decides for one segment. Approximate and cheap: concurrent readers may lose a count."""

    def __init__(self, pace: Pace = BATCHES) -> None:
        """`pace`: for batches, or for single events, each of which counts as a batch."""
        self._pace = pace
        self.on = False
        self.plain: float | None = None
        """Seconds per event without the cache."""
        self.cached: float | None = None
        """Seconds per event with the cache."""
        self.repeats = 0.0
        """The share of events that repeated others, at the last probe."""
        self.saved = 0.0
        """The seconds saved in total, according to the measurements."""
        self._probes = 0
        self._pause, self._wait = 1, 0
        self._batches = 0

    def waits(self) -> bool:
        """Returns whether the current pause continues, and shortens it by one batch; if so, the next step is PLAIN."""
        if self._wait <= 0 or self.on:
            return False
        self._wait -= 1
        return True

    def next(self) -> Step:
        if not self.on:
            return Step.PLAIN if self.waits() else Step.PROBE
        self._batches += 1
        return Step.CONTROL if self._batches % self._pace.every == 0 else Step.CACHED

    def probed(self, events: int, seconds: float, looked: int, repeated: int) -> None:
        """Records how long a batch took without the cache, and how many of the examined events repeated others. The first batch of a
        segment is ignored, because structures may be built during it."""
        self._probes += 1
        if self._probes == 1:
            return
        self.plain = self._average(self.plain, seconds / events)
        self.repeats += self._pace.newest_repeats * ((repeated / looked if looked else 0.0) - self.repeats)
        worth = self.plain > CHEAP and self.plain * self.repeats > self._pace.look_up
        if worth and self._probes >= self._pace.least:
            self.on, self._batches, self.cached = True, 0, None
            return
        if self._probes > self._pace.probes or self.plain <= CHEAP:
            self._wait, self._pause = self._pause, min(2 * self._pause, self._pace.longest)

    def controlled(self, events: int, seconds: float) -> None:
        """Records how long a batch took without the cache, while the cache is in use."""
        self.plain = self._average(self.plain, seconds / events)

    def used(self, events: int, seconds: float) -> None:
        """Records how long a batch took with the cache."""
        if self._batches <= self._pace.warm:
            return
        assert self.plain is not None, "a cache is used after a probe"
        self.cached = self._average(self.cached, seconds / events)
        self.saved += self.plain * events - min(seconds, MOST * self.cached * events)
        if self.cached > KEEP * self.plain:
            self.on = False
            self._pause = min(4 * self._pause, self._pace.longest)
            self._wait = self._pause
        elif self._batches > 2 * (self._pace.warm + self._pace.every):
            self._pause = 1

    def _average(self, known: float | None, newest: float) -> float:
        return newest if known is None else known + self._pace.newest * (min(newest, MOST * known) - known)
