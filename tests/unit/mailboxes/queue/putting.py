"""Puts single items into a queue, as most tests need it."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any

from actors.mailboxes.queue.entries import Admission
from actors.mailboxes.queue.priority_queue import PriorityQueue

__all__ = ["put", "put_each"]


def put(queue: PriorityQueue, item: Any, level: int, *, enqueued: float | None = None, size: int = 0) -> Admission:
    return queue.put([(level, [item], size)], enqueued=enqueued)


def put_each(
    queue: PriorityQueue, items: Iterable[Any], levels: int | Iterable[int], sizes: Iterable[int] | None = None
) -> Admission:
    """Puts items in one batch, each with a level of its own, or all with one level."""
    each = repeat(levels) if isinstance(levels, int) else levels
    rows = zip(items, each, repeat(0) if sizes is None else sizes, strict=False)
    return queue.put([(level, [item], size) for item, level, size in rows])
