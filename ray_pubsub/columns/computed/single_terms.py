"""The terms of an index by the attributes that they need: one event is asked only for the terms that can have a value for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ray_pubsub.language.terms import (
    Term,
    attributes_of_name,
    attributes_of_term,
    is_computed,
    name_uses_now,
    needed_by_term,
)

__all__ = ["SingleTerm", "SingleTerms", "own_attributes"]


class SingleTerm(NamedTuple):
    """A term with its number among the attributes."""

    number: int
    name: str
    term: Term
    needed: frozenset[str]
    """The attributes without which it is absent."""


class SingleTerms:
    """It only grows; one thread adds, others may look up."""

    def __init__(self) -> None:
        self.attributes: set[str] = set()
        """All attributes of the terms."""
        self.use_now = False
        self._tolerant: list[SingleTerm] = []
        """Those that may have a value whatever is absent."""
        self._by_attribute: dict[str, list[SingleTerm]] = {}
        """The others, each under one attribute that it needs."""

    def add(self, number: int, name: str, term: Term) -> None:
        found = SingleTerm(number, name, term, needed_by_term(term))
        self.attributes |= own_attributes(attributes_of_term(term))
        self.use_now = self.use_now or name_uses_now(name)
        terms = self._by_attribute.setdefault(min(found.needed), []) if found.needed else self._tolerant
        terms.append(found)

    def of(self, present: Iterable[str], unused: frozenset[int]) -> list[SingleTerm]:
        """Returns the terms that may have a value for an event with these attributes, in the order of their numbers."""
        found = self._tolerant.copy()
        for name in present:
            found += self._by_attribute.get(name, ())
        if unused:
            found = [term for term in found if term.number not in unused]
        found.sort()
        return found


def own_attributes(names: Iterable[str]) -> set[str]:
    """Returns the attributes of events that these names depend on."""
    found: set[str] = set()
    for name in names:
        found |= own_attributes(attributes_of_name(name)) if is_computed(name) else {name}
    return found
