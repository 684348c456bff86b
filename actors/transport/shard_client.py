"""A coordinator's client of the shards."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors.transport.actor_handles import ActorHandles, own_node
from actors.transport.calls import Deadline, answer, answers, fetched, stored
from actors.transport.dispatch import Call, replies
from actors.transport.frames import Frame
from actors.transport.matching import MatchRequest, ShardReply, read_reply
from actors.transport.object_refs import StoredRef
from actors.transport.sockets.client_pool import PATIENCE, ClientPool
from actors.transport.sockets.connection import SocketAddress
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import FencedError, UnavailableError

__all__ = ["InstanceEpochs", "ShardClient"]

ALIVE_TIMEOUT = 5.0


class InstanceEpochs:
    """The latest instance of each shard that has replied, by lineage, because a registry without a store counts epochs from 1 again.
    Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, int], int] = {}

    def is_current(self, lineage: str, shard: int, epoch: int) -> bool:
        """Returns False if a later instance has replied before; otherwise remembers the epoch."""
        with self._lock:
            if epoch < self._latest.get((lineage, shard), 0):
                return False
            self._latest[lineage, shard] = epoch
            return True


class ShardClient:
    """Calls the shards. Safe to use from several threads."""

    def __init__(self, handles: ActorHandles, most: int) -> None:
        """`most` is the number of connections to each shard."""
        self._handles = handles
        self._pool = ClientPool("shard", self._address, own_node(), most)
        self._epochs = InstanceEpochs()

    def match(self, requests: Sequence[tuple[int, MatchRequest]], timeout: float) -> list[ShardReply | Exception]:
        """Asks several shards at once; each request has the number of its shard. A reply of a replaced instance becomes an
        UnavailableError."""
        deadline = Deadline(timeout)
        calls: list[Call] = []
        try:
            for shard, request in requests:
                patience = None if request.events.small else timeout
                calls.append(Call(self._pool, shard, _Match(shard, request, self._handles, self._epochs), patience))
        except BaseException:
            for call in calls:
                call.cancel()
            raise
        found = replies(calls, deadline)
        return [
            reply if type(reply) is ShardReply else _retryable(shard, reply)
            for (shard, _), reply in zip(requests, found, strict=True)
        ]

    def fetch(self, stored: StoredRef) -> Any:
        """Maps an object from the object store into this process."""
        return fetched(stored)

    def alive(self, shard: int, timeout: float) -> int | None:
        """Returns the epoch of a shard that answers and has loaded, otherwise None."""
        try:
            health = answer(self._handles.shard(shard).health.remote(), f"shard {shard}", min(timeout, ALIVE_TIMEOUT))
        except UnavailableError:
            return None
        return None if health["state"] == "loading" else int(health["epoch"])

    def explain(self, requests: Sequence[tuple[Any, ...]], timeout: float) -> list[IndexPlan | Exception]:
        """Calls `Shard.explain`; each request has the number of the shard and the arguments."""
        references = [self._handles.shard(shard).explain.remote(*rest) for shard, *rest in requests]
        return answers(references, [f"shard {shard}" for shard, *_ in requests], timeout)

    def counts(self) -> dict[str, int]:
        """Returns the counts for `stats`."""
        return {"socket_replies": self._pool.answered}

    def close(self) -> None:
        self._pool.close()

    def _address(self, shard: int) -> SocketAddress | None:
        reference = self._handles.shard(shard).socket_address.remote()
        address: SocketAddress | None = answer(reference, f"shard {shard}", ALIVE_TIMEOUT)
        return address


def _retryable(shard: int, reply: ShardReply | Exception) -> ShardReply | Exception:
    """Makes the reply of an instance that finds itself replaced an error that is retried: by then Ray leads to the new instance."""
    if isinstance(reply, FencedError):
        return UnavailableError(f"shard {shard}", "is being replaced by a newer instance")
    return reply


@dataclass(slots=True, eq=False)
class _Match:
    """A MatchRequest to one shard, over a socket or through Ray (`dispatch.RemoteRequest`)."""

    shard: int
    request: MatchRequest
    handles: ActorHandles
    epochs: InstanceEpochs
    matches: Any = None
    """The reference of the matches, if they stay in the object store."""

    @property
    def who(self) -> str:
        return f"shard {self.shard}"

    def frame(self) -> Frame:
        request = self.request  # a shard that must wait for longer is asked through Ray
        return request.frame(PATIENCE / 2 if request.events.small else request.timeout)

    def read(self, frame: Frame) -> ShardReply:
        return read_reply(frame, self.request.events.batch.size)

    def is_current(self, reply: ShardReply) -> bool:
        return self.epochs.is_current(self.request.lineage, self.shard, reply.epoch)

    def call(self, again: bool) -> Any:
        shard, request = self.handles.shard(self.shard), self.request
        if request.events.small:
            return shard.match.remote(request)
        # As a top-level argument a reference becomes the object, in the shard's memory map.
        events = request.events.store(stored).reference
        match = shard.match_stored.options(num_returns=2)
        reply, self.matches = match.remote(
            events, request.lineage, request.needed, request.timeout, request.numbers, request.level
        )
        return reply

    def finish(self, reply: ShardReply) -> ShardReply | Exception:
        if not self.is_current(reply):
            return UnavailableError(self.who, f"replied as epoch {reply.epoch}, which was replaced")
        return replace(reply, matches=StoredRef(self.matches, reply.count)) if reply.matches is None else reply
