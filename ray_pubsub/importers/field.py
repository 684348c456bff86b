"""Translates tests of one field of an event into our language."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, Test, all_of, any_of, negated, write
from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.terms import ELEMENT
from ray_pubsub.language.words import write_name

__all__ = ["Field", "Written", "constant", "decided", "elements", "literal_pattern"]

ESCAPE = "\\"
KINDS: dict[type, str] = {bool: "boolean", int: "number", float: "number", str: "string"}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constant(value: Any, format: str) -> str:
    """Writes a JSON value as a constant of an expression."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value) if value == value and abs(value) != float("inf") else _refuse(format, value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return _refuse(format, value)


def _refuse(format: str, value: Any) -> str:
    raise RuleFormatError(format, f"{value!r} is no text, number or boolean")


def literal_pattern(text: str) -> str:
    """Escapes a text for use in a `like` pattern."""
    return text.replace(ESCAPE, ESCAPE * 2).replace("%", ESCAPE + "%").replace("_", ESCAPE + "_")


def elements(name: str, condition: Condition) -> Condition:
    """Tests whether a field is a list of which one element satisfies a condition."""
    subject = write_name(name)
    asked = f"exists({subject}, {write(condition)})"
    return Test((asked,), (f"{subject} is null", *_of_other_kinds(subject, "list"), f"not {asked}"))


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and how it is compared. A value of another kind than a test expects makes the test false, as an absent one does."""

    name: str
    format: str
    """The format of the rules, for errors."""
    lists: bool = False
    """Whether the field may be a list, one element of which must pass the test."""
    alone: bool = False
    """Whether only a value that is no list counts as present, because the elements of lists are tested beside it."""
    function: str = ""
    """Of the field's value, what is compared: `hour`."""

    @property
    def text(self) -> str:
        return self._subject(write_name(self.name))

    def _subject(self, name: str) -> str:
        return f"{self.function}({name})" if self.function else name

    def present(self, *, objects: bool = False) -> Condition:
        """Tests that the field has a value. A list has one if an element has. `objects`: an element that is an object is a value, too."""
        if self.alone:
            return Test(tuple(_of_other_kinds(self.text, "list")), (f"{self.text} is null", _is_list(self.text)))
        if not self.lists:
            return Test((f"{self.text} is not null",), (f"{self.text} is null",))
        asked = f"exists({self.text}, {'true' if objects else f'{ELEMENT} is not null'})"
        return Test((*_of_other_kinds(self.text, "list"), asked), (f"{self.text} is null", f"not {asked}"))

    def each(self, test: Callable[[Field], Condition]) -> Condition:
        """Tests the value; or if it is a list, whether the test holds of one of its elements. Its negation holds if it does of none."""
        if not self.lists:
            return test(self)
        return any_of(
            [
                test(replace(self, lists=False, alone=True)),
                elements(self.name, test(replace(self, name=ELEMENT, lists=False))),
            ]
        )

    def among(self, values: Iterable[Any]) -> Condition:
        """Tests whether the field equals one of the values."""
        by_kind: dict[str, list[Any]] = {}
        for value in values:
            by_kind.setdefault(KINDS.get(type(value), ""), []).append(value)
        return any_of(self._among(kind, own) for kind, own in by_kind.items())

    def _among(self, kind: str, values: Sequence[Any]) -> Condition:
        written = list(dict.fromkeys(constant(value, self.format) for value in values))
        of_list = "" if self.function else f"list_has_any({self.text}, [{', '.join(written)}])"
        return self._one_of(kind, written, str, of_list)

    def among_folded(self, texts: Iterable[str]) -> Condition:
        """Tests whether the field equals one of these texts, ignoring case."""
        written = list(dict.fromkeys(constant(simple_lower(text), self.format) for text in texts))
        return self._one_of("string", written, lambda subject: f"lower({subject})")

    def _one_of(self, kind: str, written: Sequence[str], term: Callable[[str], str], of_list: str = "") -> Condition:
        if len(written) == 1:
            sign, other, wanted = "=", "!=", written[0]
        else:
            sign, other, wanted = "in", "not in", f"({', '.join(written)})"
        return self._test(
            kind,
            lambda subject: f"{term(subject)} {sign} {wanted}",
            lambda subject: f"{term(subject)} {other} {wanted}",
            of_list,
        )

    def compared(self, operator: str, value: Any) -> Condition:
        """Tests `<`, `<=`, `>` or `>=` a constant; `value` may already be in our language, if it is a timestamp or a term."""
        text, kind = self._bound(value)
        of_list = "" if self.function else f"{text} {TURNED[operator]} any({self.text})"
        return self._test(
            kind,
            lambda subject: f"{subject} {operator} {text}",
            lambda subject: f"{subject} {NEGATED[operator]} {text}",
            of_list,
        )

    def between(self, bounds: Sequence[tuple[str, Any]]) -> Condition:
        """Tests several bounds, of which one element of a list must satisfy all."""
        if not self.lists or len(bounds) == 1:
            return all_of(self.compared(operator, value) for operator, value in bounds)
        return self.each(lambda field: all_of(field.compared(operator, value) for operator, value in bounds))

    def _bound(self, value: Any) -> tuple[str, str]:
        """Returns a bound in our language, and its kind."""
        return (
            (value.text, "timestamp")
            if isinstance(value, Written)
            else (constant(value, self.format), KINDS[type(value)])
        )

    def like(self, pattern: str, *, fold: bool = False) -> Condition:
        """Tests a pattern with % and _, in which a backslash escapes."""
        word = "ilike" if fold else "like"
        ending = f" escape '{ESCAPE}'" if ESCAPE in pattern else ""
        return self._matching(word, constant(pattern, self.format) + ending)

    def matching(self, regexp: str) -> Condition:
        """Tests whether a regular expression matches somewhere in the field."""
        return self._matching("regexp", constant(regexp, self.format))

    def _matching(self, word: str, written: str) -> Condition:
        return self._test(
            "string", lambda subject: f"{subject} {word} {written}", lambda subject: f"{subject} not {word} {written}"
        )

    def in_network(self, networks: Sequence[Any]) -> Condition:
        """Tests whether an address lies in one of these networks. A text that is not an address lies in none."""
        for network in networks:
            try:
                ipaddress.ip_network(network, strict=False)
            except ValueError as error:
                raise RuleFormatError(self.format, f"{network!r} is no network: {error}") from None
        written = ", ".join(constant(str(ipaddress.ip_network(each, strict=False)), self.format) for each in networks)
        asked = [f"ip_in({self.text}, {written})"]
        if self.lists:
            asked.append(f"exists({self.text}, ip_in({ELEMENT}, {written}))")
        return decided(asked)

    def no_other(self, condition: Condition) -> Condition:
        """Tests that the field is present and the condition on it is false."""
        return negated(any_of([negated(self.present()), condition]))

    def _test(
        self, kind: str, holds: Callable[[str], str], fails: Callable[[str], str], of_list: str = ""
    ) -> Condition:
        """Returns a test of a kind of values. `holds` and `fails` write it for what they are given; `of_list` is the test of one element of
        a list, if there is a better one than `exists`."""
        failing = [f"{self.text} is null", fails(self.text)]
        if not self.function:
            failing += _of_other_kinds(self.text, kind)
        if not self.lists:
            if self.alone:  # only then: rules without functions are added many times as fast
                failing.append(_is_list(self.text))
            return Test((holds(self.text),), tuple(failing))
        found = of_list or f"exists({write_name(self.name)}, {holds(self._subject(ELEMENT))})"
        denied = f"not ({found})" if " any(" in found else f"not {found}"
        return Test((holds(self.text), found), (*failing, denied))


def decided(asked: Sequence[str]) -> Condition:
    """Returns a test that holds if one of these texts is true, and fails if they are false or unknown."""
    return Test(tuple(asked), (f"case when {' or '.join(asked)} then 1 else 0 end = 0",))


EPOCH = "timestamp '1970-01-01'"


def _of_other_kinds(subject: str, kind: str) -> list[str]:
    """Returns tests, each true of all scalars of one kind, so that together with a test of the kind they are one union of intervals."""
    others = {
        "number": (f"{subject} < 0", f"{subject} >= 0"),
        "string": (f"{subject} < ''", f"{subject} >= ''"),
        "boolean": (f"{subject} in (true, false)",),
        "timestamp": (f"{subject} < {EPOCH}", f"{subject} >= {EPOCH}"),
    }
    return [text for other, texts in others.items() if other != kind for text in texts]


def _is_list(subject: str) -> str:
    """Returns a test that is true of every list, and unknown of everything else."""
    return f"not list_has_any({subject}, [])"


@dataclass(frozen=True, slots=True)
class Written:
    """A term in our language."""

    text: str
