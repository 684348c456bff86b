"""explain(event): the plan of a match, on every engine."""

from __future__ import annotations

import json
import pickle
import random
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from ray_pubsub import MatchIndex
from ray_pubsub.engines.explain.plan import IndexPlan, Partitions, Pipeline, SegmentPlan, Step
from ray_pubsub.errors import EventError, UnknownSubscriptionError
from ray_pubsub.index.explanation import Explanation

ENGINES = ["auto", "dexin", "gem", "opindex", "rein", "scan"]
every_engine = pytest.mark.parametrize("engine", ENGINES)

BRANDS, COLORS = ["acme", "bosco", "corvid"], ["red", "green", "blue"]


def wish(chance: random.Random) -> str:
    brand, color, price = chance.choice(BRANDS), chance.choice(COLORS), chance.randrange(100)
    return chance.choice(
        [
            f"brand = '{brand}' and price <= {price}",
            f"color in ('{color}', 'black') and price between {price} and {price + 20}",
            f"(brand = '{brand}' or color = '{color}') and rating >= {chance.randrange(5)}",
            f"brand like '{brand[:2]}%' and seller is null and price != {price}",
            f"not sold and price > {price}",
            f"a{chance.randrange(30)} = {price}",
        ]
    )


def product(chance: random.Random) -> dict[str, Any]:
    event = {
        "brand": chance.choice(BRANDS),
        "color": chance.choice(COLORS),
        "price": chance.randrange(1000) / 10,
        "rating": chance.randrange(6),
        "sold": chance.random() < 0.5,
        "seller": "x",
        f"a{chance.randrange(30)}": chance.randrange(100),
        "unheard of": 1,
    }
    return {name: value for name, value in event.items() if chance.random() < 0.8}


def checked(index: MatchIndex, event: dict[str, Any]) -> IndexPlan:
    """What is true of every plan."""
    plan = index.explain(event)
    assert plan.matches == len(index.match(event))
    found = sum(part.matches for part in plan.parts)
    assert plan.matches == found - plan.removed - plan.repeated - plan.refused
    assert 0 <= plan.refused <= plan.asked
    for part in plan.parts:
        stored = sum(pipeline.matches for pipeline in part.pipelines)
        assert stored <= part.matches <= stored + part.shared and (part.matches > 0) == (stored > 0)
        partitions = part.partitions
        assert part.clauses == partitions.clauses_visited + partitions.clauses_skipped
    assert plan.seconds > 0
    return plan


@cache
def filled(engine: str) -> MatchIndex:
    """Segments, a tail, removed and replaced subscriptions."""
    chance, index = random.Random(1), MatchIndex(engine)
    count = 300 if engine == "scan" else 2500
    index.add_many(range(count), [wish(chance) for _ in range(count)])
    for number in range(count, count + 50):
        index.add(number, wish(chance))
    index.remove_many(range(0, count + 50, 9))
    index.add(1, "price >= 0")
    return index


@every_engine
def test_events_of_all_sorts(engine: str) -> None:
    index, chance = filled(engine), random.Random(2)
    plans = [checked(index, product(chance)) for _ in range(40)]
    assert any(plan.matches for plan in plans)
    if engine != "scan":
        assert any(plan.removed for plan in plans) and any(plan.repeated for plan in plans)
        assert all(plan.segments and plan.tails for plan in plans)
    checked(index, {})
    checked(index, {"brand": None, "price": float("nan"), "rating": "five"})


@every_engine
def test_the_segments_name_their_engine(engine: str) -> None:
    names = {segment.engine for segment in checked(filled(engine), {"price": 5}).segments}
    assert names and names <= ({"pivot", "dense", *ENGINES} - {"auto", "scan"} if engine == "auto" else {engine})


