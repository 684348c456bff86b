"""Matches one batch against one view of the routing table, which stays the same from beginning to end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from actors.coordinator.crash_counting import counting_crashes_once
from actors.coordinator.publish_counts import PublishCounts
from actors.coordinator.routing_table import RoutingTable, RoutingView
from actors.coordinator.shard_fanout import FanOut, ShardQuery, fan_out
from actors.transport.calls import Deadline
from actors.transport.matching import MatchRequest, ShardReply
from actors.transport.object_refs import SharedEvents, StoredRef
from actors.transport.published_events import PublishedEvents
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import EventError, UnavailableError
from ray_pubsub.model.select_events import select_events
from ray_pubsub.sharding.merging import ShardMatches, merge_matches

__all__ = ["BatchMatcher", "MatchedBatch", "ShardsOfCoordinator"]

logger = logging.getLogger(__name__)


class ShardsOfCoordinator(Protocol):
    """How a coordinator reaches the shards (`transport.shard_client`)."""

    def match(self, requests: Sequence[tuple[int, MatchRequest]], timeout: float) -> list[ShardReply | Exception]:
        """Asks several shards at once; each request has the number of its shard."""

    def fetch(self, stored: StoredRef) -> Any:
        """Maps an object from the object store into this process."""

    def alive(self, shard: int, timeout: float) -> int | None:
        """Returns the epoch of a shard that answers and has loaded, otherwise None."""

    def explain(self, requests: Sequence[tuple[Any, ...]], timeout: float) -> list[IndexPlan | Exception]:
        """Calls `Shard.explain`; each request has the number of the shard and the arguments."""

    def counts(self) -> dict[str, int]:
        """Returns the counts for `stats`."""

    def close(self) -> None: ...


class MatchedBatch(NamedTuple):
    """A batch that all shards have answered."""

    view: RoutingView
    parts: list[ShardMatches | StoredRef]
    errors: list[EventError]
    """One error for each event that was left out."""


class OutdatedViewError(Exception):
    """The routing table was loaded again while a batch was being matched by an older view."""


class BatchMatcher:
    """Matches batches on the shards. Safe to use from several threads."""

    def __init__(self, shards: ShardsOfCoordinator, table: RoutingTable, counts: PublishCounts) -> None:
        self._shards, self._table, self._counts = shards, table, counts

    def match(self, events: PublishedEvents, key: str, deadline: Deadline, level: int = 0) -> MatchedBatch:
        """Returns the matches of a batch. Matches again by a new view if the first view did not stay valid until the end. Raises
        UnavailableError. `key` is for the log; `level` is that of the most urgent event, by which shards choose their next batch."""
        while True:
            try:
                view, begun = self._table.begin(events.batch, deadline)
                try:
                    matched = self._match_by(view, events, key, deadline, level)
                    if self._table.held(view):
                        return matched
                finally:
                    self._table.end(begun)
            except OutdatedViewError:
                pass
            if not deadline:
                raise UnavailableError("the registry", "was replaced, and this batch was not matched again in time")
            self._counts.add(retries=1)

    def _match_by(
        self, view: RoutingView, events: PublishedEvents, key: str, deadline: Deadline, level: int
    ) -> MatchedBatch:
        batch = events.batch
        if not view.shards or not batch.size:
            return MatchedBatch(view, [], [])
        needed, left = dict(zip(view.shards, view.needed, strict=True)), deadline.left
        replies = self._shards.match(
            [
                (shard, MatchRequest(events.shared, view.lineage, version, left, view.moving, level))
                for shard, version in needed.items()
            ],
            left,
        )
        parts = [reply.matches for reply in replies if isinstance(reply, ShardReply) and reply.matches is not None]
        if len(parts) == len(needed):  # all have answered at once, as nearly always
            return MatchedBatch(view, self._each_once(parts, batch.size) if view.moving else parts, [])

        first: Sequence[ShardReply | Exception] | None = replies

        def ask(queries: Sequence[ShardQuery], timeout: float) -> Sequence[ShardReply | Exception]:
            nonlocal first
            if first is not None:
                given, first = first, None
                return given
            if not self._table.is_current(view):
                raise OutdatedViewError
            requests = []
            for shard, rows in ((query.shard, query.rows) for query in queries):
                asked = events.shared if rows is None else SharedEvents(select_events(batch, rows))
                requests.append((shard, MatchRequest(asked, view.lineage, needed[shard], timeout, view.moving, level)))
            replies = self._shards.match(requests, timeout)
            return [
                self._with_matches(reply) if query.rows is not None else reply
                for query, reply in zip(queries, replies, strict=True)
            ]

        result = fan_out(counting_crashes_once(ask, self._shards.alive), view.shards, batch.size, deadline)
        parts = self._each_once(result.parts, batch.size) if view.moving else result.parts
        return MatchedBatch(view, parts, self._left_out(result, view, events, key))

    def _each_once(self, parts: Sequence[ShardMatches | StoredRef], events: int) -> list[ShardMatches | StoredRef]:
        """Merges the parts so that each match occurs once: while subscriptions move, one may be on two shards, with its matches in two
        parts."""
        found = [self._shards.fetch(part) if isinstance(part, StoredRef) else part for part in parts]
        merged = merge_matches(found, events, repeated=len(found) > 1)
        return [ShardMatches(merged.offsets, merged.places, merged.ids, merged.subscribers)]

    def _with_matches(self, reply: ShardReply | Exception) -> ShardReply | Exception:
        if isinstance(reply, ShardReply) and isinstance(reply.matches, StoredRef):
            return replace(reply, matches=self._shards.fetch(reply.matches))
        return reply

    def _left_out(self, result: FanOut, view: RoutingView, events: PublishedEvents, key: str) -> list[EventError]:
        if result.retries:
            self._counts.add(retries=result.retries, deadly=len(result.deadly))
            logger.warning(
                "retried idempotency_key=%s retries=%d events=%d version=%d shards=%s",
                key, result.retries, len(events), view.version, list(view.shards),
            )  # fmt: skip
        errors = []
        for position in map(events.position, result.deadly):
            error = EventError(None, "was left out: a shard crashes whenever it matches this event", position)
            logger.error(
                "deadly event idempotency_key=%s event=%r version=%d: %s",
                key, events.ids[position], view.version, error,
            )  # fmt: skip
            errors.append(error)
        return errors
