"""Caches the matches of single events by their codes or values, in a dictionary, because calling a kernel takes longer than a look-up
here."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.segment_stats import VectorCacheStats
from ray_pubsub.engines.vector_cache.policy import SINGLE_EVENTS, CachePolicy, Step

__all__ = ["SingleCache"]

Slots = NDArray[np.int64]
ENTRY_BYTES = 400
"""The bytes of an entry beside its key's and its array's content."""
SEEN = 1 << 12


class SingleCache:
    """`match` may run in several threads at once; concurrent counts may be lost."""

    def __init__(
        self, room: int, policy: CachePolicy | None = None, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """`room`: in bytes. `clock`: not the thread's CPU time, because reading that takes as long as some matches."""
        self._room = room
        self._policy = policy or CachePolicy(SINGLE_EVENTS)
        self._clock = clock
        self._known: dict[bytes, Slots] = {}
        self._bytes = 0
        self._seen: list[int] = []
        self._looked = self._hits = 0

    def waits(self) -> bool:
        """Returns whether the next event should be matched without the cache and without measuring anything; call it before `match`."""
        return self._policy.waits()

    def match(self, key: Callable[[], bytes], compute: Callable[[], Slots]) -> Slots:
        """Returns the slots that `compute` returns for an event, as an array that the caller owns. `key`: returns the bytes that
        determine them."""
        policy = self._policy
        step = policy.next()
        start = self._clock()
        if step is Step.CACHED:
            slots = self._through(key(), compute)
            policy.used(1, self._clock() - start)
            if not policy.on:
                self._forget()
            return slots
        slots = compute()
        seconds = self._clock() - start
        if step is Step.CONTROL:
            policy.controlled(1, seconds)
        elif step is Step.PROBE:
            policy.probed(1, seconds, 1, self._repeats(key()))
        return slots

    def stats(self) -> VectorCacheStats:
        return VectorCacheStats(
            self._policy.on, self._looked, self._hits, len(self._known), self._bytes, self._policy.saved
        )

    def _through(self, key: bytes, compute: Callable[[], Slots]) -> Slots:
        self._looked += 1
        slots = self._known.get(key)
        if slots is not None:
            self._hits += 1
            return slots.copy()
        slots = compute()
        size = len(key) + slots.nbytes + ENTRY_BYTES
        if self._bytes + size > self._room:
            self._forget()  # full: start again; what is frequent is soon back
        if size <= self._room:
            self._known[key] = slots.copy()
            self._bytes += size
        return slots

    def _forget(self) -> None:
        self._known, self._bytes = {}, 0

    def _repeats(self, key: bytes) -> int:
        if not self._seen:
            self._seen = [0] * SEEN
        bits = hash(key)
        found = self._seen[bits % SEEN] == bits
        self._seen[bits % SEEN] = bits
        return int(found)
