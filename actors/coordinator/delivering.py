"""Builds the columns that the mailboxes receive for a matched batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.mailboxes.event_content import pack_event
from actors.transport.publish_reply import Delivered
from actors.transport.published_events import PublishedEvents
from ray_pubsub.errors import EventError
from ray_pubsub.sharding.merging import ShardMatches, unpacked_ids

__all__ = ["delivered", "delivery_batch", "packed_contents"]


def delivery_batch(
    parts: Sequence[ShardMatches], levels: NDArray[np.uint8], events: PublishedEvents, key: str, age: float = 0.0
) -> tuple[DeliveryBatch, list[EventError]]:
    """Returns the deliveries of these matches, and an error for each event that cannot be packed and is left out. The mailboxes sort
    everything into their own order, so the shards' matches need not be merged. `age` is the seconds since the events were published."""
    matching = [part for part in parts if len(part)]
    if len(events) == 1 and len(matching) == 1 and (events.contents is None or isinstance(events.contents, list)):
        (part,) = matching  # of one event and one shard everything is there
        rows = np.zeros(len(part), np.int64)
        ids, subscribers = unpacked_ids(part.ids)[part.places], part.match_subscribers
        return DeliveryBatch(
            rows, ids, subscribers, levels[rows], events.ids, events.contents, events.keys(), key, age
        ), []
    rows = np.concatenate([np.repeat(np.arange(part.events), np.diff(part.offsets)) for part in parts])
    if events.positions is not None:
        rows = events.positions[rows]
    ids = np.concatenate([unpacked_ids(part.ids)[part.places] for part in matching])
    subscribers = np.concatenate([part.match_subscribers for part in parts])
    matched = np.zeros(len(events), np.bool_)
    matched[rows] = True
    contents, errors = packed_contents(events, np.flatnonzero(matched))
    if errors:
        kept = ~np.isin(rows, [error.position or 0 for error in errors])
        rows, ids, subscribers = rows[kept], ids[kept], subscribers[kept]
    urgency = levels[rows]
    return DeliveryBatch(rows, ids, subscribers, urgency, events.ids, contents, events.keys(), key, age), errors


def packed_contents(
    events: PublishedEvents, matched: NDArray[np.int64]
) -> tuple[Sequence[bytes | None] | None, list[EventError]]:
    """Returns a list with an entry for every event: the packed content of the matched events, None for the others. `matched` is in
    ascending order. Also returns an error for each event that cannot be packed."""
    contents, errors = events.contents, list[EventError]()
    if contents is None or isinstance(contents, list):
        return contents, errors
    packed: list[bytes | None] = [None] * len(events)
    try:
        rows = _rows(contents, matched)
    except (ValueError, OverflowError, pa.ArrowException):
        rows = None  # some row has a value that Python cannot represent
    for place, event in enumerate(matched.tolist()):
        try:
            packed[event] = pack_event(
                _rows(contents, matched[place : place + 1])[0] if rows is None else rows[place], event
            )
        except EventError as error:
            errors.append(error)
        except (ValueError, OverflowError, pa.ArrowException) as error:
            errors.append(EventError(None, f"cannot be delivered: {error}", event))
    return packed, errors


def _rows(contents: Any, places: NDArray[np.int64]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = contents.take(places).to_pylist(maps_as_pydicts="lossy")
    return found  # of equal keys in a map the last one wins, as in a dict


def delivered(report: DeliverReport) -> Delivered:
    """Converts the mailboxes' report to the publisher's form."""
    return Delivered(
        report.delivered,
        report.duplicates,
        report.dead,
        report.dropped,
        len(report.rejected),
        report.rejected_subscribers,
    )
