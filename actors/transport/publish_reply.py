"""A coordinator's reply to a publisher. It does not contain what the publisher knows: ids, positions, the errors it found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.transport.frames import (
    REPLY,
    Frame,
    FrameReader,
    FrameWriter,
    ProtocolError,
    check,
    number,
    packed,
    text,
    unpacked,
)
from actors.transport.matching import FEW_FIELDS, FEW_MATCHES, read_few, read_matches, written_matches
from actors.transport.object_refs import StoredRef
from actors.transport.published_events import read_errors, written_errors
from ray_pubsub.errors import EventError
from ray_pubsub.sharding.merging import ShardMatches

__all__ = ["Delivered", "PublishReply", "read_publish_reply"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The outcome of the deliveries: matches are in mailboxes, were delivered before (duplicates), or found the mailbox full."""

    delivered: int = 0
    duplicates: int = 0
    dead: int = 0
    dropped: int = 0
    rejected: int = 0
    rejected_subscribers: tuple[str | int, ...] = ()

    def __add__(self, other: Delivered) -> Delivered:
        names = tuple(dict.fromkeys((*self.rejected_subscribers, *other.rejected_subscribers)))
        return Delivered(
            self.delivered + other.delivered,
            self.duplicates + other.duplicates,
            self.dead + other.dead,
            self.dropped + other.dropped,
            self.rejected + other.rejected,
            names,
        )


NOTHING = Delivered()
TEXTS = frozenset({str})
FIELDS_OF_ONE = 6


@dataclass(slots=True, eq=False)
class PublishReply:
    """A coordinator's answer to a publication."""

    levels: NDArray[np.uint8]
    """The number of each published event's priority level."""
    level_names: tuple[str, ...]
    parts: list[ShardMatches | StoredRef]
    """Each shard's reply about the good events."""
    lineage: str
    """The lineage of the server's data, for which the subscribers' codes are valid."""
    errors: list[EventError] = field(default_factory=list)
    """Errors of the events that the server left out, beside those that the publisher left out."""
    deliveries: Delivered = NOTHING
    names: dict[int, str] | None = None
    """The names of the subscribers, if the matches are few."""

    def __len__(self) -> int:
        """The number of matches."""
        count = 0
        for part in self.parts:
            count += part.count if isinstance(part, StoredRef) else len(part)
        return count

    def __reduce__(self) -> Any:
        if len(self) <= FEW_MATCHES and not any(isinstance(part, StoredRef) for part in self.parts):
            return read_publish_reply, (self.frame().detached(),)
        return PublishReply, (
            self.levels, self.level_names, self.parts, self.lineage, self.errors, self.deliveries, self.names,
        )  # fmt: skip

    def fetch(self, fetched: Callable[[StoredRef], ShardMatches]) -> None:
        """Maps the matches that are still in the object store into this process."""
        self.parts = [fetched(part) if isinstance(part, StoredRef) else part for part in self.parts]

    def frame(self) -> Frame:
        if len(self.levels) == 1 and not self.errors:
            return self._frame_of_one()
        writer, delivered = FrameWriter(), self.deliveries
        fields = (
            len(self.levels),
            writer.column(self.levels) if self.levels.any() else None,
            self.level_names,
            [written_matches(writer, part) for part in self.parts if isinstance(part, ShardMatches)],
            self.lineage,
            written_errors(self.errors),
            (
                *(delivered.delivered, delivered.duplicates, delivered.dead, delivered.dropped, delivered.rejected),
                delivered.rejected_subscribers,
            ),
            None if self.names is None else (list(self.names), list(self.names.values())),
        )
        return writer.frame(REPLY, fields)

    def _frame_of_one(self) -> Frame:
        """Returns the reply about one event, of which nothing is reported that did not happen."""
        writer, each = FrameWriter(), self.deliveries
        fields = (
            int(self.levels[0]),
            self.level_names,
            [written_matches(writer, part) for part in self.parts if isinstance(part, ShardMatches)],
            self.lineage,
            None
            if each is NOTHING
            else (each.delivered, each.duplicates, each.dead, each.dropped, each.rejected, each.rejected_subscribers),
            None if self.names is None else (list(self.names), list(self.names.values())),
        )
        return Frame(REPLY, packed(fields), writer.columns)


