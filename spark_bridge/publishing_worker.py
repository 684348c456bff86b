"""The part of every handoff that runs in Spark's Python workers: publishes Arrow batches of events, keeps several in
flight, and yields their results in order. Rows that are not valid events are set aside and do not stop the others."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.client.deliverable_rows import beyond_calendar, in_utc
from actors.client.preparing import new_request, prepare
from actors.client.publish_result import PublishResult
from actors.transport.calls import Deadline
from actors.transport.published_events import PublishedEvents
from ray_pubsub.errors import EventError, TableError
from ray_pubsub.model.utf8 import valid_utf8
from spark_bridge.arrow_portions import Portions, by_halves
from spark_bridge.row_ids import ContentIds, row_numbers
from spark_bridge.task_place import TaskPlace

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["BadRow", "Handoff", "Outcome", "bad_row", "handed_over", "readable_parts", "separated"]

PAUSE, LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a task's events are handed over to the server."""

    attributes: tuple[str, ...]
    """The names of a batch's first columns, which are the events."""
    has_id: bool
    """Whether the next column has the events' ids."""
    deliver: bool
    strict: bool
    """Whether a row with a value that cannot be used is a bad row; otherwise only that value is left out."""
    scope: str
    """Makes the generated ids unique, in a job that is not a stream."""
    batch_rows: int
    max_in_flight: int
    timeout: float
    patience: float


