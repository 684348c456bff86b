"""Imports event patterns of Amazon EventBridge and its event-ruler: JSON in which every leaf is a list of a field's accepted values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, all_of, any_of, negated, write
from ray_pubsub.importers.field import Field, literal_pattern
from ray_pubsub.importers.report import ImportedRule, ImportReport, import_rules, numbered

__all__ = ["from_eventbridge"]

FORMAT = "EventBridge"
OPERATORS = {"<", "<=", ">", ">=", "="}


def from_eventbridge(patterns: Any, *, lists: bool = False) -> ImportReport:
    """Reads event patterns: a dict of ids and patterns, or a list of patterns, each a dict or JSON.

    >>> report = from_eventbridge({"r1": {"source": ["aws.ec2"], "detail": {"cpu": [{"numeric": [">", 90]}]}}})
    >>> report.rules[0].expression
    "source = 'aws.ec2' and detail.cpu > 90"

    Understands exact values, prefix, suffix, anything-but, numeric, exists, equals-ignore-case, cidr, wildcard and $or. Nulls are rejected:
    they are absence here. `lists`: fields may be lists, of which one element must match; patterns of characters on them are rejected."""

    def translate(id: Any, pattern: Any) -> ImportedRule:
        return ImportedRule(id, write(_pattern(_parsed(pattern), "", lists)))

    return import_rules(numbered(patterns, FORMAT), translate)


def _parsed(pattern: Any) -> Any:
    if not isinstance(pattern, str | bytes):
        return pattern
    try:
        return json.loads(pattern)
    except (ValueError, RecursionError) as error:
        raise RuleFormatError(FORMAT, f"this is not JSON: {error}") from None


def _pattern(pattern: Any, path: str, lists: bool) -> Condition:
    if not isinstance(pattern, Mapping) or not pattern:
        raise RuleFormatError(FORMAT, f"{path or 'a pattern'} must be an object that is not empty, not {pattern!r}")
    parts = []
    for name, value in pattern.items():
        if name == "$or" and isinstance(value, list) and len(value) > 1:
            parts.append(any_of(_pattern(each, path, lists) for each in value))
        elif isinstance(value, Mapping):
            parts.append(_pattern(value, f"{path}{name}.", lists))
        elif isinstance(value, list) and value:
            field = Field(f"{path}{name}", FORMAT, typed=True, lists=lists)
            parts.append(_leaf(field, value))
        else:
            raise RuleFormatError(FORMAT, f"{path}{name} must be a list of what it may be, not {value!r}")
    return all_of(parts)


def _leaf(field: Field, matchers: list[Any]) -> Condition:
    exact = [each for each in matchers if isinstance(each, str | int | float)]
    if None in matchers:
        raise RuleFormatError(FORMAT, f"{field.name}: a null is the same as an absent field here; use exists: false")
    parts = [field.among(exact)] if exact else []
    parts += [_matcher(field, each) for each in matchers if not isinstance(each, str | int | float)]
    return any_of(parts)


def _matcher(field: Field, matcher: Any) -> Condition:
    if not isinstance(matcher, Mapping) or len(matcher) != 1:
        raise RuleFormatError(FORMAT, f"{field.name}: {matcher!r} is no value and no matcher")
    ((name, given),) = matcher.items()
    match name:
        case "exists" if isinstance(given, bool):
            return field.present() if given else negated(field.present())
        case "anything-but":
            return _anything_but(field, given)
        case "numeric":
            return _numeric(field, given)
        case "cidr":
            return field.in_network([given])
        case _:
            return _text(field, name, given)


def _text(field: Field, name: str, given: Any) -> Condition:
    """Translates a matcher of texts; prefix and suffix may ignore case."""
    folded = name in ("prefix", "suffix") and isinstance(given, Mapping) and set(given) == {"equals-ignore-case"}
    text = given["equals-ignore-case"] if folded else given
    if not isinstance(text, str):
        raise RuleFormatError(FORMAT, f"{field.name}: {name} takes a text, not {given!r}")
    match name:
        case "prefix":
            return field.like(literal_pattern(text) + "%", fold=folded)
        case "suffix":
            return field.like("%" + literal_pattern(text), fold=folded)
        case "equals-ignore-case":
            return field.among_folded([text])
        case "wildcard":
            return field.like(_wildcard(field, text))
        case _:
            raise RuleFormatError(FORMAT, f"{field.name}: the matcher {name!r} is not known")


def _anything_but(field: Field, given: Any) -> Condition:
    """Returns a condition: the field is present and equals none of these."""
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, values),) = given.items()
        if name == "numeric" or name == "exists":
            raise RuleFormatError(FORMAT, f"{field.name}: anything-but takes no {name}")
        texts = values if isinstance(values, list) else [values]
        condition = any_of(_text(field, name, text) for text in texts)
    else:
        values = given if isinstance(given, list) else [given]
        if not values or not all(type(value) in (str, int, float) for value in values):
            raise RuleFormatError(FORMAT, f"{field.name}: anything-but takes texts or numbers, not {given!r}")
        if field.lists:
            raise RuleFormatError(FORMAT, f"anything-but on elements of lists ({field.name}) cannot be expressed")
        condition = field.among(values)
    return field.no_other(condition)


def _numeric(field: Field, given: Any) -> Condition:
    """Translates [">", 0, "<=", 5]."""
    if not isinstance(given, list) or not given or len(given) % 2:
        raise RuleFormatError(FORMAT, f"{field.name}: numeric takes operators and numbers in turn, not {given!r}")
    parts = []
    for operator, number in zip(given[::2], given[1::2], strict=True):
        if operator not in OPERATORS or type(number) not in (int, float):
            raise RuleFormatError(FORMAT, f"{field.name}: numeric has {operator!r} {number!r}")
        parts.append(field.among([number]) if operator == "=" else field.compared(operator, number))
    if field.lists and len(parts) > 1:
        raise RuleFormatError(FORMAT, f"{field.name}: two bounds for one element of a list cannot be expressed")
    return all_of(parts)


def _wildcard(field: Field, text: str) -> str:
    """Converts a wildcard to a `like` pattern: a star stands for any characters; a backslash escapes a star or a backslash."""
    pattern, place = "", 0
    while place < len(text):
        character = text[place]
        if character == "\\":
            place += 1
            if text[place : place + 1] not in ("*", "\\"):
                raise RuleFormatError(FORMAT, f"{field.name}: a backslash before neither * nor \\ in {text!r}")
            pattern += literal_pattern(text[place])
        elif text[place : place + 2] == "**":
            raise RuleFormatError(FORMAT, f"{field.name}: two stars in a row in {text!r}")
        else:
            pattern += "%" if character == "*" else literal_pattern(character)
        place += 1
    return pattern
