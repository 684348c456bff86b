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

WIDTH = 80
LEGEND = (
    "epoch: which start of a process this is; messages of earlier ones are refused.",
    "lease: how long a coordinator may go on until the registry confirms it again.",
    "clauses: what expressions become, joined by or. load: the work for each shard,",
    "which is balanced. blocks: parts of an index, by the engine that matches them;",
    "the tail is compared one by one until it becomes a block. cache hits: of a shard",
    "its cached sets, of a coordinator its cached priorities.",
    "EDOR: event delivery on-time rate.",
)
"""The words that only this project uses, or uses in its own way."""

BROKEN = ("state", "blocks", "fullest mailboxes")


def written(stats: ServerStats) -> str:
    """Returns the statistics as plain text, independent of the terminal."""
    console = Console(file=StringIO(), width=WIDTH, force_terminal=False, color_system=None, highlight=False)
    with console.capture() as capture:
        console.print(rendered(stats), crop=False)
    return "\n".join(line.rstrip() for line in capture.get().splitlines())


def rendered(stats: ServerStats) -> Group:
    """Returns the statistics for any console of rich. Tables fit 80 columns; names, paths and URLs are never broken."""
    return Group(*_parts(stats))


def _parts(stats: ServerStats) -> Iterator[RenderableType]:
    kept = f"data in {stats.data_dir}" if stats.data_dir else "in memory only"
    yield _unbroken(f"server {stats.name!r} at {stats.address}, {kept}", "bold")
    for who, why in stats.unavailable.items():
        yield Text(f"no answer from {who}: {why}", style="bold red")
    if stats.registry:
        yield Text(_registry(stats.registry))
    if stats.metrics:
        yield _unbroken(f"metrics for Prometheus: {', '.join(stats.metrics)}")
    else:
        yield Text(f"metrics for Prometheus: {EXPORTER_MISSING}")
    for table in (_processes(stats), _holdings(stats), _work(stats), _coordinators(stats), _troubles(stats)):
        yield Text()
        yield table
    if stats.mailboxes is not None:
        yield Text()
        yield from _mailboxes(stats.mailboxes)
    if stats.ranking is not None and stats.ranking.subscriptions:
        yield Text()
        yield from _ranking(stats.ranking)
    yield Text()
    yield Text("\n".join(LEGEND), style="dim")


