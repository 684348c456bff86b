"""A server under fire: wish lists are loaded, products published, shoppers poll; then one of its processes is killed, and nothing is lost.

python -m examples.demo [--subscriptions N] [--events N] [--shards N] [--no-kill]

Everything runs on this machine, in a Ray cluster of its own that ends with the demo. The exit status is 0 if every match that an index in
this process finds was reported, delivered and polled, and nothing else was.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

import ray_pubsub
from examples.demo.account import Account
from examples.demo.view import View
from examples.wish_lists import product, wish

LEVELS = ("low", "normal", "high", "critical")
RULES = {
    "bargain": ("critical", "discount >= 60"),
    "favourite": ("high", "rating >= 4.5 and not refurbished"),
    "ordinary": ("normal", "price < 1000"),
}
SIZES = 40
"""Every wish names one of so many sizes, so that a product interests tens of shoppers and not thousands."""
SHOPPERS = 100
BATCH = 50
POLLED = 2000
CHUNK = 20_000
WARM_UP = 300.0


def main() -> int:
    arguments = _arguments()
    view = View(LEVELS)
    draw = random.Random(arguments.seed)
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ray-pubsub-demo-") as folder:
        view.say("starting a server: a registry, shards, a coordinator with mailboxes, each in a process of its own")
        with ray_pubsub.start(
            arguments.shards, folder, arguments.name, address=arguments.address, levels=LEVELS, lease=2.0
        ) as server:
            view.say(f"  {server!r}, {time.perf_counter() - began:.1f} s")
            account = Account(_load(server, arguments.subscriptions, draw, view))
            _publish(server, account, arguments, draw, view)
            _report(server, account, view)
    view.say(f"\n{time.perf_counter() - began:.0f} s in all")
    return 0 if account.in_order else 1


def _load(server: Any, count: int, draw: random.Random, view: View) -> ray_pubsub.MatchIndex:
    """Into the server; and into an index of this process, to check it by."""
    view.say(f"\nloading {count:,} wish lists of {SHOPPERS} shoppers")
    ids = list(range(count))
    texts = [f"{wish(draw)} and size = {draw.randrange(SIZES)}" for _ in ids]
    table = pa.table({"id": ids, "subscriber": [f"shopper-{number % SHOPPERS}" for number in ids], "expression": texts})
    started = time.perf_counter()
    report = server.subscribe_many(table, progress=view.console.is_terminal)
    seconds = time.perf_counter() - started
    view.say(f"  {report.added:,} loaded, on disk and in effect: {report.added / seconds:,.0f} a second")
    for rule, (level, expression) in RULES.items():
        server.prioritize(rule, level, expression)
        view.say(f"  priority {level}: {expression}")
    index = ray_pubsub.MatchIndex()
    for start in range(0, count, CHUNK):
        index.add_many(ids[start : start + CHUNK], texts[start : start + CHUNK], atomic=True)
    return index


def _publish(server: Any, account: Account, arguments: argparse.Namespace, draw: random.Random, view: View) -> None:
    events = [
        {"id": f"product-{number}", "size": draw.randrange(SIZES), **product(draw)}
        for number in range(arguments.events)
    ]
    batches = [events[start : start + BATCH] for start in range(0, len(events), BATCH)]
    killed_at = len(batches) // 3 if arguments.kill else -1
    _warm_up(server, account, batches[0], view)
    view.say(f"\npublishing {len(events):,} products in batches of {BATCH}; shoppers poll and acknowledge meanwhile")
    with _shoppers(server, account), view.watch():
        for number, batch in enumerate(batches):
            started = time.perf_counter()
            if number == killed_at:
                before = _kill(server, view)
            account.publish(batch, server.publish(batch, event_id="id"))
            view.show(account, len(events))
            if number == killed_at:
                _say_who_came_back(server, before, time.perf_counter() - started, view)
    view.say(f"  published; {account.polled:,} deliveries polled so far")
    _poll_the_rest(server, account, arguments.patience, view, len(events))


def _warm_up(server: Any, account: Account, batch: list[dict[str, Any]], view: View) -> None:
    """So that what is shown of publishing is publishing."""
    view.say(
        "\nloading compiled kernels, or compiling them (in the very first run): a batch is matched and not delivered"
    )
    started = time.perf_counter()
    account.warm_up(batch)
    server.publish(batch, deliver=False, timeout=WARM_UP)
    view.say(f"  {time.perf_counter() - started:.1f} s")


def _kill(server: Any, view: View) -> dict[str, Any]:
    shard: dict[str, Any] = server.stats(hot=0).shards[0]
    view.say(
        f"\nkill -9 {shard['pid']}: shard 0, which has {shard['subscriptions']:,} of the wish lists (Ray says so too)",
        style="bold red",
    )
    os.kill(shard["pid"], signal.SIGKILL)
    return shard


def _say_who_came_back(server: Any, before: dict[str, Any], seconds: float, view: View) -> None:
    shard = server.stats(hot=0).shards[0]
    view.say(
        f"  the next batch was answered after {seconds:.1f} s, by process {shard['pid']} (epoch {shard['epoch']}, before "
        f"{before['epoch']}), which has loaded {shard['subscriptions']:,} wish lists from the registry\n",
        style="bold green",
    )


@contextmanager
def _shoppers(server: Any, account: Account) -> Iterator[None]:
    """One thread polls for all of them, in turn."""
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
    """Until nothing is left; what was handed out and not acknowledged would come again after its visibility timeout."""
    ends = time.monotonic() + patience
    while account.lost and time.monotonic() < ends:
        for number in range(SHOPPERS):
            _poll(server, account, f"shopper-{number}")
        view.show(account, total)


def _report(server: Any, account: Account, view: View) -> None:
    view.say("\nthe server, as it sees itself (server.stats())")
    view.say(str(server.stats(hot=3)))
    levels = ", ".join(f"{level} {account.by_priority[level]:,}" for level in reversed(LEVELS))
    view.say("\nthe account")
    view.say(f"  published   {account.published:>10,} products")
    view.say(f"  expected    {account.expected:>10,} matches, by an index in this process")
    view.say(
        f"  matched     {account.matched:>10,} by the server; batches that differ from the index: {account.wrong_batches}"
    )
    view.say(f"  delivered   {account.delivered:>10,}")
    view.say(f"  polled      {account.polled:>10,} ({levels}); {account.repeated:,} came more than once")
    view.say(f"  lost        {account.lost:>10,}")
    verdict = (
        "nothing was lost"
        if account.in_order
        else f"NOT IN ORDER: {account.lost:,} lost, {account.invented:,} invented"
    )
    view.say(f"  {verdict}", style="bold green" if account.in_order else "bold red")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=100_000, help="how many wish lists (default 100,000)")
    parser.add_argument("--events", type=int, default=3_000, help="how many products to publish (default 3,000)")
    parser.add_argument("--shards", type=int, default=2, help="processes that match (default 2)")
    parser.add_argument("--no-kill", dest="kill", action="store_false", help="kill nobody")
    parser.add_argument("--seed", type=int, default=7, help="another seed, other wishes")
    parser.add_argument("--name", default="demo", help="the server's name (default demo)")
    parser.add_argument("--address", default="local", help="of a Ray cluster on this machine; by default a new one")
    parser.add_argument(
        "--patience", type=float, default=45.0, help="seconds to wait for the last deliveries (default 45)"
    )
    arguments = parser.parse_args()
    for name in ("subscriptions", "events", "shards"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
