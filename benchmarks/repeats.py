"""Streams that repeat events: what the cache of code vectors saves, and what it costs where nothing repeats.

python -m benchmarks repeats [--subscriptions N] [--workloads w1,w2,w3,logs] [--distinct 1000,10000,…]

A stream draws from a number of distinct events by Zipf's law: the k-th most frequent one comes 1/k times as often as the first. The last
stream has no two events alike. Every batch is matched twice, by the index as it is and with the cache switched off, and all matches are
compared. Figures are CPU time per event of batches in the second half of the stream, without reading the events; beside them the time of
the whole stream with the cache, as a part of that without: there the cache also fills, is tried and is given up. Then events of the same
stream one by one.

`logs`: 2,000 detection rules with patterns, and a stream in which no two events are equal: each is one of 500 kinds, by Zipf's law, with
a command line and 27 fields of its own. What repeats is what the rules see of it. Beside it the time that an event by
itself takes to be coded, which is all that a cache from values to codes could save.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from benchmarks.rules import logs
from ray_pubsub.columns.event_codes import encode_single
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.vector_cache import cache
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import Kind
from ray_pubsub.workloads import Workload, dense, partial, sparse

__all__ = ["main"]

BATCH = 2000
SINGLES = 8000
LOG_KINDS, LOG_BATCH = 500, 500
WORKLOADS: dict[str, Callable[..., Workload]] = {"w1": dense, "w2": partial, "w3": sparse}


class Events(NamedTuple):
    """Distinct events: each has as many attributes as the others."""

    attribute: NDArray[np.int32]
    value: NDArray[np.int32]

    @classmethod
    def like(cls, workload: Workload, count: int, random: np.random.Generator) -> Events:
        """More events, drawn as those of a workload are: its values, by attribute or at all, in new combinations."""
        width = int(workload.event_offsets[1])
        attribute = workload.event_attribute.reshape(-1, width)
        row = random.integers(0, len(attribute), count)
        low, high = int(workload.event_value.min()), int(workload.event_value.max())
        return cls(attribute[row], random.integers(low, high + 1, (count, width)).astype(np.int32))

    def batch(self, chosen: NDArray[np.int64], names: list[str]) -> EventBatch:
        attribute, value = self.attribute[chosen], self.value[chosen]
        ids = np.arange(len(chosen))
        if (attribute == attribute[0]).all():
            every = enumerate(attribute[0].tolist())
            lanes = [
                Lane(names[number], Kind.NUMBER, None, value[:, place].astype(np.int64)) for place, number in every
            ]
            return EventBatch(len(chosen), lanes, ids)
        row = np.repeat(np.arange(len(chosen), dtype=np.int32), attribute.shape[1])
        order = np.argsort(attribute.ravel(), kind="stable")
        found, first = np.unique(attribute.ravel()[order], return_index=True)
        parts = zip(np.split(row[order], first[1:]), np.split(value.ravel()[order], first[1:]), strict=True)
        lanes = [
            Lane(names[number], Kind.NUMBER, rows, values.astype(np.int64))
            for number, (rows, values) in zip(found.tolist(), parts, strict=True)
        ]
        return EventBatch(len(chosen), lanes, ids)


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks repeats", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--workloads", default="w1,w3,logs")
    parser.add_argument("--distinct", default="1000,10000,100000,1000000")
    parser.add_argument("--batches", type=int, default=150)
    options = parser.parse_args(arguments)
    title = f"{'without':>12}{'with':>12}{'saved':>8}{'stream':>9}{'hits':>7}{'vectors':>10}{'bytes':>10}"
    print(f"{'':6}{'distinct':>12}{title}{'compared':>14}{'singles without':>18}{'with':>12}{'stream':>9}")
    for name in options.workloads.split(","):
        if name == "logs":
            _measure_logs(options.batches)
            continue
        workload = WORKLOADS[name](options.subscriptions, events=1000)
        for distinct in [*map(int, options.distinct.split(",")), 0]:
            _measure(workload, distinct, options.batches)


def _measure_logs(batches: int) -> None:
    """A line for the log stream, in µs an event: batches of the second half, then single events, and how long coding one takes."""
    drawn, random = Random(7), np.random.default_rng(11)
    texts = [logs.rule(drawn) for _ in range(logs.RULES)]
    kinds = [logs.event(drawn) for _ in range(LOG_KINDS)]
    index = ray_pubsub.MatchIndex()
    index.add_many(range(len(texts)), texts)
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    view = engine.view()
    weight = np.cumsum(1 / np.arange(1, LOG_KINDS + 1))
    seconds, compared = np.zeros((batches, 2)), 0
    for number in range(batches):
        chosen = np.searchsorted(weight, random.random(LOG_BATCH) * weight[-1])
        events = [_log_event(kinds[kind], drawn) for kind in chosen.tolist()]
        found: dict[int, Hits] = {}
        for place in _in_turns(random):
            batch = read_events(events)
            batch.cells()
            cache.ENABLED = bool(place)
            start = time.process_time()
            found[place] = view.match(batch)
            seconds[number, place] = time.process_time() - start
        row = np.repeat(np.arange(LOG_BATCH), np.diff(found[0].offsets))
        assert (_ordered(row, found[1].slots) == _ordered(row, found[0].slots)).all(), "the cache gave other matches"
        compared += len(row)
    late = seconds[batches // 2 :].mean(axis=0) / LOG_BATCH * 1e6
    stats = index.stats().vectors
    assert stats is not None
    whole, coding = _coding_of_singles(engine, kinds, drawn)
    print(
        f"logs  {'no two equal':>12}{late[0]:9.2f} us{late[1]:9.2f} us{1 - late[1] / late[0]:8.0%}"
        f"{seconds[1:, 1].sum() / seconds[1:, 0].sum():8.3f}x{stats.hit_rate or 0.0:7.0%}{stats.vectors:10,}"
        f"{stats.bytes / 2**20:7.1f} MB{compared:14,}; an event by itself {whole:.0f} us, of which coding {coding:.0f} us",
        flush=True,
    )


def _log_event(kind: dict[str, Any], drawn: Random) -> dict[str, Any]:
    own = {name: drawn.random() for name in logs.OTHERS}
    command = f"{kind['command']} /{drawn.random():.12f}"
    return kind | own | {"command": command}


def _coding_of_singles(engine: SegmentedIndex, kinds: list[dict[str, Any]], drawn: Random) -> tuple[float, float]:
    """Medians in µs: an event by itself, without the cache; and coding it for all blocks."""
    cache.ENABLED = False
    view = engine.view()
    blocks: list[Any] = [block for block in view.snapshot.blocks if isinstance(block, PivotSegment)]
    whole, coding = [], []
    for kind in kinds:
        single = read_single(_log_event(kind, drawn), view.attributes, strict=False)
        start = time.perf_counter()
        view.match(single)
        whole.append(time.perf_counter() - start)
        single = read_single(_log_event(kind, drawn), view.attributes, strict=False)
        start = time.perf_counter()
        for block in blocks:
            encode_single(single, block.space, block.vocabulary)
        coding.append(time.perf_counter() - start)
    return float(np.median(whole)) * 1e6, float(np.median(coding)) * 1e6


def _stream(distinct: int, batches: int, random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yields which events each batch has; with 0 distinct ones no two are alike."""
    if not distinct:
        yield from np.arange(batches * BATCH).reshape(batches, BATCH)
        return
    weight = np.cumsum(1 / np.arange(1, distinct + 1))
    for _ in range(batches):
        yield np.searchsorted(weight, random.random(BATCH) * weight[-1])


