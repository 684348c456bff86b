"""Publishing: events in every form and by every way, once each; bad ones are reported by position and do not affect the others."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray

from actors.client.server import Server
from ray_pubsub.errors import EventError, SettingError, TableError
from tests.cluster.joining_programs import begin, finish

EVENTS = [{"pub.kind": "form", "pub.x": 1}, {"pub.kind": "form", "pub.x": 7}]


@pytest.fixture(scope="module")
def subscribed(server: Server) -> Server:
    server.subscribe("forms", "pub.kind = 'form' and pub.x < 5", id="form-1")
    return server


def forms() -> dict[str, Any]:
    table = pa.Table.from_pylist(EVENTS)
    return {
        "list": EVENTS,
        "table": table,
        "record batch": table.to_batches()[0],
        "frame": pd.DataFrame(EVENTS),
        "nested": [{"pub": {"kind": "form", "x": 1}}, {"pub": {"kind": "form", "x": 7}}],
        "structs": pa.table({"pub": [{"kind": "form", "x": 1}, {"kind": "form", "x": 7}]}),
    }


@pytest.mark.parametrize("form", [*forms(), "reader", "iterator"])
def test_events_come_in_any_form(subscribed: Server, form: str) -> None:
    table = forms()["table"]
    others = {"reader": pa.RecordBatchReader.from_batches(table.schema, table.to_batches()), "iterator": iter(EVENTS)}
    result = subscribed.publish({**forms(), **others}[form])
    assert (result[0], result[1], result.errors) == (["form-1"], [], [])
    assert list(result.subscribers) == ["forms"]
    assert result.deliveries.delivered == 1
    (delivery,) = subscribed.poll("forms")
    assert delivery.event in (EVENTS[0], {"pub": {"kind": "form", "x": 1}})
    assert delivery.event_id == result.event_ids[0]
    subscribed.ack(delivery)


@pytest.mark.parametrize("form", ["bytes", "str", "list", "one document", "async"])
def test_events_come_as_json(subscribed: Server, form: str) -> None:
    events = forms()["nested"]
    lines = [json.dumps(event) for event in events]
    given = {
        "bytes": "\n".join(lines).encode(),
        "str": "\n".join(lines),
        "list": [line.encode() for line in lines],
        "one document": json.dumps(events[0], indent=2),
        "async": lines,
    }[form]
    result = asyncio.run(subscribed.publish_json_async(given)) if form == "async" else subscribed.publish_json(given)
    assert (result[0], len(result), result.errors) == (["form-1"], 1, [])
    (delivery,) = subscribed.poll("forms")
    assert delivery.event == events[0]
    subscribed.ack(delivery)


def test_many_json_events_go_in_portions_and_bad_ones_are_found_by_their_position(subscribed: Server) -> None:
    lines = [json.dumps({"pub.kind": "form", "pub.x": number % 10}) for number in range(10_000)]
    lines[9_000] = "{"
    result = subscribed.publish_json("\n".join(lines), deliver=False)
    assert (len(result), [error.position for error in result.errors]) == (5_000 - 1, [9_000])
    assert (result[8_999], result[9_001]) == ([], ["form-1"])


@pytest.mark.parametrize("form", forms())
def test_an_actor_is_called_directly_with_events_or_a_reference_to_them(subscribed: Server, form: str) -> None:
    import ray

    events = forms()[form]
    calls = [
        subscribed.coordinator.publish.remote(events, deliver=False),
        subscribed.coordinator.publish.remote(ray.put(events), deliver=False),
    ]
    for result in ray.get(calls, timeout=60):
        assert (result[0], result[1], result.errors) == (["form-1"], [], [])


def test_an_actor_is_called_directly_with_one_event(subscribed: Server) -> None:
    import ray

    for event in (EVENTS[0], ray.put(EVENTS[0])):
        call = subscribed.coordinator.publish.remote(event, idempotency_key="a name, not a number")
        result = ray.get(call, timeout=60)
        assert (result[0], list(result.subscribers)) == (["form-1"], ["forms"])
    assert len(polled(subscribed, "forms")) == 1  # the same name, so the same publication


def test_a_result_is_read_as_a_table(subscribed: Server) -> None:
    result = subscribed.publish([{**EVENTS[0], "id": "e1"}, {**EVENTS[1], "id": "e2"}], event_id="id", deliver=False)
    row = {"event_id": "e1", "subscription_id": "form-1", "subscriber": "forms", "priority": "low"}
    assert result.to_arrow().to_pylist() == [row]
    assert result.to_pandas().to_dict("records") == [row]
    assert list(result.pairs()) == [("e1", "form-1")]
    assert repr(result) == "PublishResult(1 match of 2 events)"


def test_ids_of_str_and_int_side_by_side(server: Server) -> None:
    ids: list[str | int] = ["mix", "1", 1, -5, 2**63 - 1]
    for identity in ids:
        server.subscribe("mixed", "mixed.x = 1", id=identity)
    result = server.publish([{"mixed.x": 1}, {"mixed.x": 2}], deliver=False)
    assert sorted(result[0], key=str) == sorted(ids, key=str)
    assert {type(identity) for identity in result[0]} == {str, int}
    assert result[1] == []
    assert server.subscription(1).id == 1 and server.subscription("1").id == "1"
    assert server.unsubscribe(1)
    assert server.subscription("1").id == "1"
    assert server.unsubscribe_many(ids) == 4


def test_no_events_and_no_matches(subscribed: Server) -> None:
    for nothing in ([], pa.table({"pub.x": pa.array([], pa.int64())}), pd.DataFrame({"pub.x": []}), iter(())):
        result = subscribed.publish(nothing)
        assert (len(result), len(result.event_ids), list(result.pairs()), result.errors) == (0, 0, [], [])
        assert result.to_arrow().num_rows == 0
    result = subscribed.publish([{}, {"nobody": 1}])
    assert (len(result), list(result.priorities), result[1]) == (0, ["low", "low"], [])


def polled(server: Server, subscriber: str) -> list[Any]:
    """The ids of all events that wait there, which are acknowledged."""
    found: list[Any] = []
    while deliveries := server.poll(subscriber, limit=10_000):
        found += [delivery.event_id for delivery in deliveries]
        server.ack(deliveries)
    return found


def test_many_events_go_in_portions_and_a_full_mailbox_says_so(server: Server) -> None:
    """25,000 is what a mailbox of this server holds."""
    server.subscribe("many", "many.x >= 0", id="many-1")
    server.subscribe("few", "many.x = 20000", id="many-2")
    events = pa.table({"many.x": np.arange(-1000, 25_500), "key": np.arange(26_500)})
    result = server.publish(events, event_id="key")
    assert result.event_ids.tolist() == list(range(26_500))
    assert result.counts().tolist() == [0] * 1000 + [1] * 20_000 + [2] + [1] * 5499
    assert sorted(result[21_000]) == ["many-1", "many-2"]
    assert (result.deliveries.delivered, result.deliveries.rejected) == (25_001, 500)
    assert result.deliveries.rejected_subscribers == ("many",)
    with pytest.raises(Exception, match="many"):
        result.raise_if_rejected()
    first = polled(server, "many")  # portions may overtake each other, so any 500 may have found it full
    again = server.publish(events, event_id="key")
    assert (again.deliveries.delivered, again.deliveries.duplicates) == (500, 25_001)
    second = polled(server, "many")
    assert (len(first), len(second)) == (25_000, 500)
    assert sorted(first + second) == list(range(1000, 26_500))
    server.unsubscribe("many-1")


def test_an_id_means_one_event_within_the_window(server: Server) -> None:
    server.subscribe("window", "window.x = 1", id="window-1")
    first = server.publish([{"window.x": 1, "key": "a"}, {"window.x": 1, "key": "b"}], event_id="key")
    second = server.publish([{"window.x": 1, "key": "b"}, {"window.x": 1, "key": "c"}], event_id="key")
    twice = server.publish([{"window.x": 1, "key": "d"}, {"window.x": 1, "key": "d"}], event_id="key")
    unnamed = [server.publish({"window.x": 1}) for _ in range(2)]
    assert [each.deliveries.delivered for each in (first, second, twice, *unnamed)] == [2, 1, 1, 1, 1]
    assert [each.deliveries.duplicates for each in (first, second, twice)] == [0, 1, 1]
    assert second[0] == ["window-1"]  # it matches, and was delivered before
    assert [each.event_id for each in server.poll("window")][:4] == ["a", "b", "c", "d"]


def test_a_publication_is_repeated_under_its_name(server: Server) -> None:
    server.subscribe("named", "named.x = 1", id="named-1")
    for key in ("first", "second", "first"):
        server.publish([{"named.x": 1}, {"named.x": 1}], idempotency_key=key)
    ids = [each.event_id for each in server.poll("named")]
    assert len(ids) == len(set(ids)) == 4


async def test_publishing_with_asyncio(subscribed: Server) -> None:
    result = await subscribed.publish_async(EVENTS, deliver=False)
    assert (result[0], result[1]) == (["form-1"], [])
    many = await subscribed.publish_async([EVENTS[0]] * 20_000, deliver=False)
    assert many.counts().tolist() == [1] * 20_000
    with pytest.raises(EventError):
        await subscribed.publish_async(5)


def test_terms_and_lists(server: Server) -> None:
    """Shards are found by the attributes that terms depend on, and sockets carry lists."""
    texts = {
        "rich-1": "list_contains(rich.tags, 'a') and lower(rich.name) = 'x'",
        "rich-2": "exists(rich.items, n > 1) or rich.a + rich.b = 5",
        "rich-3": "rich.at > now() - interval '1 hour'",
    }
    for identity, text in texts.items():
        server.subscribe("rich", text, id=identity)
    events: list[dict[str, Any]] = [
        {"rich.tags": ["a", 1, None], "rich.name": "X"},
        {"rich": {"tags": [], "name": "x", "items": [{"n": 1}, {"n": 2}]}},
        {"rich.a": 2, "rich.b": 3},
        {"rich.at": datetime.datetime.now(datetime.UTC)},
        {"rich.at": datetime.datetime(2020, 1, 1), "rich.tags": "a", "rich.name": "x"},
    ]
    wanted = [["rich-1"], ["rich-2"], ["rich-2"], ["rich-3"], []]
    before = time.time_ns() // 1000
    result = server.publish(events, deliver=False)
    assert [list(found) for found in result.matches()] == wanted
    assert result.moment == result.matches().moment
    assert result.moment is not None and before <= result.moment <= time.time_ns() // 1000
    assert "(now() - rich.at is" in str(server.explain(events[3], "rich-3"))
    table = pa.table({"rich.tags": [["b"], ["a"]], "rich.name": ["x", "X"]})
    assert [list(found) for found in server.publish(table).matches()] == [[], ["rich-1"]]
    assert [each.event for each in server.poll("rich")] == [{"rich.tags": ["a"], "rich.name": "X"}]
    for identity in texts:
        server.unsubscribe(identity)


def test_bad_events_are_told_by_position(server: Server) -> None:
    server.subscribe("bad", "bad.x = 1", id="bad-1")
    good = {"bad.x": 1}
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(2000):
        inner["k"] = inner = {}
    bad = [5, None, {"bad.x": b"1"}, {1: 1}, {"bad.x": 2**70}, {"s": "\ud800"}, {"bad.x": object()}, deep]
    events = [each for pair in zip([good] * len(bad), bad, strict=True) for each in pair]
    result = server.publish(events, strict=True)
    assert [error.position for error in result.errors] == list(range(1, 2 * len(bad), 2))
    assert result.counts().tolist() == [1, 0] * len(bad)
    assert result.deliveries.delivered == len(bad)
    assert result.errors[1].position == 3 and "NoneType" in str(result.errors[1])
    portions = server.publish([good] * 9000 + [{"bad.x": b"1"}] + [good], deliver=False, strict=True)
    assert [error.position for error in portions.errors] == [9000]
    assert len(portions) == 9001
    frame = pd.DataFrame({"bad.x": [1, 1, 1], "other": ["a", "\ud800", 5]})
    result = server.publish(frame, strict=True)
    assert ([error.position for error in result.errors], result.counts().tolist()) == ([1], [1, 0, 1])
    with_bytes = server.publish(pa.table({"bad.x": [1, 1], "bytes": [b"1", None]}), strict=True)
    assert [error.position for error in with_bytes.errors] == [0]
    assert with_bytes.counts().tolist() == [0, 1]
    missing = server.publish([good, {"bad.x": 1, "key": "k"}], event_id="key", deliver=False)
    assert ([error.position for error in missing.errors], missing.counts().tolist()) == ([0], [0, 1])


def test_values_that_cannot_be_used_are_left_out_and_reported(server: Server) -> None:
    """By every way of publishing: the event is matched and delivered with its other attributes."""
    server.subscribe("odd", "odd.x = 1", id="odd-1")
    odd = [{"odd.x": 1, "odd": {"y": b"1", "z": 2}}, {"odd.x": 1}, {"odd.x": 2**70}]
    table = pa.table({"odd.x": [1, 1, 2], "blob": [b"1", None, b"2"]})
    lines = '{"odd.x": 1, "odd": {"y": 99999999999999999999, "z": 2}}\n{"odd.x": 1}\n{"odd.x": 99999999999999999999}'
    ways: list[tuple[Any, list[tuple[int, str]]]] = [
        (server.publish(odd), [(0, "odd.y"), (2, "odd.x")]),
        (asyncio.run(server.publish_async(odd)), [(0, "odd.y"), (2, "odd.x")]),
        (next(iter(server.publish_stream([odd]))), [(0, "odd.y"), (2, "odd.x")]),
        (server.publish_json(lines), [(0, "odd.y"), (2, "odd.x")]),
        (asyncio.run(server.publish_json_async(lines)), [(0, "odd.y"), (2, "odd.x")]),
        (ray.get(server.coordinator.publish.remote(odd)), [(0, "odd.y"), (2, "odd.x")]),
        (server.publish(table), [(0, "blob"), (2, "blob")]),
    ]
    for result, expected in ways:
        assert [(warning.position, warning.attribute) for warning in result.warnings] == expected
        assert (result.errors, result.warning_count, result.counts().tolist()) == ([], 2, [1, 1, 0])
        assert result.matches().warnings == result.warnings
    usable = [{"odd.x": 1, "odd": {"z": 2}}, {"odd.x": 1}]
    assert [each.event for each in server.poll("odd")] == usable * (len(ways) - 1) + [{"odd.x": 1, "blob": None}] * 2
    for refused in (
        server.publish_json(lines, strict=True),
        asyncio.run(server.publish_async(odd, strict=True)),
        next(iter(server.publish_stream([odd], strict=True))),
    ):
        assert ([error.position for error in refused.errors], refused.warnings) == ([0, 2], [])
        assert refused.counts().tolist() == [0, 1, 0]
    many = server.publish([{"odd.x": 1}] * 8200 + [{"odd.x": 1, "y": b""}] * 200, deliver=False)
    assert (len(many), many.warning_count, len(many.warnings)) == (8400, 200, 100)
    assert many.warnings[0].position == 8200


@pytest.mark.parametrize("events", [5, None, "text", b"bytes", object()])
def test_what_is_no_events_is_refused(server: Server, events: Any) -> None:
    with pytest.raises(EventError, match="list of dicts"):
        server.publish(events)
    with pytest.raises(EventError):
        server.explain(events)


def test_what_else_is_refused(server: Server) -> None:
    assert len(server.publish(pd.Series([1, 2])).errors) == 2
    with pytest.raises(TableError):
        server.publish(pd.DataFrame([[1, 2]], columns=["x", "x"]))
    for arguments in (
        {"timeout": "x"},
        {"timeout": 0},
        {"timeout": -1.0},
        {"idempotency_key": 5},
        {"idempotency_key": "\ud800"},
    ):
        with pytest.raises(SettingError):
            server.publish({"x": 1}, **arguments)  # type: ignore[arg-type]


def test_an_event_is_delivered_as_it_was(server: Server) -> None:
    """Times, dates, decimals, maps, numbers of numpy: what the consumer gets is what was published, or what Arrow makes of it."""
    server.subscribe("whole", "whole.x = 1", id="whole-1")
    moment = datetime.datetime(2024, 5, 1, 10, 30, tzinfo=datetime.UTC)
    given = {
        "whole.x": np.int64(1),
        "at": moment,
        "on": moment.date(),
        "flag": np.bool_(True),
        "none": None,
        "deep": {"a": [][:0] or 1},
    }
    server.publish(given)
    nanoseconds = pa.array([1_714_559_400_000_001_001], pa.timestamp("ns"))
    maps = pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    server.publish(pa.table({"whole.x": [1], "at": nanoseconds, "map": maps}))
    server.publish(pd.DataFrame({"whole.x": [1.0], "mixed": [datetime.date(2024, 5, 1)], "none": [None]}))
    first, second, third = (delivery.event for delivery in server.poll("whole"))
    assert first == {**given, "whole.x": 1, "flag": True}
    assert second == {"whole.x": 1, "at": datetime.datetime(2024, 5, 1, 10, 30, 0, 1), "map": {"k": 1}}
    assert third is not None and third["whole.x"] == 1 and third["mixed"] == datetime.date(2024, 5, 1)


READ_YOUR_WRITES = """
import json, sys
import ray_pubsub
server, = json.loads(sys.argv[1])
seen = []
with ray_pubsub.connect(server) as server:
    for number in range(20):
        server.subscribe("elsewhere", f"elsewhere.x = {number}", id="elsewhere-1")
        seen.append(len(server.publish([{"elsewhere.x": number}, {"elsewhere.x": number - 1}])))
    server.subscribe("elsewhere", "elsewhere.y = 1", id="elsewhere-2")
print(json.dumps({"seen": seen}))
"""


def test_what_another_process_has_acknowledged_is_seen_at_once(server: Server, tmp_path: Path) -> None:
    (told,) = finish(begin(READ_YOUR_WRITES, "shared", folder=tmp_path))
    assert told["seen"] == [1] * 20
    assert server.publish({"elsewhere.y": 1, "elsewhere.x": 19})[0] in (
        ["elsewhere-1", "elsewhere-2"],
        ["elsewhere-2", "elsewhere-1"],
    )
    assert server.publish({"elsewhere.x": 18})[0] == []
    assert len(server.poll("elsewhere")) == 22


def test_explaining(server: Server) -> None:
    server.subscribe("why", "why.x < 5 and why.y is null", id="why-1")
    why = server.explain({"why.x": 7}, "why-1")
    assert "✗ why.x < 5" in str(why) and "✓ why.y is null" in str(why)
    how = server.explain({"why.x": 1})
    assert 1 <= len(how.shards) <= how.of == 2
    assert "visits" in str(how)
    assert server.explain({"nothing.of.it": 1}).of == 2
