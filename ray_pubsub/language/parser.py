"""From text to tree, with errors that point at the place.

The grammar is grammar.lark; `TreeBuilder` makes a node of each rule as it is recognised, so there is no parse tree between
and no recursion however deep the text nests.
"""

from __future__ import annotations

import threading
from importlib import resources
from typing import Any, Literal, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ray_pubsub.errors import ExpressionLimitError, ExpressionSyntaxError, ExpressionTypeError
from ray_pubsub.language import words
from ray_pubsub.language.hints import hint_at
from ray_pubsub.language.patterns import compile_regexp, like_to_regexp
from ray_pubsub.language.printer import write
from ray_pubsub.language.size import check_size
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
    Operator,
    Regexp,
    Tree,
    conjunction,
    disjunction,
    leaves,
    operands,
)
from ray_pubsub.language.truth import truth
from ray_pubsub.model.values import Kind, Value
from ray_pubsub.settings import Limits

__all__ = ["check_operand", "parse"]

DEFAULT_LIMITS = Limits()
FLIPPED: dict[str, Operator] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
SYNONYMS: dict[str, Operator] = {"==": "=", "<>": "!="}


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """The tree of an expression; raises an ExpressionError that says what is wrong and where."""
    if not isinstance(text, str):
        raise ExpressionTypeError(repr(text)[:200], f"an expression is a str, not {type(text).__name__}")
    if len(text) > limits.text_length:
        raise ExpressionLimitError("text_length", limits.text_length, len(text))
    check_size(text, limits)
    _CURRENT.limits = limits
    try:
        depth, tree = cast(tuple[int, Tree], _lark().parse(text))
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    if depth > limits.nesting_depth:
        raise ExpressionLimitError("nesting_depth", limits.nesting_depth, depth)
    _check_leaves(tree, limits)
    return tree


def check_operand(leaf: Leaf, limits: Limits) -> None:
    """What depends on a predicate's constants alone, so that a known shape (shapes.py) checks nothing else."""
    if isinstance(leaf, Like | Regexp):
        pattern = leaf.pattern.plain
        if len(pattern) > limits.pattern_length:
            raise ExpressionLimitError("pattern_length", limits.pattern_length, len(pattern))
        try:
            if isinstance(leaf, Like):
                like_to_regexp(pattern, leaf.escape)
            else:
                compile_regexp(pattern)
        except words.BadConstant as problem:
            raise ExpressionTypeError(write(leaf), str(problem)) from None


def _check_leaves(tree: Tree, limits: Limits) -> None:
    count = 0
    for leaf in leaves(tree):
        count += 1
        if isinstance(leaf, In) and len(leaf.members) > limits.set_size:
            raise ExpressionLimitError("set_size", limits.set_size, len(leaf.members))
        check_operand(leaf, limits)
    if count > limits.leaves:
        raise ExpressionLimitError("leaves", limits.leaves, count)


class _Current(threading.local):
    """The limits of the parse under way in this thread, for constants that are folded while it goes on."""

    limits = DEFAULT_LIMITS


_CURRENT = _Current()

Attribute = tuple[Literal["attribute"], str]


