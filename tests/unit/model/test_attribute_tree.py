"""Only the attributes that matter are read of events, wherever they are; the rest is not looked at, whatever it is."""

from __future__ import annotations

import datetime
import random
import types
from collections import OrderedDict, defaultdict
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import EventError
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import flatten, from_dicts, read_single
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.values import Kind, Value
from tests.examples import scaled

NAMES = ["a", "b", "a.b", "a.b.c", "b.c", "a..b", ".a", "a.", "c.a.b"]
keys = st.sampled_from(["a", "b", "c", "a.b", "b.c", "a.b.c", "", ".a", "a.", ".b"])
scalars = st.one_of(
    st.none(),
    st.integers(-3, 3),
    st.sampled_from([2**53 + 1, 2**63, 0.5, float("nan"), True, "x", "é", "", "\ud800"]),
    st.sampled_from([b"bad", datetime.date(1970, 1, 2), [1]]),
)
nested = st.recursive(scalars, lambda inner: st.dictionaries(keys, inner, max_size=3), max_leaves=5)
dictionaries = st.dictionaries(keys, nested, max_size=4)


def problems(batch: EventBatch) -> list[tuple[int | None, str | None]]:
    return [(error.position, error.attribute) for error in batch.errors]


def expected(event: dict[str, Any], names: list[str]) -> dict[str, Value] | None:
    """What the event has of these attributes, walked through in the plainest way; None if one of them is bad."""
    found: dict[str, list[Any]] = {}

    def walk(inner: dict[str, Any], prefix: str) -> None:
        for key, raw in inner.items():
            if isinstance(raw, dict):
                walk(raw, prefix + key + ".")
            elif prefix + key in names:
                found.setdefault(prefix + key, []).append(raw)

    walk(event, "")
    values: dict[str, Value] = {}
    for name, raws in found.items():
        for raw in raws:
            try:
                value = flatten({"x": raw}).get("x")
            except EventError:
                return None
            if value is not None and name in values:
                return None
            if value is not None:
                values[name] = value
    return values


@settings(derandomize=True, deadline=None, max_examples=scaled(250))
@given(st.lists(dictionaries, min_size=1, max_size=5), st.lists(st.sampled_from(NAMES), unique=True))
def test_a_batch_has_the_attributes_that_were_asked_for(events: list[dict[str, Any]], names: list[str]) -> None:
    tree = AttributeTree(names)
    wanted = [expected(event, names) for event in events]
    for ending in (
        [],
        [{}] * 4,
    ):  # mostly empty events are narrower than the attributes are many, and are gone through by key
        rows = [*wanted, *({} for _ in ending)]
        batch = from_dicts([*events, *ending], attributes=tree)
        assert batch.rows() == [row for row in rows if row is not None]
        assert [error.position for error in batch.errors] == [place for place, row in enumerate(rows) if row is None]


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(dictionaries, st.lists(st.sampled_from(NAMES), unique=True))
def test_one_event_has_the_attributes_that_were_asked_for(event: dict[str, Any], names: list[str]) -> None:
    try:
        found: dict[str, Value] | None = flatten(event, AttributeTree(names))
    except EventError:
        found = None
    assert found == expected(event, names)


@settings(derandomize=True, deadline=None, max_examples=scaled(150))
@given(dictionaries, st.lists(st.sampled_from(NAMES), unique=True), st.booleans())
def test_one_event_is_read_without_an_object_per_value(event: dict[str, Any], names: list[str], wide: bool) -> None:
    """Reading one event has a fast way, with the same values, errors and warnings."""
    tree = AttributeTree([*names, *(f"other.{number}" for number in range(20 * wide))])
    for strict in (False, True):
        warnings: list[EventError] = []
        found: dict[str, Value] | str
        wanted: dict[str, Value] | str
        try:
            wanted = flatten(event, tree, None if strict else warnings)
        except EventError as error:
            wanted = str(error)
        try:
            single = read_single(event, tree, strict=strict)
            found = single.rows()[0]
            assert sorted(map(str, single.warnings)) == sorted(map(str, warnings))
        except EventError as error:
            found = str(error)
        assert found == wanted


def test_attributes_of_one_event_may_be_nested_anywhere() -> None:
    tree = AttributeTree(["process.name", "process.parent.pid", "event.code", "process", "level"])
    number, text = Value(Kind.NUMBER, 7), Value(Kind.STRING, "sh")
    for event in (
        {"process": {"name": "sh", "parent": {"pid": 7}}, "level": 7},
        {"process.name": "sh", "process.parent.pid": 7, "level": 7, "event": None},
        {"process.name": "sh", "process.parent": {"pid": 7}, "level": 7, "event": [1]},
        {"process": OrderedDict({"name": "sh", "parent.pid": 7, "other": b""}), "level": 7, "event": {"code": None}},
    ):
        (row,) = read_single(event, tree, strict=True).rows()
        assert row == {"process.name": text, "process.parent.pid": number, "level": number}


