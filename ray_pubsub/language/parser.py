"""Parses a text to a tree, fast: one regular expression finds the tokens, then precedence climbing.

The language is grammar.py's. This parser accepts valid texts and gives up on everything else: an unexpected token, an exceeded limit, a
constant that cannot be read. Such a text is parsed by the grammar, which raises the error. So no error is worded here, and the two can
only differ in what they accept; tests check that they agree. The meaning of the parts is defined once, in `building`, for both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ray_pubsub.errors import ExpressionError, ExpressionLimitError
from ray_pubsub.language import words
from ray_pubsub.language.building import calls, predicates
from ray_pubsub.language.building.intervals import interval
from ray_pubsub.language.building.quantified import check_has_value, relation
from ray_pubsub.language.grammar import (
    DEFAULT_LIMITS,
    WITHOUT_LIMITS,
    parse_by_grammar,
    parse_term_by_grammar,
)
from ray_pubsub.language.size import check_size
from ray_pubsub.language.terms import Attribute, Term, as_value, is_computed
from ray_pubsub.language.tokens import UnreadableText, cut_tokens
from ray_pubsub.language.tree import (
    Between,
    BooleanAttribute,
    Comparison,
    In,
    IsNull,
    Not,
    Operand,
    Tree,
    conjunction,
    disjunction,
)
from ray_pubsub.language.wrong_part import Stop, first_error
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["GIVEN_UP", "parse", "parse_term", "parse_value", "read"]

BEFORE_STRING: dict[str, tuple[Kind, Callable[[str], Any]]] = {
    "TIMESTAMP": (Kind.TIMESTAMP, words.read_moment),
    "DATE": (Kind.TIMESTAMP, words.read_date),
    "DOUBLE": (Kind.NUMBER, words.read_special),
}
PLAIN = {"TRUE": Operand(Kind.BOOLEAN, True), "FALSE": Operand(Kind.BOOLEAN, False), "NULL": Operand(None, None)}
JOIN, SUM, PRODUCT = 1, 2, 3
BINDING = {"||": JOIN, "+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
LONG = 200
"""Of a text with more characters, only the part that is wrong is parsed by the grammar."""
GIVEN_UP = (UnreadableText, words.BadConstant, ExpressionError, RecursionError)


def parse(text: str, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Returns the tree of an expression; raises an ExpressionError that says what is wrong and where."""
    if isinstance(text, str) and len(text) <= limits.text_length:
        parser = None
        try:
            check_size(text, limits)
            parser = _Parser(text, limits)
            return _tree(parser, limits)
        except GIVEN_UP as refusal:
            error = first_error(text, limits, refusal, parser, _Parser) if len(text) > LONG else None
        if error is not None:
            raise error
    return parse_by_grammar(text, limits)


def parse_term(text: str) -> Term:
    """Returns the term of a computed attribute's name. It was checked against the limits when it was written."""
    try:
        return _Parser(text, WITHOUT_LIMITS).term()
    except GIVEN_UP:
        return parse_term_by_grammar(text)


def parse_value(text: str, limits: Limits) -> Term | None:
    """Returns the value that a part of an expression is; None if this parser does not read it as one."""
    try:
        check_size(text, limits)
        parser = _Parser(text, limits)
        found = _term(parser.value())
        check_has_value(found)
        predicates.check_condition(found, limits)
    except GIVEN_UP:
        return None
    return found


def read(text: str, limits: Limits = DEFAULT_LIMITS) -> Tree:
    """Returns the tree, by this parser alone. One of the exceptions GIVEN_UP means that the grammar must parse the text."""
    check_size(text, limits)
    return _tree(_Parser(text, limits), limits)


def _tree(parser: _Parser, limits: Limits) -> Tree:
    depth, tree = _condition(parser.expression())
    if depth > limits.nesting_depth:
        raise ExpressionLimitError("nesting_depth", limits.nesting_depth, depth)
    predicates.check_leaves(tree, limits)
    return tree


