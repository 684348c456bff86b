"""Events of which a part cannot be used: that part is left out, with a warning, in whatever form they are given."""

from __future__ import annotations

import json
import types
from typing import Any

import pytest

from ray_pubsub.columns.json.json_events import from_json
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts, read_single
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import GIVEN_TWICE, TOO_DEEP, read_value


def forms_of(events: list[dict[str, Any]], tested: list[str] | None) -> list[EventBatch]:
    """Returns events that are good, but for some of their attributes, as every reader of dictionaries and JSON reads them."""
    tree = None if tested is None else AttributeTree(tested)
    sparse = AttributeTree([*(tested or []), *(f"other{number}" for number in range(50))])
    lines = [json.dumps(event, default=lambda raw: 1 << 70) for event in events]
    return [
        from_dicts(events, None, tree, strict=False),
        from_dicts(list(map(types.MappingProxyType, events)), None, tree, strict=False),
        from_dicts(events * 20, None, sparse if tree else None, strict=False),
        from_json(lines, None, tree, strict=False),
        from_json(lines * 20, None, tree, strict=False),
    ]


LEFT_OUT: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    ({"a.b": 1, "a": {"b": 2}, "c": 3}, {"c": 3}, "a.b"),
    ({"a": {"b": 2}, "a.b": "x", "c": 3}, {"c": 3}, "a.b"),
    ({"a.b": [1], "a": {"b": 2}, "c": 3}, {"c": 3}, "a.b"),
    ({"a": {"b": object()}, "a.b": 5, "c": 3}, {"c": 3}, "a.b"),
    ({"a.b": 5, "a": {"b": object()}, "c": 3}, {"c": 3}, "a.b"),
    ({"a": {"b": None}, "a.b": 5, "c": 3}, {"a.b": 5, "c": 3}, None),
    ({"a.b": {"d": 1}, "a": {"b": 2}, "c": 3}, {"a.b": 2, "a.b.d": 1, "c": 3}, None),
    ({"a": 7, "c": 3}, {"a": 7, "c": 3}, None),
]


@pytest.mark.parametrize("tested", [None, ["a", "a.b", "a.b.d", "c"]], ids=["all", "known"])
def test_what_is_given_twice_harms_that_attribute_alone(tested: list[str] | None) -> None:
    events = [event for event, _, _ in LEFT_OUT]
    wanted = [{name: read_value(raw) for name, raw in found.items()} for _, found, _ in LEFT_OUT]
    bad = [(place, name) for place, (_, _, name) in enumerate(LEFT_OUT) if name]
    for batch in forms_of(events, tested):
        copies = range(0, batch.size, len(events))
        assert batch.rows() == wanted * len(copies)
        assert batch.errors == []
        places = [(first + place, name) for first in copies for place, name in bad]
        assert [(each.position, each.attribute) for each in batch.warnings] == places
        assert {each.reason for each in batch.warnings} == {GIVEN_TWICE}
    for (event, found, name), row in zip(LEFT_OUT, wanted, strict=True):
        tree = None if tested is None else AttributeTree(tested)
        single = read_single(event, tree, strict=False)
        assert single.rows() == [row]
        assert [(each.attribute, each.reason) for each in single.warnings] == ([(name, GIVEN_TWICE)] if name else [])
        assert len(from_dicts([event, {}], None, tree).errors) == (name is not None)
        assert found.keys() == row.keys()


def nested(depth: int, raw: Any) -> Any:
    for _ in range(depth):
        raw = {"n": raw}
    return raw


@pytest.mark.parametrize("tested", [None, ["x", "n." * 40 + "y"]], ids=["all", "known"])
def test_what_is_nested_too_deeply_harms_nothing_else(tested: list[str] | None) -> None:
    for batch in forms_of([{"x": 1, **nested(40, {"y": 1})}, {"x": 2}], tested):
        assert [row["x"].plain for row in batch.rows()][:2] == [1, 2]
        assert [row.keys() for row in batch.rows()] == [{"x"}] * batch.size
        assert [each.position for each in batch.warnings] == list(range(0, batch.size, 2))
        assert {(each.attribute, each.reason) for each in batch.warnings} == {(("n." * 33)[:-1], TOO_DEEP)}


def test_a_name_that_is_no_text_harms_nothing_else() -> None:
    events: list[Any] = [{"x": 1, "counts": {5: 6, "b": 7}, 3: {"z": 1}}, {"x": 2}]
    batch = from_dicts(events, strict=False)
    assert batch.rows() == [{"x": read_value(1), "counts.b": read_value(7)}, {"x": read_value(2)}]
    assert [(each.position, each.attribute) for each in batch.warnings] == [(0, "3"), (0, "counts.5")]
    assert sorted(str(each.attribute) for each in read_single(events[0], None, strict=False).warnings) == [
        "3",
        "counts.5",
    ]


def test_an_event_that_holds_itself_twice_is_refused_soon() -> None:
    event: dict[str, Any] = {"x": 1}
    event["left"] = event["right"] = event
    for events in ([event], [event, {"x": 2}]):
        batch = from_dicts(events, strict=False)
        assert [(error.position, error.reason) for error in batch.errors] == [(0, TOO_DEEP)]
        assert batch.size == len(events) - 1
