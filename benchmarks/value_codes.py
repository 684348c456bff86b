"""Coding one event: as it is done, and by a dictionary per attribute from values to codes, filled as values come.

python -m benchmarks value_codes

Strings are looked up in a dictionary of the operands in either way. Both are timed in turns on the same events, medians of the second half
by the clock; beside them the whole match, its coding included. The codes of both are compared.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.columns.event_codes import encode_single
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.workloads import dense, segments, sparse

__all__ = ["main"]

SUBSCRIPTIONS, EVENTS = 20_000, 6000
MOST = 65_536
"""Values of an attribute that are remembered."""
Codes = tuple[NDArray[np.int32], NDArray[np.int32]]


class Remembered:
    """The design that lost: per layout and tested attribute the codes of the values that came before."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Any, ...], tuple[NDArray[np.int32], list[tuple[int, dict[Any, int]]]]] = {}

    def encode(self, event: SingleEvent, space: CodeSpace, vocabulary: Vocabulary) -> Codes:
        key = (*event.names, *event.kinds)
        known = self._layouts.get(key)
        if known is None:
            column, _ = encode_single(event, space, vocabulary)
            places = space.single_plans[key].places.tolist()
            known = self._layouts[key] = column, [(place, {}) for place in places]
        column, values = known
        plains = event.plains
        codes = [of_values.get(plains[place]) for place, of_values in values]
        if None not in codes:
            return column, np.array(codes, dtype=np.int32)
        column, found = encode_single(event, space, vocabulary)
        for (place, of_values), code in zip(values, found.tolist(), strict=True):
            if len(of_values) < MOST:
                of_values[plains[place]] = code
        return column, found


def main(arguments: Sequence[str]) -> None:
    print(f"{'':26}{'values':>10}{'coding':>12}{'remembered':>12}{'whole match':>13}", flush=True)
    for name, values, index, events in cases():
        coding, remembered, whole = compared(index, events)
        print(f"{name:26}{values:>10}{coding:9.2f} us{remembered:9.2f} us{whole:10.1f} us", flush=True)


def cases() -> Iterator[tuple[str, str, ray_pubsub.MatchIndex, list[dict[str, Any]]]]:
    random = np.random.default_rng(1)
    w1, w3, w4 = dense(SUBSCRIPTIONS), sparse(SUBSCRIPTIONS), segments(SUBSCRIPTIONS // 4)
    ranges, tests, sets = (ray_pubsub.MatchIndex() for _ in range(3))
    ranges.add_predicates(w1.predicates())
    tests.add_predicates(w3.predicates())
    sets.add_many(range(SUBSCRIPTIONS // 4), w4.texts())
    for values in (10, 100, 1000, 10_000, 1_000_000):
        drawn = random.integers(0, values, (EVENTS, 10)) * (1_000_000 // values)
        rows = [{f"a{place}": value for place, value in enumerate(row)} for row in drawn.tolist()]
        yield "W1, 10 whole numbers", f"{values:,}", ranges, rows
    yield "W3, 60 whole numbers", "50", tests, [w3.event_dicts()[place % 1000] for place in range(2000)]
    yield "W4, 6 strings, 2 numbers", "", sets, [w4.event(place % 1000) for place in range(EVENTS)]


def compared(index: ray_pubsub.MatchIndex, events: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Medians in µs an event: coding, coding by what is remembered, and the whole match."""
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    view, vocabulary = engine.view(), engine.vocabulary
    block: Any = view.snapshot.blocks[0]
    space = block.space if hasattr(block, "space") else block.coded.space
    remembered, drawn = Remembered(), Random(1)
    ways = [encode_single, remembered.encode]
    seconds = np.zeros((len(events), 3))
    for number, event in enumerate(events):
        found: dict[int, Codes] = {}
        for way in drawn.sample((0, 1), 2):
            single = read_single(event, view.attributes, strict=False)
            start = time.perf_counter()
            found[way] = ways[way](single, space, vocabulary)
            seconds[number, way] = time.perf_counter() - start
        assert all((ours == other).all() for ours, other in zip(*found.values(), strict=True)), "other codes"
        single = read_single(event, view.attributes, strict=False)
        start = time.perf_counter()
        view.match(single)
        seconds[number, 2] = time.perf_counter() - start
    coding, by_memory, whole = np.median(seconds[len(events) // 2 :], axis=0) * 1e6
    return float(coding), float(by_memory), float(whole)
