"""No text makes anything but a tree or an ExpressionError, or takes long, or an error as long as itself."""

from __future__ import annotations

import contextlib
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError
from ray_pubsub.language.parser import parse
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten


@given(st.text() | st.text("xy10.'\"`()=<>-_% \nabnotrdikeul,"))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(ExpressionError):
        parse(text)


MEGABYTE = 1_000_000
"""The most that is read."""
LENGTH = 200_000
"""What takes time or memory by its square would not be done with this much either."""

HOSTILE = {
    "open parentheses": "(" * MEGABYTE,
    "closed parentheses": ")" * LENGTH,
    "nested parentheses": "(" * (LENGTH // 2 - 1) + "x" + ")" * (LENGTH // 2 - 1),
    "not not not": "not " * (LENGTH // 4),
    "not not not x": "not " * (LENGTH // 4 - 1) + "x",
    "twenty thousand alternatives": "x=1 or " * 20_000,
    "twenty thousand alternatives and one": "x=1 or " * 20_000 + "x=1",
    "a set of eighty thousand": "x in (" + "1," * 80_000 + "1)",
    "a name of eighty thousand parts": "a" + ".a" * 80_000 + " = 1",
    "a long name": "a" * (LENGTH - 1_000) + " = 1",
    "quotes": "'" * LENGTH,
    "an odd number of quotes": "'" * (LENGTH - 1),
    "double quotes": '"' * (LENGTH - 1),
    "backticks": "`" * (LENGTH - 1),
    "a string that is not closed": "x = '" + "a" * (LENGTH - 1_000),
    "an identifier that is not closed": '"' + "a" * (LENGTH - 1_000),
    "operators": "x " + "=" * (LENGTH - 1_000),
    "minus signs": "x = " + "-" * (LENGTH - 1_000),
    "commas": "x in (" + "," * (LENGTH - 1_000),
    "dots": "a" + "." * (LENGTH - 1_000),
    "digits and dots": "1." * (LENGTH // 2),
    "digits and exponents": "x = " + "1e" * (LENGTH // 2 - 1_000),
    "spaces": " " * LENGTH,
    "lines": "\n" * (LENGTH - 1_000) + "x =",
    "NUL characters": "\0" * LENGTH,
    "NUL in a string": "s = 'a\0b'",
    "a lone surrogate": "\ud800",
    "a lone surrogate in a string": "s = '\udfff'",
    "a lone surrogate in a set": "s in ('a', '\ud800')",
    "a lone surrogate in a name": '"\ud800" = 1',
    "a lone surrogate as the escape": "s like 'a' escape '\ud800'",
    "a lone surrogate in a pattern": "s regexp '\ud800'",
    "a lone surrogate in a timestamp": "t = timestamp '\ud800'",
    "emoji": "\U0001f600 = '\U0001f600'",
    "emoji in a string": "s = '\U0001f468\u200d\U0001f469\u200d\U0001f467'",
    "right-to-left text": "\u05e9\u05dc\u05d5\u05dd = '\u05e2\u05d5\u05dc\u05dd'",
    "a right-to-left override": "x = \u202e1",
    "a byte order mark": "\ufeffx = 1",
    "an integer of 4,300 digits": "x = " + "9" * 4300,
    "an integer of 5,000 digits": "x = " + "9" * 5000,
    "a million digits": "9" * MEGABYTE,
    "a negative integer of 5,000 digits in a set": "x in (1, -" + "9" * 5000 + ")",
    "5,000 zeros": "x = " + "0" * 5000 + "1",
    "a huge float": "x = " + "9" * 5000 + ".5",
    "a huge exponent": "x = 1e" + "9" * 5000,
    "a tiny exponent": "x = 1e-" + "9" * 5000,
    "a huge double": "x = double '" + "9" * 5000 + "'",
    "an interval of 100,000 digits": "x > interval '" + "9" * 100_000 + " days'",
    "an interval of 100,000 digits behind the point": "x > interval '0." + "9" * 100_000 + " days'",
    "a counted interval of 5,000 digits": "x > interval " + "9" * 5000 + " days",
    "nested repetitions": "s regexp '" + "(" * 200 + "a" + "*)+" * 200 + "'",
    "counted repetitions": "s regexp '" + "(a?){100}" * 100 + "'",
    "repetitions of all letters": "s regexp '" + "\\pL{1000}" * 100 + "'",
    "nested groups": "s regexp '" + "(" * 500 + ")" * 500 + "'",
    "wildcards": "s like '" + "%_" * 500 + "'",
}  # fmt: skip


@pytest.mark.timeout(200)  # a guard against hanging, far above what it takes
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_text_is_parsed_or_refused_at_once(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as error:
        pickle.loads(pickle.dumps(error))


@pytest.mark.timeout(200)  # a guard against hanging, far above what it takes
@pytest.mark.parametrize("subject", ["s", "'aaaaa'"])
def test_a_text_that_would_fill_the_memory_is_unknown(subject: str) -> None:
    grown = f"{'replace(' * 10}{subject}{(', ' + repr('a') + ', ' + repr('a' * 10) + ')') * 10}"
    for text in (grown, f"concat({grown}, s)", f"{grown} || s"):
        assert truth(parse(f"length({text}) > 5"), flatten({"s": "aaaaa"})) in (None, False)
    assert truth(parse("length(replace(s, 'a', 'bb')) = 100000"), flatten({"s": "a" * 50_000})) is True
    assert truth(parse("replace(s, 'a', 'bb') is null"), flatten({"s": "a" * 50_001})) is True
    assert truth(parse("s || s is null and concat(s, s) is null"), flatten({"s": "a" * 50_001})) is True


CATASTROPHES = ["(a+)+$", "(a|a)*$", "(.*)*b", "^(a?){50}a{50}$", "(x+x+)+y", "([a-z]+)*[^a-z0-9]$"]


@pytest.mark.timeout(200)  # a guard against hanging, far above what it takes
@pytest.mark.parametrize("pattern", CATASTROPHES)
def test_a_catastrophic_pattern_is_not_one(pattern: str) -> None:
    tree, event = parse(f"s regexp '{pattern}' or s like '%a%a%a%a%a%b%'"), flatten({"s": "a" * 50_000 + "!"})
    truth(tree, event)


@pytest.mark.parametrize(
    "text",
    ["'" * MEGABYTE, "x '" + "a" * 999_000 + "'", "x = " + "9" * 4000, "x in ('a', " + "1, " * 10_000 + "1)"],
    ids=["a string", "a token", "a number", "a set"],
)
def test_an_error_about_a_huge_text_is_short(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert len(str(caught.value)) < 10_000


def test_a_name_that_cannot_be_saved_is_refused() -> None:
    with pytest.raises(ExpressionError):
        parse('"\ud800" = 1')
