"""The part of every handoff that runs in Spark's Python workers: Arrow batches of events into the object store, several under way, what
came of them back in order. Rows that are no events are told apart and stop nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.calls import Deadline
from actors.publish_result import PublishResult
from actors.published_events import PublishedEvents, new_request, prepare
from ray_pubsub.errors import EventError, TableError
from spark_bridge.arrow_portions import Portions, by_halves
from spark_bridge.row_ids import ContentIds, row_numbers
from spark_bridge.task_place import TaskPlace

if TYPE_CHECKING:
    from actors.server import Server

__all__ = ["BadRow", "Handoff", "Outcome", "handed_over", "readable_parts"]

PAUSE, LONGEST_PAUSE = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Handoff:
    """How a task's events are handed over."""

    attributes: tuple[str, ...]
    """The names of a batch's first columns, which are the events."""
    has_id: bool
    """The next column is the events' ids."""
    deliver: bool
    scope: str
    """Of ids that are made here, in a job that is no stream."""
    batch_rows: int
    under_way: int
    timeout: float
    patience: float


@dataclass(frozen=True, slots=True)
class BadRow:
    position: int
    """In its part."""
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """A part of a batch, with what came of it. Without a result none of its rows could be read."""

    rows: Any
    """All its columns."""
    ids: Any
    """A column of Arrow: the given ids, or those made here."""
    result: PublishResult | None
    bad: list[BadRow]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    rows: Any
    ids: Any
    events: PublishedEvents | None
    bad: list[BadRow]


def handed_over(server: Server, batches: Iterable[Any], handoff: Handoff, place: TaskPlace) -> Iterator[Outcome]:
    """The next batch is not taken while the server has no room: so Spark waits, and nothing piles up."""
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
        under_way=handoff.under_way,
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
        yield Outcome(part.rows, part.ids, result, [*part.bad, *(_bad(error) for error in result.errors)])
    yield from _unread(sent)


def readable_parts(rows: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, PublishedEvents | TableError]]:
    """A batch, whose first columns are events of these names, in as many parts as it takes to read it; each read, or why not."""

    def read(part: Any) -> PublishedEvents:
        events = pa.RecordBatch.from_arrays(part.columns[: len(names)], names=list(names))
        return prepare(events, None, new_request(), contents=False)

    for _, part, found in by_halves(read, rows):
        yield part, found


def _parts(portions: Portions, handoff: Handoff, place: TaskPlace) -> Iterator[_Part]:
    made = ContentIds(place, handoff.scope) if handoff.deliver and not handoff.has_id else None
    first = 0
    for portion in portions:
        for without_id, rows in _by_presence(portion, len(handoff.attributes) if handoff.has_id else None):
            if without_id:
                ids = rows.column(len(handoff.attributes))
                bad = [BadRow(at, "the event's id is null") for at in range(rows.num_rows)]
                yield _Part(rows, ids, None, bad)
                continue
            for part, found in readable_parts(rows, handoff.attributes):
                ids = _arrow_ids(part, handoff, place, made, first)
                first += part.num_rows
                if isinstance(found, TableError):
                    yield _Part(part, ids, None, [BadRow(0, str(found))])
                elif not handoff.deliver:
                    yield _Part(part, ids, found, [])
                else:
                    yield _Part(part, ids, _deliverable(part, ids, found, handoff), [])


def _arrow_ids(part: Any, handoff: Handoff, place: TaskPlace, made: ContentIds | None, first: int) -> Any:
    if handoff.has_id:
        return part.column(len(handoff.attributes))
    if made is None:
        return row_numbers(place, first, part.num_rows)
    return pa.array(made.of(part.select(list(range(len(handoff.attributes))))), pa.string())


def _deliverable(part: Any, ids: Any, events: PublishedEvents, handoff: Handoff) -> PublishedEvents:
    """With what is delivered of them, and the ids by which a repetition is known."""
    names = list(handoff.attributes)
    contents = pa.RecordBatch.from_arrays(part.columns[: len(names)], names=names)
    return replace(
        events, ids=_numpy_ids(ids), given_ids=True, contents=contents, nbytes=events.nbytes + contents.nbytes
    )


def _numpy_ids(ids: Any) -> NDArray[Any]:
    if pa.types.is_integer(ids.type):
        return np.asarray(ids.cast(pa.int64()).to_numpy(zero_copy_only=False))
    return np.array(ids.to_pylist(), dtype=object)


def _by_presence(portion: Any, id_column: int | None) -> Iterator[tuple[bool, Any]]:
    """Rows with an id, and then those without; whether they are without."""
    if id_column is None or portion.column(id_column).null_count == 0:
        yield False, portion
        return
    valid = portion.column(id_column).is_valid()
    for without, chosen in ((False, valid), (True, portion.column(id_column).is_null())):
        rows = portion.filter(chosen)
        if rows.num_rows:
            yield without, rows


def _unread(sent: deque[_Part]) -> Iterator[Outcome]:
    """Parts that were not sent, up to the next that was."""
    while sent and sent[0].events is None:
        part = sent.popleft()
        yield Outcome(part.rows, part.ids, None, part.bad)


def _deliver_rest(server: Server, events: PublishedEvents, result: PublishResult, handoff: Handoff) -> None:
    """What found its mailbox full is tried again, and only that: the events are known by their ids."""
    deadline, pause, latest = Deadline(handoff.patience), PAUSE, result
    while latest.deliveries.rejected:
        if deadline.left <= pause:
            latest.raise_if_rejected()
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
        (latest,) = server.publish_stream([events], timeout=handoff.timeout, patience=max(deadline.left, PAUSE))


def _bad(error: EventError) -> BadRow:
    where = "" if error.attribute is None else f"{error.attribute}: "
    return BadRow(error.position or 0, f"{where}{error.reason}")
