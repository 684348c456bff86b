"""Translates the values of Sigma's detections and their modifiers: `CommandLine|contains|all: [...]`."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, all_of, any_of, negated
from ray_pubsub.importers.field import Field, decided, literal_pattern
from ray_pubsub.importers.lists import Lists
from ray_pubsub.importers.number_texts import number_in
from ray_pubsub.language.words import write_name

__all__ = ["FORMAT", "Options", "Placeholders", "field_test", "text_test"]

FORMAT = "Sigma"
BOUNDS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
ENCODINGS = {"wide": "utf-16-le", "utf16le": "utf-16-le", "utf16be": "utf-16-be", "utf16": "utf-16"}
PLACES = {"contains", "startswith", "endswith"}
FLAGS = {"i": "i", "ignorecase": "i", "m": "m", "multiline": "m", "s": "s", "dotall": "s"}
TIMES = {"minute", "hour", "day", "week", "month", "year"}
KNOWN = {
    *{"all", "cased", "re", "cidr", "exists", "windash", "base64", "base64offset", "fieldref", "neq"},
    *PLACES, *ENCODINGS, *BOUNDS, *FLAGS, *TIMES,
}  # fmt: skip
Placeholders = Mapping[str, str | Sequence[str]]
EXPANDED = re.compile(r"(?P<backslash>\\\\)|(?P<percent>\\%)|%(?P<name>\w+)%|(?P<other>.)", re.DOTALL)
MOST_EXPANDED = 10_000


class Options(NamedTuple):
    """What the caller of an import says about events and rules."""

    lists: Lists
    placeholders: Placeholders


DASHES = ("-", "/", "\u2013", "\u2014", "\u2015")
DASH = re.compile(r"\B[-/]\b")
MOST_DASHES = 3
"""The most dashes in one value; each has five forms, and the combinations are multiplied out."""
PART = re.compile(r"\\([*?\\])|(\*)|(\?)|(.)", re.DOTALL)


def field_test(name: str, modifiers: Sequence[str], given: Any, options: Options) -> Condition:
    """Translates the test of a field with modifiers and its value or values."""
    if "expand" in modifiers:
        given = [each for value in _listed(given) for each in _expanded(name, value, options.placeholders)]
        modifiers = [modifier for modifier in modifiers if modifier != "expand"]
    return options.lists.tested(name, FORMAT, partial(_field_test, modifiers=modifiers, given=given))


def _field_test(field: Field, modifiers: Sequence[str], given: Any) -> Condition:
    name = field.name
    unknown = [modifier for modifier in modifiers if modifier not in KNOWN]
    if unknown:
        raise RuleFormatError(FORMAT, f"the modifier {unknown[0]!r} of {name} cannot be expressed")
    has = set(modifiers)
    values = _listed(given)
    if not values:
        raise RuleFormatError(FORMAT, f"{name} has no values")
    if has & TIMES:
        found = _time_test(field, has, values)
        return negated(found) if "neq" in has else found
    if "exists" in has:
        if not isinstance(given, bool):
            raise RuleFormatError(FORMAT, f"{name}|exists is true or false, not {given!r}")
        present = field.present(objects=True)
        return present if given else negated(present)
    if "cidr" in has and "all" not in has:
        return field.in_network(values)
    tests = [_value_test(field, has, value) for value in values]
    if has <= {"cased"} and not any(_has_wildcards(value) for value in values):
        tests = [_equal(field, values, "cased" in has)]
    found = all_of(tests) if "all" in has else any_of(tests)
    return negated(found) if "neq" in has else found


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


def _expanded(name: str, value: Any, placeholders: Placeholders) -> list[str]:
    """Returns the values that %placeholders% in a value stand for."""
    if not isinstance(value, str):
        raise RuleFormatError(FORMAT, f"{name}|expand is a text, not {value!r}")
    parts: list[list[str]] = []
    for part in EXPANDED.finditer(value):
        placeholder = part["name"]
        if placeholder is None:
            parts.append(["%" if part["percent"] else part[0]])
        elif placeholder in placeholders:
            parts.append(list(map(str, _listed(placeholders[placeholder]))))
        else:
            raise RuleFormatError(FORMAT, f"{name}|expand: give the values of %{placeholder}% in placeholders=")
    if prod(map(len, parts)) > MOST_EXPANDED:
        raise RuleFormatError(FORMAT, f"{name}|expand: {value!r} stands for more than {MOST_EXPANDED} values")
    return ["".join(each) for each in product(*parts)]


def text_test(field: Field, text: Any) -> Condition:
    """Translates a keyword: a text anywhere in a field."""
    return field.like("%" + "".join(_pattern(str(text))) + "%", fold=True)


def _time_test(field: Field, has: set[str], values: Sequence[Any]) -> Condition:
    """`at|hour|gte: 22`: a part of a timestamp is a number."""
    name = field.name
    units, others = has & TIMES, has - TIMES - {*BOUNDS, "neq"}
    if len(units) > 1 or others or not all(type(value) is int for value in values):
        raise RuleFormatError(FORMAT, f"{name}|{'|'.join(sorted(has))} takes whole numbers, and no other modifier")
    field = replace(field, function=units.pop())
    bound = next((BOUNDS[each] for each in has if each in BOUNDS), None)
    return field.among(values) if bound is None else any_of(field.compared(bound, value) for value in values)


def _value_test(field: Field, has: set[str], value: Any) -> Condition:
    bound = next((BOUNDS[each] for each in has if each in BOUNDS), None)
    if bound is not None:
        if type(value) not in (int, float):
            raise RuleFormatError(FORMAT, f"{field.name}: {bound} compares numbers, not {value!r}")
        return field.compared(bound, value)
    if "re" in has:
        if not isinstance(value, str):
            raise RuleFormatError(FORMAT, f"{field.name}|re is a text, not {value!r}")
        flags = "".join(sorted({FLAGS[each] for each in has if each in FLAGS}))
        return field.matching(f"(?{flags}){value}" if flags else value)
    if "cidr" in has:
        return field.in_network([value])
    if "fieldref" in has:
        if not isinstance(value, str):
            raise RuleFormatError(FORMAT, f"{field.name}|fieldref names a field, not {value!r}")
        return _compared(field.text, write_name(value), has)
    if value is None:
        return negated(field.present(objects=True))
    if not isinstance(value, str) and not has & (PLACES | {"base64", "base64offset", *ENCODINGS}):
        return _equal(field, [value], cased=True)
    texts = _encoded(field, has, value) if has & {"base64", "base64offset", *ENCODINGS} else [str(value)]
    forms = [form for text in texts for form in (_windash(field, text) if "windash" in has else [text])]
    before = "%" if has & {"contains", "endswith", "base64offset"} else ""
    after = "%" if has & {"contains", "startswith", "base64offset"} else ""
    return any_of(_text(field, form, before, after, "cased" in has) for form in forms)


def _text(field: Field, text: str, before: str, after: str, cased: bool) -> Condition:
    if set(text) == {"*"}:  # any value, also a number
        return field.present(objects=True)
    if not before and not after and not _has_wildcards(text):
        return _equal(field, [text], cased)
    return field.like(before + "".join(_pattern(text)) + after, fold=not cased)


def _equal(field: Field, values: Sequence[Any], cased: bool) -> Condition:
    """Tests equality with one of some values without wildcards. A number matches in both forms, because logs contain 4688 as well as
    "4688"."""
    parts: list[Condition] = []
    texts = [_literal(value) for value in values if isinstance(value, str)]
    others = [value for value in values if value is not None and not isinstance(value, str)]
    written = [] if cased else [known for text in texts if (known := _read(text)) is not None]
    if texts:
        parts.append(field.among(texts) if cased else field.among_folded(texts))
    if others:
        parts.append(field.among([*others, *(_written(value) for value in others)]))
    if written:
        parts.append(field.among(written))
    if None in values:
        parts.append(negated(field.present(objects=True)))
    return any_of(parts)


def _read(text: str) -> bool | int | float | None:
    """Returns the number or boolean that a text of a rule may be in an event: rules have 'true' in quotes where events have true."""
    number = number_in(text)
    if number is not None and repr(number) == text:
        return number
    return {"true": True, "false": False}.get(text.lower())


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _compared(one: str, other: str, has: set[str]) -> Condition:
    """Compares two fields; neither may be a list, because an element is not compared with another field of the event."""
    texts = (one, other) if "cased" in has else (f"lower({one})", f"lower({other})")
    functions = [REFERENCES[place] for place in PLACES if place in has]
    if functions:
        return decided([f"{function}({texts[0]}, {texts[1]})" for function in functions])
    return decided([f"{one} = {other}"] if "cased" in has else [f"{texts[0]} = {texts[1]}", f"{one} = {other}"])


REFERENCES = {"contains": "contains", "startswith": "starts_with", "endswith": "ends_with"}


def _has_wildcards(value: Any) -> bool:
    return isinstance(value, str) and any(star or question for _, star, question, _ in PART.findall(value))


def _literal(text: str) -> str:
    """Without the backslashes that stand before *, ? and \\."""
    return "".join(escaped or other for escaped, _, _, other in PART.findall(text))


def _pattern(text: str) -> Iterator[str]:
    """Converts a value to a `like` pattern."""
    for escaped, star, question, other in PART.findall(text):
        yield "%" if star else "_" if question else literal_pattern(escaped or other)


def _windash(field: Field, text: str) -> list[str]:
    """Returns the text with each of the characters that Windows accepts as the dash before an option."""
    pieces = DASH.split(text)
    if len(pieces) - 1 > MOST_DASHES:
        raise RuleFormatError(FORMAT, f"{field.name}|windash: more than {MOST_DASHES} dashes in {text!r}")
    return [
        "".join(piece + dash for piece, dash in zip(pieces, (*dashes, ""), strict=True))
        for dashes in product(DASHES, repeat=len(pieces) - 1)
    ]


def _encoded(field: Field, has: set[str], value: Any) -> list[str]:
    text = str(value)
    if _has_wildcards(text):
        raise RuleFormatError(FORMAT, f"{field.name}: wildcards in {text!r} cannot be encoded")
    encoding = next((ENCODINGS[each] for each in has if each in ENCODINGS), "utf-8")
    content = _literal(text).encode(encoding)
    if "base64offset" in has:
        # Wherever the content begins in what was encoded, without the characters that its neighbours have a part in.
        return [
            base64.b64encode(b" " * offset + content)[
                (0, 2, 3)[offset] : (None, -3, -2)[(len(content) + offset) % 3]
            ].decode()
            for offset in range(3)
        ]
    if "base64" in has:
        return [base64.b64encode(content).decode()]
    return [content.decode("latin-1")]
