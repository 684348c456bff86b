"""Subscribing: one by one or in bulk, as text or as intervals, replaced in one step; errors are reported by position and affect nothing
else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from actors.client.server import Server
from ray_pubsub.errors import (
    ExpressionLimitError,
    ExpressionSyntaxError,
    ExpressionTypeError,
    MetadataError,
    RayPubSubError,
    RejectedSubscriptionsError,
    SettingError,
    SubscriptionIdError,
    TableError,
    UnknownLevelError,
    UnknownSubscriptionError,
)


def everything(server: Server) -> tuple[int, int, int]:
    stats = server.stats().registry
    return stats["subscriptions"], stats["subscribers"], stats["rules"]


def test_a_subscription_is_added_replaced_and_removed(server: Server) -> None:
    identity = server.subscribe("life", "life.x = 1")
    assert server.publish({"life.x": 1}, deliver=False)[0] == [identity]
    assert server.subscribe("life", "life.y = 1", id=identity) == identity
    assert server.publish([{"life.x": 1}, {"life.y": 1}], deliver=False).counts().tolist() == [0, 1]
    server.subscribe("others", "life.y = 1", id=identity)
    assert list(server.publish({"life.y": 1}, deliver=False).subscribers) == ["others"]
    found = server.subscription(identity)
    assert (found.subscriber, found.kind, found.expression) == ("others", "text", "life.y = 1")
    assert list(server.subscriptions("life")) == []
    assert server.unsubscribe(identity) is True
    assert server.unsubscribe(identity) is False
    assert len(server.publish({"life.y": 1}, deliver=False)) == 0
    with pytest.raises(UnknownSubscriptionError):
        server.subscription(identity)
    with pytest.raises(UnknownSubscriptionError):
        server.explain({"life.x": 1}, identity)


def test_intervals_and_texts_replace_each_other(server: Server) -> None:
    def table(low: int) -> pa.Table:
        return pa.table(
            {"id": ["swap-1", "swap-2"], "attribute": ["swap.x"] * 2, "low": [low, low], "high": [low, low]}
        )

    def matching(x: int) -> list[str]:
        return sorted(server.publish({"swap.x": x}, deliver=False)[0])

    assert server.subscribe_many(table(1), subscriber="swap").added == 2
    assert (matching(1), matching(2)) == (["swap-1", "swap-2"], [])
    server.subscribe("swap", "swap.x = 2", id="swap-1")
    assert (matching(1), matching(2)) == (["swap-2"], ["swap-1"])
    server.subscribe_many(table(3), subscriber="swap")
    assert (matching(1), matching(2), matching(3)) == ([], [], ["swap-1", "swap-2"])
    assert (server.subscription("swap-1").kind, server.subscription("swap-1").expression) == ("intervals", "swap.x = 3")
    texts = pd.DataFrame({"id": ["swap-2", "swap-3"], "subscriber": ["swap", "swap"], "expression": ["swap.x = 4"] * 2})
    assert server.subscribe_many(texts).added == 2
    assert (matching(3), matching(4)) == (["swap-1"], ["swap-2", "swap-3"])


def test_pages(server: Server) -> None:
    ids = [f"page-{number}" for number in range(25)]
    server.subscribe_many(pa.table({"id": ids, "expression": ["page.x = 1"] * 25}), subscriber="pages")
    for page in (1, 7, 25, 1000, 1_000_000):
        assert [each.id for each in server.subscriptions("pages", page=page)] == ids
    reading = server.subscriptions("pages", page=5)
    seen = [next(reading).id for _ in range(5)]
    server.unsubscribe_many(["page-2", "page-9"])  # what is removed meanwhile moves no other
    assert seen + [each.id for each in reading] == [identity for identity in ids if identity != "page-9"]
    assert list(server.subscriptions("nobody")) == []


def test_many_at_once(server: Server) -> None:
    """More than one portion, in both ways, over all shards."""
    count = 21_000
    texts = pa.table({"id": np.arange(count) + 10_000_000, "expression": [f"bulk.x = {n % 100}" for n in range(count)]})
    assert server.subscribe_many(texts, subscriber="bulk").added == count
    assert len(server.publish({"bulk.x": 7}, deliver=False)) == 210
    intervals = pa.table(
        {
            "id": np.arange(count) + 10_000_000,
            "attribute": ["bulk.y"] * count,
            "low": np.arange(count),
            "high": np.arange(count) + 9,
        }
    )
    assert server.subscribe_many(intervals, subscriber="bulk").added == count
    result = server.publish([{"bulk.x": 7}, {"bulk.y": 500}], deliver=False)
    assert result.counts().tolist() == [0, 10]
    assert sorted(result[1]) == [10_000_000 + number for number in range(491, 501)]
    assert all(shard["subscriptions"] > 1000 for shard in server.stats().shards)
    assert server.unsubscribe_many(range(10_000_000, 10_003_000)) == 3000
    assert len(server.publish({"bulk.y": 500}, deliver=False)) == 0


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("bad", "x <"), ExpressionSyntaxError),
        (("bad", "x < 'a' + 1"), ExpressionTypeError),
        (("bad", "x regexp '('"), ExpressionTypeError),
        (("bad", 5), ExpressionTypeError),
        (("bad", None), ExpressionTypeError),
        (("bad", "x" * 2_000_000), ExpressionLimitError),
        ((5, "x = 1"), SettingError),
        ((None, "x = 1"), SettingError),
        (("\ud800", "x = 1"), SettingError),
        (("bad", "x = 1", True), SubscriptionIdError),
        (("bad", "x = 1", 1.5), SubscriptionIdError),
        (("bad", "x = 1", 2**63), SubscriptionIdError),
        (("bad", "x = 1", "\ud800"), SubscriptionIdError),
        (("bad", "x = 1", ["a"]), SubscriptionIdError),
    ],
)
def test_a_bad_subscription_is_refused(server: Server, arguments: tuple[Any, ...], error: type[RayPubSubError]) -> None:
    before = everything(server)
    with pytest.raises(error) as caught:
        server.subscribe(arguments[0], arguments[1], id=arguments[2] if len(arguments) > 2 else "bad-id")
    assert type(caught.value) is error  # our own, with its fields, not Ray's
    assert everything(server) == before


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda server: server.unsubscribe([1]), SubscriptionIdError),
        (lambda server: server.unsubscribe(None), SubscriptionIdError),
        (lambda server: server.unsubscribe_many(["refuse-1", None]), SubscriptionIdError),
        (lambda server: server.unsubscribe_many("refuse-1"), SettingError),
        (lambda server: server.unsubscribe_many(5), SettingError),
        (lambda server: server.subscription(1.5), SubscriptionIdError),
        (lambda server: list(server.subscriptions(5)), SettingError),
        (lambda server: list(server.subscriptions("x", page=0)), SettingError),
        (lambda server: list(server.subscriptions("x", page="y")), SettingError),
        (lambda server: server.prioritize("refuse", "urgent", "x = 1"), UnknownLevelError),
        (lambda server: server.prioritize("refuse", ["high"], "x = 1"), UnknownLevelError),
        (lambda server: server.prioritize("refuse", "high", "x ="), ExpressionSyntaxError),
        (lambda server: server.prioritize("refuse", "high", None), ExpressionTypeError),
        (lambda server: server.prioritize(None, "high", "x = 1"), SubscriptionIdError),
        (lambda server: server.unprioritize([]), SubscriptionIdError),
        (lambda server: server.rebalance(0.5), SettingError),
        (lambda server: server.rebalance("x"), SettingError),
        (lambda server: server.explain([1]), RayPubSubError),
        (lambda server: server.subscribe_many(5), SettingError),
        (lambda server: server.subscribe_many(pa.table({"id": [1]})), TableError),
        (lambda server: server.subscribe_many(pa.table({"id": [1], "expression": ["x = 1"]})), TableError),
        (
            lambda server: server.subscribe_many(pa.table({"id": [1], "expression": ["x = 1"]}), subscriber=5),
            SettingError,
        ),
        (lambda server: server.subscribe_many(intervals(attribute=[None]), subscriber="x"), TableError),
        (lambda server: server.subscribe_many(intervals(), subscriber=5), SettingError),
        (lambda server: server.subscribe_many(intervals()), TableError),
        (lambda server: server.subscribe_many(intervals(low=["a"]), subscriber="x"), RayPubSubError),
    ],
)
def test_what_else_is_refused(server: Server, call: Callable[[Server], Any], error: type[RayPubSubError]) -> None:
    server.subscribe("refuse", "refuse.x = 1", id="refuse-1")
    before = everything(server)
    with pytest.raises(error) as caught:
        call(server)
    assert type(caught.value).__module__ == "ray_pubsub.errors"
    assert everything(server) == before
    assert server.publish({"refuse.x": 1}, deliver=False)[0] == ["refuse-1"]


def intervals(**columns: list[Any]) -> pa.Table:
    return pa.table({"id": ["iv"], "attribute": ["iv.x"], "low": [1], "high": [2], **columns})


def test_bad_rows_of_a_table_are_told_by_position(server: Server) -> None:
    table = pa.table(
        {
            "id": ["row-0", "row-1", None, "row-3", "row-4", "row-5"],
            "subscriber": ["rows", "rows", "rows", None, "rows", "rows"],
            "expression": ["row.x = 1", "row.x =", "row.x = 1", "row.x = 1", None, "row.x = 1"],
        }
    )
    kinds = [(1, ExpressionSyntaxError), (2, SubscriptionIdError), (3, SettingError), (4, ExpressionTypeError)]
    before = everything(server)
    with pytest.raises(RejectedSubscriptionsError) as caught:
        server.subscribe_many(table, atomic=True)
    assert [(each.position, type(each.error)) for each in caught.value.rejections] == kinds
    assert everything(server) == before
    report = server.subscribe_many(table)
    assert report.added == 2
    assert [(each.position, type(each.error)) for each in report.rejections] == kinds
    assert sorted(server.publish({"row.x": 1}, deliver=False)[0]) == ["row-0", "row-5"]


def test_a_bad_row_far_behind_has_its_position_too(server: Server) -> None:
    texts = ["far.x = 1"] * 20_500
    texts[20_100] = "far.x ="
    table = pa.table({"id": np.arange(20_500) + 20_000_000, "expression": texts})
    with pytest.raises(RejectedSubscriptionsError) as caught:
        server.subscribe_many(table, subscriber="far", atomic=True)
    assert [each.position for each in caught.value.rejections] == [20_100]
    assert len(server.publish({"far.x": 1}, deliver=False)) == 0


def test_ids_with_expressions_are_as_good_as_a_table(server: Server) -> None:
    report = server.subscribe_many(
        ["plain-0", 10**12, "plain-2"], ["pl.x = 1", "pl.x = 1", "pl.x ="], subscriber="plain"
    )
    assert (report.added, [each.position for each in report.rejections]) == (2, [2])
    server.subscribe_many(("plain-3", "plain-4"), ["pl.x = 1"] * 2, subscriber=["first", "second"])
    found = server.publish({"pl.x": 1}, deliver=False)
    assert sorted(found.subscribers) == ["first", "plain", "plain", "second"]
    mixed = pd.DataFrame({"id": ["plain-0", 10**12], "subscriber": ["a", "b"], "expression": ["pl.y = 1"] * 2})
    assert server.subscribe_many(mixed).added == 2
    assert sorted(server.publish({"pl.y": 1}, deliver=False).subscribers) == ["a", "b"]
    assert server.unsubscribe_many(["plain-0", "plain-3", 10**12, "plain-4", "plain-0"]) == 4
    assert len(server.publish({"pl.y": 1}, deliver=False)) == 0
    for arguments in ((["a"],), (["a"], ["x = 1", "x = 2"]), ([], [])):
        with pytest.raises(SettingError):
            server.subscribe_many(*arguments)


def test_many_rules_at_once(server: Server) -> None:
    ids, levels, expressions = ["many-0", "many-1", "many-2"], ["high", "urgent", "critical"], ["mr.x = 1"] * 3
    with pytest.raises(RejectedSubscriptionsError):
        server.prioritize_many(ids, levels, expressions, atomic=True)
    assert server.publish({"mr.x": 1}, deliver=False).priorities.tolist() == ["low"]
    report = server.prioritize_many(pa.table({"id": ids, "level": levels, "expression": expressions}))
    assert (report.added, [type(each.error) for each in report.rejections]) == (2, [UnknownLevelError])
    assert server.publish({"mr.x": 1}, deliver=False).priorities.tolist() == ["critical"]
    assert [rule.level for rule in server.rules() if rule.expression == "mr.x = 1"] == ["high", "critical"]
    for rule in ids:
        server.unprioritize(rule)


def test_data_and_tags_come_back_on_request_and_select(server: Server) -> None:
    rule: dict[str, Any] = {"title": "Zu teuer", "refs": ["\0", 1.5, None]}
    server.subscribe("carry", "carry.x > 1", id="carry-1", data=rule, tags=["carry-a", "carry-b"])
    report = server.subscribe_many(
        ["carry-2", "carry-bad", "carry-3"], ["carry.x > 1"] * 3, subscriber="carry", data=["text", b"", None], tags=["carry-b"]
    )  # fmt: skip
    assert [(each.id, type(each.error)) for each in report.rejections] == [("carry-bad", MetadataError)]
    table = pa.table({"id": ["carry-4"], "attribute": ["carry.x"], "low": [2], "high": [9]})
    server.subscribe_many(table, subscriber="carry", data={"n": 4}, tags=["carry-a"])
    result = server.publish([{"carry.x": 5}, {"carry.x": 0}])
    expected = {
        "carry-1": (rule, ("carry-a", "carry-b")),
        "carry-2": ("text", ("carry-b",)),
        "carry-3": (None, ("carry-b",)),
        "carry-4": ({"n": 4}, ("carry-a",)),
    }
    found = zip(result.subscription_ids.tolist(), zip(result.data(), result.tags(), strict=True), strict=True)
    assert dict(found) == expected
    plain = server.poll("carry", wait=10.0)
    assert {each.subscription_id: (each.data, each.tags) for each in plain} == dict.fromkeys(expected, (None, ()))
    server.release(plain)
    delivered = server.poll("carry", wait=10.0, with_data=True)
    assert {each.subscription_id: (each.data, each.tags) for each in delivered} == expected
    server.ack(delivered)
    stored = server.subscription("carry-1")
    assert (stored.data, stored.tags) == expected["carry-1"]
    assert [each.id for each in server.subscriptions(tag="carry-a")] == ["carry-1", "carry-4"]
    assert [each.id for each in server.subscriptions("carry", tag="carry-b", page=1)] == [
        "carry-1",
        "carry-2",
        "carry-3",
    ]
    assert list(server.subscriptions("others", tag="carry-b")) == []
    later = server.publish({"carry.x": 5}, deliver=False)
    assert server.unsubscribe_many(tag="carry-b") == 3
    assert sorted(map(str, later.data())) == ["None", "None", "None", "{'n': 4}"], "asked for when it was wanted first"
    assert server.publish({"carry.x": 5}, deliver=False)[0] == ["carry-4"]
    assert server.unsubscribe_many(tag="carry-b") == 0
    with pytest.raises(MetadataError, match="4,096"):
        server.subscribe("carry", "carry.x > 1", data="x" * 5000)
    with pytest.raises(SettingError, match="tag instead"):
        server.unsubscribe_many()
