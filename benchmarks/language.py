"""Computed attributes beside plain ones, in one process: the same number of subscriptions, and events that match about as many of them.

Each group is a pair: subscriptions on a function or a list, and plain ones that ask the same of attributes which the events have already
computed. Both sides match the same subscriptions, or else a sample of the computed ones is compared with the specification in the same
run.

Figures are CPU time per event in batches, the best of several rounds, without reading the events: what the plain side takes to match; what
the computed side takes to evaluate functions, or to find the flags of lists and places; and what it takes to match after that. The ratios
are of matching alone and of everything, both to the plain side.

The verdict compares a ratio with what it must be: matching takes at most twice the plain side's time, and evaluation is on top; places
take at most three times that of two intervals, all included.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import ray_pubsub
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.events import read_events

__all__ = ["main"]

ROUNDS = 5


class Group(NamedTuple):
    """Texts of both sides, and the same events for each."""

    name: str
    computed: list[str]
    plain: list[str]
    events: list[dict[str, Any]]
    plain_events: list[dict[str, Any]]
    exact: bool = True
    """Whether both sides match the same."""
    most: float = 2.0
    """What it may cost, in times of the plain side."""
    all_included: bool = False
    """Whether that is compared with evaluation and matching, or with matching alone."""


def lists(count: int, events: int, random: np.random.Generator) -> Group:
    """Events of five tags, beside events with five attributes of one tag each."""
    numbers = random.integers(0, count // 5, (events, 5)) * 5 + np.arange(5)
    tags = [[f"t{number}" for number in row] for row in numbers.tolist()]
    computed = [f"list_contains(tags, 't{number}')" for number in range(count)]
    plain = [f"tag{number % 5} = 't{number}'" for number in range(count)]
    named = [{f"tag{place}": tag for place, tag in enumerate(each)} for each in tags]
    return Group("list_contains", computed, plain, [{"tags": each} for each in tags], named)


def texts(count: int, events: int, random: np.random.Generator) -> Group:
    numbers = random.integers(0, count, events).tolist()
    computed = [f"lower(name) = 'n{number}'" for number in range(count)]
    plain = [f"name = 'n{number}'" for number in range(count)]
    return Group(
        "lower(x) =",
        computed,
        plain,
        [{"name": f"N{number}"} for number in numbers],
        [{"name": f"n{number}"} for number in numbers],
    )


def products(count: int, events: int, random: np.random.Generator) -> Group:
    low = random.integers(0, 1_000_000, count)
    high = low + random.integers(1, 200, count)
    bounds = list(zip(low.tolist(), high.tolist(), strict=True))
    pairs = random.integers(1, 1000, (events, 2)).tolist()
    return Group(
        "price * quantity between",
        [f"price * quantity between {first} and {last}" for first, last in bounds],
        [f"total between {first} and {last}" for first, last in bounds],
        [{"price": price, "quantity": quantity} for price, quantity in pairs],
        [{"total": price * quantity} for price, quantity in pairs],
    )


def networks(count: int, events: int, random: np.random.Generator) -> Group:
    starts = (random.integers(0, 2**24, count) << 8).tolist()
    addresses = random.integers(0, 2**32, events).tolist()
    return Group(
        "ip_in",
        [f"ip_in(src, '{_address(start)}/24')" for start in starts],
        [f"src between {start} and {start + 255}" for start in starts],
        [{"src": _address(address)} for address in addresses],
        [{"src": address} for address in addresses],
    )


def _address(number: int) -> str:
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


def places(count: int, events: int, random: np.random.Generator) -> Group:
    """Circles of 1 to 50 km over a country, beside the boxes around them."""
    centres = np.stack([random.uniform(47, 55, count), random.uniform(6, 15, count)], axis=1).tolist()
    radii = random.uniform(1, 50, count).tolist()
    spots = np.stack([random.uniform(47, 55, events), random.uniform(6, 15, events)], axis=1).tolist()
    boxes = []
    for (latitude, longitude), radius in zip(centres, radii, strict=True):
        high = radius / 111.195
        wide = high / math.cos(math.radians(latitude))
        boxes.append(
            f"lat between {latitude - high} and {latitude + high} and lon between {longitude - wide} and {longitude + wide}"
        )
    given = [{"lat": latitude, "lon": longitude} for latitude, longitude in spots]
    circles = [
        f"geo_within(lat, lon, {latitude}, {longitude}, {radius})"
        for (latitude, longitude), radius in zip(centres, radii, strict=True)
    ]
    return Group("geo_within", circles, boxes, given, given, exact=False, most=3.0, all_included=True)


GROUPS: dict[str, Callable[[int, int, np.random.Generator], Group]] = {
    "lists": lists, "texts": texts, "products": products, "networks": networks, "places": places,
}  # fmt: skip


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks language", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--groups", nargs="*", choices=GROUPS, default=list(GROUPS))
    options = parser.parse_args(arguments)
    titles = f"{'plain':>11}{'evaluating':>12}{'matching':>11}{'matching':>10}{'all':>7}{'must':>8}{'met':>5}"
    print(f"{'':26}{'add plain':>11}{'computed':>11}{titles}{'matches':>18}")
    for name in options.groups:
        group = GROUPS[name](options.subscriptions, options.events, np.random.default_rng(7))
        plain, plain_seconds = _built(group.plain)
        computed, seconds = _built(group.computed)
        _check(group, computed, plain)
        sides = [_best(index, events) for index, events in ((plain, group.plain_events), (computed, group.events))]
        (_, base, plain_count), (evaluating, matching, count) = sides
        each = [part / options.events * 1e6 for part in (base, evaluating, matching)]
        measured = each[2] + each[1] * group.all_included
        verdict = f"{f'<= {group.most:g}x':>8}{'yes' if measured <= group.most * each[0] else 'NO':>5}"
        print(
            f"{group.name:26}{plain_seconds:9.1f} s{seconds:9.1f} s{each[0]:8.2f} us{each[1]:9.2f} us{each[2]:8.2f} us"
            f"{each[2] / each[0]:9.2f}x{(each[1] + each[2]) / each[0]:6.2f}x{verdict}{plain_count:9,}{count:9,}",
            flush=True,
        )


def _built(texts: list[str]) -> tuple[ray_pubsub.MatchIndex, float]:
    index = ray_pubsub.MatchIndex()
    start = time.process_time()
    index.add_many(np.arange(len(texts)), texts, atomic=True)
    return index, time.process_time() - start


def _best(index: ray_pubsub.MatchIndex, events: list[dict[str, Any]]) -> tuple[float, float, int]:
    """CPU seconds to evaluate and to match a batch, and its matches."""
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    found = []
    hits = 0
    for _ in range(ROUNDS):
        view = engine.view()
        batch = read_events(events, None, view.attributes)
        times = [time.process_time()]
        batch = engine.computed(batch, engine.snapshot)
        times.append(time.process_time())
        hits = len(view.snapshot.match(batch, engine.vocabulary).slots)
        times.append(time.process_time())
        found.append((times[1] - times[0], times[2] - times[1]))
    return min(each[0] for each in found), min(each[1] for each in found), hits


def _check(group: Group, computed: ray_pubsub.MatchIndex, plain: ray_pubsub.MatchIndex) -> None:
    """The same matches where both sides ask the same; else a sample is compared with the specification."""
    events = group.events[:20]
    found = computed.match_many(events)
    if group.exact:
        other = plain.match_many(group.plain_events[:20])
        assert [sorted(each) for each in found] == [sorted(each) for each in other]
        return
    scan = ray_pubsub.MatchIndex(engine="scan")
    chosen = sorted(
        {identity for each in found for identity in each[:20]}
        | set(range(0, len(group.computed), len(group.computed) // 200))
    )
    scan.add_many(chosen, [group.computed[identity] for identity in chosen], atomic=True)
    wanted = scan.match_many(events)
    among = set(chosen)
    assert [sorted(set(each) & among) for each in found] == [sorted(each) for each in wanted]


if __name__ == "__main__":
    main([])
