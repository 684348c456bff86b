"""The demo's output fits 80 columns, without a line that wraps. An index of this process stands in for the server."""

from __future__ import annotations

import os
import re
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

import ray_pubsub
from actors.command.demo.run import LEVELS, NEXT, DemoSize, from_here, run_demo
from actors.command.demo.view import View

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")
WIDE = 200
"""Where a line has this much room it shows its whole length, which at 80 columns decides whether it wraps."""


class Server:
    """Matches, and hands out every match to one shopper."""

    address = "172.16.100.200:54321"
    shards = (0, 1)

    def __init__(self) -> None:
        self.index = ray_pubsub.MatchIndex()
        self.waiting: list[Any] = []

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None: ...

    def subscribe_many(self, table: Any, progress: bool) -> Any:
        return self.index.add_table(table)

    def prioritize(self, *_: object) -> None: ...

    def publish(self, events: list[Any], event_id: str | None = None, deliver: bool = True, **_: object) -> Any:
        print("a page about a worker that died", file=sys.stderr)  # as Ray does
        found = self.index.match_many(events, event_id="id")
        pairs = list(found.pairs())
        if deliver:
            self.waiting += [
                SimpleNamespace(event_id=event, subscription_id=id, priority="critical") for event, id in pairs
            ]
        return SimpleNamespace(pairs=lambda: pairs, deliveries=SimpleNamespace(delivered=len(pairs)))

    def poll(self, shopper: str, limit: int) -> list[Any]:
        found, self.waiting = (self.waiting, []) if shopper == "shopper-0" else ([], self.waiting)
        return found

    def ack(self, deliveries: list[Any]) -> None: ...

    def stats(self, hot: int) -> Any:
        return SimpleNamespace(shards=[{"pid": 4_194_304, "subscriptions": 50_000}])


@pytest.mark.parametrize("terminal", [False, True])
def test_no_line_of_the_demo_is_longer_than_80(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], terminal: bool
) -> None:
    killed = []
    monkeypatch.setattr(ray_pubsub, "start", lambda *_, **__: Server())
    monkeypatch.setattr(ray_pubsub, "MatchIndex", partial(ray_pubsub.MatchIndex, "scan"))  # needs no kernels
    monkeypatch.setattr(os, "kill", lambda pid, number: killed.append(pid))
    console = Console(width=WIDE, force_terminal=terminal, highlight=False)
    assert run_demo(DemoSize(subscriptions=300, events=150), View(LEVELS, console)) is True
    shown = [CODES.sub("", line).rstrip() for line in capsys.readouterr().out.splitlines()]
    assert killed == [4_194_304]
    assert [line for line in shown if "worker that died" in line] == []
    assert [line for line in shown if len(line) > 80] == []
    for words in ("a server runs at", "nothing was lost", "what you saw", "try next", "compiling kernels"):
        assert any(words in line for line in shown), words
    assert any("● coordinator" in line for line in shown) is terminal


@pytest.mark.parametrize("on_the_path", [True, False])
def test_what_to_try_next_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_the_path: bool) -> None:
    """`make demo` runs in .venv, which its terminal does not know."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv" / "bin" / "python"))
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if on_the_path else None)
    before = "" if on_the_path else ".venv/bin/"
    for command, purpose in NEXT.items():
        assert from_here(command) == before + command
        assert len(f"  {from_here(command):<32}{purpose}") <= 80


@pytest.mark.parametrize("shards", [1, 2, 3, 4, 64])
@pytest.mark.parametrize("dead", [None, 0])
def test_the_picture_fits_with_large_numbers_too(shards: int, dead: int | None) -> None:
    account: Any = SimpleNamespace(
        published=1_000_000, matched=98_765_432, polled=98_765_432, by_priority=dict.fromkeys(LEVELS, 12_345_678)
    )

    def lines(width: int) -> list[str]:
        console = Console(width=width, force_terminal=True, highlight=False)
        view = View(LEVELS, console)
        view.processes(
            {"registry": True, **{f"shard {each}": each != dead for each in range(shards)}, "coordinator": True}
        )
        view.event("kill -9 4194304: shard 0 is gone, with 500,000 of the wish lists", "bold red")
        with console.capture() as capture:
            console.print(view.picture(account, 1_000_000))
        return [CODES.sub("", line).rstrip() for line in capture.get().splitlines()]

    assert lines(80) == lines(WIDE)
    assert any("processes" in line and "coordinator" in line for line in lines(80))
