"""POST /v1/events: every format, every mistake, the bytes as they came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgpack
import pytest

from actors.client.server import Server
from actors.http.routes.publishing import portions_of
from actors.transport.matching import FEW_MATCHES
from tests.http.requesting import Interface

NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture(scope="module")
def subscriber(interface: Interface) -> Iterator[str]:
    for id, expression in (("p1", "price < 9"), ("p2", "price >= 5 and kind = 'book'"), ("p3", "data.price < 9")):
        assert (
            interface.ask("PUT", f"/v1/subscriptions/{id}", {"subscriber": "pub", "expression": expression}).status
            == 201
        )
    yield "pub"
    interface.ask("DELETE", "/v1/subscribers/pub")


def delivered(interface: Interface) -> list[tuple[str, Any]]:
    """Subscription and event of everything that waits, which is then acknowledged."""
    items = interface.ask("POST", "/v1/subscribers/pub/poll?limit=1000").data["items"]
    interface.ask("POST", "/v1/subscribers/pub/ack", {"receipts": [each["receipt"] for each in items]})
    return [(each["subscription_id"], each["event"]) for each in items]


def test_one_event(interface: Interface, subscriber: str) -> None:
    answer = interface.ask("POST", "/v1/events?matches=1", b'{"price": 7,\n "kind": "book", "x": 1e2}')
    assert answer.status == 200
    assert answer.data["events"] == 1
    assert {each["id"] for each in answer.data["results"][0]["matches"]} == {"p1", "p2"}
    assert answer.data["deliveries"]["delivered"] == 2
    assert sorted(delivered(interface))[0] == ("p1", {"price": 7, "kind": "book", "x": 100.0})


def test_many_lines_are_matched_as_the_server_does(interface: Interface, server: Server, subscriber: str) -> None:
    events = [{"price": number % 17, "kind": "book" if number % 3 else "pen", "n": number} for number in range(20_000)]
    body = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    assert len(body) > 700_000
    answer = interface.ask("POST", "/v1/events?deliver=false", body, headers=NDJSON).data
    assert answer["events"] == 20_000
    assert answer["matches"] == len(server.publish(events, deliver=False)) > 10_000


def test_bad_lines_are_reported_and_harm_no_other(interface: Interface, subscriber: str) -> None:
    answer = interface.ask(
        "POST", "/v1/events", b'{"price": 1}\nnonsense\n\n{"price": [1, {"a": 2}]}\n{"price": 2}\n', headers=NDJSON
    ).data
    assert (answer["events"], answer["matches"]) == (4, 2)
    assert answer["errors"][0]["position"] == 1
    assert answer["errors"][0]["type"] == "urn:ray-pubsub:EventError"
    assert sorted(event["price"] for _, event in delivered(interface)) == [1, 2]


def test_positions_and_keys_hold_over_many_portions(
    interface: Interface, subscriber: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bad lines are before, in and after the portions' edges; a repetition under the same key has the same portions."""
    size = 20_001  # the least, given the longest line of this interface
    monkeypatch.setattr(portions_of, "__defaults__", (size,))
    lines = [b'{"price": %d, "kind": "pen", "n": %d}' % (number % 50 + 8, number) for number in range(3000)]
    bad = [0, 5, 400, 1499, 1500, 2222, 2999]
    for place in bad:
        lines[place] = b"nonsense %d" % place
    lines[1000] = b'{"price": 8, "n": 99999999999999999999}'
    body = b"\n".join([*lines[:700], b"", b"  ", *lines[700:]])  # empty lines are no events
    assert len(body) > 4 * size
    key = {**NDJSON, "Idempotency-Key": "portions"}
    answer = interface.ask("POST", "/v1/events?strict=false", body, headers=key).data
    assert (answer["events"], answer["bad_events"]) == (3000, len(bad))
    assert [each["position"] for each in answer["errors"]] == bad
    assert [(each["position"], each["attribute"]) for each in answer["warnings"]] == [(1000, "n")]
    matching = sum(number % 50 == 0 and number not in bad for number in range(3000))
    assert (answer["matches"], answer["deliveries"]["delivered"]) == (matching, matching)
    again = interface.ask("POST", "/v1/events", body, headers=key).data["deliveries"]
    assert (again["delivered"], again["duplicates"]) == (0, matching)
    assert len(delivered(interface)) == matching
    results = interface.ask("POST", "/v1/events?deliver=false&matches=true", body, headers=NDJSON).data["results"]
    assert [place for place, each in enumerate(results) if each["matches"]][:3] == [50, 100, 150]
    assert len(results) == 3000


