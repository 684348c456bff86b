"""Terms, functions and lists: every engine answers as the scan does, for one event, a batch, a saved index and Arrow's columns."""

from __future__ import annotations

import datetime
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.index.merge_policy import MergePolicy
from tests.examples import scaled
from tests.inside_of_index import segmented
from tests.rich_expressions import rich_events, rich_texts

every_engine = pytest.mark.parametrize("engine", [name for name in engine_names() if name != "scan"])


def matches(index: MatchIndex, events: Any) -> list[list[Any]]:
    found = index.match_many(events)
    assert not found.errors
    return [sorted(found[place]) for place in range(len(events))]


@every_engine
@settings(max_examples=scaled(13))
@given(
    texts=st.lists(rich_texts(), min_size=1, max_size=8),
    events=st.lists(rich_events(), min_size=1, max_size=6),
    ignore_case=st.booleans(),
)
def test_every_engine_answers_as_the_scan(
    engine: str, texts: list[str], events: list[dict[str, Any]], ignore_case: bool
) -> None:
    scan, index = MatchIndex("scan", ignore_case=ignore_case), MatchIndex(engine, ignore_case=ignore_case)
    for number, text in enumerate(texts):
        scan.add(number, text)
        index.add(number, text)
    expected = matches(scan, events)
    assert matches(index, events) == expected
    assert [sorted(index.match(event)) for event in events] == expected


@every_engine
@settings(max_examples=scaled(8))
@given(
    texts=st.lists(rich_texts(), min_size=1, max_size=5),
    events=st.lists(rich_events(), min_size=1, max_size=4),
    ignore_case=st.booleans(),
)
def test_blocks_and_saved_indexes_answer_as_the_scan(
    engine: str, texts: list[str], events: list[dict[str, Any]], ignore_case: bool
) -> None:
    """Each text several times, beside one that differs; a tail becomes a block early."""
    ids = list(range(20 * len(texts)))
    repeated = [f"{texts[number % len(texts)]} and coalesce(x, {number}) = {number}" for number in ids]
    scan, index = MatchIndex("scan", ignore_case=ignore_case), MatchIndex(engine, ignore_case=ignore_case)
    segmented(index).policy = MergePolicy(tail_clauses=16)
    scan.add_many(ids, repeated, atomic=True)
    index.add_many(ids, repeated, atomic=True)
    expected = matches(scan, events)
    assert matches(index, events) == expected
    assert matches(pickle.loads(pickle.dumps(index)), events) == expected
    index.remove_many(ids[::2])
    assert matches(index, events) == [[each for each in found if each % 2] for found in expected]


@every_engine
def test_the_answer_of_a_list_is_a_value(engine: str) -> None:
    texts = [
        "list_contains(l, 5)",
        "list_has_any(l, [null, 5])",
        "exists(l, n = 1)",
        "ip_in(s, '10.0.0.0/8')",
        "geo_within(a, a, 1, 1, 5)",
    ]
    texts = [form.format(text) for text in texts for form in ("{}", "{} is null", "{} = false", "not ({} is null)")]
    scan, index = MatchIndex("scan"), MatchIndex(engine)
    for number, text in enumerate(texts):
        scan.add(number, text)
        index.add(number, text)
    events = [
        {"l": [5], "s": "10.0.0.1", "a": 1},
        {"l": [{"n": 1}], "s": "::1", "a": 50},
        {"l": 5, "s": "q", "a": "1"},
        {},
    ]
    expected = matches(scan, events)
    assert matches(index, events) == expected
    assert [sorted(index.match(event)) for event in events] == expected


