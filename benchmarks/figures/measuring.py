"""One point of a curve: build an engine's index, check its matches, time single events by the processor's clock."""

from __future__ import annotations

import functools
import gc
import math
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ray_pubsub
from benchmarks.figures.sweeps import CALL, SERIES, SWEEPS, Made, Point, Scale, Sweep
from benchmarks.reference import APPROXIMATE, REFERENCES, TooLargeError
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.workloads import Workload

__all__ = ["changes", "measure_point"]

CHANGES = 1100
"""Subscriptions that are added, then removed, one by one: enough for a tail to become a block."""
SLOWEST = 20.0
"""Seconds of the processor that one series may take at one point, beside its building."""
CHECKED_TEXTS = 3
FIRST = 1500
"""Subscriptions of the index that is built before the first measurement of a series, so that no figure has the loading of kernels in it."""
LARGE = 200_000
BYTES_PER_TEST = 150
"""Of generating, building and holding subscriptions, at most."""


def measure_point(name: str, place: int, scale: Scale, wanted: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yields a row per series."""
    sweep = SWEEPS[name]
    points = sweep.points(scale)
    point = points[place]
    shared = {"sweep": name, "place": place, "x": point.x, "label": point.label}
    if point.tests * BYTES_PER_TEST > (free := free_bytes()):
        refused = f"needs about {point.tests * BYTES_PER_TEST / 2**30:.0f} GB, {free / 2**30:.0f} are free"
        yield from (shared | {"series": series, "status": "no memory", "note": refused} for series in wanted)
        return
    made = point.make()
    dicts = made.event_dicts() if isinstance(made, Workload) else made.events
    expected = expected_matches(made, dicts, scale)
    for series in wanted:
        each_event = sweep.each_event and place == len(points) - 1
        yield shared | {"series": series} | measured(made, dicts, expected, series, point, scale, sweep, each_event)
        if point_is_large(made):
            gc.collect()


def free_bytes() -> float:
    """Returns the memory that this machine has left; where it does not say, as much as anybody asks for."""
    file = Path("/proc/meminfo")
    lines = file.read_text().splitlines() if file.exists() else []
    return next((int(line.split()[1]) * 1024.0 for line in lines if line.startswith("MemAvailable")), math.inf)


def point_is_large(made: Made) -> bool:
    """Returns whether memory should be given back between two series; for small ones that would take longer than measuring."""
    return isinstance(made, Workload) and made.subscriptions > LARGE


def expected_matches(made: Made, dicts: list[dict[str, Any]], scale: Scale) -> list[NDArray[np.int64]]:
    """Of the first events, by comparing every test, or by the specification."""
    if isinstance(made, Workload):
        few = Workload(
            made.name, made.attributes, made.offsets, made.attribute, made.low, made.high,
            made.event_offsets[: scale.checked + 1], made.event_attribute, made.event_value,
            low_closed=made.low_closed, high_closed=made.high_closed,
        )  # fmt: skip
        return few.matches()
    scan = ray_pubsub.MatchIndex("scan")
    scan.add_many(range(len(made.texts)), made.texts)
    return [np.sort(np.array(scan.match(event), np.int64)) for event in dicts[:CHECKED_TEXTS]]


def measured(
    made: Made, dicts: list[dict[str, Any]], expected: list[NDArray[np.int64]], series: str, point: Point, scale: Scale,
    sweep: Sweep, each_event: bool,
) -> dict[str, Any]:  # fmt: skip
    """What a figure may show of one series at one point; of one that is too large only that."""
    if series == CALL:
        return empty_call(dicts, scale)
    engine = SERIES[series].engine
    size = size_of(made)
    updates = sweep.updates and engine not in REFERENCES  # a reference has none of its own, but those of our index
    warm(made, dicts, series, point, updates)
    try:
        builds = []
        for _ in range(scale.builds if sweep.builds and size <= LARGE else 1):
            index, build = built(made, dicts, series, point)
            builds.append(build)
    except TooLargeError as error:
        return {"status": "too large", "subscriptions": size, "note": str(error)}
    false_positives, found = check(index, dicts, expected, exact=engine not in APPROXIMATE)
    times, matches = timed(index, dicts, scale)
    row = {
        "status": "ok",
        "subscriptions": size,
        "build_s": float(np.mean(builds)),
        "build_std_s": float(np.std(builds)),
        "bytes": index.nbytes,
        "events": len(times),
        "mean_ms": float(times.mean()),
        "std_ms": float(times.std()),
        "min_ms": float(times.min()),
        "max_ms": float(times.max()),
        "matches": float(matches.mean()),
        "checked": found,
        "false_positives": false_positives,
    }
    if updates:
        row |= changes(index, made, size)
    if each_event:
        pairs = [f"{count}:{took:.4f}" for count, took in zip(matches.tolist(), times.tolist(), strict=True)]
        row["each_event"] = " ".join(pairs)
    return row


def built(made: Made, dicts: list[dict[str, Any]], series: str, point: Point) -> tuple[ray_pubsub.MatchIndex, float]:
    """Returns an index that has answered once, and the seconds of the processor that this took."""
    engine, options = SERIES[series]
    index = ray_pubsub.MatchIndex(engine, options={**options, **point.options})
    source = made.predicates() if isinstance(made, Workload) else made.texts
    start = time.process_time()
    if isinstance(made, Workload):
        index.add_predicates(source)
    else:
        index.add_many(range(len(made.texts)), source)
    index.match(dicts[0])
    return index, time.process_time() - start


@functools.cache
def _warmed() -> set[tuple[str, str, bool]]:
    """Series, workloads and whether there are updates: what this process has built already."""
    return set()


def warm(made: Made, dicts: list[dict[str, Any]], series: str, point: Point, updates: bool) -> None:
    """Builds a small index of the same kind once per process; what it takes is not measured."""
    key = (series, made.name, updates)
    if key in _warmed():
        return
    _warmed().add(key)
    few = first_of(made)
    with suppress(TooLargeError):
        index, _ = built(few, dicts, series, point)
        index.match_many(from_dicts(dicts[:1]))
        if updates:
            changes(index, few, size_of(few))


def size_of(made: Made) -> int:
    return made.subscriptions if isinstance(made, Workload) else len(made.texts)


def first_of(made: Made) -> Made:
    if not isinstance(made, Workload):
        return replace(made, texts=made.texts[:FIRST])
    offsets = made.offsets[: FIRST + 1]
    tests = slice(0, int(offsets[-1]))
    closed = [None if each is None else each[tests] for each in (made.low_closed, made.high_closed)]
    return replace(
        made, offsets=offsets, attribute=made.attribute[tests], low=made.low[tests], high=made.high[tests],
        low_closed=closed[0], high_closed=closed[1],
    )  # fmt: skip


def empty_call(dicts: list[dict[str, Any]], scale: Scale) -> dict[str, Any]:
    index = ray_pubsub.MatchIndex()
    index.add(0, "false")
    times, _ = timed(index, dicts, scale)
    return {"status": "ok", "events": len(times), "mean_ms": float(times.mean()), "std_ms": float(times.std())}


def check(
    index: ray_pubsub.MatchIndex, dicts: list[dict[str, Any]], expected: list[NDArray[np.int64]], *, exact: bool
) -> tuple[int, int]:
    """No match is missed and, if exact, nothing else is found. Returns false positives and matches of the checked events."""
    result = index.match_many(dicts[: len(expected)])
    wrong = total = 0
    for event, right in enumerate(expected):
        found = np.sort(np.array(result[event], np.int64))
        assert np.isin(right, found).all(), f"event {event}: a match is missing"
        wrong += len(found) - len(right)
        total += len(right)
    assert wrong == 0 or not exact, f"{wrong} matches too many"
    return wrong, total


def timed(index: ray_pubsub.MatchIndex, dicts: list[dict[str, Any]], scale: Scale) -> tuple[NDArray[Any], NDArray[Any]]:
    """Milliseconds of this thread's processor per event, one event at a time, prepared: reading dicts is not in it."""
    batches = [from_dicts([event]) for event in dicts]
    for batch in batches:
        batch.cells()
    index.match_many(batches[0])
    times: list[float] = []
    matches: list[int] = []
    used = 0.0
    for batch in batches:
        best = np.inf
        for _ in range(scale.repeats):
            start = time.thread_time()
            result = index.match_many(batch)
            took = time.thread_time() - start
            best, used = min(best, took), used + took
        times.append(best * 1e3)
        matches.append(len(result))
        if used > SLOWEST:
            break
    return np.array(times), np.array(matches)


def changes(index: ray_pubsub.MatchIndex, made: Made, size: int, count: int = CHANGES) -> dict[str, Any]:
    """Microseconds of the processor per addition and per removal: the mean, with the merges that they cause, and the worst. `made`: like
    what the index of `size` subscriptions holds."""
    texts = texts_of(made, count)
    added, removed = [], []
    for number, text in enumerate(texts, size):
        start = time.process_time()
        index.add(number, text)
        added.append((time.process_time() - start) * 1e6)
    for number in range(size, size + len(texts)):
        start = time.process_time()
        index.remove(number)
        removed.append((time.process_time() - start) * 1e6)
    return {
        "insert_us": float(np.mean(added)),
        "insert_std_us": float(np.std(added)),
        "insert_max_us": max(added),
        "delete_us": float(np.mean(removed)),
        "delete_std_us": float(np.std(removed)),
        "delete_max_us": max(removed),
    }


def texts_of(made: Made, count: int) -> list[str]:
    """Returns the first subscriptions as texts."""
    if not isinstance(made, Workload):
        return made.texts[:count]
    plain = made.closed()
    texts = []
    for number in range(min(count, made.subscriptions)):
        tests = range(int(plain.offsets[number]), int(plain.offsets[number + 1]))
        texts.append(" and ".join(f"a{plain.attribute[t]} between {plain.low[t]} and {plain.high[t]}" for t in tests))
    return texts