def test_values_that_cannot_be_used_are_left_out_and_reported(interface: Interface, subscriber: str) -> None:
    body = b'{"price": 1}\n{"price": 2, "n": 99999999999999999999}\n'
    answer = interface.ask("POST", "/v1/events", body, headers=NDJSON).data
    (warning,) = answer["warnings"]
    assert (answer["matches"], answer["bad_events"], answer["warning_count"]) == (2, 0, 1)
    assert (warning["position"], warning["attribute"]) == (1, "n")
    assert sorted((event for _, event in delivered(interface)), key=str) == [{"price": 1}, {"price": 2}]
    answer = interface.ask("POST", "/v1/events?strict=true", body, headers=NDJSON).data
    assert (answer["matches"], answer["bad_events"], "warnings" in answer) == (1, 1, False)
    delivered(interface)


def test_a_single_bad_event_is_an_error(interface: Interface, subscriber: str) -> None:
    answer = interface.ask("POST", "/v1/events", b"[1, 2")
    assert answer.status == 400
    answer = interface.ask("POST", "/v1/events", b'{"price": ')
    assert (answer.status, answer.headers["content-type"]) == (422, "application/problem+json")
    assert interface.ask("POST", "/v1/events", b" ").status == 422
    assert interface.ask("POST", "/v1/events", b"x=1", headers={"Content-Type": "text/csv"}).status == 415


def test_an_array_and_msgpack(interface: Interface, subscriber: str) -> None:
    assert interface.ask("POST", "/v1/events?deliver=0", [{"price": 1}, {"price": 2}]).data["matches"] == 2
    kind = {"Content-Type": "application/msgpack", "Accept": "application/msgpack"}
    answer = interface.ask("POST", "/v1/events?deliver=0", msgpack.packb([{"price": 1}, {"price": 20}]), headers=kind)
    assert msgpack.unpackb(answer.body)["matches"] == 1
    assert interface.ask("POST", "/v1/events", b"\xc1", headers=kind).status == 400
    odd = interface.ask("POST", "/v1/events?deliver=0", b'[{"price": 1, "x": NaN, "y": 1e999},\n 7]').data
    assert (odd["events"], odd["matches"], [each["position"] for each in odd["errors"]]) == (2, 1, [1])


def test_large_bodies_are_read_in_a_thread(interface: Interface, subscriber: str) -> None:
    events = [{"price": 1, "pad": "x" * 1000}] * 80
    packed = interface.ask(
        "POST", "/v1/events?deliver=0", msgpack.packb(events), headers={"Content-Type": "application/msgpack"}
    )
    array = interface.ask("POST", "/v1/events?deliver=0", events)
    assert (packed.data["matches"], array.data["matches"]) == (80, 80)
    broken = interface.ask("POST", "/v1/events?deliver=0", json.dumps(events).encode()[:-1])
    assert (broken.status, broken.data["title"]) == (400, "Bad request")


def test_wrong_formats_and_methods_say_what_is_right(interface: Interface) -> None:
    form = interface.ask("POST", "/v1/events", b"{}", headers={"Content-Type": "application/x-www-form-urlencoded"})
    assert form.status == 415 and "curl: --json" in form.data["detail"]
    method = interface.ask("DELETE", "/v1/events")
    assert (method.status, method.headers["allow"]) == (405, "POST")


