"""Numbers for names: every attribute, string operand and pattern that an index's subscriptions use has one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["Names", "Vocabulary"]


class Names:
    """Text ↔ number. Only grows, so a reader may look up while one writer adds."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self.texts: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """The number of a text, given now if it is new."""
        number = self._number.get(text)
        if number is None:
            number = len(self.texts)
            self.texts.append(text)  # before the number can be found
            self._number[text] = number
        return number

    def numbers(self, texts: Iterable[str]) -> list[int]:
        return [self.number(text) for text in texts]

    def find(self, text: str) -> int:
        """The number, -1 if no subscription uses the text."""
        return self._number.get(text, -1)


class Vocabulary:
    """The names of one index."""

    def __init__(self) -> None:
        self.attributes = Names()
        self.strings = Names()
        self.layouts: dict[Any, Any] = {}
        """A place for index/tail.py to remember the numbers of a layout of events."""
