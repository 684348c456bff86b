"""Converts a tree to the normal form that an index can store.

1. Negation is pushed to the leaves, which is sound in three-valued logic. There a leaf becomes the set of values for which it is TRUE
(value_set.py); unknown and false no longer differ, so only plain `and` and `or` remain.
2. Tests of one attribute under one `and` or `or` become one set, so `x != 1 and x not in (2, 3)` is a single test. Empty sets are removed
(a contradiction never matches), and so are full ones.
3. Conjunctions are multiplied out (DNF). If that would give more than `Limits.clauses` of them, and more than the text has leaves, the
expression is stored as a conjunction of disjunctions instead (CNF; OpIndex §6.1). Neither form can grow exponentially.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from ray_pubsub.language.lowering import lowered
from ray_pubsub.language.tree import (
    And,
    BooleanAttribute,
    Comparison,
    Constant,
    Holds,
    IsNull,
    Not,
    Operand,
    Or,
    Tree,
    conjunction,
    disjunction,
    leaves,
)
from ray_pubsub.language.truth import Event, truth, value_of
from ray_pubsub.language.value_set import (
    ANYTHING,
    EVERYTHING,
    Interval,
    ValueSet,
    intersection,
    intervals,
    leaf_value_set,
    union,
)
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["MIDDLE", "AllOf", "AnyOf", "Clause", "NormalForm", "Test", "normalize"]


@dataclass(frozen=True, slots=True)
class Test:
    """A test: the attribute's value (or absence) is in the set."""

    attribute: str
    allowed: ValueSet


