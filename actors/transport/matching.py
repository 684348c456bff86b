"""A coordinator's request to a shard, and the shard's reply. Both cross sockets as frames, and if they are small also Ray."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.transport.event_codec import decode_events
from actors.transport.frames import (
    MATCH,
    REPLY,
    Frame,
    FrameReader,
    FrameWriter,
    ProtocolError,
    ascends,
    check,
    number,
    packed,
    seconds,
    unpacked,
)
from actors.transport.object_refs import SharedEvents, StoredRef
from ray_pubsub.model.values import INT64_MAX
from ray_pubsub.sharding.few_matches import FEW_PLAIN, FewMatches
from ray_pubsub.sharding.merging import ShardMatches

__all__ = ["FEW_FIELDS", "FEW_MATCHES", "MatchRequest", "ShardReply", "read_few", "read_matches", "written_matches"]

FEW_MATCHES = 4096
"""Up to this number of matches travel inline in a reply through Ray; more stay in the object store."""
NUMBERS, STRINGS, MIXED = range(3)
"""The encodings of a column of ids."""
IDS, WHOLE = frozenset({int, str}), frozenset({int})
FEW_FIELDS = 3
NO_MATCHES: Sequence[Any] = ([], [], None)
NONE = FewMatches([], [], [])
PLACES = {2: np.uint16, 4: np.int32}
"""The types of a match's place, by their size in bytes."""


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class MatchRequest:
    """A batch to be matched at the version `needed` or a later one, within `timeout` seconds. With `numbers` the reply also has the
    subscriptions' numbers, so that a match that comes from two shards is recognised. `level` is that of the most urgent event."""

    events: SharedEvents
    lineage: str
    needed: int
    timeout: float
    numbers: bool = False
    level: int = 0

    def __reduce__(self) -> Any:
        return read_request, (self.frame().detached(),)

    def frame(self, longest: float = math.inf) -> Frame:
        """Returns the request; the shard waits at most `longest` seconds for the version that it needs."""
        events = self.events.encoded()
        timeout = float(self.timeout if self.timeout < longest else longest)
        fields = (events.header, self.lineage, self.needed, timeout, self.numbers, self.level)
        if not events.columns:
            return Frame(MATCH, packed(fields))
        return FrameWriter(events.columns).frame(MATCH, fields)


def read_request(frame: Frame) -> MatchRequest:
    """Reads a request. Raises ProtocolError, or any other exception for a frame that is not valid (`frames.decoded`)."""
    if frame.kind != MATCH:
        raise ProtocolError("not a batch to be matched")
    header, lineage, needed, timeout, numbers, level = unpacked(frame.header)
    batch, encoded = decode_events(header, frame.columns)
    if len(encoded.columns) != len(frame.columns):
        raise ProtocolError("columns that nothing refers to")
    if type(lineage) is not str or type(numbers) is not bool:
        raise ProtocolError("a batch of no lineage")
    shared = SharedEvents(batch, encoded)
    return MatchRequest(shared, lineage, number(needed), seconds(timeout), numbers, number(level, 0, 255))


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class ShardReply:
    """A shard's reply to a batch: the instance's epoch, its version, and the matches."""

    epoch: int
    version: int
    seconds: float
    count: int
    """The number of matches."""
    matches: ShardMatches | StoredRef | None
    """None if the matches come beside the reply, by a reference of their own."""

    def __reduce__(self) -> Any:
        if isinstance(self.matches, ShardMatches) and self.count <= FEW_MATCHES:
            return read_reply, (self.frame().detached(),)
        return ShardReply, (self.epoch, self.version, self.seconds, self.count, self.matches)

    def frame(self) -> Frame:
        assert isinstance(self.matches, ShardMatches)
        writer = FrameWriter()
        fields = (self.epoch, self.version, self.seconds, written_matches(writer, self.matches))
        return Frame(REPLY, packed(fields), writer.columns)


def read_reply(frame: Frame, events: int | None = None) -> ShardReply:
    """Reads a reply. `events` is the number of events in the request. Raises ProtocolError, or any other exception for a frame that is
    not valid."""
    fields = unpacked(frame.header)
    if type(fields) is not list or len(fields) != 4:
        raise ProtocolError("a reply that is none")
    epoch, version, took, columns = fields
    if len(columns) == FEW_FIELDS:
        matches = read_few(*columns)
    else:
        reader = FrameReader(frame.header, frame.columns, fields=4)
        matches = read_matches(reader, columns)
        reader.finish()
    if events is not None and matches.events != events:
        raise ProtocolError("a reply about another number of events")
    return ShardReply(number(epoch), number(version), seconds(took), len(matches), matches)


