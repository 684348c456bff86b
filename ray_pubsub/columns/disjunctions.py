"""From a normal form's disjunctions to disjunctions of single tests: what a conjunctive index stores (OpIndex section 6.1).

A member of a disjunction need not be one test: a set of strings with patterns is a conjunction (`s > 'a' and s like '%x'`), and what
normal_form.py would not multiply out nests. The first kind is distributed, (A and B) or C = (A or C) and (B or C), within a bound. Beyond
it, and for what nests, a weaker disjunction is kept: it holds whenever the true one does, and the expression itself decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod

from ray_pubsub.language.normal_form import AllOf, AnyOf, Test
from ray_pubsub.language.value_set import EVERYTHING, ValueSet

__all__ = ["single_tests"]

MOST_DISTRIBUTED = 16


def single_tests(disjunctions: Sequence[AnyOf]) -> tuple[list[list[Test]], bool]:
    """Disjunctions of tests that are each a set or one pattern, and whether they are exact: together as strong as the given ones."""
    found: dict[tuple[Test, ...], None] = {}
    exact = True
    for disjunction in disjunctions:
        parts = [_conjuncts(member) for member in disjunction.members if isinstance(member, Test)]
        if len(parts) == len(disjunction.members) and prod(map(len, parts)) <= MOST_DISTRIBUTED:
            found.update(dict.fromkeys(product(*parts)))
        else:
            exact = False
            found[tuple(_weaker(disjunction))] = None
    return [list(members) for members in found], exact


def _conjuncts(test: Test) -> list[Test]:
    """Tests that together say the same, each a set without patterns or one pattern of any string."""
    allowed = test.allowed
    if not allowed.patterns:
        return [test]
    parts = [
        Test(test.attribute, ValueSet(False, strings=EVERYTHING, patterns=frozenset([pattern])))
        for pattern in sorted(allowed.patterns, key=repr)
    ]
    if allowed.strings != EVERYTHING:
        parts.append(Test(test.attribute, replace(allowed, patterns=frozenset())))
    return parts


def _weaker(node: Test | AllOf | AnyOf) -> list[Test]:
    """Tests of which one holds whenever the node does: of a conjunction, those of the member that needs the fewest."""
    if isinstance(node, Test):
        return _conjuncts(node)[-1:]
    parts = [_weaker(member) for member in node.members]
    return min(parts, key=len) if isinstance(node, AllOf) else [test for part in parts for test in part]
