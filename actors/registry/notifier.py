"""Calls shards and coordinators for the registry: by their handles, without waiting for a shard, and always with a deadline."""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from typing import Any

import ray

from actors.registry.columns import ShardColumns
from actors.transport.actor_handles import ActorHandles
from actors.transport.calls import Deadline, answer, answers, retried
from actors.transport.messages import BARRIER_LEASES, Note, ShardPush
from ray_pubsub.errors import UnavailableError

__all__ = ["RayNotifier"]

logger = logging.getLogger(__name__)

MOST_UNANSWERED = 64
"""The most unanswered calls to a shard; beyond that the next call waits. A shard that lost some calls requests what they contained."""
PUSH_PATIENCE = 5.0
SHARD_PATIENCE = 20.0
"""The seconds to wait for a shard while no change can be made: enough for a large shard to restart and load."""


class RayNotifier:
    """Reaches the other actors through Ray. Used by the thread that makes changes."""

    def __init__(self, handles: ActorHandles, lease: float, timeout: float) -> None:
        """`lease` is the seconds to wait for a coordinator; `timeout` those for a shard, in calls during which changes go on."""
        self._handles = handles
        self._lease, self._timeout = lease, timeout
        self._unanswered: defaultdict[int, list[Any]] = defaultdict(list)

    def push(self, shard: int, push: ShardPush) -> None:
        self._send(shard, "apply", push)

    def catch_up(self, shard: int, lineage: str, version: int) -> None:
        self._send(shard, "catch_up", lineage, version)

    def notify(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
        calls, asked = [], []
        for coordinator in coordinators:
            with suppress(UnavailableError):
                calls.append(self._handles.coordinator(coordinator).take_note.remote(note))
                asked.append(coordinator)
        confirmed = dict.fromkeys(coordinators, False)
        timeout = self._lease * (BARRIER_LEASES if note.news.barrier else 1)
        replies = answers(calls, [f"coordinator {coordinator}" for coordinator in asked], timeout)
        for coordinator, reply in zip(asked, replies, strict=True):
            if isinstance(reply, Exception):
                logger.warning("coordinator %d did not confirm note %d: %s", coordinator, note.serial, reply)
            confirmed[coordinator] = reply is True
        return confirmed

    def take_over(self, shard: int, columns: ShardColumns) -> None:
        self._ask(shard, SHARD_PATIENCE, "take_over", columns)

    def let_go(self, shard: int, lineage: str, version: int) -> int:
        return int(self._ask(shard, self._timeout, "let_go", lineage, version))

    def bring_up(self, shard: int, lineage: str, version: int) -> int:
        return int(self._ask(shard, SHARD_PATIENCE, "catch_up", lineage, version))

    def _ask(self, shard: int, timeout: float, method: str, *arguments: Any) -> Any:
        """Calls a shard, again while it restarts and loads. Each of these calls is idempotent."""

        def call(left: float) -> Any:
            return answer(getattr(self._handles.shard(shard), method).remote(*arguments), f"shard {shard}", left)

        return retried(call, Deadline(timeout))

    def _send(self, shard: int, method: str, *arguments: Any) -> None:
        unanswered = self._unanswered[shard]
        if len(unanswered) >= MOST_UNANSWERED:
            done, rest = ray.wait(unanswered, num_returns=len(unanswered) // 2, timeout=PUSH_PATIENCE)
            # If no call is done, the shard hangs or is away. It requests what it lacks before it answers anything that needs it.
            self._unanswered[shard] = unanswered = rest if done else []
        with suppress(UnavailableError):  # the shard is not started yet, and loads everything when it starts
            unanswered.append(getattr(self._handles.shard(shard), method).remote(*arguments))
