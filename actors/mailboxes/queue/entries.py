"""What the queue keeps for an entry while it waits, and what it hands out when the entry leaves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

__all__ = [
    "DUE",
    "ENQUEUED",
    "LEVEL",
    "ORDER",
    "SIZE",
    "Admission",
    "Lost",
    "LostReason",
    "Taken",
    "TakenEntry",
    "Waiting",
    "as_deliveries",
    "as_lost",
    "due_of",
    "enqueued_of",
    "size_of",
    "waiting_again",
]

# A plain tuple, as zip makes it without running Python: order, enqueued, due, size, level, item. The order comes first and is
# unique, so tuples compare by it and never look at the item.
Waiting = tuple[int, float, float, int, int, Any]
ORDER: Final = 0
ENQUEUED: Final = 1
DUE: Final = 2
SIZE: Final = 3
LEVEL: Final = 4

enqueued_of = itemgetter(ENQUEUED)
due_of = itemgetter(DUE)
size_of = itemgetter(SIZE)

LostReason = Literal["expired", "dropped"]


class TakenEntry(NamedTuple):
    """An entry that was taken. All times are the queue's clock's."""

    order: int
    """The entry's number in its queue, given when it was put; entries of one level leave in this order."""
    enqueued: float
    due: float
    """Delivered at this instant it is still on time; infinity if it has no deadline."""
    size: int
    level: int
    item: Any
    taken: float

    @property
    def on_time(self) -> bool:
        return self.taken <= self.due


class Lost(NamedTuple):
    """An entry that left without being delivered, and why: it expired, or it was dropped to make room."""

    order: int
    enqueued: float
    due: float
    size: int
    level: int
    item: Any
    at: float
    reason: LostReason


class Taken(NamedTuple):
    """What `take` gives: the deliveries in order, and what had expired on the way to them."""

    deliveries: list[TakenEntry]
    lost: list[Lost]


@dataclass(frozen=True, slots=True)
class Admission:
    """What became of a put: how many items are now waiting or were among the lost, which never entered, which entries left for them."""

    accepted: int
    rejected: Sequence[int]
    """Positions in the batch of the items that did not enter; they are the caller's still."""
    lost: Sequence[Lost]


def as_deliveries(entries: Iterable[Waiting], now: float) -> list[TakenEntry]:
    # The constructor of a NamedTuple runs Python for each object; tuple's does not.
    new, taken = tuple.__new__, (now,)
    return [new(TakenEntry, entry + taken) for entry in entries]


def as_lost(entries: Iterable[Waiting], now: float, reason: LostReason) -> list[Lost]:
    new, fate = tuple.__new__, (now, reason)
    return [new(Lost, entry + fate) for entry in entries]


def waiting_again(delivery: TakenEntry) -> Waiting:
    return delivery[:6]
