"""A program as a user writes it, which mypy checks: nothing that the public interface returns is Any."""

# mypy: warn-unused-ignores
from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

import ray_pubsub
from ray_pubsub import (
    AckReport,
    AddReport,
    DeadLetter,
    Delivered,
    Delivery,
    Explanation,
    IndexPlan,
    IndexStats,
    MatchBatch,
    MatchIndex,
    PriorityBatch,
    PriorityExplanation,
    PriorityRules,
    PriorityStats,
    PublishResult,
    RebalanceReport,
    Rule,
    Server,
    ServerPlan,
    ServerStats,
    StoredSubscription,
)
from spark_bridge import LoadReport, load_subscriptions


def index() -> None:
    found = MatchIndex("dexin", merges="background", cache=64, limits=ray_pubsub.Limits(leaves=5))
    assert_type(found.add_many(["a"], ["x = 1"], atomic=True), AddReport)
    assert_type(found.match({"x": 1}), list[str | int])
    assert_type(found.match_many([{"x": 1}]), MatchBatch)
    assert_type(found.explain({"x": 1}), IndexPlan)
    assert_type(found.explain({"x": 1}, "a"), Explanation)
    assert_type(found.stats(), IndexStats)


def rules() -> None:
    found = PriorityRules(levels=["low", "high"], confirm=True)
    assert_type(found.add_many(["a"], ["high"], ["x = 1"]), AddReport)
    assert_type(found.levels_of([{"x": 1}]), PriorityBatch)
    assert_type(found.explain({"x": 1}), PriorityExplanation)
    assert_type(found.stats(), PriorityStats)


def server() -> None:
    with ray_pubsub.start(2, "folder", engine="dexin", mailbox={"capacity": 5, "overflow": "reject"}) as found:
        assert_type(found, Server)
        assert_type(found.subscribe("desk", "x = 1"), str | int)
        assert_type(found.subscribe_many(["a"], ["x = 1"], subscriber="desk"), AddReport)
        assert_type(found.prioritize_many(["r"], ["high"], ["x = 1"]), AddReport)
        assert_type(found.subscription("a"), StoredSubscription)
        assert_type(found.subscription("a").expression, str)
        assert_type(found.subscriptions("desk"), Iterator[StoredSubscription])
        assert_type(found.rules(), list[Rule])
        result = found.publish({"x": 1}, idempotency_key="k", timeout=5.0)
        assert_type(result, PublishResult)
        assert_type(result.deliveries, Delivered)
        assert_type(found.publish_stream([[{"x": 1}]], max_in_flight=2), Iterator[PublishResult])
        assert_type(found.poll("desk", wait=1.0), list[Delivery])
        assert_type(found.listen("desk"), AsyncIterator[Delivery])
        assert_type(found.ack(found.poll("desk")), AckReport)
        assert_type(found.dead_letters("desk"), list[DeadLetter])
        assert_type(found.explain({"x": 1}), ServerPlan)
        assert_type(found.explain({"x": 1}, "a"), Explanation)
        assert_type(found.stats(), ServerStats)
        assert_type(found.rebalance(), RebalanceReport)
    assert_type(ray_pubsub.connect(), Server)


def mistakes() -> None:
    """Each of these lines would be an unused ignore if mypy did not refuse it."""
    ray_pubsub.start(shard=2)  # type: ignore[call-arg]
    ray_pubsub.start(mailbox={"capasity": 5})  # type: ignore[arg-type]
    MatchIndex(casche=64)  # type: ignore[call-arg]
    MatchIndex(merges="backgroud")  # type: ignore[arg-type]
    ray_pubsub.connect().stats().shard  # type: ignore[attr-defined]  # noqa: B018


def spark(frame: object) -> None:
    assert_type(load_subscriptions(frame), LoadReport)  # type: ignore[arg-type]
