"""Translates conditions of systems with two truth values into our language, which has three.

In those systems a test of an absent field is false and its negation true; here both are unknown. So every test lists the cases in which
it holds and those in which it fails, and a negation is pushed down to the tests. The result is true exactly when the condition is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "FALSE",
    "TRUE",
    "AllOf",
    "AnyOf",
    "Condition",
    "Test",
    "all_of",
    "any_of",
    "at_least",
    "negated",
    "number_of",
    "write",
]


@dataclass(frozen=True, slots=True)
class Test:
    """One test: texts of which one is true if the test holds, and texts of which one is true if it fails."""

    holds: tuple[str, ...]
    fails: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """A condition that holds if all parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """A condition that holds if one part holds."""

    parts: tuple[Condition, ...]


Condition = Test | AllOf | AnyOf
TRUE, FALSE = Test(("true",), ("false",)), Test(("false",), ("true",))


def all_of(parts: Iterable[Condition]) -> Condition:
    """Returns a condition that is true if all parts are; without parts it is true."""
    found = tuple(parts)
    return TRUE if not found else (found[0] if len(found) == 1 else AllOf(found))


def any_of(parts: Iterable[Condition]) -> Condition:
    """Returns a condition that is true if one part is; without parts it is false."""
    found = tuple(parts)
    return FALSE if not found else (found[0] if len(found) == 1 else AnyOf(found))


def at_least(count: int, parts: Sequence[Condition]) -> Condition:
    """Returns a condition that is true if at least `count` parts are."""
    if count <= 0:
        return TRUE
    if count > len(parts):
        return FALSE
    if count in (1, len(parts)):
        return any_of(parts) if count == 1 else all_of(parts)
    total = number_of(parts)
    return Test((f"{total} >= {count}",), (f"{total} < {count}",))


def number_of(parts: Iterable[Condition]) -> str:
    """Returns a term: how many of the parts are true."""
    return " + ".join(f"case when {write(part)} then 1 else 0 end" for part in parts)


def negated(condition: Condition) -> Condition:
    """Returns a condition that is true if the given one is false."""
    match condition:
        case Test(holds, fails):
            return Test(fails, holds)
        case AllOf(parts):
            return AnyOf(tuple(map(negated, parts)))
        case AnyOf(parts):
            return AllOf(tuple(map(negated, parts)))


def write(condition: Condition) -> str:
    """Writes a condition in our language."""
    return _write(condition, inside_and=False)


def _write(condition: Condition, inside_and: bool) -> str:
    if isinstance(condition, AllOf):
        return " and ".join(_write(part, inside_and=True) for part in condition.parts)
    alternatives = condition.parts if isinstance(condition, AnyOf) else condition.holds
    texts = [each if isinstance(each, str) else _write(each, inside_and=False) for each in alternatives]
    text = " or ".join(texts)
    return f"({text})" if inside_and and len(texts) > 1 else text
