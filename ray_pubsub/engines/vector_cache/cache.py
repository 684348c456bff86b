"""Caches the matches of code vectors, for one segment.

It is exact, because whole vectors are compared. It is never stale, because a segment is immutable: removed subscriptions are filtered out
of its matches afterwards, and added ones are in another segment, with its own cache."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.string_hashes import SEED
from ray_pubsub.engines.segment_stats import VectorCacheStats
from ray_pubsub.engines.vector_cache.policy import CachePolicy, Step
from ray_pubsub.engines.vector_cache.single_cache import SingleCache
from ray_pubsub.engines.vector_cache.store import Answers, Cells, VectorStore, bytes_of
from ray_pubsub.kernels.columns.code_vectors import count_repeats, distinct_vectors, hash_vectors, take_vectors

__all__ = ["VARIABLE", "VectorCache", "room_for"]

VARIABLE = "RAY_PUBSUB_VECTOR_CACHE"
"""The environment variable that switches all caches off, if set to "off": for measurements of matching itself."""
ENABLED = os.environ.get(VARIABLE) != "off"

FEWEST_EVENTS = 8
"""Smaller batches are matched directly: a look-up by kernels takes longer than some matches."""
LEAST_BYTES, MOST_BYTES, SHARE = 1 << 20, 64 << 20, 4
"""A cache holds at most a quarter of its segment's bytes, within these bounds; its arrays have half as much again to spare."""
SEEN, PART = 1 << 13, 8
"""The number of hashes that probes remember; one event in PART is counted, chosen by its hash."""


def room_for(segment_bytes: int) -> int:
    """Returns how many bytes the cache of a segment may hold."""
    return min(max(segment_bytes // SHARE, LEAST_BYTES), MOST_BYTES)


Codes = NDArray[np.int32]
Slots = NDArray[np.int64]


class VectorCache:
    """`match` may run in several threads at once: readers never wait, and one at a time adds."""

    def __init__(
        self, segment_bytes: int, policy: CachePolicy | None = None, clock: Callable[[], float] = time.thread_time
    ) -> None:
        """`segment_bytes`: how large the segment is. `clock`: CPU time of the thread, so that other work counts little."""
        self._room = room_for(segment_bytes)
        self._policy = policy or CachePolicy()
        self._clock = clock
        self._adding = threading.Lock()
        self._store = VectorStore()
        self._seen: NDArray[np.uint64] | None = None
        self._looked = self._hits = 0
        self.singles = SingleCache(self._room // 4)

    def match(self, codes: EventCodes, compute: Callable[[EventCodes], Any]) -> Answers:
        """Returns what `compute` returns for these codes. The caller owns the arrays."""
        events = len(codes.offsets) - 1
        if events < FEWEST_EVENTS or not ENABLED:
            return compute(codes)  # type: ignore[no-any-return]
        policy = self._policy
        step = policy.next()
        if step is Step.PLAIN:
            return compute(codes)  # type: ignore[no-any-return]
        start = self._clock()
        if step is Step.CACHED:
            joined = self._through(codes, compute)
            policy.used(events, self._clock() - start)
            if not policy.on:
                self._store = VectorStore()
            return joined
        found: Answers = compute(codes)
        seconds = self._clock() - start
        if step is Step.CONTROL:
            policy.controlled(events, seconds)
        else:
            policy.probed(events, seconds, *self._repeats(codes))
        return found

    def match_single(self, column: Codes, code: Codes, compute: Callable[[Codes, Codes], Slots]) -> Slots:
        """Returns the slots that `compute` returns for the columns and codes of one event. The caller owns the array."""
        if not ENABLED or self.singles.waits():
            return compute(column, code)
        return self.singles.match(lambda: column.tobytes() + code.tobytes(), lambda: compute(column, code))

    def stats(self) -> VectorCacheStats:
        store = self._store
        batches = VectorCacheStats(
            self._policy.on, self._looked, self._hits, store.count, store.nbytes, self._policy.saved
        )
        return VectorCacheStats.total([batches, self.singles.stats()])

    def holds(self, codes: EventCodes) -> bool:
        """Returns whether the one event of these codes would be found."""
        cells = (codes.offsets, codes.column, codes.code)
        return self._policy.on and bool(self._store.find(cells, hash_vectors(cells, SEED))[0] >= 0)

    def _repeats(self, codes: EventCodes) -> tuple[int, int]:
        if self._seen is None:
            self._seen = np.zeros(SEEN, np.uint64)
        hashes = hash_vectors((codes.offsets, codes.column, codes.code), SEED)
        looked, found = count_repeats(hashes, self._seen, PART)
        return int(looked), int(found)

    def _through(self, codes: EventCodes, compute: Callable[[EventCodes], Any]) -> Answers:
        cells = (codes.offsets, codes.column, codes.code)
        store = self._store
        hashes = hash_vectors(cells, SEED)
        found = store.find(cells, hashes)
        first = distinct_vectors(cells, hashes, found)
        self._looked += len(hashes)
        self._hits += len(hashes) - len(first)
        if not len(first):
            return store.joined(found, NO_ANSWERS)
        alone = len(first) == len(hashes)
        missed = cells if alone else take_vectors(cells, first)
        offsets, slots = compute(codes if alone else EventCodes(*missed))
        self._add(missed, hashes[first], (offsets, slots))
        return (offsets, slots) if alone else store.joined(found, (offsets, slots))

    def _add(self, cells: Cells, hashes: NDArray[np.uint64], answers: Answers) -> None:
        """Adds the answers, unless another thread is adding."""
        if not self._adding.acquire(blocking=False):
            return
        try:
            store = self._store
            more = bytes_of(len(hashes), len(cells[1]), len(answers[1]))
            if store.used + more > self._room:
                store = VectorStore()  # full: start again; what is frequent is soon back
            if more <= self._room:
                self._store = store.with_more(cells, hashes, answers)
        finally:
            self._adding.release()


NO_ANSWERS = np.zeros(1, np.int64), np.empty(0, np.int64)
