"""From text to tree, fast: tokens by one regular expression, precedence climbing without recursion.

The language is grammar.py's. This parser reads what is right and gives up on everything else: whatever it does not expect, a limit that
is exceeded, a constant that cannot be read, a predicate on a constant. Such a text is given to the grammar, which raises the error. So no
error is written here, and the two can only differ in what they accept; tests hold them equal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ray_pubsub.errors import ExpressionError
from ray_pubsub.language import words
from ray_pubsub.language.building.predicates import FLIPPED, SYNONYMS, check_leaves
from ray_pubsub.language.grammar import DEFAULT_LIMITS, parse_by_grammar
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
)
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["parse"]

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# As the grammar's lexer cuts. What begins no token is a token too, which no rule expects; a malformed number is one whole, so that
# nothing is read behind its good part. The text's end is ''.
TOKEN = re.compile(
    rf"""\s*( [^\W\d][\w$]*
           | '[^']*(?:''[^']*)*'
           | {NUMBER}(?![\w.$]) | [0-9][\w.$]*
           | [<>=!]=|<>
           | "(?:[^"]|"")+" | `(?:[^`]|``)+`
           | \S | \Z )""",
    re.VERBOSE,
)
BEFORE_STRING: dict[str, tuple[Kind, Callable[[str], Any]]] = {
    "timestamp": (Kind.TIMESTAMP, words.read_moment),
    "date": (Kind.TIMESTAMP, words.read_date),
    "double": (Kind.NUMBER, words.read_special),
}
"""Words that make something else of the string behind them. Elsewhere they are names like any other."""
PLAIN = {"TRUE": Operand(Kind.BOOLEAN, True), "FALSE": Operand(Kind.BOOLEAN, False), "NULL": Operand(None, None)}
END = ""
WHOLE_NUMBER = re.compile(NUMBER)


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """The tree of an expression; raises an ExpressionError that says what is wrong and where."""
    if isinstance(text, str) and len(text) <= limits.text_length:
        try:
            return _Parser(text, limits).parse()
        except (_NotRead, words.BadConstant, ExpressionError, UnicodeEncodeError):
            pass
    return parse_by_grammar(text, limits)


class _NotRead(Exception):  # noqa: N818 - never leaves this file
    """The grammar shall look at it."""


class _Parser:
    """One parse. `_next` is the token that is looked at, `_word` what keyword it is, if any."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._tokens = TOKEN.findall(text)
        self._limits = limits
        self._place = -1
        self._next = self._word = ""
        self._step()

    def _step(self) -> None:
        self._place += 1
        self._next = token = self._tokens[self._place]
        self._word = words.KEYWORDS.get(token.lower(), "") if token[:1].isalpha() else ""

    def _take(self, token: str) -> None:
        if self._next != token:
            raise _NotRead
        self._step()

    def _take_word(self, word: str) -> bool:
        if self._word != word:
            return False
        self._step()
        return True

    def parse(self) -> Tree:
        """`or` of `and` of what may have a `not`; parentheses put the level around them aside."""
        outer: list[tuple[list[tuple[int, Tree]], list[tuple[int, Tree]], int]] = []
        alternatives: list[tuple[int, Tree]] = []  # with the depth of each
        together: list[tuple[int, Tree]] = []
        count = 0
        while True:
            negations = 0
            while self._take_word("NOT"):
                negations += 1
            if self._next == "(":
                if len(outer) >= self._limits.nesting_depth:
                    raise _NotRead
                self._step()
                outer.append((alternatives, together, negations))
                alternatives, together = [], []
                continue
            count += 1
            depth = 1
            node: Tree = self._predicate()
            while True:
                for _ in range(negations):
                    node = Not(node)
                together.append((depth + negations, node))
                if self._take_word("AND"):
                    break
                if self._take_word("OR"):
                    alternatives.append(_joined(together, conjunction))
                    together = []
                    break
                alternatives.append(_joined(together, conjunction))
                depth, node = _joined(alternatives, disjunction)
                if not outer:
                    if self._next != END or depth > self._limits.nesting_depth or count > self._limits.leaves:
                        raise _NotRead
                    return node
                self._take(")")
                alternatives, together, negations = outer.pop()

    def _predicate(self) -> Leaf:
        constant = self._constant()
        if constant is not None:  # `5 < x`, or a constant where a condition is expected
            if self._next in SYNONYMS:
                operator = FLIPPED[SYNONYMS[self._next]]
                self._step()
                return Comparison(self._attribute(), operator, constant)
            if constant.kind not in (None, Kind.BOOLEAN):
                raise _NotRead
            return Constant(constant.plain)
        attribute = self._attribute()
        if self._next in SYNONYMS:
            operator = SYNONYMS[self._next]
            self._step()
            return Comparison(attribute, operator, self._needed_constant())
        if self._take_word("IS"):
            negated = self._take_word("NOT")
            self._take_keyword("NULL")
            return IsNull(attribute, negated)
        negated = self._take_word("NOT")
        if self._take_word("IN"):
            return self._member(attribute, negated)
        if self._take_word("BETWEEN"):
            low = self._needed_constant()
            self._take_keyword("AND")
            high = self._needed_constant()
            self._check_kinds([low, high])
            return Between(attribute, low, high, negated)
        if self._take_word("LIKE"):
            return self._checked(Like(attribute, self._string(), self._escape(), negated))
        if self._take_word("REGEXP"):
            return self._checked(Regexp(attribute, self._string(), negated))
        if negated:
            raise _NotRead
        return BooleanAttribute(attribute)

    def _member(self, attribute: str, negated: bool) -> In:
        self._take("(")
        members = [self._needed_constant()]
        while self._next == ",":
            self._step()
            members.append(self._needed_constant())
        self._take(")")
        self._check_kinds(members)
        return In(attribute, tuple(members), negated)

    def _check_kinds(self, members: list[Operand]) -> None:
        if len({each.kind for each in members} - {None}) > 1 or len(members) > self._limits.set_size:
            raise _NotRead

    def _checked(self, leaf: Like | Regexp) -> Leaf:
        check_leaves(leaf, self._limits)
        return leaf

    def _escape(self) -> str | None:
        if self._next.lower() != "escape" or self._tokens[self._place + 1][:1] != "'":
            return None
        self._step()
        escape: str = self._string().plain
        if len(escape) > 1:
            raise _NotRead
        return escape or None

    def _take_keyword(self, word: str) -> None:
        if not self._take_word(word):
            raise _NotRead

    def _attribute(self) -> str:
        name = self._identifier()
        while self._next == ".":
            self._step()
            name += "." + self._identifier()
        if len(name) > self._limits.word_length:
            raise _NotRead
        if not name.isascii():
            name.encode()  # raises for a lone surrogate
        return name

    def _identifier(self) -> str:
        token = self._next
        quote = token[:1]
        if quote in ('"', "`") and len(token) > 1:
            token = token[1:-1].replace(quote * 2, quote)
        elif self._word or not (quote.isalpha() or quote == "_") or self._before_string(token):
            raise _NotRead
        self._step()
        return token

    def _before_string(self, token: str) -> bool:
        """Whether the word is one of those that belong to the string behind them."""
        word = token.lower()
        return (word in BEFORE_STRING or word == "escape") and self._tokens[self._place + 1][:1] == "'"

    def _needed_constant(self) -> Operand:
        constant = self._constant()
        if constant is None:
            raise _NotRead
        return constant

    def _string(self) -> Operand:
        if self._next[:1] != "'":
            raise _NotRead
        return self._needed_constant()

    def _constant(self) -> Operand | None:
        """The constant that is next; None if it is none."""
        token = self._next
        first = token[:1]
        if first == "'":
            constant = Operand(Kind.STRING, words.read_string(token))
        elif first.isdecimal() or (first == "." and len(token) > 1):
            constant = self._number(token, False)
        elif first in ("-", "+"):
            self._step()
            constant = self._number(self._next, first == "-")
        elif self._word in PLAIN:
            constant = PLAIN[self._word]
        elif token.lower() in BEFORE_STRING and self._before_string(token):
            kind, read = BEFORE_STRING[token.lower()]
            self._step()
            constant = Operand(kind, read(self._next))
        else:
            return None
        self._step()
        return constant

    def _number(self, token: str, negative: bool) -> Operand:
        digits = token.isdecimal() and token.isascii()
        if len(token) > self._limits.word_length or not (digits or WHOLE_NUMBER.fullmatch(token)):
            raise _NotRead
        return Operand(Kind.NUMBER, words.read_number(token, negative))


def _joined(parts: list[tuple[int, Tree]], join: Callable[[list[Tree]], Tree]) -> tuple[int, Tree]:
    """Depth and node of parts under one `and` or `or`; a single one is itself."""
    if len(parts) == 1:
        return parts[0]
    return max(depth for depth, _ in parts) + 1, join([node for _, node in parts])
