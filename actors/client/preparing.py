"""Reads a publisher's events once and packs them for transport (`transport.published_events`)."""

from __future__ import annotations

import itertools
import json
import os
import secrets
import time
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from actors.client.deliverable_rows import beyond_calendar, in_known_zones, without_rows
from actors.client.usable_content import left_out_by_position, without_attributes, without_cells
from actors.mailboxes.event_content import pack_event, packed_json
from actors.transport.object_refs import SharedEvents
from actors.transport.published_events import MOST_WARNINGS, PublishedEvents
from ray_pubsub.columns.json.documents import Document, Documents, documents_of
from ray_pubsub.columns.json.json_events import from_json
from ray_pubsub.errors import EventError
from ray_pubsub.model.arguments import check_text, is_unicode
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import arrow_of, read_events
from ray_pubsub.model.select_events import select_events
from ray_pubsub.model.single_event import SingleEvent

__all__ = ["new_key", "new_request", "prepare", "prepare_single"]

POSITION_BITS = 20
WORD = 16
"""The bytes of a number in a batch."""


def new_request() -> str:
    """Returns a new id for a request. A repetition of the request is recognised by it."""
    return uuid.uuid4().hex


_keys = (secrets.token_hex(12), itertools.count())


def new_key() -> str:
    """Returns an idempotency key that no other request has, which takes a fraction of the time of a random one."""
    start, numbers = _keys
    return f"{start}{next(numbers):x}"


def _after_fork() -> None:
    global _keys  # noqa: PLW0603 - a process has one beginning
    _keys = (secrets.token_hex(12), itertools.count())


os.register_at_fork(after_in_child=_after_fork)


def prepare(
    events: Any, event_id: str | None, key: str, contents: bool = True, *, strict: bool = False
) -> PublishedEvents:
    """Reads events and packs the content that is delivered for each. Raises EventError if the argument does not hold events; bad events
    among good ones are listed in `errors`. `strict` has the meaning that it has in events.read_events."""
    check_text("idempotency_key", key)
    if event_id is None and isinstance(events, Document | dict):
        single = prepare_single(events, key, contents, strict)
        if single is not None:
            return single
    if isinstance(events, Document):
        events = documents_of(events.text)
    if isinstance(events, Mapping):
        events = [events]
    if hasattr(events, "read_all"):
        events = events.read_all()
    if not isinstance(events, Documents) and not hasattr(events, "__len__") and hasattr(events, "__iter__"):
        events = list(events)
    read = from_json if isinstance(events, Documents) else read_events
    batch = read(events, event_id, strict=strict)
    ids = batch.input_ids
    if event_id is None:
        # Each event gets a unique id of 43 bits of the key's hash and the event's position: one range of integers, no object per event.
        first = _first_id(key)
        ids = np.arange(first, first + batch.input_size)
    kept, unfit = _contents(events, batch) if contents else (None, {})
    unfit |= _beyond_64_bits(event_id, ids)
    good, positions, errors = batch, batch.positions, batch.errors
    if unfit:
        positions = np.arange(batch.size) if positions is None else positions
        left = np.flatnonzero(~np.isin(positions, list(unfit)))
        reported = {error.position for error in errors}
        errors = [*errors, *(error for position, error in unfit.items() if position not in reported)]
        good, positions = select_events(batch, left), positions[left]
    moment = batch.moment
    if not isinstance(good, SingleEvent):
        good = EventBatch(good.size, good.lanes, np.zeros(good.size, np.int8), _cells=good._cells, _moment=moment)
    size = _size(good, kept)
    warnings = [warning for warning in batch.warnings if warning.position not in unfit] if unfit else batch.warnings
    return PublishedEvents(
        SharedEvents(good),
        positions,
        ids,
        event_id is not None,
        kept,
        errors,
        size,
        warnings[:MOST_WARNINGS],
        len(warnings),
    )


def prepare_single(events: Document | dict[Any, Any], key: str, contents: bool, strict: bool) -> PublishedEvents | None:
    """Does the same for one event without an id of its own, in a fraction of the time. Returns None for an event that is bad, or of which
    something is left out. The key must have been checked."""
    document = events if isinstance(events, Document) else None
    event = events.event if isinstance(events, Document) else events
    try:
        single = read_single(event, None, strict=strict)
        if single.warnings or not (all(map(str.isascii, single.names)) or all(map(is_unicode, single.names))):
            return None
        kept = None
        if contents:
            kept = [pack_event(event, 0) if document is None else packed_json(document.text)]
    except EventError:
        return None
    if single._moment is None:
        single._moment = time.time_ns() // 1000
    size = _size(single, kept)
    return PublishedEvents(SharedEvents(single), None, np.array([_first_id(key)]), False, kept, [], size)


