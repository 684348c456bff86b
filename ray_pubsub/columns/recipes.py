"""From a parsed expression to clause records, fast: what depends on the shape alone is worked out once per shape.

A shape whose disjunctive form is small gets a recipe: for each conjunction, per attribute, the predicates to intersect. An expression of
that shape then only computes its tests' records from its constants. Every other shape goes through normal_form.py, one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ray_pubsub.columns.clause_table import ClauseTable, Form, Side, TestRecord, test_record
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.normal_form import AnyOf, Test, normalize
from ray_pubsub.language.shapes import Expression, Shape, fill_leaf
from ray_pubsub.language.tree import And, Between, Comparison, Constant, Leaf, Not, Or, Tree, leaves, operands
from ray_pubsub.language.value_set import intersection, leaf_value_set
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["Compiler"]

Literal = tuple[Leaf, bool]
"""A predicate and whether it is negated."""
Maker = Callable[[tuple[Any, ...]], TestRecord | None]
"""Constants → the record of one test; None if the test can never hold."""

LARGEST_RECIPE = 16
LARGEST_MEMORY = 65_536
SIDES = {  # operator → (low side, high side) of the interval it admits
    "=": (Side.BEFORE, Side.AFTER),
    "<": (Side.NONE, Side.BEFORE),
    "<=": (Side.NONE, Side.AFTER),
    ">": (Side.AFTER, Side.NONE),
    ">=": (Side.BEFORE, Side.NONE),
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """The clauses of one subscription. With `residual`, they only find candidates: the expression itself decides."""

    clauses: list[list[TestRecord]]
    residual: bool = False


class Compiler:
    """Makes clause records for one table. One thread at a time."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits) -> None:
        self._vocabulary = vocabulary
        self._limits = limits
        self._recipes: dict[Shape, list[list[Maker]] | None] = {}
        self._made: dict[tuple[Any, ...], TestRecord | None] = {}
        self.table = ClauseTable.empty()

    def start_table(self) -> None:
        """The records made from now on belong to a new table."""
        self.table = ClauseTable.empty()
        self._made.clear()

    def resume_table(self, table: ClauseTable) -> None:
        """The records made from now on belong to a table begun before."""
        self.table = table
        self._made.clear()

    def compile(self, expression: Expression) -> Compiled:
        shape = expression.shape
        if not shape.readers:
            return self.compile_tree(expression.tree)
        if shape not in self._recipes:
            if len(self._recipes) > 4096:
                self._recipes.clear()
            self._recipes[shape] = self._recipe(shape.template)
        recipe = self._recipes[shape]
        if recipe is None:
            return self.compile_tree(expression.tree)
        constants = expression.constants
        clauses = []
        for makers in recipe:
            records = [maker(constants) for maker in makers]
            if None not in records:
                clauses.append(records)
        return Compiled(clauses)  # type: ignore[arg-type]

    def compile_tree(self, tree: Tree) -> Compiled:
        form = normalize(tree, self._limits)
        if form.clauses is not None:
            return Compiled([[self._record(test) for test in clause] for clause in form.clauses])
        assert form.disjunctions is not None
        # OpIndex §6.1: every disjunction must hold, so the one that admits least is enough to find the candidates.
        narrowest = min(form.disjunctions, key=lambda disjunction: len(disjunction.members))
        return Compiled(self._necessary(narrowest), residual=True)

    def _necessary(self, disjunction: AnyOf) -> list[list[TestRecord]]:
        """Per member a conjunction of tests that hold whenever the member does."""
        found = []
        for member in disjunction.members:
            members = member.members if not isinstance(member, Test) else (member,)
            found.append([self._record(test) for test in members if isinstance(test, Test)])
        return found

    def _record(self, test: Test) -> TestRecord:
        number = self._vocabulary.attributes.number(test.attribute)
        return test_record(number, test.allowed, self._vocabulary, self.table)

    def _recipe(self, template: Tree) -> list[list[Maker]] | None:
        found = _conjunctions(template, False)
        if found is None:
            return None
        recipe = []
        for conjunction in found:
            by_attribute: dict[str, list[Literal]] = {}
            for leaf, negated in conjunction:
                if isinstance(leaf, Constant):
                    return None
                by_attribute.setdefault(leaf.attribute, []).append((leaf, negated))
            recipe.append([self._maker(name, literals) for name, literals in sorted(by_attribute.items())])
        return recipe

    def _maker(self, name: str, literals: list[Literal]) -> Maker:
        attribute = self._vocabulary.attributes.number(name)
        leaf, negated = literals[0]
        if len(literals) == 1 and not negated and isinstance(leaf, Comparison) and leaf.operator in SIDES:
            if leaf.operand.kind in (Kind.NUMBER, Kind.TIMESTAMP) and leaf.operand.place >= 0:
                return _number_maker(attribute, leaf)
            if leaf.operand.kind == Kind.STRING and leaf.operand.place >= 0 and leaf.operator == "=":
                return self._string_maker(attribute, leaf)
        if len(literals) == 1 and not negated and isinstance(leaf, Between) and not leaf.negated:
            kinds = {leaf.low.kind, leaf.high.kind}
            if kinds <= {Kind.NUMBER, Kind.TIMESTAMP} and min(leaf.low.place, leaf.high.place) >= 0:
                return _between_maker(attribute, leaf)

        places = [operand.place for each, _ in literals for operand in operands(each) if operand.place >= 0]

        def make(constants: tuple[Any, ...]) -> TestRecord | None:
            # Constants of sets and prefixes repeat from subscription to subscription; their records need not be made again.
            key = (make, *[constants[place] for place in places])
            if key not in self._made:
                if len(self._made) > LARGEST_MEMORY:
                    self._made.clear()
                sets = [leaf_value_set(fill_leaf(each, constants), each_negated) for each, each_negated in literals]
                allowed = intersection(sets)
                record = None if allowed.is_empty else test_record(attribute, allowed, self._vocabulary, self.table)
                self._made[key] = record
            return self._made[key]

        return make

    def _string_maker(self, attribute: int, leaf: Comparison) -> Maker:
        place, number = leaf.operand.place, self._vocabulary.strings.number
        kind = int(Kind.STRING)

        def make(constants: tuple[Any, ...]) -> TestRecord:
            text = number(constants[place])
            return (attribute, Form.INTERVAL, kind, Side.BEFORE, Side.AFTER, text, 0.0, text, 0.0)

        return make


