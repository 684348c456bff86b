"""Imports CESQL, the expressions of CloudEvents SQL v1: similar to our language, with operators and functions of its own.

An error of CESQL (a missing attribute, a division by zero) makes the whole filter false; here that part of the expression is unknown, so
that the other side of an OR may still hold. Implementations differ in the precedence of AND, OR, XOR and NOT; expressions whose meaning
depends on it are rejected.
"""

from __future__ import annotations

import re
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.cesql_parts import CONVERSIONS, Part, as_number, as_text, converted
from ray_pubsub.importers.field import constant
from ray_pubsub.importers.report import ImportedRule, ImportReport, import_rules, numbered
from ray_pubsub.language.words import write_name

__all__ = ["from_cesql"]

FORMAT = "CESQL"
LONE_BACKSLASH = re.compile(r"\\(?![%_])")
TOKEN = re.compile(
    r"""\s*(?:(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")|(?P<number>\d+)|(?P<word>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<sign><=|>=|!=|<>|[=<>+\-*/%(),])|(?P<end>$)|(?P<bad>.))""",
    re.VERBOSE | re.DOTALL,
)
COMPARISONS = ("=", "!=", "<>", "<", "<=", ">", ">=")
FUNCTIONS = {
    "LENGTH": (1, "length({0})"),
    "LOWER": (1, "lower({0})"),
    "UPPER": (1, "upper({0})"),
    "TRIM": (1, "trim({0})"),
    "ABS": (1, "abs({0})"),
    "LEFT": (2, "substr({0}, 1, {1})"),
    "RIGHT": (2, "substr({0}, greatest(length({0}) - {1}, 0) + 1)"),
}
"""The number of arguments, and how a call is written in our language."""
SUMS, PRODUCTS = ("+", "-"), ("*", "/", "%")
DEEPEST = 50


