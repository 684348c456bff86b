"""A publisher's request to a coordinator: columns for the shards, and beside them what only the coordinator needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.transport.event_codec import decode_events
from actors.transport.frames import (
    PUBLISH,
    Frame,
    FrameReader,
    FrameWriter,
    ProtocolError,
    check,
    number,
    packed,
    seconds,
    text,
    truth,
    unpacked,
)
from actors.transport.object_refs import SharedEvents
from ray_pubsub.errors import EventError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.id_column import ids_of

__all__ = [
    "MOST_WARNINGS",
    "PublishRequest",
    "PublishedEvents",
    "publish_frame",
    "read_errors",
    "read_publish_request",
    "written_errors",
]


FIELDS_OF_ONE = 8
"""The fields of a publication of one event."""
MOST_WARNINGS = 100
"""The most warnings of one publication that are kept for its result."""


@dataclass(slots=True, eq=False)
class PublishedEvents:
    """The events of one publication. `shared` has only the good events, without ids; the ids are here."""

    shared: SharedEvents
    positions: NDArray[np.int64] | None
    """The positions of the good events among all events; None if all are good."""
    ids: NDArray[Any]
    given_ids: bool
    """Whether the publisher chose the ids. Only then does the same id mean the same event."""
    contents: Any
    """The content to deliver for each event: packed events in a list, or the Arrow table whose rows they are; None if nothing is
    delivered."""
    errors: list[EventError] = field(default_factory=list)
    nbytes: int = 0
    warnings: list[EventError] = field(default_factory=list)
    """The first attributes that were left out because their values cannot be used. They stay with the publisher and are not in the
    frame."""
    warning_count: int = 0
    """The number of attributes that were left out."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def batch(self) -> EventBatch:
        return self.shared.batch

    def keys(self) -> list[Any] | None:
        """Returns the keys by which repetitions are recognised. A bad event has none, so that it is delivered under the same id once it
        is corrected."""
        if not self.given_ids:
            return None
        ids: list[Any] = self.ids.tolist()
        if self.positions is None:
            return ids
        good = set(self.positions.tolist())
        return [identity if place in good else None for place, identity in enumerate(ids)]

    def position(self, row: int) -> int:
        """Returns the position of a good event among all events."""
        return row if self.positions is None else int(self.positions[row])


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class PublishRequest:
    """A publication. `key` is its idempotency key: repeated under it, a publication is delivered once. `age` is the number of seconds
    between the publisher's taking the events and sending this request; deadlines count from the earlier time."""

    events: PublishedEvents
    deliver: bool
    key: str
    timeout: float
    age: float = 0.0

    def __reduce__(self) -> Any:
        if self.events.shared.small:
            return read_publish_request, (self.frame().detached(),)
        return PublishRequest, (self.events, self.deliver, self.key, self.timeout, self.age)

    def frame(self) -> Frame:
        return publish_frame(self.events, self.deliver, self.key, self.timeout, self.age)


def publish_frame(events: PublishedEvents, deliver: bool, key: str, timeout: float, age: float) -> Frame:
    """Returns the frame of a request with these fields."""
    encoded = events.shared.encoded()
    contents = events.contents
    if len(events) == 1 and not (events.errors or encoded.columns) and (contents is None or type(contents) is list):
        content, identity = contents[0] if contents else None, events.ids.item(0)
        one = (
            encoded.header,
            deliver,
            key,
            float(timeout),
            float(age),
            identity,
            events.given_ids,
            content,
        )
        return Frame(PUBLISH, packed(one))
    writer = FrameWriter(encoded.columns)
    fields = (
        encoded.header,
        deliver,
        key,
        float(timeout),
        float(age),
        None if events.positions is None else writer.column(events.positions),
        writer.column(events.ids) if events.ids.dtype == np.int64 else events.ids.tolist(),
        events.given_ids,
        _written_contents(writer, events.contents),
        written_errors(events.errors),
    )
    return writer.frame(PUBLISH, fields)