def written_matches(writer: FrameWriter, matches: ShardMatches) -> Sequence[Any]:
    """Returns the matches as five fields of a header; few matches of one event as they are, in three."""
    if type(matches) is FewMatches:
        return matches.listed if matches.listed[0] else NO_MATCHES
    if len(matches.places) <= FEW_PLAIN and len(matches.offsets) == 2 and isinstance(matches.ids, np.ndarray):
        places, numbers = matches.places, matches.numbers
        return (
            matches.ids[places].tolist(),
            matches.subscribers[places].tolist(),
            None if numbers is None else numbers[places].tolist(),
        ) if len(places) else NO_MATCHES  # fmt: skip
    return (
        writer.column(matches.offsets),
        (matches.places.itemsize, writer.column(matches.places)),
        _written_ids(writer, matches.ids),
        writer.column(matches.subscribers),
        None if matches.numbers is None else writer.column(matches.numbers),
    )


def read_matches(reader: FrameReader, fields: Sequence[Any]) -> ShardMatches:
    if len(fields) == FEW_FIELDS:
        return read_few(*fields)
    first, (width, second), third, fourth, fifth = fields
    offsets, places = reader.column(first, np.int64), reader.column(second, PLACES[width])
    ids, subscribers = _read_ids(reader, third), reader.column(fourth, np.int32)
    numbers = reader.optional(fifth, np.int64)
    check(len(offsets) and offsets[0] == 0 and offsets[-1] == len(places), "offsets of other matches")
    check(ascends(offsets), "offsets out of their order")
    check(len(ids) == len(subscribers), "ids of other subscriptions")
    check(numbers is None or len(numbers) == len(subscribers), "numbers of other subscriptions")
    if len(places):
        check(_largest(places) < len(subscribers), "a match of a subscription that is not there")
        check(_largest(subscribers) < 2**31, "a subscriber with a negative number")
    return ShardMatches(offsets, places, ids, subscribers, numbers)


def read_few(ids: Any, subscribers: Any, numbers: Any) -> ShardMatches:
    """Reads the matches of one event."""
    if not ids and not subscribers:
        return NONE
    if type(ids) is not list or type(subscribers) is not list or not len(ids) == len(subscribers) <= FEW_PLAIN:
        raise ProtocolError("ids of other subscriptions")
    kinds = set(map(type, ids))
    numeric = ids if kinds == WHOLE else [each for each in ids if type(each) is int]
    if not kinds <= IDS or (numeric and max(numeric) > INT64_MAX):
        raise ProtocolError("ids that are neither texts nor numbers of 64 bits")
    if set(map(type, subscribers)) != WHOLE or not 0 <= min(subscribers) <= max(subscribers) < 2**31:
        raise ProtocolError("a subscriber whose number is negative, or too large")
    if numbers is not None and (
        type(numbers) is not list
        or len(numbers) != len(ids)
        or set(map(type, numbers)) != WHOLE
        or max(numbers) > INT64_MAX
    ):
        raise ProtocolError("numbers of other subscriptions")
    return FewMatches(ids, subscribers, numbers)


def _largest(column: NDArray[Any]) -> int:
    """Returns the largest number of a column read as unsigned. Negative numbers become very large ones, so that one comparison finds
    both."""
    if len(column) == 1:  # for a single value numpy is slower than Python
        return int(column[0]) % (1 << 8 * column.itemsize)
    return int(column.view(f"u{column.itemsize}").max())


def _written_ids(writer: FrameWriter, ids: Any) -> Sequence[Any]:
    if isinstance(ids, pa.Array):
        if ids.type != pa.large_string() or ids.offset or ids.null_count:
            ids = pa.array(ids.to_pylist(), pa.large_string())
        _, offsets, content = ids.buffers()
        ends = np.zeros(1, np.int64) if not len(ids) else np.frombuffer(offsets, np.int64, len(ids) + 1)
        return STRINGS, writer.column(ends), writer.buffer(b"" if content is None else content)
    if ids.dtype == np.int64:
        return NUMBERS, writer.column(ids)
    return MIXED, ids.tolist()


def _read_ids(reader: FrameReader, fields: Any) -> Any:
    how, *columns = fields
    if how == NUMBERS:
        (column,) = columns
        return reader.column(column, np.int64)
    if how == STRINGS:
        ends, content = reader.column(columns[0], np.int64), reader.buffer(columns[1])
        check(len(ends), "strings without an end")
        found = pa.LargeStringArray.from_buffers(len(ends) - 1, pa.py_buffer(ends), pa.py_buffer(content))
        found.validate(full=True)
        return found
    check(how == MIXED, "ids of an unknown form")
    (listed,) = columns
    check(type(listed) is list and set(map(type, listed)) <= {str, int}, "ids that are neither texts nor numbers")
    ids = np.empty(len(listed), object)
    ids[:] = listed
    return ids