def _unbroken(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _registry(registry: dict[str, Any]) -> str:
    size = f", {_bytes(registry['bytes'])} on disk" if registry.get("bytes") is not None else ""
    settled = "" if registry["settled"] else "; still settling what a crash or a move has left"
    return (
        f"{counted(registry['subscriptions'], 'subscription')}, {counted(registry['subscribers'], 'subscriber')} known, "
        f"{counted(registry['rules'], 'rule')},\n"
        f"version {registry['version']:,}{size}{settled}{_routes(registry['routes'])}"
    )


def _routes(routes: dict[str, Any]) -> str:
    """Returns how many shards an event visits, and what was done about it, once that is known."""
    if routes["fan_out"] is None:
        return ""
    changed = (
        f"; other attributes for {counted(round(routes['changed_for']), 'event')}" if routes["changed_for"] else ""
    )
    rerouted = f", {counted(routes['rerouted'], 'subscription')} rerouted" if routes["looks"] else ""
    return f"\nan event visits {routes['fan_out']:.2f} shards{changed}{rerouted}"


def _processes(stats: ServerStats) -> Table:
    table = _table("process", "state", "pid", "epoch", "lease", "memory", "p50", "p99")
    if stats.registry:
        table.add_row("registry", "", *_process(stats.registry), "", "")
    for shard in stats.shards:
        known = "index" in shard
        style = "" if shard["state"] == "serving" else "bold yellow" if known else "bold red"
        more = [*_process(shard), *_quantiles(shard)] if known else [""] * 6
        table.add_row(f"shard {shard['number']}", Text(_state(shard), style=style), *more)
    for coordinator in stats.coordinators:
        name = f"coordinator {coordinator['number']}"
        if "pid" not in coordinator:
            table.add_row(name, Text("away", style="bold red"), *[""] * 6)
            continue
        state = Text("serving") if coordinator["lease_left"] > 0 else Text("without lease", style="bold yellow")
        table.add_row(name, state, *_process(coordinator), *_quantiles(coordinator))
    return table


def _process(process: dict[str, Any]) -> list[str]:
    epoch = str(process["epoch"]) if "epoch" in process else ""
    lease = f"{process['lease_left']:.1f} s" if "lease_left" in process else ""
    return [str(process["pid"]), epoch, lease, _bytes(process["memory_bytes"])]


def _holdings(stats: ServerStats) -> Table:
    table = _table("shard", "subscriptions", "clauses", "index", "load", "blocks")
    loads = stats.registry.get("loads")
    for shard in stats.shards:
        if "index" not in shard:
            continue
        index, number = shard["index"], shard["number"]
        blocks = [f"{count} {engine}" for engine, count in index.blocks_by_engine().items()]
        table.add_row(
            str(number),
            f"{shard['subscriptions']:,}",
            f"{shard['clauses']:,}",
            _bytes(shard["index_bytes"]),
            _count(round(loads[number])) if loads else "",
            ", ".join([*blocks, *([f"tail of {index.tail:,}"] if index.tail else [])]),
        )
    return table


def _work(stats: ServerStats) -> Table:
    table = _table("shard", "events/s", "events", "matches", "batches", "cache hits")
    for shard in stats.shards:
        if "index" in shard:
            bit_sets, vectors = shard["index"].cache, shard["index"].vectors
            cache = vectors if vectors is not None and vectors.events else bit_sets
            table.add_row(
                str(shard["number"]),
                f"{shard['events_per_second']:,.0f}",
                *[_count(shard[name]) for name in ("events", "matches", "batches")],
                _share(cache.hit_rate) if cache is not None else "-",
            )
    return table


def _state(shard: dict[str, Any]) -> str:
    return f"behind by {shard['behind']:,}" if shard["state"] == "behind" else str(shard["state"])


def _coordinators(stats: ServerStats) -> Table:
    table = _table("coordinator", "events/s", "events", "matches", "in flight", "waiting", "cache hits")
    for coordinator in stats.coordinators:
        if "pid" in coordinator:
            cache = coordinator["priorities"].cache
            table.add_row(
                str(coordinator["number"]),
                f"{coordinator['events_per_second']:,.0f}",
                *[_count(coordinator[name]) for name in ("events", "matches", "in_flight", "waiting")],
                _share(cache.hit_rate) if cache.lookups else "-",
            )
    return table


def _troubles(stats: ServerStats) -> Table:
    table = _table("coordinator", "bad events", "retries", "refused", "failed")
    for coordinator in stats.coordinators:
        if "pid" in coordinator:
            table.add_row(
                str(coordinator["number"]),
                _count(coordinator["bad_events"]),
                _count(coordinator["retries"]),
                _refused(coordinator),
                _count(coordinator["failed"]),
            )
    return table


def _refused(coordinator: dict[str, Any]) -> str:
    """Returns the number of refused batches, and of which levels they were, the highest first."""
    levels = [
        f"{level} {_count(count)}"
        for level, count in reversed(coordinator.get("refused_by_level", {}).items())
        if count
    ]
    return _count(coordinator["refused"]) + (f" ({', '.join(levels)})" if levels else "")


def _mailboxes(summary: MailboxSummary) -> Iterator[RenderableType]:
    oldest = "" if summary.oldest_wait is None else f", the oldest for {summary.oldest_wait:,.1f} s"
    yield Text(
        f"{counted(summary.mailboxes, 'mailbox', 'mailboxes')}: {summary.waiting:,} waiting{oldest}; "
        f"{summary.in_flight:,} in flight, {summary.dead:,} dead;\n"
        f"of {summary.delivered:,} delivered {summary.acked:,} acknowledged"
    )
    rates = ", ".join(
        f"{level} {_share(rate)}" for level, rate in reversed(summary.on_time.items()) if rate is not None
    )
    if rates:
        yield Text(f"handed out on time (EDOR; without a deadline all are):\n{rates}")
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
        left = name in ("process", "state", "shard", "coordinator", "blocks", "fullest mailboxes")
        # Only texts may need a second line; a number that is broken would be read as two.
        table.add_column(name, justify="left" if left else "right", overflow="fold", no_wrap=name not in BROKEN)
    return table


def _count(count: int) -> str:
    """Returns a count in nine characters at most."""
    if count < 10_000_000:
        return f"{count:,}"
    return f"{count / 1e6:,.0f} M" if count < 1e12 else f"{count / 1e12:,.1f} T"


def _quantiles(process: dict[str, Any]) -> list[str]:
    return [_time(process["latencies"][name]) for name in ("p50", "p99")]


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _share(part: float | None) -> str:
    return "-" if part is None else f"{part:.1%}"


def _bytes(count: int) -> str:
    return f"{count / 2**20:,.0f} MB" if count >= 2**20 else f"{count / 2**10:,.0f} kB"
