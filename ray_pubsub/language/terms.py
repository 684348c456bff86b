"""Terms: what a predicate may test instead of an attribute, such as `lower(name)`, `price * quantity`, or `a < b` as a value.

A predicate names what it tests by a string. For an attribute this is its name; for a term it is COMPUTED followed by the term's canonical
text, so two subscriptions that write the same term in different ways test the same name. Such a name is a computed attribute: an index
numbers it, evaluates it once per batch and codes it like any other attribute. Everything below the language therefore handles terms
without knowing about them; code that needs the structure calls `term_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ray_pubsub.language.tree import BooleanAttribute, Constant, Holds, Operand, Tree, leaves
from ray_pubsub.model.values import Kind

__all__ = [
    "COMPUTED",
    "ELEMENT",
    "NOW",
    "Attribute",
    "Call",
    "Condition",
    "Listed",
    "Term",
    "as_value",
    "attributes_of",
    "attributes_of_leaf",
    "attributes_of_name",
    "attributes_of_term",
    "flag_subjects",
    "is_computed",
    "is_flag_term",
    "measured",
    "name_uses_now",
    "needed_by_name",
    "needed_by_term",
    "parts_of",
    "term_of",
    "uses_now",
]

COMPUTED = "\0"
"""The first character of a computed attribute's name. The parser refuses attributes whose names begin with it."""
NOW = COMPUTED + "now()"
"""The name under which an event's values contain now(): every event of a batch has the same value."""

ELEMENT = "element"
"""In the condition of `exists`, the name of an element that is no object. An object's own attribute may be called the same."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute where a value may stand."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function or operator and what it is applied to."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition used as a value: true, false, or null where it is unknown."""

    tree: Tree


@dataclass(frozen=True, slots=True)
class Listed:
    """A list written out: `['a', 'b']`. It stands only where a function takes a list of constants."""

    members: tuple[Operand, ...]


Term = Attribute | Operand | Call | Condition | Listed


def as_value(tree: Tree) -> Term:
    """Converts a condition to a value. The result is the same term that its text would give: a constant if it needs no event, and
    list_contains for `x = any(list)`."""
    if isinstance(tree, Constant):
        return Operand(None if tree.truth is None else Kind.BOOLEAN, tree.truth)
    if isinstance(tree, BooleanAttribute) and tree.attribute.startswith(COMPUTED + "list_contains("):
        term = term_of(tree.attribute)
        return term if isinstance(term, Call) and term.function == "list_contains" else Condition(tree)
    return Condition(tree)


def is_computed(name: str) -> bool:
    """Returns whether a predicate on this name tests a term, not an attribute."""
    return name.startswith(COMPUTED)


def is_flag_term(term: Term) -> bool:
    """Returns whether the term is a flag: true of an event or absent from it (language/lowering.py)."""
    return isinstance(term, Condition) and isinstance(term.tree, Holds)


def flag_subjects(term: Term) -> tuple[str, ...] | None:
    """Returns the attributes that a flag is on; None if the term is not a flag."""
    return term.tree.attributes if isinstance(term, Condition) and isinstance(term.tree, Holds) else None


@lru_cache(maxsize=65_536)
def term_of(name: str) -> Term:
    """Returns the term that a predicate's name stands for."""
    if not is_computed(name):
        return Attribute(name)
    from ray_pubsub.language.parser import parse_term  # the parser builds trees, and trees name terms

    return parse_term(name.removeprefix(COMPUTED))


@lru_cache(maxsize=65_536)
def attributes_of_name(name: str) -> frozenset[str]:
    """Returns the attributes of an event that a predicate on this name depends on."""
    if not is_computed(name):
        return frozenset([name])
    return attributes_of_term(term_of(name))


def attributes_of_term(term: Term) -> frozenset[str]:
    """Returns the attributes of an event that a term depends on."""
    return frozenset(attribute for part in parts_of(term) for attribute in _own_attributes(part))


TOLERANT = {"coalesce", "least", "greatest", "concat", "case"}
"""Functions that may have a value even if an argument is absent."""


@lru_cache(maxsize=65_536)
def needed_by_name(name: str) -> frozenset[str]:
    """Returns the attributes without which the tested value is absent."""
    return needed_by_term(term_of(name))


def needed_by_term(term: Term) -> frozenset[str]:
    """Returns the attributes without which a term has no value."""
    if isinstance(term, Attribute):
        return needed_by_name(term.name) if is_computed(term.name) else frozenset([term.name])
    if isinstance(term, Call) and term.function not in TOLERANT:
        return frozenset().union(*map(needed_by_term, term.arguments))
    return frozenset()


def attributes_of_leaf(leaf: Tree) -> frozenset[str]:
    """Returns the attributes of an event that one predicate depends on."""
    if isinstance(leaf, Constant):
        return frozenset()
    if isinstance(leaf, Holds):
        return frozenset().union(*map(attributes_of_name, leaf.attributes))
    return attributes_of_name(leaf.attribute)  # type: ignore[union-attr]


def attributes_of(tree: Tree) -> set[str]:
    """Returns the attributes of an event that an expression depends on."""
    return {name for leaf in leaves(tree) for name in attributes_of_leaf(leaf)}


@lru_cache(maxsize=65_536)
def name_uses_now(name: str) -> bool:
    """Returns whether what a predicate on this name tests depends on the current time."""
    if not is_computed(name):
        return False
    for part in parts_of(term_of(name)):
        if isinstance(part, Call) and part.function == "now":
            return True
        if isinstance(part, Attribute) and name_uses_now(part.name):
            return True
        if isinstance(part, Condition) and uses_now(part.tree):
            return True
    return False


def uses_now(tree: Tree) -> bool:
    """Returns whether an expression depends on the current time, including its conditions on elements."""
    for leaf in leaves(tree):
        if isinstance(leaf, Holds):
            if any(map(name_uses_now, leaf.attributes)) or (leaf.condition is not None and uses_now(leaf.condition)):
                return True
        elif not isinstance(leaf, Constant) and name_uses_now(leaf.attribute):
            return True
    return False


def parts_of(term: Term) -> Iterator[Term]:
    """Yields the term and all terms inside it; a condition is one part."""
    stack = [term]
    while stack:
        part = stack.pop()
        yield part
        if isinstance(part, Call):
            stack.extend(part.arguments)


def measured(term: Call) -> tuple[int, int]:
    """Returns how many parts a term has, and how deep calls are nested in it."""
    size = depth = 0
    for argument in term.arguments:
        if isinstance(argument, Call):
            parts, levels = measured(argument)
            size += parts
            depth = max(depth, levels)
        else:
            size += 1
    return size + 1, depth + 1


def _own_attributes(part: Term) -> set[str]:
    if isinstance(part, Attribute):
        return {part.name}
    return attributes_of(part.tree) if isinstance(part, Condition) else set()
