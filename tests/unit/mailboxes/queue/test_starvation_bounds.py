"""How long a level can be kept waiting: the bounds that the policies' docstrings state, and that they are met with equality."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.mailboxes.queue.policy import Strict, Weighted
from actors.mailboxes.queue.priority_queue import PriorityQueue
from tests.examples import scaled
from tests.unit.mailboxes.queue.putting import put, put_each
from tests.unit.mailboxes.queue.queue_model import SimulatedClock

LEVELS = ["low", "middle", "high"]
# What happens next: the levels of a batch that arrives, how many are taken, how many quarters of a second pass.
steps = st.lists(st.tuples(st.lists(st.integers(0, 2), max_size=8), st.integers(0, 6), st.integers(0, 4)), max_size=40)
Steps = list[tuple[list[int], int, int]]


@given(steps=steps, longest=st.integers(0, 12).map(lambda quarters: quarters / 4))
def test_ageing_lets_nothing_pass_that_is_younger_by_more_than_the_longest_wait(steps: Steps, longest: float) -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, policy=Strict(longest), clock=clock)
    waiting: dict[int, float] = {}
    number = 0
    for arriving, taken, passed in steps:
        items = range(number, number + len(arriving))
        number += len(arriving)
        put_each(queue, items, arriving)
        waiting |= dict.fromkeys(items, clock.now)
        for delivery in queue.take(taken).deliveries:
            del waiting[delivery.item]
            aged = [enqueued for enqueued in waiting.values() if clock.now - enqueued >= longest]
            assert all(enqueued + longest >= delivery.enqueued for enqueued in waiting.values())
            # Once an entry has waited that long, only older ones go before it.
            assert all(delivery.enqueued <= enqueued for enqueued in aged)
        clock.now += passed / 4


def test_without_ageing_the_lowest_level_starves() -> None:
    queue = PriorityQueue(LEVELS, policy=Strict(), clock=SimulatedClock())
    put(queue, "low", 0)
    for number in range(100):
        put(queue, number, 2)
        assert [delivery.item for delivery in queue.take(1).deliveries] == [number]


def test_ageing_ends_a_starvation_at_the_longest_wait() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, policy=Strict(2.0), clock=clock)
    put(queue, "low", 0)
    taken = []
    for number in range(10):
        put(queue, number, 2)
        taken += [(clock.now, delivery.item) for delivery in queue.take(1).deliveries]
        clock.now += 0.5
    assert taken[:6] == [(0.0, 0), (0.5, 1), (1.0, 2), (1.5, 3), (2.0, "low"), (2.5, 4)]


def test_of_equally_old_entries_the_highest_level_goes_first() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, policy=Strict(1.0), clock=clock)
    put(queue, "first low", 0)
    clock.now = 0.5
    put_each(queue, ["low", "middle", "high"], [0, 1, 2])
    clock.now = 2.0
    assert [delivery.item for delivery in queue.take(4).deliveries] == ["first low", "high", "middle", "low"]


def test_no_wait_is_first_in_first_out() -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(LEVELS, policy=Strict(0.0), clock=clock)
    for number, level in enumerate([0, 2, 1, 1, 0, 2, 2, 0]):
        clock.now += 0.25
        put(queue, number, level)
    assert [delivery.item for delivery in queue.take(8).deliveries] == list(range(8))


@given(steps=steps, weights=st.lists(st.integers(1, 5), min_size=3, max_size=3))
def test_weighted_rounds_keep_their_bounds(steps: Steps, weights: list[int]) -> None:
    queue = PriorityQueue(LEVELS, policy=Weighted(weights), clock=SimulatedClock())
    total = sum(weights)
    waiting = [0, 0, 0]
    since_served = [0, 0, 0]  # entries of other levels since the level was last served or became occupied
    others_allowed: dict[int, int] = {}
    others_before: dict[int, int] = {}
    level_of = [level for arriving, _, _ in steps for level in arriving]
    number = 0
    for arriving, taken, _ in steps:
        for level in arriving:
            put(queue, number, level)
            if not waiting[level]:
                since_served[level] = 0
            others_allowed[number] = ceil((waiting[level] + 1) / weights[level]) * (total - weights[level])
            others_before[number] = 0
            waiting[level] += 1
            number += 1
        for delivery in queue.take(taken).deliveries:
            level = delivery.level
            waiting[level] -= 1
            since_served[level] = 0
            del others_before[delivery.item]
            for other in range(3):
                if other != level and waiting[other]:
                    since_served[other] += 1
                    assert since_served[other] <= total - weights[other]
            for entry in others_before:
                others_before[entry] += level_of[entry] != level
                assert others_before[entry] <= others_allowed[entry]


def test_weighted_rounds_meet_their_bound() -> None:
    """An entry that comes just after its level's turn waits for everyone else's, and no longer."""
    queue = PriorityQueue(LEVELS, policy=Weighted({"middle": 2, "high": 5}), clock=SimulatedClock())
    put(queue, "first low", 0)
    queue.take(1)
    put_each(queue, ["middle"] * 9 + ["high"] * 9, [1] * 9 + [2] * 9)
    put(queue, "low", 0)
    assert [delivery.item for delivery in queue.take(9).deliveries] == ["high"] * 5 + ["middle"] * 2 + ["low", "high"]


@pytest.mark.parametrize("policy", [Strict(), Strict(0.5), Strict(0.0), Weighted(), Weighted([1, 2, 4])], ids=repr)
def test_taking_many_is_taking_one_many_times(policy: Strict | Weighted) -> None:
    taken = []
    for batch in (1, 3, 7, 50):
        clock = SimulatedClock()
        queue = PriorityQueue(LEVELS, policy=policy, deadlines=[1.0, 0.5, 0.75], expired="drop", clock=clock)
        order = []
        for number in range(40):
            put(queue, number, number * number % 7 % 3)
            clock.now += number % 4 / 32  # some come at the same instant
        for _ in range(50 // batch):
            order += [delivery.item for delivery in queue.take(batch).deliveries]
        taken.append((order, [stats.edor for stats in queue.stats()]))
    assert taken[0][0] != []
    assert taken == taken[:1] * 4


# What happens next: the levels of a batch that arrives, and whether it comes long after it was enqueued; how many are taken; how many
# quarters of a second pass.
expiring = st.lists(
    st.tuples(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=4), st.integers(0, 4), st.integers(0, 1)),
    min_size=10,
    max_size=30,
)


@settings(max_examples=scaled(50))
@given(steps=expiring, weights=st.lists(st.integers(1, 2), min_size=3, max_size=3), levels=st.integers(2, 3))
def test_what_expires_is_no_difference_between_many_and_one_many_times(
    steps: list[tuple[list[tuple[int, bool]], int, int]], weights: list[int], levels: int
) -> None:
    clock = SimulatedClock()
    policy, deadlines = Weighted(weights[:levels]), [2.0] * levels
    at_once, one_by_one = (
        PriorityQueue(LEVELS[:levels], policy=policy, deadlines=deadlines, expired="drop", clock=clock)
        for _ in range(2)
    )
    for arriving, count, passed in steps:
        for queue in (at_once, one_by_one):
            for number, (level, old) in enumerate(arriving):
                put(queue, number, level % levels, enqueued=clock.now - 2.0 if old else None)
        together, alone = at_once.take(count), [one_by_one.take(1) for _ in range(count)]
        assert together.deliveries == [delivery for taken in alone for delivery in taken.deliveries]
        assert together.lost == [lost for taken in alone for lost in taken.lost]
        clock.now += passed / 4


@pytest.mark.parametrize("counts", [(2,), (1, 1)])
def test_an_entry_that_expires_behind_a_whole_turn_begins_the_next(counts: tuple[int, ...]) -> None:
    clock = SimulatedClock()
    queue = PriorityQueue(["low", "high"], policy=Weighted(), deadlines=[9.0, 9.0], expired="drop", clock=clock)
    put(queue, "low", 0)
    put(queue, "too late", 0, enqueued=-8.5)
    clock.now = 1.0
    assert [delivery.item for count in counts for delivery in queue.take(count).deliveries] == ["low"]
    put_each(queue, ["low again", "high"], [0, 1])
    assert [delivery.item for delivery in queue.take(2).deliveries] == ["low again", "high"]
