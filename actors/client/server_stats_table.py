"""A server's statistics as tables for people."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from actors.client.server_stats import ServerStats
from actors.cluster.metrics_endpoints import EXPORTER_MISSING
from actors.mailboxes.summary import MailboxSummary
from actors.shard.match_ranking import Ranked, Ranking
from ray_pubsub.errors import counted

__all__ = ["rendered", "written"]

WIDTH = 140


def written(stats: ServerStats) -> str:
    """Returns the statistics as plain text, independent of the terminal."""
    console = Console(file=StringIO(), width=WIDTH, force_terminal=False, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(rendered(stats))
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def rendered(stats: ServerStats) -> Group:
    """Returns the statistics for any console of rich."""
    return Group(*_parts(stats))


def _parts(stats: ServerStats) -> Iterator[RenderableType]:
    kept = f"data in {stats.data_dir}" if stats.data_dir else "in memory only"
    yield Text(f"server {stats.name!r} at {stats.address}, {kept}", style="bold")
    for who, why in stats.unavailable.items():
        yield Text(f"no answer from {who}: {why}", style="bold red")
    if stats.registry:
        yield Text(_registry(stats.registry))
    yield Text(f"metrics for Prometheus: {', '.join(stats.metrics) or EXPORTER_MISSING}")
    yield Text()
    yield _holdings(stats)
    yield Text()
    yield _work(stats)
    yield Text()
    yield _coordinators(stats)
    if stats.mailboxes is not None:
        yield Text()
        yield from _mailboxes(stats.mailboxes)
    if stats.ranking is not None and stats.ranking.subscriptions:
        yield Text()
        yield from _ranking(stats.ranking)


def _registry(told: dict[str, Any]) -> str:
    size = f", {_bytes(told['bytes'])} on disk" if told.get("bytes") is not None else ""
    settled = "" if told["settled"] else "; still settling what a crash or a move has left"
    return (
        f"{counted(told['subscriptions'], 'subscription')}, {counted(told['subscribers'], 'subscriber')} known, "
        f"{counted(told['rules'], 'rule')}, "
        f"version {told['version']:,}{size}; registry epoch {told['epoch']}, pid {told['pid']}, {_bytes(told['memory_bytes'])}{settled}"
    )


def _holdings(stats: ServerStats) -> Table:
    table = _table("shard", "state", "pid", "epoch", "subscriptions", "clauses", "index", "process", "load", "blocks")
    loads = stats.registry.get("loads")
    for told in stats.shards:
        number = told["number"]
        if "index" not in told:
            table.add_row(str(number), Text(told["state"], style="bold red"), *[""] * 8)
            continue
        index = told["index"]
        blocks = [f"{count} {engine}" for engine, count in index.blocks_by_engine().items()]
        table.add_row(
            str(number),
            Text(_state(told), style="" if told["state"] == "serving" else "bold yellow"),
            str(told["pid"]),
            str(told["epoch"]),
            f"{told['subscriptions']:,}",
            f"{told['clauses']:,}",
            _bytes(told["index_bytes"]),
            _bytes(told["memory_bytes"]),
            f"{loads[number]:,.0f}" if loads else "",
            ", ".join([*blocks, *([f"tail of {index.tail:,}"] if index.tail else [])]),
        )
    return table


def _work(stats: ServerStats) -> Table:
    table = _table("shard", "events/s", "events", "matches", "batches", "p50", "p99", "cache hits")
    for told in stats.shards:
        if "index" in told:
            bit_sets, vectors = told["index"].cache, told["index"].vectors
            cache = vectors if vectors is not None and vectors.events else bit_sets
            table.add_row(
                str(told["number"]),
                f"{told['events_per_second']:,.0f}",
                *[f"{told[name]:,}" for name in ("events", "matches", "batches")],
                *_quantiles(told),
                _share(cache.hit_rate) if cache is not None else "-",
            )
    return table


def _state(told: dict[str, Any]) -> str:
    return f"behind by {told['behind']:,}" if told["state"] == "behind" else str(told["state"])


def _coordinators(stats: ServerStats) -> Table:
    table = _table(
        "coordinator", "pid", "events/s", "events", "bad", "matches", "retries", "refused", "failed", "in flight", "p50", "p99",
        "lease", "priority cache",
    )  # fmt: skip
    for told in stats.coordinators:
        if "pid" not in told:
            table.add_row(str(told["number"]), Text("away", style="bold red"), *[""] * 12)
            continue
        counts = [f"{told[name]:,}" for name in ("events", "bad_events", "matches", "retries", "refused", "failed")]
        cache = told["priorities"].cache
        table.add_row(
            str(told["number"]),
            str(told["pid"]),
            f"{told['events_per_second']:,.0f}",
            *counts,
            f"{told['in_flight']:,}" + (f", {told['waiting']:,} wait" if told["waiting"] else ""),
            *_quantiles(told),
            f"{told['lease_left']:.1f} s",
            _share(cache.hit_rate) if cache.lookups else "-",
        )
    return table


def _mailboxes(summary: MailboxSummary) -> Iterator[RenderableType]:
    oldest = "" if summary.oldest_wait is None else f", the oldest for {summary.oldest_wait:,.1f} s"
    yield Text(
        f"{counted(summary.mailboxes, 'mailbox', 'mailboxes')}: {summary.waiting:,} waiting{oldest}; {summary.in_flight:,} in flight, "
        f"{summary.dead:,} dead; of {summary.delivered:,} delivered {summary.acked:,} acknowledged"
    )
    rates = ", ".join(
        f"{level} {_share(rate)}" for level, rate in reversed(summary.on_time.items()) if rate is not None
    )
    if rates:
        yield Text(f"handed out on time, of all that were due: {rates} (EDOR; without a deadline all are on time)")
    if summary.fullest:
        table = _table("fullest mailboxes", "waiting", "in flight", "dead", "oldest")
        for box in summary.fullest:
            oldest = "" if box.oldest_wait is None else f"{box.oldest_wait:,.1f} s"
            table.add_row(Text(str(box.subscriber)), f"{box.waiting:,}", f"{box.in_flight:,}", f"{box.dead:,}", oldest)
        yield table


def _ranking(ranking: Ranking) -> Iterator[RenderableType]:
    if ranking.hot:
        yield Text(f"match most: {', '.join(_ranked(each, True) for each in ranking.hot)}")
    share = _share(ranking.dead_count / ranking.subscriptions)
    shown = f", the oldest: {', '.join(_ranked(each, False) for each in ranking.dead)}" if ranking.dead else ""
    yield Text(f"never matched since their shard was started: {ranking.dead_count:,} ({share}){shown}")


def _ranked(each: Ranked, counted: bool) -> str:
    whose = "" if each.subscriber is None else f" of {each.subscriber}"
    return f"{each.id}{whose}" + (f" ({each.matches:,})" if counted else "")


def _table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for name in columns:
        left = name in ("shard", "state", "coordinator", "blocks", "fullest mailboxes")
        table.add_column(name, justify="left" if left else "right", overflow="fold")
    return table


def _quantiles(told: dict[str, Any]) -> list[str]:
    return [_time(told["latencies"][name]) for name in ("p50", "p99")]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def _bytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