@every_engine
@pytest.mark.parametrize("form", ["{}", "not ({})", "a > 1 and {}", "{} or b = 3"])
def test_one_shape_with_many_constants(engine: str, form: str) -> None:
    """Functions whose tests depend on their constants, as a box across the antimeridian: what one text gives is no recipe for the next."""
    constants = [(n % 5 - 1, n % 7, n % 4 + 1, 4 - n % 6) for n in range(24)]
    texts = [
        template.format(*each)
        for template in (
            "geo_in_box(a, b, {0}, {1}, {2}, {3})",
            "geo_in_box(a, a, {0}, {1}, {2}, {3})",
            "geo_within(a, b, {0}, {1}, 20{1})",
            "geo_in_polygon(a, b, 'POLYGON(({0} 0, {1} 4, 4 {2}))')",
            "ip_in(s, '10.0.0.{1}/32', '::{2}')",
            "ip_in(s, '10.0.0.{1}')",
            "{0} <= any(l)",
            "{1} != all(l)",
            "list_has_all(l, [{1}, {2}])",
            "exists(o, n = {1} and m > {0})",
            "case when a > {0} then b else {1} end = {2}",
        )
        for each in constants
    ]
    texts = [form.format(text) for text in texts]
    events = [
        {"a": n % 4, "b": n % 3, "s": f"10.0.0.{n}", "l": [n, 2, 3], "o": [{"n": n, "m": 1}, {"n": 2, "m": n}]}
        for n in range(6)
    ]
    scan, index = MatchIndex("scan"), MatchIndex(engine)
    for number, text in enumerate(texts):
        scan.add(number, text)
        index.add(number, text)
    assert matches(index, events) == matches(scan, events)


@every_engine
def test_many_constants_on_one_list(engine: str) -> None:
    index = MatchIndex(engine)
    index.add_many(range(3000), [f"list_contains(tags, 't{number}')" for number in range(3000)], atomic=True)
    index.add("both", "list_has_all(tags, ['t1', 't2']) and not list_contains(tags, 't3')")
    events = [{"tags": ["t1", "t2", "t2"]}, {"tags": ["t3", "t1", "t2"]}, {"tags": []}, {"tags": "t1"}, {}]
    found = index.match_many(events)
    assert [set(found[place]) for place in range(5)] == [{1, 2, "both"}, {1, 2, 3}, set(), set(), set()]
    assert index.match({"tags": ["t2999", 5, None]}) == [2999]


@every_engine
@pytest.mark.parametrize("elements", [100_000, 100_001])
def test_a_long_list_is_used_up_to_the_limit(engine: str, elements: int) -> None:
    index = MatchIndex(engine)
    index.add("a", "list_contains(tags, 'last')")
    found = index.match_many([{"tags": ["x"] * (elements - 1) + ["last"]}, {"tags": ["last"]}])
    assert list(found[1]) == ["a"]
    assert list(found[0]) == (["a"] if elements == 100_000 else [])


@every_engine
def test_very_many_constants_of_one_list_has_all(engine: str) -> None:
    """More than have a flag each."""
    constants: list[int | str] = [*range(300), "a", True]
    wanted = f"list_has_all(l, [{', '.join(map(str, range(300)))}, 'a', true, null])"
    scan, index = MatchIndex("scan"), MatchIndex(engine)
    for number, text in enumerate([wanted, f"not {wanted}", f"({wanted}) is null"]):
        scan.add(number, text)
        index.add(number, text)
    events: list[dict[str, Any]] = [{"l": constants}, {"l": constants[1:]}, {"l": [*constants[:-1], 1]}, {"l": 5}, {}]
    expected = [[0], [1], [1], [2], [2]]
    assert matches(scan, events) == matches(index, events) == expected
    assert [index.match(event) for event in events] == expected


@pytest.mark.timeout(200)  # a guard against comparing each with each, which takes minutes
@pytest.mark.parametrize("engine", ["scan", "auto"])
def test_two_long_lists_are_compared_at_once(engine: str) -> None:
    index = MatchIndex(engine)
    index.add("any", "list_has_any(l, m)")
    index.add("all", "list_has_all(l, m)")
    index.add("constants", f"list_has_any(l, [{', '.join(map(str, range(-10_000, 0)))}])")
    numbers = list(range(20_000))
    events = [{"l": numbers, "m": numbers[::-1]}, {"l": numbers, "m": [-each - 1 for each in numbers]}]
    assert [sorted(index.match(event)) for event in events] == [["all", "any"], []]
    assert matches(index, events) == [["all", "any"], []]


