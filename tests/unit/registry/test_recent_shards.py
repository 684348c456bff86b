"""Removed subscriptions keep their shard for as long as a publication may last, in few bytes, and not for long after."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.registry.recent_shards import RecentShards

SECONDS = 60.0
IDS = st.sampled_from(["s1", "s2", "1", "", 1, 2, -1, -2, -(2**63), 2**63 - 1])
STEPS = st.lists(st.tuples(st.dictionaries(IDS, st.integers(0, 3), max_size=3), st.integers(0, 50)), max_size=12)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def nbytes(recent: RecentShards) -> int:
    return sum(span.shards.nbytes for span in recent._spans)


def test_an_id_that_comes_back_keeps_its_shard_for_a_while() -> None:
    clock = Clock()
    recent = RecentShards(SECONDS, clock)
    recent.leave({"s1": 3})
    clock.now += 59
    recent.leave({"s2": 1})
    assert recent.find(["s1", "s2", "s3"]) == {"s1": 3, "s2": 1}
    clock.now += 30
    assert recent.find(["s1", "s2", "s3"]) == {"s2": 1}
    clock.now += 1_000
    assert recent.find(["s1", "s2"]) == {} and not recent._spans


@given(STEPS)
def test_what_left_in_time_is_known_by_its_last_shard(steps: list[tuple[dict[Any, int], int]]) -> None:
    clock, left = Clock(), dict[Any, tuple[int, float]]()
    recent = RecentShards(SECONDS, clock)
    for shards, passed in steps:
        recent.leave(shards)
        left.update({id: (shard, clock.now) for id, shard in shards.items()})
        clock.now += passed
        found = recent.find(list(left))
        assert found.items() <= {id: shard for id, (shard, _) in left.items()}.items()
        assert found.keys() >= {id for id, (_, at) in left.items() if clock.now - at <= SECONDS}


def test_removals_take_few_bytes_and_only_those_of_the_last_seconds() -> None:
    clock = Clock()
    recent = RecentShards(SECONDS, clock)
    each, every = 5_000, 1.0
    kept = each * SECONDS / every
    for number in range(200):
        recent.leave(dict.fromkeys((f"t{number}-{place}" for place in range(each // 2)), 1))
        recent.leave(dict.fromkeys(range(number * each, number * each + each // 2), 2))
        clock.now += every
        assert nbytes(recent) < 70 * kept
    assert sum(len(span.shards) for span in recent._spans) < 1.5 * kept
    assert recent.find([f"t{199}-0", 199 * each, 0]) == {"t199-0": 1, 199 * each: 2}