@pytest.mark.parametrize("few", [0, 3, 1000])
def test_sparse_events_with_nested_attributes(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few of many attributes each, nested or with dots in their keys: as if each event were read on its own."""
    monkeypatch.setattr("ray_pubsub.model.dicts.sparse_dicts.FEW", few)
    chosen = random.Random(few)
    names = [f"{first}.{second}.n{number}" for first in "pqr" for second in "xy" for number in range(3)]
    names += [f"p.n{number}" for number in range(9)] + ["p", "q.x", "plain", *(f"o.z{number}.k" for number in range(4))]
    raws: list[Any] = ["a", "b", "é", 7, 2.5, None, [1], {}, b"bad", OrderedDict(n1=1), {"n1": "c", "x": {"n2": 5}}]
    for size in (2, 5, 40):
        for kinds in (raws[:3], raws[:9], raws):
            events = []
            for _ in range(size):
                event: dict[Any, Any] = {"other": 1, 5: 6} if chosen.random() < 0.3 else {}
                for name in chosen.sample(names, 4):
                    *outer, key = name.split(".") if chosen.random() < 0.7 else [name]
                    inner = event
                    for prefix in outer:
                        inner = inner.setdefault(prefix, {})
                        if type(inner) is not dict:
                            break
                    else:
                        inner[key] = chosen.choice(kinds)
                events.append(event)
            check_batch(events, AttributeTree(names))


def check_batch(events: list[Any], tree: AttributeTree) -> None:
    batch = from_dicts(events, None, tree, strict=False)
    rows, errors, warnings = [], [], []
    for place, event in enumerate(events):
        left_out: list[EventError] = []
        try:
            rows.append(flatten(event, tree, left_out))
            warnings += [(place, error.attribute) for error in left_out]
        except EventError as error:
            errors.append((place, error.attribute))
    assert batch.rows() == rows
    assert problems(batch) == errors
    assert [(warning.position, warning.attribute) for warning in batch.warnings] == sorted(warnings)


def test_an_attribute_in_two_places_of_sparse_events() -> None:
    names = ["a.b", *(f"n{number}.k" for number in range(20))]
    either = [{"a": {"b": place}} if place % 2 else {"a.b": place} for place in range(60)]
    check_batch(either, AttributeTree(names))
    check_batch([*either, {"a": {"b": 1}, "a.b": 2}, {"a": {"b": 1}, "a.b": None}], AttributeTree(names))
    check_batch([*either, {"a": types.MappingProxyType({"b": 1})}], AttributeTree(names))


def test_wide_and_narrow_events_are_read_alike() -> None:
    """With few attributes these are looked up in the events, with many the events' keys among them."""
    events = [{f"k{number}": number for number in range(place, place + 10)} for place in range(50)]
    few, many = AttributeTree(["k5", "k40", "absent"]), AttributeTree(f"k{number}" for number in range(1000))
    assert from_dicts(events, attributes=many).rows() == from_dicts(events).rows()
    for got, event in zip(from_dicts(events, attributes=few).rows(), events, strict=True):
        assert got == {key: Value(Kind.NUMBER, value) for key, value in event.items() if key in ("k5", "k40")}


def test_a_tree_grows() -> None:
    tree = AttributeTree(["a.b"])
    assert flatten({"a": {"b": 1, "c": 2}}, tree) == {"a.b": Value(Kind.NUMBER, 1)}
    tree.add("a.c")
    tree.add("a.c")
    assert list(tree) == ["a.b", "a.c"]
    assert flatten({"a": {"b": 1, "c": 2}}, tree) == {"a.b": Value(Kind.NUMBER, 1), "a.c": Value(Kind.NUMBER, 2)}


def test_mappings_of_every_sort() -> None:
    events: list[Any] = [{"a": 1}, OrderedDict(a=2), types.MappingProxyType({"a": 3}), defaultdict(list, b=1), 5]
    batch = from_dicts(events, attributes=AttributeTree(["a", "x"]))
    assert [row.get("a") for row in batch.rows()] == [*(Value(Kind.NUMBER, number) for number in (1, 2, 3)), None]
    assert problems(batch) == [(4, None)]
    assert events[3] == {"b": 1}, "looking for a key makes none"


def test_nested_too_deep_where_it_matters() -> None:
    name = ".".join("a" * 60)
    event: dict[str, Any] = {"a": 1}
    for _ in range(59):
        event = {"a": event}
    with pytest.raises(EventError, match="nested more than"):
        flatten(event, AttributeTree([name]))
    assert problems(from_dicts([event, {name: 1}], attributes=AttributeTree([name]))) == [(0, "a." * 32 + "a")]
    assert flatten(event, AttributeTree(["a", "b"])) == {}


# --------------------------------------------------------------------------------------------- what nobody tests is not read

UNUSABLE: list[Any] = [b"bytes", [b"bytes"], object(), 2**64, "\ud800", 1j, datetime.timedelta(1)]


@pytest.mark.parametrize("engine", engine_names())
@pytest.mark.parametrize("raw", UNUSABLE, ids=lambda raw: type(raw).__name__)
def test_an_attribute_that_no_subscription_tests_harms_nothing(engine: str, raw: Any) -> None:
    index = MatchIndex(engine=engine)
    index.add("s", "x = 1 and a.b = 2")
    event = {"x": 1, "a": {"b": 2, "c": raw}, "y": raw, 5: 6}
    assert index.match(event) == ["s"]  # type: ignore[arg-type]
    found = index.match_many([event, {"x": raw}, event])
    assert [found[place] for place in range(3)] == [["s"], [], ["s"]]
    assert (found.errors, problems_of(found.warnings)) == ([], [(1, "x")])
    assert index.match({"x": raw}) == []
    strict = index.match_many([event, {"x": raw}, {"x": 1, "a": {"b": 2}}], strict=True)
    assert (list(strict)[2], [error.position for error in strict.errors]) == (["s"], [0, 1])
    assert index.explain(event, "s").matched  # type: ignore[arg-type]
    assert index.explain(event).matches == 1  # type: ignore[arg-type]


def test_what_no_subscription_tests_is_not_even_asked_for_its_class() -> None:
    class Untouchable:
        def __getattribute__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    index = MatchIndex()
    index.add("s", "x = 1 and a.b = 2")
    event = {"x": 1, "a": {"b": 2, "c": Untouchable()}, "y": Untouchable()}
    assert index.match(event) == ["s"]
    assert index.match_many([event, event]).counts().tolist() == [1, 1]


def problems_of(errors: list[EventError]) -> list[tuple[int | None, str | None]]:
    return [(error.position, error.attribute) for error in errors]


@pytest.mark.parametrize("raw", UNUSABLE, ids=lambda raw: type(raw).__name__)
def test_strict_checks_all_attributes(raw: Any) -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    with pytest.raises(EventError) as caught:
        index.match({"x": 1, "y": {"z": raw}}, strict=True)
    assert caught.value.attribute == "y.z"
    assert problems_of(index.match_many([{"x": 1}, {"x": 1, "y": raw}], strict=True).errors) == [(1, "y")]


def test_columns_that_no_subscription_tests_harm_nothing() -> None:
    index = MatchIndex()
    index.add("s", "x = 1 and s.p = 2 and m.k = 3")
    columns = {
        "x": pa.array([1, 1]),
        "y": pa.array([b"bad", None]),
        "s": pa.array([{"p": 2, "q": [1]}] * 2),
        "m": pa.array([[("k", 3), ("l", 4), ("l", 5)]] * 2, pa.map_(pa.string(), pa.int64())),
        "u": pa.UnionArray.from_sparse(pa.array([0, 0], pa.int8()), [pa.array([1, 2])]),
    }
    table = pa.table(columns)
    assert index.match_many(table).counts().tolist() == [1, 1]
    assert problems_of(index.match_many(table, strict=True).errors)[0] == (0, "y")
    frame = pd.DataFrame({"x": [1, 2], "y": pd.Series([b"?", object()], dtype=object)})
    index.add("t", "x = 2")
    assert index.match_many(frame).counts().tolist() == [0, 1]
    assert index.match_many(frame, event_id="x").event_ids.tolist() == [1, 2]


def test_events_without_anything_that_matters_are_events() -> None:
    index = MatchIndex()
    index.add("always", "true")
    for events in ([{"y": 1}, {}], pa.table({"y": [1, 2]}), pd.DataFrame({"y": [1, 2]})):
        assert index.match_many(events).counts().tolist() == [1, 1]


def test_what_only_a_residual_expression_asks_for_is_read() -> None:
    """Too large to be multiplied out, and nested too deep to be a conjunction of disjunctions: its candidates are asked themselves."""
    parts = [f"(a{number} = 1 or (b{number} = 1 and c{number} = 1))" for number in range(12)]
    text = " and ".join(parts)
    event = {name: 1 for number in range(12) for name in (f"b{number}", f"c{number}")}
    for engine in engine_names():
        index = MatchIndex(engine=engine)
        index.add("s", text)
        assert index.match(event) == ["s"], engine
        assert index.match_many([event, {**event, "c3": 2}]).counts().tolist() == [1, 0], engine


# ------------------------------------------------------------------------------------------------------- prepared batches


def test_a_batch_read_for_one_index_is_refused_by_another_that_tests_more() -> None:
    first, second = MatchIndex(), MatchIndex()
    first.add("s", "x = 1")
    second.add("t", "x = 1 and y is null")
    batch = read_events([{"x": 1, "y": 2}] * 2, attributes=AttributeTree(["x"]))
    assert first.match_many(batch).counts().tolist() == [1, 1]
    with pytest.raises(EventError, match="was not read") as caught:
        second.match_many(batch)
    assert caught.value.attribute == "y"
    both = read_events([{"x": 1, "y": 2}] * 2, attributes=AttributeTree(["x", "y"]))
    assert second.match_many(both).counts().tolist() == [0, 0]
    assert second.match_many(read_events([{"x": 1, "y": 2}])).counts().tolist() == [0]


def test_a_batch_is_refused_once_the_index_tests_more() -> None:
    tree = AttributeTree(["x"])
    batch = read_events([{"x": 1, "y": 2}] * 2, attributes=tree)
    tree.add("y")
    index = MatchIndex()
    index.add("t", "x = 1 and y is null")
    with pytest.raises(EventError, match="was not read"):
        index.match_many(batch)
