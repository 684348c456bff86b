"""The route of a subscription: attributes of which an event must carry at least one to match it.

OpIndex (section 4.1) puts a clause under its pivot, the attribute that must be present and occurs least often in events. The pivots of all
clauses of a disjunctive form are a route; this module finds one that is as good or better without multiplying out. A set of attributes
that meets every clause of `A and B` meets every clause of A, or every clause of B: if it missed a clause of each, it would miss their
product. So the cheapest route of a conjunction is that of its cheapest member, and the route of a disjunction is all its members' routes
together. That takes time linear in the size of the expression, however large its normal form would be, so expressions that are kept as a
conjunction of disjunctions need no special case.

What must be present depends on the shape of an expression alone: constants can only make a clause impossible. So a route is found
once per shape; and any route is right at any time, whatever frequencies it was chosen by.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.language.shapes import Expression, Shape
from ray_pubsub.language.terms import attributes_of_leaf, needed_by_name
from ray_pubsub.language.tree import And, Comparison, Constant, Holds, IsNull, Not, Or, Tree, leaves
from ray_pubsub.sharding.frequency import AttributeFrequencies

__all__ = ["ANYWHERE", "NEVER", "UNIVERSAL", "IntervalRows", "PivotChooser", "PivotColumn", "Route"]

ANYWHERE = ""
"""Stands for a missing pivot. No attribute has this name."""
MOST_SHAPES = 4096


class Route(NamedTuple):
    """The attributes of which an event must have one, the most frequent first. If `universal`, it may match an event without any of them.
    A route without attributes that is not universal matches nothing."""

    attributes: tuple[str, ...] = ()
    universal: bool = False

    @property
    def home(self) -> str:
        """The pivot that decides on which shard the subscription is: the most frequent one, so that the fewest events visit its shard
        only because of this subscription."""
        return self.attributes[0] if self.attributes else ANYWHERE


UNIVERSAL = Route((), True)
NEVER = Route(())


class IntervalRows(Protocol):
    """Subscriptions as rows of intervals: number i has the rows offsets[i]:offsets[i + 1] (index/bulk/predicate_table.py)."""

    offsets: NDArray[np.int64]
    attribute: NDArray[np.int64]
    attributes: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class PivotColumn:
    """The routes of many subscriptions: number i has the route `routes[code[i]]`."""

    code: NDArray[np.int32]
    routes: list[Route]

    @classmethod
    def of(cls, routes: Sequence[Route]) -> PivotColumn:
        """Built from one route per subscription."""
        codes = {route: code for code, route in enumerate(dict.fromkeys(routes))}
        return cls(np.fromiter(map(codes.__getitem__, routes), np.int32, count=len(routes)), list(codes))


@dataclass(slots=True, eq=False)
class PivotChooser:
    """Chooses routes by the attribute frequencies given when it was created or refreshed, and by the attributes of the subscriptions so
    far. Not thread-safe.

    >>> from ray_pubsub.language.shapes import ShapeCache
    >>> from ray_pubsub.settings import Limits
    >>> parse = ShapeCache(Limits()).parse
    >>> PivotChooser().route(parse("model = 'x' and (price < 5 or price is null)"))
    Route(attributes=('model',), universal=False)
    >>> PivotChooser().route(parse("model = 'x' or price is null"))
    Route(attributes=(), universal=True)
    """

    frequency: Mapping[str, float] = field(default_factory=dict)
    uses: Counter[str] = field(default_factory=Counter)
    """Attribute → the number of predicates on it in the subscriptions routed so far."""
    _by_shape: dict[Shape, tuple[Route, tuple[str, ...]]] = field(default_factory=dict)

    def refresh(self, frequencies: AttributeFrequencies) -> None:
        """Uses these frequencies from now on. Routes that were given before stay valid."""
        self.frequency = frequencies.frequencies()
        self._by_shape = {}

    def route(self, expression: Expression) -> Route:
        """Returns the route of a parsed expression; looked up if its shape was seen before."""
        known = self._by_shape.get(expression.shape)
        if known is None:
            tree = expression.shape.template
            names = tuple(name for leaf in leaves(tree) for name in sorted(attributes_of_leaf(leaf)))
            known = (self.route_of_tree(tree), names)
            if expression.shape.readers:  # without constants, the shape may be this one expression's own
                if len(self._by_shape) >= MOST_SHAPES:
                    self._by_shape = {}
                self._by_shape[expression.shape] = known
        route, names = known
        self.uses.update(names)
        return route

    def route_of_tree(self, tree: Tree) -> Route:
        """Returns the route of an expression tree; constants need not be filled in."""
        found = self._needed(tree, False)
        if found is None:
            return UNIVERSAL
        return Route(tuple(sorted(found, key=self.rarity, reverse=True)))

    def routes_of_rows(self, rows: IntervalRows) -> PivotColumn:
        """Returns the routes of a table of intervals, in columns: each subscription is one clause that needs all its attributes."""
        uses = np.bincount(rows.attribute, minlength=len(rows.attributes))
        self.uses.update({name: int(count) for name, count in zip(rows.attributes, uses, strict=True) if count})
        order = sorted(range(len(rows.attributes)), key=lambda code: self.rarity(rows.attributes[code]))
        routes = [Route((rows.attributes[code],)) for code in order]
        count = len(rows.offsets) - 1
        if not count:
            return PivotColumn(np.empty(0, np.int32), routes)
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        return PivotColumn(np.minimum.reduceat(rank[rows.attribute], rows.offsets[:-1]), routes)

    def rarity(self, attribute: str) -> tuple[float, int, str]:
        """Orders attributes, the best pivot first: rare in events, then rare in subscriptions, then by name."""
        return self.frequency.get(attribute, 0.0), self.uses[attribute], attribute

    def _needed(self, tree: Tree, negated: bool) -> frozenset[str] | None:
        """Returns attributes of which at least one must be present for the tree (or its negation) to be true; None if no such set
        exists."""
        match tree:
            case Not(child):
                return self._needed(child, not negated)
            case And(children) | Or(children):
                parts = [self._needed(child, negated) for child in children]
                if isinstance(tree, And) != negated:
                    return min((part for part in parts if part is not None), key=self._cost, default=None)
                return _together(parts)
            case Constant(answer):
                return None if answer is not None and answer != negated else frozenset()
            case IsNull(attribute, already):
                return self._one_of(needed_by_name(attribute)) if already != negated else None
            case Holds(_, attributes):
                return self._one_of(frozenset().union(*map(needed_by_name, attributes)))
            case Comparison(_, _, operand) if operand.kind is None:
                return frozenset()  # a comparison with null is never true, nor is its negation
            case _:
                return self._one_of(needed_by_name(tree.attribute))

    def _one_of(self, needed: frozenset[str]) -> frozenset[str] | None:
        """Returns the best pivot of attributes that must all be present; None if there are none."""
        return frozenset([min(needed, key=self.rarity)]) if needed else None

    def _cost(self, attributes: frozenset[str]) -> tuple[float, int, list[tuple[float, int, str]]]:
        """Orders routes: by the largest share of events that can have one of these, then by the number of attributes, then by the
        pivots."""
        ranks = sorted(map(self.rarity, attributes), reverse=True)
        return sum(rank[0] for rank in ranks), len(ranks), ranks


def _together(parts: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    found: set[str] = set()
    for part in parts:
        if part is None:
            return None
        found |= part
    return frozenset(found)