def _first_id(key: str) -> int:
    return (xxhash.xxh3_64_intdigest(key.encode()) >> 21) << POSITION_BITS


def _beyond_64_bits(event_id: str | None, ids: NDArray[Any]) -> dict[int, EventError]:
    """Returns errors, by position, for the events whose integer ids are too large for messages and stores, and sets these ids to None in
    `ids`."""
    found: dict[int, EventError] = {}
    if ids.dtype == object and int in set(map(type, ids.tolist())):
        for place, identity in enumerate(ids.tolist()):
            if type(identity) is int and not -(2**63) <= identity < 2**63:
                found[place] = EventError(event_id, "an event's id must be an integer of at most 64 bits", place)
                ids[place] = None
    return found


def _not_deliverable(table: Any) -> dict[int, EventError]:
    """Returns errors, by position, for the events of a table that can be matched but that no mailbox can hold."""
    found: dict[int, EventError] = {}
    first = 0
    for part in [table] if isinstance(table, pa.RecordBatch) else table.to_batches():
        for name, rows in beyond_calendar(part):
            for row in (first + np.flatnonzero(rows)).tolist():
                found.setdefault(
                    row, EventError(name, "cannot be delivered: a moment outside the years 1 to 9999", row)
                )
        first += part.num_rows
    return found


def _known_zones(table: Any) -> Any:
    if isinstance(table, pa.RecordBatch):
        return in_known_zones(table)
    parts = [in_known_zones(part) for part in table.to_batches()]
    return pa.Table.from_batches(parts) if parts else table


def _contents(events: Any, batch: EventBatch) -> tuple[Any, dict[int, EventError]]:
    """Returns the content to deliver, as a table or as a list of packed events, and errors by position for the events that cannot be
    delivered."""
    if isinstance(events, Documents):
        return _json_contents(events, batch)
    module = type(events).__module__.partition(".")[0]
    table = events if module == "pyarrow" else None
    if module == "pandas" and hasattr(events, "columns"):
        table = arrow_of(events)
        if table is None:
            events = events.to_dict("records")
    bad = {error.position for error in batch.errors if error.position is not None}
    if table is not None:
        table = without_rows(without_cells(_known_zones(table), batch.warnings), bad)
        return table, _not_deliverable(table)
    left_out = left_out_by_position(batch.warnings)
    packed: list[bytes | None] = [None] * len(events)
    unfit: dict[int, EventError] = {}
    for place, event in enumerate(events):
        if place not in bad:
            try:
                usable = without_attributes(event, left_out[place]) if place in left_out else event
                packed[place] = pack_event(usable, place)
            except EventError as error:
                unfit[place] = error
    return packed, unfit


def _json_contents(documents: Documents, batch: EventBatch) -> tuple[list[bytes | None], dict[int, EventError]]:
    """Does the same for JSON documents. They are delivered as they came; a document is parsed and written again only if attributes are
    left out of it."""
    bad = {error.position for error in batch.errors}
    contents = [None if place in bad else packed_json(documents.text(place)) for place in range(documents.size)]
    for place, names in left_out_by_position(batch.warnings).items():
        contents[place] = json.dumps(without_attributes(json.loads(contents[place] or b"{}"), names)).encode()
    unfit: dict[int, EventError] = {}
    if all(map(is_unicode, batch.attributes())):
        return contents, unfit
    for lane in batch.lanes:
        if not is_unicode(lane.attribute):  # the key has an escape that is half of a surrogate pair
            rows = np.arange(batch.size) if lane.rows is None else lane.rows
            for place in (rows if batch.positions is None else batch.positions[rows]).tolist():
                unfit[place] = EventError(None, "has a key that is not valid Unicode", place)
    return contents, unfit


def _size(batch: EventBatch, contents: Any) -> int:
    if isinstance(batch, SingleEvent):
        size = WORD * len(batch.plains)
        for plain in batch.plains:
            if type(plain) is str:
                size += len(plain)
        return size + (len(contents[0] or b"") if isinstance(contents, list) else 0)
    size = sum(lane.whole.nbytes + (0 if lane.rest is None else lane.rest.nbytes) for lane in batch.lanes)
    size += sum(part.nbytes for lane in batch.lanes for part in (lane.strings, lane.lists) if part is not None)
    if isinstance(contents, list):
        return size + sum(map(len, filter(None, contents)))
    return size + (0 if contents is None else int(contents.nbytes))
