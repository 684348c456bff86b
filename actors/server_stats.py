"""All processes of a server in numbers, and as tables that people read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from actors.calls import answers

if TYPE_CHECKING:
    from actors.server import Server

__all__ = ["ServerStats", "collect_stats"]

PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class ServerStats:
    registry: dict[str, Any]
    shards: list[dict[str, Any]]
    coordinators: list[dict[str, Any]]
    mailboxes: list[Any]
    unavailable: list[str] = field(default_factory=list)


def collect_stats(server: Server) -> ServerStats:
    calls = [
        ("registry", server.registry.stats.remote()),
        *((f"shard {number}", shard.stats.remote()) for number, shard in enumerate(server.shards)),
        *((f"coordinator {number}", each.stats.remote()) for number, each in enumerate(server.coordinators)),
        ("mailboxes", server.mailboxes.mailbox_stats.remote()),
    ]
    found = answers([call for _, call in calls], [who for who, _ in calls], PATIENCE)
    missing = [who for (who, _), reply in zip(calls, found, strict=True) if isinstance(reply, Exception)]
    good: list[Any] = [{} if isinstance(reply, Exception) else reply for reply in found]
    shards = len(server.shards)
    return ServerStats(good[0], good[1 : 1 + shards], good[1 + shards : -1], good[-1] or [], missing)
