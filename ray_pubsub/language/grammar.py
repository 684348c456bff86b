"""Parses by the grammar: it defines what an expression is, and its errors point at the place.

grammar.lark is the specification of the language. parser.py reads the same language faster; a text that it does not accept is parsed
here, and this parse either raises the error or succeeds. Tests check that the two agree. `TreeBuilder` builds a node for each rule as it
is recognised, so there is no intermediate parse tree, and no recursion however deeply the text nests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ray_pubsub.errors import ExpressionError, ExpressionLimitError, ExpressionSyntaxError, ExpressionTypeError
from ray_pubsub.language import words
from ray_pubsub.language.building import calls, predicates
from ray_pubsub.language.building.constants import BrokenConstant
from ray_pubsub.language.building.intervals import interval
from ray_pubsub.language.building.quantified import relation
from ray_pubsub.language.hints import hint_at
from ray_pubsub.language.size import check_size
from ray_pubsub.language.terms import Attribute, Term, as_value, is_computed
from ray_pubsub.language.tree import Not, Operand, Tree, conjunction, disjunction
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["DEFAULT_LIMITS", "WITHOUT_LIMITS", "error_within", "parse_by_grammar", "parse_term_by_grammar"]

DEFAULT_LIMITS = Limits()
WITHOUT_LIMITS = Limits(
    nesting_depth=200,
    **dict.fromkeys(
        ("text_length", "word_length", "set_size", "pattern_length", "leaves", "term_size", "term_depth"), 1 << 40
    ),
)


def parse_by_grammar(text: str, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Returns the tree of an expression; raises an ExpressionError that says what is wrong and where."""
    if not isinstance(text, str):
        raise ExpressionTypeError(repr(text)[:200], f"an expression is a str, not {type(text).__name__}")
    if len(text) > limits.text_length:
        raise ExpressionLimitError("text_length", limits.text_length, len(text))
    check_size(text, limits)
    depth, tree = cast(tuple[int, Tree], _parsed(text, limits, "start"))
    if depth > limits.nesting_depth:
        raise ExpressionLimitError("nesting_depth", limits.nesting_depth, depth)
    try:
        predicates.check_leaves(tree, limits)
    except ExpressionTypeError as error:
        raise error.located(text, 0) from None
    return tree


def parse_term_by_grammar(text: str) -> Term:
    """Returns the term of a computed attribute's name. It was checked against the limits when it was written."""
    return cast(Term, _parsed(text, WITHOUT_LIMITS, "term"))


def error_within(text: str, part: str, limits: Limits) -> ExpressionError | None:
    """Returns what is wrong in a part of a text, None if nothing is. The part has everything at the place that it has in the text."""
    try:
        _parsed(text, limits, "start", part)
    except ExpressionError as error:
        return error
    return None


def _parsed(text: str, limits: Limits, start: str, read: str | None = None) -> Any:
    """`read`: what is parsed in the place of the text, with the same places."""
    around = (
        _CURRENT.limits,
        _CURRENT.text,
        _CURRENT.cases,
        _CURRENT.extracts,
    )  # a parse may need another: the names of terms are texts
    _CURRENT.limits, _CURRENT.text, _CURRENT.cases, _CURRENT.extracts = limits, text, 0, 0
    try:
        return cast(_Placed, _lark().parse(text if read is None else read, start)).built
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    finally:
        _CURRENT.limits, _CURRENT.text, _CURRENT.cases, _CURRENT.extracts = around


# Not in the thread's workspace: this is the state of a parse, put back when a parse within it ends, not memory that is used again.
class _Current(threading.local):
    """The current parse of this thread: its limits, its text, and the number of open `case`s."""

    limits = DEFAULT_LIMITS
    text = ""
    cases = 0
    extracts = 0


_CURRENT = _Current()