@dataclass(frozen=True, slots=True)
class BadRow:
    position: int
    """The position within its part."""
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A part of a batch, with its result. Without a result, none of its rows was a valid event."""

    rows: Any
    """The rows of the part, with all columns."""
    ids: Any
    """An Arrow column of the given ids, or of those generated here."""
    result: PublishResult | None
    bad: list[BadRow]

    @property
    def first_bad(self) -> str:
        """The id of the first bad row, if it has one, and the reason."""
        bad = self.bad[0]
        try:
            identity = self.ids[bad.position].as_py()
        except UnicodeDecodeError:
            identity = None
        return bad.reason if identity is None else f"{identity}: {bad.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    rows: Any
    ids: Any
    events: PublishedEvents | None
    bad: list[BadRow]


def handed_over(server: Server, batches: Iterable[Any], handoff: Handoff, place: TaskPlace) -> Iterator[Outcome]:
    """Publishes batches and yields their outcomes. Takes the next batch from Spark only when the server has room for it: this is the
    back-pressure."""
    sent: deque[_Part] = deque()
    portions = Portions(batches, handoff.batch_rows)

    def published() -> Iterator[PublishedEvents]:
        for part in _parts(portions, handoff, place):
            sent.append(part)
            if part.events is not None:
                yield part.events

    results = server.publish_stream(
        published(),
        deliver=handoff.deliver,
        max_in_flight=handoff.max_in_flight,
        timeout=handoff.timeout,
        patience=handoff.patience,
    )
    for result in results:
        yield from _unread(sent)
        part = sent.popleft()
        assert part.events is not None
        if handoff.deliver:
            _deliver_rest(server, part.events, result, handoff)
        portions.saw(part.rows.num_rows, len(result))
        yield Outcome(part.rows, part.ids, result, [*part.bad, *(bad_row(error) for error in result.errors)])
    yield from _unread(sent)


def readable_parts(
    rows: Any, names: tuple[str, ...], strict: bool, contents: bool = False
) -> Iterator[tuple[Any, PublishedEvents | TableError]]:
    """Reads a batch whose first columns are events of these names, in as many parts as necessary. Each part comes with its events, or
    with the reason why it cannot be read. `contents` includes the content to deliver."""

    def read(part: Any) -> PublishedEvents:
        return prepare(_events(part, names), None, new_request(), contents, strict=strict)

    for _, part, found in by_halves(read, rows):
        yield part, found


def separated(portion: Any, names: tuple[str, ...], has_id: bool, deliver: bool) -> Iterator[tuple[str | None, Any]]:
    """Yields the rows that may be events, and then the others, grouped by the reason."""
    left = np.ones(portion.num_rows, dtype=bool)
    refused: list[tuple[str, Any]] = []
    for reason, found in _refusals(portion, names, has_id, deliver):
        rows = found & left
        if rows.any():
            refused.append((reason, portion.filter(pa.array(rows))))
            left &= ~rows
    if not refused:
        yield None, portion
    elif left.any():
        yield None, portion.filter(pa.array(left))
    yield from refused


def _refusals(
    portion: Any, names: tuple[str, ...], has_id: bool, deliver: bool
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    if has_id:
        ids = portion.column(len(names))
        if ids.null_count:
            yield "the event's id is null", ids.is_null().to_numpy(zero_copy_only=False)
        if deliver and not pa.types.is_integer(ids.type):
            yield "the event's id is not valid UTF-8", ~valid_utf8(ids)
    if deliver:
        for name, rows in beyond_calendar(_events(portion, names)):
            yield f"{name}: a moment outside of the years 1 to 9999 cannot be delivered", rows


def _parts(portions: Portions, handoff: Handoff, place: TaskPlace) -> Iterator[_Part]:
    made = ContentIds(place, handoff.scope) if handoff.deliver and not handoff.has_id else None
    first = 0
    for portion in portions:
        for reason, rows in separated(portion, handoff.attributes, handoff.has_id, handoff.deliver):
            if reason is not None:
                bad = [BadRow(at, reason) for at in range(rows.num_rows)]
                yield _Part(rows, _given_ids(rows, handoff), None, bad)
                continue
            for part, found in readable_parts(rows, handoff.attributes, handoff.strict, handoff.deliver):
                if handoff.has_id:
                    ids = _given_ids(part, handoff)
                elif made is None:
                    ids = row_numbers(place, first, part.num_rows)
                    first += part.num_rows
                else:
                    ids = _content_ids(part, found, made)
                if isinstance(found, TableError):
                    yield _Part(part, ids, None, [BadRow(0, str(found))])
                else:
                    yield _Part(part, ids, _deliverable(ids, found) if handoff.deliver else found, [])


def _given_ids(rows: Any, handoff: Handoff) -> Any:
    return rows.column(len(handoff.attributes)) if handoff.has_id else pa.nulls(rows.num_rows, pa.string())


def _content_ids(part: Any, found: PublishedEvents | TableError, made: ContentIds) -> Any:
    """Returns ids by content, null for a row that is not a valid event and may not even be readable."""
    ids = np.full(part.num_rows, None, dtype=object)
    if not isinstance(found, TableError):
        events = in_utc(found.contents)
        good = slice(None) if found.positions is None else found.positions
        ids[good] = made.of(events if found.positions is None else events.take(pa.array(found.positions)))
    return pa.array(ids, pa.string())


def _events(rows: Any, names: tuple[str, ...]) -> Any:
    return pa.RecordBatch.from_arrays(rows.columns[: len(names)], names=list(names))


def _deliverable(ids: Any, events: PublishedEvents) -> PublishedEvents:
    """Returns the events with the ids by which repetitions are recognised."""
    return replace(events, ids=_numpy_ids(ids), given_ids=True, contents=in_utc(events.contents))


def _numpy_ids(ids: Any) -> NDArray[Any]:
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return np.array(ids.to_pylist(), dtype=object)


def _unread(sent: deque[_Part]) -> Iterator[Outcome]:
    """Yields the parts that were not sent, up to the next one that was."""
    while sent and sent[0].events is None:
        part = sent.popleft()
        yield Outcome(part.rows, part.ids, None, part.bad)


def _deliver_rest(server: Server, events: PublishedEvents, result: PublishResult, handoff: Handoff) -> None:
    """Publishes again the events whose mailbox was full; the others are recognised by their ids and not delivered twice."""
    deadline, pause, latest = Deadline(handoff.patience), PAUSE, result
    while latest.deliveries.rejected:
        if deadline.left <= pause:
            latest.raise_if_rejected()
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        (latest,) = server.publish_stream([events], timeout=handoff.timeout, patience=max(deadline.left, PAUSE))


def bad_row(error: EventError) -> BadRow:
    """Returns the row of a bad event, with the attribute in the reason."""
    where = "" if error.attribute is None else f"{error.attribute}: "
    return BadRow(error.position or 0, f"{where}{error.reason}")
