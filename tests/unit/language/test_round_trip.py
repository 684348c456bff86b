"""Text to tree to text: printing and parsing undo each other, and the cache of shapes never changes what is parsed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError, ExpressionLimitError, ExpressionTypeError
from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.terms import attributes_of
from ray_pubsub.language.tree import And, Comparison, Not, Operand, Or, Tree
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits
from tests.examples import scaled
from tests.generators import ANY_TREE, number_constants, string_constants
from tests.rich_expressions import rich_texts


def same(left: Tree, right: Tree) -> bool:
    """Equal, and 1 is not 1.0 nor -0.0 0.0."""
    return left == right and repr(left) == repr(right)


@given(ANY_TREE)
def test_what_is_printed_parses_back(tree: Tree) -> None:
    assert same(parse(write(tree)), tree)


@given(st.text(min_size=1).filter(lambda name: name[0] != "\0"), number_constants, string_constants)
def test_any_name_and_any_constant_parse_back(name: str, number: float, string: str) -> None:
    tree = And(
        (Comparison(name, "=", Operand(Kind.NUMBER, number)), Comparison(name, "=", Operand(Kind.STRING, string)))
    )
    assert same(parse(write(tree)), tree)


@settings(max_examples=scaled(25))
@given(rich_texts())
@example("(s1 = any(l2)) is null")
def test_functions_and_conditions_used_as_values_parse_back(text: str) -> None:
    tree = parse(text)
    assert same(parse(write(tree)), tree)


TEXTS = [
    # text, how it is printed
    ("x=1", "x = 1"),
    ("  x\t=\n1\r\n", "x = 1"),
    ("x\u00a0=\u20031", "x = 1"),
    ("X = 1", "X = 1"),
    ("x=1 AND(y=2)Or(z=3)", "x = 1 and y = 2 or z = 3"),
    ("NoT x IS nOt NuLl", "not x is not null"),
    ("x BETWEEN 1 AND 2 AND y NOT Between 3 aNd 4", "x between 1 and 2 and y not between 3 and 4"),
    ("x In(1,2 , 3)", "x in (1, 2, 3)"),
    ("s RLIKE 'a' or s Not rlike 'b'", "s regexp 'a' or s not regexp 'b'"),
    ("1 < x and 2 <= x and 3 > x and 4 >= x", "x > 1 and x >= 2 and x < 3 and x <= 4"),
    ("1 <> x and 2 == x", "x != 1 and x = 2"),
    (
        "x = +1 and x = - 1 and x = -.5 and x = 5. and x = 1E3",
        "x = 1 and x = -1 and x = -0.5 and x = 5.0 and x = 1000.0",
    ),
    ("x = 0001", "x = 1"),
    ("x = -0.0", "x = -0.0"),
    ("x = -9223372036854775808", "x = -9223372036854775808"),
    ("x < double 'Infinity' and x > DOUBLE '-inf'", "x < double 'inf' and x > double '-inf'"),
    ("s = 'it''s' or s = '''' or s = ''", "s = 'it''s' or s = '''' or s = ''"),
    ("s = '-- and \"x\" or `y`'", "s = '-- and \"x\" or `y`'"),
    ("a.b.c = 1", "a.b.c = 1"),
    ('a . `b` . "c" = 1', "a.b.c = 1"),
    ('"a.b" = 1', "a.b = 1"),
    ('"a b" = 1', '"a b" = 1'),
    ('"say ""x""" = 1', '"say ""x""" = 1'),
    ("`a``b` = 1", '"a`b" = 1'),
    ('"and" = 1 or `Null` = 2', '"and" = 1 or "Null" = 2'),
    ('a."or".b = 1', '"a.or.b" = 1'),
    ('"a..b" = 1', '"a..b" = 1'),
    ('"1x" = 1', '"1x" = 1'),
    (
        "android = 1 and orange = 2 and nothing = 3 and inner = 4",
        "android = 1 and orange = 2 and nothing = 3 and inner = 4",
    ),
    (
        "timestamp = 1 and date = 2 and double = 3 and escape = 4",
        "timestamp = 1 and date = 2 and double = 3 and escape = 4",
    ),
    ("x1 = 1 and _x = 2 and x$y = 3", "x1 = 1 and _x = 2 and x$y = 3"),
    ("größe = 1 and 价格2 = 2 and ñ\u0663 = 3", "größe = 1 and 价格2 = 2 and ñ\u0663 = 3"),
    (
        "t = TIMESTAMP'2024-05-01' or t = Date '2024-05-01'",
        "t = timestamp '2024-05-01 00:00:00' or t = timestamp '2024-05-01 00:00:00'",
    ),
    ("t = timestamp '2024-05-01T10:30:00.25+02:00'", "t = timestamp '2024-05-01 08:30:00.250000'"),
    ("s like 'a!%' escape '!' or s like 'b' ESCAPE''", "s like 'a!%' escape '!' or s like 'b'"),
    ("s like 'a' escape ''''", "s like 'a' escape ''''"),
    ("not not not b", "not not not b"),
    ("not (not (b))", "not not b"),
    ("not(a or b)and c", "not (a or b) and c"),
    ("not a = 1 and b", "not a = 1 and b"),
    ("((a and b) and (c))", "a and b and c"),
    ("a or (b or (c and (d and e)))", "a or b or c and d and e"),
    ("(a or b) and (c or d)", "(a or b) and (c or d)"),
    ("a and TRUE or False and null", "a and true or false and null"),
    ("1 = 1 or 'a' like 'b' or null = 1", "true or false or null"),
]


