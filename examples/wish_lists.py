"""Matches a stream of products with the wish lists of 100,000 shoppers: who wants to hear about which product?

python -m examples.wish_lists [--subscriptions N] [--events N] [--engine NAME] [--seed N]
"""

from __future__ import annotations

import argparse
import random
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

import ray_pubsub
from actors.command.demo.wishes import product, wish

CHUNK = 2_000


def load(index: ray_pubsub.MatchIndex, count: int, random_: random.Random, progress: Progress) -> None:
    task = progress.add_task(f"loading {count:,} wish lists", total=count, note="")
    start = time.perf_counter()
    for first in range(0, count, CHUNK):
        ids = range(first, min(first + CHUNK, count))
        report = index.add_many(ids, [wish(random_) for _ in ids], atomic=True)
        progress.update(task, advance=report.added, note=f"{len(index) / (time.perf_counter() - start):,.0f}/s")


def stream(
    index: ray_pubsub.MatchIndex, count: int, random_: random.Random, progress: Progress
) -> tuple[list[tuple[dict[str, object], list[int | str]]], int]:
    """Matches products one by one; returns a few with their matches, and the total."""
    task = progress.add_task(f"matching {count:,} products", total=count, note="")
    start = time.perf_counter()
    shown = []
    total = 0
    for number in range(1, count + 1):
        event = product(random_)
        matches = index.match(event)
        total += len(matches)
        if number % max(1, count // 3) == 0:
            shown.append((event, matches))
        elapsed = time.perf_counter() - start
        progress.update(task, advance=1, note=f"{number / elapsed:,.1f} events/s, {total / elapsed:,.0f} matches/s")
    return shown, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=100_000, help="how many wish lists (default 100,000)")
    parser.add_argument("--events", type=int, default=5_000, help="how many products to stream (default 5,000)")
    parser.add_argument("--engine", default="auto", help="the index's engine (default auto)")
    parser.add_argument("--seed", type=int, default=7, help="another seed, other wishes")
    arguments = parser.parse_args()
    console = Console()
    random_ = random.Random(arguments.seed)
    index = ray_pubsub.MatchIndex(engine=arguments.engine)
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=16), TextColumn("{task.percentage:>3.0f} %"))
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=console) as progress:
        load(index, arguments.subscriptions, random_, progress)
        shown, total = stream(index, arguments.events, random_, progress)
    console.print(f"\n{index!r}: {total:,} matches of {arguments.events:,} products\n")
    for event, matches in shown:
        console.print(
            f"[bold]{event['brand']} {event['category']}[/] for {event['price']}: {len(matches):,} shoppers, for example"
        )
        if matches:
            console.print(f"  wish list {matches[0]}: {index.expression(matches[0])}", highlight=False)
            for line in str(index.explain(event, matches[0])).splitlines():
                console.print(f"    {line}", highlight=False, markup=False)
    console.print("\nA live change: shopper 'new' wants any drone, then changes their mind.")
    drone = product(random_) | {"category": "drone"}
    index.add("new", "category = 'drone'")
    console.print(f"  after add:    {'new' in index.match(drone)}")
    index.remove("new")
    console.print(f"  after remove: {'new' in index.match(drone)}")


if __name__ == "__main__":
    main()