class TreeBuilder(Transformer[Token, Any]):
    """One method a grammar rule. A condition is (depth, node); an operand is an Operand or ("attribute", name)."""

    def start(self, children: list[Any]) -> Any:
        return children[0]

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
        operator = cast(Operator, SYNONYMS.get(str(symbol), str(symbol)))
        if isinstance(left, Operand) and not isinstance(right, Operand):
            left, operator, right = right, FLIPPED[operator], left
        if not isinstance(right, Operand):
            raise ExpressionTypeError(
                f"{words.write_name(left[1])} {operator} {words.write_name(right[1])}",
                "two attributes are compared, but an attribute can only be compared with a constant "
                "(a string constant stands in single quotes: 'text')",
            )
        return _leaf(left, lambda name: Comparison(name, operator, right))

    def between(self, children: list[Any]) -> Any:
        subject, negated, _, low, _, high = children
        for bound in (low, high):
            if not isinstance(bound, Operand):
                raise ExpressionTypeError(
                    f"between … {words.write_name(bound[1])}", "the bounds of between are constants"
                )
        return _leaf(subject, lambda name: Between(name, low, high, negated is not None))

    def in_(self, children: list[Any]) -> Any:
        subject, negated, _, *members = children
        return _leaf(subject, lambda name: In(name, tuple(members), negated is not None))

    def like(self, children: list[Any]) -> Any:
        subject, negated, _, pattern, _, escape = children
        if escape is not None and isinstance(escape.plain, BrokenConstant):
            raise ExpressionTypeError(f"escape {escape.plain}", escape.plain.problem)
        if escape is not None and len(escape.plain) > 1:
            raise ExpressionTypeError(f"escape '{escape.plain}'", "the escape of a like pattern is one character")
        return _leaf(
            subject, lambda name: Like(name, pattern, escape.plain or None if escape else None, negated is not None)
        )

    def regexp(self, children: list[Any]) -> Any:
        subject, negated, _, pattern = children
        return _leaf(subject, lambda name: Regexp(name, pattern, negated is not None))

    def is_null(self, children: list[Any]) -> Any:
        subject, _, negated, _ = children
        return _leaf(subject, lambda name: IsNull(name, negated is not None))

    def bare(self, children: list[Any]) -> Any:
        (subject,) = children
        if not isinstance(subject, Operand):
            return 1, BooleanAttribute(subject[1])
        if subject.kind not in (None, Kind.BOOLEAN):
            constant = words.write_operand(subject.kind, subject.plain)
            raise ExpressionTypeError(constant, f"a {subject.kind} stands where a condition is expected")
        return 1, Constant(subject.plain)

    def attribute(self, children: list[Token]) -> Attribute:
        name = ".".join(_identifier(token) for token in children)
        if len(name) > _CURRENT.limits.word_length:
            raise ExpressionLimitError("word_length", _CURRENT.limits.word_length, len(name))
        if not name.isascii():
            try:
                name.encode()
            except UnicodeEncodeError:
                raise ExpressionTypeError(ascii(name), "an attribute's name has a lone surrogate") from None
        return "attribute", name

    def number(self, children: list[Any]) -> Operand:
        sign, token = children
        return _operand(Kind.NUMBER, token, lambda text: words.read_number(text, sign == "-"), sign or "")

    def string(self, children: list[Token]) -> Operand:
        return _operand(Kind.STRING, children[0], words.read_string)

    def moment(self, children: list[Token]) -> Operand:
        reader = words.read_date if children[0].type == "DATE" else words.read_moment
        return _operand(Kind.TIMESTAMP, children[1], reader, f"{children[0]} ")

    def special(self, children: list[Token]) -> Operand:
        return _operand(Kind.NUMBER, children[1], words.read_special, f"{children[0]} ")

    def boolean(self, children: list[Token]) -> Operand:
        return Operand(Kind.BOOLEAN, children[0].type == "TRUE")

    def null(self, children: list[Token]) -> Operand:
        return Operand(None, None)


setattr(TreeBuilder, "in", TreeBuilder.in_)  # the rule's name is a keyword of Python


def _leaf(subject: Operand | Attribute, build: Any) -> tuple[int, Tree]:
    """The predicate on an attribute; on a constant, its truth, found by evaluating it on an event of that constant."""
    leaf = build("" if isinstance(subject, Operand) else subject[1])
    for operand in (subject, *operands(leaf)):
        if isinstance(operand, Operand) and isinstance(operand.plain, BrokenConstant):
            raise ExpressionTypeError(_text(subject, leaf), operand.plain.problem)
    kinds = {operand.kind for operand in operands(leaf)} - {None}
    if isinstance(subject, Operand):
        kinds |= {subject.kind} - {None}
    elif isinstance(leaf, Like | Regexp):
        kinds = {Kind.STRING}
    if len(kinds) > 1:
        mixed = " and ".join(sorted(f"a {kind}" for kind in kinds if kind is not None))
        raise ExpressionTypeError(_text(subject, leaf), f"{mixed} cannot be compared")
    if not isinstance(subject, Operand):
        return 1, leaf
    _check_leaves(leaf, _CURRENT.limits)
    event = {} if subject.kind is None else {"": Value(subject.kind, subject.plain)}
    return 1, Constant(truth(leaf, event))


def _text(subject: Operand | Attribute, leaf: Leaf) -> str:
    if not isinstance(subject, Operand):
        return write(leaf)
    return words.write_operand(subject.kind, subject.plain) + write(leaf).removeprefix('""')


class BrokenConstant:
    """Stands for a constant that could not be read until its predicate is known, so that the error can name it."""

    def __init__(self, text: str, problem: str) -> None:
        self.text = text
        self.problem = problem

    def __repr__(self) -> str:
        return self.text


def _operand(kind: Kind, token: Token, read: Any, before: str = "") -> Operand:
    try:
        return Operand(kind, read(str(token)), place=cast(int, token.start_pos))
    except words.BadConstant as problem:
        return Operand(Kind.NUMBER, BrokenConstant(f"{before}{token}", str(problem)))


def _identifier(token: Token) -> str:
    if token.type != "QUOTED":
        return str(token)
    quote = token[0]
    return str(token)[1:-1].replace(quote * 2, quote)


def _keyword(token: Token) -> Token:
    token.type = words.KEYWORDS.get(token.lower(), "NAME")
    return token


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
            lexer_callbacks={"NAME": _keyword},
            maybe_placeholders=True,
        )
    return _PARSER


TERMINAL_WORDS = {
    "NAME": "an attribute",
    "QUOTED": "an attribute",
    "NUMBER": "a number",
    "SIGN": "a number",
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
    expected = sorted({TERMINAL_WORDS.get(name, f"'{name.lower()}'") for name in terminals} - {"'.'"})
    reason = "" if text.strip() else "the expression is empty"
    return ExpressionSyntaxError(text, position, found, tuple(expected), reason, hint)
