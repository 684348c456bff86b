"""A bad text gives an ExpressionError that says what is wrong, and where, or in which predicate."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError, ExpressionSyntaxError, ExpressionTypeError
from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.tree import Tree
from ray_pubsub.settings import Limits
from tests.generators import ANY_TREE


def error_of(text: Any) -> ExpressionError:
    """The error, the same from the parser and from the cache of shapes."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    with pytest.raises(ExpressionError) as cached:
        ShapeCache(Limits()).parse(text)
    assert (type(cached.value), str(cached.value)) == (type(caught.value), str(caught.value))
    return caught.value


# Syntax: the ^ in each text marks the character the caret must stand under (it is taken out before parsing).

SYNTAX = [
    ("^", "end", "an attribute"),
    ("   ^", "end", "an attribute"),
    ("x =^", "end", "a number, a timestamp"),
    ("x = ^= 1", "'='", "a 'string'"),
    ("x = 1 ^y = 2", "'y'", "'and', 'or' or the end"),
    ("x = 1 and^", "end", "an attribute"),
    ("^and x = 1", "'and'", "an attribute"),
    ("x = 1 or ^or y = 2", "'or'", "an attribute"),
    ("not^", "end", "'not'"),
    ("(x = 1^", "end", "expected ')'"),
    ("x = 1 ^)", "')'", "the end"),
    ("(^)", "')'", "an attribute"),
    ("x in ^1", "'1'", "expected '('"),
    ("x in (^)", "')'", "a number"),
    ("x in (1,^)", "')'", "a number"),
    ("x in (1 ^2)", "'2'", "')' or ','"),
    ("x between 1 ^or 2", "'or'", "expected 'and'"),
    ("x between 1 and^", "end", "a number"),
    ("x like ^5", "'5'", "expected a 'string'"),
    ("x like ^y", "'y'", "expected a 'string'"),
    ("x regexp ^null", "'null'", "expected a 'string'"),
    ("x is ^5", "'5'", "'not' or 'null'"),
    ("x is not^", "end", "expected 'null'"),
    ("x not ^null", "'null'", "'between', 'ilike', 'in', 'like' or 'regexp'"),
    ("x ^ilike 5", "'ilike'", "the pattern of ilike is a string constant"),
    ("^f(x) = 1", "there is no function f", "docs/language.md"),
    ("x + ^= 2", "'='", "a number"),
    ("lower(x, ^)", "')'", "an attribute"),
    ("case when x then 1 else 2^", "end", "'end'"),
    ("x <=^> 1", "'>'", "a number"),
    ("a.^and = 1", "'and'", "expected an attribute"),
    ("a.^.b = 1", "'.'", "expected an attribute"),
    ("x = 1^; drop table t", "';'", ""),
    ("x = ^?", "'?'", ""),
    ("^$x = 1", "'$'", ""),
    ("x^\0 = 1", "'\\x00'", ""),
    ("x = ^'a", "'", "a string that is not closed"),
    ('^"x = 1', "", "a quoted identifier that is empty or not closed"),
    ("^`` = 1", "", "a quoted identifier that is empty or not closed"),
    ("x = ^1.2.3", "", "a malformed number"),
    ("x = ^1abc", "", "a malformed number"),
    ("x = ^0x10", "", "a malformed number"),
    ("größe = 1 ^5", "'5'", "the end"),
    ("s = '\U0001f600' ^5", "'5'", "the end"),
    ("^\U0001f600 = 1", "'\U0001f600'", ""),
    ("\u05e9\u05dc\u05d5\u05dd = '\u05e2' ^5", "'5'", "the end"),
    ("x\n= 1\nand ^)\nor y = 2", "')'", "an attribute"),
    ("x\t=\t^)", "')'", "a number"),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "found", "words"), SYNTAX)
def test_a_syntax_error_points_at_the_place(marked: str, found: str, words: str) -> None:
    text = marked.replace("^", "")
    error = error_of(text)
    assert isinstance(error, ExpressionSyntaxError)
    assert (error.expression, error.position) == (text, marked.index("^"))
    assert found in f"{error.found} {error.reason}"
    assert words in str(error)
    assert f"at position {error.position}\n" in str(error)
    assert_caret_under_the_place(error)


