"""Rules in bulk: what a table of intervals means, and what is wrong with a bad one."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import PriorityRules
from ray_pubsub.errors import RejectedSubscriptionsError, TableError, UnknownLevelError
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.instantiation.bins import OrderedBins
from tests.unit.priority.plain_rules import LEVELS, PlainRules

INF = float("inf")


def table(*rows: tuple[Any, ...], kind: pa.DataType | None = None) -> pa.Table:
    columns = list(zip(*[(*row, True, True)[:7] for row in rows], strict=True))
    names = ["id", "level", "attribute", "low", "high", "low_closed", "high_closed"]
    types = {"low": kind, "high": kind}
    return pa.table({name: pa.array(column, types.get(name)) for name, column in zip(names, columns, strict=True)})


moment = datetime.datetime(2024, 5, 1)
CASES: dict[str, tuple[pa.Table, dict[Any, tuple[str, str]]]] = {
    "integers": (
        table(
            (1, "high", "x", 1, 5, True, False),
            (2, "critical", "x", 2**53 + 1, None, False, True),
            (1, "high", "y", None, 3),
            (3, "normal", "y", None, None),
            (4, "normal", "z", 7, 7),
        ),
        {
            1: ("high", "x >= 1 and x < 5 and y <= 3"),
            2: ("critical", "x > 9007199254740993"),
            3: ("normal", "y < 0 or y >= 0"),
            4: ("normal", "z = 7"),
        },
    ),
    "floats": (
        table(("a", "high", "x", 0.1, INF, False, True), ("b", "normal", "x", -INF, -0.0, True, False)),
        {"a": ("high", "x > 0.1 and x <= double 'inf'"), "b": ("normal", "x >= double '-inf' and x < -0.0")},
    ),
    "alternatives and empty ones": (
        table(
            ("a", "high", "x", 1, 2), ("a", "high", "x", 8, 9), ("b", "normal", "x", 5, 4), ("c", "normal", "x", 4, 6)
        ),
        {
            "a": ("high", "x between 1 and 2 or x between 8 and 9"),
            "c": ("normal", "x between 4 and 6"),
            "b": ("normal", "false"),
        },
    ),
    "strings": (
        table(("a", "high", "s", "a", "b", True, False), ("b", "critical", "s", "it's", "it's")),
        {"a": ("high", "s >= 'a' and s < 'b'"), "b": ("critical", "s = 'it''s'")},
    ),
    "booleans": (
        table(
            ("a", "high", "b", True, True),
        ),
        {"a": ("high", "b = true")},
    ),
    "times": (
        table(("a", "high", "t", moment, None), ("b", "critical", "t", None, moment, True, False)),
        {
            "a": ("high", "t >= timestamp '2024-05-01 00:00:00'"),
            "b": ("critical", "t < timestamp '2024-05-01 00:00:00'"),
        },
    ),
    "decimals": (
        table(
            ("a", "high", "x", decimal.Decimal("1.5"), decimal.Decimal("4.25")),
        ),
        {"a": ("high", "x between 1.5 and 4.25")},
    ),
    "decimals that no double holds beside fractions": (
        table(
            ("a", "high", "x", decimal.Decimal(2**53 + 1), None),
            ("b", "critical", "y", decimal.Decimal("4.5"), None),
        ),
        {"a": ("high", f"x >= {2**53 + 1}"), "b": ("critical", "y >= 4.5")},
    ),
}
VALUES: list[Any] = [
    *(0, 1, 2, 3, 4, 4.5, 5, 6, 7, 8, 9, 0.1, 0.2, -0.5, -0.0, INF, -INF, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1),
    *("", "a", "ab", "b", "it's", True, False, moment, moment - datetime.timedelta(microseconds=1)),
]
EVENTS = [{name: value} for value in VALUES for name in "xyzsbt"] + [{"x": 2, "y": 3}, {"x": 2, "y": 4}, {}]


@pytest.mark.parametrize(("rows", "written"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("confirm", [True, False])
def test_a_table_means_what_the_expressions_say(
    rows: pa.Table, written: dict[Any, tuple[str, str]], confirm: bool
) -> None:
    rules, plain = PriorityRules(LEVELS, confirm=confirm, false_positive_rate=1e-6), PlainRules()
    assert rules.add_predicates(rows).added == len(written)
    for identity, (level, text) in written.items():
        plain.add(identity, level, text)
        assert rules.level(identity) == level
    assert set(rules) == set(written)
    expected = [plain.priority(event) for event in EVENTS]
    assert rules.priorities(EVENTS) == expected
    assert set(expected) > {"low"}
    again = PriorityRules(LEVELS)
    for identity in rules:
        again.add(identity, rules.level(identity), rules.expression(identity))
    assert again.priorities(EVENTS) == expected


def test_pandas_and_batches() -> None:
    rows = CASES["integers"][0]
    for each in (rows.to_pandas(), rows.to_batches()[0]):
        rules = PriorityRules(LEVELS)
        assert rules.add_predicates(each)
        assert rules.priority({"z": 7}) == "normal"


def test_rows_of_one_rule_need_not_stand_together() -> None:
    rng = np.random.default_rng(3)
    count = 500
    low = rng.integers(0, 50, (count, 2))
    rows = {
        "id": np.repeat(np.arange(count), 2),
        "level": np.repeat(np.array(LEVELS)[rng.integers(0, 4, count)], 2),
        "attribute": np.tile(["x", "y"], count),
        "low": low.ravel(),
        "high": (low + rng.integers(0, 9, (count, 2))).ravel(),
    }
    order = rng.permutation(2 * count)
    ordered, mixed = PriorityRules(LEVELS), PriorityRules(LEVELS)
    ordered.add_predicates(pa.table(rows))
    mixed.add_predicates(pa.table({name: column[order] for name, column in rows.items()}))
    events = [{"x": int(x), "y": int(y)} for x, y in rng.integers(0, 60, (300, 2))]
    assert ordered.priorities(events) == mixed.priorities(events)
    assert all(ordered.expression(number) for number in range(count))


def test_bad_rules_are_reported_and_harm_no_other() -> None:
    rows = table(
        ("a", "high", "x", 1.0, 2.0),
        ("b", "urgent", "x", 1.0, 2.0),
        ("c", None, "x", 1.0, 2.0),
        ("d", "high", "x", float("nan"), 2.0),
        ("e", "high", "x", 1.0, 2.0),
        ("e", "low", "y", 1.0, 2.0),
    )
    rules = PriorityRules(LEVELS)
    report = rules.add_predicates(rows)
    assert report.added == 1
    assert not report
    assert [(bad.position, bad.id, type(bad.error)) for bad in report.rejections] == [
        (1, "b", UnknownLevelError),
        (2, "c", UnknownLevelError),
        (3, "d", TableError),
        (5, "e", TableError),
    ]
    assert list(rules) == ["a"]
    with pytest.raises(RejectedSubscriptionsError) as caught:
        PriorityRules(LEVELS).add_predicates(rows, atomic=True)
    assert len(caught.value.rejections) == 4


def test_a_bound_that_is_no_value_refuses_its_rule_only() -> None:
    rows = table(("a", "high", "x", 1, 2), ("b", "high", "x", 2**64 - 1, None), kind=pa.uint64())
    rules = PriorityRules(LEVELS)
    report = rules.add_predicates(rows)
    assert [bad.id for bad in report.rejections] == ["b"]
    assert rules.priority({"x": 1}) == "high"


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (lambda rows: rows.drop_columns(["level"]), "level"),
        (lambda rows: rows.drop_columns(["low"]), "low"),
        (lambda rows: rows.append_column("low_open", pa.array([True] * 5)), "low_open"),
        (lambda rows: rows.set_column(0, "id", pa.array([1.5] * 5)), "id"),
        (lambda rows: rows.set_column(0, "id", pa.array([None, 1, 2, 3, 4])), "id"),
        (lambda rows: rows.set_column(1, "level", pa.array([1] * 5)), "level"),
        (lambda rows: rows.set_column(4, "high", pa.array(["x"] * 5)), "low"),
        (lambda rows: rows.set_column(5, "low_closed", pa.array([1] * 5)), "low_closed"),
    ],
)
def test_a_bad_table_is_refused_with_the_column(change: Any, column: str) -> None:
    with pytest.raises(TableError) as caught:
        PriorityRules(LEVELS).add_predicates(change(CASES["integers"][0]))
    assert caught.value.column == column


def test_strings_are_not_looked_up_among_the_edges_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are none for them: the kernel, which does not check its indices, would read beyond the arrays."""
    looked_up: set[int] = set()
    bounds = OrderedBins.bounds

    def noted(bins: OrderedBins, kind: Any, *cut: Any, **how: bool) -> Any:
        looked_up.update(kind.tolist())
        return bounds(bins, kind, *cut, **how)

    monkeypatch.setattr(OrderedBins, "bounds", noted)
    rules, plain = PriorityRules(LEVELS), PlainRules()
    for number in range(100):
        text = f"x = 'text {number}'" if number % 2 else f"x between {number} and {number + 5}"
        rules.add(number, LEVELS[number % len(LEVELS)], text)
        plain.add(number, LEVELS[number % len(LEVELS)], text)
    events = [{"x": value} for number in range(100) for value in (number, f"text {number}")]
    assert list(rules.levels_of(events)) == [plain.priority(event) for event in events]
    assert Kind.NUMBER in looked_up and Kind.STRING not in looked_up
