"""The parts of which CESQL expressions consist, and the conversions between their types."""

from __future__ import annotations

import re
from typing import NamedTuple

from ray_pubsub.errors import RuleFormatError
from ray_pubsub.importers.field import constant

__all__ = ["CONVERSIONS", "Part", "as_number", "as_text", "converted"]

CONVERSIONS = ("INT", "BOOL", "STRING", "IS_INT", "IS_BOOL")


class Part(NamedTuple):
    """A parsed part: its text in our language, and whether it is a condition or a value."""

    text: str
    condition: bool
    binding: int = 9
    """The precedence: 0 or, 1 and, 2 not, 3 comparison, 4 sum, 5 product, 9 never needs parentheses."""
    attribute: bool = False
    literal: str | None = None
    """The content if it is a string literal."""

    def within(self, binding: int) -> str:
        return f"({self.text})" if self.binding < binding else self.text


def as_number(part: Part) -> Part:
    """Converts a condition to 1 or 0, where a number is needed."""
    if not part.condition:
        return part
    return Part(f"case when {part.text} then 1 when not {part.within(2)} then 0 end", False)


def as_text(part: Part) -> Part:
    """Converts a condition to 'true' or 'false', and a number to its digits, where a text is needed."""
    if not part.condition:
        return Part(f"'{part.text}'", False, literal=part.text) if re.fullmatch(WHOLE, part.text) else part
    if part.text in ("true", "false"):
        return Part(f"'{part.text}'", False, literal=part.text)
    return Part(f"case when {part.text} then 'true' when not {part.within(2)} then 'false' end", False)


def _is_convertible(name: str, part: Part) -> Part:
    """A value of the kind can be converted, and so can a text that is written like one."""
    if part.condition:
        return Part(str(name == "IS_BOOL").lower(), True)
    if part.literal is not None:
        pattern = "true|false" if name == "IS_BOOL" else INTEGER
        return Part(str(re.fullmatch(pattern, part.literal.lower()) is not None).lower(), True)
    if re.fullmatch(WHOLE, part.text):
        return Part(str(name == "IS_INT").lower(), True)
    subject = part.within(4)
    if name == "IS_BOOL":
        return Part(f"({subject} in (true, false) or lower({subject}) in ('true', 'false'))", True)
    return Part(f"({subject} % 1 = 0 or {subject} regexp '^[+-]?[0-9]+$')", True)


INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
WHOLE = re.compile("-?[0-9]{1,19}")


def converted(name: str, part: Part, format: str) -> Part:
    """Translates a conversion of a constant, or the question whether one is possible."""
    if name in ("IS_INT", "IS_BOOL"):
        return _is_convertible(name, part)
    plain: str | int | bool | None = part.literal
    if re.fullmatch(WHOLE, part.text):
        plain = int(part.text)
    elif part.text in ("true", "false"):
        plain = part.text == "true"
    if plain is None:
        raise RuleFormatError(format, f"{name} of what is no constant cannot be expressed")
    if name == "STRING":
        text = str(plain).lower() if isinstance(plain, bool) else str(plain)
        return Part(constant(text, format), False, literal=text)
    if name == "INT" and (not isinstance(plain, str) or INTEGER.fullmatch(plain)):
        return Part(str(int(plain)), False, 9 if int(plain) >= 0 else 6)
    if name == "BOOL" and (not isinstance(plain, str) or plain.lower() in ("true", "false")):
        return Part(str(plain.lower() == "true" if isinstance(plain, str) else bool(plain)).lower(), True)
    raise RuleFormatError(format, f"{name} of {plain!r} is an error in every event")