HINTS = [
    ("a = 1 && b = 2", "write 'and'"),
    ("!a", "write 'not'"),
    ("lowr(x) = 'a'", "did you mean lower?"),
    ("x = 1 and LISTCONTAINS(x, 'a')", "did you mean list_contains?"),
    ("x in (uper('a'))", "did you mean upper?"),
    ("price div 2 > 5", "write /"),
    ("x = 5 -- five", "comments are not part"),
    ("x /* five */ = 5", "comments are not part"),
    ("x contains 'a'", "write contains(x, 'a')"),
    ("y = 1 and a.x CONTAINS 'it''s' or z", "write contains(a.x, 'it''s')"),
    ("\"a b\" starts with 'a'", "write starts_with(\"a b\", 'a')"),
    ("x endswith 'a'", "write ends_with(x, 'a')"),
    ("x matches 'a.*'", "write x regexp 'a.*'"),
    ("x similar to 'a%'", "write x like 'a%'"),
    ("x glob 'a%'", "write x like 'a%'"),
    ("x contains y", "like 'abc%'"),
    ("(x) contains 'a'", "like 'abc%'"),
    ("arrays('a') = x", "did you mean array?"),
    ("SELECT * FROM logs WHERE x = 1", "give only the WHERE clause"),
    ("select a, b from logs where lower(x) = 'a'", "give only the WHERE clause"),
    ("where x = 1", "give only the WHERE clause"),
    ("select = 1 && where = 2", "write 'and'"),
    ("t > now() + interval -1 hour", "a negative interval is written interval '-1 hour'"),
    ("price => 5", "write >="),
    ("x = 1 and price =< 5", "write <="),
    ("price < = 5", "write <= in one piece"),
    ("price < 5;", "leave the ; out"),
    ("'it''s' in tags", "list_contains(tags, 'it''s')"),
    ("x = 1 and a not in tags", "not list_contains(tags, a)"),
    ("case -x when 1 then 2 end = 2", "stands in parentheses behind case"),
    ("regexp_matches(x, 'a')", "write name regexp 'pattern'"),
    ("datediff(a, b) > 1", "subtract timestamps"),
    ("count(x) > 1", "no aggregates"),
    ("cast(x) = 1", "keeps the kind"),
    ("x = 1 (y)", ""),
    ("x in in (1)", ""),
    ("x = 1 y", ""),
    ("x and (y", ""),
]


@pytest.mark.parametrize(("text", "hint"), HINTS)
def test_what_other_languages_have_is_told_what_to_write_instead(text: str, hint: str) -> None:
    error = error_of(text)
    assert isinstance(error, ExpressionSyntaxError)
    assert hint in error.hint and bool(hint) == bool(error.hint)
    assert str(error).endswith(error.hint)


def test_a_double_equals_sign_is_one() -> None:
    assert parse("x == 1") == parse("x = 1")


@pytest.mark.parametrize("text", ["", " ", "\n\t"])
def test_nothing_is_told_to_be_nothing(text: str) -> None:
    assert str(error_of(text)).startswith("the expression is empty")


@pytest.mark.parametrize("content", ["a" * 2000, "(" * 200, "it and " * 30_000], ids=["a word", "parentheses", "words"])
def test_a_string_that_is_not_closed_is_the_error_however_long_it_is(content: str) -> None:
    error = error_of(f"x = 1 and s = '{content}")
    assert isinstance(error, ExpressionSyntaxError)
    assert error.position == 14
    assert "a string that is not closed" in str(error)


def assert_caret_under_the_place(error: ExpressionSyntaxError | ExpressionTypeError) -> None:
    assert error.expression is not None and error.position is not None
    _, line, caret, *_ = str(error).split("\n")
    assert caret.strip() == "^"
    if error.position < len(error.expression):
        place = error.expression[error.position]
        assert line[caret.index("^")] == (place if place >= " " else " ")
    else:
        assert len(line) == caret.index("^")


