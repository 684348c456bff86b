"""A pattern as a fast Python function of a string, and a set of values as one of a value. Their meaning is defined by truth.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ray_pubsub.language.patterns import ANY_STRING, compile_regexp, like_pieces, like_regexp
from ray_pubsub.language.required_text import required_texts
from ray_pubsub.language.tree import Like, Regexp
from ray_pubsub.language.value_set import EVERYTHING, PatternTest, ValueSet
from ray_pubsub.model.values import Kind, Value

__all__ = ["ValueTest", "pattern_test", "regexp_of", "text_position", "value_test"]

ValueTest = Callable[[Value | None], bool]


@lru_cache(maxsize=4096)
def pattern_test(leaf: Like | Regexp) -> Callable[[str], bool]:
    """Returns a function that says whether a string matches; negation is ignored."""
    required, position = required_texts(leaf), text_position(leaf)
    text = required[0].text if len(required) == 1 and not required[0].folded else ""
    if position == "inside":
        return lambda string: text in string
    if position == "end":
        return lambda string: string.endswith(text)
    search = compile_regexp(regexp_of(leaf)).search
    return lambda string: text in string and search(string) is not None


def text_position(leaf: Like | Regexp) -> str:
    """Returns where the required text must be, if the pattern requires nothing else: 'inside' for like '%text%', 'end' for like '%text',
    else ''."""
    if isinstance(leaf, Like):
        match like_pieces(leaf.pattern.plain, leaf.escape):
            case (int(first), str(), int(last)) if first == last == ANY_STRING:
                return "inside"
            case (int(first), str()) if first == ANY_STRING:
                return "end"
    return ""


def regexp_of(leaf: Like | Regexp) -> str:
    """Returns the equivalent regular expression."""
    return like_regexp(leaf.pattern.plain, leaf.escape) if isinstance(leaf, Like) else leaf.pattern.plain


def value_test(allowed: ValueSet) -> ValueTest:
    """Returns a function that says whether a set admits a value (None: an absent one)."""
    if not allowed.patterns:
        return allowed.contains
    # Besides its patterns, such a set admits strings only.
    tests = [_string_test(pattern) for pattern in allowed.patterns]
    if len(tests) == 1 and allowed.strings == EVERYTHING:
        (test,) = tests
        return lambda value: value is not None and value.kind is Kind.STRING and test(value.plain)
    return lambda value: value is not None and allowed.contains(value) and all(test(value.plain) for test in tests)


def _string_test(pattern: PatternTest) -> Callable[[str], bool]:
    test = pattern_test(pattern.leaf)
    return (lambda string: not test(string)) if pattern.leaf.negated else test