def read_publish_request(frame: Frame) -> PublishRequest:
    """Reads a request. Raises ProtocolError, or any other exception for a frame that is not valid (`frames.decoded`)."""
    if frame.kind != PUBLISH:
        raise ProtocolError("not a publication")
    fields = unpacked(frame.header)
    if type(fields) is list and len(fields) == FIELDS_OF_ONE:
        return _read_one(fields, frame)
    reader = FrameReader(frame.header, frame.columns, fields=10)
    header, deliver, key, timeout, age, positions_field, ids_field, given, contents_field, errors = reader.fields
    batch, encoded = decode_events(header, frame.columns)
    reader.used = len(encoded.columns)
    positions = reader.optional(positions_field, np.int64)
    ids = _read_ids(reader, ids_field)
    _check_positions(positions, batch.size, len(ids))
    contents = _read_contents(reader, contents_field, len(ids))
    reader.finish()
    shared, found = SharedEvents(batch, encoded), read_errors(errors, len(ids))
    events = PublishedEvents(shared, positions, ids, truth(given), contents, found, frame.nbytes)
    return PublishRequest(events, truth(deliver), text(key), seconds(timeout), seconds(age))


def _read_one(fields: list[Any], frame: Frame) -> PublishRequest:
    """Reads a publication of one good event."""
    header, deliver, key, timeout, age, identity, given, content = fields
    batch, encoded = decode_events(header, ())
    if batch.size != 1 or frame.columns:
        raise ProtocolError("ids of other events")
    if type(deliver) is not bool or type(given) is not bool or type(key) is not str:
        raise ProtocolError("a publication that is none")
    if content is not None and type(content) is not bytes:
        raise ProtocolError("contents that are not packed")
    if identity is not None and type(identity) is not str and type(identity) is not int:
        raise ProtocolError("ids that are neither texts nor numbers")
    ids = np.array([identity], np.int64) if type(identity) is int else ids_of([identity])
    contents = None if content is None else [content]
    events = PublishedEvents(SharedEvents(batch, encoded), None, ids, given, contents, [], len(frame.header))
    return PublishRequest(events, deliver, key, seconds(timeout), seconds(age))


def _check_positions(positions: NDArray[np.int64] | None, size: int, published: int) -> None:
    if positions is None:
        check(size == published, "ids of other events")
        return
    check(len(positions) == size <= published, "positions of other events")
    check(not size or 0 <= positions[0] <= positions[-1] < published, "a position outside of the publication")
    check((positions[1:] > positions[:-1]).all(), "positions out of their order")


def _read_ids(reader: FrameReader, value: Any) -> NDArray[Any]:
    if type(value) is not list:
        return reader.column(value, np.int64)
    check(set(map(type, value)) <= {str, int, type(None)}, "ids that are neither texts nor numbers")
    return ids_of(value)


def _written_contents(writer: FrameWriter, contents: Any) -> Any:
    """Writes Arrow rows as a stream, which has only what the table shows, and not all of the table that it was cut from."""
    if contents is None or isinstance(contents, list):
        return contents
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, contents.schema) as stream:
        stream.write(contents)
    return writer.buffer(sink.getvalue())


def _read_contents(reader: FrameReader, value: Any, published: int) -> Any:
    if value is None:
        return None
    if type(value) is list:
        check(len(value) == published, "contents of other events")
        check(set(map(type, value)) <= {bytes, type(None)}, "contents that are not packed")
        return value
    table = pa.ipc.open_stream(pa.py_buffer(reader.buffer(value))).read_all()
    table.validate(full=True)
    check(table.num_rows == published, "contents of other events")
    return table


def written_errors(errors: Sequence[EventError]) -> list[tuple[str | None, str, int | None]]:
    return [(error.attribute, error.reason, error.position) for error in errors]


def read_errors(value: Any, events: int) -> list[EventError]:
    check(type(value) is list, "errors that are not a list")
    found = []
    for attribute, reason, position in value:
        check(attribute is None or type(attribute) is str, "an attribute that is not a text")
        place = None if position is None else number(position, 0, events - 1)
        found.append(EventError(attribute, text(reason), place))
    return found
