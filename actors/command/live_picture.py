"""The picture of a server that `ray-pubsub top` draws: 80 columns, every figure beside its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from actors.client.server_stats import ServerStats
from ray_pubsub.errors import counted

__all__ = ["picture"]

BAR = 24
NAME = 18


def picture(stats: ServerStats) -> Group:
    return Group(*_parts(stats))


def _parts(stats: ServerStats) -> Iterator[RenderableType]:
    registry = stats.registry
    held = (
        f"{counted(registry['subscriptions'], 'subscription')} of {counted(registry['subscribers'], 'subscriber')}"
        if registry
        else ""
    )
    yield Text(
        f"{stats.name}  {stats.address}  {stats.events_per_second:,.0f} events/s  {held}",
        style="bold",
        no_wrap=True,
        overflow="ellipsis",
    )
    for who, why in stats.unavailable.items():
        yield Text(f"no answer from {who}: {why}", style="bold red", no_wrap=True, overflow="ellipsis")
    yield Text()
    yield _processes(stats)
    pivots = _hot_pivots(stats)
    if pivots:
        yield Text()
        yield Text("attributes that most events carry (hot pivots)", style="dim")
        yield _bars([(name, share, f"{share:.0%}") for name, share in pivots])
    if stats.mailboxes is not None:
        yield Text()
        yield from _queues(stats.mailboxes)


def _processes(stats: ServerStats) -> Table:
    table = _table("process", "state", "events/s", "matches", "p50", "p99", "memory")
    for shard in stats.shards:
        table.add_row(
            f"shard {shard['number']}",
            Text(shard["state"], style="" if shard["state"] == "serving" else "bold yellow"),
            *_work(shard),
        )
    for each in stats.coordinators:
        away = "pid" not in each
        state = "away" if away else f"{each['in_flight']} in flight"
        table.add_row(f"coordinator {each['number']}", Text(state, style="bold red" if away else ""), *_work(each))
    return table


def _work(process: dict[str, Any]) -> list[str]:
    if "latencies" not in process:
        return [""] * 5
    return [
        f"{process['events_per_second']:,.0f}",
        f"{process['matches']:,}",
        *[_time(process["latencies"][name]) for name in ("p50", "p99")],
        f"{process['memory_bytes'] / 2**20:,.0f} MB",
    ]


def _hot_pivots(stats: ServerStats) -> list[tuple[str, float]]:
    found: dict[str, float] = {}
    for each in stats.coordinators:
        for name, share in each.get("hot_pivots", ()):
            found[name] = max(share, found.get(name, 0.0))
    return sorted(found.items(), key=lambda pair: -pair[1])[:5]


def _queues(summary: Any) -> Iterator[RenderableType]:
    oldest = "" if summary.oldest_wait is None else f", the oldest for {summary.oldest_wait:,.0f} s"
    yield Text(
        f"deliveries: {summary.waiting:,} waiting{oldest}; {summary.in_flight:,} polled and not settled; {summary.dead:,} dead",
        style="dim",
    )
    most = max([level.waiting for level in summary.levels] + [1])
    rows = [
        (
            level.level,
            level.waiting / most,
            f"{level.waiting:,} waiting, on time {'-' if level.edor is None else f'{level.edor:.1%}'}",
        )
        for level in reversed(summary.levels)
    ]
    yield _bars(rows)


def _bars(rows: list[tuple[str, float, str]]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
    for name, part, text in rows:
        shown = name if len(name) <= NAME else f"{name[: NAME - 1]}…"
        table.add_row(Text(shown.ljust(NAME)), Text("█" * round(BAR * part) or "·", style="green"), Text(text))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in columns:
        table.add_column(name, justify="left" if name in ("process", "state") else "right", no_wrap=True)
    return table


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
