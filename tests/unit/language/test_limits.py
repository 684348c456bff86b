"""Each limit is reported by its name, with what is allowed and what was found."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from ray_pubsub.errors import ExpressionLimitError, SettingError
from ray_pubsub.language.normal_form import normalize
from ray_pubsub.language.parser import parse
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.truth import truth
from ray_pubsub.settings import Limits


def refusal(text: str, limits: Limits) -> ExpressionLimitError:
    """The error, the same from the parser and from the cache of shapes."""
    with pytest.raises(ExpressionLimitError) as caught:
        parse(text, limits)
    with pytest.raises(ExpressionLimitError) as cached:
        ShapeCache(limits).parse(text)
    assert str(cached.value) == str(caught.value)
    return caught.value


TOO_LARGE = {
    "text_length": ("x = 12", 5, 6),
    "nesting_depth": ("not not a", 2, 3),
    "leaves": ("a and b or c", 2, 3),
    "set_size": ("x in (1, 2, 3)", 2, 3),
    "pattern_length": ("s like 'abc'", 2, 3),
    "word_length": ("a.bc = 1", 3, 4),
    "term_size": ("abs(x) + y > 1", 3, 4),
    "term_depth": ("abs(abs(abs(x))) > 1", 2, 3),
}


@pytest.mark.parametrize("limit", TOO_LARGE)
def test_each_limit_is_reported_by_name(limit: str) -> None:
    text, allowed, found = TOO_LARGE[limit]
    error = refusal(text, Limits(**{limit: allowed}))
    assert (error.limit, error.allowed, error.found) == (limit, allowed, found)
    assert f"raise Limits.{limit}" in str(error)
    assert parse(text, Limits(**{limit: found})) == parse(text)


def test_every_limit_but_the_one_on_normal_forms_is_tested_above() -> None:
    assert {field.name for field in fields(Limits)} - {"clauses"} == set(TOO_LARGE)


@pytest.mark.parametrize("text", ["((((a))))", "a and (b or (c and d))", "not not not a", "x in (1) and (((a)))"])
def test_every_way_of_nesting_is_limited(text: str) -> None:
    assert refusal(text, Limits(nesting_depth=2)).limit == "nesting_depth"


@pytest.mark.parametrize(
    "text", ["s = '((((' or `((((` = 1 or \"((((\" = 1", "a and b and c and d", "(a) and (b) and (c)"]
)
def test_what_does_not_nest_is_not_counted(text: str) -> None:
    parse(text, Limits(nesting_depth=3))


@pytest.mark.parametrize(
    "text",
    ["x$and$or$and$or = 1", "`and or and or` = 1", "s = ' and or and or '", "x between 1 and 2", "ändern$or$or$or$or"],
)
def test_keywords_inside_names_and_strings_are_not_counted(text: str) -> None:
    parse(text, Limits(leaves=1))


@pytest.mark.parametrize(
    ("text", "limits"),
    [("1 in (1, 2, 3)", Limits(set_size=2)), ("'abc' like 'abc'", Limits(pattern_length=2))],
)
def test_a_limit_also_holds_where_a_constant_is_compared_with_constants(text: str, limits: Limits) -> None:
    refusal(text, limits)


def test_a_raised_nesting_limit_can_be_used() -> None:
    limits = Limits(nesting_depth=200)
    tree = parse("a and (b or " * 95 + "a" + ")" * 95, limits)
    assert truth(tree, {}) is None
    assert not normalize(tree, limits).holds({})


@pytest.mark.parametrize("field", [field.name for field in fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5", None])
def test_a_limit_is_a_positive_whole_number(field: str, value: Any) -> None:
    with pytest.raises(SettingError, match=f"Limits.{field}") as caught:
        Limits(**{field: value})
    assert caught.value.setting == f"Limits.{field}"