@every_engine
def test_conditions_on_elements_of_lists_that_are_all_empty(engine: str) -> None:
    """Conditions with a test of absence are looked up in a batch of no elements."""
    index = MatchIndex(engine)
    index.add_many(["null", "not"], ["exists(o, n is null)", "not exists(o, n is null or m = 1)"])
    assert matches(index, [{"o": []}, {"o": []}, {}]) == [["not"], ["not"], []]
    assert matches(index, [{"o": []}, {"o": [{"m": 2}]}]) == [["not"], ["null"]]


@pytest.mark.timeout(200)  # a guard against what grows with the square of the elements
def test_conditions_on_very_many_elements() -> None:
    count = 100_000
    conditions = ["exists(o, n = -1)", f"exists(o, n = {count - 1} and s = 'a')", "not exists(o, n < 0)"]
    conditions += ["5 < any(l)", "5 <= all(l)", "x = any(l)", "x <= all(l)", f"{count - 1} = any(l)", "x != all(l)"]
    index = MatchIndex()
    index.add_many(range(len(conditions)), conditions, atomic=True)
    event = {"o": [{"n": number, "s": "a"} for number in range(count)], "l": list(range(count)), "x": -1}
    assert matches(index, [event]) == [[1, 2, 3, 6, 7, 8]]


NOW_ANYWHERE = [
    "case when at < now() then 'old' else 'new' end = 'old'",
    "if(at < now() - interval '1 hour', 1, 0) = 1",
    "(at < now()) = is_old",
    "exists(items, at < now())",
    "exists(items, exists(parts, if(at < now(), 1, 0) = 1))",
    "not exists(items, at >= now())",
    "case when exists(items, at < now()) then 1 end = 1",
    "at < now() - interval '1 month'",
    "to_timestamp(epoch(at)) < now() - interval '1 hour'",
    "add_months(at, 1) < add_months(now(), -1) + interval '1 day'",
    "if(date_trunc('month', now()) + interval 2 years > at, 1, 0) = 1 and at < now()",
]


@pytest.mark.parametrize("engine", engine_names())
def test_now_may_stand_in_conditions_used_as_values_and_in_those_on_elements(engine: str) -> None:
    index = MatchIndex(engine)
    index.add_many(range(len(NOW_ANYWHERE)), NOW_ANYWHERE, atomic=True)

    def event(year: int, is_old: bool) -> dict[str, Any]:
        at = datetime.datetime(year, 5, 1)
        return {"at": at, "is_old": is_old, "items": [None, {"at": at, "parts": [{"at": at}]}]}

    events = [event(2024, True), event(2200, True)]
    expected = [list(range(len(NOW_ANYWHERE))), []]
    assert matches(index, events) == expected
    assert [sorted(index.match(each)) for each in events] == expected
    assert index.match_many(events).moment is not None
    assert all(index.explain(events[0], number) for number in range(len(NOW_ANYWHERE)))


ON_ELEMENTS = {
    "exists(l, element like 'a%')": [0, 5],
    "exists(l, element > 2)": [1, 2, 5],
    "exists(l, element like '%b' or element regexp 'b.?')": [1, 5],
    "exists(l, lower(element) = 'ab' or element = 2)": [0, 2, 5],
    "exists(l, exists(element, element > 2))": [3],
    "exists(l, list_contains(element, 1))": [3],
    "not exists(l, element is not null)": [4, 6],
    "exists(l, element is null)": [6],
}


@pytest.mark.parametrize("engine", engine_names())
def test_an_element_that_is_no_object_is_called_element(engine: str) -> None:
    """An object may have an attribute of that name."""
    index = MatchIndex(engine)
    index.add_many(list(ON_ELEMENTS), list(ON_ELEMENTS), atomic=True)
    lists: list[Any] = [
        ["AB", "a"],
        [1, "b", 3],
        [{"element": 2}, {"element": 9}],
        [[1], [2, 3]],
        [None],
        [{"element": "ab"}, 7],
        [{}],
    ]
    events = [{"l": elements} for elements in [*lists, "a", None]]
    expected = [sorted(text for text, rows in ON_ELEMENTS.items() if row in rows) for row in range(len(events))]
    assert matches(index, events) == expected
    assert [sorted(index.match(event)) for event in events] == expected
