"""Polling, settling, dead letters, and streams that are resumed."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgpack
import pytest

from actors.client.server import Server
from actors.http.settings import HttpSettings
from tests.http.conftest import running
from tests.http.requesting import Answer, Interface


@pytest.fixture
def mailbox(interface: Interface, request: pytest.FixtureRequest) -> Iterator[str]:
    """A subscriber that gets every event with its own name as an attribute."""
    name = f"box-{request.node.name.removeprefix('test_')}"
    interface.ask("PUT", f"/v1/subscriptions/{name}", {"subscriber": name, "expression": f"box = '{name}'"})
    yield name
    interface.ask("DELETE", f"/v1/subscribers/{name}")


def publish(interface: Interface, mailbox: str, *numbers: int) -> None:
    body = b"".join(json.dumps({"box": mailbox, "n": number}).encode() + b"\n" for number in numbers)
    answer = interface.ask("POST", "/v1/events", body, headers={"Content-Type": "application/x-ndjson"})
    assert answer.data["deliveries"]["delivered"] == len(numbers)


def poll(interface: Interface, mailbox: str, query: str = "") -> list[dict]:
    return interface.ask("POST", f"/v1/subscribers/{mailbox}/poll?limit=100{query}").data["items"]


def settle(interface: Interface, mailbox: str, how: str, items: list[dict], **more: object) -> Answer:
    receipts = [each["receipt"] for each in items]
    return interface.ask("POST", f"/v1/subscribers/{mailbox}/{how}", {"receipts": receipts, **more})


def test_settling(interface: Interface, mailbox: str) -> None:
    publish(interface, mailbox, 0, 1, 2)
    items = poll(interface, mailbox)
    assert [each["event"]["n"] for each in items] == [0, 1, 2]
    assert poll(interface, mailbox) == []
    assert settle(interface, mailbox, "ack", items[:1]).data == {"accepted": 1, "stale": []}
    stale = settle(interface, mailbox, "ack", items[:1]).data["stale"]
    assert stale == [{"position": 0, "receipt": items[0]["receipt"], "reason": "settled"}]
    settle(interface, mailbox, "release", items[1:2])
    settle(interface, mailbox, "nack", items[2:], delay=0, reason="no")
    again = {each["event"]["n"]: each["attempt"] for each in poll(interface, mailbox)}
    assert again == {1: 1, 2: 2}
    assert settle(interface, mailbox, "extend", [], seconds=5).data["accepted"] == 0
    assert interface.ask("POST", f"/v1/subscribers/{mailbox}/ack", {"receipts": ["nonsense"]}).status == 422
    assert interface.ask("GET", f"/v1/subscribers/{mailbox}/mailbox").data["acked"] == 1


def test_a_poll_waits_for_what_is_published(interface: Interface, server: Server, mailbox: str) -> None:
    """Also by another program than this interface."""
    found: list[list[dict]] = []
    waiting = threading.Thread(target=lambda: found.append(poll(interface, mailbox, "&wait=30")))
    waiting.start()
    interface.wait_until(lambda: len(interface.app.wakeups) > 0)
    server.publish({"box": mailbox, "n": 5})
    waiting.join(30)
    assert [each["event"]["n"] for each in found[0]] == [5]


def test_a_name_that_nobody_has_subscribed_as_is_reported(interface: Interface, mailbox: str) -> None:
    misspelt = f"{mailbox}s"
    path = f"/v1/subscribers/{misspelt}/poll"
    told = interface.ask("POST", path).data
    assert told["items"] == [] and repr(misspelt) in told["warning"] and f"did you mean {mailbox!r}?" in told["warning"]
    packed = interface.ask("POST", path, headers={"Accept": "application/msgpack"})
    assert msgpack.unpackb(packed.body) == told
    assert interface.ask("POST", f"/v1/subscribers/{mailbox}/poll").data == {"items": []}
    # Names of others are not for everybody.
    interface.ask("PUT", "/v1/subscriptions/anna-1", {"subscriber": "team_a", "expression": "zzz = 1"})
    hidden = interface.ask("POST", "/v1/subscribers/team-a/poll", token="token-of-the-team").data["warning"]
    assert "'team-a'" in hidden and "team_a" not in hidden
    with closing(interface.stream(f"/v1/subscribers/{misspelt}/stream")) as stream:
        assert stream.comment().startswith(f"warning: nobody has subscribed as {misspelt!r}")
    # As soon as somebody has, it is no longer said, and what waits comes.
    interface.ask("PUT", "/v1/subscriptions/late", {"subscriber": misspelt, "expression": "zzz = 2"})
    interface.ask("POST", "/v1/events", {"zzz": 2})
    assert len(interface.ask("POST", path).data["items"]) == 1
    for subscriber in (misspelt, "team_a"):
        interface.ask("DELETE", f"/v1/subscribers/{subscriber}")


def test_msgpack(interface: Interface, mailbox: str) -> None:
    publish(interface, mailbox, 1)
    answer = interface.ask("POST", f"/v1/subscribers/{mailbox}/poll", headers={"Accept": "application/msgpack"})
    assert msgpack.unpackb(answer.body)["items"][0]["event"] == {"box": mailbox, "n": 1}


def test_dead_letters_are_delivered_again(interface: Interface, mailbox: str) -> None:
    publish(interface, mailbox, 1)
    for _ in range(3):
        settle(interface, mailbox, "nack", poll(interface, mailbox), reason="broken")
    (dead,) = interface.ask("GET", f"/v1/subscribers/{mailbox}/dead-letters").data["items"]
    assert (dead["attempts"], dead["reason"], dead["event"]["n"]) == (3, "broken", 1)
    path = f"/v1/subscribers/{mailbox}/dead-letters"
    assert interface.ask("POST", f"{path}/redrive", {"sequences": [dead["sequence"]]}).data == {"redriven": 1}
    assert len(poll(interface, mailbox)) == 1
    assert interface.ask("POST", f"{path}/purge").data == {"purged": 0}


def test_a_stream_gets_what_waits_and_what_comes(interface: Interface, server: Server, mailbox: str) -> None:
    publish(interface, mailbox, 0, 1)
    stream = interface.stream(f"/v1/subscribers/{mailbox}/stream")
    assert stream.status == 200
    first = stream.take(2)
    server.publish({"box": mailbox, "n": 2})
    messages = [*first, *stream.take(1)]
    assert [json.loads(each["data"])["event"]["n"] for each in messages] == [0, 1, 2]
    assert [int(each["id"]) for each in messages] == [json.loads(each["data"])["sequence"] for each in messages]
    # On an open connection they are acknowledged by themselves.
    path = f"/v1/subscribers/{mailbox}/mailbox"
    interface.wait_until(lambda: interface.ask("GET", path).data["acked"] == 3)
    stream.close()


def test_a_stream_that_is_resumed_continues_after_the_last_message(interface: Interface, mailbox: str) -> None:
    publish(interface, mailbox, 0, 1, 2, 3, 4)
    path = f"/v1/subscribers/{mailbox}/stream?ack=manual"
    stream = interface.stream(path)
    messages = stream.take(5)
    stream.close()
    # The client has seen two: these are acknowledged, the other three come again at once, and it was no attempt.
    stream = interface.stream(path, headers={"Last-Event-ID": messages[1]["id"]})
    again = [json.loads(each["data"]) for each in stream.take(3)]
    assert [each["event"]["n"] for each in again] == [2, 3, 4]
    assert [each["attempt"] for each in again] == [1, 1, 1]
    assert interface.ask("GET", f"/v1/subscribers/{mailbox}/mailbox").data["acked"] == 2
    # Without an id nothing is settled: what the client has acknowledged itself is done, the rest is in flight.
    settle(interface, mailbox, "ack", again[:1])
    stats = interface.ask("GET", f"/v1/subscribers/{mailbox}/mailbox").data
    assert (stats["acked"], stats["in_flight"]) == (3, 2)
    stream.close()
    for wrong in ("x", "9" * 5000):
        assert interface.ask("GET", path, headers={"Last-Event-ID": wrong}).status == 422


def test_to_look_at_a_stream_takes_nothing(interface: Interface, mailbox: str) -> None:
    """The answer to HEAD has no body, so what it took would be acknowledged, and nobody would have seen it."""
    publish(interface, mailbox, 0)
    answer = interface.ask("HEAD", f"/v1/subscribers/{mailbox}/stream")
    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    (delivery,) = poll(interface, mailbox)
    assert delivery["attempt"] == 1


def test_what_json_lacks_is_null_when_it_is_delivered(interface: Interface, mailbox: str) -> None:
    """One such event would make a whole poll unreadable for most readers of JSON."""
    event = b'{"box": "%s", "x": [NaN, "Infinity", 1.50], "y": -Infinity}' % mailbox.encode()
    assert interface.ask("POST", "/v1/events", event).data["deliveries"]["delivered"] == 1
    body = interface.ask("POST", f"/v1/subscribers/{mailbox}/poll").body

    def constant(name: str) -> None:
        raise AssertionError(name)

    (found,) = json.loads(body, parse_constant=constant)["items"]
    assert (found["event"]["x"], found["event"]["y"]) == ([None, "Infinity", 1.5], None)


def test_a_stream_has_the_data_of_subscriptions_on_request(interface: Interface, mailbox: str) -> None:
    given = interface.ask("GET", f"/v1/subscriptions?subscriber={mailbox}").data["items"][0]
    body = {"subscriber": mailbox, "expression": given["expression"], "data": {"title": "cheap"}, "tags": ["b", "a"]}
    assert interface.ask("PUT", f"/v1/subscriptions/{given['id']}", body).status == 201
    publish(interface, mailbox, 0)
    stream = interface.stream(f"/v1/subscribers/{mailbox}/stream?data=true")
    (message,) = (json.loads(each["data"]) for each in stream.take(1))
    assert (message["data"], message["tags"], message["event"]["n"]) == ({"title": "cheap"}, ["a", "b"], 0)
    stream.close()


def test_a_window_limits_what_is_not_acknowledged(interface: Interface, mailbox: str) -> None:
    publish(interface, mailbox, *range(5))
    stream = interface.stream(f"/v1/subscribers/{mailbox}/stream?ack=manual&window=2")
    two = [json.loads(each["data"]) for each in stream.take(2)]
    assert interface.ask("GET", f"/v1/subscribers/{mailbox}/mailbox").data["in_flight"] == 2
    settle(interface, mailbox, "ack", two)
    assert [json.loads(each["data"])["event"]["n"] for each in stream.take(2)] == [2, 3]
    stream.close()


def test_nobody_is_cut_off_when_the_process_ends(server: Server, tmp_path: Path) -> None:
    server.subscribe("until-the-end", "until = 1", id="until-1")
    answers: list[Any] = []
    process = running(HttpSettings(server="http", port=0, state_dir=str(tmp_path), open=True))
    interface = next(process)
    path = "/v1/subscribers/until-the-end/poll?wait=60"
    waiting = threading.Thread(target=lambda: answers.append(interface.ask("POST", path)))
    with closing(interface.stream("/v1/subscribers/until-the-end/stream")) as stream:
        waiting.start()
        interface.wait_until(lambda: len(interface.app.wakeups) == 2)
        assert next(process, None) is None  # the interface is ended
        waiting.join(60)
        assert [(answer.status, answer.data) for answer in answers] == [(200, {"items": []})]
        assert stream.rest() == "retry: 2000\n\n"
    server.remove_subscriber("until-the-end")
