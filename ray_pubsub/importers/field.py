"""Translates tests of one field of an event into our language."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.conditions import Condition, Test, any_of, negated
from ray_pubsub.language.functions.folding import simple_lower
from ray_pubsub.language.words import write_name

__all__ = ["Field", "constant", "literal_pattern"]

ESCAPE = "\\"
KINDS: dict[type, str] = {bool: "boolean", int: "number", float: "number", str: "string"}
NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


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


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and how it is compared."""

    name: str
    format: str
    """The format of the rules, for errors."""
    typed: bool = False
    """Whether a value of another kind than the test expects makes the test false, as an absent one does."""
    lists: bool = False
    """Whether the field may be a list, one element of which must pass the test."""

    function: str = ""
    """Of the field's value, what is compared: `hour`."""

    @property
    def text(self) -> str:
        name = write_name(self.name)
        return f"{self.function}({name})" if self.function else name

    def present(self) -> Condition:
        return Test((f"{self.text} is not null",), (f"{self.text} is null",))

    def among(self, values: Iterable[Any]) -> Condition:
        """Tests whether the field equals one of the values."""
        by_kind: dict[str, list[Any]] = {}
        for value in values:
            by_kind.setdefault(KINDS.get(type(value), ""), []).append(value)
        return any_of(self._among(kind, own) for kind, own in by_kind.items())

    def _among(self, kind: str, values: Sequence[Any]) -> Condition:
        written = [constant(value, self.format) for value in dict.fromkeys(values)]
        if len(written) == 1:
            holds, fails = f"{self.text} = {written[0]}", f"{self.text} != {written[0]}"
        else:
            listed = ", ".join(written)
            holds, fails = f"{self.text} in ({listed})", f"{self.text} not in ({listed})"
        of_list = f"list_has_any({self.text}, [{', '.join(written)}])"
        return self._test(kind, holds, fails, of_list)

    def among_folded(self, texts: Iterable[str]) -> Condition:
        """Tests whether the field equals one of these texts, ignoring case."""
        self._refuse_lists("comparisons without case")
        written = [constant(simple_lower(text), self.format) for text in texts]
        subject = f"lower({self.text})"
        if len(written) == 1:
            return self._test("string", f"{subject} = {written[0]}", f"{subject} != {written[0]}")
        listed = ", ".join(dict.fromkeys(written))
        return self._test("string", f"{subject} in ({listed})", f"{subject} not in ({listed})")

    def compared(self, operator: str, value: Any) -> Condition:
        """Tests `<`, `<=`, `>` or `>=` a constant; `value` may already be in our language, if it is a timestamp or a term."""
        text = value.text if isinstance(value, Written) else constant(value, self.format)
        kind = "timestamp" if isinstance(value, Written) else KINDS[type(value)]
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}[operator]
        of_list = f"{text} {turned} any({self.text})"
        return self._test(kind, f"{self.text} {operator} {text}", f"{self.text} {NEGATED[operator]} {text}", of_list)

    def like(self, pattern: str, *, fold: bool = False) -> Condition:
        """Tests a pattern with % and _, in which a backslash escapes."""
        self._refuse_lists("patterns")
        word = "ilike" if fold else "like"
        ending = f" escape '{ESCAPE}'" if ESCAPE in pattern else ""
        written = constant(pattern, self.format) + ending
        return self._test("string", f"{self.text} {word} {written}", f"{self.text} not {word} {written}")

    def matching(self, regexp: str) -> Condition:
        """Tests whether a regular expression matches somewhere in the field."""
        self._refuse_lists("regular expressions")
        written = constant(regexp, self.format)
        return self._test("string", f"{self.text} regexp {written}", f"{self.text} not regexp {written}")

    def in_network(self, networks: Sequence[Any]) -> Condition:
        """Tests whether an address lies in one of these networks. A text that is not an address lies in none."""
        self._refuse_lists("networks")
        for network in networks:
            try:
                ipaddress.ip_network(network, strict=False)
            except ValueError as error:
                raise RuleFormatError(self.format, f"{network!r} is no network: {error}") from None
        written = ", ".join(constant(str(ipaddress.ip_network(each, strict=False)), self.format) for each in networks)
        asked = f"ip_in({self.text}, {written})"
        # For a text that is not an address, ip_in is unknown, which counts as a failure as well.
        fails = f"case when {asked} then 1 else 0 end = 0"
        return Test((asked,), (fails,))

    def no_other(self, condition: Condition) -> Condition:
        """Tests that the field is present and the condition on it is false."""
        return negated(any_of([negated(self.present()), condition]))

    def _test(self, kind: str, holds: str, fails: str, of_list: str = "") -> Condition:
        failing = [f"{self.text} is null", fails]
        if self.typed:
            failing += self._of_other_kinds(kind)
        if not self.lists or not of_list:
            return Test((holds,), tuple(failing))
        return Test((holds, of_list), (*failing, f"not {of_list}" if " any(" not in of_list else f"not ({of_list})"))

    def _of_other_kinds(self, kind: str) -> list[str]:
        """Returns tests, each true of all values of one kind, so that together with the test they are one union of intervals."""
        others = {
            "number": (f"{self.text} < 0", f"{self.text} >= 0"),
            "string": (f"{self.text} < ''", f"{self.text} >= ''"),
            "boolean": (f"{self.text} in (true, false)",),
        }
        return [text for other, texts in others.items() if other != kind for text in texts]

    def _refuse_lists(self, what: str) -> None:
        if self.lists:
            raise RuleFormatError(self.format, f"{what} on elements of lists ({self.name}) cannot be expressed")


@dataclass(frozen=True, slots=True)
class Written:
    """A term in our language."""

    text: str
