"""Where subscriptions go, and what is moved when that was uneven."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import SettingError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import NEVER, UNIVERSAL, PivotColumn, Route
from ray_pubsub.sharding.placement import PARTS, SPLIT_FROM, Placement, part_of, parts_of
from ray_pubsub.sharding.rebalance import Group, Move, plan_rebalance


def seen(events: int, **carried: int) -> AttributeFrequencies:
    frequencies = AttributeFrequencies()
    rows = [{name: 1 for name, count in carried.items() if row < count} for row in range(events)]
    frequencies.observe(read_events(rows))
    return frequencies


# ------------------------------------------------------------------------------------------------------------------ parts


def test_parts_are_the_same_everywhere_and_forever() -> None:
    """Kept data depends on them."""
    assert [part_of(id) for id in ("s1", "", "\u00e9", 1, -1, 2**63 - 1)] == [209, 194, 179, 46, 19, 70]
    assert part_of(1) != part_of("1")


def test_parts_in_bulk() -> None:
    ids: list[str | int] = ["s1", 1, "1", -5]
    assert parts_of(ids).tolist() == [part_of(id) for id in ids]
    assert parts_of(np.arange(5)).tolist() == [part_of(id) for id in range(5)]


# ------------------------------------------------------------------------------------------------------------- one by one


def test_a_pivot_stays_together_and_a_new_one_goes_where_the_least_is_to_do() -> None:
    placement = Placement(3)
    placed = [placement.place(Route((pivot,)), number) for number, pivot in enumerate("aaabbcdd")]
    assert placed == [0, 0, 0, 1, 1, 2, 2, 2]
    assert placement.sizes == [3, 2, 3]


def test_what_occurs_often_weighs_more() -> None:
    placement = Placement(2, seen(10, often=10, rare=1))
    for number in range(5):
        placement.place(Route(("rare",)), number)
    placement.place(Route(("often",)), 5)
    assert placement.place(Route(("other",)), 6) == 0
    assert placement.loads[1] == 1.0


def is_split(placement: Placement, pivot: str) -> bool:
    """Whether new subscriptions of the pivot are spread over shards."""
    return pivot in placement.state()["split"]


def test_dense_data_is_even_from_the_start() -> None:
    for shards in (2, 3, 5):
        placement = Placement(shards)
        for number in range(20_000):
            placement.place(Route(("x",)), number)
        sizes = placement.sizes
        assert sum(sizes) == 20_000
        assert max(sizes) <= 20_000 / shards * 1.12
        assert is_split(placement, "x")


def test_a_small_pivot_is_not_split_and_neither_is_one_with_no_more_than_its_share() -> None:
    placement = Placement(2)
    for number in range(SPLIT_FROM):
        placement.place(Route(("x",)), number)
    assert not is_split(placement, "x")
    pivots = Placement(2)
    for number in range(40 * 2 * SPLIT_FROM):
        pivots.place(Route((f"p{number % 40}",)), number)
    assert [is_split(pivots, f"p{pivot}") for pivot in range(40)] == [False] * 40
    assert pivots.sizes == [20 * 2 * SPLIT_FROM] * 2


def test_one_shard_is_never_split() -> None:
    placement = Placement(1)
    assert {placement.place(UNIVERSAL, number) for number in range(2 * SPLIT_FROM)} == {0}
    assert placement.version == 0


def test_universal_ones_are_spread_too() -> None:
    placement = Placement(2, seen(1, x=1))
    for number in range(4000):
        placement.place((UNIVERSAL, NEVER)[number % 2], number)
    assert max(placement.sizes) < 2300


def test_removing() -> None:
    placement = Placement(2)
    shard = placement.place(Route(("x",)), 1)
    placement.place(Route(("y",)), 2)
    placement.remove(Route(("x",)), shard)
    assert (placement.sizes, placement.loads) == ([0, 1], [0.0, 1.0])
    with pytest.raises(SettingError):
        placement.remove(Route(("x",)), shard)
    assert placement.place(Route(("z",)), 3) == shard


# ---------------------------------------------------------------------------------------------------------------- in bulk


def column(pivots: list[str]) -> PivotColumn:
    return PivotColumn.of([Route((pivot,)) for pivot in pivots])


def test_dense_data_in_bulk() -> None:
    placement = Placement(2)
    shards = placement.place_many(column(["x"] * 10_000), np.arange(10_000))
    assert np.bincount(shards).tolist() == placement.sizes
    assert max(placement.sizes) < 5200
    # One that comes later goes where its hash says, and so does the same one in bulk.
    assert placement.place(Route(("x",)), 17) == shards[17]


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 700)), max_size=6), st.integers(1, 4))
def test_in_bulk_every_count_is_kept(amounts: list[tuple[str, int]], shards: int) -> None:
    pivots = [name for name, amount in amounts for _ in range(amount)]
    placement = Placement(shards)
    placed = placement.place_many(column(pivots), [f"s{number}" for number in range(len(pivots))])
    assert placed.dtype == np.int32
    assert np.bincount(placed, minlength=shards).tolist() == placement.sizes
    for name in set(pivots):
        own = placed[np.array(pivots) == name]
        assert is_split(placement, name) or len(set(own.tolist())) == 1
        for shard, count in enumerate(np.bincount(own, minlength=shards).tolist()):
            placement.remove(Route((name,)), shard, count)
    assert placement.sizes == [0] * shards
    assert placement.loads == [0.0] * shards


def test_many_pivots_in_bulk_are_even() -> None:
    random = np.random.default_rng(1)
    pivots = [f"p{number}" for number in random.zipf(1.5, 5000) % 200]
    placement = Placement(4)
    placement.place_many(column(pivots), np.arange(5000))
    assert max(placement.sizes) < 1.15 * 5000 / 4


# ------------------------------------------------------------------------------------------------------------------ state


def test_state_and_recounting_give_the_same_decisions() -> None:
    first = Placement(3)
    routes = [Route((f"p{number % 3}",)) for number in range(3000)]
    shards = [first.place(route, number) for number, route in enumerate(routes)]
    saved = msgpack.unpackb(msgpack.packb(first.state()))
    again = Placement.of_state(saved)
    counted = Counter(zip(shards, routes, strict=True))
    again.recount([(shard, route, count) for (shard, route), count in counted.items()])
    assert (again.sizes, again.loads, again.version) == (first.sizes, first.loads, first.version)
    for number in range(3000, 3100):
        for pivot in ("p0", "p1", "new"):
            assert again.place(Route((pivot,)), number) == first.place(Route((pivot,)), number)


def test_the_version_grows_when_there_is_something_to_save() -> None:
    placement = Placement(2)
    for number in range(SPLIT_FROM):
        placement.place(Route(("x",)), number)
    assert placement.version == 0
    placement.place(Route(("x",)), SPLIT_FROM)
    assert placement.version == 1


def test_new_frequencies_change_the_loads() -> None:
    placement = Placement(2)
    placement.place(Route(("x",)), 1)
    placement.place(Route(("y",)), 2)
    placement.reweigh(seen(4, x=4, y=2))
    assert placement.loads == [1.0, 0.5]


@pytest.mark.parametrize("shards", [0, 5000, "2", None])
def test_bad_settings(shards: Any) -> None:
    with pytest.raises(SettingError):
        Placement(shards)


# -------------------------------------------------------------------------------------------------------------- rebalance


def loads(groups: list[Group], shards: int) -> list[int]:
    found = [0] * shards
    for group in groups:
        found[group.shard] += group.subscriptions
    return found


def moved(groups: list[Group], moves: list[Move]) -> list[Group]:
    for move in moves:
        before = groups
        own = [
            group.pivot == move.pivot and group.shard == move.source and (not move.parts or group.part in move.parts)
            for group in before
        ]
        groups = [group._replace(shard=move.target) if mine else group for group, mine in zip(before, own, strict=True)]
        assert sum(group.subscriptions for group, mine in zip(before, own, strict=True) if mine) == move.subscriptions
        assert move.subscriptions > 0
    return groups


def spread(pivot: str, shard: int, count: int) -> list[Group]:
    parts = Counter(part_of(f"{pivot}{number}") for number in range(count))
    return [Group(pivot, part, shard, amount) for part, amount in sorted(parts.items())]


def test_nothing_to_do() -> None:
    groups = [*spread("a", 0, 100), *spread("b", 1, 105)]
    assert plan_rebalance(groups, 2) == []
    assert plan_rebalance([], 3) == []


def test_a_whole_pivot_rather_than_parts_of_one() -> None:
    groups = [*spread("a", 0, 1000), *spread("b", 0, 500), *spread("c", 1, 500)]
    assert plan_rebalance(groups, 2, factor=1.0) == [Move("b", (), 0, 1, 500)]


def test_parts_of_a_large_pivot_rather_than_many_small_ones() -> None:
    small = [group for number in range(200) for group in spread(f"p{number}", 0, 3)]
    moves = plan_rebalance([*spread("x", 0, 20_000), *small], 2)
    assert [(move.pivot, move.source, move.target) for move in moves] == [("x", 0, 1)]


def test_a_hot_pivot_is_split_in_one_move_per_shard() -> None:
    groups = spread("x", 0, 50_000)
    moves = plan_rebalance(groups, 4)
    assert [(move.source, move.target) for move in moves] == [(0, 1), (0, 2), (0, 3)]
    assert all(move.parts for move in moves)
    assert max(loads(moved(groups, moves), 4)) <= 1.1 * 12_500


def test_new_shards_are_filled() -> None:
    groups = [group for number in range(60) for group in spread(f"p{number}", number % 2, 100 + number)]
    moves = plan_rebalance(groups, 3, factor=1.05)
    total = sum(group.subscriptions for group in groups)
    assert max(loads(moved(groups, moves), 3)) <= 1.05 * total / 3
    assert len(moves) <= 40


def test_frequencies_count() -> None:
    groups = [*spread("often", 0, 300), *spread("half", 0, 200), *spread("rare", 1, 1000)]
    moves = plan_rebalance(groups, 2, seen(100, often=100, half=50, rare=10), factor=1.0)
    assert moves[0] == Move("half", (), 0, 1, 200)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 3), st.integers(1, 2000)), min_size=1, max_size=12),
    st.integers(4, 5),
    st.sampled_from([1.0, 1.1, 1.5]),
)
def test_within_the_factor_or_no_part_could_be_moved(
    pivots: list[tuple[int, int, int]], shards: int, factor: float
) -> None:
    groups = list(
        {(g.pivot, g.part, g.shard): g for p, shard, count in pivots for g in spread(f"p{p}", shard, count)}.values()
    )
    moves = plan_rebalance(groups, shards, factor=factor)
    after = moved(groups, moves)
    found = loads(after, shards)
    assert sum(found) == sum(loads(groups, shards))
    mean = sum(found) / shards
    if max(found) > factor * mean:
        fullest = found.index(max(found))
        smallest: Counter[tuple[str, int]] = Counter()
        for group in after:
            if group.shard == fullest:
                smallest[group.pivot, group.part] += group.subscriptions
        assert min(smallest.values()) >= max(found) - min(found)
    assert max(found) <= max(loads(groups, shards))


def test_applied_moves_change_where_new_ones_go() -> None:
    placement = Placement(2)
    for number in range(200):
        assert placement.place(Route(("x",)), number) == 0
    groups = [Group("x", part, 0, count) for part, count in Counter(map(part_of, range(200))).items()]
    moves = plan_rebalance(groups, 2)
    placement.apply(moves)
    assert placement.version == len(moves) == 1
    assert placement.sizes == loads(moved(groups, moves), 2)
    for number in range(200):
        assert placement.place(Route(("x",)), number) == int(part_of(number) in moves[0].parts)
    placement.apply([Move("x", (), 1, 0, placement.sizes[1])])
    assert placement.sizes[1] == 0
    assert {placement.place(Route(("x",)), number) for number in range(PARTS)} == {0}


def test_a_whole_pivot_that_moved_goes_on_there() -> None:
    placement = Placement(2)
    placement.place(Route(("x",)), 1)
    placement.apply([Move("x", (), 0, 1, 1)])
    assert (placement.sizes, placement.place(Route(("x",)), 2)) == ([0, 1], 1)


def test_bad_plans() -> None:
    with pytest.raises(SettingError):
        plan_rebalance([], 2, factor=0.5)
    with pytest.raises(SettingError, match="no shard 7"):
        plan_rebalance([Group("x", 0, 7, 1)], 2)
