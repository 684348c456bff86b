"""The text that whatever a pattern matches must contain, so that most patterns need not be asked about most strings.

Careful rather than clever: what it does not understand of a pattern makes it say nothing ('' is in every string).
"""

from __future__ import annotations

import re

from ray_pubsub.language.patterns import like_pieces
from ray_pubsub.language.tree import Like, Regexp

__all__ = ["required_text"]

REPEAT = re.compile(r"\{\d+(,\d*)?\}")
NO_TEXT_ESCAPES = frozenset("dDsSwWbBAzaftnrv")
"""Escapes of one letter that stand for a set, a place or a control character."""


def required_text(leaf: Like | Regexp) -> str:
    """The longest text found that every match of the pattern contains."""
    if isinstance(leaf, Like):
        texts = [piece for piece in like_pieces(leaf.pattern.plain, leaf.escape) if isinstance(piece, str)]
    else:
        texts = _runs(leaf.pattern.plain)
    return max(texts, key=len, default="")


def _runs(pattern: str) -> list[str]:
    """Runs of plain characters, outside of groups and classes, that a match cannot do without."""
    runs, run = [], ""
    place, depth = 0, 0
    while place < len(pattern):
        character, following = pattern[place], pattern[place + 1 : place + 2]
        step, literal = 1, ""
        if character == "\\":
            step = 2
            if following.isalnum() or following == "_":
                if following not in NO_TEXT_ESCAPES:
                    return []  # \pN, \x{10FFFF}, \Q…\E, \123: how far they reach is not our matter
            else:
                literal = following
        elif character == "[":
            end = _behind_class(pattern, place)
            if end < 0:
                return []
            step = end - place
        elif character == "(":
            if following == "?" and pattern[place + 2 : place + 3] != ":":
                return []  # flags change what plain characters mean
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "|" and depth == 0:
            return []
        elif character in "*?{" and not depth:
            run = run[:-1]  # what comes before may not occur
            repeat = REPEAT.match(pattern, place) if character == "{" else None
            step = repeat.end() - place if repeat else 1
        elif character not in ".^$|*+?{":
            literal = character
        if depth == 0 and literal:
            run += literal
        else:
            runs.append(run)
            run = ""
        place += step
    return [*runs, run]


def _behind_class(pattern: str, place: int) -> int:
    """The place behind a class that starts at one; -1 if it does not end."""
    place += 2 if pattern[place + 1 : place + 2] == "^" else 1
    place += pattern[place : place + 1] == "]"  # the first member may be a bracket
    while place < len(pattern):
        if pattern[place] == "]":
            return place + 1
        if pattern[place] == "\\":
            if pattern[place + 1 : place + 2] == "Q":
                return -1
            place += 2
        elif pattern.startswith("[:", place):
            place = pattern.find(":]", place) + 2
            if place == 1:
                return -1
        else:
            place += 1
    return -1
