"""Estimates an expression's size before it is parsed, so that a megabyte of nonsense is refused quickly."""

from __future__ import annotations

import re

from ray_pubsub.errors import ExpressionLimitError
from ray_pubsub.settings import Limits

__all__ = ["check_size"]

QUOTED = re.compile(r"""'[^']*'|"[^"]*"|`[^`]*`""")
JOINT = re.compile(r"(?<![\w$.])(?:and|or)(?![\w$.])", re.IGNORECASE)
NEGATIONS = re.compile(r"(?:(?<![\w$.])not(?![\w$.])[\s(]*)+", re.IGNORECASE)
NEGATION = re.compile(r"\bnot\b", re.IGNORECASE)
BRACKET = re.compile(r"[()]")
LIST = re.compile(r"\([^()]*\)")
WORD = re.compile(r"[\w$.]+")
SHORT_TEXT = 4_000
"""A shorter text is parsed directly, which is as fast as estimating."""


def check_size(text: str, limits: Limits) -> None:
    """Raises ExpressionLimitError for a text that is certain to exceed a limit."""
    if (
        len(text) < min(SHORT_TEXT, limits.leaves, limits.set_size, limits.word_length)
        and text.count("(") <= limits.nesting_depth
    ):
        return
    bare = QUOTED.sub(" ", text)
    if any(quote in bare for quote in "'\"`"):
        return  # a quote that is not closed: the parser shows where
    _refuse("word_length", max(map(len, WORD.findall(bare)), default=0), limits.word_length)
    # Of the words and/or, at most every second belongs to a `between`.
    _refuse("leaves", sum(1 for _ in JOINT.finditer(bare)) // 2, limits.leaves)
    _refuse("set_size", max((part[0].count(",") + 1 for part in LIST.finditer(bare)), default=0), limits.set_size)
    depth = deepest = 0
    for found in BRACKET.finditer(bare):
        depth += 1 if found[0] == "(" else -1
        deepest = max(deepest, depth)
    negations = max((len(NEGATION.findall(run[0])) for run in NEGATIONS.finditer(bare)), default=0)
    _refuse("nesting_depth", max(deepest, negations), limits.nesting_depth)


def _refuse(limit: str, found: int, allowed: int) -> None:
    if found > allowed:
        raise ExpressionLimitError(limit, allowed, found)
