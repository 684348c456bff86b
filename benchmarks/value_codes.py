"""Matching one event, given as a dictionary: with its values coded as it is done, and by a dictionary per attribute from values to codes,
filled as values come.

python -m benchmarks value_codes

Dense blocks (W1, W2) are not here: their kernel codes numbers on the way, so there is nothing to remember. What patterns say of a string
is remembered in either way (columns/opaque/remembered_strings.py). Both ways are timed in turns on the same stream, medians of its second
half by the clock, beside the coding alone; codes and matches of both are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rules import logs
from benchmarks.rules.flat import flat_event, flat_rule
from ray_pubsub import MatchIndex
from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.columns.event_codes import encode_single
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines import cached_segment
from ray_pubsub.engines.cached_segment import CachedSegment
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.shared_segment import SharedSegment
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.single_event import SingleEvent
from ray_pubsub.workloads import segments, sparse

__all__ = ["main"]

SUBSCRIPTIONS, FLAT, EVENTS, KINDS = 100_000, 100_000, 40_000, 1000
MOST = 65_536
"""Values of an attribute that are remembered."""
NAME = "encode_single"
"""The function of cached_segment that is replaced."""
Codes = tuple[NDArray[np.int32], NDArray[np.int32]]
Events = list[dict[str, Any]]


class Remembered:
    """The design that lost: per layout and tested attribute the codes of the values that came before."""

    def __init__(self) -> None:
        self._layouts: dict[tuple[Any, ...], tuple[NDArray[np.int32], list[tuple[int, dict[Any, int]]]]] = {}

    def encode(self, event: SingleEvent, space: CodeSpace, vocabulary: Vocabulary) -> Codes:
        key = (*event.names, *event.kinds)
        known = self._layouts.get((space, *key))
        if known is None:
            column, code = encode_single(event, space, vocabulary)
            plan = space.single_plans.get(key)
            if plan is None or plan.patterns:
                return column, code
            places = plan.places.tolist()
            known = self._layouts[space, *key] = column, [(place, {}) for place in places]
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
    print(
        f"{'':32}{'coding':>10}{'remembered':>12}{'saved':>11}{'match':>12}{'remembered':>12}{'saved':>9}", flush=True
    )
    for name, build, events in cases():
        coding, by_memory, whole, with_memory = compared([build() for _ in range(4)], events)
        print(
            f"{name:32}{coding:7.2f} us{by_memory:9.2f} us{coding - by_memory:8.2f} us{whole:9.2f} us{with_memory:9.2f} us"
            f"{1 - with_memory / whole:9.1%}",
            flush=True,
        )


def cases() -> Iterator[tuple[str, Callable[[], MatchIndex], Events]]:
    drawn = Random(5)
    texts = [flat_rule(number % (FLAT // 10), wildcard=False) for number in range(FLAT)]
    events: Events = [dict(flat_event(place, drawn.randrange(FLAT // 10))) for place in range(EVENTS)]
    yield "hypermatch, 6 strings", partial(of_texts, texts), events
    texts = [logs.rule(drawn) for _ in range(logs.RULES)]
    yield "logs, 11 attributes, patterns", partial(of_texts, texts), [logs.event(drawn) for _ in range(EVENTS)]
    w3, w4 = sparse(SUBSCRIPTIONS, events=EVENTS), segments(SUBSCRIPTIONS, events=EVENTS)
    yield "W3, 60 numbers", partial(of_table, w3.predicates()), w3.event_dicts()
    build = partial(of_table, w4.predicates())
    yield "W4, 6 strings, 2 numbers", build, [w4.event(place) for place in range(EVENTS)]
    popular = np.cumsum(1 / np.arange(1, KINDS + 1))
    chosen = np.searchsorted(popular, np.random.default_rng(1).random(EVENTS) * popular[-1]).tolist()
    yield f"W4, {KINDS:,} events by Zipf", build, [w4.event(place) for place in chosen]


def of_texts(texts: Sequence[str]) -> MatchIndex:
    index = MatchIndex()
    index.add_many(range(len(texts)), texts)
    return index


def of_table(predicates: Any) -> MatchIndex:
    index = MatchIndex()
    index.add_predicates(predicates)
    return index


def compared(indexes: list[MatchIndex], events: Events) -> tuple[float, float, float, float]:
    """Medians in µs an event: coding, coding by what is remembered, and the whole match with either. `indexes`: one for each, of the same
    content, because each remembers layouts and matches."""
    views = [segmented(index).view() for index in indexes]
    coders, drawn = [encode_single, Remembered().encode, encode_single, Remembered().encode], Random(1)
    seconds = np.zeros((len(events), 4))
    for number, event in enumerate(events):
        found: dict[int, list[Any]] = {}
        for way in drawn.sample(range(4), 4):
            view = views[way]
            single = read_single(event, view.attributes, strict=False)
            blocks = coded_blocks(view.snapshot.blocks)
            assert blocks, "no block codes single events"
            setattr(cached_segment, NAME, coders[way])
            start = time.perf_counter()
            if way < 2:
                found[way] = [coders[way](single, block.space, view.segmented.vocabulary) for block in blocks]
            else:
                found[way] = indexes[way].match(event)
            seconds[number, way] = time.perf_counter() - start
        setattr(cached_segment, NAME, encode_single)
        for ours, theirs in zip(found[0], found[1], strict=True):
            assert all((one == other).all() for one, other in zip(ours, theirs, strict=True)), "other codes"
        assert found[2] == found[3], "other matches"
    coding, by_memory, whole, with_memory = np.median(seconds[len(events) // 2 :], axis=0) * 1e6
    return float(coding), float(by_memory), float(whole), float(with_memory)


def segmented(index: MatchIndex) -> SegmentedIndex:
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    return engine


def coded_blocks(parts: Sequence[Segment]) -> list[CachedSegment]:
    """Returns the blocks that code a single event, also those inside others."""
    found = [block for block in parts if isinstance(block, CachedSegment) and not isinstance(block, DenseSegment)]
    for block in parts:
        if isinstance(block, SharedSegment):
            found += coded_blocks([block._inside])
        found += coded_blocks(block.parts)
    return found
