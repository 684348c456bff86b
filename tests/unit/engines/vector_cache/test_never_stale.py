"""Through random changes of an index whose caches are always in use, matches stay those of the scan."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.vector_cache import cache, single_cache
from ray_pubsub.index.merge_policy import MergePolicy
from tests.inside_of_index import merge_all, segmented
from tests.unit.engines.vector_cache.always import Always


def text(random: Random) -> str:
    low = random.randrange(40)
    return random.choice(
        [
            " and ".join(f"a{number} between {low - number} and {low + 25}" for number in range(4)),
            f"model = 'm{random.randrange(9)}' and a0 > {low}",
            f"model like '%{random.randrange(9)}' and not (a1 = {low})",
            f"list_contains(tags, {random.randrange(5)}) and a2 < {low}",
            f"list_contains(tags, {random.randrange(5)})",
            f"a9 is null and a3 in ({low}, {low + 1}, 7)",
            "("
            + ") and (".join(f"a{number} < {low} or model = 'm{number}' or a0 = {low}" for number in range(4))
            + ")",
        ]
    )


def event(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {f"a{number}": random.choice([3, 17, 30.5, 44]) for number in range(4)}
    return {**found, "model": f"m{random.randrange(9)}", "tags": random.choices(range(6), k=random.randrange(3))}


@pytest.mark.parametrize("seed", range(3))
def test_random_changes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CachePolicy", Always)
    monkeypatch.setattr(single_cache, "CachePolicy", Always)
    monkeypatch.setattr(cache, "ENABLED", True)
    random = Random(seed)
    index, scan = MatchIndex(), MatchIndex("scan")
    segmented(index).policy = MergePolicy(tail_clauses=32)
    pool = [event(random) for _ in range(30)]
    hits = 0
    for _ in range(40):
        change = random.choice(["add", "add many", "remove", "replace", "merge", "nothing"])
        ids = random.sample(range(200), 3)
        texts = [text(random) for _ in range(150)]
        for each in (index, scan):
            if change == "add":
                each.add(ids[0], texts[0])
            elif change == "add many":
                each.add_many(range(100), texts[:100], atomic=True)
            elif change == "remove":
                each.remove_many(ids)
            elif change == "replace":
                for number, again in zip(ids, texts[:3], strict=True):
                    each.add(number, again)
        if change == "merge":
            merge_all(segmented(index))
        given = random.choices(pool, k=40)
        found = [sorted(each) for each in index.match_many(given)]
        assert found == [sorted(each) for each in scan.match_many(given)]
        assert [sorted(index.match(event)) for event in given[:6]] == found[:6]
        vectors = index.stats().vectors
        hits = max(hits, vectors.hits if vectors is not None else 0)
    assert hits > 100


def test_it_is_seen_in_stats_and_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CachePolicy", Always)
    monkeypatch.setattr(cache, "ENABLED", True)
    index = MatchIndex()
    index.add_many(range(1500), [f"x > {number} and y < {number}" for number in range(1500)], atomic=True)
    events = [{"x": number, "y": 7} for number in range(9)]
    assert "code vectors" not in str(index.stats())
    index.match_many(events)
    index.match_many(events)
    stats = index.stats()
    assert stats.vectors is not None and stats.vectors.on and stats.vectors.events == 18 and stats.vectors.hits == 9
    assert stats.vectors.hit_rate == 0.5 and stats.vectors.vectors == 9 and stats.vectors.bytes > 0
    assert "cache of code vectors, on: 9 of 18 events needed no matching, 9 vectors" in str(stats)
    assert stats.to_dict()["vectors"]["hits"] == stats.blocks[0].vectors.hits == 9  # type: ignore[union-attr]
    plan = index.explain(events[3])
    assert plan.segments[0].cached and "in the cache for batches" in str(plan)
    assert not index.explain({"x": 100, "y": 7}).segments[0].cached
