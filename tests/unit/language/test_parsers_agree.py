"""The fast parser reads the language of the grammar: the same texts, with the same trees. Errors are the grammar's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError
from ray_pubsub.language.grammar import parse_by_grammar, parse_term_by_grammar
from ray_pubsub.language.parser import parse, parse_term, read
from ray_pubsub.language.printer import write
from ray_pubsub.language.terms import COMPUTED, is_computed
from ray_pubsub.language.tree import Constant, Tree, leaves, operands
from ray_pubsub.settings import Limits
from tests.generators import ANY_TREE
from tests.rich_expressions import rich_texts

SMALL = Limits(
    text_length=2000, nesting_depth=4, leaves=5, set_size=3, pattern_length=6, word_length=12, term_size=8, term_depth=4
)

TOKENS = [
    "x", "a.b", "a", ".", "größe", "_", "x$1", '"x y"', "`z`", '""', "timestamp", "date", "double", "escape", "DATE", "not", "NOT", "and",
    "or", "Or", "in", "between", "like", "regexp", "rlike", "is", "null", "true", "FALSE", "(", ")", "(", ")", ",", "=", "==", "!=", "<>",
    "<", "<=", ">", ">=", "=<", "!", "-", "+", "--", "1", "2.5", ".5", "5.", "1e3", "1E-7", "1.2.3", "1and", "1_000", "1\u0663", "$",
    "9223372036854775807", "9223372036854775808", "1e400", "'a'", "'it''s'", "''", "'a%'", "'['", "'2024-05-01'", "'2024-13-01'", "'inf'",
    "+", "*", "/", "%", "||", "[", "]", "case", "when", "then", "else", "end", "case when", "extract(", "extract", "from", "year", "any(",
    "all(",
    "lower(", "LOWER", "coalesce(", "if(", "exists(", "list_contains(", "list_has_any(", "ip_in(", "'10.0.0.0/8'", "now()", "interval",
    "'1 day'", "ilike", "starts_with(", "nosuch(", "case when x then 1 else 2 end", "extract(hour from t)", "[1, 2]", '"\0x"',
    "ca\u017fe", "x(",
    "'\ud800'", "\u0663", "²", "\0", ";", "x like 'a!' escape '!'", "x in (1, 2)", "x between 1 and 2", "x is not null", "x = 1",
]  # fmt: skip

EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(" 0123456789.-+eE'\"`()_$xnab=<>!,\n\u0663\u00e9")), max_size=3
)


def shown(tree: Tree) -> str:
    """All that a tree has, the places of its constants too."""
    places = [(operand.place, operand.made is None) for leaf in leaves(tree) for operand in operands(leaf)]
    return f"{tree!r} {places}"


def outcome(parser: Callable[[str, Limits], Tree], text: str, limits: Limits) -> str:
    try:
        return shown(parser(text, limits))
    except ExpressionError as error:
        return f"{type(error).__name__}: {error}"


def assert_agree(text: str) -> None:
    for limits in (Limits(), SMALL):
        assert outcome(parse, text, limits) == outcome(parse_by_grammar, text, limits)


@given(ANY_TREE)
def test_the_fast_parser_reads_every_expression_by_itself(tree: Tree) -> None:
    text = write(tree)
    found = read(text, Limits())
    assert shown(found) == shown(parse_by_grammar(text))
    assert repr(found) == repr(tree)


@given(rich_texts())
@example("-9223372036854775808 < x and - - 5 = -(y)")
@example("case when a then b when (c or d) then e end = case when a then case when b then 1 end else 2 end")
@example("exists(o, (n) + 1 > 2 and case when n > 1 then true else s = 'a' end) or not (a and b) = c")
@example("if(a > 1, b, c) || lower(d) ilike '%X!%' escape '!' and t > now() - interval '1 hour'")
@example('from = 1 and case = 2 and when = 3 and extract = 4 and date = 5 and end is null and "case".end = interval')
@example("extract(YEAR from t) = 2024 and x in (y, 1, z + 1) and x between y and -3 and not x not in (+1, - 2)")
def test_the_fast_parser_reads_terms_and_functions_by_itself(text: str) -> None:
    found = read(text, Limits())
    assert shown(found) == shown(parse_by_grammar(text))
    for name in {name for leaf in leaves(found) for name in _names(leaf)}:
        term = name.removeprefix(COMPUTED)
        assert repr(parse_term(term)) == repr(parse_term_by_grammar(term))


def _names(leaf: Tree) -> list[str]:
    if isinstance(leaf, Constant):
        return []
    names = getattr(leaf, "attributes", None) or (leaf.attribute,)  # type: ignore[union-attr]
    return [name for name in names if is_computed(name)]


@given(ANY_TREE.map(write) | rich_texts(), EDITS)
def test_edited_texts_are_read_or_refused_alike(text: str, edits: list[tuple[int, str]]) -> None:
    for place, character in edits:
        text = text[: place % (len(text) + 1)] + character + text[place % (len(text) + 1) :]
    assert_agree(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=12), st.sampled_from(["", " ", "\n\x1c", "\u00a0"]))
@example(["x = ", "1and", "x"], " ")
@example(["1", "=", "1"], " ")
@example(["x", "or", "any(", "x", ")"], " ")
@example(["any(", "x", ") is null"], " ")
@example(["any(", "x", ") in (1, y)"], " ")
@example(["coalesce(", "any(", "x", ")) = 1"], " ")
def test_any_sequence_of_tokens_is_read_or_refused_alike(tokens: list[str], between: str) -> None:
    assert_agree(between.join(tokens))


@given(st.text("xy10.'\"`()=<>-_% \nabnotrdikeul,", max_size=40))
def test_any_text_is_read_or_refused_alike(text: str) -> None:
    assert_agree(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 4 + "x" + ")" * 4,
        "(" * 5 + "x" + ")" * 5,
        "not not not not x",
        "not not not x",
        "a and (b or (c and d))",
        "a and (b or (c and (d or e)))",
        "a or b or c or d or e",
        "a or b or c or d or e or f",
        "x in (1, 2, 3)",
        "x in (1, 2, 3, 4)",
        "x like 'abcdef'",
        "x like 'abcdefg'",
        "abcdefghijkl = 1",
        "abcdefghijklm = 1",
        '"abcdefghijklm" = 1',
        "abcdef . ghijkl = 1",
        "x = 123456789012",
        "x = 1234567890123",
        "x = 1.2345678901e-3",
        "x" + " " * 2000,
        "((((x in (1)))))",
        "lower(lower(lower(lower(x)))) = 'a'",
        "lower(lower(lower(lower(lower(x))))) = 'a'",
        "x + 1 + 1 + 1 + 1 + 1 = 2",
        "list_has_any(x, [1, 2, 3])",
        "list_has_any(x, [1, 2, 3, 4])",
        "geo_in_polygon(x, y, 'a') = b",
        "case when a or b or c or d or e or f then 1 end = 1",
        "exists(o, a or b or c or d or e)",
        "- " * 300 + "x = 1",
        "case when " * 150 + "x",
    ],
)
def test_limits_are_the_same(text: str) -> None:
    assert_agree(text)
