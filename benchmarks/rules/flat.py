"""String rules on few attributes, and on a few of many.

hypermatch's published workload (github.com/SchwarzDigits/hypermatch, _benchmark): 100,000 rules, each

    env = 'prod' and number = '4711' and tags = 'tag1' and region not in ('moon') and type in ('app', 'database')

with 10,000 different numbers, so that ten rules share each number and an event matches ten; in a second round also
`name like '%-myapp-%'`. An event has all six attributes as strings. (In hypermatch, `tags` is a list and must hold two values.)

The sparse workload: 100,000 rules of 3 string tests (equalities and sets of two or three of 100 values) on 3 of 1,000 attributes, events
of 20 attributes.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

import ray_pubsub
from benchmarks.rules.report import Report, best_seconds
from benchmarks.rules.sizes import Sizes

Event = dict[str, str]
MUST = (1_000_000, 500_000, 300_000, 40_000), (700_000, 350_000, 250_000, 35_000)
AIM = (2_000_000, 1_000_000, 500_000, 80_000), (1_200_000, None, None, None)
SHARED = 10
ATTRIBUTES, CARRIED, VALUES = 1000, 20, 100


def run(report: Report, sizes: Sizes) -> None:
    for wildcard in (False, True):
        name = "with the wildcard" if wildcard else "hypermatch's rules"
        report.step(f"flat: adding {name}")
        numbers = max(1, sizes.rules // SHARED)
        index, rate = built([flat_rule(number % numbers, wildcard) for number in range(sizes.rules)])
        report.line(f"{name}, add_many", rate, "a second")
        random_ = random.Random(1)
        chosen = [random_.randrange(numbers) for _ in range(sizes.batch)]
        events = [flat_event(place, number) for place, number in enumerate(chosen)]
        events[::50] = [{**event, "region": "moon"} for event in events[::50]]
        expected = [
            [] if event["region"] == "moon" else list(range(number, sizes.rules, numbers))
            for event, number in zip(events, chosen, strict=True)
        ]
        measure(report, sizes, name, index, events, expected, MUST[wildcard], AIM[wildcard])
    sparse(report, sizes)


def flat_rule(number: int, wildcard: bool) -> str:
    text = f"env = 'prod' and number = '{number}' and tags = 'tag1' and region not in ('moon') and type in ('app', 'database')"
    return f"name like '%-myapp-%' and {text}" if wildcard else text


def flat_event(place: int, number: int) -> Event:
    name = f"app-myapp-{place}"
    return {"name": name, "env": "prod", "number": str(number), "tags": "tag1", "region": "earth", "type": "app"}


def sparse(report: Report, sizes: Sizes) -> None:
    report.step("flat: adding rules on 3 of 1,000 attributes")
    random_ = random.Random(2)
    rules = []
    for _ in range(sizes.rules):
        chosen = random_.sample(range(ATTRIBUTES), 3)
        rules.append({f"a{name}": random_.sample(range(VALUES), random_.choice((1, 1, 2, 3))) for name in chosen})
    index, rate = built([" and ".join(sparse_test(*test) for test in rule.items()) for rule in rules])
    report.line("3 of 1,000 attributes, add_many", rate, "a second")
    events = [
        {f"a{name}": f"v{random_.randrange(VALUES)}" for name in random_.sample(range(ATTRIBUTES), CARRIED)}
        for _ in range(sizes.batch)
    ]
    for place in range(0, len(events), 2):  # every other event carries what some rule asks for
        rule = random_.choice(rules)
        events[place].update({name: f"v{random_.choice(values)}" for name, values in rule.items()})
    accepted = [{name: {f"v{value}" for value in values} for name, values in rule.items()} for rule in rules]
    by_name: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        by_name.setdefault(next(iter(rule)), []).append(number)
    expected = []
    for event in events:
        met = sorted(number for name in event for number in by_name.get(name, []))
        expected.append([n for n in met if all(event.get(name) in values for name, values in accepted[n].items())])
    measure(report, sizes, "3 of 1,000 attributes", index, events, expected, (None,) * 4, (None,) * 4)


def sparse_test(name: str, values: Sequence[int]) -> str:
    if len(values) == 1:
        return f"{name} = 'v{values[0]}'"
    return f"{name} in ({', '.join(repr(f'v{value}') for value in values)})"


def built(texts: list[str]) -> tuple[ray_pubsub.MatchIndex, float]:
    index = ray_pubsub.MatchIndex()
    start = time.thread_time()
    index.add_many(range(len(texts)), texts)
    return index, len(texts) / (time.thread_time() - start)


def measure(
    report: Report, sizes: Sizes, name: str, index: ray_pubsub.MatchIndex, events: list[Event], expected: list[list[int]],
    must: Sequence[float | None], aim: Sequence[float | None],
) -> None:  # fmt: skip
    report.step(f"flat: {name}, matching")
    table = pa.Table.from_pylist(events, schema=pa.schema({key: pa.string() for event in events for key in event}))
    lines = [json.dumps(event).encode() for event in events]
    match_json: Callable[[Any], Any] | None = getattr(index, "match_json", None)
    singles = events[:200]
    ways: list[tuple[str, Callable[[], Any] | None]] = [
        ("Arrow batch", lambda: index.match_many(table)),
        ("JSON lines", None if match_json is None else lambda: match_json(lines)),
        ("dict batch", lambda: index.match_many(events)),
        ("one dict", lambda: [index.match(event) for event in singles]),
    ]
    for (way, work), least, target in zip(ways, must, aim, strict=True):
        if work is None:
            report.line(f"{name}: {way}", float("nan"), "events/s", note="there is no match_json")
            continue
        found = work()
        count = len(singles) if way == "one dict" else len(events)
        assert all(sorted(found[place]) == expected[place] for place in range(count)), f"{name}: {way} differs"
        rate = count / best_seconds(work, sizes.rounds)
        report.line(f"{name}: {way}", rate, "events/s", must=least, aim=target, note=f"{1e9 / rate:,.0f} ns an event")
