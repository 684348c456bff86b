"""One event is asked only for the terms that can have a value for it, and has the matches that the specification gives."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.columns.computed.single_terms import SingleTerms, own_attributes
from ray_pubsub.language.terms import Term, term_of
from ray_pubsub.language.truth import value_of_term
from ray_pubsub.model.values import Value

EXPRESSIONS = [
    "lower(s) = 'x'", "a + b > 3", "a * 2 = b", "coalesce(a, b) > 1", "coalesce(lower(s), 'none') = 'none'", "greatest(a, b) = 2",
    "(a is null) = (b is null)", "case when a > 1 then s else 'y' end = 'y'", "lower(s) is null", "a + b is null", "a + b is not null",
    "concat(s, '!') = 'X!'", "list_contains(l, 'x')", "list_contains(l, 'x') is null", "cardinality(l) = 2", "exists(o, n > 1 and c = 'y')",
    "list_contains(coalesce(l, m), 'x')", "geo_within(a, b, 0.0, 0.0, 500.0)", "not (a + b > 3)", "upper(s) like 'X%'", "now() - t > 0",
]  # fmt: skip
POOL: dict[str, list[Any]] = {
    "a": [0, 1, 2, 2.5, "1", True], "b": [1, 2, -1.5, None], "s": ["x", "X", "", 3],
    "l": [["x", "y"], [], ["y"], [None, "x"], "x"], "m": [["x"], [1]],
    "o": [[{"n": 2, "c": "y"}], [{"n": 2}, {"c": "y"}], []], "t": [np.datetime64("2020-01-01"), 5], "other": [1, b""],
}  # fmt: skip


def test_terms_are_found_by_what_they_need() -> None:
    terms = SingleTerms()
    names = ["\0lower(s)", "\0a + b", "\0coalesce(a, c)", "\0now() - t"]
    for number, name in enumerate(names):
        terms.add(number, name, term_of(name))
    assert terms.attributes == {"s", "a", "b", "c", "t"}
    assert terms.use_now
    assert [term.name for term in terms.of([], frozenset())] == ["\0coalesce(a, c)"]
    assert [term.name for term in terms.of(["t", "s", "z"], frozenset())] == [
        "\0lower(s)",
        "\0coalesce(a, c)",
        "\0now() - t",
    ]
    assert [term.name for term in terms.of(["s"], frozenset([0]))] == ["\0coalesce(a, c)"]
    assert own_attributes(names) == {"s", "a", "b", "c", "t"}


def test_one_event_matches_as_the_scan_matches() -> None:
    index, scan = MatchIndex(), MatchIndex("scan")
    for subscriptions in (index, scan):
        subscriptions.add_many(EXPRESSIONS, EXPRESSIONS, atomic=True)
    chosen = random.Random(4)
    for _ in range(150):
        event = {name: chosen.choice(values) for name, values in POOL.items() if chosen.random() < 0.5}
        assert sorted(index.match(event)) == sorted(scan.match(event))


def test_terms_of_absent_attributes_are_not_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    index = MatchIndex()
    index.add_many(range(50), [f"lower(s{number}) = 'x'" for number in range(50)])
    evaluated = []

    def noted(term: Term, event: dict[str, Value]) -> Value | None:
        evaluated.append(term)
        return value_of_term(term, event)

    monkeypatch.setattr("ray_pubsub.columns.computed.evaluator.value_of_term", noted)
    assert index.match({"s7": "X", "z": "X"}) == [7]
    assert evaluated == [term_of("\0lower(s7)")]
