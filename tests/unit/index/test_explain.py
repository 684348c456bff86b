"""explain(event, id): every part of the expression with its truth and the reason."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import EventError, UnknownSubscriptionError
from ray_pubsub.index.explanation import Explanation


def explain(expression: str, **event: Any) -> Explanation:
    index = MatchIndex()
    index.add("s", expression)
    explanation = index.explain(event, "s")
    assert explanation.matched == (index.match(event) == ["s"])
    return explanation


@pytest.mark.parametrize(
    ("expression", "event", "text", "truth", "reason"),
    [
        ("price <= 580", {"price": 550}, "price <= 580", True, "is 550"),
        ("price <= 580", {"price": 600}, "price <= 580", False, "is 600"),
        ("580 >= price", {"price": 0.5}, "price <= 580", True, "is 0.5"),
        ("price <= 580", {}, "price <= 580", None, "absent"),
        ("price <= 580", {"price": None}, "price <= 580", None, "absent"),
        ("price <= 580", {"price": "5"}, "price <= 580", None, "is '5', a string: cannot be compared"),
        ("s = 'it''s'", {"s": "it's"}, "s = 'it''s'", True, "is 'it''s'"),
        ("x = true", {"x": False}, "x = true", False, "is false"),
        ("x = true", {"x": 1}, "x = true", None, "is 1, a number: cannot be compared"),
        ("in_stock", {"in_stock": True}, "in_stock", True, "is true"),
        ("in_stock", {"in_stock": "yes"}, "in_stock", None, "is 'yes', a string: cannot be compared"),
        ("x between 1 and 5", {"x": 6}, "x between 1 and 5", False, "is 6"),
        ("x not between 1 and 5", {"x": 6}, "x not between 1 and 5", True, "is 6"),
        ("x in (1, 2)", {"x": 2}, "x in (1, 2)", True, "is 2"),
        ("x not in (1, 2)", {"x": 2}, "x not in (1, 2)", False, "is 2"),
        ("s like 'a%'", {"s": "abc"}, "s like 'a%'", True, "is 'abc'"),
        ("s not like 'a!%' escape '!'", {"s": "abc"}, "s not like 'a!%' escape '!'", True, "is 'abc'"),
        ("s rlike '^a'", {"s": "b"}, "s regexp '^a'", False, "is 'b'"),
        ("x is null", {}, "x is null", True, "absent"),
        ("x is null", {"x": 1}, "x is null", False, "is 1"),
        ("x is not null", {"x": 1}, "x is not null", True, "is 1"),
        ("x = double 'inf'", {"x": float("inf")}, "x = double 'inf'", True, "is double 'inf'"),
        ("`a b` = 1", {"a b": 2}, '"a b" = 1', False, "is 2"),
        ("a.b = 1", {"a": {"b": 1}}, "a.b = 1", True, "is 1"),
        ("true", {}, "true", True, ""),
        ("null", {}, "null", None, ""),
        ("1 = 2", {}, "false", False, ""),
        (
            "t > date '2024-05-01'",
            {"t": datetime.date(2024, 5, 2)},
            "t > timestamp '2024-05-01 00:00:00'",
            True,
            "is timestamp '2024-05-02 00:00:00'",
        ),
    ],
    ids=str,
)
def test_one_predicate(expression: str, event: dict[str, Any], text: str, truth: bool | None, reason: str) -> None:
    explanation = explain(expression, **event)
    assert (explanation.expression, explanation.truth, explanation.reason) == (text, truth, reason)
    assert explanation.parts == ()
    assert list(explanation.predicates()) == [explanation]


OPERANDS = [
    ("price < list_price", {"price": 12, "list_price": 10}, False, "price < list_price is false; price is 12, list_price is 10"),
    ("list_price > price", {"price": 12}, None, "price < list_price is unknown; price is 12, list_price is absent"),
    ("price * quantity > 100", {"price": 5, "quantity": 3}, False, "price * quantity is 15; price is 5, quantity is 3"),
    ("a + b > 1", {"a": "x", "b": 2}, None, "a + b is unknown; a is 'x', b is 2"),
    ("lower(name) = 'ann'", {"name": "ANN"}, True, "lower(name) is 'ann'; name is 'ANN'"),
    ("case when b = 1 then a end = 5", {"a": 5, "b": 1}, True, "case when (b = 1) then a else null end is 5; b is 1, a is 5"),
    ("price < any(offers)", {"price": 5, "offers": [3, 4]}, False, "price < any(offers) is false; price is 5, offers is [3, 4]"),
    ("list_contains(tags, 'a')", {"tags": ["b"]}, False, "tags is ['b']"),
    ("ip_in(trim(src), '10.0.0.0/8')", {"src": " ::1"}, False, "trim(src) is '::1'; src is ' ::1'"),
    ("concat('a', 'b') = 'ab'", {}, True, ""),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "event", "truth", "reason"), OPERANDS, ids=[case[0] for case in OPERANDS])
def test_a_term_is_shown_with_the_values_it_is_made_of(
    expression: str, event: dict[str, Any], truth: bool | None, reason: str
) -> None:
    explanation = explain(expression, **event)
    assert (explanation.truth, explanation.reason) == (truth, reason)


def test_of_a_term_with_many_attributes_the_first_are_shown() -> None:
    explanation = explain(f"greatest({', '.join(f'a{number}' for number in range(40))}) > 5", a0=1, a9=2)
    assert "; a0 is 1, a1 is absent, " in explanation.reason
    assert explanation.reason.endswith("a9 is 2, and 30 more")


def test_a_tree() -> None:
    explanation = explain("model = 'x' and (price < 5 or not sold) and color is null", model="x", price=9, sold=True)
    assert str(explanation) == "\n".join(
        [
            "✗ all of",
            "  ✓ model = 'x'   (is 'x')",
            "  ✗ any of",
            "    ✗ price < 5   (is 9)",
            "    ✗ not",
            "      ✓ sold   (is true)",
            "  ✓ color is null   (absent)",
        ]
    )
    assert not explanation.matched
    assert [part.expression for part in explanation.predicates()] == [
        "model = 'x'",
        "price < 5",
        "sold",
        "color is null",
    ]
    assert [part.truth for part in explanation.parts] == [True, False, True]


def test_unknown_is_marked() -> None:
    explanation = explain("x = 1 or y = 1", y=2)
    assert str(explanation).splitlines() == ["? any of", "  ? x = 1   (absent)", "  ✗ y = 1   (is 2)"]
    assert explanation.truth is None


def test_a_long_value_is_cut_and_stays_on_its_line() -> None:
    explanation = explain("text like '%boom%'", text="first line\n\tsecond line " + "x" * 100_000)
    assert str(explanation).count("\n") == 0
    assert explanation.reason.startswith(r"is 'first line\n\tsecond line xxx")
    assert explanation.reason.endswith("x…") and len(explanation.reason) == 84


def test_a_match() -> None:
    explanation = explain("x = 1 and y = 1", x=1, y=1.0)
    assert explanation.matched
    assert str(explanation).splitlines() == ["✓ all of", "  ✓ x = 1   (is 1)", "  ✓ y = 1   (is 1.0)"]


def test_a_subscription_of_intervals() -> None:
    index = MatchIndex()
    index.add_predicates(
        pa.table({"id": ["s"] * 3, "attribute": ["x", "x", "y"], "low": [1, 7, 0], "high": [2, None, 0]})
    )
    assert str(index.explain({"x": 5, "y": 0}, "s")).splitlines() == [
        "✗ all of",
        "  ✗ any of",
        "    ✗ x between 1 and 2   (is 5)",
        "    ✗ x >= 7   (is 5)",
        "  ✓ y = 0   (is 0)",
    ]


def test_after_a_replacement() -> None:
    index = MatchIndex()
    index.add(1, "x = 1")
    index.add("1", "x = 2")
    index.add(1, "x = 3")
    assert index.explain({"x": 3}, 1).expression == "x = 3"
    assert index.explain({"x": 3}, "1").expression == "x = 2"


@pytest.mark.parametrize("identity", ["missing", 1, True, [1], "removed"], ids=repr)
def test_an_unknown_id(identity: Any) -> None:
    index = MatchIndex()
    index.add("1", "x = 1")
    index.add("removed", "x = 1")
    index.remove("removed")
    with pytest.raises(UnknownSubscriptionError) as caught:
        index.explain({"x": 1}, identity)
    assert caught.value.id == identity
    assert str(caught.value) == f"there is no subscription {identity!r}"
    assert isinstance(caught.value, KeyError)
    with pytest.raises(UnknownSubscriptionError):
        index.expression(identity)


def test_a_bad_event() -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    with pytest.raises(EventError, match="an event is a dict"):
        index.explain(5, "s")  # type: ignore[call-overload]
    assert "absent" in str(index.explain({"x": b"1"}, "s"))