@pytest.mark.parametrize("before", [0, 59, 60, 61, 500])
@pytest.mark.parametrize("after", [0, 59, 60, 61, 500])
def test_a_long_line_is_cut_around_the_place(before: int, after: int) -> None:
    error = error_of(f"{'a' * before} = ! {'b' * after}")
    assert isinstance(error, ExpressionSyntaxError)
    assert_caret_under_the_place(error)
    assert all(len(line) < 130 for line in str(error).split("\n")[:3])


@given(
    ANY_TREE,
    st.integers(0, 10**6),
    st.sampled_from(["(", ")", "'", '"', "5", " and ", "!", "\0", ".", "null", ",", "\n"]),
)
def test_a_text_with_something_put_into_it_is_parsed_or_refused_with_a_caret(
    tree: Tree, place: int, extra: str
) -> None:
    text = write(tree)
    place %= len(text) + 1
    try:
        parse(text[:place] + extra + text[place:])
    except ExpressionSyntaxError as error:
        assert 0 <= error.position <= len(error.expression)
        assert_caret_under_the_place(error)
    except ExpressionError:
        pass


# Sense: the text parses, but a predicate has none.

SENSE = [
    # text, predicate named, words
    ("x = 1 or lower(y) = 5", "lower(y) = 5", "a number and a string cannot be compared"),
    ("x between y and lower(5)", "lower(5)", "lower takes a string, not a number"),
    ("greatest(x, 1, 'a') = 1", "greatest(x, 1, 'a')", "a number and a string cannot be compared"),
    ("abs(x) + 'a' > 5", "abs(x) + 'a'", "+ takes a number or a timestamp, not a string"),
    ("length(x)", "length(x)", "a number stands where a condition is expected"),
    ("lower(x) < abs(y)", "lower(x) < abs(y)", "a number and a string cannot be compared"),
    ("substr(x) = 'a'", "substr(x)", "substr takes 2 or 3 arguments, not 1"),
    ("lower(x, y) = 'a'", "lower(x, y)", "lower takes 1 argument, not 2"),
    ("coalesce() = 1", "coalesce()", "coalesce takes at least 1 argument, not 0"),
    ("extract(houre from x) = 1", "date_part('houre', x)", "knows no part 'houre'; did you mean hour?"),
    ("date_part('parsec', x) = 1", "date_part('parsec', x)", "there are era, millennium, century, decade, year"),
    ("date_trunc('mnth', x) < now()", "date_trunc('mnth', x)", "knows no unit 'mnth'; did you mean month?"),
    (
        "date_trunc('doy', x) < now()",
        "date_trunc('doy', x)",
        "there are millennium, century, decade, year, quarter, month",
    ),
    ("coalesce(x, 'a', 5) = 1", "coalesce(x, 'a', 5)", "a number and a string cannot be compared"),
    (
        "list_max(x, 'numbr') = 1",
        "list_max(x, 'numbr')",
        "a kind of elements: 'number', 'string', 'boolean', 'timestamp'",
    ),
    ("list_min(x, y) = 1", "list_min(x, y)", "is a kind of elements"),
    ("list_min(x, null) = 1", "list_min(x, null)", "is a kind of elements"),
    ("list_max(x, 'number') = 'a'", "list_max(x, 'number') = 'a'", "a number and a string cannot be compared"),
    ("list_has_any(x, array('a', y))", "[… y …]", "has only constants"),
    ("x + interval '1.3 years' > now()", "x + interval '1.3 years'", "is not a whole number of months"),
    ("x + interval 1.5 years > now()", "x + interval 1.5 years", "has a fraction"),
    ("x > interval 1 month", "x > interval 1 month", "the months in 1 month have no fixed length"),
    ("x in (interval '1 year', 5)", "x in (interval '1 year', 5)", "have no fixed length"),
    ("x - y between interval 1 day and interval 1 month", "x - y between 86400000000 and", "have no fixed length"),
    ("-interval '1 month' = x", "-interval '1 month'", "have no fixed length"),
    ("x + interval 1 month * 2 > now()", "interval 1 month * 2", "have no fixed length"),
    ("x + (interval 1 month + interval 1 year) > y", "interval 1 month + interval 1 year", "have no fixed length"),
    ("interval 1 month - x > y", "interval 1 month - x", "have no fixed length"),
    ("length(x) + interval '1 month' > y", "add_months(length(x), 1)", "takes a timestamp, not a number"),
    ("x + interval '3000000000 months' > y", "x + interval", "beyond 32 bits of months"),
    ("x + interval '1 moon' > y", "x + interval '1 moon'", "there is no unit moon"),
    ("date_add(x, 5) > now()", "date_add(x, 5)", "takes a timestamp and an interval: date_add(t, interval '1 day')"),
    ("date_add(x) > now()", "date_add(x)", "takes a timestamp and an interval"),
    ("-1e400 = x", "x = -1e400", "too large for a 64-bit float"),
    ("+lower(x) = 'a'", "+lower(x)", "+ takes a number, not a string"),
    ("[1e400] = x", "[1e400]", "too large for a 64-bit float"),
    ("list_contains([1], (1 > 2))", "list_contains([1], false)", "an attribute that is a list"),
    ("lower(x) < now()", "lower(x) < now()", "a string and a timestamp cannot be compared"),
    ("now() - interval '1 day' = length(x)", " = length(x)", "a number and a timestamp cannot be compared"),
    ("-1e400 + x = 5", "-1e400 + x", "too large for a 64-bit float"),
    ("list_contains('a', 'b')", "list_contains('a', 'b')", "an attribute that is a list"),
    ("list_contains(x, ['a'])", "list_contains(x, ['a'])", "is one value, not a list"),
    ("list_has_any(x, 'a')", "list_has_any(x, 'a')", "is a list: ['a', 'b'], or an attribute"),
    ("list_has_any(x, ['a', y])", "[… y …]", "has only constants"),
    (
        "x - y < interval 9000000000000 s 9000000000000 s",
        "x - y < interval 9000000000000 s 9000000000000 s",
        "beyond 64 bits of microseconds",
    ),
    ("['a'] < any(x)", "['a'] < any(x)", "is one value, not a list"),
    ("any(x) + 1 > 5", "any(x)", "stands only beside a comparison"),
    ("exists(x, y regexp '[')", "y regexp '['", "missing ]"),
    ("case when y regexp '[' then 1 end = 1", "y regexp '['", "missing ]"),
    ("lower(x) in ('a', 9223372036854775808)", "lower(x) in", "does not fit 64 bits"),
    ("abs(1e400) = x", "abs(1e400)", "too large for a 64-bit float"),
    ("x = 1 and y in (1, 'a')", "y in (1, 'a')", "a number and a string cannot be compared"),
    ("x between 1 and true", "x between 1 and true", "a boolean and a number cannot be compared"),
    ("tags = ['a']", "tags = ['a']", "lists are not compared: write list_has_any"),
    ("tags in (['a'])", "tags = ['a']", "lists are not compared"),
    ("['a'] is null", "['a'] is null", "lists are not compared"),
    ("user-agent = 'x'", "user - agent = 'x'", "not a string; a name that has a '-' is quoted: \"user-agent\""),
    ("x-forwarded-for like 'x%'", "x - forwarded - for like", 'is quoted: "x-forwarded-for"'),
    ("lower(user-agent) = 'x'", "lower(user - agent)", 'is quoted: "user-agent"'),
    ("(a + b) = true", "a + b = true", "+ gives a number or a timestamp, not a boolean"),
    (
        "ip_in(client-ip, '10.0.0.0/8')",
        "ip_in(client - ip",
        "not a string; a name that has a '-' is quoted: \"client-ip\"",
    ),
    ("not list_contains(user-tags, 'x')", "list_contains(user - tags", "not a list; a name that has a '-' is quoted"),
    ("exists(user-tags, element = 'x')", "exists(user - tags", "not a list"),
    ("'x' = any(a + 1)", "'x' = any(a + 1)", "+ gives a number or a timestamp, not a list"),
    ("x < all(a - b)", "x < all(a - b)", "- gives a number or a timestamp, not a list"),
    ("5 > 'a'", "5 > 'a'", "a number and a string cannot be compared"),
    ("x = 1 and 5", "5", "a number stands where a condition is expected"),
    ("'a' or x", "'a'", "a string stands where a condition is expected"),
    ("x = 9223372036854775808", "x = 9223372036854775808", "does not fit 64 bits"),
    ("x in (1, 99999999999999999999)", "x in (1, 99999999999999999999)", "does not fit 64 bits"),
    ("x = 1e400", "x = 1e400", "too large for a 64-bit float"),
    ("x < double 'many'", "x < ", "is not a number"),
    ("x < double 'nan'", "x < ", "NaN means absent"),
    ("t = timestamp 'noon'", "t = ", "YYYY-MM-DD"),
    ("t = date '2024-02-30'", "t = ", "day out of range"),
    ("t > timestamp '2024-05-01 25:00:00'", "t > ", "hours out of range"),
    ("s = '\ud800'", "s = '\\ud800'", "lone surrogate"),
    ("s like 'a' escape 'bc'", "escape 'bc'", "one character"),
    ("s like 'a!' escape '!'", "s like 'a!' escape '!'", "ends with its escape character"),
    ("s regexp '['", "s regexp '['", "missing ]"),
    ("s regexp '(?=a)'", "s regexp '(?=a)'", "not valid RE2 syntax"),
    ("s regexp '(a)\\1'", "s regexp '(a)\\1'", "not valid RE2 syntax"),
    ("s not regexp 'a{1001}'", "s not regexp 'a{1001}'", "repetition"),
    ("s regexp '((a{100}){100}){100}'", "s regexp", "repetition"),
    (None, "None", "an expression is a str, not NoneType"),
    (b"x = 1", "b'x = 1'", "an expression is a str, not bytes"),
]