@lru_cache(256)
def level_of_one(level: int) -> NDArray[np.uint8]:
    """Returns the column of one event's level, which all such events share."""
    found = np.full(1, level, np.uint8)
    found.flags.writeable = False
    return found


def read_publish_reply(frame: Frame, events: int | None = None, good: int | None = None) -> PublishReply:
    """Reads a reply. `events` is the number of events published, and `good` the number of them that could be matched. Raises
    ProtocolError, or any other exception for a frame that is not valid (`frames.decoded`)."""
    one = unpacked(frame.header)
    if type(one) is list and len(one) == FIELDS_OF_ONE:
        return _read_reply_about_one(one, frame, events, good)
    reader = FrameReader(frame.header, frame.columns, fields=8)
    published, levels, level_names, parts, lineage, errors, delivered, names = reader.fields
    count = number(published, 0, 2**31 - 1)
    check(events is None or count == events, "a reply about another number of events")
    check(type(level_names) is list and level_names, "levels without names")
    if levels is None:
        urgency = np.zeros(count, np.uint8)
    else:
        urgency = reader.column(levels, np.uint8)
        check(len(urgency) == count, "levels of other events")
        check(not count or int(urgency.max()) < len(level_names), "a level that has no name")
    found: list[ShardMatches | StoredRef] = []
    for part in parts:
        matches = read_matches(reader, part)
        check(good is None or matches.events == good, "matches of other events")
        found.append(matches)
    reader.finish()
    return PublishReply(
        urgency,
        tuple(text(name) for name in level_names),
        found,
        text(lineage),
        read_errors(errors, count),
        _read_delivered(delivered),
        _read_names(names),
    )


def _read_reply_about_one(fields: list[Any], frame: Frame, events: int | None, good: int | None) -> PublishReply:
    level, level_names, parts, lineage, delivered, names = fields
    if events not in (None, 1) or (parts and good not in (None, 1)):
        raise ProtocolError("a reply about another number of events")
    if type(level_names) is not list or set(map(type, level_names)) != TEXTS:
        raise ProtocolError("levels without names")
    if type(level) is not int or not 0 <= level < len(level_names):
        raise ProtocolError("a level that has no name")
    found: list[ShardMatches | StoredRef] = [read_few(*part) for part in parts if len(part) == FEW_FIELDS]
    if len(found) < len(parts) or frame.columns:
        found = _read_parts_about_one(fields, frame)
    return PublishReply(
        level_of_one(level),
        tuple(level_names),
        found,
        text(lineage),
        [],
        NOTHING if delivered is None else _read_delivered(delivered),
        _read_names(names),
    )


def _read_parts_about_one(fields: list[Any], frame: Frame) -> list[ShardMatches | StoredRef]:
    """Reads parts of which some are in columns."""
    reader = FrameReader.of(fields, frame.columns)
    found: list[ShardMatches | StoredRef] = []
    for part in fields[2]:
        matches = read_matches(reader, part)
        if matches.events != 1:
            raise ProtocolError("matches of other events")
        found.append(matches)
    reader.finish()
    return found


def _read_delivered(value: Sequence[Any]) -> Delivered:
    *counts, rejected = value
    check(set(map(type, rejected)) <= {str, int}, "subscribers that are neither texts nor numbers")
    delivered, duplicates, dead, dropped, refused = (number(count) for count in counts)
    return Delivered(delivered, duplicates, dead, dropped, refused, tuple(rejected))


def _read_names(value: Any) -> dict[int, str] | None:
    if value is None:
        return None
    codes, names = value
    if not (set(map(type, codes)) <= {int} and set(map(type, names)) <= TEXTS):
        raise ProtocolError("names that are not texts")
    return dict(zip(codes, names, strict=True))
