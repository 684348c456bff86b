"""Messages cross sockets and Ray as frames and arrive equal; whatever else arrives is refused with our own error."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.transport.error_codec import error_frame, read_error
from actors.transport.event_codec import decode_events, encode_events
from actors.transport.frames import MATCH, Frame, FrameWriter, ProtocolError, decoded, packed, unpacked
from actors.transport.matching import MatchRequest, ShardReply, read_reply, read_request
from actors.transport.object_refs import SharedEvents, StoredRef
from actors.transport.publish_reply import read_publish_reply
from actors.transport.published_events import read_publish_request
from ray_pubsub import errors
from ray_pubsub.model.event_batch import EventBatch, Lane
from ray_pubsub.model.values import Kind
from ray_pubsub.sharding.merging import ShardMatches
from tests.unit.transport.messages_to_send import (
    BATCHES,
    EVENTS,
    MATCHES,
    changed,
    changed_matches,
    match_request,
    publish_reply,
    publish_request,
    same_matches,
    sent,
    shard_reply,
)


def same_batch(one: EventBatch, two: EventBatch) -> bool:
    """But for the numbers of strings: what is sent has each string once."""
    cells = zip(vars_of(one.cells()), vars_of(two.cells()), strict=True)
    strings = np.array([lane.kind == Kind.STRING for lane in one.lanes for _ in range(len(lane))], dtype=bool)
    return (
        (one.size, one.layout(), one.rows()) == (two.size, two.layout(), two.rows())
        and all((a == b)[~strings].all() if len(a) == len(strings) else (a == b).all() for a, b in cells)
        and [part.dtype for part in vars_of(one.cells())] == [part.dtype for part in vars_of(two.cells())]
        and [lane.rest is None for lane in one.lanes] == [lane.rest is None for lane in two.lanes]
    )


def vars_of(message: Any) -> list[Any]:
    return [getattr(message, each.name) for each in dataclasses.fields(message)]


@pytest.mark.parametrize("name", BATCHES)
def test_batches_arrive_equal(name: str) -> None:
    batch = BATCHES[name]
    found, encoded = decode_events(*encode_events(batch))
    assert same_batch(found, batch)
    assert (encoded.header, len(encoded.columns)) == (encode_events(batch).header, len(encode_events(batch).columns))


def test_all_of_a_batch_is_encoded() -> None:
    """Fails when a batch gets a new field: then the codec must carry it, or the field must be derived."""
    derived = {"input_ids", "positions", "errors", "scope", "plans", "flags", "warnings", "_layout", "_cells"}
    assert {each.name for each in dataclasses.fields(EventBatch)} - derived == {"size", "lanes", "_moment"}
    fields = {"attribute", "kind", "rows", "whole", "rest", "strings", "lists"}
    assert {each.name for each in dataclasses.fields(Lane)} == fields


@pytest.mark.parametrize("through", [lambda message: read_request(sent(message.frame())), pickle.dumps])
@pytest.mark.parametrize("name", BATCHES)
def test_match_requests_arrive_equal(name: str, through: Callable[[MatchRequest], Any]) -> None:
    request = match_request(name)
    found = through(request)
    found = pickle.loads(found) if isinstance(found, bytes) else found
    assert same_batch(found.events.batch, request.events.batch)
    assert vars_of(found)[1:] == vars_of(request)[1:]
    assert found.frame().detached() == request.frame().detached()  # passed on as it came


@pytest.mark.parametrize("name", EVENTS)
@pytest.mark.parametrize("deliver", [False, True])
def test_publications_arrive_equal(name: str, deliver: bool) -> None:
    if deliver and name in ("odd strings",):
        return  # no mailbox can hold them
    request = publish_request(name, deliver)
    ways = [read_publish_request(sent(request.frame()))]
    if request.events.shared.small:
        ways.append(pickle.loads(pickle.dumps(request)))
    for found in ways:
        assert (found.deliver, found.key, found.timeout) == (request.deliver, request.key, request.timeout)
        one, two = found.events, request.events
        assert same_batch(one.batch, two.batch)
        assert (one.ids.tolist(), one.ids.dtype, one.given_ids) == (two.ids.tolist(), two.ids.dtype, two.given_ids)
        assert str(one.errors) == str(two.errors)
        assert (one.positions is None) == (two.positions is None)
        assert one.positions is None or one.positions.tolist() == two.positions.tolist()
        if isinstance(two.contents, pa.Table | pa.RecordBatch):
            assert one.contents.to_pylist() == two.contents.to_pylist()
        else:
            assert one.contents == two.contents
        assert len(one.shared.encoded().header) == len(two.shared.encoded().header)


def test_a_portion_of_a_table_travels_without_the_rest() -> None:
    whole, part = publish_request("table").frame().nbytes, publish_request("slice").frame().nbytes
    assert part < whole / 20


def test_large_publications_go_by_reference_through_ray() -> None:
    request = publish_request("table")
    request.events.shared.store(lambda batch: "reference")
    found = pickle.loads(pickle.dumps(request))
    assert found.events.shared.stored == StoredRef("reference")
    found.events.shared.load(lambda stored: BATCHES["table"])
    assert same_batch(found.events.batch, request.events.batch)


@pytest.mark.parametrize("name", MATCHES)
def test_replies_of_shards_arrive_equal(name: str) -> None:
    reply = shard_reply(name)
    for found in (read_reply(sent(reply.frame()), 10), pickle.loads(pickle.dumps(reply))):
        assert vars_of(found)[:4] == vars_of(reply)[:4]
        assert same_matches(found.matches, reply.matches)
    with pytest.raises(ProtocolError):
        read_reply(sent(reply.frame()), 11)


def test_a_reply_without_matches_goes_through_ray() -> None:
    reply = ShardReply(3, 11, 0.25, 5000, None)
    assert vars_of(pickle.loads(pickle.dumps(reply))) == vars_of(reply)


@pytest.mark.parametrize("name", MATCHES)
def test_replies_of_coordinators_arrive_equal(name: str) -> None:
    reply = publish_reply(name)
    for found in (read_publish_reply(sent(reply.frame()), 12, 10), pickle.loads(pickle.dumps(reply))):
        assert found.levels.tolist() == reply.levels.tolist()
        assert (found.level_names, found.lineage) == (reply.level_names, reply.lineage)
        assert (found.deliveries, found.names, str(found.errors)) == (reply.deliveries, reply.names, str(reply.errors))
        assert len(found) == len(reply)
        assert all(same_matches(one, two) for one, two in zip(found.parts, reply.parts, strict=True))
    for published, good in ((11, 10), (12, 9)):
        with pytest.raises(ProtocolError):
            read_publish_reply(sent(reply.frame()), published, good)


def test_parts_in_the_object_store_go_by_reference_through_ray() -> None:
    reply = publish_reply("none")
    reply.parts.append(StoredRef("reference", 3))
    found = pickle.loads(pickle.dumps(reply))
    assert (found.parts[2], len(found)) == (StoredRef("reference", 3), len(reply))
    found.fetch(lambda stored: MATCHES["numbers"])
    assert same_matches(found.parts[2], MATCHES["numbers"])


@pytest.mark.parametrize(
    "error",
    [
        errors.EventError("x", "is bad", 3),
        errors.OverloadedError("batches", 7, 0.25),
        errors.SettingError("idempotency_key", "is empty"),
        errors.UnknownSubscriptionError("s1"),
        errors.StoreError("/data", "is full"),
    ],
)
def test_errors_arrive_equal(error: errors.RayPubSubError) -> None:
    frame = error_frame(error)
    assert frame is not None
    found = read_error(frame)
    assert type(found) is type(error) and str(found) == str(error) and found.__dict__ == error.__dict__


def test_errors_with_more_than_plain_fields_need_ray() -> None:
    assert error_frame(errors.RejectedSubscriptionsError([])) is None
    assert error_frame(errors.UnknownLevelError("x", ("low", "high"))) is None


# What is refused


def test_a_class_that_is_no_error_of_ours_is_not_made() -> None:
    for name in ("Exception", "SystemExit", "Rejection", "RayPubSubError.__init__", "", 5):
        with pytest.raises(ProtocolError):
            decoded(read_error, Frame(4, packed((name, [], [], []))))


def inside(request: MatchRequest, place: int, value: Any) -> Frame:
    """A request whose batch has another field."""
    encoded = request.events.encoded()
    fields = unpacked(encoded.header)
    fields[place] = value
    return changed(request.frame(), 0, packed(fields))


def column(*values: Any, kind: Any = np.int64) -> bytes:
    return np.array(values, kind).tobytes()


BROKEN_BATCHES: list[tuple[str, int, Any]] = [
    *[("unlike", 0, value) for value in (-1, 2**40, "5", None, 2, True)],
    *[("unlike", 1, value) for value in (["a"], ["a", "b", "a", 5], "abcd", ["a", "a", "a", "a"])],
    *[("unlike", 2, value) for value in (b"", b"\x00\x00\x00\x09", "abcd")],
    *[
        ("unlike", 3, value)
        for value in (None, b"", column(0, 2, 1, 3, 5), column(1, 2, 3, 4, 5), column(0, 1, 2, 3, 400), b"x")
    ],
    *[
        ("unlike", 4, value)
        for value in (None, column(0, 2, 1, 5, 2, kind=np.int32), column(-1, 2, 1, 4, 2, kind=np.int32))
    ],
    *[("unlike", 4, value) for value in (column(0, 2, 4, 1, 2, kind=np.int32), column(0, 4, 2, 2, kind=np.int32))],
    *[("unlike", 5, value) for value in (b"", 0, 5, column(1), -1)],
    *[("unlike", 6, value) for value in ([9], [-1], 5, [1])],
    *[("unlike", 7, value) for value in (None, column(1.5, kind=float), column(*[float("nan")] * 5, kind=float))],
    *[("unlike", 8, value) for value in ([], [[]], [[5]], ["x"], [["x"], ["y"]])],
    *[
        ("unlike", 8, [value])
        for value in ([b"x", b""], [b"x", column(0)], [b"xy", column(0, 2, 1, 2)], [b"\xff", column(0, 1)])
    ],
    ("alike", 5, column(*range(36))),
    *[("mixed", 0, value) for value in ("5", None, 2.0, True)],
    *[("mixed", 1, value) for value in (["a"], "abcdefg", [*"abcdef", 5], [*"abcdef", "a"])],
    *[("mixed", 2, value) for value in (b"", b"\x00" * 7, bytes([1, 0, 2, 3, 0, 1, 9]), "abcdefg")],
    *[("mixed", 3, ["iphone5s", price, True, 0, 1, "", 1.0]) for price in (2**63, float("nan"), "x", True, None, [1])],
    *[("mixed", 3, [name, 1, True, 0, 1, "", 1.0]) for name in (5, None, b"x", "\ud800")],
    *[("mixed", 3, ["", 1, value, 0, 1, "", 1.0]) for value in (1, None, "x")],
    *[("mixed", 3, ["", 1, True, value, 1, "", 1.0]) for value in (1.0, 2**63, None, "x")],
    *[
        ("one list", 3, [value])
        for value in (
            5,
            "x",
            {},
            [5],
            [[1, 2]],
            [[9, 1]],
            [["0", 1]],
            [[1, "x", 2]],
            [{"a": 5}],
            [{5: [0, 1]}],
            [[4, 5]],
        )
    ],
]


@pytest.mark.parametrize(("name", "place", "value"), BROKEN_BATCHES)
def test_a_batch_with_a_wrong_field_is_refused(name: str, place: int, value: Any) -> None:
    decoded(read_request, match_request(name).frame())
    frame = inside(match_request(name), place, value)
    with pytest.raises(ProtocolError):
        decoded(read_request, frame)


BROKEN_MATCHES: list[tuple[int, Any]] = [
    *[
        (3, value)
        for value in (b"", column(0, 1), column(5, *[120] * 10), column(0, 60, 30, *[120] * 8), column(*[0] * 10, 121))
    ],
    *[
        (4, value)
        for value in (
            (2, b""),
            (3, b"abc"),
            (4, column(*[-1] * 120, kind=np.int32)),
            (2, column(*[30] * 120, kind=np.uint16)),
        )
    ],
    *[
        (5, value)
        for value in (
            (0, column(1)),
            (9, b""),
            (2, [1.5] * 30),
            (2, ["x"]),
            (1, column(0, 5), b"abc"),
            (1, column(0, 1), b"\xff"),
        )
    ],
    *[(6, value) for value in (b"", column(*[-1] * 30, kind=np.int32), column(*range(29), kind=np.int32))],
    *[(7, value) for value in (b"", column(1), 7)],
    *[(0, value) for value in (-1, "x", None, 2**63)],
    *[(2, value) for value in (float("nan"), -1.0, 5, None)],
]


@pytest.mark.parametrize(("place", "value"), BROKEN_MATCHES)
def test_a_reply_with_a_wrong_field_is_refused(place: int, value: Any) -> None:
    frame = shard_reply("with numbers").frame()
    decoded(read_reply, frame)
    with pytest.raises(ProtocolError):
        decoded(read_reply, changed_matches(frame, place, value) if place > 2 else changed(frame, place, value))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(1, value) for value in (1, None, "yes")],
        *[(2, value) for value in (None, b"key", 5)],
        *[(3, value) for value in (float("inf"), -0.5, None)],
        *[(4, value) for value in (float("inf"), -0.5, None)],
        *[(5, value) for value in (column(0, 4), column(3, 0), column(-1, 3), column(0), column(0, 0), None)],
        *[(6, value) for value in ([1, 2], [1, 2, 3, 4.5], column(1, 2, 3), 7)],
        (7, None),
        *[(8, value) for value in ([b""], ["x"] * 4, b"not arrow", 3)],
        *[
            (9, value)
            for value in (None, [["a", "b"]], [[1, "b", 0]], [["a", 2, 0]], [["a", "b", 4]], [["a", "b", -1]])
        ],
    ],
)
def test_a_publication_with_a_wrong_field_is_refused(place: int, value: Any) -> None:
    frame = publish_request("bad among them").frame()
    decoded(read_publish_request, frame)
    with pytest.raises(ProtocolError):
        decoded(read_publish_request, changed(frame, place, value))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *[(0, value) for value in (-1, 11, 2**40)],
        *[(1, value) for value in (b"\x02" * 12, b"\x00", 5)],
        *[(2, value) for value in ([], [5], "low", None)],
        *[(3, value) for value in (None, [None], [[]], 5)],
        (4, 5),
        *[(6, value) for value in ((1, 2, 3), (1, 2, 3, 4, -5, ()), (1, 2, 3, 4, 5, (1.5,)), None)],
        *[(7, value) for value in (([1], []), (["1"], ["x"]), ([1], [2]), 5)],
    ],
)
def test_a_reply_of_a_coordinator_with_a_wrong_field_is_refused(place: int, value: Any) -> None:
    frame = publish_reply("numbers").frame()
    decoded(read_publish_reply, frame)
    with pytest.raises(ProtocolError):
        decoded(read_publish_reply, changed(frame, place, value))


def test_columns_that_nothing_refers_to_are_refused() -> None:
    for read, frame in (
        (read_request, match_request("table").frame()),
        (read_reply, shard_reply("many").frame()),
        (read_publish_request, publish_request("table").frame()),
        (read_publish_reply, publish_reply("many").frame()),
    ):
        decoded(read, frame)
        for columns in ([*frame.columns, b"more"], frame.columns[:-1], []):
            with pytest.raises(ProtocolError):
                decoded(read, frame._replace(columns=columns))


def test_a_frame_of_another_kind_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decoded(read_publish_request, match_request("one").frame())
    with pytest.raises(ProtocolError):
        decoded(read_request, publish_request("one").frame())
    with pytest.raises(ProtocolError):
        decoded(read_request, Frame(MATCH, b"\xc1"))


def test_short_columns_travel_in_the_header() -> None:
    writer = FrameWriter()
    assert writer.column(np.arange(3)) == column(0, 1, 2) and writer.columns == []
    assert writer.column(np.arange(10_000)[::2]) == 0
    assert np.frombuffer(writer.columns[0], np.int64).tolist() == list(range(0, 10_000, 2))


def test_events_are_encoded_once() -> None:
    shared = SharedEvents(BATCHES["table"])
    assert shared.encoded() is shared.encoded()
    first, second = (MatchRequest(shared, "lineage", needed, 1.0).frame() for needed in (1, 2))
    assert all(one is two for one, two in zip(first.columns, second.columns, strict=True))


def test_matches_of_the_wrong_kind_are_not_sent() -> None:
    assert isinstance(MATCHES["texts"], ShardMatches)
    with pytest.raises(AssertionError):
        ShardReply(1, 1, 0.0, 5, StoredRef("x", 5)).frame()
