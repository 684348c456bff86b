"""Messages of every kind and shape, for tests of their frames."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from actors.client.preparing import prepare
from actors.transport.frames import Frame, packed, unpacked
from actors.transport.matching import MatchRequest, ShardReply
from actors.transport.object_refs import SharedEvents
from actors.transport.publish_reply import Delivered, PublishReply
from actors.transport.published_events import PublishRequest
from ray_pubsub.errors import EventError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding.merging import ShardMatches, unpacked_ids

__all__ = [
    "BATCHES",
    "EVENTS",
    "MATCHES",
    "MATCHES_OF_ONE",
    "changed",
    "changed_matches",
    "match_request",
    "publish_reply",
    "publish_reply_about_one",
    "publish_request",
    "same_matches",
    "sent",
    "shard_reply",
    "shard_reply_about_one",
]

MOMENT = datetime.datetime(2026, 1, 1, 12, 30, tzinfo=datetime.UTC)
MIXED = {
    "model": "iphone5s",
    "price": 550.5,
    "ok": True,
    "when": MOMENT,
    "big": 2**53 + 1,
    "nested": {"a": "ü", "b": -1e300},
}
TABLE = pa.table(
    {
        "number": np.arange(3000),
        "price": np.arange(3000) / 8,
        "text": [None if row % 7 == 0 else f"x{row % 50}" for row in range(3000)],
        "kind": pa.array([f"kind {row % 3}" for row in range(3000)]).dictionary_encode(),
        "flag": [row % 2 == 0 for row in range(3000)],
        "when": pa.array(np.arange(3000), pa.timestamp("us")),
    }
)
EVENTS: dict[str, Any] = {
    "one": [{"a": 1, "b": 2}],
    "mixed": [MIXED],
    "one list": [{"a": [1, "x", None, 2.5, True, {"b": "c", "d": [{"e": MOMENT}, [2**62]]}]}],
    "a long list": [{"a": list(range(300)), "b": [None] * 257}],
    "empty": [{}],
    "none": [],
    "alike": [MIXED] * 5,
    "unlike": [{"a": 1}, {"b": 2.5}, {"a": "x", "c": False}, {}, {"a": None, "b": 7}],
    "odd strings": [{"\ud800": "\udfff", "": ""}, {"\ud800": "x" * 5000}],
    "infinite": [{"a": float("inf")}, {"a": -1e30}, {"a": 3}],
    "lists": [{"a": [1, "x", None]}, {"a": [], "b": [{"c": [True]}, {}]}, {"a": [2.5] * 900}, {"a": 5}],
    "wide": [{f"a{name}": row * name for name in range(300)} for row in range(20)],
    "bad among them": [{"a": 1}, {"a": object()}, 5, {"a": 2}],
    "table": TABLE,
    "slice": TABLE.slice(1000, 100),
    "batch": TABLE.to_batches()[0],
    "scattered": pa.concat_tables([TABLE.slice(start, 1) for start in range(0, 3000, 30)]),
}
BATCHES: dict[str, EventBatch] = {name: read_events(events) for name, events in EVENTS.items()}


def match_request(name: str) -> MatchRequest:
    return MatchRequest(SharedEvents(BATCHES[name]), "lineage", 7, 0.5, name == "one")


def publish_request(name: str, deliver: bool = True) -> PublishRequest:
    events = EVENTS[name]
    if isinstance(events, list):  # what no mailbox can hold is not delivered
        deliver = deliver and "odd" not in name
    event_id = "number" if name == "table" else "text" if name == "texts" else None
    return PublishRequest(prepare(events, event_id, f"key of {name}", deliver), deliver, f"key of {name}", 60.0)


def _matches(ids: Any, numbers: bool, narrow: bool) -> ShardMatches:
    """Every third event matches all subscriptions."""
    count = len(ids)
    lengths = np.array([count if event % 3 == 0 else 0 for event in range(10)])
    places = np.tile(np.arange(count), 4).astype(np.uint16 if narrow else np.int32)
    return ShardMatches(
        np.concatenate([[0], np.cumsum(lengths)]),
        places,
        ids,
        (np.arange(count) % 7).astype(np.int32),
        np.arange(count) + 100 if numbers else None,
    )


MATCHES: dict[str, ShardMatches] = {
    "none": ShardMatches.none(10),
    "numbers": _matches(np.arange(30) - 15, False, True),
    "with numbers": _matches(np.arange(30), True, False),
    "texts": _matches(pa.array([f"id-{place}" for place in range(30)], pa.large_string()), False, True),
    "a slice of texts": _matches(
        pa.array([f"ü{place}" for place in range(40)], pa.large_string()).slice(10), False, True
    ),
    "no texts": ShardMatches.each(np.zeros(11, np.int64), pa.array([], pa.large_string()), np.empty(0, np.int32)),
    "mixed": _matches(np.array(["a", 1, -(2**63), "ü", 2**63 - 1], object), True, True),
    "many": _matches(np.arange(20_000), True, True),
    "many texts": _matches(
        pa.array([f"subscription {place}" for place in range(20_000)], pa.large_string()), False, False
    ),
}


def shard_reply(name: str) -> ShardReply:
    return ShardReply(3, 11, 0.25, len(MATCHES[name]), MATCHES[name])


def publish_reply(name: str) -> PublishReply:
    levels = np.arange(12, dtype=np.uint8) % 2 if name != "none" else np.zeros(12, np.uint8)
    return PublishReply(
        levels,
        ("low", "high"),
        [MATCHES[name], MATCHES["numbers"]],
        "lineage",
        [EventError(None, "was left out", 4), EventError("a", "is bad", None)],
        Delivered(5, 4, 3, 2, 1, ("desk", 7)),
        None if name == "many" else {4: "desk", 5: "flöor"},
    )


def _matches_of_one(ids: Any, numbers: bool) -> ShardMatches:
    count = len(ids)
    codes = (np.arange(count) % 7).astype(np.int32)
    return ShardMatches.each(np.array([0, count]), ids, codes, np.arange(count) + 100 if numbers else None)


MATCHES_OF_ONE: dict[str, ShardMatches] = {
    "no": ShardMatches.none(1),
    "few": _matches_of_one(np.array([5, -(2**63), 2**63 - 1]), False),
    "mixed": _matches_of_one(np.array(["ü", 7, ""], object), True),
    "more": _matches_of_one(np.arange(100), True),
}
"""Few travel as plain values, more in columns."""


def shard_reply_about_one(name: str) -> ShardReply:
    return ShardReply(3, 11, 0.25, len(MATCHES_OF_ONE[name]), MATCHES_OF_ONE[name])


def publish_reply_about_one(name: str) -> PublishReply:
    parts = [MATCHES_OF_ONE[name], MATCHES_OF_ONE["few"]]
    delivered, names = Delivered(5, 4, 3, 2, 1, ("desk", 7)), {4: "desk", 5: "flöor"}
    return PublishReply(np.ones(1, np.uint8), ("low", "high"), list(parts), "lineage", [], delivered, names)


def same_matches(one: Any, two: Any) -> bool:
    return (
        (one.offsets.tolist(), one.places.tolist()) == (two.offsets.tolist(), two.places.tolist())
        and one.places.dtype == two.places.dtype
        and unpacked_ids(one.ids).tolist() == unpacked_ids(two.ids).tolist()
        and one.subscribers.tolist() == two.subscribers.tolist()
        and (one.numbers is None) == (two.numbers is None)
        and (one.numbers is None or one.numbers.tolist() == two.numbers.tolist())
    )


def sent(frame: Frame) -> Frame:
    """As it arrives: columns as bytes in memory of their own."""
    return Frame(frame.kind, bytes(frame.header), [np.frombuffer(bytes(column), np.uint8) for column in frame.columns])


def changed(frame: Frame, place: int, value: Any) -> Frame:
    fields = unpacked(frame.header)
    fields[place] = value
    return Frame(frame.kind, packed(fields), frame.columns)


def changed_matches(frame: Frame, place: int, value: Any) -> Frame:
    """A reply whose matches have another field."""
    matches = unpacked(frame.header)[3]
    matches[place - 3] = value
    return changed(frame, 3, matches)
