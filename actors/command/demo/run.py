"""A server under fire: wish lists are loaded, products published, shoppers poll; then one of its processes is killed, and nothing is lost.

Everything runs on this machine, in a Ray cluster of its own that ends with the demo.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console

import ray_pubsub
from actors.command.demo.account import Account
from actors.command.demo.view import View
from actors.command.demo.wishes import product, wish

__all__ = ["DemoSize", "from_here", "run_demo"]

LEVELS = ("low", "normal", "high", "critical")
RULES = {
    "bargain": ("critical", "discount >= 60"),
    "favourite": ("high", "rating >= 4.5 and not refurbished"),
    "ordinary": ("normal", "price < 1000"),
}
SIZES = 40
"""Every wish names one of this number of sizes, so that a product interests tens of shoppers and not thousands."""
SHOPPERS = 100
BATCH = 50
POLLED = 2000
CHUNK = 20_000
WARM_UP = 300.0
NEXT = {
    "ray-pubsub start -b": "a server that stays; ray-pubsub top watches it",
    "ray-pubsub bench": "how fast this machine matches, in one process",
    "python -m examples.wish_lists": "the same wishes without a server",
}


@dataclass(frozen=True, slots=True)
class DemoSize:
    """The size of the demo, and where it runs."""

    subscriptions: int = 100_000
    events: int = 3_000
    shards: int = 2
    kill: bool = True
    seed: int = 7
    name: str = "demo"
    address: str = "local"
    patience: float = 45.0
    """The seconds to wait for the last deliveries."""


def run_demo(size: DemoSize, view: View | None = None) -> bool:
    """Runs the demo. Returns True if every match that an index in this process finds was reported, delivered and polled, and nothing
    else was."""
    view = view or View(LEVELS)
    draw = random.Random(size.seed)
    with (
        tempfile.TemporaryDirectory(prefix="ray-pubsub-demo-") as folder,
        _quiet(Path(folder) / "ray.log", view.console),
    ):
        began = time.perf_counter()
        with view.step("starting a server, each of its parts in a process of its own"):
            server = ray_pubsub.start(
                size.shards, Path(folder) / "data", size.name, address=size.address, levels=LEVELS, lease=2.0
            )
        with server:
            processes = _processes(server)
            view.processes(processes)
            view.done(
                f"a server runs at {server.address}, in {len(processes)} processes ({time.perf_counter() - began:.1f} s)"
            )
            account = Account(_load(server, size.subscriptions, draw, view))
            _publish(server, account, size, draw, view)
            _report(account, view)
    return account.in_order


@contextmanager
def _quiet(log: Path, console: Console) -> Iterator[None]:
    """Redirects stderr to a file: when a worker is killed, which is the point of the demo, Ray would write a page to the terminal. Only
    the console goes on writing to the terminal."""
    shown, console.file = console.file, sys.stdout
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("a") as file, redirect_stdout(file):
            os.dup2(file.fileno(), 2)
            yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        console.file = shown


def _processes(server: Any) -> dict[str, bool]:
    return {"registry": True, **{f"shard {number}": True for number in range(len(server.shards))}, "coordinator": True}


def _load(server: Any, count: int, draw: random.Random, view: View) -> ray_pubsub.MatchIndex:
    """Loads subscriptions into the server, and into an index of this process for comparison."""
    ids = list(range(count))
    texts = [f"{wish(draw)} and size = {draw.randrange(SIZES)}" for _ in ids]
    table = pa.table({"id": ids, "subscriber": [f"shopper-{number % SHOPPERS}" for number in ids], "expression": texts})
    started = time.perf_counter()
    with view.step(f"loading {count:,} wish lists of {SHOPPERS} shoppers, such as"):
        view.say(f"    {min(texts[:20], key=len)}", style="dim")
        report = server.subscribe_many(table, progress=False)
    seconds = time.perf_counter() - started
    view.done(f"{report.added:,} wish lists are on disk and in effect ({report.added / seconds:,.0f} a second)")
    for rule, (level, expression) in RULES.items():
        server.prioritize(rule, level, expression)
    view.done(f"{len(RULES)} priority rules, such as critical: {RULES['bargain'][1]}")
    with view.step("the same wish lists into an index of this process, to check the server by"):
        index = ray_pubsub.MatchIndex()
        for start in range(0, count, CHUNK):
            index.add_many(ids[start : start + CHUNK], texts[start : start + CHUNK], atomic=True)
    return index


def _publish(server: Any, account: Account, size: DemoSize, draw: random.Random, view: View) -> None:
    events = [
        {"id": f"product-{number}", "size": draw.randrange(SIZES), **product(draw)} for number in range(size.events)
    ]
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    killed_at = len(batches) // 3 if size.kill else -1
    with view.step("compiling kernels, in the first run (ray-pubsub warm-up does it before)"):
        account.warm_up(batches[0])
        server.publish(batches[0], deliver=False, timeout=WARM_UP)
    view.say(f"  publishing {len(events):,} products, {BATCH} at a time, each batch waited for and checked;")
    view.say("  meanwhile the shoppers poll and acknowledge")
    with _shoppers(server, account), view.watch():
        for number, batch in enumerate(batches):
            started = time.perf_counter()
            if number == killed_at:
                before = _kill(server, account, view, len(events))
            account.publish(batch, server.publish(batch, event_id="id"))
            if number == killed_at:
                _say_who_came_back(server, before, time.perf_counter() - started, view)
            view.show(account, len(events))
        _poll_the_rest(server, account, size.patience, view, len(events))


def _kill(server: Any, account: Account, view: View, total: int) -> dict[str, Any]:
    shard: dict[str, Any] = server.stats(hot=0).shards[0]
    view.processes({**_processes(server), "shard 0": False})
    view.event(
        f"kill -9 {shard['pid']}: shard 0 is gone, with {shard['subscriptions']:,} of the wish lists", "bold red"
    )
    view.show(account, total)
    os.kill(shard["pid"], signal.SIGKILL)
    return shard


def _say_who_came_back(server: Any, before: dict[str, Any], seconds: float, view: View) -> None:
    shard = server.stats(hot=0).shards[0]
    view.processes(_processes(server))
    view.event(
        f"shard 0 was killed (process {before['pid']}); the batch under way was answered\n"
        f"after {seconds:.1f} s, by process {shard['pid']}, with all {shard['subscriptions']:,} wish lists loaded again",
        "bold green",
    )


@contextmanager
def _shoppers(server: Any, account: Account) -> Iterator[None]:
    """Polls for all shoppers in turn, in one thread, while the block runs."""
    ended = threading.Event()

    def shop() -> None:
        while not ended.is_set():
            for number in range(SHOPPERS):
                if ended.is_set() or not _poll(server, account, f"shopper-{number}"):
                    continue

    thread = threading.Thread(target=shop, name="shoppers", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _poll(server: Any, account: Account, shopper: str) -> int:
    deliveries = server.poll(shopper, limit=POLLED)
    if deliveries:
        account.poll(deliveries)
        server.ack(deliveries)
    return len(deliveries)


def _poll_the_rest(server: Any, account: Account, patience: float, view: View, total: int) -> None:
    """Polls until nothing is left: a delivery that was handed out and not acknowledged comes again after its visibility timeout."""
    ends = time.monotonic() + patience
    while account.lost and time.monotonic() < ends:
        for number in range(SHOPPERS):
            _poll(server, account, f"shopper-{number}")
        view.show(account, total)


def _report(account: Account, view: View) -> None:
    view.say(
        f"\n  {account.expected:,} matches expected by the index, {account.matched:,} reported by the server,\n"
        f"  {account.delivered:,} delivered, {account.polled:,} polled ({account.repeated:,} of them twice),\n"
        f"  {account.lost:,} lost; batches that differ: {account.wrong_batches}"
    )
    if account.in_order:
        view.say("  nothing was lost", style="bold green")
    else:
        view.say(f"  NOT IN ORDER: {account.lost:,} lost, {account.invented:,} invented", style="bold red")
    view.say("\nwhat you saw", style="bold")
    view.say("  every wish is a WHERE clause; every product met all of them, exactly")
    view.say("  deliveries wait until they are acknowledged, the most urgent first")
    view.say("  a killed process was replaced, and the batch under way was answered")
    view.say("try next", style="bold")
    for command, purpose in NEXT.items():
        view.say(f"  {from_here(command):<32}{purpose}")


def from_here(command: str) -> str:
    """Returns the command as it can be typed: `make demo` runs in an environment that is not activated."""
    folder = os.path.relpath(Path(sys.executable).parent)
    known = shutil.which(command.split()[0]) is not None or len(folder) > len(".venv/bin")
    return command if known else f"{folder}/{command}"
