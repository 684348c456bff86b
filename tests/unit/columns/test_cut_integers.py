"""Reading a text's integers by the byte gives what the grammar gives, whatever stands around them."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ray_pubsub.columns.integer_cutter import IntegerCutter
from ray_pubsub.errors import ExpressionError
from ray_pubsub.language.parser import parse
from ray_pubsub.language.shapes import Expression, ShapeCache
from ray_pubsub.settings import Limits

LIMITS = Limits()
WORDS = [
    "x",
    "a1",
    "b$2",
    "_3",
    "c.d4",
    "=",
    "<",
    ">=",
    "!=",
    "<>",
    "-",
    "(",
    ")",
    ",",
    "0",
    "5",
    "42",
    "007",
    "true",
    "$",
    "é",
]
NUMBERS = [
    ".",
    ".5",
    "5.",
    "1.5",
    "1e3",
    "2E-4",
    "'1'",
    "\x01",
    *(str(10**18 + n) for n in (-1, 0)),
    str(2**63 - 1),
    str(2**63),
]
SPACED = [" ", "  ", "\n", "\t", " and ", " or ", " not ", " between ", " in ", " is null", '"q 7"', "`r 8`"]
PIECES = st.sampled_from([*WORDS, *NUMBERS, *SPACED])


def outcome(text: str, cache: ShapeCache | None) -> object:
    try:
        return cache.parse(text).tree if cache else parse(text, LIMITS)
    except ExpressionError as error:
        return type(error), str(error)


@given(st.lists(PIECES, min_size=1, max_size=14).map("".join), st.integers(0, 10**6))
@example("x between 1 and 2", 77)
@example("x > -5 and y < 3", 4)
@example("a1 = 5", 9)
@example("x in (1,2,3)and y=4", 5)
def test_any_text(text: str, number: int) -> None:
    cache = ShapeCache(LIMITS, cutter=IntegerCutter())
    other = re.sub("[0-9]+", str(number), text)  # digits in names change too: that must be another shape
    for each in (text, other, text, other):
        assert outcome(each, cache) == outcome(each, None)


CONJUNCTIONS = st.lists(
    st.builds(
        "{} {} {}".format,
        st.sampled_from(["a", "a1", "b_2", "c.d3"]),
        st.sampled_from(["=", "<", ">=", "!=", "> -", "between 3 and", "not between -9 and", "in (7, 8) or z >"]),
        st.integers(0, 10**18),
    ),
    min_size=1,
    max_size=5,
).map(" and ".join)


@given(CONJUNCTIONS, st.lists(st.integers(0, 2**63 - 1), min_size=30, max_size=30))
def test_the_same_shape_with_other_integers(text: str, numbers: list[int]) -> None:
    cache = ShapeCache(LIMITS, cutter=IntegerCutter())
    cache.parse(text)
    fresh = iter(numbers)
    again = re.sub(r"(?<![\w.])[0-9]+", lambda _: str(next(fresh)), text)
    assert outcome(again, cache) == outcome(again, None)


@pytest.mark.parametrize("text", ["x = 99999999999999999999", "x between 1 and 99999999999999999999"])
def test_too_large_in_a_known_shape(text: str) -> None:
    cache = ShapeCache(LIMITS, cutter=IntegerCutter())
    cache.parse(re.sub("9+", "9", text))
    assert outcome(text, cache) == outcome(text, None)


def test_many_integers() -> None:
    """More than the fast way has room for."""
    cache = ShapeCache(LIMITS, cutter=IntegerCutter())
    for step in (1, 2):
        text = f"x in ({', '.join(str(number * step) for number in range(600))})"
        assert outcome(text, cache) == outcome(text, None)


@given(st.lists(st.one_of(CONJUNCTIONS, st.lists(PIECES, max_size=10).map("".join), st.just("x between 1 and 2"))))
def test_many_texts_are_parsed_as_each_alone(texts: list[str]) -> None:
    cache = ShapeCache(LIMITS, cutter=IntegerCutter())
    for _ in range(3):  # later on, shapes are known
        found = [
            each.tree if isinstance(each, Expression) else (type(each), str(each)) for each in cache.parse_many(texts)
        ]
        assert found == [outcome(text, None) for text in texts]