def _number_maker(attribute: int, leaf: Comparison) -> Maker:
    place, kind = leaf.operand.place, int(leaf.operand.kind or 0)
    low_side, high_side = SIDES[leaf.operator]

    def make(constants: tuple[Any, ...]) -> TestRecord:
        whole, rest = split_number(constants[place])
        return (attribute, Form.INTERVAL, kind, low_side, high_side, whole, rest, whole, rest)

    return make


def _between_maker(attribute: int, leaf: Between) -> Maker:
    low, high, kind = leaf.low.place, leaf.high.place, int(leaf.low.kind or 0)

    def make(constants: tuple[Any, ...]) -> TestRecord | None:
        if constants[low] > constants[high]:
            return None
        return (
            attribute,
            Form.INTERVAL,
            kind,
            Side.BEFORE,
            Side.AFTER,
            *split_number(constants[low]),
            *split_number(constants[high]),
        )

    return make


def _conjunctions(tree: Tree, negated: bool) -> list[list[Literal]] | None:
    """The disjunctive form over predicates, unsimplified; None if it is large, or if an `or` joins tests of one attribute (which
    normal_form.py makes one test of)."""
    if isinstance(tree, Not):
        return _conjunctions(tree.child, not negated)
    if not isinstance(tree, And | Or):
        return [[(tree, negated)]]
    parts = [_conjunctions(child, negated) for child in tree.children]
    if any(part is None for part in parts):
        return None
    if isinstance(tree, And) != negated:
        product: list[list[Literal]] = [[]]
        for part in parts:
            product = [left + right for left in product for right in part or ()]
            if len(product) > LARGEST_RECIPE:
                return None
        return product
    names = [getattr(leaf, "attribute", "") for child in tree.children for leaf in leaves(child)]
    if len(set(names)) < len(names):
        return None
    joined = [conjunction for part in parts for conjunction in part or ()]
    return joined if len(joined) <= LARGEST_RECIPE else None
