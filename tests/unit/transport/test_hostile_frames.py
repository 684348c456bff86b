"""Frames that were tampered with: each is refused with our own error, or is a valid message, with which nothing bad can be done."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import ray_pubsub
from actors.coordinator.delivering import packed_contents
from actors.transport.dispatch import answering
from actors.transport.error_codec import error_frame, read_error
from actors.transport.frames import REPLY, Frame, ProtocolError, decoded, packed, unpacked
from actors.transport.matching import MatchRequest, ShardReply, read_reply, read_request
from actors.transport.publish_reply import PublishReply, read_publish_reply
from actors.transport.published_events import PublishRequest, read_publish_request
from actors.transport.sockets.connection import HEAD, LENGTH, Connection
from actors.transport.sockets.unix_server import UnixServer
from ray_pubsub.errors import OverloadedError
from ray_pubsub.sharding.merging import ShardMatches, merge_matches, subscribers_of
from tests.unit.transport.messages_to_send import (
    MATCHES_OF_ONE,
    match_request,
    publish_reply,
    publish_reply_about_one,
    publish_request,
    shard_reply,
    shard_reply_about_one,
)
from tests.unit.transport.socket_ends import TIMEOUT

ROUNDS = 150
STRANGE: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1,
        5,
        2**31,
        2**63 - 1,
        -(2**63),
        2**64 - 1,
        0.5,
        float("nan"),
        float("inf"),
        "",
        "x",
        "\ud800",
    ),
    *(
        b"",
        b"\x00",
        b"\xff" * 8,
        b"\x01\x00\x00\x00\x00\x00\x00\x00" * 3,
        [],
        [[]],
        [None] * 9,
        {"a": 1},
        [1, [2, [3]]],
    ),
]


def tampered(frame: Frame, chance: random.Random) -> Frame:
    """A few changes: of bits, of lengths, of fields, of columns."""
    header, columns = bytearray(frame.header), [bytearray(column) for column in frame.columns]
    for _ in range(chance.randrange(1, 4)):
        how = chance.randrange(6)
        target = chance.choice([header, *columns])
        if how == 0 and target:
            target[chance.randrange(len(target))] ^= 1 << chance.randrange(8)
        elif how == 1:
            del target[chance.randrange(len(target) + 1) :]
        elif how == 2:
            place = chance.randrange(len(target) + 1)
            target[place:place] = chance.randbytes(chance.choice([1, 2, 8, 40]))
        elif how == 3 and columns:
            chance.shuffle(columns)
            columns = columns[: chance.randrange(len(columns) + 1)]
        else:
            try:
                fields = unpacked(bytes(header))
                header = bytearray(packed(with_a_strange_field(fields, chance)))
            except Exception:
                continue  # it was broken by an earlier change
    return Frame(frame.kind, bytes(header), [np.frombuffer(bytes(column), np.uint8) for column in columns])


def with_a_strange_field(fields: Any, chance: random.Random) -> Any:
    """Somewhere in it, also in a header that is a field of a header."""
    if isinstance(fields, bytes) and len(fields) > 8 and chance.random() < 0.7:
        try:
            return packed(with_a_strange_field(unpacked(fields), chance))
        except Exception:
            pass
    if not isinstance(fields, list) or not fields or chance.random() < 0.2:
        return chance.choice(STRANGE)
    place = chance.randrange(len(fields))
    return [*fields[:place], with_a_strange_field(fields[place], chance), *fields[place + 1 :]]


INDEX = ray_pubsub.MatchIndex()
INDEX.add_many(
    range(4), ["a = 1", "a between 2 and 9 or number > 5", "text like 'x%' and flag", "price < 10 or model = 'x'"]
)


def use_request(request: MatchRequest) -> None:
    if request.events.batch.size <= 10_000:
        INDEX.match_many(request.events.batch)
    assert decoded(read_request, request.frame()).frame() is not None


def use_publication(request: PublishRequest) -> None:
    events = request.events
    assert len(events) >= events.batch.size
    assert all(events.position(row) < len(events) for row in range(events.batch.size))
    packed_contents(events, np.arange(min(5, len(events))))
    assert events.keys() is None or len(events.keys() or []) == len(events)


def use_matches(parts: list[Any]) -> None:
    for part in parts:
        assert isinstance(part, ShardMatches)
        assert len(part.match_ids) == len(part.match_subscribers) == len(part)
    subscribers_of([part for part in parts if part.subscribers.max(initial=0) < 10**6])
    if len({part.events for part in parts}) == 1:
        merge_matches(parts, parts[0].events)


def use_reply(reply: ShardReply) -> None:
    use_matches([reply.matches])


def use_publish_reply(reply: PublishReply) -> None:
    use_matches(reply.parts)
    assert np.array(reply.level_names, object)[reply.levels] is not None


def samples() -> Iterator[tuple[str, Callable[[Frame], Any], Callable[[Any], Any], Frame]]:
    for name in ("one", "mixed", "one list", "alike", "unlike", "none", "wide", "slice"):
        yield f"match {name}", read_request, use_request, match_request(name).frame()
    for name in ("one", "mixed", "one list", "unlike", "bad among them", "slice", "scattered"):
        yield f"publish {name}", read_publish_request, use_publication, publish_request(name).frame()
    for name in ("none", "numbers", "with numbers", "texts", "mixed", "many", "many texts"):
        yield f"matches {name}", read_reply, use_reply, shard_reply(name).frame()
        yield f"reply {name}", read_publish_reply, use_publish_reply, publish_reply(name).frame()
    for name in MATCHES_OF_ONE:
        yield f"{name} matches of one", read_reply, use_reply, shard_reply_about_one(name).frame()
        yield f"reply about one, {name}", read_publish_reply, use_publish_reply, publish_reply_about_one(name).frame()
    error = error_frame(OverloadedError("batches", 5, 0.5))
    assert error is not None
    yield "error", read_error, str, error


SAMPLES = list(samples())


@pytest.mark.parametrize(("name", "read", "use", "frame"), SAMPLES, ids=[sample[0] for sample in SAMPLES])
def test_a_tampered_frame_is_refused_or_harmless(
    name: str, read: Callable[[Frame], Any], use: Callable[[Any], Any], frame: Frame
) -> None:
    chance = random.Random(name)
    use(decoded(read, frame))
    refused = 0
    for _ in range(ROUNDS):
        try:
            found = decoded(read, tampered(frame, chance))
        except ProtocolError:
            refused += 1
            continue
        use(found)
    assert refused > ROUNDS / 4


def test_random_bytes_are_refused() -> None:
    chance = random.Random(7)
    for kind in range(6):
        for read in (read_request, read_publish_request, read_reply, read_publish_reply, read_error):
            for length in range(60):
                with pytest.raises(ProtocolError):
                    decoded(read, Frame(kind, chance.randbytes(length), []))


def test_a_server_survives_what_is_sent_to_it() -> None:
    """Over a real socket, by clients that know the key: bytes before, inside and instead of frames."""
    chance = random.Random(3)
    good = match_request("unlike").frame()

    def answer(request: MatchRequest) -> Frame:
        return Frame(REPLY, packed([request.events.batch.size]))

    server = UnixServer(answering(read_request, answer, lambda reply: reply), "here", "shard-0")
    try:
        for _ in range(300):
            connection = Connection.to(server.address, TIMEOUT)
            frame = tampered(good, chance)
            lengths = b"".join(LENGTH.pack(len(column)) for column in frame.columns)
            head = HEAD.pack(chance.choice([frame.kind, chance.randrange(256)]), len(frame.columns), len(frame.header))
            sent = bytearray(head + lengths + frame.header + b"".join(map(bytes, frame.columns)))
            if chance.random() < 0.5:
                sent[chance.randrange(len(sent))] ^= 1 << chance.randrange(8)
            connection._socket.sendall(sent)
            connection._socket.shutdown(1)
            with suppress(OSError, EOFError):  # closed
                assert connection.receive(TIMEOUT).kind == REPLY
            connection.close()
        connection = Connection.to(server.address, TIMEOUT)
        connection.send(good)
        assert unpacked(connection.receive(TIMEOUT).header) == [5]
        connection.close()
    finally:
        server.close()
