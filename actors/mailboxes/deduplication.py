"""Deduplicates a batch: decides which of its matches were not delivered before, builds their chunk, and decides what to remember. It
changes nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.event_content import pack_event
from actors.mailboxes.publish_window import (
    EventEntries,
    PublicationEntry,
    PublishWindow,
    Undelivered,
    WindowEntries,
    pairs_of,
)
from actors.mailboxes.store.delivery_chunk import Chunk

__all__ = ["Known", "chunk_of", "entries_of", "known_of", "undelivered_of"]


class Known(NamedTuple):
    """The window's knowledge of a batch."""

    publication: bool
    left: Undelivered | None
    """What is still to be delivered of a known publication; None if everything was delivered."""
    events: list[int]
    """The rows of events that were published before, or earlier in the batch."""
    events_left: list[tuple[int, frozenset[int]]]
    """The rows of those among them that some subscribers have not received, with these subscribers."""


def known_of(batch: DeliveryBatch, window: PublishWindow) -> Known:
    """Looks a batch and its events up among what was published before."""
    published = batch.key is not None and batch.key in window.publications
    repeated: list[int] = []
    unfinished: list[tuple[int, frozenset[int]]] = []
    seen = set()
    for row, key in enumerate(batch.keys or ()):
        if key is None:
            continue
        if key in seen:
            repeated.append(row)
        elif key in window.events:
            repeated.append(row)
            left = window.events[key]
            if left:
                unfinished.append((row, left))
        seen.add(key)
    return Known(published, window.publications[batch.key] if published else None, repeated, unfinished)


def undelivered_of(batch: DeliveryBatch, known: Known) -> NDArray[np.int64]:
    """Returns the positions of the matches to deliver. Of what was published before, these are the matches of subscribers who have not
    received the event: a full mailbox rejects all matches of an event or none."""
    if not (known.publication or known.events):
        return np.arange(len(batch))
    fresh = np.ones(len(batch), bool)
    if known.publication:
        fresh = (
            np.zeros(len(batch), bool) if known.left is None else known.left.has(batch.event_rows, batch.subscribers)
        )
    if known.events:
        repeated = np.zeros(len(batch.event_ids), bool)
        repeated[known.events] = True
        new = ~repeated[batch.event_rows]
        if known.events_left:
            pairs = [(row << 32) | subscriber for row, left in known.events_left for subscriber in left]
            new |= np.isin(pairs_of(batch.event_rows, batch.subscribers), pairs)
        fresh &= new
    return np.flatnonzero(fresh)


def chunk_of(
    batch: DeliveryBatch, positions: NDArray[np.int64], first: int, now: float
) -> tuple[Chunk, NDArray[np.int64]]:
    """Returns a chunk of the matches at these positions, numbered from `first`, ordered by subscriber and from the highest level down, and
    the position of each row.

    So the rows of a mailbox are neighbours, and if only some fit they are the most urgent. Events that are delivered to nobody are left
    out.
    """
    order = positions
    if len(positions) > 1:
        order = positions[np.lexsort((-batch.levels[positions], batch.subscribers[positions]))]
    if len(batch.event_ids) == 1 and len(order):  # np.unique would take longer than everything else here
        used, events = np.zeros(1, np.int64), np.zeros(len(order), np.int64)
    else:
        used, events = np.unique(batch.event_rows[order], return_inverse=True)
    contents: list[bytes | None] = [None] * len(used)
    if batch.contents is not None:
        for place, event in enumerate(used.tolist()):
            content = batch.contents[event]
            contents[place] = None if content is None else pack_event(content, event)
    chunk = Chunk(
        np.arange(first, first + len(order), dtype=np.int64),
        batch.subscribers[order].astype(np.int32),
        batch.levels[order].astype(np.int16),
        batch.subscription_ids[order],
        events.astype(np.int32),
        batch.event_ids[used],
        contents,
        np.full(len(used), now - max(0.0, batch.age)),
    )
    return chunk, order


def entries_of(batch: DeliveryBatch, known: Known, rejected: NDArray[np.int64]) -> WindowEntries:
    """Returns what to remember of a batch when these of its matches were rejected."""
    return WindowEntries(_publication(batch, known, rejected), _events(batch, known, rejected))


def _publication(batch: DeliveryBatch, known: Known, rejected: NDArray[np.int64]) -> list[PublicationEntry]:
    """Returns the entry of the publication, or nothing if it is known already and was delivered to everybody."""
    if batch.key is None or (known.publication and known.left is None):
        return []
    if not len(rejected):
        return [PublicationEntry(batch.key, None)]
    codes, counts = np.unique(batch.subscribers[rejected], return_counts=True)
    all_codes, all_counts = np.unique(batch.subscribers, return_counts=True)
    got_nothing = counts == all_counts[np.searchsorted(all_codes, codes)]
    if known.left is not None:
        got_nothing &= np.isin(codes, known.left.subscribers)
    whole = codes[got_nothing].astype(np.int32)
    others = rejected[~np.isin(batch.subscribers[rejected], whole)]
    pairs = np.unique(pairs_of(batch.event_rows[others], batch.subscribers[others]))
    return [PublicationEntry(batch.key, Undelivered(whole, pairs))]


def _events(batch: DeliveryBatch, known: Known, rejected: NDArray[np.int64]) -> EventEntries:
    """Returns the entries of the events, without those that are known already and were delivered to everybody."""
    if batch.keys is None:
        return []
    left = _subscribers_by_row(batch, rejected) if len(rejected) else {}
    settled = set(known.events) - {row for row, _ in known.events_left}
    return [(key, left.get(row)) for row, key in enumerate(batch.keys) if key is not None and row not in settled]


def _subscribers_by_row(batch: DeliveryBatch, rejected: NDArray[np.int64]) -> dict[int, frozenset[int]]:
    """Returns the subscribers who rejected each event, by row. Equal sets are one object, because a stalled subscriber rejects every
    event."""
    pairs = np.unique(pairs_of(batch.event_rows[rejected], batch.subscribers[rejected]))
    rows, codes = pairs >> 32, (pairs & 0xFFFFFFFF).tolist()
    starts = np.flatnonzero(np.diff(rows, prepend=-1)).tolist()
    shared: dict[tuple[int, ...], frozenset[int]] = {}
    found: dict[int, frozenset[int]] = {}
    for start, stop, row in zip(starts, [*starts[1:], len(codes)], rows[starts].tolist(), strict=True):
        own = tuple(codes[start:stop])
        found[row] = shared.get(own) or shared.setdefault(own, frozenset(own))
    return found