class _Parser:
    """One parse. `_kind` is the kind of the current token. As in the grammar, conditions and values are not distinguished until something
    stands beside them: a condition is (depth, node), everything else is a Term."""

    def __init__(self, text: str, limits: Limits) -> None:
        self._text = text
        self._limits = limits
        self._kinds, self._texts, self._places = cut_tokens(text)
        self._at = 0
        self._kind = self._kinds[0]

    def _step(self) -> None:
        self._at += 1
        self._kind = self._kinds[self._at]

    def _take(self, kind: str) -> None:
        if self._kind != kind:
            raise UnreadableText
        self._at += 1
        self._kind = self._kinds[self._at]

    def _took(self, kind: str) -> bool:
        if self._kind != kind:
            return False
        self._step()
        return True

    @property
    def stop(self) -> Stop:
        """Where this parser is."""
        return Stop(self._kinds, self._places, self._at)

    def expression(self) -> Any:
        """Parses the whole text."""
        found = self._expression()
        if self._kind != "END":
            raise UnreadableText
        return found

    def value(self) -> Any:
        """Parses the whole text, which is one value."""
        found = self._value(JOIN)
        if self._kind != "END":
            raise UnreadableText
        return found

    def predicate(self) -> Any:
        """Parses the whole text, which is one predicate."""
        found = self._predicate()
        if self._kind != "END":
            raise UnreadableText
        return found

    def term(self) -> Term:
        """Parses the whole text, which is the name of a computed attribute: a value, or a comparison of two."""
        found = _term(self._value(JOIN))
        if self._kind == "OPERATOR":
            symbol = self._texts[self._at]
            self._step()
            found = relation(found, symbol, _term(self._value(JOIN)))
        if self._kind != "END":
            raise UnreadableText
        return found

    def _expression(self) -> Any:
        """Parses `or` of `and` of operands that may have a `not`."""
        alternatives: list[Any] = []
        while True:
            together: list[Any] = []
            while True:
                negations = 0
                while self._kind == "NOT":
                    self._step()
                    negations += 1
                part = self._predicate()
                if negations:
                    depth, node = _condition(part)
                    for _ in range(negations):
                        node = Not(node)
                    part = depth + negations, node
                together.append(part)
                if self._kind != "AND":
                    break
                self._step()
            alternatives.append(together[0] if len(together) == 1 else _joined(together, conjunction))
            if self._kind != "OR":
                return alternatives[0] if len(alternatives) == 1 else _joined(alternatives, disjunction)
            self._step()

    def _predicate(self) -> Any:
        """Parses a value and the predicate on it, if any. Predicates on plain attributes are built here, because most are of that kind."""
        left = self._value(JOIN)
        kind = self._kind
        if kind == "OPERATOR":
            symbol = self._texts[self._at]
            self._step()
            right = self._value(JOIN)
            if type(left) is Attribute and type(right) is Operand:
                return 1, Comparison(left.name, predicates.SYNONYMS[symbol], right)
            return 1, predicates.comparison(_term(left), symbol, _term(right), self._limits)
        if kind == "IS":
            self._step()
            negated = self._took("NOT")
            self._take("NULL")
            if type(left) is Attribute:
                return 1, IsNull(left.name, negated)
            return 1, predicates.is_null(_term(left), negated, self._limits)
        negated = kind == "NOT"
        if negated:
            self._step()
            kind = self._kind
        if kind == "IN":
            return 1, self._member(left, negated)
        if kind == "BETWEEN":
            self._step()
            low = _term(self._value(JOIN))
            self._take("AND")
            high = _term(self._value(JOIN))
            if type(left) is Attribute and type(low) is type(high) is Operand and low.kind is high.kind:
                return 1, Between(left.name, low, high, negated)
            return 1, predicates.between(_term(left), low, high, negated, self._limits)
        if kind == "LIKE" or kind == "ILIKE":
            self._step()
            pattern = self._string()
            escape = self._string() if self._took("ESCAPE") else None
            return 1, predicates.like(_term(left), pattern, escape, negated, self._limits, folded=kind == "ILIKE")
        if kind == "REGEXP":
            self._step()
            return 1, predicates.regexp(_term(left), self._string(), negated, self._limits)
        if negated:
            raise UnreadableText
        return left

    def _member(self, left: Any, negated: bool) -> Tree:
        self._step()
        self._take("(")
        members = [_term(self._value(JOIN))]
        while self._took(","):
            members.append(_term(self._value(JOIN)))
        self._take(")")
        constants = [each for each in members if type(each) is Operand]
        kinds = {each.kind for each in constants}
        if type(left) is Attribute and len(constants) == len(members) and len(kinds) == 1:
            return In(left.name, tuple(constants), negated)
        return predicates.member(_term(left), members, negated, self._limits)

    def _value(self, binding: int) -> Any:
        """Parses operands joined by operators that bind at least this tightly."""
        left = self._primary()
        while BINDING.get(self._kind, 0) >= binding:
            symbol = self._kind
            self._step()
            right = self._value(BINDING[symbol] + 1)
            left = calls.operation(symbol, [_term(left), _term(right)], self._limits)
        return left

    def _primary(self) -> Any:
        kind, text, place = self._kind, self._texts[self._at], self._places[self._at]
        if kind == "NAME" or kind == "QUOTED":
            self._step()
            if kind == "NAME" and self._kind == "(":
                return calls.called(self._text, place, text, self._arguments(self._expression, ")"), self._limits)
            return self._attribute(kind, text)
        if kind == "STRING":
            self._step()
            return Operand(Kind.STRING, words.read_string(text), place)
        if kind == "NUMBER":
            self._step()
            return Operand(Kind.NUMBER, words.read_number(text), place)
        if kind == "-" or kind == "+":
            return self._signed()
        if kind == "(":
            self._step()
            inside = self._expression()
            self._take(")")
            return inside
        if kind in PLAIN:
            self._step()
            return PLAIN[kind]
        if kind in BEFORE_STRING:
            known, reader = BEFORE_STRING[kind]
            self._step()
            written, place = self._texts[self._at], self._places[self._at]
            self._step()
            return Operand(known, reader(written), place)
        if kind == "INTERVAL":
            self._step()
            return self._interval()
        if kind == "ARRAY":
            self._step()
            kind = self._kind
        if kind == "[":
            return calls.listed([_term(each) for each in self._arguments(self._list_member, "]")], self._limits)
        if kind == "CASE":
            return self._case()
        if kind == "EXTRACT":
            return self._extract()
        raise UnreadableText

    def _signed(self) -> Any:
        signs: list[str] = []
        while self._kind == "-" or self._kind == "+":
            signs.append(self._kind)
            self._step()
        value = self._number(signs) if self._kind == "NUMBER" else _term(self._primary())
        for sign in reversed(signs):
            value = calls.signed(sign, value, self._limits)
        return value

    def _number(self, signs: list[str]) -> Operand:
        """Parses a number after signs. The least integer is a number only together with its sign, which is then removed from the signs."""
        text, place = self._texts[self._at], self._places[self._at]
        self._step()
        try:
            return Operand(Kind.NUMBER, words.read_number(text), place)
        except words.BadConstant:
            return Operand(Kind.NUMBER, words.read_number(text, signs.pop() == "-"))

    def _interval(self) -> Operand:
        """Parses `'1 hour'`, `1 hour`, `'1' hour` or `1 hour 30 minutes` behind `interval`."""
        place, counts = self._places[self._at], [self._texts[self._at]]
        units: list[str | None] = []
        while True:
            is_number = self._kind == "NUMBER"
            self._step()
            if self._kind == "NAME":
                units.append(self._texts[self._at])
                self._step()
            elif is_number:
                raise UnreadableText
            if not is_number or self._kind != "NUMBER":
                return interval(list(zip(counts, units or [None], strict=True)), place)
            counts.append(self._texts[self._at])

    def _attribute(self, kind: str, text: str) -> Term:
        name = _identifier(kind, text)
        if kind == "NAME" and self._kind != "." and text.lower() in words.MOMENTS:
            return calls.moment(words.MOMENTS[text.lower()], self._limits)
        while self._kind == ".":
            self._step()
            kind, text = self._kind, self._texts[self._at]
            if kind != "NAME" and kind != "QUOTED":
                raise UnreadableText
            self._step()
            name += "." + _identifier(kind, text)
        if len(name) > self._limits.word_length or is_computed(name) or not (name.isascii() or _is_unicode(name)):
            raise UnreadableText
        return Attribute(name)

    def _arguments(self, read_one: Callable[[], Any], closing: str) -> list[Any]:
        """Parses a list in brackets, separated by commas; it may be empty."""
        self._step()
        found: list[Any] = []
        if self._took(closing):
            return found
        found.append(read_one())
        while self._took(","):
            found.append(read_one())
        self._take(closing)
        return found

    def _list_member(self) -> Any:
        return self._value(JOIN)

    def _case(self) -> Term:
        self._step()
        parts: list[Any] = []
        subject = None if self._kind == "WHEN" else self._expression()
        while self._took("WHEN"):
            parts.append(self._expression())
            self._take("THEN")
            parts.append(self._expression())
        if self._took("ELSE"):
            parts.append(self._expression())
        self._take("END_OF_CASE")
        if not parts:
            raise UnreadableText
        if subject is not None:
            parts = calls.compared(_term(subject), parts, self._limits)
        return calls.case(parts, self._limits)

    def _extract(self) -> Term:
        """Parses `extract(part from value)`; the caller has checked that a name and `from` follow."""
        part = Operand(Kind.STRING, self._texts[self._at + 2].lower())
        self._at += 3
        self._step()
        value = _term(self._value(JOIN))
        self._take(")")
        return calls.operation("date_part", [part, value], self._limits)

    def _string(self) -> Operand:
        text, place = self._texts[self._at], self._places[self._at]
        self._take("STRING")
        return Operand(Kind.STRING, words.read_string(text), place)


def _identifier(kind: str, text: str) -> str:
    return text if kind == "NAME" else text[1:-1].replace(text[0] * 2, text[0])


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _condition(value: Any) -> tuple[int, Tree]:
    """Converts a value to a condition, if it can be true or false."""
    if type(value) is tuple:
        return value
    return 1, BooleanAttribute(value.name) if type(value) is Attribute else predicates.bare(value)


def _term(value: Any) -> Term:
    return as_value(value[1]) if type(value) is tuple else value


def _joined(parts: list[Any], join: Callable[[list[Tree]], Tree]) -> tuple[int, Tree]:
    """Returns depth and node of parts under one `and` or `or`."""
    conditions = [_condition(part) for part in parts]
    return max(depth for depth, _ in conditions) + 1, join([node for _, node in conditions])
