"""Assigns numbers to the attributes, string operands and patterns that an index's subscriptions use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ray_pubsub.language.terms import COMPUTED, Term, attributes_of_term, flag_subjects, is_computed, term_of
from ray_pubsub.model.attribute_tree import AttributeTree

__all__ = ["AttributeNames", "Names", "Vocabulary"]


class Names:
    """Maps texts to numbers and back. It only grows, so readers may look up while one writer adds."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {}
        self.texts: list[str] = []

    def __len__(self) -> int:
        return len(self.texts)

    def number(self, text: str) -> int:
        """Returns the number of a text, adding the text if it is new."""
        number = self._number.get(text)
        if number is None:
            number = len(self.texts)
            self.texts.append(text)  # before the number can be found
            self._number[text] = number
        return number

    def numbers(self, texts: Iterable[str]) -> list[int]:
        """Returns the numbers of texts, without a call for each."""
        texts, known = list(texts), self._number
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        first = len(self.texts)
        self.texts += fresh  # before the numbers can be found
        known.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        return list(map(known.__getitem__, texts))

    def numbers_of_distinct(self, texts: list[str]) -> list[int]:
        """Returns the numbers of texts that are all different. It takes half the time of `numbers`, which matters where a lock is held."""
        found: list[Any] = list(map(self._number.get, texts))
        if None not in found:
            return found
        fresh = [text for text, number in zip(texts, found, strict=True) if number is None]
        first = len(self.texts)
        self.texts += fresh  # before the numbers can be found
        self._number.update(zip(fresh, range(first, first + len(fresh)), strict=True))
        if len(fresh) == len(texts):
            return list(range(first, first + len(fresh)))
        new = iter(range(first, first + len(fresh)))
        return [next(new) if number is None else number for number in found]

    def find(self, text: str) -> int:
        """Returns the number, or -1 if no subscription uses the text."""
        return self._number.get(text, -1)


class AttributeNames(Names):
    """The attributes that subscriptions test, and therefore those that are read from events."""

    def __init__(self) -> None:
        super().__init__()
        self.tree = AttributeTree()
        """What must be read from events; for a computed attribute, the attributes that it depends on."""
        self.computed: list[int] = []
        """The numbers of computed attributes; only grows."""
        self.flags: list[int] = []
        """Those of `computed` that are flags (language/lowering.py); only grows."""
        self.terms: dict[int, Term] = {}
        """The terms of computed attributes, until columns/computed/evaluator.py takes them over."""
        self._flagged: set[tuple[str, ...]] = set()
        """The attributes of flags that `tree` already has."""

    def numbers(self, texts: Iterable[str]) -> list[int]:
        return [self.number(text) for text in texts]

    def number(self, text: str, term: Term | None = None) -> int:
        """Returns the number of a name, adding it if it is new. `term`: the term of a computed name, if the caller has it; parsing it
        from the name takes half a millisecond."""
        if text in self._number:
            return self._number[text]
        if not is_computed(text):
            self.tree.add(text)
            return super().number(text)
        term = term_of(text) if term is None else term
        flagged = (
            None if text.startswith(f"{COMPUTED}(") else flag_subjects(term)
        )  # a term in parentheses is the answer itself, not a flag
        if flagged is None or flagged not in self._flagged:  # many flags are on the same attributes
            for name in sorted(attributes_of_term(term)):
                self.tree.add(name)
        number = super().number(text)
        self.terms[number] = term
        if flagged is not None:
            self._flagged.add(flagged)
            self.flags.append(number)
        self.computed.append(number)
        return number


class Vocabulary:
    """The names of one index."""

    def __init__(self) -> None:
        self.attributes = AttributeNames()
        self.strings = Names()
        self.layouts: dict[Any, Any] = {}
        """Cache of index/tail.py: the numbers of a layout of events."""
