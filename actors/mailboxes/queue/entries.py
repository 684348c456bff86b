"""The form of an entry while it waits, and the forms in which it leaves the queue."""

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
    "size_of",
    "waiting_again",
]

# A waiting entry is a plain tuple, as zip makes it without running Python code: order, enqueued, due, size, level, item. The order comes
# first and is unique, so tuples compare by it and never look at the item.
Waiting = tuple[int, float, float, int, int, Any]
ORDER: Final = 0
ENQUEUED: Final = 1
DUE: Final = 2
SIZE: Final = 3
LEVEL: Final = 4

due_of = itemgetter(DUE)
size_of = itemgetter(SIZE)

LostReason = Literal["expired", "dropped"]


class TakenEntry(NamedTuple):
    """An entry that was taken. All times are on the queue's clock."""

    order: int
    """The entry's number in its queue, assigned when it was put. Entries of one level leave in this order."""
    enqueued: float
    due: float
    """The latest time at which a delivery is on time; infinity if there is no deadline."""
    size: int
    level: int
    item: Any
    taken: float

    @property
    def on_time(self) -> bool:
        return self.taken <= self.due


class Lost(NamedTuple):
    """An entry that left without being delivered, and the reason: it expired, or it was dropped to make room."""

    order: int
    enqueued: float
    due: float
    size: int
    level: int
    item: Any
    at: float
    reason: LostReason


class Taken(NamedTuple):
    """The result of `take`: the deliveries in order, and the entries found expired before them."""

    deliveries: list[TakenEntry]
    lost: list[Lost]


@dataclass(frozen=True, slots=True)
class Admission:
    """The outcome of a put: the number of items that entered (some may be among the lost), the items that did not enter, and the entries
    that left to make room."""

    accepted: int
    rejected: Sequence[int]
    """The positions in the batch of the items that did not enter. They still belong to the caller."""
    lost: Sequence[Lost]


def as_deliveries(entries: Iterable[Waiting], now: float) -> list[TakenEntry]:
    # The constructor of a NamedTuple runs Python code for each object; tuple's does not.
    new, taken = tuple.__new__, (now,)
    return [new(TakenEntry, entry + taken) for entry in entries]


def as_lost(entries: Iterable[Waiting], now: float, reason: LostReason) -> list[Lost]:
    new, fate = tuple.__new__, (now, reason)
    return [new(Lost, entry + fate) for entry in entries]


def waiting_again(delivery: TakenEntry) -> Waiting:
    return delivery[:6]
