"""Hypothesis strategies: expressions over a few attributes of every kind, and events at and near their constants.

The text of an expression is `printer.write(tree)`. An event is a plain dict as a user would publish it; `flatten` makes of
it what `truth` evaluates.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ray_pubsub.language.patterns import ANY_STRING, like_pieces
from ray_pubsub.language.tree import (
    Between,
    BooleanAttribute,
    Comparison,
    Constant,
    In,
    IsNull,
    Leaf,
    Like,
    Not,
    Operand,
    Regexp,
    Tree,
    conjunction,
    disjunction,
    leaves,
    operands,
)
from ray_pubsub.model.values import EPOCH, INT64_MAX, INT64_MIN, Kind, microseconds

ATTRIBUTES = {
    "n1": Kind.NUMBER,
    "n2": Kind.NUMBER,
    "a.b": Kind.NUMBER,
    "s1": Kind.STRING,
    "s2": Kind.STRING,
    "b1": Kind.BOOLEAN,
    "t1": Kind.TIMESTAMP,
}

NUMBERS = (0, 1, -1, 2, 3, 5, 10, -0.0, 0.1, 0.5, 0.30000000000000004, 5.5, -2.5, 1e22, 1e300, 5e-324, 1.5e-7)
LIMITS_OF_NUMBERS = (
    2**53,
    2**53 + 1,
    float(2**53),
    -(2**53) - 1,
    INT64_MAX,
    INT64_MIN,
    INT64_MAX - 1,
    float(2**63),
    float(-(2**63)),
    math.inf,
    -math.inf,
)
CHARACTERS = "aabbc%_!\\' \"\n\u00e9\ud7ff\ue000\U0001f600\U0010ffff\0"
PREFIXES = ("", "a", "ab", "abc", "a%b", "a_b", "it's", "\ud7ff", "\U0010ffff", "a\U0010ffff", "\U0010ffff\U0010ffff")
REGEXPS = (
    "",
    "a",
    "^a",
    "b$",
    "a.b",
    "^a*$",
    "[^a]b",
    "a|c",
    "(?i)AB",
    "\\d+",
    "\\bab\\b",
    "(a|b)+c?",
    "\u00e9",
    "'",
    "^.$",
    "(?s)^.$",
)
MOMENTS = (
    datetime.datetime(1970, 1, 1),
    datetime.datetime(2024, 2, 29, 12, 30),
    datetime.datetime(2024, 2, 29, 12, 30, 0, 1),
    datetime.datetime(2024, 5, 1, 10, 30, 0, 250_000),
    datetime.datetime(1, 1, 1),
    datetime.datetime(9999, 12, 31, 23, 59, 59, 999_999),
)

number_constants = (
    st.sampled_from(NUMBERS)
    | st.sampled_from(LIMITS_OF_NUMBERS)
    | st.integers(-6, 6)
    | st.integers(INT64_MIN, INT64_MAX)
    | st.floats(allow_nan=False)
)
string_constants = st.sampled_from(PREFIXES) | st.text(CHARACTERS, max_size=4)
moment_constants = st.sampled_from(MOMENTS).map(microseconds)

CONSTANTS: Mapping[str, SearchStrategy[Any]] = {
    attribute: {
        Kind.NUMBER: number_constants,
        Kind.STRING: string_constants,
        Kind.BOOLEAN: st.booleans(),
        Kind.TIMESTAMP: moment_constants,
    }[kind]
    for attribute, kind in ATTRIBUTES.items()
}

NULL = Operand(None, None)


def predicates(constants: Mapping[str, SearchStrategy[Any]] = CONSTANTS) -> SearchStrategy[Leaf]:
    """Every leaf of the grammar; `constants` says what each attribute is compared with."""
    compared = st.one_of([_compared(attribute, constants[attribute]) for attribute in constants])
    patterned = st.one_of([_patterned(name, constants[name]) for name in constants if ATTRIBUTES[name] is Kind.STRING])
    null = st.builds(IsNull, st.sampled_from(list(constants)), st.booleans())
    bare = st.sampled_from([BooleanAttribute("b1")] * 3 + [Constant(True), Constant(False), Constant(None)])
    return _weighted(*[compared] * 5, *[patterned] * 2, null, bare)


def trees(constants: Mapping[str, SearchStrategy[Any]] = CONSTANTS, most_leaves: int = 8) -> SearchStrategy[Tree]:
    """Expressions that print and parse back to themselves."""
    return st.recursive(
        predicates(constants),
        lambda inner: st.one_of(
            st.builds(Not, inner),
            st.lists(inner, min_size=2, max_size=4).map(conjunction),
            st.lists(inner, min_size=2, max_size=4).map(disjunction),
        ),
        max_leaves=most_leaves,
    )


def _compared(attribute: str, constants: SearchStrategy[Any]) -> SearchStrategy[Leaf]:
    operand = st.builds(Operand, st.just(ATTRIBUTES[attribute]), constants)
    nullable = _weighted(*[operand] * 11, st.just(NULL))
    return st.one_of(
        st.builds(Comparison, st.just(attribute), st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), nullable),
        st.builds(Between, st.just(attribute), nullable, nullable, st.booleans()),
        st.builds(In, st.just(attribute), st.lists(nullable, min_size=1, max_size=4).map(tuple), st.booleans()),
    )


def _patterned(attribute: str, constants: SearchStrategy[str]) -> SearchStrategy[Leaf]:
    def like(pieces: list[str], escape: str | None, negated: bool) -> Like:
        pattern = "".join(pieces)
        if escape is not None:
            # An escape at the end has nothing to escape, which is an error; one in front of any character is not.
            kept = pattern.rstrip(escape)
            pattern = kept + escape * ((len(pattern) - len(kept)) // 2 * 2)
        return Like(attribute, Operand(Kind.STRING, pattern), escape, negated)

    pieces = st.lists(st.sampled_from(["%", "_", "!%", "!_", "!!"]) | constants, min_size=1, max_size=4)
    pattern = st.sampled_from(REGEXPS).map(lambda text: Operand(Kind.STRING, text))
    return st.one_of(
        st.builds(like, pieces, st.sampled_from([None, None, "!", "\\", "%", "_", "'"]), st.booleans()),
        st.builds(Regexp, st.just(attribute), pattern, st.booleans()),
    )


def _weighted(*choices: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """One of the choices; repeating one makes it likelier, which `one_of` does not do."""
    return st.integers(0, len(choices) - 1).flatmap(choices.__getitem__)


ANY_TREE = trees()


class Case(NamedTuple):
    """An expression, and events that lie at and around its constants."""

    tree: Tree
    events: list[dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn, expressions: SearchStrategy[Tree] = ANY_TREE, most_events: int = 6) -> Case:
    tree = draw(expressions)
    return Case(tree, draw(st.lists(events_near([tree]), min_size=1, max_size=most_events)))


def events_near(expressions: Sequence[Tree], *, wrong_kinds: bool = True) -> SearchStrategy[dict[str, Any]]:
    """Events whose values are absent, or at or near a constant the expressions compare them with, or of another kind."""
    near: dict[str, list[Any]] = {}
    for expression in expressions:
        for leaf in leaves(expression):
            if not isinstance(leaf, Constant):
                near.setdefault(leaf.attribute, list(ORDINARY[ATTRIBUTES[leaf.attribute]])).extend(_values_near(leaf))
    return _events(near, wrong_kinds)


@st.composite
def _events(draw: st.DrawFn, near: Mapping[str, list[Any]], wrong_kinds: bool) -> dict[str, Any]:
    event = dict(draw(st.sampled_from(UNTESTED)))
    for attribute, values in near.items():
        kind = ATTRIBUTES[attribute]
        choices = [values] * 6 + [ABSENT[kind]] + [OTHER_KINDS[kind]] * wrong_kinds
        event[attribute] = draw(st.sampled_from(choices[draw(st.integers(0, len(choices) - 1))]))
    return draw(st.sampled_from(LAYOUTS))(event)


ORDINARY: Mapping[Kind, Sequence[Any]] = {
    Kind.NUMBER: (0, 3, -0.0, math.inf, 2**53 + 1),
    Kind.STRING: ("", "ab", "\ue000"),
    Kind.BOOLEAN: (True, False),
    Kind.TIMESTAMP: (datetime.datetime(2024, 2, 29, 12, 30, 0, 1),),
    Kind.LIST: ([], [3, "ab", None], [{"n": 1}]),
}
UNTESTED: Sequence[dict[str, Any]] = (
    {},
    {"n1": 1, "s1": "ab", "b1": True},
    {"n2": 2**53, "a.b": 0.5, "s2": "", "t1": datetime.datetime(2024, 5, 1)},
)


ABSENT: Mapping[Kind, Sequence[Any]] = {kind: [None, math.nan] if kind is Kind.NUMBER else [None] for kind in Kind}
OTHER_KINDS: Mapping[Kind, Sequence[Any]] = {
    kind: [value for other in Kind if other is not kind for value in ORDINARY[other]] for kind in Kind
}


def _without_none(event: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in event.items() if value is not None}


def _nested(event: dict[str, Any]) -> dict[str, Any]:
    flat = {name: value for name, value in event.items() if name != "a.b"}
    return {**flat, "a": {"b": event["a.b"]}} if "a.b" in event else flat


LAYOUTS = (dict, _without_none, _nested)


def _values_near(leaf: Leaf) -> list[Any]:
    if isinstance(leaf, Like):
        return _strings_near_like(leaf)
    if isinstance(leaf, Regexp):
        return ["a", "ab", "xabc", "a\nb", "b", "1", "a'b", "\u00e9", "AB c", "\n", "\U0010ffff"]
    near: list[Any] = []
    for operand in operands(leaf):
        if operand.kind is not None:
            near += NEAR[operand.kind](operand.plain)
    return near


def numbers_near(number: int | float) -> list[int | float]:
    found: list[int | float] = [number, -number, number - 1, number + 1]
    if math.isfinite(number):
        rounded = float(number)
        found += [rounded, math.nextafter(rounded, math.inf), math.nextafter(rounded, -math.inf)]
        found += [int(number), int(number) - 1, int(number) + 1]
    return [each for each in found if isinstance(each, float) or INT64_MIN <= each <= INT64_MAX]


def strings_near(string: str) -> list[str]:
    found = [string, string[:-1], string[1:], string + "\0", string + "a", string + "\U0010ffff", "a" + string]
    if string:
        found += [string[:-1] + neighbour for neighbour in _neighbours(string[-1])]
    return found


def _neighbours(character: str) -> list[str]:
    """The code points before and after, skipping the surrogates, which are not characters."""
    below = "\ud7ff" if character == "\ue000" else chr(max(0, ord(character) - 1))
    above = "\ue000" if character == "\ud7ff" else chr(min(0x10FFFF, ord(character) + 1))
    return [below, above, below + "\U0010ffff"]


def _strings_near_like(leaf: Like) -> list[str]:
    """Strings that the pattern matches, with different things in the place of its wildcards, and their neighbours."""
    pieces = like_pieces(leaf.pattern.plain, leaf.escape)
    found: list[str] = []
    for one, many in (("a", ""), ("\u00e9", "xyz"), ("\n", "\n"), ("\U0010ffff", "%")):
        parts = [piece if isinstance(piece, str) else many if piece == ANY_STRING else one for piece in pieces]
        found += strings_near("".join(parts))
    return found


def moments_near(count: int) -> list[datetime.datetime]:
    found = []
    for step in (-1_000_000, -1, 0, 1, 86_400_000_000):
        try:
            found.append((EPOCH + datetime.timedelta(microseconds=count + step)).replace(tzinfo=None))
        except OverflowError:
            continue
    return found


NEAR: Mapping[Kind, Any] = {
    Kind.NUMBER: numbers_near,
    Kind.STRING: strings_near,
    Kind.BOOLEAN: lambda plain: [True, False],
    Kind.TIMESTAMP: moments_near,
}
