"""Splits an expression into tokens by one regular expression, exactly where the grammar's lexer does.

Some words are keywords only in certain places (`date` before a string, `end` inside a `case`). grammar.lark decides this by looking
ahead; this module decides it by looking back, when it reaches the token that makes the difference.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ray_pubsub.language import words

__all__ = ["Tokens", "UnreadableText", "cut_tokens"]

NUMBER = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![\w.$])"
# The most frequent first. What begins no token is UNKNOWN, and so is a malformed number.
TOKEN = re.compile(
    rf"""\s*(?: (?P<NAME>[^\W\d][\w$]*)
              | (?P<STRING>'[^']*(?:''[^']*)*')
              | (?P<NUMBER>{NUMBER})
              | (?P<OPERATOR>[<>=!]=|<>|[<>=])
              | (?P<SYMBOL>[(),.+*%\[\]]|-(?!-)|/(?!\*)|\|\|)
              | (?P<QUOTED>"(?:[^"]|"")+"|`(?:[^`]|``)+`)
              | (?P<END>\Z)
              | (?P<UNKNOWN>\S) )""",
    re.VERBOSE,
)
BEFORE_STRING = {
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "double": "DOUBLE",
    "interval": "INTERVAL",
    "escape": "ESCAPE",
    "ilike": "ILIKE",
}
"""Words that change the meaning of the string after them. Elsewhere they are ordinary names."""
INSIDE_CASE = {"when": "WHEN", "then": "THEN", "else": "ELSE", "end": "END_OF_CASE"}
CONTEXTUAL = {*INSIDE_CASE, "from"}
BEHIND_ATTRIBUTE = {*words.KEYWORDS, *INSIDE_CASE, "ilike", "from"} - {"when", "null", "true", "false"}
"""Words that may follow an attribute. Before any other word, `case` is not an attribute."""


class UnreadableText(Exception):  # noqa: N818 - never reaches a user
    """Raised if the fast parser does not accept a text; the grammar then parses it."""

    def __init__(self, place: int = -1) -> None:
        self.place = place
        """Of what is no token."""


class Tokens(NamedTuple):
    """In columns. The kind of a keyword is the keyword, that of a symbol the symbol; the last token is END."""

    kinds: list[str]
    texts: list[str]
    places: list[int]


def cut_tokens(text: str) -> Tokens:
    """Returns the tokens of a text. Raises UnreadableText."""
    kinds: list[str] = []
    texts: list[str] = []
    places: list[int] = []
    keywords = words.KEYWORDS
    cases = 0
    for found in TOKEN.finditer(text):
        kind: str = found.lastgroup  # type: ignore[assignment]
        token = found[kind]
        if kind == "NAME":
            word = token.lower()
            kind = keywords.get(word, "NAME")
            if kinds and kinds[-1] == "NAME" and word not in BEHIND_ATTRIBUTE and texts[-1].lower() == "case":
                kinds[-1] = "CASE"
                cases += 1
            if word in CONTEXTUAL:
                if word == "from":
                    kind = _from(kinds, texts)
                elif cases:
                    kind = INSIDE_CASE[word]
                    cases -= word == "end"
        elif kind == "SYMBOL":
            kind = token
        elif kind == "UNKNOWN":
            raise UnreadableText(found.end() - len(token))
        if kinds and kinds[-1] == "NAME" and kind in BEGINS_VALUE:
            before = _before_value(
                texts[-1].lower(), kind, token, found.end() - len(token) > places[-1] + len(texts[-1])
            )
            if before is not None:
                kinds[-1] = before
                cases += before == "CASE"
        kinds.append(kind)
        texts.append(token)
        places.append(found.end() - len(token))
    return Tokens(kinds, texts, places)


BEGINS_VALUE = {"STRING", "NUMBER", "QUOTED", "(", "["}


def _before_value(word: str, kind: str, token: str, apart: bool) -> str | None:
    """Returns what a word means before a constant, a quoted name or a parenthesis; None if it is a name there, too. `apart`: a space lies
    between."""
    if kind == "[":
        return "ARRAY" if word == "array" else None
    if word == "case":
        return "CASE" if kind != "NUMBER" or (apart and token[0] != ".") else None
    if kind == "STRING":
        return BEFORE_STRING.get(word)
    if kind == "NUMBER" and word == "interval" and apart and token[0] != ".":
        return "INTERVAL"
    return None


def _from(kinds: list[str], texts: list[str]) -> str:
    """Returns what a `from` means: a keyword in `extract(part from …)`, else a name."""
    if kinds[-3:] != ["NAME", "(", "NAME"] or texts[-3].lower() != "extract":
        return "NAME"
    if "$" in texts[-1] or texts[-1].lower() == "from":  # which the grammar's look ahead does not admit
        return "NAME"
    kinds[-3] = "EXTRACT"
    return "FROM"
