"""Suggests what the author of a text that does not parse may have meant."""

from __future__ import annotations

import re

from ray_pubsub.language.words import KEYWORDS

__all__ = ["hint_at"]

LOOK = 300
"""Characters examined around the place: a hint needs no more, and a text may have millions."""
NAME = re.compile(r"([^\W\d][\w$]*)(\s*\()?")

STATEMENT = re.compile(
    r"\s*(select\s+(?:[*\w`\"]|distinct\b).*?\b(?:from|where)\b|where\s+[\w`\"(])", re.IGNORECASE | re.DOTALL
)

NEGATIVE_INTERVAL = re.compile(r"\binterval\s*-\s*([0-9.]+)\s*\Z", re.IGNORECASE)
SIGN_BEHIND_CASE = re.compile(r"\bcase\s*[-+]", re.IGNORECASE)
UNIT = re.compile(r"[a-z]+", re.IGNORECASE)
ONLY_THE_CLAUSE = "give only the WHERE clause: what stands after the word where"
COMMENTS = "comments are not part of the language"
TEXT = "for text there are like 'abc%' and regexp 'pattern'"
BETWEEN = {
    "contains": "contains({}, {})",
    **dict.fromkeys(("starts", "startswith", "starts_with", "begins"), "starts_with({}, {})"),
    **dict.fromkeys(("ends", "endswith", "ends_with"), "ends_with({}, {})"),
    **dict.fromkeys(("match", "matches"), "{} regexp {}"),
    **dict.fromkeys(("glob", "similar"), "{} like {}"),
}
"""Words that stand between a name and a text in other languages, and what is written instead."""
SUBJECT = re.compile(r"""([\w$.]+|"(?:[^"]|"")+"|`(?:[^`]|``)+`)\s*\Z""")
PATTERN = re.compile(r"(\w+)\s+(?:(?:with|to)\s+)?('(?:[^']|'')*')")
OF_A_LIST = re.compile(r"('(?:[^']|'')*'|[\w.]+)\s+(not\s+)?in\s*\Z", re.IGNORECASE)
BACKWARDS = re.compile(r"(?<![<>!=])=\s*\Z")
APART = re.compile(r"[<>!]\s+\Z")
SIGNS = {
    ";": "leave the ; out",
    "&": "write 'and'",
    "|": "write 'or'",
    "!": "write 'not', or != for unequal",
    "~": TEXT,
    "--": COMMENTS,
    "/*": COMMENTS,
    "::": "casts are not part of the language: a constant has the type it is written with",
}
WORDS = {
    "ilike": "the pattern of ilike is a string constant",
    "xor": "there are and, or and not",
    "div": "write / for division, with floor(…) around it for whole numbers",
    "mod": "write %",
    **dict.fromkeys(BETWEEN, TEXT),
}


def hint_at(text: str, position: int) -> str:
    """In words, for a text that does not parse beyond this place; empty if nothing can be guessed.

    >>> hint_at("a = 1 && b = 2", 6)
    "write 'and'"
    """
    if STATEMENT.match(text[:LOOK]):
        return ONLY_THE_CLAUSE
    before, rest = text[max(position - LOOK, 0) : position], text[position : position + LOOK]
    negative = NEGATIVE_INTERVAL.search(before)
    if SIGN_BEHIND_CASE.search(text[:position]) and rest[:4].lower() == "when":
        return "what begins with a sign stands in parentheses behind case: case (-x) when …"
    unit = UNIT.match(rest)
    if negative is not None and unit is not None:
        return f"a negative interval is written interval '-{negative[1]} {unit[0]}'"
    if rest[:1] in ("<", ">") and BACKWARDS.search(before):
        return f"write {rest[0]}="
    if rest[:1] == "=" and (apart := APART.search(before)) is not None:
        return f"write {apart[0][0]}= in one piece"
    for length in (2, 1):
        if rest[:length] in SIGNS:
            return SIGNS[rest[:length]]
    if rest[:1] == "(":
        return ""
    subject, pattern = SUBJECT.search(before), PATTERN.match(rest)
    if subject is not None and pattern is not None and pattern[1].lower() in BETWEEN:
        return f"write {BETWEEN[pattern[1].lower()].format(subject[1], pattern[2])}"
    word = NAME.match(rest)
    if word is None or word[1].lower() in KEYWORDS:
        return ""
    if (element := OF_A_LIST.search(before)) is not None:
        return f"if {word[1]} is a list: {element[2] or ''}list_contains({word[1]}, {element[1]})"
    return WORDS.get(word[1].lower(), "")
