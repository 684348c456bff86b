"""Conjunctions of disjunctions too large to be written out as clauses (OpIndex section 6.1), one core, each event checked against truth.

python -m benchmarks conjunctive_forms [--subscriptions N] [--engine NAME]
"""

from __future__ import annotations

import argparse
import random
import time

from rich.console import Console
from rich.table import Table

import ray_pubsub
from benchmarks.timing import measure
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten, from_dicts
from ray_pubsub.settings import Limits

ATTRIBUTES, CONJUNCTS, ALTERNATIVES, BATCH = 50, 12, 3, 64
VALUES, FORMS, CHECKED = 100, 200, 5


def alternative(random_: random.Random, attribute: int, kind: str) -> str:
    name, value = f"a{attribute}", random_.randrange(VALUES)
    match kind:
        case "e":
            return f"{name} = {value}"
        case "s":
            return f"{name} in ({', '.join(str(random_.randrange(VALUES)) for _ in range(4))})"
        case "l":
            return f"{name} <= {value}"
        case _:
            return f"{name} between {value} and {value + 20}"


def subscriptions(random_: random.Random, count: int, kinds: str) -> list[str]:
    """Of a few hundred forms with different constants: parsing is ingest's matter."""
    found = []
    for _ in range(FORMS):
        attributes = [random_.sample(range(ATTRIBUTES), ALTERNATIVES) for _ in range(CONJUNCTS)]
        operators = [[random_.choice(kinds) for _ in range(ALTERNATIVES)] for _ in range(CONJUNCTS)]
        for _ in range(-(-count // FORMS)):
            conjuncts = [
                " or ".join(alternative(random_, *each) for each in zip(*conjunct, strict=True))
                for conjunct in zip(attributes, operators, strict=True)
            ]
            found.append(" and ".join(f"({conjunct})" for conjunct in conjuncts))
    return found[:count]


def events(random_: random.Random, carried: int) -> list[dict[str, int]]:
    return [
        {f"a{attribute}": random_.randrange(VALUES) for attribute in random_.sample(range(ATTRIBUTES), carried)}
        for _ in range(BATCH)
    ]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks conjunctive_forms", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--engine", default="auto")
    options = parser.parse_args(arguments)
    table = Table(
        title=f"{options.subscriptions:,} conjunctions of {CONJUNCTS} disjunctions of {ALTERNATIVES} over {ATTRIBUTES} attributes",
        title_justify="left",
    )
    for column in (
        "alternatives",
        "event carries",
        "batch µs/event",
        "noise",
        "one event µs",
        "matches/event",
        "build s",
    ):
        table.add_column(column, justify="left" if column == "alternatives" else "right")
    for label, kinds in (("=", "e"), ("=, in, <=, between", "eslb")):
        random_ = random.Random(7)
        texts = subscriptions(random_, options.subscriptions, kinds)
        start = time.perf_counter()
        index = ray_pubsub.MatchIndex(options.engine)
        index.add_many(range(len(texts)), texts, atomic=True)
        build = time.perf_counter() - start
        shapes = ShapeCache(Limits())
        trees = [shapes.parse(text).tree for text in texts]
        for carried in (ATTRIBUTES, ATTRIBUTES // 5):
            batch = events(random_, carried)
            found = index.match_many(batch)
            for event in range(CHECKED):
                values = flatten(batch[event])
                expected = [number for number, tree in enumerate(trees) if truth(tree, values) is True]
                assert sorted(found[event]) == expected == sorted(index.match(batch[event])), f"event {event} differs"
            prepared, single = from_dicts(batch), [from_dicts([event]) for event in batch]
            many = measure(lambda index=index, events=prepared: index.match_many(events))  # type: ignore[misc]
            one = measure(lambda index=index, single=single: [index.match_many(event) for event in single])  # type: ignore[misc]
            table.add_row(
                label, f"{carried} attributes", f"{many.best / BATCH * 1e6:,.0f}", f"{many.noise:.0%}",
                f"{one.best / BATCH * 1e6:,.0f}", f"{len(found) / BATCH:,.1f}", f"{build:.1f}",
            )  # fmt: skip
    Console(width=120).print(table)
