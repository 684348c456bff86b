"""Measures a stream whose attributes change: the time of an event before the change, after it with the old pivots, and after blocks were
rebuilt.

One core; some events of each stage are checked against the subscriptions' meaning.

    python -m benchmarks drift [--subscriptions N] [--engine NAME]
"""

from __future__ import annotations

import argparse
import random
import time

from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.timing import measure
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.tree import Tree
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten, from_dicts
from ray_pubsub.settings import Limits

FIELDS, VALUES, BATCH, CHECKED = 50, 5, 256, 2
CARRIED, STRAY = 30, 0.02


def subscriptions(random_: random.Random, count: int) -> list[str]:
    """Returns subscriptions, each of which tests a field of either side."""
    return [
        f"left{random_.randrange(FIELDS)} = {random_.randrange(VALUES)} and right{random_.randrange(FIELDS)} = {random_.randrange(VALUES)}"
        for _ in range(count)
    ]


def events(random_: random.Random, side: str, count: int) -> list[dict[str, int]]:
    """Returns events with the fields of one side, and a few with fields of both."""
    other = {"left": "right", "right": "left"}[side]
    made = []
    for _ in range(count):
        sides = [side, other] if random_.random() < STRAY else [side]
        made.append(
            {
                f"{each}{field}": random_.randrange(VALUES)
                for each in sides
                for field in random_.sample(range(FIELDS), CARRIED)
            }
        )
    return made


def candidates(index: ray_pubsub.MatchIndex, sample: list[dict[str, int]]) -> float:
    """Returns the number of clauses that the pivots lead an event to, by `explain`."""
    total = 0
    for event in sample:
        plan = index.explain(event)
        assert isinstance(plan, IndexPlan)
        total += sum(
            pipeline.steps[0].actual for segment in plan.segments for pipeline in segment.pipelines if pipeline.steps
        )
    return total / len(sample)


def check(index: ray_pubsub.MatchIndex, trees: list[Tree], sample: list[dict[str, int]]) -> None:
    for event in sample:
        values = flatten(event)
        expected = [number for number, tree in enumerate(trees) if truth(tree, values) is True]
        assert index.match(event) == expected, event


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks drift", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=50_000)
    parser.add_argument("--engine", default="auto")
    given = parser.parse_args(arguments)
    random_ = random.Random(1)
    texts = subscriptions(random_, given.subscriptions)
    index = ray_pubsub.MatchIndex(given.engine)
    index.add_many(range(len(texts)), texts, atomic=True)
    shapes = ShapeCache(Limits())
    trees = [shapes.parse(text).tree for text in texts]
    streams = {side: [from_dicts(events(random_, side, BATCH)) for _ in range(8)] for side in ("left", "right")}
    batches = {side: events(random_, side, BATCH) for side in ("left", "right")}
    table = Table(title=f"{given.subscriptions:,} subscriptions, batches of {BATCH}, engine {given.engine}")
    for name in ("stage", "µs an event", "clauses met", "events until then", "blocks rebuilt"):
        table.add_column(name, justify="left" if name == "stage" else "right")

    def learn(side: str, enough: int) -> int:
        """Publishes until a block has been rebuilt, or up to this number of events."""
        before, seen = index.stats().repivoted, 0
        while seen < enough and index.stats().repivoted == before:
            index.match_many(streams[side][seen // BATCH % 8])
            seen += BATCH
            index.wait_for_merges()
        return seen

    def row(stage: str, side: str, seen: int) -> float:
        batch = batches[side]
        prepared = from_dicts(batch)
        timing = measure(lambda: index.match_many(prepared), 5, time.thread_time)
        check(index, trees, batch[:CHECKED])
        met = candidates(index, batch[:16])
        micros = timing.median / BATCH * 1e6
        table.add_row(stage, f"{micros:,.1f}", f"{met:,.0f}", f"{seen:,}", f"{index.stats().repivoted}")
        return micros

    row("before the turn", "left", learn("left", 1_000_000))
    stale = row("after it, pivots as they were", "right", 0)
    fresh = row("after it, pivots chosen again", "right", learn("right", 1_000_000))
    Console().print(table)
    Console().print(f"following makes an event {stale / fresh:.1f} times as fast; all answers checked")
