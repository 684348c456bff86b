"""The fast parser reads the language of the grammar: the same texts, with the same trees. Errors are the grammar's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ray_pubsub.errors import ExpressionError
from ray_pubsub.language.grammar import parse_by_grammar
from ray_pubsub.language.parser import _Parser, parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Tree
from ray_pubsub.settings import Limits
from tests.generators import ANY_TREE

SMALL = Limits(text_length=400, nesting_depth=4, leaves=5, set_size=3, pattern_length=6, word_length=12)

TOKENS = [
    "x", "a.b", "a", ".", "größe", "_", "x$1", '"x y"', "`z`", '""', "timestamp", "date", "double", "escape", "DATE", "not", "NOT", "and",
    "or", "Or", "in", "between", "like", "regexp", "rlike", "is", "null", "true", "FALSE", "(", ")", "(", ")", ",", "=", "==", "!=", "<>",
    "<", "<=", ">", ">=", "=<", "!", "-", "+", "--", "1", "2.5", ".5", "5.", "1e3", "1E-7", "1.2.3", "1and", "1_000", "1\u0663", "$",
    "9223372036854775807", "9223372036854775808", "1e400", "'a'", "'it''s'", "''", "'a%'", "'['", "'2024-05-01'", "'2024-13-01'", "'inf'",
    "'\ud800'", "\u0663", "²", "\0", ";", "x like 'a!' escape '!'", "x in (1, 2)", "x between 1 and 2", "x is not null", "x = 1",
]  # fmt: skip

EDITS = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(" 0123456789.-+eE'\"`()_$xnab=<>!,\n\u0663\u00e9")), max_size=3
)


def outcome(parser: Callable[[str, Limits], Tree], text: str, limits: Limits) -> str:
    try:
        return repr(parser(text, limits))
    except ExpressionError as error:
        return f"{type(error).__name__}: {error}"


def assert_agree(text: str) -> None:
    for limits in (Limits(), SMALL):
        assert outcome(parse, text, limits) == outcome(parse_by_grammar, text, limits)


@given(ANY_TREE)
def test_the_fast_parser_reads_every_expression_by_itself(tree: Tree) -> None:
    text = write(tree)
    found = _Parser(text, Limits()).parse()
    assert repr(found) == repr(parse_by_grammar(text)) == repr(tree)


@given(ANY_TREE, EDITS)
def test_edited_texts_are_read_or_refused_alike(tree: Tree, edits: list[tuple[int, str]]) -> None:
    text = write(tree)
    for place, character in edits:
        text = text[: place % (len(text) + 1)] + character + text[place % (len(text) + 1) :]
    assert_agree(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=12), st.sampled_from(["", " ", "\n\x1c", "\u00a0"]))
@example(["x = ", "1and", "x"], " ")
@example(["1", "=", "1"], " ")
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
        "x" + " " * 400,
    ],
)
def test_limits_are_the_same(text: str) -> None:
    assert_agree(text)
