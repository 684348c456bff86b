"""Readers beside a writer: every answer is that of the rules before a change or after it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from ray_pubsub import PriorityRules
from tests.unit.priority.plain_rules import LEVELS

CHANGES = 150


@contextmanager
def often_switched_threads() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def settled(rules: PriorityRules, event: dict[str, int], texts: list[tuple[str, str]]) -> set[str]:
    """The event's priority with each of the versions of the rule "moving", one after the other."""
    found = set()
    for level, text in texts:
        rules.add("moving", level, text)
        found.add(rules.priority(event))
    return found


@pytest.mark.parametrize("confirm", [True, False])
def test_a_rule_that_moves_between_levels_is_never_in_none(confirm: bool) -> None:
    """Its two versions both match the event: from low levels to high ones and back, there is no moment without the rule."""
    rules = PriorityRules(LEVELS, confirm=confirm, false_positive_rate=1e-6)
    rules.add_many(range(50), ["normal"] * 50, [f"y = {number}" for number in range(50)])
    versions = [("high", "x > 5 and x < 20"), ("critical", "x > 8"), ("high", "x > 7 and z is null")]
    event = {"x": 10}
    allowed = settled(rules, event, versions)
    assert allowed == {"high", "critical"}
    stop = threading.Event()

    def read() -> set[str]:
        found = set()
        while not stop.is_set():
            found.add(rules.priority(event))
            found.update(rules.priorities([event, {"x": 11}]))
        return found

    with often_switched_threads(), ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(CHANGES):
                rules.add("moving", *versions[number % 3])
        finally:
            stop.set()
        for reader in readers:
            assert reader.result() <= allowed


@pytest.mark.parametrize("confirm", [True, False])
def test_answers_of_a_batch_are_of_before_or_after(confirm: bool) -> None:
    """Two disjoint rule sets take turns in one change each; an event is always matched by exactly one of them."""
    rules = PriorityRules(LEVELS, confirm=confirm, false_positive_rate=1e-6)
    count = 20
    ids = [f"r{number}" for number in range(count)]
    here = [f"x = {number}" for number in range(count)]
    there = [f"x = {number + count}" for number in range(count)]
    rules.add_many(ids, ["critical"] * count, here)
    events = [{"x": number} for number in range(2 * count)]
    stop = threading.Event()
    before = ["critical"] * count + ["low"] * count
    after = ["low"] * count + ["critical"] * count

    def read() -> list[list[str]]:
        found = []
        while not stop.is_set():
            answer = rules.priorities(events)
            if answer not in found:
                found.append(answer)
        return found

    with often_switched_threads(), ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(CHANGES):
                rules.add_many(ids, ["critical"] * count, there if number % 2 == 0 else here)
        finally:
            stop.set()
        for reader in readers:
            for answer in reader.result():
                if confirm:
                    assert answer in (before, after)
                else:  # each event by itself: filters may hold both versions for a moment, and then say the higher level
                    assert all(got in (old, new) for got, old, new in zip(answer, before, after, strict=True))


def test_readers_while_rules_are_added_removed_and_rebuilt() -> None:
    """Rules that stay are seen at any time; rules of another level come and go around them."""
    rules = PriorityRules(LEVELS)
    rules.add_many(range(30), ["high"] * 30, [f"x >= {number} and x < {number + 1}" for number in range(30)])
    events = [{"x": number + 0.5, "y": 1} for number in range(30)]
    stop = threading.Event()

    def read() -> set[str]:
        found: set[str] = set()
        while not stop.is_set():
            found.update(rules.priorities(events))
        return found

    with often_switched_threads(), ThreadPoolExecutor(2) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            for number in range(CHANGES):
                rules.add(f"other {number}", "normal", f"y = 1 and x > {number}")
                if number % 3 == 0:
                    rules.add(f"pattern {number}", "normal", "name like '%x%'")
                if number % 5 == 4:
                    rules.remove_many([f"other {number - 2}", f"pattern {number - 1}"])
                if number % 50 == 0:
                    rules.rebuild()
        finally:
            stop.set()
        for reader in readers:
            assert reader.result() <= {"high"}


def test_two_writers() -> None:
    rules = PriorityRules(LEVELS)

    def write(first: int) -> None:
        for number in range(first, first + 60):
            rules.add(number, "high", f"x = {number}")
            if number % 2:
                rules.remove(number)

    with often_switched_threads(), ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write, 0), pool.submit(write, 60)]:
            done.result()
    assert len(rules) == 60
    assert rules.priorities([{"x": number} for number in range(120)]) == ["high", "low"] * 60
