"""Converts a normal form's disjunctions to disjunctions of single tests, which a conjunctive index stores (OpIndex section 6.1).

A member of a disjunction may be more than one test: a set of strings with patterns is a conjunction (`s > 'a' and s like '%x'`), and a
member that normal_form.py would not multiply out is nested. The first kind is distributed, (A and B) or C = (A or C) and (B or C), up to
a size limit. Beyond it, and for nested members, a weaker disjunction is stored: it holds whenever the true one does, and the expression
itself decides.
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
    """Returns disjunctions of tests that are each a set or one pattern, and whether they are exact, that is equivalent to the given
    ones."""
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
    """Splits a test into tests whose conjunction is equivalent, each a set without patterns or one pattern on any string."""
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
    """Returns tests of which at least one holds whenever the node does. For a conjunction, they come from the member that needs the
    fewest."""
    if isinstance(node, Test):
        return _conjuncts(node)[-1:]
    parts = [_weaker(member) for member in node.members]
    return min(parts, key=len) if isinstance(node, AllOf) else [test for part in parts for test in part]
