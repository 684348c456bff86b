"""Texts of which whatever a pattern matches must contain one, so that most patterns need not be asked about most strings.

Careful rather than clever: what it does not understand of a pattern makes it say nothing, and then the pattern is asked about every string.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ray_pubsub.language.patterns import like_pieces
from ray_pubsub.language.tree import Like, Regexp

__all__ = ["RequiredText", "required_texts"]

QUANTIFIER = re.compile(r"(?:([*+?])|\{(\d+)(?:,\d*)?\})")
FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
NAMED_GROUP = re.compile(r"\(\?P?<\w+>")
CLASSES_AND_PLACES = frozenset("dDsSwWbBAz")
"""Escapes of one letter that stand for a set of characters or for a place."""
CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
MOST_TEXTS, MOST_DEPTH = 64, 50


class RequiredText(NamedTuple):
    """`folded`: in any case of its letters, which are ASCII and in lower case here."""

    text: str
    folded: bool = False


Texts = tuple[RequiredText, ...]
"""A match contains one of them; none: nothing is known."""


def required_texts(leaf: Like | Regexp) -> Texts:
    """The longest texts found of which every match of the pattern contains one."""
    if isinstance(leaf, Like):
        pieces = like_pieces(leaf.pattern.plain, leaf.escape)
        text = max((piece for piece in pieces if isinstance(piece, str)), key=len, default="")
        return (RequiredText(text),) if text else ()
    try:
        return _Reader(leaf.pattern.plain).alternatives(folded=False, depth=0)
    except _NotUnderstoodError:
        return ()


class _NotUnderstoodError(Exception):
    pass


class _Reader:
    """Reads a valid regular expression once, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._place = 0

    def alternatives(self, folded: bool, depth: int) -> Texts:
        """Up to the end of a group, or of the pattern. A flag set in one alternative holds for those that follow."""
        if depth > MOST_DEPTH:
            raise _NotUnderstoodError
        texts: list[RequiredText] = []
        known = True
        while True:
            found, folded = self._sequence(folded, depth)
            texts += found
            known = known and bool(found)
            if self._pattern[self._place : self._place + 1] != "|":
                return tuple(dict.fromkeys(texts)) if known and len(texts) <= MOST_TEXTS else ()
            self._place += 1

    def _sequence(self, folded: bool, depth: int) -> tuple[Texts, bool]:
        """One alternative, and whether case is ignored behind it."""
        pattern, runs = self._pattern, _Runs()
        while self._place < len(pattern) and pattern[self._place] not in "|)":
            character = pattern[self._place]
            literal = ""
            group: Texts = ()
            if character == "(":
                flags = FLAGS.match(pattern, self._place)
                if flags and flags[3] == ")":
                    runs.end()
                    folded = _folded(flags, folded)
                    self._place = flags.end()
                    if QUANTIFIER.match(pattern, self._place):
                        raise _NotUnderstoodError  # in "a(?i)*" it repeats what stands before the flags
                    continue
                group = self._group(flags, folded, depth)
            elif character == "[":
                self._place = _behind_class(pattern, self._place)
            elif character == "\\":
                literal = self._escape()
            else:
                literal = "" if character in ".^${" else character
                self._place += 1
            least = self._repetitions()
            if literal and least == 1:
                runs.add(literal, folded)
            elif literal and least is None:  # once or more often
                runs.add(literal, folded)
                runs.end()
            else:
                runs.end()
                if least != 0:
                    runs.found.append(group)
        runs.end()
        return runs.best(), folded

    def _group(self, flags: re.Match[str] | None, folded: bool, depth: int) -> Texts:
        if flags:
            self._place, folded = flags.end(), _folded(flags, folded)
        elif self._pattern.startswith("(?", self._place):
            named = NAMED_GROUP.match(self._pattern, self._place)
            if not named:
                raise _NotUnderstoodError
            self._place = named.end()
        else:
            self._place += 1
        group = self.alternatives(folded, depth + 1)
        self._place += 1  # the closing parenthesis
        return group

    def _escape(self) -> str:
        """The character it stands for, '' for a set or a place. How far \\pN, \\x{10FFFF}, \\Q…\\E and \\123 reach is not read here."""
        following = self._pattern[self._place + 1 : self._place + 2]
        self._place += 2
        if following in CONTROLS:
            return CONTROLS[following]
        if following.isalnum() or following == "_":
            if following not in CLASSES_AND_PLACES:
                raise _NotUnderstoodError
            return ""
        return following

    def _repetitions(self) -> int | None:
        """How often what was just read must occur: exactly once, perhaps not at all (0), or at least once (None)."""
        quantifier = QUANTIFIER.match(self._pattern, self._place)
        if not quantifier:
            return 1
        self._place = quantifier.end()
        if self._pattern[self._place : self._place + 1] == "?":  # as few as possible
            self._place += 1
        if QUANTIFIER.match(self._pattern, self._place):
            raise _NotUnderstoodError
        optional = quantifier[1] in ("*", "?") or (quantifier[2] is not None and int(quantifier[2]) == 0)
        return 0 if optional else None


class _Runs:
    """Runs of plain characters that a match cannot do without, each a text of its own, beside the texts of groups."""

    def __init__(self) -> None:
        self.found: list[Texts] = []
        self._run, self._folded = "", False

    def add(self, character: str, folded: bool) -> None:
        if folded != self._folded:
            self.end()
            self._folded = folded
        if folded and (not character.isascii() or character in "kKsS"):
            self.end()  # "k" in any case is also the sign of kelvin, "s" the long s
            return
        self._run += character.lower() if folded else character

    def end(self) -> None:
        if self._run:
            self.found.append((RequiredText(self._run, self._folded),))
        self._run = ""

    def best(self) -> Texts:
        """The texts whose shortest is longest."""
        return max(self.found, key=_worth, default=())


def _worth(texts: Sequence[RequiredText]) -> tuple[int, int]:
    return min((len(each.text) for each in texts), default=0), -len(texts)


def _folded(flags: re.Match[str], before: bool) -> bool:
    if "i" in (flags[2] or ""):
        return False
    return before or "i" in flags[1]


def _behind_class(pattern: str, place: int) -> int:
    """The place behind a class that starts at one."""
    place += 2 if pattern[place + 1 : place + 2] == "^" else 1
    place += pattern[place : place + 1] == "]"  # the first member may be a bracket
    while place < len(pattern):
        if pattern[place] == "]":
            return place + 1
        if pattern[place] == "\\":
            if pattern[place + 1 : place + 2] == "Q":
                raise _NotUnderstoodError
            place += 2
        elif pattern.startswith("[:", place):
            place = pattern.find(":]", place) + 2
            if place == 1:
                raise _NotUnderstoodError
        else:
            place += 1
    raise _NotUnderstoodError
