"""`ray-pubsub status` and `print(server.stats())`: 80 columns are enough, also for large numbers, and odd words are explained."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from actors.client.server_stats import ServerStats
from actors.client.server_stats_table import LEGEND, written
from actors.command.terminal import Terminal
from actors.mailboxes.queue.on_time import LevelRate
from actors.mailboxes.stats import MailboxStats
from actors.mailboxes.summary import MailboxSummary
from actors.shard.match_ranking import Ranked, Ranking

LATENCIES = {"p50": 0.0123, "p99": 0.4567}


def stats_of(size: int, state: str = "serving", data_dir: str | None = "/var/lib/pubsub") -> ServerStats:
    """A server whose counts are about `size`."""
    cache = SimpleNamespace(hit_rate=0.987, lookups=size)
    index = SimpleNamespace(
        blocks_by_engine=lambda: {"pivot": 12, "dense": 3}, tail=min(size, 9_999), cache=None, vectors=None
    )
    registry = {
        "subscriptions": size, "subscribers": size, "rules": size, "version": size, "bytes": 40 * size, "epoch": 17, "pid": 4_194_304,
        "memory_bytes": 10 * size, "settled": True, "loads": [1.5 * size] * 2,
        "routes": {"fan_out": 1.23 if size else None, "changed_for": 9.5 * size, "looks": size, "rerouted": size},
    }  # fmt: skip
    shard = {
        "number": 0, "state": state, "behind": size, "pid": 4_194_304, "epoch": 3, "subscriptions": size, "clauses": size,
        "index": index, "index_bytes": 100 * size, "memory_bytes": 150 * size, "events_per_second": 123_456.0, "events": 999 * size,
        "matches": 99_999 * size, "batches": size, "latencies": LATENCIES,
    }  # fmt: skip
    coordinator = {
        "number": 0, "pid": 4_194_304, "epoch": 5, "lease_left": 1.8, "events_per_second": 123_456.0, "events": 999 * size,
        "matches": 99_999 * size, "bad_events": 12, "retries": 3, "refused": 0, "failed": 0, "in_flight": 64, "waiting": 12,
        "latencies": LATENCIES, "memory_bytes": 15 * size, "priorities": SimpleNamespace(cache=cache),
    }  # fmt: skip
    levels = tuple(
        LevelRate(name, on_time=size, late=1, expired=0, dropped=0, waiting=5, overdue=0)
        for name in ("low", "normal", "high", "critical")
    )
    counts = dict.fromkeys((*MailboxSummary.__dataclass_fields__,), size)
    box: Any = SimpleNamespace(
        subscriber="a-team-of-traders-with-a-name", waiting=size, in_flight=5, dead=1, oldest_wait=1.5
    )
    mailboxes = MailboxSummary(**{**counts, "oldest_wait": 1234.5, "levels": levels, "fullest": (box,)})  # type: ignore[arg-type]
    hot = tuple(Ranked(f"subscription-{each}", "desk-7", size) for each in range(5))
    return ServerStats(
        "default", "172.16.100.200:54321", data_dir, registry, [shard, {"number": 1, "state": "away"}],
        [coordinator, {"number": 1}], mailboxes, Ranking(hot, hot, size // 2, size),
        {"shard 1": "it is being started again"}, ["http://172.16.100.200:54322"],
    )  # fmt: skip


@pytest.mark.parametrize("state", ["serving", "behind", "loading"])
@pytest.mark.parametrize("size", [0, 1_000, 100_000_000])
def test_80_columns_are_enough(size: int, state: str) -> None:
    lines = written(stats_of(size, state)).splitlines()
    assert [line for line in lines if len(line) > 80] == []
    # Nothing is broken into two lines that would be read as something else.
    text = "\n".join(lines)
    shown = (
        "coordinator 0",
        "4194304",
        "123,456",
        "12.3 ms",
        "456.7 ms",
        "1.8 s",
        "in flight",
        "bad events",
        "cache hits",
        "refused",
    )
    assert [part for part in shown if part not in text] == []


def test_paths_are_not_broken_and_other_widths_are_used() -> None:
    long = "/srv/" + "a-long-name/" * 8
    assert long in written(stats_of(1000, data_dir=long))
    console = Console(width=120, force_terminal=True)
    with console.capture() as capture:
        console.print(stats_of(1000))
    assert "fullest mailboxes" in capture.get()


def test_the_command_does_not_leave_wrapping_to_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    Terminal(False).result({}, stats_of(100_000_000))
    shown = capsys.readouterr().out.splitlines()
    assert [line for line in shown if len(line.rstrip()) > 80] == []


def test_words_are_explained() -> None:
    shown = written(stats_of(1000))
    assert max(map(len, LEGEND)) <= 80
    for word in ("epoch", "lease", "clauses", "blocks", "tail", "load", "cache hits", "EDOR"):
        assert word in " ".join(LEGEND) and shown.count(word) >= 2, word


def test_a_mailbox_has_the_fields_that_are_shown() -> None:
    """The samples above are not of the real class, which has many more."""
    assert {"subscriber", "waiting", "in_flight", "dead", "oldest_wait"} <= set(MailboxStats.__dataclass_fields__)
