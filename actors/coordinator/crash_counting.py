"""Decides which failures of a shard are crashes of a process that had the request.

While a process is being restarted, or its node is lost, every call fails as if the process had just crashed. If each of these failures
counted, a batch would be suspected of crashing shards that it has never reached. So after a crash a shard is asked again only when it is
known to be back, and a crash counts once for each instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from actors.coordinator.shard_fanout import Ask, ShardQuery
from actors.transport.matching import ShardReply
from ray_pubsub.errors import UnavailableError

__all__ = ["Alive", "counting_crashes_once"]

Alive = Callable[[int, float], int | None]
"""Returns the epoch of a shard's instance if it answers within this number of seconds and has loaded, otherwise None."""


def counting_crashes_once(ask: Ask, alive: Alive) -> Ask:
    """Wraps `ask` for one batch, so that an error has `died` set only for the crash of an instance that had the request."""
    crashed: dict[int, int | None] = {}
    """The shards that have crashed, with the last instance whose crash was counted."""

    def asked(queries: Sequence[ShardQuery], timeout: float) -> list[ShardReply | Exception]:
        epochs = {query.shard: alive(query.shard, timeout) for query in queries if query.shard in crashed}
        there = [query for query in queries if epochs.get(query.shard, 0) is not None]
        replies = iter(ask(there, timeout)) if there else iter(())
        found: list[ShardReply | Exception] = []
        for query in queries:
            shard = query.shard
            epoch = epochs.get(shard, 0)
            if epoch is None:
                found.append(UnavailableError(f"shard {shard}", "has crashed, and is not back yet"))
                continue
            reply = next(replies)
            if isinstance(reply, UnavailableError) and reply.died:
                if crashed.get(shard) == epoch:
                    reply = UnavailableError(reply.who, reply.reason)
                crashed[shard] = epoch
            found.append(reply)
        return found

    return asked
