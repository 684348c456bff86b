"""A cache gives what the segment would: whatever repeats, however full it is, and from several threads."""

from __future__ import annotations

import threading
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub import MatchIndex
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.engines.vector_cache import cache as module
from ray_pubsub.engines.vector_cache import single_cache
from ray_pubsub.engines.vector_cache.cache import VectorCache
from ray_pubsub.engines.vector_cache.single_cache import SingleCache
from ray_pubsub.engines.vector_cache.store import VectorStore
from ray_pubsub.kernels.columns.code_vectors import count_repeats, hash_vectors
from tests.inside_of_index import prefer_bitmaps
from tests.unit.engines.vector_cache.always import Always


def batch(random: np.random.Generator, events: int, distinct: int) -> EventCodes:
    """Events of 0 to 5 cells; the same number is the same vector in every batch."""
    sizes, cells = [], []
    for number in random.integers(0, distinct, events).tolist():
        own = np.random.default_rng(number)
        size = int(own.integers(0, 6))
        sizes.append(size)
        cells += [(column, int(own.integers(0, 3))) for column in sorted(own.choice(9, size, replace=False).tolist())]
    column, code = (np.array([cell[part] for cell in cells], np.int32) for part in (0, 1))
    return EventCodes(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64), column, code)


def answers(codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Matches that tell all vectors apart: a number for each cell, in its place."""
    counts = np.diff(codes.offsets)
    place = np.arange(len(codes.code)) - np.repeat(codes.offsets[:-1], counts)
    return codes.offsets.copy(), (place * 1000 + codes.column * 10 + codes.code).astype(np.int64)


def check(cache: VectorCache, codes: EventCodes) -> int:
    """Compares, spoils what was given, and returns how many events were matched."""
    asked = []

    def compute(chosen: EventCodes) -> Any:
        asked.append(len(chosen.offsets) - 1)
        return answers(chosen)

    found, expected = cache.match(codes, compute), answers(codes)
    for mine, wanted in zip(found, expected, strict=True):
        assert (mine == wanted).all() and mine.dtype == np.int64
        mine[:] = -7  # what a caller does with it is no matter of the cache
    return sum(asked)


@pytest.mark.parametrize("distinct", [1, 30, 5000])
def test_matches_are_those_of_the_segment(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    cache = VectorCache(0, Always())
    asked = [check(cache, batch(random, int(random.integers(8, 300)), distinct)) for _ in range(20)]
    stats = cache.stats()
    assert stats.events - stats.hits == sum(asked) and stats.vectors <= sum(asked)
    if distinct <= 30:
        assert sum(asked) <= distinct and asked[-1] == 0


def test_it_stays_within_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_BYTES", 20_000)
    random = np.random.default_rng(3)
    cache = VectorCache(0, Always())
    sizes = []
    for _ in range(60):
        check(cache, batch(random, 100, 3000))
        sizes.append(cache.stats().bytes)
    assert max(sizes) < 60_000 and any(later < earlier for earlier, later in pairwise(sizes))
    check(cache, batch(random, 2000, 100_000))  # more than ever fits
    assert cache.stats().bytes < 60_000


def test_equal_hashes_are_not_equal_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "hash_vectors", lambda cells, seed: np.full(len(cells[0]) - 1, 5, np.uint64))
    random = np.random.default_rng(4)
    cache = VectorCache(0, Always())
    for _ in range(6):
        check(cache, batch(random, 60, 50))
    assert cache.stats().hits > 200


def test_a_reader_does_not_see_what_was_added_after_it_came() -> None:
    random = np.random.default_rng(5)
    first, second = batch(random, 20, 1000), batch(random, 20, 1000)
    cells = [(codes.offsets, codes.column, codes.code) for codes in (first, second)]
    hashes = [hash_vectors(each, np.uint64(1)) for each in cells]
    before = VectorStore().with_more(cells[0], hashes[0], answers(first))
    after = before.with_more(cells[1], hashes[1], answers(second))
    assert (after.find(cells[1], hashes[1]) >= 0).all()
    assert ((before.find(cells[1], hashes[1]) < 0) | np.isin(hashes[1], hashes[0])).all()


def test_threads_share_it() -> None:
    cache, failures = VectorCache(0, Always()), list[BaseException]()

    def work(seed: int) -> None:
        try:
            random = np.random.default_rng(seed)
            for _ in range(20):
                check(cache, batch(random, 100, 400))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and cache.stats().hits


def test_small_batches_and_plain_steps_go_past_it() -> None:
    random = np.random.default_rng(6)
    cache = VectorCache(0, Always())
    for _ in range(5):
        assert check(cache, batch(random, 7, 2)) == 7
    assert cache.stats().events == 0
    idle = VectorCache(0)
    assert check(idle, batch(random, 50, 2)) == 50 and idle.stats().events == 0


def test_repeats_are_counted_by_a_sample() -> None:
    seen = np.zeros(1 << 13, np.uint64)
    random = np.random.default_rng(7)
    pool = random.integers(0, 2**63, 500).astype(np.uint64)
    looked = found = 0
    for _ in range(20):
        both = count_repeats(random.choice(pool, 1000), seen, 8)
        looked, found = looked + both[0], found + both[1]
    assert 1500 < looked < 3500 and found / looked > 0.9
    fresh = random.integers(0, 2**63, 5000).astype(np.uint64)
    assert count_repeats(fresh, seen, 8)[1] <= 1


def test_single_events_are_found_again_within_bytes() -> None:
    random = np.random.default_rng(8)
    single, asked = SingleCache(40_000, Always()), 0
    for _ in range(600):
        codes = batch(random, 1, 150)

        def compute(given: EventCodes = codes) -> NDArray[np.int64]:
            nonlocal asked
            asked += 1
            return answers(given)[1]

        found = single.match(lambda given=codes: given.column.tobytes() + given.code.tobytes(), compute)  # type: ignore[misc]
        assert (found == answers(codes)[1]).all()
        found[:] = -7
        assert single.stats().bytes <= 40_000
    stats = single.stats()
    assert stats.events == 600 and stats.hits == 600 - asked > 100 and 0 < stats.vectors < 150


def test_dense_segments_share_a_cache_for_single_events(monkeypatch: pytest.MonkeyPatch) -> None:
    prefer_bitmaps(monkeypatch)
    monkeypatch.setattr(single_cache, "CachePolicy", Always)
    monkeypatch.setattr(module, "ENABLED", True)
    index = MatchIndex()
    texts = [" and ".join(f"a{place} between {low} and {low + 30}" for place in range(5)) for low in range(50)] * 30
    texts = [f"{text} and a5 <= {number}" for number, text in enumerate(texts)]
    index.add_many(range(len(texts)), texts, atomic=True)
    events = [{f"a{place}": value + place for place in range(6)} for value in (10, 30, 10, 30, 10)]
    before = [index.match(event) for event in events]
    index.remove(before[0][0])
    index.add("new", "a0 = 10")
    after = [index.match(event) for event in events]
    assert after[0] == after[2] == after[4] == [*before[0][1:], "new"] and after[1] == after[3]
    stats = index.stats()
    assert stats.blocks_by_engine() == {"dense": 1}
    assert stats.vectors is not None and (stats.vectors.events, stats.vectors.hits) == (10, 8)
