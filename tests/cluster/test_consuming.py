"""Consuming: the most urgent first, again until acknowledged, never after; what fails for good is kept apart."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pandas as pd
import pytest

from actors.client.offset_consuming import OffsetConsumer
from actors.client.server import Server
from actors.mailboxes.delivery import Delivery
from actors.mailboxes.host import MOST_POLLS
from ray_pubsub.errors import SettingError, UnknownSubscriberWarning


def filled(server: Server, name: str, count: int) -> None:
    """A subscriber of this name with `count` deliveries, numbered from 0."""
    server.subscribe(name, f"{name}.x >= 0", id=f"{name}-1")
    server.publish([{f"{name}.x": number, "id": f"{name}-{number}"} for number in range(count)], event_id="id")


def numbers(deliveries: list[Delivery]) -> list[int]:
    return [int(delivery.event_id.rpartition("-")[2]) for delivery in deliveries]


def test_the_most_urgent_come_first(server: Server) -> None:
    for rule, level, text in (
        ("urgent-1", "critical", "urgent.x = 3"),
        ("urgent-2", "high", "urgent.x >= 3"),
        ("urgent-3", "normal", "urgent.x = 0"),
    ):
        server.prioritize(rule, level, text)
    filled(server, "urgent", 5)
    found = server.poll("urgent", limit=3) + server.poll("urgent", limit=3)
    assert numbers(found) == [3, 4, 0, 1, 2]
    assert [each.priority for each in found] == ["critical", "high", "normal", "low", "low"]
    assert all(server.unprioritize(f"urgent-{rule}") for rule in (1, 2, 3))
    assert list(server.publish({"urgent.x": 3}, deliver=False).priorities) == ["low"]


def test_acknowledged_is_done(server: Server) -> None:
    filled(server, "done", 4)
    found = server.poll("done", limit=3)
    assert [each.subscriber for each in found] == ["done"] * 3
    assert found[0].event == {"done.x": 0, "id": "done-0"}
    assert server.ack(found[0]).accepted == 1
    report = server.ack(found)
    assert (report.accepted, [(each.position, each.reason) for each in report.stale]) == (2, [(0, "settled")])
    assert numbers(server.poll("done")) == [3]
    assert server.poll("done") == []


def test_refused_comes_again_until_it_is_a_dead_letter(server: Server) -> None:
    filled(server, "refused", 2)
    attempts = []
    for _ in range(16):
        found = server.poll("refused", limit=1)
        attempts.append(found[0].attempt)
        server.nack(found, reason="no good")
    assert attempts == list(range(1, 17))
    (letter,) = server.dead_letters("refused")
    assert (letter.event_id, letter.attempts, letter.reason) == ("refused-0", 16, "no good")
    assert letter.event == {"refused.x": 0, "id": "refused-0"}
    assert numbers(server.poll("refused")) == [1]
    assert server.redrive("refused", [letter.sequence]) == 1
    (again,) = server.poll("refused")
    assert (again.event_id, again.attempt) == ("refused-0", 1)
    assert server.purge_dead("refused") == 0


def test_what_is_not_settled_in_time_comes_again(server: Server) -> None:
    filled(server, "late", 2)
    (second,) = server.poll("late", limit=1)
    (first,) = server.poll("late", limit=1, visibility_timeout=0.01)
    (again,) = server.poll("late", wait=30)
    assert (again.event_id, again.attempt) == (first.event_id, 2)
    stale = server.ack([second, first])
    assert (stale.accepted, stale.stale[0].reason, stale.stale[0].position) == (1, "redelivered", 1)
    assert server.extend(again, 300).accepted == 1
    assert server.release(again).accepted == 1
    assert server.poll("late")[0].attempt == 2  # looked at by nobody, so that was no attempt


def test_a_poll_waits_for_the_next_delivery(server: Server) -> None:
    server.subscribe("waiting", "waiting.x = 1", id="waiting-1")
    found: list[Delivery] = []
    consumer = threading.Thread(target=lambda: found.extend(server.poll("waiting", wait=60)))
    consumer.start()
    server.publish({"waiting.x": 1})
    consumer.join(60)
    assert [each.subscription_id for each in found] == ["waiting-1"]
    assert server.poll("waiting", wait=0.05) == []


def test_one_call_settles_deliveries_of_several_subscribers(server: Server) -> None:
    filled(server, "several", 3)
    server.subscribe("another", "several.x >= 0", id="several-2")
    server.publish({"several.x": 1, "id": "several-9"}, event_id="id")
    found = server.poll("several") + server.poll("another")
    assert server.ack(found[:1]).accepted == 1
    report = server.ack(found)
    assert (report.accepted, [each.position for each in report.stale]) == (4, [0])


def test_two_subscriptions_of_one_subscriber_are_two_deliveries(server: Server) -> None:
    filled(server, "twice", 0)
    server.subscribe("twice", "twice.x = 1", id="twice-2")
    server.publish({"twice.x": 1})
    assert sorted(each.subscription_id for each in server.poll("twice")) == ["twice-1", "twice-2"]


async def test_polling_with_asyncio(server: Server) -> None:
    server.subscribe("async", "async.x >= 0", id="async-1")
    waiting = asyncio.create_task(server.poll_async("async", wait=60))
    await server.publish_async({"async.x": 1})
    found = await waiting
    assert [each.event for each in found] == [{"async.x": 1}]
    assert (await server.ack_async(found)).accepted == 1
    assert await server.poll_async("async") == []
    with pytest.raises(SettingError):
        await server.poll_async("async", limit=0)


async def test_more_may_wait_than_there_are_places(server: Server) -> None:
    names = [f"crowd-{number}" for number in range(MOST_POLLS + 12)]
    for name in names:
        server.subscribe(name, "crowd.x = 1", id=name)
    waiting = [asyncio.create_task(server.poll_async(name, wait=60)) for name in names]
    await server.publish_async({"crowd.x": 1})
    found = await asyncio.gather(*waiting)
    assert [[each.subscription_id for each in own] for own in found] == [[name] for name in names]


async def test_what_a_listener_did_not_reach_goes_back(server: Server) -> None:
    filled(server, "listening", 5)
    seen = []
    listening = server.listen("listening", limit=10)
    async for delivery in listening:
        seen.append(delivery)
        await server.ack_async(delivery)
        if len(seen) == 2:
            break
    await listening.aclose()  # type: ignore[attr-defined]
    rest = server.poll("listening")
    assert (numbers(seen), numbers(rest)) == ([0, 1], [2, 3, 4])
    assert [each.attempt for each in rest] == [1, 1, 1]


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("poll", {"subscriber": 5}),
        ("poll", {"subscriber": None}),
        ("poll", {"subscriber": "x", "limit": 0}),
        ("poll", {"subscriber": "x", "limit": "1"}),
        ("poll", {"subscriber": "x", "wait": "1"}),
        ("poll", {"subscriber": "x", "wait": -1}),
        ("poll", {"subscriber": "x", "wait": float("nan")}),
        ("poll", {"subscriber": "x", "visibility_timeout": -1}),
        ("poll", {"subscriber": "x", "visibility_timeout": float("inf")}),
        ("ack", {"deliveries": 5}),
        ("ack", {"deliveries": "x"}),
        ("ack", {"deliveries": [5]}),
        ("dead_letters", {"subscriber": 5}),
        ("dead_letters", {"subscriber": "x", "limit": 0}),
        ("redrive", {"subscriber": 5}),
        ("redrive", {"subscriber": "x", "sequences": "abc"}),
        ("redrive", {"subscriber": "x", "sequences": 1.5}),
        ("purge_dead", {"subscriber": None}),
        ("purge_dead", {"subscriber": "x", "sequences": [None]}),
    ],
)
def test_what_is_refused(server: Server, method: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        getattr(server, method)(**arguments)


def test_bad_settling_settles_nothing(server: Server) -> None:
    filled(server, "settling", 2)
    found = server.poll("settling")
    for refused in (
        lambda: server.ack([*found, 5]),  # type: ignore[list-item]
        lambda: server.nack(found, delay=-1),
        lambda: server.nack(found, delay="x"),  # type: ignore[arg-type]
        lambda: server.nack(found, reason=5),  # type: ignore[arg-type]
        lambda: server.extend(found, float("nan")),
    ):
        with pytest.raises(SettingError):
            refused()
    assert server.ack(found).accepted == 2


def test_a_subscriber_that_a_stream_has_read_is_polled_again(server: Server) -> None:
    filled(server, "streamed", 3)
    reader = OffsetConsumer(server)
    place = reader.begin("streamed")
    with pytest.raises(SettingError, match=r"server\.end_stream\('streamed'\)"):
        server.poll("streamed")
    reader.ack_through("streamed", place._replace(sequence=reader.bounds("streamed", place, None, 1)[0]))
    assert server.end_stream("streamed") == 2
    assert numbers(server.poll("streamed")) == [1, 2]
    assert server.end_stream("streamed") == 0  # said again; both are in flight


def test_bad_arguments_are_told_before_anything_is_sent(server: Server) -> None:
    for call in (
        lambda: server.publish({"x": 1}, event_id=["x"]),  # type: ignore[arg-type]
        lambda: asyncio.run(server.publish_async({"x": 1}, event_id=["x"])),  # type: ignore[arg-type]
        lambda: server.publish({"x": 1}, deliver="no"),  # type: ignore[arg-type]
        lambda: server.publish({"x": 1}, idempotency_key=5),  # type: ignore[arg-type]
        lambda: server.publish({"x": 1}, timeout=-1),
        lambda: server.publish_stream([], event_id=5),  # type: ignore[arg-type]
        lambda: server.subscribe("", "x = 1"),
        lambda: server.nack([], delay=-1),
        lambda: server.redrive("desk-1", 5),  # type: ignore[arg-type]
        lambda: server.subscriptions("desk-1", page=0),
    ):
        with pytest.raises(SettingError):
            call()


def test_a_removed_subscriber_leaves_nothing(server: Server) -> None:
    filled(server, "leaving", 3)
    server.subscribe("leaving", "leaving.y = 1", id="leaving-2")
    mailboxes = server.stats(hot=0).mailboxes
    assert mailboxes is not None
    assert server.remove_subscriber("leaving") == 2
    assert list(server.subscriptions("leaving")) == [] and server.poll("leaving") == []
    after = server.stats(hot=0).mailboxes
    assert after is not None and after.mailboxes == mailboxes.mailboxes - 1
    assert server.remove_subscriber("leaving") == 0
    filled(server, "leaving", 1)
    assert server.poll("leaving") == []  # the event's id was published before
    server.publish({"leaving.x": 1})
    assert len(server.poll("leaving")) == 1


def test_one_bad_event_harms_no_other(server: Server) -> None:
    server.subscribe("careful", "careful.x >= 0", id="careful-1")
    bad = {"careful.x": 2, "when": np.datetime64("20000-01-01")}
    result = server.publish([{"careful.x": 1, "note": pd.NA}, bad, {"careful.x": 3, "na\ud800me": 1}, {"careful.x": 4}])
    assert [error.position for error in result.errors] == [1, 2]
    events = [each.event for each in server.poll("careful")]
    assert events == [{"careful.x": 1, "note": None}, {"careful.x": 4}]


def test_a_name_that_nobody_has_subscribed_as_is_reported_once(server: Server) -> None:
    server.subscribe("misspelt-ann", "misspelt.x = 1", id="misspelt-1")
    with pytest.warns(UnknownSubscriberWarning, match="nobody has subscribed as 'misspelt-anne'.*'misspelt-ann'"):
        assert server.poll("misspelt-anne") == []
    assert server.poll("misspelt-anne") == server.poll("misspelt-ann") == []  # a warning would be an error here