def test_intervals_that_all_subscriptions_have() -> None:
    chance, index = random.Random(3), MatchIndex()
    low = [[chance.randrange(1000) for _ in range(3)] for _ in range(5000)]
    texts = [
        " and ".join(f"x{place} between {value} and {value + 300}" for place, value in enumerate(row)) for row in low
    ]
    index.add_many(range(5000), texts)
    plan = checked(index, {"x0": 500, "x1": 600, "x2": 400.5})
    assert plan.matches == sum(
        all(value <= at <= value + 300 for value, at in zip(row, (500, 600, 400.5), strict=True)) for row in low
    )


@every_engine
def test_an_empty_index(engine: str) -> None:
    plan = checked(MatchIndex(engine), {"a": 1})
    assert (plan.matches, plan.tails) == (0, ())
    assert str(plan).startswith("0 matches in ")


def test_a_tail_only() -> None:
    index = MatchIndex()
    index.add_many(["s", "t", "u"], ["a = 1", "a = 2 or b = 1", "b = 1"])
    index.remove("u")
    plan = checked(index, {"a": 2, "b": 1})
    assert plan.segments == ()
    (tail,) = plan.tails
    assert (tail.engine, tail.clauses, tail.verified, tail.matches) == ("tail", 4, 4, 3)
    assert (plan.removed, plan.repeated, plan.asked, plan.matches) == (1, 1, 0, 1)


