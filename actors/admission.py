"""What of a batch is news, and the chunk it becomes. Decides, and changes nothing."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.delivery_batch import DeliveryBatch
from actors.delivery_chunk import Chunk
from actors.event_content import pack_event
from actors.publish_window import PublishWindow, WindowEntries

__all__ = ["chunk_of", "entries_of", "news"]


def news(batch: DeliveryBatch, window: PublishWindow) -> NDArray[np.int64]:
    """Positions of the matches to deliver: of events not published before, and of others what was rejected then."""
    fresh = np.ones(len(batch), bool)
    if batch.key is not None and (batch.key,) in window:
        left = window.undelivered((batch.key,))
        pairs = zip(batch.event_rows.tolist(), batch.subscription_ids.tolist(), strict=True)
        fresh &= np.fromiter((pair in left for pair in pairs), bool, len(batch)) if left else False
    repeated, unfinished = _known_events(batch, window)
    if repeated:
        known = np.zeros(len(batch.event_ids), bool)
        known[repeated] = True
        is_news = ~known[batch.event_rows]
        for event, left in unfinished:
            rows = np.flatnonzero(batch.event_rows == event)
            is_news[rows] = [subscription in left for subscription in batch.subscription_ids[rows].tolist()]
        fresh &= is_news
    return np.flatnonzero(fresh)


def chunk_of(
    batch: DeliveryBatch, positions: NDArray[np.int64], first: int, now: float
) -> tuple[Chunk, NDArray[np.int64]]:
    """The matches at these positions, numbered from `first`, by subscriber and from the highest level down, and the position of each row.

    So the rows of a mailbox are neighbours, and if only some fit they are the most urgent. Events that nobody gets are left out.
    """
    order = positions[np.lexsort((-batch.levels[positions], batch.subscribers[positions]))]
    if len(batch.event_ids) == 1 and len(order):  # to look which of one event occur would take longer than all else
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
        np.full(len(used), now if batch.enqueued is None else min(batch.enqueued, now)),
    )
    return chunk, order


def entries_of(batch: DeliveryBatch, window: PublishWindow, rejected: NDArray[np.int64]) -> WindowEntries:
    """What to remember of a batch when these of its matches were rejected."""
    rows = batch.event_rows[rejected].tolist()
    subscriptions = batch.subscription_ids[rejected].tolist()
    entries: WindowEntries = []
    if batch.key is not None and ((batch.key,) not in window or window.undelivered((batch.key,))):
        entries.append(((batch.key,), frozenset(zip(rows, subscriptions, strict=True)) or None))
    if batch.keys is not None:
        left: dict[int, set[Any]] = {}
        for row, subscription in zip(rows, subscriptions, strict=True):
            left.setdefault(row, set()).add(subscription)
        repeated, unfinished = _known_events(batch, window)
        settled = set(repeated) - {event for event, _ in unfinished}
        entries += [
            (key, frozenset(left[event]) if event in left else None)
            for event, key in enumerate(batch.keys)
            if key is not None and event not in settled
        ]
    return entries


def _known_events(batch: DeliveryBatch, window: PublishWindow) -> tuple[list[int], list[tuple[int, Collection[Any]]]]:
    """Events whose key was published before, or earlier in the batch; and of those, with their matches, the ones not wholly delivered."""
    repeated: list[int] = []
    unfinished: list[tuple[int, Collection[Any]]] = []
    seen: set[Any] = set()
    for event, key in enumerate(batch.keys or ()):
        if key is None:
            continue
        if key in seen:
            repeated.append(event)
        elif key in window:
            repeated.append(event)
            left = window.undelivered(key)
            if left:
                unfinished.append((event, left))
        seen.add(key)
    return repeated, unfinished
