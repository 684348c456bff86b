"""The parameters of OpIndex come out of its generators."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.workloads import (
    SparseTests,
    Workload,
    forms,
    generate_sparse,
    keywords,
    prefixes,
    product_sets,
    products,
)
from ray_pubsub.workloads.distributions import distinct_in_rows

SMALL = SparseTests(subscriptions=4000, dimensions=500, events=50)


def sizes(offsets: np.ndarray) -> np.ndarray:
    return np.diff(offsets)


def repeated(offsets: np.ndarray, attribute: np.ndarray) -> bool:
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    return len(np.unique(np.stack([owner, attribute]), axis=1).T) < len(attribute)


@pytest.mark.parametrize("skew", [0.0, 0.6, 1.0])
def test_sizes_operators_and_values(skew: float) -> None:
    made = generate_sparse(SMALL.having(skew=skew, largest=12, event_size=40, equalities=0.6, values=30))
    count = sizes(made.offsets)
    assert count.min() == 1 and count.max() == 12 and abs(count.mean() - 6.5) < 0.2
    assert (sizes(made.event_offsets) == 40).all()
    assert not repeated(made.offsets, made.attribute) and not repeated(made.event_offsets, made.event_attribute)
    assert made.low.min() >= 1 and made.high.max() <= 30 and made.event_value.max() <= 30
    if skew == 0:
        assert abs((made.low == made.high).mean() - 0.6) < 0.03
        assert np.bincount(made.attribute, minlength=500).min() > 0
    else:
        uses = np.sort(np.bincount(made.attribute, minlength=500))[::-1]
        assert uses[:50].sum() > (0.3 if skew == 0.6 else 0.45) * uses.sum()


def test_rows_of_distinct_values_favour_heavy_ones_however_long_they_are() -> None:
    for width in (2, 60):  # drawn again where they repeat, and all ordered by keys
        drawn = distinct_in_rows(np.random.default_rng(1), 100, (2000, width), 1.0)
        assert all(len(set(row)) == width for row in drawn.tolist())
        uses = np.bincount(drawn.ravel(), minlength=100)
        assert uses[:10].mean() > 1.5 * uses[-10:].mean()


@pytest.mark.parametrize("words", [5.4, 123.0])
@pytest.mark.parametrize("intervals", [False, True])
def test_keywords(words: float, intervals: bool) -> None:
    made = keywords(3000, words, intervals=intervals, events=100)
    assert abs(sizes(made.offsets).mean() - 2.4) < 0.1
    assert abs(sizes(made.event_offsets).mean() / words - 1) < 0.1
    assert (made.high > made.low).all() if intervals else (made.high == made.low).all()


def test_products_ask_less_unevenly_than_products_carry() -> None:
    made = products(5000, events=300)

    def heaviest(attribute: np.ndarray) -> float:
        return float(np.sort(np.bincount(attribute))[::-1][:100].sum() / len(attribute))

    assert heaviest(made.attribute) < heaviest(made.event_attribute)
    assert not repeated(made.offsets, made.attribute)
    assert (made.low == made.high).all()


def test_product_sets_are_those_subscriptions_with_more_values() -> None:
    plain, sets = products(300, events=40), product_sets(300, events=40)
    assert sets.events == plain.event_dicts() and len(sets.texts) == 300
    test = sets.texts[0].split(" and ")[0]
    assert test.startswith(f"a{plain.attribute[0]} in (") and str(plain.low[0]) in re.findall(r"\d+", test)[1:]
    index = MatchIndex("opindex")
    index.add_many(range(300), sets.texts)
    found = index.match_many(sets.events)
    assert all(set(right.tolist()) <= set(found[event]) for event, right in enumerate(plain.matches()))


def agrees(made: Workload) -> None:
    index = MatchIndex("opindex")
    index.add_predicates(made.predicates())
    found = index.match_many(made.event_dicts())
    assert [sorted(found[event]) for event in range(made.events)] == [each.tolist() for each in made.matches()]


def test_plain_matching_agrees_with_an_engine() -> None:
    agrees(generate_sparse(SMALL))
    agrees(replace(keywords(500, events=20), name="few"))


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_prefixes(share: float) -> None:
    made = prefixes(1500, share, 2, events=10)
    tests = [test for text in made.texts for test in text.split(" and ")]
    assert abs(sum("like" in test for test in tests) / len(tests) - share) < 0.03
    index, scan = MatchIndex(), MatchIndex("scan")
    for each in (index, scan):
        each.add_many(range(1500), made.texts)
    found = [sorted(index.match(event)) for event in made.events]
    assert found == [sorted(scan.match(event)) for event in made.events]
    assert share < 1 or any(found)


def test_forms() -> None:
    conjunctive, disjunctive = forms(200, "cnf", 3, events=2), forms(200, "dnf", 3, events=2)
    assert max(text.count("(") for text in conjunctive.texts) == 3
    assert [text.replace(" and ", " or ") for text in conjunctive.texts] == [
        text.replace(" and ", " or ") for text in disjunctive.texts
    ]
