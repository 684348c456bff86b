"""The reference systems answer every case of the contract suite as the scan does; TAMA, which is approximate, never misses a match."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from benchmarks.reference import APPROXIMATE, REFERENCES, TooLargeError
from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import ENGINES
from ray_pubsub.workloads import SparseTests, Workload, dexin, generate_ranges, generate_sparse, rein
from tests.unit.engines.test_rein import CASES, case_answers


@pytest.fixture(autouse=True, scope="module")
def rows() -> Iterator[None]:
    ENGINES.update(REFERENCES)
    yield
    for name in REFERENCES:
        del ENGINES[name]


@pytest.mark.parametrize("engine", REFERENCES)
def test_cases_of_the_contract_suite(engine: str) -> None:
    make: Any = REFERENCES[engine].segment
    answered = 0
    for case in CASES:
        right = [item["matches"] for item in case["events"]]
        found = case_answers(make, case["subscriptions"], [item["event"] for item in case["events"]])
        if found is None:
            continue
        answered += 1
        if engine in APPROXIMATE:
            assert all(set(expected) <= set(ids) for expected, ids in zip(right, found, strict=True)), case["name"]
        else:
            assert found == right, case["name"]
    assert answered > len(CASES) // 2


WORKLOADS = {
    "dexin": lambda: generate_ranges(dexin(subscriptions=1500, attributes=4, cardinality=800, events=12)),
    "rein": lambda: generate_ranges(rein(subscriptions=1500, attributes=6, constrained=2, cardinality=500, events=40)),
    "sparse": lambda: generate_sparse(SparseTests(1500, dimensions=30, event_size=12, largest=4, values=20, events=40)),
}
FEW = {"h-tree": {"cells": 3, "indexed": 3}, "tama": {"levels": 5}, "be-tree": {"capacity": 3}}


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("engine", "given"), [*((engine, {}) for engine in REFERENCES), *FEW.items()], ids=str)
def test_generated_subscriptions(engine: str, workload: str, given: dict[str, Any]) -> None:
    made: Workload = WORKLOADS[workload]()
    index = MatchIndex(engine, options=given)
    index.add_predicates(made.predicates())
    assert index.stats().blocks_by_engine() == {engine: 1}
    found = index.match_many(made.event_dicts())
    for event, expected in enumerate(made.matches()):
        ids = np.sort(np.array(found[event], np.int64))
        if engine in APPROXIMATE:
            assert np.isin(expected, ids).all()
        else:
            assert np.array_equal(ids, expected)


def test_coarse_cells_of_tama_give_false_positives() -> None:
    """Otherwise the experiments' column of false positives would always be zero."""
    made = WORKLOADS["dexin"]()
    sizes = []
    for levels in (2, 13):
        index = MatchIndex("tama", options={"levels": levels})
        index.add_predicates(made.predicates())
        sizes.append(len(index.match_many(made.event_dicts())))
    assert sizes[0] > sizes[1] >= sum(map(len, made.matches()))


def test_what_would_need_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = WORKLOADS["dexin"]()
    for engine, module, name in (("h-tree", "h_tree", "MOST_COPIES"), ("k-index", "k_index", "MOST_POSTINGS")):
        monkeypatch.setattr(f"benchmarks.reference.{module}.{name}", 1000)
        index = MatchIndex(engine)
        with pytest.raises(TooLargeError, match="the bound is 1,000"):
            index.add_predicates(made.predicates())
