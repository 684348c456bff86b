"""Imports event patterns of Amazon EventBridge and its event-ruler: JSON in which every leaf is a list of a field's accepted values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, all_of, any_of, negated, write
from ray_pubsub.importers.document import read_json
from ray_pubsub.importers.field import Field, elements, literal_pattern
from ray_pubsub.importers.lists import MOST_LEVELS, Lists
from ray_pubsub.importers.report import ImportedRule, ImportReport, import_rules, numbered

__all__ = ["from_eventbridge"]

FORMAT = "EventBridge"
OPERATORS = {"<", "<=", ">", ">=", "="}


ALWAYS_A_LIST = "resources"
"""Of every event of EventBridge."""


def from_eventbridge(patterns: Any, *, lists: bool | Collection[str] = ()) -> ImportReport:
    """Reads event patterns: a dict of ids and patterns, or a list of patterns, each a dict or JSON.

    >>> report = from_eventbridge({"r1": {"source": ["aws.ec2"], "detail": {"cpu": [{"numeric": [">", 90]}]}}})
    >>> report.rules[0].expression
    "source = 'aws.ec2' and detail.cpu > 90"

    Understands exact values, prefix, suffix, anything-but, numeric, exists, equals-ignore-case, cidr, wildcard and $or. Nulls are rejected:
    they are absence here. `lists`: fields may be lists, of which one element must match, or the names of such fields; where an object
    may be a list of objects, one of them must satisfy all that the pattern says of it. `resources` always may be one, but for
    `lists=False`."""
    names = [lists] if isinstance(lists, str) else lists
    may_be = Lists.of(names if isinstance(names, bool) else {*names, ALWAYS_A_LIST})

    def translate(id: Any, pattern: Any) -> ImportedRule:
        return ImportedRule(id, write(_pattern(read_json(pattern, FORMAT), "", may_be)))

    return import_rules(numbered(patterns, FORMAT), translate, FORMAT)


def _pattern(pattern: Any, path: str, lists: Lists, outer: str = "") -> Condition:
    """Translates a pattern about the fields at a path. `outer`: the path that leads to the element of a list in which `path` begins."""
    if not isinstance(pattern, Mapping) or not pattern:
        raise RuleFormatError(FORMAT, f"{path or 'a pattern'} must be an object that is not empty, not {pattern!r}")
    parts = []
    for name, value in pattern.items():
        if name == "$or" and isinstance(value, list) and len(value) > 1:
            parts.append(any_of(_pattern(each, path, lists, outer) for each in value))
        elif isinstance(value, Mapping):
            parts.append(_object(value, f"{path}{name}", lists, outer))
        elif isinstance(value, list) and value:
            parts.append(_accepted(path, name, value, lists, outer))
        else:
            raise RuleFormatError(FORMAT, f"{path}{name} must be a list of what it may be, not {value!r}")
    return all_of(parts)


def _object(pattern: Mapping[str, Any], path: str, lists: Lists, outer: str) -> Condition:
    """Translates a pattern about an object, or about one object of a list."""
    if not lists.may(outer + path):
        return _pattern(pattern, f"{path}.", lists, outer)
    if f"{outer}{path}".count(".") > MOST_LEVELS:
        raise RuleFormatError(FORMAT, f"{outer}{path}: nested more than {MOST_LEVELS} times; name the lists in lists=")
    present, absent = _split(pattern)
    parts = []
    if present:
        within = elements(path, _pattern(present, "", lists, f"{outer}{path}."))
        parts.append(any_of([_pattern(present, f"{path}.", lists, outer), within]))
    if absent:
        parts.append(_pattern(absent, f"{path}.", lists, outer))
    return all_of(parts)


ABSENT = {"exists": False}


def _split(pattern: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separates what a pattern says of fields that must be absent: of a list, from all its objects."""
    present: dict[str, Any] = {}
    absent: dict[str, Any] = {}
    for name, value in pattern.items():
        if isinstance(value, Mapping):
            for found, part in zip((present, absent), _split(value), strict=True):
                if part or (found is present and not value):
                    found[name] = part
        else:
            (absent if value == [ABSENT] else present)[name] = value
    return present, absent


def _accepted(path: str, name: str, matchers: list[Any], lists: Lists, outer: str) -> Condition:
    """Translates the list of what a field may be."""
    others = [each for each in matchers if each != ABSENT]
    parts = [lists.tested(name, FORMAT, partial(_leaf, matchers=others), outer=outer, within=path)] if others else []
    if len(others) < len(matchers):
        parts.append(negated(lists.tested(path + name, FORMAT, Field.present, outer=outer)))
    return any_of(parts)


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
        case "exists" if given is True:
            return field.present()
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
    """Returns a condition: the field, or one element of it, is present and equals none of these."""
    if isinstance(given, Mapping) and len(given) == 1:
        ((name, values),) = given.items()
        if name == "numeric" or name == "exists":
            raise RuleFormatError(FORMAT, f"{field.name}: anything-but takes no {name}")
        texts = values if isinstance(values, list) else [values]
        return field.each(lambda one: one.no_other(any_of(_text(one, name, text) for text in texts)))
    values = given if isinstance(given, list) else [given]
    if not values or not all(type(value) in (str, int, float) for value in values):
        raise RuleFormatError(FORMAT, f"{field.name}: anything-but takes texts or numbers, not {given!r}")
    return field.each(lambda one: one.no_other(one.among(values)))


def _numeric(field: Field, given: Any) -> Condition:
    """Translates [">", 0, "<=", 5]."""
    if not isinstance(given, list) or not given or len(given) % 2:
        raise RuleFormatError(FORMAT, f"{field.name}: numeric takes operators and numbers in turn, not {given!r}")
    bounds = list(zip(given[::2], given[1::2], strict=True))
    for operator, number in bounds:
        if not isinstance(operator, str) or operator not in OPERATORS or type(number) not in (int, float):
            raise RuleFormatError(FORMAT, f"{field.name}: numeric has {operator!r} {number!r}")
    if len(bounds) == 1:
        return _bounded(field, *bounds[0])
    return field.each(lambda one: all_of(_bounded(one, *bound) for bound in bounds))


def _bounded(field: Field, operator: str, number: float) -> Condition:
    return field.among([number]) if operator == "=" else field.compared(operator, number)


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
