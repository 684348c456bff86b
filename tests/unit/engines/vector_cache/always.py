"""A policy for tests."""

from __future__ import annotations

from ray_pubsub.engines.vector_cache.policy import BATCHES, CachePolicy, Pace, Step


class Always(CachePolicy):
    """Uses the cache for every batch."""

    def __init__(self, pace: Pace = BATCHES) -> None:
        super().__init__(pace)
        self.on, self.plain = True, 1.0

    def next(self) -> Step:
        return Step.CACHED

    def used(self, events: int, seconds: float) -> None:
        pass
