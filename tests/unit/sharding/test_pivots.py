"""Routes: an event that matches carries an attribute of the route, or the route is universal."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.language.printer import write
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.language.truth import truth
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.events import read_events
from ray_pubsub.settings import Limits
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import ANYWHERE, NEVER, UNIVERSAL, PivotChooser, PivotColumn, Route
from ray_pubsub.sharding.text_routes import TextsToRoute
from tests.generators import ATTRIBUTES, Case, cases, trees

FREQUENCIES = {"always": 1.0, "often": 0.5, "rare": 0.1, "rarer": 0.01}


def route(text: str, frequency: dict[str, float] | None = None) -> Route:
    return PivotChooser(FREQUENCIES if frequency is None else frequency).route(ShapeCache(Limits()).parse(text))


@pytest.mark.parametrize(
    ("text", "attributes"),
    [
        ("always = 1", ("always",)),
        ("always = 1 and rare < 5 and often > 3", ("rare",)),
        ("always = 1 or rare = 1", ("always", "rare")),
        ("(always = 1 and rare = 1) or (often = 2 and rarer = 3)", ("rare", "rarer")),
        ("not (always = 1 or rare = 2)", ("rare",)),
        ("not (always = 1 and rare = 2)", ("always", "rare")),
        ("rare is not null and always = 1", ("rare",)),
        ("not (rare is null) and always = 1", ("rare",)),
        ("rare is null and always = 1", ("always",)),
        ("(rare is null or rare = 1) and always = 1", ("always",)),
        ("always like 'a%' and rare regexp 'b'", ("rare",)),
        ("always not in (1, 2) and rare not between 1 and 2", ("rare",)),
        ("true and rare = 1", ("rare",)),
        ("false or rare = 1", ("rare",)),
        ("rare = null or always = 1", ("always",)),
        # The pivots of the four clauses would be rare, rarer and one more; one disjunction alone does it.
        ("(rare = 1 or rarer = 2) and (always = 3 or often = 4)", ("rare", "rarer")),
        # Attributes that no event was seen with are the rarest of all.
        ("rarer = 1 and unseen = 2", ("unseen",)),
    ],
)
def test_the_rarest_that_must_be_present(text: str, attributes: tuple[str, ...]) -> None:
    assert route(text) == Route(attributes)


@pytest.mark.parametrize(
    "text", ["true", "x is null", "x = 1 or y is null", "not (x is not null and y = 1)", "not false"]
)
def test_universal(text: str) -> None:
    assert route(text) == UNIVERSAL
    assert route(text).home == ANYWHERE


@pytest.mark.parametrize("text", ["false", "x = null", "not true", "x = 1 and false", "x = 1 and null"])
def test_what_never_matches_has_no_route(text: str) -> None:
    assert route(text) == NEVER


def test_without_events_the_least_used_attribute_and_then_the_name_decides() -> None:
    chooser, parse = PivotChooser(), ShapeCache(Limits()).parse
    assert chooser.route(parse("a = 1 and b = 2")) == Route(("a",))
    assert chooser.uses == {"a": 1, "b": 1}
    assert chooser.route(parse("a = 1 and c = 2")) == Route(("c",))
    assert chooser.route(parse("a = 1 and b = 2 and c = 3")) == Route(("b",))


def test_an_over_long_expression_is_routed_without_multiplying_out() -> None:
    """Two to the fortieth clauses; normal_form.py keeps it as a conjunction of disjunctions."""
    pairs = " and ".join(f"(a{number} = 1 or b{number} = 1)" for number in range(40))
    assert route(pairs, {f"a{number}": 0.9 for number in range(39)}) == Route(("b39", "a39"))


def test_a_shape_is_looked_at_once_and_its_uses_counted_every_time() -> None:
    chooser, parse = PivotChooser(), ShapeCache(Limits()).parse
    parse("x = 1 and y = 2")  # a shape is made when its second text comes
    first = chooser.route(parse("x = 3 and y = 4"))
    assert chooser.route(parse("x = 5 and y = 6")) is first
    assert chooser.uses == {"x": 2, "y": 2}


def test_new_frequencies_choose_anew() -> None:
    chooser, parse = PivotChooser(), ShapeCache(Limits()).parse
    assert chooser.route(parse("x = 1 and y = 2")) == Route(("x",))
    seen = AttributeFrequencies()
    seen.observe(read_events([{"x": 1}, {"x": 2, "y": 3}]))
    chooser.refresh(seen)
    assert chooser.route(parse("x = 1 and y = 2")) == Route(("y",))


FREQUENT = st.dictionaries(st.sampled_from(sorted(ATTRIBUTES)), st.floats(0, 1))


def carries(found: Route, event: Any) -> bool:
    return found.universal or not event.keys().isdisjoint(found.attributes)


@given(cases(), FREQUENT)
def test_an_event_that_matches_carries_an_attribute_of_the_route(case: Case, frequency: dict[str, float]) -> None:
    found = PivotChooser(frequency).route(ShapeCache(Limits()).parse(write(case.tree)))
    for plain in case.events:
        event = flatten(plain)
        assert truth(case.tree, event) is not True or carries(found, event)


@given(cases(trees(most_leaves=24), most_events=3), FREQUENT)
def test_so_does_one_that_matches_a_long_expression(case: Case, frequency: dict[str, float]) -> None:
    found = PivotChooser(frequency).route_of_tree(case.tree)
    for plain in case.events:
        event = flatten(plain)
        assert truth(case.tree, event) is not True or carries(found, event)


@given(trees(), FREQUENT)
def test_the_most_frequent_attribute_of_a_route_comes_first(tree: Any, frequency: dict[str, float]) -> None:
    found = PivotChooser(frequency).route_of_tree(tree)
    known = [frequency.get(attribute, 0.0) for attribute in found.attributes]
    assert known == sorted(known, reverse=True)
    assert not (found.universal and found.attributes)
    assert len(set(found.attributes)) == len(found.attributes)


def interval_table(rows: list[tuple[int, str]]) -> PredicateTable:
    ids, names = zip(*rows, strict=True) if rows else ((), ())
    numbers = pa.array(range(len(rows)), pa.int64())
    columns = {"id": pa.array(ids, pa.int64()), "attribute": pa.array(names, pa.string())}
    return PredicateTable(pa.table({**columns, "low": numbers, "high": numbers}))


ROWS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abcde")), max_size=30)


@given(ROWS, st.dictionaries(st.sampled_from("abcde"), st.sampled_from([0.1, 0.5, 1.0])))
def test_rows_of_intervals_have_the_routes_of_their_texts(
    rows: list[tuple[int, str]], frequency: dict[str, float]
) -> None:
    table = interval_table(rows)
    chooser = PivotChooser(frequency)
    column = chooser.routes_of_rows(table)
    assert column.code.dtype == np.int32
    assert len(column.code) == len(table.ids)
    table.first_slot = 0
    for number, code in enumerate(column.code.tolist()):
        assert column.routes[code] == chooser.route_of_tree(table.tree_at(number))


def test_a_column_of_routes() -> None:
    routes = [Route(("a",)), UNIVERSAL, Route(("a",))]
    column = PivotColumn.of(routes)
    assert [column.routes[code] for code in column.code] == routes
    assert column.routes == [Route(("a",)), UNIVERSAL]
    assert len(PivotColumn.of([]).code) == 0


def test_rows_count_as_uses() -> None:
    chooser = PivotChooser()
    column = chooser.routes_of_rows(interval_table([(1, "a"), (1, "b"), (2, "a")]))
    assert [column.routes[code] for code in column.code] == [Route(("b",)), Route(("a",))]
    assert chooser.uses == {"a": 2, "b": 1}


@pytest.mark.parametrize("seed", range(3))
def test_many_texts_have_the_routes_of_each(seed: int) -> None:
    """With frequencies that tell all attributes apart, so that their uses do not matter."""
    random = Random(seed)
    texts = [expression(random, random.randint(1, 9)) for _ in range(300)]
    called = [
        "list_contains(a1, 'x')",
        "exists(a2, a1 > 1 and n = 2)",
        "ip_in(a3, '10.0.0.0/8')",
        "'x' = any(a4)",
        "a5 < a6",
        "a7 in (1, a8)",
    ]
    called += ["geo_within(a9, a10, 1, 2, 3)", "not list_has_any(a11, ['x', 'y'])", "(list_contains(a12, 'x')) is null"]
    texts += [
        f"{random.choice(('', 'not '))}({random.choice(called)} {random.choice(('and', 'or'))} {text})"
        for text in texts[:100]
    ]
    texts += called
    texts += ["true", "a1 = null or a2 = 1", "not (a1 is null)", "a1 = 1 or true", "not false and a3", "", "a1 ="]
    frequency = {f"a{number}": random.random() for number in range(30)}
    together, parse = PivotChooser(frequency), ShapeCache(Limits()).parse
    found = TextsToRoute(texts, Limits()).routes(together)
    assert found[:-2] == [PivotChooser(frequency).route(parse(text)) for text in texts[:-2]]
    alone = PivotChooser(frequency)
    for text in texts[:-2]:
        alone.route(parse(text))
    assert {name: count for name, count in together.uses.items() if count} == dict(alone.uses)
    assert found[-2:] == [None, None]


def expression(random: Random, leaves: int) -> str:
    if leaves == 1:
        name = f"a{random.randrange(30)}"
        ways = (
            "= 1",
            "is null",
            "is not null",
            "in (1, 2)",
            "!= null",
            "like '%x%'",
            "not ilike '%x%'",
            "between 1 and 2",
            "",
        )
        return f"{name} {random.choice(ways)}"
    left = random.randint(1, leaves - 1)
    parts = expression(random, left), expression(random, leaves - left)
    return f"{random.choice(('', 'not '))}({parts[0]} {random.choice(('and', 'or'))} {parts[1]})"
