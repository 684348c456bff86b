"""Finds the error of a text that the fast parser does not accept, from the part of the text that is wrong.

The grammar words all errors, but takes two microseconds for each character: rules of thousands of characters would take tens of
milliseconds. The fast parser has read everything before the place where it stopped, so the grammar is given only the condition around
that place. If it does not stop there too, it must parse the whole text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from ray_pubsub.errors import ExpressionError, ExpressionSyntaxError, ExpressionTypeError
from ray_pubsub.language import words
from ray_pubsub.language.grammar import error_within
from ray_pubsub.language.tokens import UnreadableText
from ray_pubsub.settings import Limits

__all__ = ["Stop", "first_error"]

BEFORE_CONDITION = {"(", "AND", "OR", "NOT"}
"""Behind these, a parenthesis is around a condition, or around a value: only what stands behind it says which."""
BEHIND_CONDITIONS = {"OR", ")", "]", ",", "WHEN", "THEN", "ELSE", "END_OF_CASE", "END"}
ANYTHING = "x"
"""Stands for what is in closed parentheses."""


class Stop(NamedTuple):
    """Where a parser has stopped, among its tokens."""

    kinds: list[str]
    places: list[int]
    at: int

    @property
    def place(self) -> int:
        return self.places[self.at]

    def part(self, text: str, wrong_meaning: bool) -> Part:
        """Returns the condition in which the parser has stopped. Where a list of conditions ends, something with a wrong meaning may be in
        any of them. Otherwise what is in closed parentheses does not matter."""
        lists = wrong_meaning and self.kinds[self.at] in BEHIND_CONDITIONS
        found = depth = 0
        closed: list[tuple[int, int]] = []
        levels: list[tuple[bool, int, int]] = []
        """Whether each open parenthesis is around a condition, where it is, and where the condition begins that it is in."""
        between, before = False, "("
        for kind, place in zip(self.kinds[: self.at], self.places, strict=False):
            of_conditions = not levels or levels[-1][0]
            if kind == "CASE":  # its conditions are not told apart
                break
            if kind in ("(", "["):
                plain = kind == "(" and of_conditions and before in BEFORE_CONDITION
                levels.append((plain, place, found))
                if plain:
                    found, depth = place + 1, depth + 1
            elif kind in (")", "]") and levels:
                plain, opened, found = levels.pop()
                depth -= plain
                if plain and not wrong_meaning:
                    while closed and closed[-1][0] > opened:
                        closed.pop()
                    closed.append((opened + 1, place))
            elif of_conditions:
                if not lists and (kind == "OR" or (kind == "AND" and not between)):
                    found = place + len(kind)
                between = kind == "BETWEEN" or (between and kind != "AND")
            before = kind
        parts, end = [" " * (found - depth) + "(" * depth], found
        for first, last in closed:
            if first > found:
                parts += text[end:first], ANYTHING.ljust(last - first)[: last - first]
                end = last
        return Part(found, "".join([*parts, text[end:]]))


class Part(NamedTuple):
    """A part of a text, as a text of its own with the same places."""

    place: int
    text: str


class Parser(Protocol):
    @property
    def stop(self) -> Stop: ...

    def expression(self) -> Any:
        """Parses the whole text."""


def first_error(
    text: str, limits: Limits, refusal: Exception, parser: Parser | None, parser_of: Callable[[str, Limits], Parser]
) -> ExpressionError | None:
    """Returns the error, or None if the grammar must parse the whole text. `refusal` is what the parser raised; without a parser, what
    cutting the text into tokens raised."""
    if parser is None and isinstance(refusal, UnreadableText):
        try:
            parser = parser_of(text[: refusal.place], limits)
            parser.expression()
        except UnreadableText as other:
            refusal = other
        except (words.BadConstant, ExpressionError, RecursionError):
            return None
    if parser is None or isinstance(refusal, RecursionError):
        return None
    stop, wrong_meaning = parser.stop, not isinstance(refusal, UnreadableText)
    if wrong_meaning and stop.kinds[stop.at] == "END":
        return None
    part = stop.part(text, wrong_meaning)
    error = error_within(text, part.text, limits)
    if not isinstance(error, ExpressionSyntaxError | ExpressionTypeError) or error.position is None:
        return None
    first = part.place if wrong_meaning else stop.place
    return error if first <= error.position <= stop.place else None
