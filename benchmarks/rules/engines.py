"""auto beside every engine that a user can name, on W4, on the string rules and on rules as texts: each is measured in turns with auto, and
its results are compared with auto's. W1 to W3: python -m benchmarks matching --engines all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import ray_pubsub
from benchmarks.rules import flat, texts
from benchmarks.rules.race import SEEN, SLOW, Work, Works, in_turns
from benchmarks.rules.report import Report
from benchmarks.rules.sizes import Sizes
from benchmarks.rules.written import RULES, written_event
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.engines.vector_cache import cache
from ray_pubsub.model.arrow.arrow_events import from_arrow
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import segments

MUST = 1.2
BATCH, SINGLE = 256, 16
Add = Callable[[ray_pubsub.MatchIndex], object]


class Case(NamedTuple):
    name: str
    add: Add
    events: list[dict[str, Any]]
    table: Any = None
    """The same events in columns; None if they are read from the dictionaries."""


def run(report: Report, sizes: Sizes) -> None:
    enabled, cache.ENABLED = cache.ENABLED, False  # the same events come again and again
    try:
        for case in cases(sizes):
            compared(report, sizes, case)
    finally:
        cache.ENABLED = enabled


def cases(sizes: Sizes) -> Iterator[Case]:
    workload = segments(min(sizes.subscriptions, sizes.rules))
    predicates, table = workload.predicates(), workload.event_table()
    events = [workload.event(number) for number in range(min(BATCH, len(table)))]
    yield Case("W4", lambda index: index.add_predicates(predicates), events, table.slice(0, len(events)))
    random_ = random.Random(7)
    numbers = max(1, sizes.rules // flat.SHARED)
    flat_events = [flat.flat_event(place, random_.randrange(numbers)) for place in range(BATCH)]
    for wildcard, name in ((False, "string rules"), (True, "string rules with a pattern")):
        yield Case(
            name, added([flat.flat_rule(number % numbers, wildcard) for number in range(sizes.rules)]), flat_events
        )
    yield Case("3 of 1,000 attributes", added(list(sparse_rules(random_, sizes.rules))), sparse_events(random_))
    count = min(sizes.texts, 20_000)
    yield Case(
        "texts of 10 leaves",
        added([" and ".join(texts.leaf(random_) for _ in range(10)) for _ in range(count)]),
        drawn(random_, texts.event),
    )
    large = [texts.large_rule(random_) for _ in range(count // 10)]
    yield Case("texts of 10 to 1,000 leaves", added(large), drawn(random_, texts.event))
    patterns = (("alternatives", texts.alternatives), ("excluded", texts.detections), ("nested", texts.nested_patterns))
    for what, make in patterns:
        rules = [make(random_, int(10 ** random_.uniform(1, 3))) for _ in range(count // 10)]
        yield Case(f"patterns, {what}", added(rules), drawn(random_, texts.pattern_event))
    sigma = [texts.sigma_rule(random_, random_.randint(5, 50)) for _ in range(count // 4)]
    yield Case("rules of the Sigma import", added(sigma), drawn(random_, texts.sigma_event))
    for what, written in RULES.items():
        rules = [written(random_, random_.randint(5, 50)) for _ in range(count // 8)]
        yield Case(what, added(rules), drawn(random_, written_event))


def added(rules: Sequence[str]) -> Add:
    return lambda index: index.add_many(range(len(rules)), rules)


def drawn(random_: random.Random, make: Callable[[random.Random], dict[str, Any]]) -> list[dict[str, Any]]:
    return [make(random_) for _ in range(BATCH)]


def sparse_rules(random_: random.Random, count: int) -> Iterator[str]:
    for _ in range(count):
        names = random_.sample(range(flat.ATTRIBUTES), 3)
        tests = {f"a{name}": random_.sample(range(flat.VALUES), random_.choice((1, 1, 2, 3))) for name in names}
        yield " and ".join(flat.sparse_test(*test) for test in tests.items())


def sparse_events(random_: random.Random) -> list[dict[str, Any]]:
    values = range(flat.VALUES)
    return [
        {f"a{name}": f"v{random_.choice(values)}" for name in random_.sample(range(flat.ATTRIBUTES), flat.CARRIED)}
        for _ in range(BATCH)
    ]


def compared(report: Report, sizes: Sizes, case: Case) -> None:
    report.step(f"engines: {case.name}")
    batch = from_dicts(case.events) if case.table is None else from_arrow(case.table)
    auto, mine = built(case, "auto", batch)
    expected = answers(auto, case, batch)
    regrets, times = {"auto": np.ones(2)}, {}
    for name in engine_names():
        if name in ("auto", "scan"):
            continue
        other, works = built(case, name, batch)
        assert answers(other, case, batch) == expected, f"{case.name}: {name} differs"
        seen, first = in_turns(mine, works, 0.0)
        if (first <= SLOW * seen).any():
            seen, first = in_turns(mine, works, sizes.race_seconds)
        regrets[name], times[name] = seen / first, first
    chosen = "+".join(sorted({block.engine for block in auto.stats().blocks})) or "tail"
    for way, what in enumerate(("batch", "one event")):
        best = max(regrets, key=lambda name: regrets[name][way])
        others = ", ".join(f"{name} {each[way]:.1f}" for name, each in times.items())
        note = f"{chosen} {in_turns(mine, mine, 0.05)[0][way]:.1f} µs; {others}"
        report.line(
            f"{case.name}, {what}, auto ÷ {best}", regrets[best][way], "times", must=MUST, more=False, note=note
        )
        if not report.console.is_terminal:
            print(f"{case.name}, {what}: auto ÷ {best} {regrets[best][way]:.2f}; {note}", flush=True)


def built(case: Case, engine: str, batch: Any) -> tuple[ray_pubsub.MatchIndex, Works]:
    index = ray_pubsub.MatchIndex(engine=engine)
    case.add(index)
    index.wait_for_merges()
    singles = case.events[:SINGLE]
    works = (
        Work(lambda: index.match_many(batch), len(case.events)),
        Work(lambda: [index.match(event) for event in singles], len(singles)),
    )
    start = time.thread_time()
    while time.thread_time() - start < SEEN:  # what is built when it pays is built
        for work in works:
            work.do()
    return index, works


def answers(index: ray_pubsub.MatchIndex, case: Case, batch: Any) -> list[list[Any]]:
    found = index.match_many(batch)
    alone = [sorted(index.match(event)) for event in case.events[:SINGLE]]
    assert alone == [sorted(found[place]) for place in range(len(alone))]
    return [sorted(found[place]) for place in range(len(case.events))]
