"""The normal form holds exactly when the expression is TRUE, and never grows out of proportion."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ray_pubsub.language.normal_form import AllOf, AnyOf, Node, NormalForm, normalize
from ray_pubsub.language.parser import parse
from ray_pubsub.language.printer import write
from ray_pubsub.language.tree import Not, Tree, conjunction, disjunction
from ray_pubsub.language.truth import truth
from ray_pubsub.language.value_set import EVERYTHING, ValueSet
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.settings import Limits
from tests.generators import ANY_TREE, Case, cases, predicates

DEFAULT, TIGHT = Limits(), Limits(clauses=2)


def normal(text: str, limits: Limits = DEFAULT) -> NormalForm:
    return normalize(parse(text), limits)


def clauses(text: str, limits: Limits = DEFAULT) -> tuple[tuple[Any, ...], ...]:
    found = normal(text, limits).clauses
    assert found is not None
    return found


def products(members: SearchStrategy[Tree]) -> SearchStrategy[Tree]:
    """`(a or b) and (c or d) and (e or f)`: more conjunctions than leaves."""
    sums = st.lists(members, min_size=2, max_size=3).map(disjunction)
    return st.lists(sums, min_size=3, max_size=4).map(conjunction)


def sums_of_products(members: SearchStrategy[Tree]) -> SearchStrategy[Tree]:
    """`not (a and b or c and d or e and f) or g`: the same under a negation, beside something else."""
    terms = st.lists(members, min_size=2, max_size=3).map(conjunction)
    negated = st.lists(terms, min_size=3, max_size=4).map(disjunction).map(Not)
    return st.lists(negated | members, min_size=1, max_size=3).map(disjunction)


CROWDED = products(predicates()) | sums_of_products(predicates())


@given(cases(ANY_TREE | CROWDED))
def test_it_holds_exactly_when_the_expression_is_true(case: Case) -> None:
    for limits in (DEFAULT, TIGHT):
        form = normalize(case.tree, limits)
        for event in map(flatten, case.events):
            assert form.holds(event) is (truth(case.tree, event) is True)


@given(cases(ANY_TREE | CROWDED, most_events=3))
def test_as_a_tree_it_prints_and_parses_to_the_same_meaning(case: Case) -> None:
    for limits in (DEFAULT, TIGHT):
        tree = parse(write(normalize(case.tree, limits).tree()))
        again = normalize(tree, limits)
        for event in map(flatten, case.events):
            matches = truth(case.tree, event) is True
            assert (truth(tree, event) is True) is matches
            assert again.holds(event) is matches


@pytest.mark.parametrize("text", ["a = b", "not a = b", "a < b or c = 1", "(a = b) is null or c = 1"])
def test_comparisons_of_attributes_print_and_parse(text: str) -> None:
    form = normal(text)
    assert normal(write(form.tree())) == form


@given(ANY_TREE | CROWDED)
def test_its_invariants(tree: Tree) -> None:
    form = normalize(tree, TIGHT)
    if form.clauses is None:
        assert all(isinstance(each, AnyOf) and each.members for each in form.disjunctions)
        return
    assert form.disjunctions is None
    assert len(set(form.clauses)) == len(form.clauses)
    for clause in form.clauses:
        names = [test.attribute for test in clause]
        assert names == sorted(set(names))
        assert not any(test.allowed.is_empty for test in clause)


def test_tests_of_one_attribute_become_one() -> None:
    (clause,) = clauses("x != 1 and x not in (2, 3)")
    (test,) = clause
    assert test.attribute == "x"
    assert clause == clauses("not x in (3, 2, 1, 1)")[0]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("x >= 1 and x <= 5", "x between 1 and 5"),
        ("x < 1 or x > 5", "x not between 1 and 5"),
        ("not (x < 1 or x > 5)", "x between 1 and 5"),
        ("x = 1 or x = 2 or x in (2, 3)", "x in (1, 2, 3)"),
        ("x <= 2 and x >= 2", "x = 2"),
        ("x < 2 or x = 2", "x <= 2"),
        ("x < 5 and x < 3", "x < 3"),
        ("x = 1 and y = 2 or y = 2 and x = 1", "x = 1 and y = 2"),
        ("x = 1.0", "x = 1"),
        ("x = -0.0", "x = 0"),
        ("s like 'ab%'", "s >= 'ab' and s < 'ac'"),
        ("s not like 'ab%'", "s < 'ab' or s >= 'ac'"),
        ("s like 'a\ud7ff%'", "s >= 'a\ud7ff' and s < 'a\ue000'"),
        ("s like 'a\U0010ffff%'", "s >= 'a\U0010ffff' and s < 'b'"),
        ("s like '\U0010ffff%'", "s >= '\U0010ffff'"),
        ("s like '%'", "s >= ''"),
        ("s like 'a!%' escape '!'", "s = 'a%'"),
        ("b", "b = true"),
        ("not b", "b = false"),
        ("b != true", "b < true"),
        ("t > timestamp '2024-05-01'", "t >= timestamp '2024-05-01 00:00:00.000001'"),
        ("t in (timestamp '2024-05-01', timestamp '2024-05-01 00:00:00.000001')",
         "t between timestamp '2024-05-01' and timestamp '2024-05-01 00:00:00.000001'"),
        ("x not between 5 and null", "x < 5"),
        ("x not between null and 5", "x > 5"),
        ("x in (1, null)", "x = 1"),
        ("x is not null and x > 5", "x > 5"),
        ("x = 1 and true", "x = 1"),
        ("x = 1 or null", "x = 1"),
        ("x = 1 or y = 2 and y = 3", "x = 1"),
    ],
)  # fmt: skip
def test_one_set_however_it_is_written(text: str, same: str) -> None:
    assert normal(text) == normal(same)


@pytest.mark.parametrize(
    "text",
    [
        "false",
        "null",
        "not null",
        "x = null",
        "x != null",
        "x not in (1, null)",
        "not (x in (1, null))",
        "x between 5 and 3",
        "x between null and 3",
        "x < 1 and x > 1",
        "x = 1 and x = 'a'",
        "x = 1 and x is null",
        "b and not b",
        "b < false",
        "s like 'a%' and s like 'b%'",
        "s regexp 'a' and s is null",
        "s regexp 'a' and s > 5",
        "t > timestamp '2024-05-01' and t < timestamp '2024-05-01 00:00:00.000001'",
        "x = 1 and (x = 2 or x = 3 and y = 1)",
    ],
)
def test_contradictions_never_hold(text: str) -> None:
    assert normal(text).clauses == ()


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "not false",
        "x is null or x is not null",
        "x = 1 or not (x is not null) or x is not null",
        "null or true",
    ],
)
def test_tautologies_always_hold(text: str) -> None:
    assert normal(text).clauses == ((),)


@pytest.mark.parametrize(
    "text", ["x = 1 or not x = 1", "x < 1 or x >= 1", "b or not b", "s like 'a%' or s not like 'a%'"]
)
def test_an_attribute_must_be_present_even_where_every_value_will_do(text: str) -> None:
    form = normal(text)
    assert form.clauses != ((),)
    assert not form.holds({})


def test_a_test_true_for_all_numbers_and_only_numbers() -> None:
    ((test,),) = clauses("x < 5 or x >= 3")
    assert test.allowed == ValueSet(False, numbers=EVERYTHING)
    form = normal("x < 5 or x >= 3")
    assert all(form.holds(flatten({"x": number})) for number in (4, -math.inf, math.inf, 2**63 - 1, -0.0, 5e-324))
    assert not any(form.holds(flatten({"x": other})) for other in ("4", True, None, math.nan))


def size(node: Node) -> int:
    return 1 + sum(map(size, node.members)) if isinstance(node, AllOf | AnyOf) else 1


def every_choice(pairs: int) -> str:
    """2**pairs conjunctions when multiplied out."""
    return " and ".join(f"(a{rank} = 1 or b{rank} = 1)" for rank in range(pairs))


@pytest.mark.parametrize("pairs", [7, 20, 1000])
def test_an_explosion_is_kept_as_a_conjunction_of_disjunctions(pairs: int) -> None:
    form = normal(every_choice(pairs), DEFAULT)
    assert form.clauses is None
    assert form.disjunctions is not None and len(form.disjunctions) == pairs
    assert size(form.node()) <= 4 * pairs
    event = {f"{'ab'[rank % 2]}{rank}": 1 for rank in range(pairs)}
    assert form.holds(flatten(event))
    assert not form.holds(flatten({**event, "a0": 2}))


@pytest.mark.parametrize("moment", ["9999-12-31 23:59:59.999999", "294247-01-10 04:00:54.775807"])
def test_the_last_moment_can_be_printed(moment: str) -> None:
    form = normal(f"t <= timestamp '{moment}'")
    assert normal(write(form.tree())) == form


def test_what_is_within_the_limit_is_multiplied_out() -> None:
    assert len(clauses(every_choice(6), Limits(clauses=64))) == 64
    assert normal(every_choice(6), Limits(clauses=63)).clauses is None


@pytest.mark.parametrize(
    "text",
    [
        "(a and b and c or d) and (e or f) and (g or h) and (i or j)",
        "(a and b or c and d) and (e or f) and (g or h) and (i or j)",
        "not ((a or b or c) and d or e and f or g and h or i and j)",
        "(a and (b or c and d) or e) and (f or g) and (h or i) and (a or not j)",
    ],
)
def test_a_conjunction_of_disjunctions_holds_exactly_when_the_expression_is_true(text: str) -> None:
    tree = parse(text)
    form = normalize(tree, TIGHT)
    assert form.clauses is None
    for values in itertools.product([False, True], repeat=10):
        event = flatten(dict(zip("abcdefghij", values, strict=True)))
        assert form.holds(event) is truth(tree, event)


def test_explosions_inside_explosions_stay_small() -> None:
    text = every_choice(8)
    for level in range(5):
        text = f"(({text}) or c{level} = 1 and d{level} = 1) and (e{level} = 1 or f{level} = 1)"
    form = normal(text, TIGHT)
    assert size(form.node()) < 10_000
    assert form.holds(flatten({"c4": 1, "d4": 1, "f4": 1}))
    assert not form.holds(flatten({"c4": 1, "f4": 1}))


def joined(word: str, parts: int, part: str) -> str:
    return f" {word} ".join(part.format(rank) for rank in range(parts))


LARGE = {
    "two wide sums": f"({joined('or', 400, 'a{} = 1')}) and ({joined('or', 400, 'b{} = 1')})",
    "a thousand sums of products": joined("and", 1000, "(a{0} = 1 and b{0} = 2 or c{0} = 1)"),
    "a set in two thousand pieces": joined("or", 2000, "x = {}"),
    "two thousand exclusions": joined("and", 2000, "x != {}"),
    "ten thousand attributes": joined("and", 10_000, "x{} = 1"),
    "ten thousand alternatives": joined("or", 10_000, "x{} = 1"),
    "five thousand pairs": joined("or", 5_000, "x{0} = 1 and y = {0}"),
    "a set of fifty thousand": f"x not in ({', '.join(map(str, range(50_000)))})",
}


@pytest.mark.timeout(200)  # a guard against hanging, far above what it takes
@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_a_large_expression_is_normalized_at_once(text: str) -> None:
    tree = parse(text)
    normalize(tree, DEFAULT)
