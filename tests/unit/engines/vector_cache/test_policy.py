"""The cache is used where it saves time, and left alone where it does not."""

from __future__ import annotations

from collections import Counter

from ray_pubsub.engines.vector_cache.policy import BATCHES, SINGLE_EVENTS, CachePolicy, Step

MICROSECOND = 1e-6
PROBES, LONGEST, WARM, EVERY = BATCHES[2:6]


def run(policy: CachePolicy, batches: int, *, plain: float, cached: float, repeats: float) -> Counter[Step]:
    """Batches of 1,000 events; `plain` and `cached` are microseconds an event."""
    steps: Counter[Step] = Counter()
    for _ in range(batches):
        step = policy.next()
        steps[step] += 1
        if step is Step.PROBE:
            policy.probed(1000, 1000 * plain * MICROSECOND, 100, round(100 * repeats))
        elif step is Step.CONTROL:
            policy.controlled(1000, 1000 * plain * MICROSECOND)
        elif step is Step.CACHED:
            policy.used(1000, 1000 * cached * MICROSECOND)
    return steps


def test_a_stream_that_repeats_itself_is_cached_and_compared_now_and_then() -> None:
    policy = CachePolicy()
    steps = run(policy, 1000, plain=20, cached=1, repeats=0.9)
    assert policy.on and steps[Step.PROBE] == 2 and steps[Step.PLAIN] == 0
    assert steps[Step.CONTROL] == 998 // EVERY
    assert 0.9 < policy.saved / ((998 - WARM) * 1000 * 19 * MICROSECOND) < 1


def test_without_repeats_probes_become_rare() -> None:
    policy = CachePolicy()
    steps = run(policy, 10_000, plain=20, cached=1, repeats=0.0)
    assert not policy.on and steps[Step.CACHED] == 0
    assert PROBES < steps[Step.PROBE] < PROBES + 10 + 10_000 // LONGEST


def test_cheap_matching_is_not_worth_a_look_up() -> None:
    policy = CachePolicy()
    steps = run(policy, 10_000, plain=0.4, cached=0.3, repeats=1.0)
    assert not policy.on and steps[Step.CACHED] == 0 and steps[Step.PROBE] < 12 + 10_000 // LONGEST


def test_a_cache_that_does_not_save_time_is_given_up_and_tried_less_and_less() -> None:
    policy = CachePolicy()
    steps = run(policy, 10_000, plain=20, cached=19, repeats=0.5)
    assert not policy.on and 0 < steps[Step.CACHED] < 300


def test_streams_change() -> None:
    policy = CachePolicy()
    run(policy, 100, plain=20, cached=1, repeats=0.9)
    assert policy.on
    run(policy, 100, plain=20, cached=25, repeats=0.0)
    assert not policy.on
    run(policy, 2 * LONGEST, plain=20, cached=1, repeats=0.9)
    assert policy.on


def test_single_events_are_judged_by_many() -> None:
    policy = CachePolicy(SINGLE_EVENTS)
    for number in range(40):
        assert policy.next() is Step.PROBE
        policy.probed(1, 20 * MICROSECOND, 1, number == 7)  # one that repeats another says nothing
    assert not policy.on
    while not policy.on:
        policy.next()
        policy.probed(1, 20 * MICROSECOND, 1, 1)
    for _ in range(2 * SINGLE_EVENTS.warm):
        if policy.next() is Step.CACHED:
            policy.used(1, MICROSECOND)
    assert policy.on and policy.saved > 0


def test_an_interruption_says_little() -> None:
    policy = CachePolicy()
    run(policy, 40, plain=20, cached=10, repeats=0.9)
    policy.used(1000, 1.0)
    assert policy.on and policy.cached is not None and policy.cached < 0.9 * 20 * MICROSECOND
