"""Translates Lucene's regular expressions, which Elasticsearch has, to RE2's. A pattern always spans the whole value.

Lucene has no anchors, no flags and no escapes but those of characters and a few classes; it has operators that others do not have. What
means something else in RE2 is rejected.
"""

from __future__ import annotations

import re

from ray_pubsub.errors import RuleFormatError

__all__ = ["translated"]

PART = re.compile(
    r"(?P<escape>\\.)|(?P<class>\[\^?(?:\\.|[^\]\\])+\])|(?P<repeat>\{[0-9]+(?:,[0-9]*)?\})|(?P<flags>\(\?)|(?P<other>.)",
    re.DOTALL,
)
CLASS_PART = re.compile(r"\\.|.", re.DOTALL)
ONLY_LUCENE = set('~&<>@#"')
CLASSES = set("dDwWsS")
OPENING = r"\["
"""A bracket within brackets, which would begin a class such as [:alpha:] in RE2."""


def translated(pattern: str, fold: bool, what: str, format: str) -> str:
    """Returns the pattern in RE2's syntax. `fold`: case is ignored, in Lucene not within brackets. `what`: the query, for errors."""

    def refuse(reason: str) -> RuleFormatError:
        return RuleFormatError(format, f"{what}: {pattern!r} {reason}")

    def escaped(part: str) -> str:
        if part[1].isalnum() and part[1] not in CLASSES:
            raise refuse(f"has {part}, which is another character in Lucene")
        return part

    written = []
    for found in PART.finditer(pattern):
        part = found[0]
        match found.lastgroup:
            case "escape":
                part = escaped(part)
            case "class" if fold:
                raise refuse("has brackets, in which Lucene does not ignore case")
            case "class":
                inside = [escaped(each) if each[0] == "\\" else each for each in CLASS_PART.findall(part[1:-1])]
                part = f"[{''.join(OPENING if each == '[' else each for each in inside)}]"
            case "flags":
                raise refuse("has flags or look-arounds, which Lucene does not have")
            case "other" if part in "^$":
                raise refuse(
                    "has an anchor, which is a character like any other in Lucene; a pattern spans the whole value"
                )
            case "other" if part in ONLY_LUCENE:
                raise refuse("has operators that only Lucene knows")
            case "other" if part in "[{\\":
                raise refuse(f"has {part} where nothing belongs to it")
        written.append(part)
    return "".join(written)