@pytest.mark.parametrize(("text", "predicate", "words"), SENSE)
def test_a_predicate_without_sense_is_named(text: Any, predicate: str, words: str) -> None:
    error = error_of(text)
    assert isinstance(error, ExpressionTypeError)
    assert predicate in error.predicate
    assert words in error.reason
    if not isinstance(text, str):
        assert (str(error), error.position) == (f"{error.reason} in: {error.predicate}", None)
        return
    assert str(error).startswith(f"{error.reason} in: {error.predicate}, at position {error.position}\n")
    assert error.expression == text
    assert_caret_under_the_place(error)


# The ^ in each text marks the first character of the predicate, the term or the constant at fault.

PLACES = [
    "price > 5 and ^lower(name) + 1 > 3",
    "price > 5 and name + ^1e400 > 3",
    "x = 1 or not ^lower(y) = 5",
    "x = 1 and (y = 2 or ^z in (1, 'a'))",
    "x = 1 and y in (1, ^99999999999999999999)",
    "x = 1 and ^5",
    "x = 1 or not (^'a')",
    "^length(x)",
    "x = 1 and y = 2 and ^case when 5 then 1 end = 1",
    "x = 1 and case when y regexp ^'[' then 1 end = 1",
    "x = 1 and exists(l, y = 1 and z regexp ^'[')",
    "x = 1 and ip_in(y, ^'10.0.0.0/99')",
    "x like 'a' escape ^'bc'",
    "x = 1 and y > timestamp ^'noon'",
    "x = 1 and y > interval ^1 month",
    "x = 1 and ^any(y) + 1 > 5",
    "x = 1 and\n  ^lower(y, z) = 'a'",
    "x = 1 and ^extract(houre from y) = 1",
    "x = 1 and list_has_any(y, [1, ^1e400])",
    "(x regexp ^'(') is null",
    "y = (x = 1 or x like ^'a!' escape '!')",
    "(ip_in(x, ^'10.0.0./8')) in (true, y)",
    "exists(items, (ip_in(x, ^'10.0.0./8')) = false)",
]


@pytest.mark.parametrize("marked", PLACES)
def test_the_caret_is_under_what_is_at_fault(marked: str) -> None:
    error = error_of(marked.replace("^", ""))
    assert isinstance(error, ExpressionTypeError)
    assert error.position == marked.index("^")
    assert_caret_under_the_place(error)


@pytest.mark.parametrize(
    "text", ["x = -9223372036854775809", "t = timestamp 'noon'", "t = date '2024-02-30'", "x < double 'nan'"]
)
def test_the_predicate_is_named_as_it_was_written(text: str) -> None:
    error = error_of(text)
    assert isinstance(error, ExpressionTypeError)
    assert error.predicate == text