class TreeBuilder(Transformer[Token, Any]):
    """One method per grammar rule. A condition is (depth, node); everything else is a Term."""

    def start(self, children: list[Any]) -> Any:
        return children[0]

    def term(self, children: list[Any]) -> Any:
        return _term(children[0])

    def relation(self, children: list[Any]) -> Any:
        left, symbol, right = children
        return relation(_term(left), str(symbol), _term(right))

    def disjunction(self, children: list[Any]) -> Any:
        parts = [child for child in children if not isinstance(child, Token)]
        return max(depth for depth, _ in parts) + 1, disjunction([node for _, node in parts])

    def conjunction(self, children: list[Any]) -> Any:
        parts = [child for child in children if not isinstance(child, Token)]
        return max(depth for depth, _ in parts) + 1, conjunction([node for _, node in parts])

    def negation(self, children: list[Any]) -> Any:
        depth, node = children[1]
        return depth + 1, Not(node)

    def comparison(self, children: list[Any]) -> Any:
        left, symbol, right = children
        return 1, predicates.comparison(_term(left), str(symbol), _term(right), _CURRENT.limits)

    def between(self, children: list[Any]) -> Any:
        subject, negated, _, low, _, high = children
        return 1, predicates.between(_term(subject), _term(low), _term(high), negated is not None, _CURRENT.limits)

    def in_(self, children: list[Any]) -> Any:
        subject, negated, _, *members = children
        return 1, predicates.member(_term(subject), list(map(_term, members)), negated is not None, _CURRENT.limits)

    def like(self, children: list[Any]) -> Any:
        subject, negated, _, pattern, _, escape = children
        return 1, predicates.like(_term(subject), pattern, escape, negated is not None, _CURRENT.limits)

    def ilike(self, children: list[Any]) -> Any:
        subject, negated, _, pattern, _, escape = children
        return 1, predicates.like(_term(subject), pattern, escape, negated is not None, _CURRENT.limits, folded=True)

    def regexp(self, children: list[Any]) -> Any:
        subject, negated, _, pattern = children
        return 1, predicates.regexp(_term(subject), pattern, negated is not None, _CURRENT.limits)

    def is_null(self, children: list[Any]) -> Any:
        subject, _, negated, _ = children
        return 1, predicates.is_null(_term(subject), negated is not None, _CURRENT.limits)

    def join(self, children: list[Any]) -> Any:
        left, symbol, right = children
        return calls.operation(str(symbol), [_term(left), _term(right)], _CURRENT.limits)

    sum = product = join

    def signed(self, children: list[Any]) -> Any:
        sign, value = children
        return calls.signed(str(sign), _term(value), _CURRENT.limits)

    def call(self, children: list[Any]) -> Any:
        name, *arguments = (child for child in children if child is not None)
        return calls.called(_CURRENT.text, name.start_pos, str(name), arguments, _CURRENT.limits)

    def case(self, children: list[Any]) -> Any:
        parts = [child for child in children if child is not None and not isinstance(child, Token)]
        if isinstance(children[1], Token):
            return calls.case(parts, _CURRENT.limits)
        return calls.case(calls.compared(_term(parts[0]), parts[1:], _CURRENT.limits), _CURRENT.limits)

    def list_(self, children: list[Any]) -> Any:
        return calls.listed(
            [_term(child) for child in children if child is not None and not isinstance(child, Token)], _CURRENT.limits
        )

    def attribute(self, children: list[Token]) -> Term:
        moment = words.MOMENTS.get(children[0].lower()) if len(children) == 1 else None
        if moment is not None and children[0].type == "NAME":
            return calls.moment(moment, _CURRENT.limits)
        name = ".".join(_identifier(token) for token in children)
        if len(name) > _CURRENT.limits.word_length:
            raise ExpressionLimitError("word_length", _CURRENT.limits.word_length, len(name))
        if is_computed(name):
            raise ExpressionTypeError(ascii(name), "an attribute's name cannot begin with a NUL character")
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ExpressionTypeError(ascii(name), "an attribute's name has a lone surrogate") from None
        return Attribute(name)

    def number(self, children: list[Token]) -> Operand:
        return _operand(Kind.NUMBER, children[0], words.read_number)

    def string(self, children: list[Token]) -> Operand:
        return _operand(Kind.STRING, children[0], words.read_string)

    def moment(self, children: list[Token]) -> Operand:
        reader = words.read_date if children[0].type == "DATE" else words.read_moment
        return _operand(Kind.TIMESTAMP, children[1], reader, f"{children[0]} ")

    def interval(self, children: list[Token]) -> Operand:
        word, first, *others = (child for child in children if child is not None)
        counts = [str(each) for each in [first, *others[1::2]]]
        units: list[str | None] = [str(each) for each in others[::2]] or [None]
        try:
            return interval(list(zip(counts, units, strict=True)), cast(int, first.start_pos))
        except words.BadConstant as problem:
            broken = BrokenConstant(" ".join(map(str, [word, first, *others])), str(problem))
            return Operand(Kind.NUMBER, broken, place=cast(int, first.start_pos))

    def extract(self, children: list[Any]) -> Any:
        _, part, _, value = children
        return calls.operation("date_part", [Operand(Kind.STRING, str(part).lower()), _term(value)], _CURRENT.limits)

    def special(self, children: list[Token]) -> Operand:
        return _operand(Kind.NUMBER, children[1], words.read_special, f"{children[0]} ")

    def boolean(self, children: list[Token]) -> Operand:
        return Operand(Kind.BOOLEAN, children[0].type == "TRUE")

    def null(self, children: list[Token]) -> Operand:
        return Operand(None, None)


class _Placed(NamedTuple):
    """What a rule has built, and where in the text its first token is."""

    start: int
    built: Any


Build = Callable[["TreeBuilder", list[Any]], Any]


def _placed(build: Build, of_conditions: bool) -> Build:
    """Returns the method of a rule that gives errors the place of the rule's text. `of_conditions`: its parts must be conditions."""

    def built(builder: TreeBuilder, children: list[Any]) -> _Placed:
        starts = (each.start if isinstance(each, _Placed) else each.start_pos for each in children if each is not None)
        start = place = next(starts, 0)
        try:
            parts: list[Any] = []
            for each in children:
                if isinstance(each, _Placed):
                    place = each.start
                    parts.append(_condition(each.built) if of_conditions else each.built)
                else:
                    parts.append(each)
            place = start
            return _Placed(start, build(builder, parts))
        except ExpressionTypeError as error:
            raise error.located(_CURRENT.text, place) from None

    return built