@pytest.mark.parametrize(("text", "printed"), TEXTS)
def test_texts_written_by_hand(text: str, printed: str) -> None:
    tree = parse(text)
    assert write(tree) == printed
    assert same(parse(printed), tree)


def test_not_binds_tighter_than_and_and_and_tighter_than_or() -> None:
    a, b, c = parse("a"), parse("b"), parse("c")
    assert parse("not a and b or c") == Or((And((Not(a), b)), c))
    assert parse("a or b and not c") == Or((a, And((b, Not(c)))))


# The shape cache


@given(ANY_TREE)
def test_the_shape_cache_parses_as_the_parser_does(tree: Tree) -> None:
    text = write(tree)
    cache = ShapeCache(Limits())
    assert same(cache.parse(text).tree, tree)  # the shape is new
    assert same(cache.parse(text).tree, tree)  # the shape is known


@settings(max_examples=scaled(50))
@given(st.lists(ANY_TREE, min_size=2, max_size=4), st.integers(1, 3))
def test_shapes_of_different_texts_are_not_confused(drawn: list[Tree], capacity: int) -> None:
    cache = ShapeCache(Limits(), capacity)
    for tree in drawn * 2:
        assert same(cache.parse(write(tree)).tree, tree)


@pytest.mark.parametrize("text", [text for text, _ in TEXTS])
def test_texts_written_by_hand_through_the_cache(text: str) -> None:
    cache = ShapeCache(Limits())
    for _ in range(2):
        expression = cache.parse(text)
        assert same(expression.tree, parse(text))
        assert expression.text == text


ONE_SHAPE = {
    "numbers": ["x = 1", "x = 2.5", "x = 1e-7", "x = .5", "x = 5.", "x = 9223372036854775807", "x = 0"],
    "negative numbers": ["x = -1", "x = -2.5", "x = -1e22", "x = -9223372036854775808", "x = -0.0"],
    "signs apart": ["x > - 1 and y < + 2", "x > - 3e5 and y < + .25"],
    "strings": [
        "s = ''",
        "s = 'it''s'",
        "s = ''''",
        "s = '1'",
        "s = ' and x = 2'",
        "s = '\"'",
        "s = '`'",
        "s = '\n\0'",
    ],
    "timestamps": ["t > timestamp '2024-05-01'", "t > timestamp '2024-05-01T10:30:00.000001Z'"],
    "dates": ["t > date '2024-05-01'", "t > date '1969-12-31'"],
    "infinities": ["x < double 'inf'", "x < double '-inf'", "x < double '0.1'"],
    "sets": ["x in (1, -2, 3)", "x in (4.5, -0, 1e3)"],
    "sets of strings": ["s in ('a', 'b''c')", "s in ('(', ')')"],
    "bounds": ["x between 1 and 2 and y = 'a'", "x between 3 and 4 and y = '5'"],
    "names with digits": ["x1 = 1 and a2.b3 = 2 and y4e5 = 6", "x1 = 7 and a2.b3 = 8 and y4e5 = 9"],
    "names beyond ASCII": ["größe2 = 1 and ñ\u0663 = 'a'", "größe2 = 22 and ñ\u0663 = 'ñ1'"],
    "quoted names": ["\"it's 5\" = 5 and `6 '` = '6'", "\"it's 5\" = 7 and `6 '` = '\"`'"],
    "patterns": ["s like 'a%' and s regexp 'b'", "s like '%''_' and s regexp '[0-9]+'"],
    "escapes": ["s like 'a!%' escape '!'", "s like 'a#%' escape '#'", "s like 'a!%' escape '#'"],
    "folded": ["x = 1 and 1 = 1", "x = 1 and 1 = 2", "x = 3 and 4 = 4"],
    "flipped": ["1 < x", "2 < x"],
    "nulls": ["x in (1, null) and y = 2", "x in (2, null) and y = 1"],
}