def from_cesql(expressions: Any) -> ImportReport:
    """Reads expressions: a dict of ids and texts, or a list of texts.

    >>> from_cesql({"f1": "type LIKE 'com.example.%' AND EXISTS subject"}).rules[0].expression
    "type like 'com.example.%' and subject is not null"

    Attributes are those of the event as it is published. Rejected are conversions of attributes to other types (INT, STRING, BOOL)."""

    def translate(id: Any, text: Any) -> ImportedRule:
        if not isinstance(text, str):
            raise RuleFormatError(FORMAT, f"an expression is a text, not {type(text).__name__}")
        return ImportedRule(id, _Reader(text).read())

    return import_rules(numbered(expressions, FORMAT), translate, FORMAT)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._place, self._depth = text, [], 0, 0
        for found in TOKEN.finditer(text):
            kind = found.lastgroup
            if kind == "end":
                break
            if kind == "bad":
                raise RuleFormatError(
                    FORMAT, f"unexpected {found['bad']!r} at position {found.start('bad')} in {text!r}"
                )
            assert kind is not None
            self._tokens.append((kind, found[kind]))

    def read(self) -> str:
        found = self._condition(self._logic())
        if self._place < len(self._tokens):
            raise self._unexpected()
        return found.text

    # ------------------------------------------------------------------------------------------------------------ tokens

    def _word(self, offset: int = 0) -> str:
        """Returns the following word in capitals, or sign; empty for anything else."""
        place = self._place + offset
        kind, text = self._tokens[place] if place < len(self._tokens) else ("", "")
        return text.upper() if kind == "word" else text if kind == "sign" else ""

    def _takes(self, *words: str) -> str:
        word = self._word()
        if not word or word not in words:
            return ""
        self._place += 1
        return word

    def _needs(self, sign: str) -> None:
        if not self._takes(sign):
            raise self._unexpected()

    def _unexpected(self) -> RuleFormatError:
        found = self._tokens[self._place][1] if self._place < len(self._tokens) else "end"
        return RuleFormatError(FORMAT, f"unexpected {found!r} in {self._text!r}")

    def _condition(self, part: Part) -> Part:
        """Converts a boolean attribute to a condition."""
        if part.condition:
            return part
        if not part.attribute:
            raise RuleFormatError(FORMAT, f"{part.text} is no condition, in {self._text!r}")
        return Part(f"{part.text} = true", True, 3)

    # ------------------------------------------------------------------------------------------------------------ precedence

    def _logic(self) -> Part:
        found = self._not()
        first = ""
        while operator := self._takes("AND", "OR", "XOR"):
            if first and operator != first:
                raise RuleFormatError(FORMAT, f"{first} beside {operator}: put one in parentheses, in {self._text!r}")
            first = operator
            left, right = self._condition(found), self._condition(self._not())
            if operator == "AND":
                found = Part(f"{left.within(1)} and {right.within(1)}", True, 1)
            elif operator == "OR":
                found = Part(f"{left.text} or {right.text}", True, 0)
            else:
                one, other = left.within(2), right.within(2)
                found = Part(f"({left.text} or {right.text}) and not ({one} and {other})", True, 1)
        return found

    def _not(self) -> Part:
        if not self._takes("NOT"):
            return self._comparison()
        operand = self._not() if self._word() == "NOT" else self._unary()
        if self._word() in (*COMPARISONS, *SUMS, *PRODUCTS, "LIKE", "IN", "NOT"):
            raise RuleFormatError(
                FORMAT, f"NOT before {self._word()}: put its operand in parentheses, in {self._text!r}"
            )
        return Part(f"not {self._condition(operand).within(2)}", True, 2)

    def _comparison(self) -> Part:
        found = self._sum()
        while True:
            if self._word() in COMPARISONS:
                operator = self._takes(*COMPARISONS).replace("<>", "!=")
                left, right = found, self._sum()
                found = Part(f"{left.within(4)} {operator} {right.within(4)}", True, 3)
            elif self._word() in ("LIKE", "IN") or (self._word() == "NOT" and self._word(1) in ("LIKE", "IN")):
                negation = "not " if self._takes("NOT") else ""
                tail, is_text = self._like_or_in()
                subject = (as_text(found) if is_text else found).within(4)
                found = Part(f"{subject} {negation}{tail}", True, 3)
            else:
                return found

    def _like_or_in(self) -> tuple[str, bool]:
        """Parses what follows the left side, and returns whether that is a text."""
        return (self._like(), True) if self._takes("LIKE", "IN") == "LIKE" else (self._members(), False)

    def _like(self) -> str:
        pattern = self._sum()
        if pattern.literal is None:
            raise RuleFormatError(FORMAT, f"the pattern of LIKE must be a text, in {self._text!r}")
        # A backslash stands for itself unless a wildcard follows; with an escape, it must be doubled here.
        literal = LONE_BACKSLASH.sub(r"\\\\", pattern.literal)
        ending = " escape '\\'" if "\\" in literal else ""
        return f"like {constant(literal, FORMAT)}{ending}"

    def _members(self) -> str:
        self._needs("(")
        members = [self._logic().within(4)]
        while self._takes(","):
            members.append(self._logic().within(4))
        self._needs(")")
        return f"in ({', '.join(members)})"

    def _sum(self) -> Part:
        found = self._product()
        while operator := self._takes(*SUMS):
            left, right = as_number(found), as_number(self._product())
            found = Part(f"{left.within(4)} {operator} {right.within(5)}", False, 4)
        return found

    def _product(self) -> Part:
        found = self._unary()
        while operator := self._takes(*PRODUCTS):
            left, right = as_number(found).within(5), as_number(self._unary()).within(6)
            if operator == "/":  # of whole numbers, cut off toward zero
                ratio = f"{left} / {right}"
                found = Part(f"case when {ratio} < 0 then ceil({ratio}) else floor({ratio}) end", False)
            else:
                found = Part(f"{left} {operator} {right}", False, 5)
        return found

    def _unary(self) -> Part:
        self._depth += 1
        if self._depth > DEEPEST:
            raise RuleFormatError(FORMAT, f"nested more than {DEEPEST} times")
        try:
            if self._takes("-"):
                return Part(
                    f"-{as_number(self._unary()).within(7)}", False, 6
                )  # two signs in a row would begin a comment
            return self._primary()
        finally:
            self._depth -= 1

    def _primary(self) -> Part:
        if self._place == len(self._tokens):
            raise self._unexpected()
        if self._takes("("):
            found = self._logic()
            self._needs(")")
            return found
        if self._takes("EXISTS"):
            return Part(f"{self._name()} is not null", True, 3)
        if word := self._takes("TRUE", "FALSE"):
            return Part(word.lower(), True)
        kind, text = self._tokens[self._place]
        if kind == "word" and self._word(1) == "(":
            return self._call()
        if kind == "word":
            return Part(self._name(), False, attribute=True)
        if kind == "sign":
            raise self._unexpected()
        self._place += 1
        if kind == "number":
            return Part(text, False)
        literal = re.sub(rf"\\({text[0]})", r"\1", text[1:-1])
        return Part(constant(literal, FORMAT), False, literal=literal)

    def _name(self) -> str:
        kind, text = self._tokens[self._place] if self._place < len(self._tokens) else ("", "")
        if kind != "word":
            raise self._unexpected()
        self._place += 1
        return write_name(text.lower())  # CloudEvents has attributes in lower case only, and CESQL takes them in any

    def _call(self) -> Part:
        name = self._word()
        self._place += 2
        arguments: list[Part] = []
        while not self._takes(")"):
            if arguments:
                self._needs(",")
            arguments.append(self._logic())
        if name in CONVERSIONS and len(arguments) == 1:
            return converted(name, arguments[0], FORMAT)
        whole = {"ABS": (0,), "LEFT": (1,), "RIGHT": (1,), "SUBSTRING": (1, 2)}.get(name, ())
        typed = [as_number(each) if place in whole else as_text(each) for place, each in enumerate(arguments)]
        texts = [each.within(6) for each in typed]
        if name in ("LEFT", "RIGHT") and len(texts) == 2 and not texts[1].isdecimal():
            # Of a negative number of characters it is an error, which makes the filter false.
            return Part(f"case when {texts[1]} >= 0 then {FUNCTIONS[name][1].format(*texts)} end", False)
        if name in FUNCTIONS and len(texts) == FUNCTIONS[name][0]:
            return Part(FUNCTIONS[name][1].format(*texts), False)
        if (name == "CONCAT" and not texts) or (name == "CONCAT_WS" and len(texts) == 1):
            return Part("''", False, literal="")
        if name == "CONCAT":
            return Part(f"concat({', '.join(texts)})", False)
        if name == "CONCAT_WS" and len(texts) > 1:
            separated = [part for text in texts[1:] for part in (texts[0], text)][1:]
            return Part(f"concat({', '.join(separated)})", False)
        if name == "SUBSTRING" and len(texts) in (2, 3):
            found = f"substr({', '.join(texts)})"
            is_known = re.fullmatch(r"-?0*[1-9][0-9]*", texts[1])  # from character 0 on it is the empty text
            return Part(found if is_known else f"if({texts[1]} = 0, '', {found})", False)
        raise RuleFormatError(FORMAT, f"{name} with {len(texts)} arguments cannot be expressed")
