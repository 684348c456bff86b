"""Conjunctions of disjunctions (OpIndex section 6.1): against every test one by one, and the facts of the paper."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.engines.cnf.conjunctive_index import CnfIndex

PAPER = tomllib.loads((Path(__file__).parents[2] / "contract" / "paper_cases.toml").read_text())
FACT = next(fact for fact in PAPER["fact"] if fact["name"] == "opindex cnf example")
CASE = next(case for case in PAPER["case"] if case["name"] == "opindex dnf and cnf")

Disjunction = Sequence[tuple[int, int, int]]
"""Tests (column, low, high), of which one must hold."""

TOP = np.full(5, 20, np.int32)
A, B, C, D, E = range(5)
CNF: list[list[Disjunction]] = [
    [[(A, 2, 2), (C, 6, 6), (E, 1, 9)], [(B, 6, 6), (D, 12, 20)]],
    [[(A, 2, 2), (A, 8, 8)], [(B, 3, 3), (C, 6, 6)]],
]
NAMES = ["cnf", "cnf_repeated"]
FREQUENCY = np.array([3.0, 3.0, 3.0, 2.0, 3.0])  # Table 1's


def index_of(
    subscriptions: Sequence[Sequence[Disjunction]],
    top: NDArray[np.int32] = TOP,
    frequency: NDArray[np.float64] | None = None,
) -> CnfIndex:
    flat = list(chain.from_iterable(subscriptions))
    tests = np.array(list(chain.from_iterable(flat)), np.int32).reshape(-1, 3)
    column, low, high = (np.ascontiguousarray(tests[:, part]) for part in range(3))
    disjunctions, members = np.cumsum([0, *map(len, subscriptions)]), np.cumsum([0, *map(len, flat)])
    return CnfIndex(disjunctions, members, (column, low, high), top, frequency)


def codes_of(events: list[dict[int, int]]) -> EventCodes:
    offsets = np.cumsum([0, *map(len, events)])
    cells = np.array([pair for event in events for pair in event.items()], np.int32).reshape(-1, 2)
    return EventCodes(offsets, cells[:, 0].copy(), cells[:, 1].copy())


def matched(index: CnfIndex, events: list[dict[int, int]]) -> list[list[int]]:
    offsets, numbers = index.match(codes_of(events))
    return [sorted(numbers[first:last].tolist()) for first, last in pairwise(offsets)]


def expected(subscriptions: list[list[Disjunction]], events: list[dict[int, int]]) -> list[list[int]]:
    def holds(subscription: list[Disjunction], event: dict[int, int]) -> bool:
        return all(any(low <= event.get(c, 0) <= high for c, low, high in members) for members in subscription)

    return [[n for n, subscription in enumerate(subscriptions) if holds(subscription, event)] for event in events]


def random_case(
    rng: np.random.Generator, columns: int, top: int, most_disjunctions: int, absent: float
) -> tuple[list[list[Disjunction]], list[dict[int, int]]]:
    def test() -> tuple[int, int, int]:
        low, high = sorted(rng.integers(1, top + 1, 2).tolist())
        shape = rng.integers(0, 4)
        low, high = [(low, low), (1, high), (low, top), (low, high)][shape]
        return int(rng.integers(columns)), 0 if rng.random() < absent else low, high

    subscriptions: list[list[Disjunction]] = [
        [[test() for _ in range(rng.integers(1, 5))] for _ in range(rng.integers(0, most_disjunctions + 1))]
        for _ in range(60 if most_disjunctions > 64 else 250)
    ]
    events = [
        {c: int(rng.integers(1, top + 1)) for c in rng.permutation(columns)[: rng.integers(0, columns + 1)].tolist()}
        for _ in range(80)
    ]
    return subscriptions, events


@pytest.mark.parametrize("absent", [0.0, 0.3])
@pytest.mark.parametrize(("columns", "top", "most"), [(4, 3, 4), (12, 9, 6), (60, 5, 3), (3, 2, 130)])
def test_random_conjunctions(columns: int, top: int, most: int, absent: float) -> None:
    subscriptions, events = random_case(np.random.default_rng(columns), columns, top, most, absent)
    index = index_of(subscriptions, np.full(columns, top, np.int32))
    assert matched(index, events) == expected(subscriptions, events)
    assert matched(index, events) == expected(subscriptions, events)  # what one call has seen is no matter to the next


def pivots_of(index: CnfIndex, subscription: int) -> list[int]:
    """Returns the columns under which a subscription is found."""
    return [column for column in range(len(TOP)) if subscription in index.met(column)]


def test_pivots_of_the_example() -> None:
    index = index_of(CNF, TOP, FREQUENCY)
    found = {name: ["ABCDE"[column] for column in pivots_of(index, number)] for number, name in enumerate(NAMES)}
    assert found == FACT["pivots"]


@pytest.mark.parametrize("item", CASE["events"], ids=lambda item: str(item["event"]))
def test_events_of_the_example(item: dict[str, Any]) -> None:
    event = {"ABCDE".index(name): value for name, value in item["event"].items()}
    found = [NAMES[number] for number in matched(index_of(CNF, TOP, FREQUENCY), [event])[0]]
    assert found == [name for name in item["matches"] if name in NAMES]


@pytest.mark.parametrize("step", FACT["bitmaps"], ids=lambda step: str(step["event"]))
def test_bitmaps_of_the_example(step: dict[str, Any]) -> None:
    """The paper's bits of open disjunctions: a subscription matches when there is none."""
    index = index_of([CNF[NAMES.index(step["subscription"])]], TOP, FREQUENCY)
    event = {"ABCDE".index(name): value for name, value in step["event"].items()}
    assert matched(index, [event]) == [[] if any(step["bits"]) else [0]]


def test_a_subscription_met_under_several_pivots_is_reported_once() -> None:
    index = index_of([[[(A, 1, 20), (B, 1, 20), (C, 1, 20)]]])
    assert pivots_of(index, 0) == [A, B, C]
    assert matched(index, [{A: 1, B: 1, C: 1}, {C: 2}, {D: 1}]) == [[0], [0], []]


def test_edges() -> None:
    """No disjunctions always hold, an empty one never; a bound may lie beyond the largest code."""
    subscriptions: list[list[Disjunction]] = [[], [[]], [[(A, 1, 99)]], [[(A, 5, 4)]], [[(A, 0, 0)]]]
    index = index_of(subscriptions)
    assert matched(index, [{}, {A: 20}]) == expected(subscriptions, [{}, {A: 20}]) == [[0, 4], [0, 2]]
    assert matched(index_of([]), [{A: 1}]) == [[]]


def test_the_pivot_is_the_disjunction_least_expected_to_hold() -> None:
    frequency = np.array([5.0, 1.0, 1.0, 9.0, 1.0])

    def pivots(*disjunctions: Disjunction) -> list[int]:
        return pivots_of(index_of([disjunctions], TOP, frequency), 0)

    assert pivots([(A, 1, 1), (B, 1, 1)], [(D, 1, 1)]) == [A, B]
    assert pivots([(A, 1, 1), (B, 1, 1)], [(C, 1, 1), (E, 1, 1)]) == [C, E]
    assert pivots([(A, 1, 1), (B, 1, 1)], [(C, 1, 20), (E, 1, 1)]) == [A, B]
    assert pivots([(A, 0, 1)], [(C, 1, 1), (E, 1, 1)]) == [C, E]
    assert pivots([(A, 0, 1)], [(C, 0, 0), (E, 1, 1)]) == []
    assert pivots() == []