@dataclass(frozen=True, slots=True)
class AllOf:
    """All members hold; none is an AllOf, and no attribute is tested by two of them. No members: always."""

    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of the members holds; none is an AnyOf. No members: never."""

    members: tuple[Node, ...]


Node = Test | AllOf | AnyOf
ALWAYS, NEVER = AllOf(()), AnyOf(())

Clause = tuple[Test, ...]
"""A conjunction of tests on different attributes, in the order of their names."""


@dataclass(frozen=True, slots=True)
class NormalForm:
    """Either `clauses` (a disjunction of conjunctions) or, if that was too large, `disjunctions` (a conjunction of AnyOf)."""

    clauses: tuple[Clause, ...] | None
    disjunctions: tuple[AnyOf, ...] | None = None

    def node(self) -> Node:
        if self.clauses is not None:
            return AnyOf(tuple(AllOf(clause) for clause in self.clauses))
        assert self.disjunctions is not None
        return AllOf(self.disjunctions)

    def holds(self, event: Event) -> bool:
        return _holds(self.node(), event)

    def tree(self) -> Tree:
        """Returns the normal form as an expression again."""
        return _tree_of(self.node())


def normalize(tree: Tree, limits: Limits) -> NormalForm:
    """Returns the normal form of an expression."""
    node = _positive(tree, False)
    bound = max(limits.clauses, sum(1 for _ in leaves(tree)))
    clauses = _clauses(node, bound)
    if clauses is not None:
        return NormalForm(tuple(dict.fromkeys(clauses)))
    return NormalForm(None, tuple(_disjunctions(node, bound)))


def _positive(tree: Tree, negated: bool) -> Node:
    """Performs steps 1 and 2: no negation, one test per attribute and level, no constants."""
    match tree:
        case Not(child):
            return _positive(child, not negated)
        case And(children) | Or(children):
            members = [_positive(child, negated) for child in children]
            return _all_of(members) if isinstance(tree, And) != negated else _any_of(members)
        case Constant(answer):
            return NEVER if answer is None else (ALWAYS if answer != negated else NEVER)
        case Holds():
            return _positive(lowered(tree, negated), False)
        case _:
            return _test(tree.attribute, leaf_value_set(tree, negated))


def _test(attribute: str, allowed: ValueSet) -> Node:
    if allowed.is_empty:
        return NEVER
    return ALWAYS if allowed == ANYTHING else Test(attribute, allowed)


def _all_of(members: Iterable[Node]) -> Node:
    tests: dict[str, list[ValueSet]] = {}
    others: dict[Node, None] = {}
    for member in _flattened(members, AllOf):
        if member == NEVER:
            return NEVER
        if isinstance(member, Test):
            tests.setdefault(member.attribute, []).append(member.allowed)
        else:
            others[member] = None
    kept: list[Node] = []
    for attribute, sets in sorted(tests.items(), key=_name):
        allowed = intersection(sets)
        if allowed.is_empty:
            return NEVER
        kept.append(Test(attribute, allowed))
    kept += others
    return kept[0] if len(kept) == 1 else AllOf(tuple(kept))


def _any_of(members: Iterable[Node]) -> Node:
    tests: dict[str, list[ValueSet]] = {}
    others: dict[Node, None] = {}
    for member in _flattened(members, AnyOf):
        if member == ALWAYS:
            return ALWAYS
        if isinstance(member, Test) and not member.allowed.patterns:
            tests.setdefault(member.attribute, []).append(member.allowed)
        else:
            others[member] = None  # a test with a pattern also remains a member of its own
    kept: list[Node] = []
    for attribute, sets in sorted(tests.items(), key=_name):
        allowed = union(sets)
        if allowed == ANYTHING:
            return ALWAYS
        kept.append(Test(attribute, allowed))
    kept += others
    return kept[0] if len(kept) == 1 else AnyOf(tuple(kept))


def _flattened(members: Iterable[Node], kind: type[AllOf] | type[AnyOf]) -> Iterator[Node]:
    for member in members:
        if isinstance(member, kind):
            yield from member.members
        else:
            yield member


def _name(item: tuple[str, Any]) -> str:
    return item[0]


def _clauses(node: Node, bound: int) -> list[Clause] | None:
    """Returns the conjunctions of a node; None if there are more than `bound`."""
    if isinstance(node, Test):
        return [(node,)]
    if isinstance(node, AnyOf):
        found: dict[Clause, None] = {}
        for member in node.members:
            part = _clauses(member, bound)
            if part is None:
                return None
            found.update(dict.fromkeys(part))
            if len(found) > bound:
                return None
        return list(found)
    product: list[Clause] = [tuple(member for member in node.members if isinstance(member, Test))]
    parts = [_clauses(member, bound) for member in node.members if not isinstance(member, Test)]
    if prod(len(part or ()) for part in parts) > bound * bound:  # the attempt would take long
        return None
    for part in parts:
        if part is None or len(product) * len(part) > 4 * bound:  # some of the product may vanish, but not most of it
            return None
        joined = (_joined(left, right) for left in product for right in part)
        product = list(dict.fromkeys(clause for clause in joined if clause is not None))
        if len(product) > bound:
            return None
    return product


def _joined(left: Clause, right: Clause) -> Clause | None:
    """Returns the conjunction of both clauses; None if they contradict each other."""
    node = _all_of([*left, *right])
    if node == NEVER:
        return None
    return (node,) if isinstance(node, Test) else tuple(node.members)  # type: ignore[arg-type]


def _disjunctions(node: Node, bound: int) -> list[AnyOf]:
    """Returns a conjunction of disjunctions, multiplied out as far as `bound` allows; the rest is nested inside a member."""
    if isinstance(node, AllOf):
        return [each for member in node.members for each in _disjunctions(member, bound)]
    if isinstance(node, Test):
        return [AnyOf((node,))]
    product: list[Node] = [NEVER]
    for member in node.members:
        factors: list[Node] = list(member.members) if isinstance(member, AllOf) else [member]
        if len(product) * len(factors) > bound:
            return [node]
        product = [_any_of([left, right]) for left in product for right in factors]
    return [each if isinstance(each, AnyOf) else AnyOf((each,)) for each in product if each != ALWAYS]


def _holds(node: Node, event: Event) -> bool:
    match node:
        case AllOf(members):
            return all(_holds(member, event) for member in members)
        case AnyOf(members):
            return any(_holds(member, event) for member in members)
        case Test(attribute, allowed):
            return allowed.contains(value_of(attribute, event)) and all(
                truth(pattern.leaf, event) is True for pattern in allowed.patterns
            )


def _tree_of(node: Node) -> Tree:
    match node:
        case AllOf(members):
            return conjunction([_tree_of(member) for member in members])
        case AnyOf(members):
            return disjunction([_tree_of(member) for member in members])
        case Test(attribute, allowed):
            return _tree_of_set(attribute, allowed)


def _tree_of_set(attribute: str, allowed: ValueSet) -> Tree:
    if allowed.is_present:
        return IsNull(attribute, negated=True)
    ways: list[Tree] = [IsNull(attribute)] if allowed.absent else []
    for kind in Kind:
        ways += [
            _tree_of_interval(attribute, kind, interval)
            for interval in intervals(allowed.cuts(kind))
            if not (allowed.patterns and allowed.cuts(kind) == EVERYTHING)
        ]
    every: list[Tree] = [disjunction(ways)] if ways else []
    every += sorted((pattern.leaf for pattern in allowed.patterns), key=repr)
    return conjunction(every)


# A value in the middle of each kind, to say "any number" in a language without types: `x < 0 or x >= 0`.
MIDDLE: dict[Kind, Any] = {Kind.NUMBER: 0, Kind.STRING: "", Kind.BOOLEAN: False, Kind.TIMESTAMP: 0, Kind.LIST: ()}


def _tree_of_interval(attribute: str, kind: Kind, interval: Interval) -> Tree:
    low, high = Operand(kind, interval.low), Operand(kind, interval.high)
    bounds: list[Tree] = []
    if interval.low is None and interval.high is None:
        middle = Operand(kind, MIDDLE[kind])
        return disjunction([Comparison(attribute, "<", middle), Comparison(attribute, ">=", middle)])
    if interval.low is not None and interval.low == interval.high:
        if kind is Kind.BOOLEAN:  # a term that is true or false may be a comparison, beside which no other can stand
            return BooleanAttribute(attribute) if interval.low else Not(BooleanAttribute(attribute))
        return Comparison(attribute, "=", low)
    if interval.low is not None:
        bounds.append(Comparison(attribute, ">=" if interval.low_closed else ">", low))
    if interval.high is not None:
        bounds.append(Comparison(attribute, "<=" if interval.high_closed else "<", high))
    return conjunction(bounds)
