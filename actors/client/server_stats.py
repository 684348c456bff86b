"""The statistics of all processes of a server. All processes are asked at once and their answers are kept as they are; what shows only
in comparison (which shard is behind, which subscriptions match most) is added here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from actors.cluster.metrics_endpoints import metrics_urls
from actors.mailboxes.summary import MailboxSummary
from actors.shard.match_ranking import Ranked, Ranking, merge_rankings
from actors.transport.calls import Deadline, answer, answers
from ray_pubsub.errors import RayPubSubError, UnavailableError
from ray_pubsub.model.arguments import check_whole

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["ServerStats", "collect_stats"]

PATIENCE = 10.0
"""The seconds to wait for all processes. A process that restarts is asked again."""
PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class ServerStats:
    """The statistics of a server. Print them to read them; `to_dict()` is ready to be written as JSON."""

    name: str
    address: str
    data_dir: str | None
    registry: dict[str, Any]
    """Empty if the registry did not answer. The following fields are likewise empty or None for processes that did not answer."""
    shards: list[dict[str, Any]]
    """For each shard its `number`, its `state` (serving, loading, behind, replaced, away), and as `behind` the number of versions it
    lacks."""
    coordinators: list[dict[str, Any]]
    mailboxes: MailboxSummary | None
    ranking: Ranking | None
    """The subscriptions that match most, and some that never matched; None if they were not requested."""
    unavailable: dict[str, str] = field(default_factory=dict)
    """The processes that did not answer, with the reason."""
    metrics: list[str] = field(default_factory=list)
    """The URLs at which Prometheus reads the metrics, one for each node; empty if Ray is installed without its exporter."""

    @property
    def events_per_second(self) -> float:
        """The recent rate of published events, over all coordinators."""
        return float(sum(each.get("events_per_second", 0.0) for each in self.coordinators))

    def to_dict(self) -> dict[str, Any]:
        """Returns the statistics as dictionaries, lists, strings and numbers."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def __str__(self) -> str:
        from actors.client.server_stats_table import written

        return written(self)

    def __rich__(self) -> Any:
        """Renders the statistics for rich's consoles, which know their width and colours."""
        from actors.client.server_stats_table import rendered

        return rendered(self)


def collect_stats(server: Server, hot: int = 10) -> ServerStats:
    """Asks all processes of a server for their statistics. `hot` is the number of subscriptions and mailboxes that are listed one by
    one."""
    check_whole("hot", hot, 0, 10_000)
    calls, deadline = dict(_calls(server, hot)), Deadline(PATIENCE)
    found: dict[str, Any] = {}
    while True:
        asked = [who for who in calls if who not in found]
        replies = answers([calls[who]() for who in asked], asked, deadline.left)
        found.update(
            (who, reply) for who, reply in zip(asked, replies, strict=True) if not isinstance(reply, Exception)
        )
        missing = {who: reply for who, reply in zip(asked, replies, strict=True) if isinstance(reply, Exception)}
        restarting = any(isinstance(reply, UnavailableError) and not reply.gone for reply in missing.values())
        if not restarting or deadline.left <= PAUSE:
            break
        time.sleep(PAUSE)
    registry = found.get("registry", {})
    shards = [
        _shard(number, found.get(f"shard {number}"), registry.get("needed")) for number in range(len(server.shards))
    ]
    coordinators = [
        {"number": number, **found.get(f"coordinator {number}", {})} for number in range(len(server.coordinators))
    ]
    ranked = [found[who] for who in found if who.startswith("ranking of")]
    ranking = _named(server, ranked, hot) if hot else None
    return ServerStats(
        server.name,
        server.address,
        server.data_dir,
        registry,
        shards,
        coordinators,
        found.get("mailboxes"),
        ranking,
        {who: str(why) for who, why in missing.items() if not who.startswith("ranking of")},
        metrics_urls(),
    )


def _calls(server: Server, hot: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields the calls to make, with the name of the process. Each call may be made again."""
    yield "registry", server.registry.stats.remote
    yield from ((f"shard {number}", shard.stats.remote) for number, shard in enumerate(server.shards))
    yield from ((f"coordinator {number}", each.stats.remote) for number, each in enumerate(server.coordinators))
    yield "mailboxes", partial(server.mailboxes.mailbox_summary.remote, hot)
    if hot:
        yield from (
            (f"ranking of {number}", partial(shard.ranking.remote, hot)) for number, shard in enumerate(server.shards)
        )


def _shard(number: int, reply: dict[str, Any] | None, needed: Sequence[int] | None) -> dict[str, Any]:
    if reply is None:
        return {"number": number, "state": "away"}
    # The registry may have answered a moment after the shard did. A shard that is really behind still is when asked again.
    behind = 0 if needed is None or reply["version"] < 0 else max(0, needed[number] - reply["version"])
    state = "behind" if behind and reply["state"] == "serving" else reply["state"]
    return {"number": number, **reply, "state": state, "behind": behind}


def _named(server: Server, ranked: Sequence[tuple[str, Ranking]], most: int) -> Ranking:
    """Merges the shards' rankings, with the names of subscribers if the coordinator answers."""
    merged = merge_rankings([ranking for _, ranking in ranked], most)
    codes = sorted({each.subscriber for each in (*merged.hot, *merged.dead)})
    names: dict[int, str] = {}
    if codes:
        try:
            asked = server.coordinator.names_of.remote(ranked[0][0], np.array(codes, np.int32), PATIENCE)
            names = answer(asked, "the coordinator", PATIENCE)
        except RayPubSubError:
            pass  # the coordinator or the registry restarts; the ids are known without it

    def named(each: Ranked) -> Ranked:
        return replace(each, subscriber=names.get(each.subscriber))

    return replace(merged, hot=tuple(map(named, merged.hot)), dead=tuple(map(named, merged.dead)))


def _plain(value: Any) -> Any:
    """Converts a value to dictionaries, lists, strings and numbers."""
    if hasattr(value, "to_dict") and not isinstance(value, ServerStats):
        return _plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        shallow = {name: getattr(value, name) for name in value.__dataclass_fields__}
        return _plain(shallow if isinstance(value, ServerStats) else asdict(value))
    if isinstance(value, dict):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
