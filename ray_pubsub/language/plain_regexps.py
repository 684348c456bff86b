"""Recognises regular expressions that are certainly valid, in a few microseconds: compiling one takes fifty, and rule sets have
thousands.

A pattern that is not recognised may still be valid; RE2 decides. Recognised are plain characters, classes of plain characters, nested
groups and repetitions, small enough that no program can become too large: a counted repetition applies to one character, with a small
count.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["is_plainly_valid"]

MOST_COUNTED = 200
"""The limit of all counts together: the program has a copy for each."""
GROUP_DEPTH = 3

PLACE = r"\^|\$|\\[bBAz]"
ESCAPED = r"\\[dDwWsSafnrtv.\\/+*?()\[\]{}|^$'\"\-@:;,=<>!#%&~ ]"
CLASS = r"\[\^?+(?:a-z|A-Z|0-9|[A-Za-z0-9_ .,:;/@!#%&=<>~'\"*+?(){}|$](?!-)|\\[dwsDWS\\./\]\[^$*+?(){}|\-])++\]"
CHARACTER = rf"(?:[^\\\[\](){{}}*+?|^$.]|\.|{ESCAPED}|{CLASS})"
COUNT = re.compile(r"\{(\d{1,2})(?:,(\d{0,2}))?\}")


def _alternatives(depth: int) -> str:
    item = rf"(?:{PLACE}|{CHARACTER}(?:[*+?]\??+|\{{\d{{1,2}}(?:,\d{{0,2}})?\}}\??+)?+"
    if depth:
        item += rf"|\((?:\?:|\?i:)?+{_alternatives(depth - 1)}\)(?:[*+?]\??+)?+"
    return rf"{item})*+(?:\|{item})*+)*+"


@cache
def _plain() -> re.Pattern[str]:
    """Compiled at the first use: it takes 0.1 s, which every import of ray_pubsub would pay."""
    return re.compile(rf"(?:\(\?[ims]{{1,3}}\))?+{_alternatives(GROUP_DEPTH)}")


def is_plainly_valid(pattern: str) -> bool:
    """Returns whether RE2 is certain to compile the pattern."""
    if _plain().fullmatch(pattern) is None:
        return False
    counted = 0
    for least, most in COUNT.findall(pattern) if "{" in pattern else ():
        if most and int(most) < int(least):
            return False
        counted += int(most or least) + 1
    return counted <= MOST_COUNTED