@pytest.mark.parametrize("texts", ONE_SHAPE.values(), ids=ONE_SHAPE.keys())
def test_texts_of_one_shape_keep_their_own_constants(texts: list[str]) -> None:
    cache = ShapeCache(Limits())
    for text in [*texts, *reversed(texts)]:
        assert same(cache.parse(text).tree, parse(text))


DIFFERENT_SHAPES = [
    ["x = 1", "x = -1", "x = - 1", "x = '1'", "x = timestamp '2024-01-01'", "x = date '2024-01-01'", "x = double '1'"],
    ['"x" = 1', "x = 1", "`x` = 1", '"x1" = 1', '"x2" = 1', "x1 = 1", "x2 = 1"],
    ["x = 1 or y = 2", "x = 1 or y2 = 2", "x = 1 or y = '2'", "x = 1 or 2 = y", "x = 1 or y"],
    ["'x' = x", "'x' = 'x'", "\"x\" = 'x'", "5 < x", "x < 5", "5 < 5"],
    ["x in (1, 2)", "x in (12)", "x in (1, null)", "x in (-1, 2)", "x between 1 and 2"],
]


@pytest.mark.parametrize("texts", DIFFERENT_SHAPES)
def test_texts_that_look_alike(texts: list[str]) -> None:
    cache = ShapeCache(Limits())
    for text in texts * 2:
        assert same(cache.parse(text).tree, parse(text))


def test_a_bad_constant_in_a_known_shape_is_still_refused() -> None:
    cache = ShapeCache(Limits(pattern_length=5))
    for good in ("x = 1", "t = timestamp '2024-05-01'", "x < double 'inf'", "s regexp 'a'", "s like 'a'", "s = 'a'"):
        cache.parse(good)
    for bad in (
        "x = 9223372036854775808",
        "t = timestamp '2024-13-01'",
        "x < double 'nan'",
        "s regexp '('",
        "s = '\ud800'",
    ):
        with pytest.raises(ExpressionTypeError):
            cache.parse(bad)
    with pytest.raises(ExpressionLimitError):
        cache.parse("s like 'abcdef'")


def outcome(parser: Callable[[str], Tree], text: str) -> str:
    try:
        return repr(parser(text))
    except ExpressionError as error:
        return f"{type(error).__name__}: {error}"


EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(" 0123456789.-+eE'\"`()_$xnab=<,\n\u0663")), max_size=3
)


@given(ANY_TREE, EDITS, EDITS)
def test_edited_texts_parse_the_same_through_the_cache(
    tree: Tree, first: list[tuple[int, str]], second: list[tuple[int, str]]
) -> None:
    cache = ShapeCache(Limits())
    text = write(tree)
    for edits in ([], first, second, first):
        for place, character in edits:
            text = text[: place % (len(text) + 1)] + character + text[place % (len(text) + 1) :]
        assert outcome(lambda each: cache.parse(each).tree, text) == outcome(parse, text)


@pytest.mark.parametrize("name", ["case", "when", "Then", "else", "END", "a.end", "and", "from", "date", "any"])
def test_a_name_that_is_a_word_of_sql_stays_one_within_a_case(name: str) -> None:
    tree = parse(
        f"""case when "{name}" = 1 then "{name}" when x then 1 else "{name}" end = 2 and lower("{name}") = 'a'"""
    )
    assert same(parse(write(tree)), tree)
    assert attributes_of(tree) == {name, "x"}


@pytest.mark.parametrize(
    "moment",
    [
        "9999-12-31 23:59:59-10:00",
        "0001-01-01 00:00:00+10:00",
        "10000-01-01",
        "-0001-01-01",
        "-99999-01-01",
        "294247-01-10 04:00:54.775807",
    ],
)
def test_a_timestamp_outside_the_usual_calendar(moment: str) -> None:
    tree = parse(f"t > timestamp '{moment}'")
    assert same(parse(write(tree)), tree)


@pytest.mark.parametrize(
    "moment",
    [
        "999999-01-01",
        "294248-01-01",
        "294247-01-10 04:00:54.775808",
        "294247-01-10 04:00:54-10:00",
        "-290309-01-01",
        "-290308-12-21 19:59:06+10:00",
    ],
)
def test_a_timestamp_that_does_not_fit_64_bits_is_refused(moment: str) -> None:
    with pytest.raises(ExpressionTypeError):
        parse(f"t > timestamp '{moment}'")


@pytest.mark.parametrize(
    "number",
    ["9" * 5000, "0" * 5000 + "1", "1." + "0" * 2000, "1e" + "9" * 2000],
    ids=["nines", "zeros", "decimals", "an exponent"],
)
def test_a_huge_number_of_a_known_shape_is_refused_as_the_parser_does(number: str) -> None:
    cache = ShapeCache(Limits())
    cache.parse("x = 1 and y < -2")
    text = f"x = {number} and y < -{number}"
    assert outcome(lambda each: cache.parse(each).tree, text) == outcome(parse, text)
