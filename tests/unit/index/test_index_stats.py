"""What an index says of itself agrees with what was put into it, in every engine."""

from __future__ import annotations

import json
import pickle
import random
from typing import Any

import pytest

import ray_pubsub
from ray_pubsub.engines.registry import engine_names

CACHED = ("dexin", "gem")


def filled(engine: str, count: int = 3000, **options: Any) -> ray_pubsub.MatchIndex:
    """Bulk, so that there is a block; and all different, so that none is shared."""
    draw = random.Random(1)
    index = ray_pubsub.MatchIndex(engine, **options)
    texts = [
        f"x >= {(low := draw.randrange(10_000))} and x <= {low + 500} and y <= {number}" for number in range(count)
    ]
    assert index.add_many(range(count), texts)
    return index


@pytest.mark.parametrize("engine", engine_names())
def test_an_empty_index_holds_nothing(engine: str) -> None:
    stats = ray_pubsub.MatchIndex(engine).stats()
    assert (stats.engine, stats.subscriptions, stats.clauses, stats.blocks, stats.tail) == (engine, 0, 0, (), 0)


@pytest.mark.parametrize("engine", engine_names())
def test_everything_is_in_a_block_or_in_the_tail(engine: str) -> None:
    index = filled(engine)
    index.add("one more", "z = 1 or y = 2")
    index.remove(7)
    stats = index.stats()
    assert stats.subscriptions == len(index) == 3000
    if engine == "scan":
        assert stats.clauses_by_engine() == {"scan": 3000}
        assert stats.removed == 0
    else:
        assert stats.clauses == 3002  # a removed one stays until its block is merged; the disjunction has two
        assert sum(block.clauses + block.shared for block in stats.blocks) + stats.tail == stats.clauses
        assert stats.tail == 2
        assert stats.removed == 1
    assert stats.bytes == index.nbytes > 0
    assert all(block.bytes > 0 for block in stats.blocks)


@pytest.mark.parametrize("engine", engine_names())
def test_the_blocks_are_of_the_engine(engine: str) -> None:
    (kind,) = filled(engine).stats().blocks_by_engine()
    assert kind == engine or (engine == "auto" and kind in ("dense", "pivot"))


def test_equal_clauses_are_told_apart_from_stored_ones() -> None:
    index = ray_pubsub.MatchIndex("rein")
    index.add_many(range(4000), [f"x = {number % 1000}" for number in range(4000)])
    (block,) = index.stats().blocks
    assert (block.engine, block.clauses, block.shared) == ("rein", 1000, 3000)


def test_conjunctions_of_disjunctions_have_a_block_of_their_own() -> None:
    index = filled("rein")
    text = " and ".join(f"(a{place} = 1 or b{place} = 2 or c{place} = 3)" for place in range(8))
    index.add_many([f"cnf {number}" for number in range(3000)], [f"{text} and d = {number}" for number in range(3000)])
    assert index.stats().blocks_by_engine()["cnf"] == 1


@pytest.mark.parametrize("engine", CACHED)
def test_steps_from_a_cache_are_counted(engine: str) -> None:
    index = filled(engine, cache=64)
    before = index.stats().cache
    assert before is not None
    assert (before.steps, before.hits, before.hit_rate) == (0, 0, None)
    for start in range(0, 10_000, 500):
        index.match({"x": start, "y": 5})
    once = index.stats().cache
    assert once is not None
    assert 0 < once.hits <= once.steps
    index.match_many([{"x": start, "y": 5} for start in range(0, 10_000, 500)])
    twice = index.stats().cache
    assert twice is not None
    assert (twice.steps, twice.hits) == (2 * once.steps, 2 * once.hits)


@pytest.mark.parametrize("engine", CACHED)
def test_without_a_cache_nothing_begins_at_one(engine: str) -> None:
    index = filled(engine, cache=0)
    index.match_many([{"x": start, "y": 5} for start in range(0, 10_000, 500)])
    cache = index.stats().cache
    assert cache is not None
    assert cache.hits == 0 < cache.steps


@pytest.mark.parametrize("engine", sorted({*engine_names()} - {*CACHED}))
def test_engines_without_a_cache_say_so(engine: str) -> None:
    assert filled(engine).stats().cache is None


def test_it_is_plain_data_and_can_be_read() -> None:
    index = filled("dexin", cache=8)
    index.match({"x": 5, "y": 5})
    index.add("last", "z = 1")
    stats = index.stats()
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert json.loads(json.dumps(stats.to_dict()))["blocks"][0]["engine"] == "dexin"
    text = str(stats)
    assert "3,001 subscriptions" in text
    assert "dexin: 3,000 clauses" in text
    assert "tail: 1 clause\n" in text
    assert "began at a cached bit set" in text
