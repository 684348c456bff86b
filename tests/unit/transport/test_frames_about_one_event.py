"""Replies about one event have forms of their own, without columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors.transport.frames import ProtocolError, decoded
from actors.transport.matching import ShardReply, read_reply
from actors.transport.publish_reply import Delivered, PublishReply, read_publish_reply
from ray_pubsub.sharding.merging import ShardMatches
from tests.unit.transport.messages_to_send import changed, changed_matches, same_matches, sent


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(3, value) for value in (None, 5, "ab", [1], [1, 2.5], [1, None], [1, 2**63], [1, True])],
        *[(4, value) for value in (None, [1], [1, -1], [1, 2**31], [1, "x"], [True, 1], [1.0, 1.0])],
        *[(5, value) for value in ([1], [1, "x"], 5, [1, 2**63])],
    ],
)
def test_a_reply_about_one_event_with_a_wrong_field_is_refused(place: int, value: Any) -> None:
    matches = ShardMatches.each(np.array([0, 2]), np.array([5, 7]), np.array([1, 2], np.int32), np.array([8, 9]))
    frame = ShardReply(3, 11, 0.25, 2, matches).frame()
    assert same_matches(decoded(read_reply, frame).matches, matches)
    with pytest.raises(ProtocolError):
        decoded(read_reply, changed_matches(frame, place, value))


@pytest.mark.parametrize("ids", [np.array([5, 7, 5]), np.array(["x", 7, "ü"], object), np.array([], np.int64)])
def test_few_matches_of_one_event_arrive_equal(ids: Any) -> None:
    places = np.arange(len(ids), dtype=np.int32)[::-1].copy()
    offsets, numbers = np.array([0, len(ids)]), np.arange(len(ids))
    matches = ShardMatches(offsets, places, ids, np.arange(len(ids), dtype=np.int32), numbers)
    found = decoded(read_reply, sent(ShardReply(3, 11, 0.25, len(ids), matches).frame())).matches
    assert isinstance(found, ShardMatches) and found.numbers is not None
    assert found.match_ids.tolist() == matches.match_ids.tolist()
    assert found.match_subscribers.tolist() == matches.match_subscribers.tolist()
    assert found.numbers[found.places].tolist() == numbers[places].tolist()


def reply_about_one(**more: Any) -> PublishReply:
    matches = ShardMatches.each(np.array([0, 2]), np.array(["a", 7], object), np.array([1, 2], np.int32))
    return PublishReply(np.array([1], np.uint8), ("low", "high"), [matches, ShardMatches.none(1)], "lineage", **more)


@pytest.mark.parametrize(
    "more", [{}, {"deliveries": Delivered(1, 2, 3, 4, 5, ("desk", 7)), "names": {1: "desk", 2: "flöor"}}, {"names": {}}]
)
def test_replies_about_one_event_arrive_equal(more: dict[str, Any]) -> None:
    reply = reply_about_one(**more)
    found = decoded(read_publish_reply, sent(reply.frame()))
    assert (found.levels.tolist(), found.level_names, found.lineage) == ([1], ("low", "high"), "lineage")
    assert (found.deliveries, found.names, found.errors) == (reply.deliveries, reply.names, [])
    assert [part.match_ids.tolist() for part in found.parts if isinstance(part, ShardMatches)] == [["a", 7], []]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(0, value) for value in (2, -1, None, "high", True)],
        *[(1, value) for value in ([], "ab", None, ["low", 5])],
        *[(2, value) for value in (None, [5], [[[1], [], None]])],
        *[(3, value) for value in (None, 5)],
        *[(4, value) for value in (5, [1, 2], [1, 2, 3, 4, -5, []], [1, 2, 3, 4, 5, [None]])],
        *[(5, value) for value in (5, [[1]], [[1], [2]], [["x"], ["desk"]], [[1, 2], ["desk"]])],
    ],
)
def test_a_reply_about_one_event_to_a_publisher_with_a_wrong_field_is_refused(place: int, value: Any) -> None:
    frame = reply_about_one().frame()
    with pytest.raises(ProtocolError):
        decoded(read_publish_reply, changed(frame, place, value))
