"""What the segments of the default share: events coded per batch, and a cache from code vectors to matches."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.columns.event_codes import EventCodes, encode_events, encode_single
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits, Segment
from ray_pubsub.engines.explain.plan import SegmentPlan
from ray_pubsub.engines.explain.trace import Traced, timed
from ray_pubsub.engines.segment_stats import VectorCacheStats
from ray_pubsub.engines.vector_cache.cache import VectorCache
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.single_event import SingleEvent

__all__ = ["CachedSegment"]


class CachedSegment(Segment):
    """A subclass matches codes (`_match_codes`) and explains how (`_trace`); it sets the three fields when it is built."""

    vocabulary: Vocabulary
    space: CodeSpace
    _cache: VectorCache

    def match(self, events: EventBatch) -> Hits:
        codes = encode_events(events, self.space, self.vocabulary)
        return Hits(*self._cache.match(codes, self._match_codes))

    def match_single(self, event: SingleEvent) -> NDArray[np.int64]:
        return self._cache.match_single(*encode_single(event, self.space, self.vocabulary), self._match_one)

    @abstractmethod
    def _match_codes(self, codes: EventCodes) -> Hits:
        """Matches events that are not in the cache. Slots behind the last offset do not count."""

    def _match_one(self, column: NDArray[np.int32], code: NDArray[np.int32]) -> NDArray[np.int64]:
        hits = self._match_codes(EventCodes.of_one(column, code))
        return hits.slots[: hits.offsets[1]]

    def explain(self, events: EventBatch) -> SegmentPlan:
        hits, seconds = timed(self.match, events)
        codes, matches = encode_events(events, self.space, self.vocabulary), len(hits.slots)
        partitions, traces, verified = self._trace(codes, matches)
        pipelines, cached = tuple(trace.pipeline() for trace in traces), self._cache.holds(codes)
        clauses = partitions.clauses_visited + partitions.clauses_skipped
        return SegmentPlan(self.engine, clauses, partitions, pipelines, verified, matches, seconds, cached=cached)

    @abstractmethod
    def _trace(self, codes: EventCodes, matches: int) -> Traced:
        """Explains step by step how a single event that is not in the cache is matched. `matches`: how many it has."""

    def _vectors(self) -> VectorCacheStats:
        return self._cache.stats()
