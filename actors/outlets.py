"""How the registry reaches shards and coordinators: by their handles, without waiting for a shard, and never for ever."""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import suppress
from typing import Any

import ray

from actors.calls import Deadline, answer, answers, retried
from actors.coordinator_leases import BARRIER_LEASES
from actors.links import Links
from actors.messages import Note, ShardPush
from actors.registry_columns import ShardColumns
from ray_pubsub.errors import UnavailableError

__all__ = ["RayOutlets"]

logger = logging.getLogger(__name__)

MOST_UNDER_WAY = 64
"""Calls to a shard that were not answered; the next waits. A shard that lost some asks for them."""
PUSH_PATIENCE = 5.0
SHARD_PATIENCE = 20.0
"""Seconds for which a shard is waited for while no change is made. Enough for a large one to restart and load."""


class RayOutlets:
    """Used by the thread that makes changes."""

    def __init__(self, links: Links, patience: float, timeout: float) -> None:
        """`patience`: seconds for which a coordinator is waited for; `timeout`: a shard, while changes go on."""
        self._links = links
        self._patience, self._timeout = patience, timeout
        self._under_way: defaultdict[int, list[Any]] = defaultdict(list)

    def push(self, shard: int, push: ShardPush) -> None:
        self._send(shard, "apply", push)

    def catch_up(self, shard: int, lineage: str, version: int) -> None:
        self._send(shard, "catch_up", lineage, version)

    def tell(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
        calls, asked = [], []
        for coordinator in coordinators:
            try:
                calls.append(self._links.coordinator(coordinator).take_note.remote(note))
                asked.append(coordinator)
            except UnavailableError:
                pass
        patience = self._patience * (BARRIER_LEASES if note.news.barrier else 1)
        confirmed = dict.fromkeys(coordinators, False)
        found = answers(calls, [f"coordinator {coordinator}" for coordinator in asked], patience)
        for coordinator, reply in zip(asked, found, strict=True):
            if isinstance(reply, Exception):
                logger.warning("coordinator %d did not take note %d: %s", coordinator, note.serial, reply)
            confirmed[coordinator] = reply is True
        return confirmed

    def take_over(self, shard: int, columns: ShardColumns) -> None:
        self._ask(shard, SHARD_PATIENCE, "take_over", columns)

    def let_go(self, shard: int, lineage: str, version: int) -> int:
        return int(self._ask(shard, self._timeout, "let_go", lineage, version))

    def bring_up(self, shard: int, lineage: str, version: int) -> int:
        return int(self._ask(shard, SHARD_PATIENCE, "catch_up", lineage, version))

    def _ask(self, shard: int, timeout: float, method: str, *arguments: Any) -> Any:
        """Asked again while the shard restarts and loads: what it is told here it may be told twice."""

        def call(left: float) -> Any:
            return answer(getattr(self._links.shard(shard), method).remote(*arguments), f"shard {shard}", left)

        return retried(call, Deadline(timeout))

    def _send(self, shard: int, method: str, *arguments: Any) -> None:
        under_way = self._under_way[shard]
        if len(under_way) >= MOST_UNDER_WAY:
            done, rest = ray.wait(under_way, num_returns=len(under_way) // 2, timeout=PUSH_PATIENCE)
            # If none is done the shard hangs or is away. It will ask for what it lacks before it answers anything that needs it.
            self._under_way[shard] = under_way = rest if done else []
        with suppress(UnavailableError):  # it is not there yet, and will load all there is when it comes
            under_way.append(getattr(self._links.shard(shard), method).remote(*arguments))