OF_CONDITIONS = {"start", "disjunction", "conjunction", "negation"}


# The rules' names mean something else in Python.
setattr(TreeBuilder, "in", TreeBuilder.in_)
setattr(TreeBuilder, "list", TreeBuilder.list_)  # noqa: B010 - as a method it would hide the type
for _rule in [name for name in vars(TreeBuilder) if not name.startswith("_")]:
    setattr(TreeBuilder, _rule, _placed(getattr(TreeBuilder, _rule), _rule in OF_CONDITIONS))


def _operand(kind: Kind, token: Token, read: Any, before: str = "") -> Operand:
    try:
        return Operand(kind, read(str(token)), place=cast(int, token.start_pos))
    except words.BadConstant as problem:
        broken = BrokenConstant(f"{before}{token}", str(problem))
        return Operand(Kind.NUMBER, broken, place=cast(int, token.start_pos))


def _condition(value: Any) -> tuple[int, Tree]:
    """Converts a value to a condition, if it can be true or false."""
    return value if isinstance(value, tuple) else (1, predicates.bare(value))


def _term(value: Any) -> Term:
    return as_value(value[1]) if isinstance(value, tuple) else value


def _identifier(token: Token) -> str:
    if token.type != "QUOTED":
        return str(token)
    quote = token[0]
    return str(token)[1:-1].replace(quote * 2, quote)


def _keyword(token: Token) -> Token:
    word = token.lower()
    if _CURRENT.extracts and word == "from":
        token.type = "FROM"
        _CURRENT.extracts -= 1
    elif _CURRENT.cases and word in INSIDE_CASE:  # elsewhere these are ordinary names
        token.type = INSIDE_CASE[word]
        _CURRENT.cases -= word == "end"
    else:
        token.type = words.KEYWORDS.get(word, "NAME")
    return token


def _extract_begins(token: Token) -> Token:
    _CURRENT.extracts += 1
    return token


def _case_begins(token: Token) -> Token:
    _CURRENT.cases += 1
    return token


INSIDE_CASE = {"when": "WHEN", "then": "THEN", "else": "ELSE", "end": "END"}


_PARSER: Lark | None = None


def _lark() -> Lark:
    # Built at first use: the table takes 20 ms that `import ray_pubsub` should not cost.
    global _PARSER  # noqa: PLW0603 - a module-level cache
    if _PARSER is None:
        grammar = resources.files("ray_pubsub.language").joinpath("grammar.lark").read_text()
        _PARSER = Lark(
            grammar,
            parser="lalr",
            lexer="basic",
            transformer=TreeBuilder(),
            lexer_callbacks={"NAME": _keyword, "CASE": _case_begins, "EXTRACT": _extract_begins},
            start=["start", "term"],
            maybe_placeholders=True,
        )
    return _PARSER


TERMINAL_WORDS = {
    "NAME": "an attribute",
    "QUOTED": "an attribute",
    "NUMBER": "a number",
    "RSQB": "']'",
    "STRING": "a 'string'",
    "TIMESTAMP": "a timestamp",
    "DATE": "a timestamp",
    "DOUBLE": "a number",
    "OPERATOR": "a comparison (= != < <= > >=)",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "DOT": "'.'",
    "$END": "the end",
    "TRUE": "true or false",
    "FALSE": "true or false",
    "REGEXP": "'regexp'",
}


UNMENTIONED = {"SIGN", "FACTOR", "JOIN", "LSQB", "CASE", "INTERVAL", "EXTRACT", "ARRAY"}
"""Tokens that errors do not list as expected: they may occur wherever a value may, and naming them each time would hide what matters."""


def _syntax_error(text: str, error: UnexpectedInput) -> ExpressionSyntaxError:
    if isinstance(error, UnexpectedToken) and error.token.type != "$END":
        position = cast(int, error.token.start_pos)
        found = f"'{error.token}'"
    elif isinstance(error, UnexpectedCharacters):
        position = cast(int, error.pos_in_stream)
        found = repr(text[position])
    else:
        position, found = len(text), "end"
    hint = hint_at(text, position)
    if isinstance(error, UnexpectedCharacters):
        reason = {
            "'": "a string that is not closed",
            '"': "a quoted identifier that is empty or not closed",
            "`": "a quoted identifier that is empty or not closed",
        }.get(text[position], "")
        if text[position].isdigit() or text[position] == ".":
            reason = "a malformed number"
        return ExpressionSyntaxError(text, position, found, (), reason, "" if reason else hint)
    terminals = error.accepts or error.expected if isinstance(error, UnexpectedToken) else set()
    shown = terminals - UNMENTIONED if terminals - UNMENTIONED else terminals
    expected = sorted({TERMINAL_WORDS.get(name, f"'{name.lower()}'") for name in shown} - {"'.'"})
    reason = "" if text.strip() else "the expression is empty"
    return ExpressionSyntaxError(text, position, found, tuple(expected), reason, hint)
