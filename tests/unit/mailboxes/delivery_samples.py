"""Batches of deliveries for tests, and a clock that goes when told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from actors.mailboxes.delivery_batch import DeliveryBatch


class SimulatedClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def batch_of(*matches: tuple[int, Any, int, int], events: Sequence[Any] | None = None, **columns: Any) -> DeliveryBatch:
    """Each match: the event's row, the subscription, the subscriber's code, the level."""
    rows = [match[0] for match in matches]
    return DeliveryBatch(
        np.array(rows, np.int64),
        [match[1] for match in matches],
        np.array([match[2] for match in matches], np.int64),
        np.array([match[3] for match in matches], np.int64),
        list(range(max(rows, default=-1) + 1)) if events is None else list(events),
        **columns,
    )


def one_each(subscriber: int, count: int, level: int = 0, start: int = 0, **columns: Any) -> DeliveryBatch:
    """As many events, each for this subscriber; event and subscription have the same number."""
    numbers = range(start, start + count)
    return batch_of(
        *((row, number, subscriber, level) for row, number in enumerate(numbers)), events=numbers, **columns
    )