def test_cloud_events_in_all_modes_are_one_event(interface: Interface, subscriber: str) -> None:
    envelope = {"specversion": "1.0", "id": "e1", "source": "/shop", "type": "sale", "data": {"price": 3}}
    structured = {"Content-Type": "application/cloudevents+json"}
    assert interface.ask("POST", "/v1/events", envelope, headers=structured).data["deliveries"]["delivered"] == 1
    # The same source and id again: it is known.
    assert interface.ask("POST", "/v1/events", envelope, headers=structured).data["deliveries"]["duplicates"] == 1
    binary = {"ce-specversion": "1.0", "ce-id": "e2", "ce-source": "/shop", "ce-type": "sale"}
    assert interface.ask("POST", "/v1/events", {"price": 4}, headers=binary).data["deliveries"]["delivered"] == 1
    batch = {"Content-Type": "application/cloudevents-batch+json"}
    assert interface.ask("POST", "/v1/events", [{**envelope, "id": "e3"}], headers=batch).data["matches"] == 1
    events = [event for _, event in delivered(interface)]
    assert [event["data"]["price"] for event in events] == [3, 4, 3]
    assert events[1]["type"] == "sale" and events[1]["datacontenttype"] == "application/json"
    missing = interface.ask("POST", "/v1/events", {"specversion": "1.0"}, headers=structured)
    assert (missing.status, missing.data["missing"]) == (422, ["id", "source", "type"])


@pytest.mark.parametrize("events", [1, 400])
def test_names_of_many_matches_are_asked_for_in_a_thread(
    interface: Interface, server: Server, monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    """Publications are made in the event loop or in a thread, by their size. A coordinator that does not answer would keep all other
    requests waiting."""
    ids = [f"crowd {number}" for number in range(FEW_MATCHES + 1)]
    server.subscribe_many(ids, ["crowd = 1"] * len(ids), subscriber="crowd")
    client = interface.app.backend.server._publisher._client
    names_of, asked = client.names_of, []

    def noted(*arguments: Any) -> Any:
        asked.append(asyncio._get_running_loop())
        return names_of(*arguments)

    interface.app.backend.server._publisher._names.clear()
    monkeypatch.setattr(client, "names_of", noted)
    try:
        lines = b'{"crowd": 1}\n' + b'{"pad": "to a body of some size"}\n' * (events - 1)
        found = interface.ask("POST", "/v1/events?matches=1&deliver=0", lines, headers=NDJSON).data
    finally:
        server.unsubscribe_many(ids)
    assert found["matches"] == len(ids)
    assert {each["subscriber"] for each in found["results"][0]["matches"]} == {"crowd"}
    assert asked == [None]


def test_a_repetition_under_the_same_key_is_delivered_once(interface: Interface, subscriber: str) -> None:
    body, key = b'{"price": 1}\n' * 3, {**NDJSON, "Idempotency-Key": "again"}
    assert interface.ask("POST", "/v1/events", body, headers=key).data["deliveries"]["delivered"] == 3
    assert interface.ask("POST", "/v1/events", body, headers=key).data["deliveries"]["duplicates"] == 3
    # Another client's key of the same name is another key.
    other = interface.ask("POST", "/v1/events", body, token="token-of-publisher", headers=key)
    assert other.data["deliveries"]["delivered"] == 3
    assert len(delivered(interface)) == 6
    assert interface.ask("POST", "/v1/events", body, headers={**NDJSON, "Idempotency-Key": "x" * 101}).status == 422
    # Portions of one request have keys of their own, which are nobody else's.
    long = b"".join(b'{"price": 1, "pad": "%s"}\n' % (b"x" * 15_000) for _ in range(80))
    portions = interface.ask("POST", "/v1/events", long, headers={**NDJSON, "Idempotency-Key": "k"}).data["deliveries"]
    alone = interface.ask("POST", "/v1/events", b'{"price": 1}', headers={"Idempotency-Key": "k#1"}).data["deliveries"]
    assert (portions["delivered"], alone["delivered"], alone["duplicates"]) == (80, 1, 0)
    assert len(delivered(interface)) == 81


def test_sizes_are_limited(interface: Interface, subscriber: str) -> None:
    answer = interface.ask("POST", "/v1/events", b'{"x": "' + b"a" * 100_000 + b'"}')
    assert (answer.status, answer.data["limit"]) == (413, 100_000)
    line = b'{"x": "' + b"a" * 2_000_000 + b'"}\n'
    assert interface.ask("POST", "/v1/events", line, headers=NDJSON).status == 413
