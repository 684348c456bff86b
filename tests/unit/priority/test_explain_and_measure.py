"""Looking behind the answers: rules and signatures of an event, false positives by their source, what the statistics say."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import PriorityRules
from ray_pubsub.priority import Bins, Categories, Function, Quantiles, Steps
from ray_pubsub.priority.instantiation.boxes import Refusal
from ray_pubsub.priority.statistics import ConfirmationStats
from tests.unit.priority.plain_rules import LEVELS


def test_the_rule_and_its_signature() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r1", "critical", "temperature > 60 and site in ('A', 'B')")
    rules.add("r2", "high", "temperature >= 40")
    explained = rules.explain({"temperature": 75, "site": "A"})
    assert (explained.level, explained.exact, explained.rules) == ("critical", "critical", ("r1",))
    assert explained.expressions == ("temperature > 60 and site in ('A', 'B')",)
    lines = str(explained).splitlines()
    assert lines[0] == "critical: a rule matches"
    assert lines[1] == "  rule 'r1': temperature > 60 and site in ('A', 'B')"
    assert any("(site = 'A', temperature 60 < number): critical" in line for line in lines)
    assert any("(temperature 40 <= number): high" in line for line in lines)
    assert str(rules.explain({"temperature": 1})) == "low: no rule matches"


def test_what_the_filters_said_too_much_is_told() -> None:
    rules = PriorityRules(LEVELS, discretizers={"x": Bins([0, 100])})
    rules.add("r", "critical", "x = 5")
    explained = rules.explain({"x": 6})
    assert explained.level == "low"
    assert explained.reason == "no rule matches; the filters said critical too, and no rule confirmed it"
    unconfirmed = PriorityRules(LEVELS, confirm=False, discretizers={"x": Bins([0, 100])})
    unconfirmed.add("r", "critical", "x = 5")
    explained = unconfirmed.explain({"x": 6})
    assert (explained.level, explained.exact) == ("critical", "low")
    assert "the bins are wider than the rule" in explained.reason
    assert explained.signatures[0].covered == ("critical",)


def test_rules_that_are_matched_exactly_are_told_with_the_reason() -> None:
    rules = PriorityRules(LEVELS, discretizers={"f": Function(lambda value: 0, 1)})
    many = " and ".join(f"(a{number} = 1 or b{number} = 2 or c{number} = 3)" for number in range(8))
    wide = " and ".join(f"w{number} > 1" for number in range(13))
    texts = {
        "pattern": "name like '%fire%'",
        "form": many,
        "function": "f > 5",
        "attributes": wide,
        "fine": "x > 5",
    }
    rules.add_many(list(texts), ["high"] * len(texts), list(texts.values()))
    stats = rules.stats()
    assert stats.exact_reasons == {
        Refusal.PATTERN: 1,
        Refusal.NORMAL_FORM: 1,
        Refusal.FUNCTION: 1,
        Refusal.ATTRIBUTES: 1,
    }
    assert stats.exact_rules == sum(stats.exact_reasons.values())
    events: dict[str, dict[str, Any]] = {
        "pattern": {"name": "a fire"},
        "form": {f"{'abc'[number % 3]}{number}": 1 + number % 3 for number in range(8)},
        "function": {"f": 6},
        "attributes": {f"w{number}": 2 for number in range(13)},
        "fine": {"x": 6},
    }
    for name, event in events.items():
        assert rules.priority(event) == "high"
        assert rules.explain(event).rules == (name,)
    assert "a pattern on free text" in str(rules.explain(events["pattern"]))
    assert rules.priorities([{"name": "water"}, {"f": 5}, {"x": 5}]) == ["low"] * 3


def test_a_rule_of_too_many_boxes_is_matched_exactly() -> None:
    """Ten separate bins on each of four attributes."""
    rules = PriorityRules(LEVELS)
    texts = [" and ".join(f"p{place} = {(number + place) % 20}" for place in range(4)) for number in range(200)]
    rules.add_many(range(200), ["normal"] * 200, texts)
    odd = ", ".join(str(number) for number in range(1, 20, 2))
    rules.add("odd", "high", " and ".join(f"p{place} in ({odd})" for place in range(4)))
    assert rules.stats().exact_reasons == {Refusal.BOXES: 1}
    assert rules.priority({f"p{place}": 7 for place in range(4)}) == "high"
    assert rules.priority({f"p{place}": 7 + place for place in range(4)}) == "normal"
    rules.remove("odd")
    assert rules.priority({f"p{place}": 7 for place in range(4)}) == "low"
    assert rules.stats().exact_rules == 0


@pytest.mark.parametrize("vectors", [0, 64, 200])
def test_more_sets_of_attributes_than_vectors(vectors: int) -> None:
    count = 80
    rules = PriorityRules(LEVELS, vectors=vectors)
    rules.add_many(range(count), ["high"] * count, [f"a{number} = 1" for number in range(count)])
    stats = rules.stats()
    assert len(stats.vectors) == min(vectors, count)
    refused = count - len(stats.vectors)
    assert stats.exact_rules == refused
    assert stats.exact_reasons == ({Refusal.VECTORS: refused} if refused else {})
    assert (f"{Refusal.VECTORS}: {refused} rules" in str(stats)) == (refused > 0)
    assert str(stats).count(" signatures, bins ") == min(len(stats.vectors), 8), "a text is read, and is short"
    assert (f"and {len(stats.vectors) - 8:,} more sets of attributes" in str(stats)) == (len(stats.vectors) > 8)
    assert set(rules.priorities([{f"a{number}": 1} for number in range(count)])) == {"high"}
    assert set(rules.priorities([{f"a{number}": 2} for number in range(count)])) == {"low"}


RATES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5]


@pytest.mark.parametrize("rate", RATES)
def test_false_positives_of_the_filters_are_within_the_stated_rate(rate: float) -> None:
    """The paper's experiment: rules and events from ranges that the discretizer knows, so every false positive is the filters'."""
    rng = np.random.default_rng(7)
    count = 4000
    cells = rng.integers(0, 20, (count, 3))
    rows = {
        "id": np.repeat(np.arange(count), 3),
        "level": pa.DictionaryArray.from_arrays(np.repeat(rng.integers(1, 4, count), 3), LEVELS),
        "attribute": np.tile(["x", "y", "z"], count),
        "low": cells.ravel(),
        "high": cells.ravel() + 1,
        "high_closed": np.zeros(3 * count, dtype=bool),
    }
    rules = PriorityRules(LEVELS, confirm=False, false_positive_rate=rate)
    rules.add_predicates(pa.table(rows))
    taken = np.zeros((20, 20, 20), dtype=np.int64)
    np.maximum.at(taken, tuple(cells.T), np.repeat(rows["level"].indices.to_numpy(), 1)[::3])
    events = rng.random((40_000, 3)) * 20
    batch = pa.table({"x": events[:, 0], "y": events[:, 1], "z": events[:, 2]})
    measured = rules.measure(batch)
    expected = taken[tuple(events.astype(int).T)]
    assert measured.matched == int((expected > 0).sum())
    assert measured.missed == measured.by_discretization == 0
    found = rules.levels_of(batch).levels
    assert (found >= expected).all()
    assert measured.false_positives == int((found > expected).sum()) == measured.by_filter
    assert measured.reported == int((found > 0).sum())
    free = measured.unmatched
    wrong = int(((found > 0) & (expected == 0)).sum())
    assert wrong / free < rate + 4 * np.sqrt(rate / free)
    theory = rules.stats().expected_rate
    assert theory <= rate * 1.1
    assert abs(wrong / free - theory) < 5 * np.sqrt(theory / free) + 0.05 * theory
    assert f"{measured.by_filter:,} of the filters" in str(measured)


def test_bins_that_do_not_fit_are_the_other_source() -> None:
    rules = PriorityRules(LEVELS, confirm=False, discretizers={"x": Steps(10)})
    rules.add_many(range(10), ["high"] * 10, [f"x between {10 * number} and {10 * number + 4}" for number in range(10)])
    measured = rules.measure([{"x": number + 0.5} for number in range(100)])
    assert (measured.matched, measured.reported, measured.by_discretization, measured.by_filter) == (40, 100, 60, 0)
    assert measured.rate == measured.discretization_rate == 0.6


def test_a_finer_granularity_has_fewer_false_positives() -> None:
    texts = [f"x >= {number} and x < {number + 40}" for number in range(7, 1000, 113)]
    events = [{"x": number / 3} for number in range(3000)]
    rates = []
    for width in (100, 10, 1):
        rules = PriorityRules(LEVELS, confirm=False, discretizers={"x": Steps(width)}, false_positive_rate=1e-4)
        rules.add_many(range(len(texts)), ["high"] * len(texts), texts)
        rates.append(rules.measure(events).discretization_rate)
    assert rates[0] > rates[1] > rates[2] == 0
    for bins in (1, 5, 40):
        rules = PriorityRules(LEVELS, confirm=False, discretizers={"x": Quantiles(bins)})
        rules.add_many(range(len(texts)), ["high"] * len(texts), texts)
        assert rules.stats().vectors[0].bins[0] <= bins + 1
        assert (rules.measure(events).discretization_rate > 0) == (bins < len(texts))


def test_categories_and_the_rest() -> None:
    rules = PriorityRules(LEVELS, confirm=False, false_positive_rate=1e-6)
    rules.add("r", "high", "site in ('A', 'C')")
    rules.add("q", "critical", "site = 'B' and x > 1")
    assert sorted(vector.bins for vector in rules.stats().vectors) == [(2, 2), (3,)]
    found = rules.priorities([{"site": site, "x": 2} for site in ["A", "B", "C", "AA", "D", None, 5]])
    assert found == ["high", "critical", "high", "low", "low", "low", "low"]
    own = PriorityRules(LEVELS, confirm=False, discretizers={"site": Categories(["A", "B"])})
    own.add("r", "high", "site = 'A' or site = 'Z'")
    assert own.priorities([{"site": site} for site in "ABZY"]) == ["high", "low", "high", "high"]


def test_confirmation_is_counted() -> None:
    rules = PriorityRules(LEVELS, discretizers={"x": Bins([0])})
    rules.add("r", "high", "x = 5")
    rules.priorities([{"x": 5}, {"x": 6}, {"x": -1}])
    confirmation = rules.stats().confirmation
    assert (confirmation, confirmation.refuted_rate) == (ConfirmationStats(True, sure=0, asked=2, refuted=1), 0.5)
    fitting = PriorityRules(LEVELS)
    fitting.add("r", "high", "x = 5")
    fitting.priorities([{"x": 5}, {"x": 6}])
    assert fitting.stats().confirmation.sure == 1
    assert fitting.stats().confirmation.asked == 0


def test_statistics_are_plain_data() -> None:
    rules = PriorityRules(LEVELS)
    rules.add("r", "high", "x > 5 and s in ('a', 'b')")
    rules.add("d", "low", "x > 5")
    rules.priorities([{"x": 6, "s": "a"}] * 4)
    stats = json.loads(json.dumps(rules.stats().to_dict()))
    assert stats["rules_per_level"] == {"low": 1, "normal": 0, "high": 1, "critical": 0}
    assert stats["vectors"][0]["attributes"] == ["s", "x"]
    assert stats["events"] == 4
    assert stats["lookups_per_event"] == 1
    assert stats["filters"]["high"]["keys"] == stats["vectors"][0]["covered"]["high"] == 2
    assert str(rules.stats()).startswith("2 rules (low 1, normal 0, high 1, critical 0), ")
    assert repr(rules) == "PriorityRules(2 rules, levels=['low', 'normal', 'high', 'critical'], confirm=True)"
