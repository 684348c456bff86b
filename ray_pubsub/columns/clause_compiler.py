"""Compiles a parsed expression to clause records, and caches per shape whatever depends on the shape alone.

A shape with a small disjunctive form gets a recipe: for each conjunction, and each attribute in it, the predicates to intersect. A shape
that is a conjunction of disjunctions of predicates, and far too large to be multiplied out, gets a recipe of its disjunctions. Compiling
an expression of a shape with a recipe only computes the test records from the constants. Expressions of every other shape go through
normal_form.py, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

from ray_pubsub.columns.clause_table import ClauseTable, records_of_test
from ray_pubsub.columns.disjunctions import single_tests
from ray_pubsub.columns.interval_compiler import Interval, IntervalRecipe
from ray_pubsub.columns.test_records import Form, Side, TestRecord, as_alternative
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.lowering import is_flag, lowered, tested_names, whole_tests
from ray_pubsub.language.normal_form import Test, normalize
from ray_pubsub.language.shapes import Expression, Shape, fill_leaf
from ray_pubsub.language.terms import Condition
from ray_pubsub.language.tree import (
    And,
    Between,
    Comparison,
    Constant,
    Holds,
    In,
    Leaf,
    Not,
    Or,
    Tree,
    leaves,
    operands,
)
from ray_pubsub.language.value_set import intersection, leaf_value_set
from ray_pubsub.model.event_batch import split_number
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

__all__ = ["Compiled", "Compiler"]

Literal = tuple[Leaf, bool]
"""A predicate and whether it is negated."""
Maker = Callable[[tuple[Any, ...]], list[TestRecord] | None]
"""Takes an expression's constants and returns the records of one test, or None if the test can never hold."""

LARGEST_RECIPE = 16
BY_CONSTANTS = {
    "list_contains",
    "list_has_any",
    "list_has_all",
    "exists",
    "= any",
    "!= any",
    "= all",
    "!= all",
    "ip_in",
    "geo_in_box",
}
"""Functions whose tests, or their attributes, depend on the function's constants: what one expression gives is no recipe for another."""
MADE_FROM_CONSTANTS = {"ip_in", "geo_in_box"}
"""Those among them, beside the flags, that a recipe makes directly if they are not negated."""
MOST_RECIPES = 4096
LARGEST_MEMORY = 65_536
ORDERED = (Kind.NUMBER, Kind.TIMESTAMP)
SIDES = {  # operator → (low side, high side) of the interval it admits
    "=": (Side.BEFORE, Side.AFTER),
    "<": (Side.NONE, Side.BEFORE),
    "<=": (Side.NONE, Side.AFTER),
    ">": (Side.AFTER, Side.NONE),
    ">=": (Side.BEFORE, Side.NONE),
}


@dataclass(frozen=True, slots=True)
class Compiled:
    """The clauses of one subscription. It matches if one clause holds, and a clause holds if all of its tests do. If `conjunctive`, all
    clauses must hold, each by at least one of its tests. With `residual`, the clauses only find candidates and the expression itself
    decides."""

    clauses: list[list[TestRecord]]
    conjunctive: bool = False
    residual: bool = False


class _SeveralTests(Exception):  # noqa: N818 - never leaves this file
    """Raised when a function that a recipe makes directly is no conjunction of intervals with these constants."""


class Recipe(NamedTuple):
    """For each clause, the makers of its tests' records."""

    clauses: list[list[Maker]]
    conjunctive: bool = False


