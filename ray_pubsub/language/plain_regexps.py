"""Regular expressions that are valid for certain, seen in a few microseconds: to compile one takes fifty, and rules bring thousands.

What is not recognised here is not wrong; RE2 decides. Recognised are plain characters, classes of plain characters, groups within groups
and repetitions, small enough that no program can become too large: a repetition that is counted is of one character, and not of many.
"""

from __future__ import annotations

import re
from functools import cache

__all__ = ["is_plainly_valid"]

MOST_COUNTED = 200
"""Of all counts together: the program has a copy for each."""
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
    """Compiled at first use: that takes 0.1 s, which every process that imports ray_pubsub would pay."""
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