def _measure(workload: Workload, distinct: int, batches: int) -> None:
    random = np.random.default_rng(11)
    index = ray_pubsub.MatchIndex()
    index.add_predicates(workload.predicates())
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    events = Events.like(workload, distinct or batches * BATCH, random)
    names = workload.names()
    seconds = np.zeros((batches, 2))
    compared = 0
    view = engine.view()
    for number, chosen in enumerate(_stream(distinct, batches, random)):
        found: dict[int, Hits] = {}
        for place in _in_turns(random):
            batch, enabled = events.batch(chosen, names), bool(place)
            cache.ENABLED = enabled
            start = time.process_time()
            found[place] = view.match(batch)
            seconds[number, place] = time.process_time() - start
        ours, plain = found[1], found[0]
        assert (ours.offsets == plain.offsets).all()
        row = np.repeat(np.arange(BATCH), np.diff(plain.offsets))
        assert (_ordered(row, ours.slots) == _ordered(row, plain.slots)).all(), "the cache gave other matches"
        compared += len(plain.slots)
    late = seconds[batches // 2 :].mean(axis=0) / BATCH * 1e6
    whole = seconds[1:].sum(axis=0)  # the first batch makes what later ones need
    stats = index.stats().vectors
    assert stats is not None
    rate = stats.hit_rate or 0.0
    each, of_singles = _single_events(engine, events, names, _stream(distinct, 1 + SINGLES // BATCH, random), random)
    print(
        f"{workload.name:6}{distinct or 'no repeats':>12}{late[0]:9.2f} us{late[1]:9.2f} us{1 - late[1] / late[0]:8.0%}"
        f"{whole[1] / whole[0]:8.3f}x{rate:7.0%}{stats.vectors:10,}{stats.bytes / 2**20:7.1f} MB{compared:14,}"
        f"{each[0]:15.1f} us{each[1]:9.1f} us{of_singles:8.3f}x",
        flush=True,
    )


def _in_turns(random: np.random.Generator) -> tuple[int, int]:
    """Without the cache (0) and with it (1): the first of the two fetches memory for the other."""
    return (0, 1) if random.random() < 0.5 else (1, 0)


def _single_events(
    engine: SegmentedIndex,
    events: Events,
    names: list[str],
    stream: Iterator[NDArray[np.int64]],
    random: np.random.Generator,
) -> tuple[NDArray[np.float64], float]:
    """CPU time of one event in the second half, without the cache and with it; and the ratio of the whole."""
    view = engine.view()
    chosen = np.concatenate(list(stream))[:SINGLES] % len(events.value)
    seconds = np.zeros((len(chosen), 2))
    for place, (attribute, value) in enumerate(zip(events.attribute[chosen], events.value[chosen], strict=True)):
        event = {names[number]: each for number, each in zip(attribute.tolist(), value.tolist(), strict=True)}
        found: dict[int, Hits] = {}
        for which in _in_turns(random):
            single = read_single(event, view.attributes, strict=False)
            cache.ENABLED = bool(which)
            start = time.perf_counter()
            found[which] = view.match(single)
            seconds[place, which] = time.perf_counter() - start
        assert (np.sort(found[0].slots) == np.sort(found[1].slots)).all(), "the cache gave other matches"
    # The median of the clock: what else runs on the machine interrupts few of them.
    late = np.median(seconds[len(seconds) // 2 :], axis=0) * 1e6
    capped = np.minimum(seconds, 10 * np.median(seconds, axis=0))
    return late, float(capped[:, 1].sum() / capped[:, 0].sum())


def _ordered(row: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.sort(row << 32 | slots)


if __name__ == "__main__":
    main([])