@every_engine
def test_a_conjunction_of_many_disjunctions(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("s", " and ".join(f"(x{place} = 0 or y{place} = 0 or z{place} is null)" for place in range(12)))
    event = {f"{name}{place}": 0 for name in "xyz" for place in range(12)}
    assert checked(index, event).matches == 1
    assert checked(index, event | {"x3": 5, "y3": 5}).matches == 0
    assert checked(index, event | {"x3": 5, "z0": None}).matches == 1
    assert checked(index, {}).matches == 1


@every_engine
def test_a_bad_event_is_an_error_as_in_match(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("s", "a = 1")
    errors = []
    for ask in (index.match, index.explain):
        with pytest.raises(EventError) as caught:
            ask(5)  # type: ignore[call-overload, arg-type]
        errors.append((caught.value.attribute, caught.value.reason))
    assert errors[0] == errors[1]


def test_with_an_id_it_is_about_that_subscription() -> None:
    index = MatchIndex()
    index.add(0, "a = 1")
    assert isinstance(index.explain({"a": 1}), IndexPlan)
    assert isinstance(index.explain({"a": 1}, 0), Explanation)
    with pytest.raises(UnknownSubscriptionError):
        index.explain({"a": 1}, "s")


def test_a_plan_changes_nothing() -> None:
    index, event = filled("auto"), {"brand": "acme", "price": 5, "rating": 4}
    before = index.match(event)
    for _ in range(3):
        index.explain(event)
    assert index.match(event) == before
    assert index.explain(event).segments[0].steps == index.explain(event).segments[0].steps


@every_engine
def test_it_travels(engine: str) -> None:
    plan = filled(engine).explain({"brand": "acme", "price": 5})
    assert pickle.loads(pickle.dumps(plan)) == plan
    plain = json.loads(json.dumps(plan.to_dict()))
    assert plain == plan.to_dict()
    assert plain["matches"] == plan.matches
    step = plain["segments"][0]["pipelines"][0]["steps"][0]
    assert set(step) == {"attribute", "method", "estimated", "actual"}


PLAN = IndexPlan(
    segments=(
        SegmentPlan(
            engine="dexin",
            clauses=65_000,
            partitions=Partitions("blocks", 1, 0, 65_000, 0),
            pipelines=(
                Pipeline(
                    "all clauses",
                    65_000,
                    (
                        Step("price", "exclusive, from a cache", 6_500.4, 6_712),
                        Step("[bold]", "inclusive", 12.34, 1),
                    ),
                ),
            ),
            verified=6_712,
            matches=1,
            seconds=0.00012,
        ),
    ),
    tails=(
        SegmentPlan(
            engine="tail",
            clauses=2,
            partitions=Partitions("whole", 1, 0, 2, 0),
            pipelines=(Pipeline("all clauses", 2, (Step("", "scanned, record by record", None, 2),)),),
            verified=2,
            matches=2,
            seconds=0.00003,
        ),
    ),
    removed=1,
    repeated=0,
    asked=1,
    refused=0,
    matches=2,
    seconds=0.0123,
)
WRITTEN = """\
2 matches in 12.3 ms; 1 segment, 1 tail, 65,002 clauses

dexin  65,000 clauses, 6,712 compared, 1 match, 120 µs
clauses              attribute  method                   estimated  actual
──────────────────────────────────────────────────────────────────────────
all clauses: 65,000  price      exclusive, from a cache      6,500   6,712
                     [bold]     inclusive                     12.3       1

tail  2 clauses, 2 compared, 2 matches, 30 µs
clauses         attribute  method                     estimated  actual
───────────────────────────────────────────────────────────────────────
all clauses: 2             scanned, record by record          -       2

1 left out: the subscription was removed
1 asked in full, as clauses do not decide them: 0 not true"""


def test_as_text() -> None:
    assert str(PLAN) == WRITTEN


def test_equal_clauses_are_told() -> None:
    segment = replace(PLAN.segments[0], shared=1_000, matches=5)
    text = str(replace(PLAN, segments=(segment,)))
    assert "1 segment, 1 tail, 66,002 clauses" in text
    assert "dexin  65,000 clauses, 1,000 equal to them, 6,712 compared, 5 matches, 120 µs" in text


def test_text_has_no_colours_and_fits() -> None:
    for engine in ENGINES:
        text = str(filled(engine).explain({"brand": "acme", "price": 5, "a3": 7, "sold": False}))
        assert "\x1b" not in text
        assert max(map(len, text.splitlines())) <= 80


def test_long_names_fit() -> None:
    step = Step("x" * 300, "y" * 200, 1e9, 10**9)
    segment = replace(PLAN.segments[0], pipelines=(Pipeline("pivot " + "z" * 100, 10**9, (step,)),))
    text = str(replace(PLAN, segments=(segment,)))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("x") >= 300 and text.count("z") >= 100


def test_colours_are_for_terminals() -> None:
    written = StringIO()
    Console(file=written, force_terminal=True, width=100, color_system="truecolor").print(PLAN)
    assert "\x1b[1m" in written.getvalue()


def test_of_many_pivots_those_that_meet_most_are_shown() -> None:
    pipelines = tuple(
        Pipeline(f"pivot p{number}", 500, (Step(f"p{number}", "equality looked up", 1.0, number),))
        for number in range(30)
    )
    partitions = Partitions("pivots", 30, 7, 15_000, 3_500)
    segment = SegmentPlan("pivot", 18_500, partitions, pipelines, 0, sum(range(30)), 0.001)
    text = str(IndexPlan((segment,), (), 0, 0, 0, 0, sum(range(30)), 0.001))
    assert "pivots: 30 visited (15,000 clauses), 7 skipped (3,500 clauses)" in text
    assert "pivot p29" in text and "pivot p22" in text and "pivot p21" not in text
    assert text.endswith(f"and 22 more, which met {sum(range(22))} clauses: {sum(range(22))} matches")


def test_computed_values_are_shown() -> None:
    index = MatchIndex()
    index.add("s", "lower(name) = 'ann' and price * 2 > 5 and length(other) > 1")
    plan = index.explain({"name": "ANN", "price": 4})
    assert plan.computed == (("lower(name)", "'ann'"), ("price * 2", "8"))
    assert "computed: lower(name) is 'ann'\ncomputed: price * 2 is 8\n" in str(plan)
    assert plan.to_dict()["computed"][1] == ["price * 2", "8"]
    assert index.explain({}).computed == ()