class Compiler:
    """Makes clause records for one table. One thread at a time."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits, *, runs: bool = True) -> None:
        """Without `runs`, every test is one record, and a set is a reference to its ValueSet."""
        self._vocabulary = vocabulary
        self._limits = limits
        self._runs = runs
        self._recipes: dict[Shape, Recipe | None] = {}
        self._intervals: dict[Shape, IntervalRecipe | None] = {}
        self._made: dict[tuple[Any, ...], list[TestRecord] | None] = {}
        self.table = ClauseTable.empty()

    def start_table(self) -> None:
        """Starts a new table: records made from now on belong to it."""
        self.table = ClauseTable.empty()
        self._made.clear()

    def resume_table(self, table: ClauseTable) -> None:
        """Continues a table begun earlier: records made from now on belong to it."""
        self.table = table
        self._made.clear()

    def interval_recipe(self, shape: Shape) -> IntervalRecipe | None:
        """Returns the fast way to a clause if the shape is a conjunction of intervals of numbers or timestamps with each attribute once,
        else None."""
        try:
            return self._intervals[shape]
        except KeyError:
            if len(self._intervals) > MOST_RECIPES:
                self._intervals.clear()
            recipe = self._intervals[shape] = self._interval_recipe(shape) if shape.readers else None
            return recipe

    def _interval_recipe(self, shape: Shape) -> IntervalRecipe | None:
        found = _conjunctions(shape.template, False)
        if found is None or len(found) != 1:
            return None
        intervals: dict[str, Interval] = {}
        for leaf, negated in found[0]:
            interval = _interval(leaf) if not negated else None
            if interval is None or leaf.attribute in intervals:  # type: ignore[union-attr]
                return None
            intervals[leaf.attribute] = interval  # type: ignore[union-attr]
        number = self._vocabulary.attributes.number
        return IntervalRecipe([(number(name), *rest[1:]) for name, rest in sorted(intervals.items())])

    def compile(self, expression: Expression) -> Compiled:
        shape = expression.shape
        if not shape.readers:
            return self.compile_tree(expression.tree)
        if shape not in self._recipes:
            if len(self._recipes) > MOST_RECIPES:
                self._recipes.clear()
            self._recipes[shape] = self._recipe(shape.template)
        recipe = self._recipes[shape]
        if recipe is None:
            return self.compile_tree(expression.tree)
        constants = expression.constants
        try:
            made = [[maker(constants) for maker in makers] for makers in recipe.clauses]
        except _SeveralTests:
            return self.compile_tree(expression.tree)
        clauses = []
        for records in made:
            if recipe.conjunctive:
                possible = [as_alternative(record) for test in records if test is not None for record in test]
                if not possible:
                    return Compiled([])
                clauses.append(possible)
            elif None not in records:
                clauses.append([record for test in records for record in test])  # type: ignore[union-attr]
        return Compiled(clauses, recipe.conjunctive)

    def compile_tree(self, tree: Tree) -> Compiled:
        form = normalize(tree, self._limits)
        if form.clauses is not None:
            return Compiled([[record for test in clause for record in self._records(test)] for clause in form.clauses])
        assert form.disjunctions is not None
        disjunctions, exact = single_tests(form.disjunctions)
        records = [
            [as_alternative(record) for test in members for record in self._records(test)] for members in disjunctions
        ]
        return Compiled(records, conjunctive=True, residual=not exact)

    def _records(self, test: Test) -> list[TestRecord]:
        number = self._vocabulary.attributes.number(test.attribute)
        return records_of_test(number, test.allowed, self._vocabulary, self.table, runs=self._runs)

    def _recipe(self, template: Tree) -> Recipe | None:
        found = _conjunctions(template, False)
        if found is None:
            return self._conjunctive_recipe(template)
        recipe = []
        for conjunction in found:
            by_attribute: dict[str, list[Literal]] = {}
            for leaf, negated in conjunction:
                if isinstance(leaf, Constant) or (isinstance(leaf, Holds) and "" in by_attribute):
                    return None
                if isinstance(leaf, Holds):  # its attribute depends on the constants; two might be equal
                    by_attribute[""] = [(leaf, negated)]
                    continue
                by_attribute.setdefault(leaf.attribute, []).append((leaf, negated))
            if _tested_twice(conjunction, by_attribute):
                return None
            recipe.append([self._maker(name, literals) for name, literals in sorted(by_attribute.items())])
        return Recipe(recipe)

    def _conjunctive_recipe(self, template: Tree) -> Recipe | None:
        found = _disjunctions(template, False)
        bound = max(self._limits.clauses, sum(1 for _ in leaves(template)))
        if found is None or prod(len({name for name, _ in members}) for members in found) <= bound * bound:
            return None
        return Recipe([[self._maker(name, [literal]) for name, literal in members] for members in found], True)

    def _function_maker(self, leaf: Holds) -> Maker:
        """Returns the maker for a function that is a conjunction of intervals, on attributes that may depend on the constants."""
        number = self._vocabulary.attributes.number

        def make(constants: tuple[Any, ...]) -> list[TestRecord] | None:
            filled = fill_leaf(leaf, constants)
            assert isinstance(filled, Holds)
            tests = whole_tests(filled)
            if tests is None:
                raise _SeveralTests
            records = []
            for name, kind, low, high in tests:
                attribute = number(name, Condition(filled) if kind is Kind.BOOLEAN else None)
                bounds = (*split_number(low), *split_number(high))
                records.append((attribute, Form.INTERVAL, int(kind), Side.BEFORE, Side.AFTER, *bounds))
            return records or None

        return make

    def _maker(self, name: str, literals: list[Literal]) -> Maker:
        if isinstance(literals[0][0], Holds):
            return self._function_maker(literals[0][0])
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

        if len(literals) == 1 and isinstance(leaf, In) and self._runs:
            kinds = {member.kind for member in leaf.members}
            if kinds <= {Kind.NUMBER} or kinds <= {Kind.STRING}:
                return self._member_maker(attribute, leaf, negated)

        places = [operand.place for each, _ in literals for operand in operands(each) if operand.place >= 0]

        def make(constants: tuple[Any, ...]) -> list[TestRecord] | None:
            # Subscriptions often repeat the constants of sets and prefixes, so their records are cached.
            key = (make, *[constants[place] for place in places])
            if key not in self._made:
                if len(self._made) > LARGEST_MEMORY:
                    self._made.clear()
                sets = [leaf_value_set(fill_leaf(each, constants), each_negated) for each, each_negated in literals]
                allowed = intersection(sets)
                self._made[key] = (
                    None
                    if allowed.is_empty
                    else records_of_test(attribute, allowed, self._vocabulary, self.table, runs=self._runs)
                )
            return self._made[key]

        return make

    def _member_maker(self, attribute: int, leaf: In, negated: bool) -> Maker:
        """Returns the maker of a set of numbers or of strings: a record for each member, in any order."""
        kind, numbers = int(leaf.members[0].kind or 0), self._vocabulary.strings.numbers
        form = Form.EXCLUDED if leaf.negated != negated else Form.INTERVAL

        def make(constants: tuple[Any, ...]) -> list[TestRecord]:
            values: dict[Any, None] = {}
            for member in leaf.members:
                plain = constants[member.place] if member.place >= 0 else member.plain
                values.update(dict.fromkeys(plain) if type(plain) is tuple else {plain: None})
            points = [(text, 0.0) for text in numbers(values)] if kind == Kind.STRING else map(split_number, values)
            records = [
                (attribute, form | Form.CONTINUED, kind, Side.BEFORE, Side.AFTER, whole, rest, whole, rest)
                for whole, rest in points
            ]
            records[0] = (attribute, form, *records[0][2:])
            return records

        return make

    def _string_maker(self, attribute: int, leaf: Comparison) -> Maker:
        place, number = leaf.operand.place, self._vocabulary.strings.number
        kind = int(Kind.STRING)

        def make(constants: tuple[Any, ...]) -> list[TestRecord]:
            text = number(constants[place])
            return [(attribute, Form.INTERVAL, kind, Side.BEFORE, Side.AFTER, text, 0.0, text, 0.0)]

        return make


def _interval(leaf: Leaf) -> Interval | None:
    """Returns the interval if the predicate is one interval of numbers or timestamps; its attribute is not numbered yet."""
    if isinstance(leaf, Comparison) and leaf.operator in SIDES:
        place, kind = leaf.operand.place, leaf.operand.kind
        return (-1, int(kind), *SIDES[leaf.operator], place, place) if kind in ORDERED and place >= 0 else None
    if isinstance(leaf, Between) and not leaf.negated and min(leaf.low.place, leaf.high.place) >= 0:
        kind = leaf.low.kind
        if kind == leaf.high.kind and kind in ORDERED:
            return (-1, int(kind), Side.BEFORE, Side.AFTER, leaf.low.place, leaf.high.place)
    return None


def _number_maker(attribute: int, leaf: Comparison) -> Maker:
    place, kind = leaf.operand.place, int(leaf.operand.kind or 0)
    low_side, high_side = SIDES[leaf.operator]

    def make(constants: tuple[Any, ...]) -> list[TestRecord]:
        whole, rest = split_number(constants[place])
        return [(attribute, Form.INTERVAL, kind, low_side, high_side, whole, rest, whole, rest)]

    return make


def _between_maker(attribute: int, leaf: Between) -> Maker:
    low, high, kind = leaf.low.place, leaf.high.place, int(leaf.low.kind or 0)

    def make(constants: tuple[Any, ...]) -> list[TestRecord] | None:
        if constants[low] > constants[high]:
            return None
        bounds = (*split_number(constants[low]), *split_number(constants[high]))
        return [(attribute, Form.INTERVAL, kind, Side.BEFORE, Side.AFTER, *bounds)]

    return make


def _conjunctions(tree: Tree, negated: bool) -> list[list[Literal]] | None:
    """Returns the disjunctive form over predicates, not simplified. Returns None if it is large, or if an `or` joins tests of one
    attribute, which normal_form.py combines into one test."""
    if isinstance(tree, Not):
        return _conjunctions(tree.child, not negated)
    if isinstance(tree, Holds) and (negated or not (is_flag(tree) or tree.function in MADE_FROM_CONSTANTS)):
        return None if tree.function in BY_CONSTANTS else _conjunctions(lowered(tree, negated), False)
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


def _tested_twice(conjunction: list[Literal], by_attribute: Mapping[str, object]) -> bool:
    """Returns whether a predicate tests an attribute that a box or network beside it tests, too; normal_form.py intersects such tests."""
    for leaf, _ in conjunction:
        if isinstance(leaf, Holds) and leaf.function in MADE_FROM_CONSTANTS:
            return any(name in by_attribute for name in tested_names(leaf))
    return False


def _disjunctions(tree: Tree, negated: bool) -> list[list[tuple[str, Literal]]] | None:
    """Returns the disjunctions if the tree is a conjunction of disjunctions, each member with its attribute; None for any other tree."""
    if isinstance(tree, Not):
        return _disjunctions(tree.child, not negated)
    if isinstance(tree, Constant | Holds):
        return None
    if not isinstance(tree, And | Or):
        return [[(tree.attribute, (tree, negated))]]
    parts = [_disjunctions(child, negated) for child in tree.children]
    found = [members for part in parts if part is not None for members in part]
    if any(part is None for part in parts):
        return None
    if isinstance(tree, And) != negated:
        return found
    return [[member for members in found for member in members]] if len(found) == len(parts) else None
