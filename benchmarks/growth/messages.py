"""What goes over the network per event, and what a coordinator does for it: by the server's own frames, in this process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import ray_pubsub
from actors.transport.matching import MatchRequest, ShardReply, read_reply
from actors.transport.object_refs import SharedEvents
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.sharding.merging import ShardMatches
from ray_pubsub.sharding.routing import ShardRoutes
from ray_pubsub.workloads import Workload

__all__ = ["SHARDS_ASKED", "measure_messages"]

SHARDS_ASKED = (1, 4, 16)
ROUNDS = 3


def measure_messages(make: Callable[[int], Workload], subscriptions: int, shards: int) -> dict[str, Any]:
    """A batch that goes to this many shards, each of which answers with its part of the matches: bytes of a request and of all replies per
    event, and the coordinator's milliseconds per event, for routing, writing the requests and reading the replies."""
    made, index = make(subscriptions), ray_pubsub.MatchIndex()
    index.add_predicates(made.predicates())
    dicts = made.event_dicts()
    batch = from_dicts(dicts)
    found = index.match_many(batch)
    replies = [_reply(found, batch.size, shard, shards).frame() for shard in range(shards)]
    routes = ShardRoutes(shards)
    best = np.inf
    for _ in range(ROUNDS):
        fresh = from_dicts(dicts)
        start = time.thread_time()
        for event in dicts:
            routes.visited(list(event))
        shared = SharedEvents(fresh)
        requests = [MatchRequest(shared, "lineage", 1, 60.0).frame() for _ in range(shards)]
        matches = sum(read_reply(reply, batch.size).count for reply in replies)
        best = min(best, time.thread_time() - start)
    assert matches == len(found), "the replies together have every match"
    return {
        "subscriptions": made.subscriptions,
        "shards": shards,
        "matches": len(found) / batch.size,
        "request_bytes": _size(requests[0]) / batch.size,
        "reply_bytes": sum(_size(reply) for reply in replies) / batch.size,
        "coordinator_ms": best * 1e3 / batch.size,
    }


def _reply(found: Any, events: int, shard: int, shards: int) -> ShardReply:
    """The matches of the subscriptions that a shard would have, if every `shards`-th were there."""
    ids = np.asarray(found.subscription_ids, np.int64)
    rows = np.repeat(np.arange(events), np.diff(found.offsets))
    kept = ids % shards == shard
    distinct, places = np.unique(ids[kept], return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=events))]).astype(np.int64)
    narrow = np.uint16 if len(distinct) <= 1 << 16 else np.int32
    matches = ShardMatches(offsets, places.astype(narrow), distinct, np.zeros(len(distinct), np.int32))
    return ShardReply(1, 1, 0.0, len(matches), matches)


def _size(frame: Any) -> int:
    return len(frame.header) + sum(memoryview(column).nbytes for column in frame.columns)
