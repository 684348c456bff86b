"""The deliveries that a consumer gets from its mailbox, and the receipts and reports that go with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.mailboxes.event_content import unpack_event
from ray_pubsub.errors import SettingError, shortened

__all__ = ["AckReport", "DeadLetter", "Delivery", "DeliveryColumns", "Receipt", "StaleReceipt", "receipts_of"]

SHOWN = 300
"""The most characters shown of one value."""


class Receipt(NamedTuple):
    """Identifies one attempt of one delivery. Every poll has a new lease, so a receipt of an earlier attempt is not valid for a later
    one."""

    sequence: int
    lease: int


@dataclass(frozen=True, slots=True, repr=False)
class Delivery:
    """A delivery that was handed out. If it is not acknowledged, it comes again after `visible_until`."""

    subscriber: str | int
    """The name, or the code if the mailboxes do not know the name."""
    subscriber_code: int
    sequence: int
    """Grows with every delivery of these mailboxes and is never used twice, so that it identifies repetitions."""
    subscription_id: str | int
    event_id: Any
    content: bytes | None
    """The packed event (msgpack); one object for all deliveries of an event. `event` unpacks it."""
    level: int
    priority: str
    """The name of the level."""
    enqueued: float
    due: float
    """The latest time at which it is handed out on time; infinity if its level has no deadline."""
    attempt: int
    """The number of the attempt, 1 for the first."""
    lease: int
    visible_until: float
    data: Any = None
    """The data of the subscription if it was polled `with_data`, otherwise None."""
    tags: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Shows what a person looks for; the rest are fields."""
        return _short(self, "subscriber", "subscription_id", "event_id", "priority", "attempt", "event")

    @property
    def delivery_id(self) -> tuple[int, int]:
        return self.subscriber_code, self.sequence

    @property
    def receipt(self) -> Receipt:
        return Receipt(self.sequence, self.lease)

    @property
    def deadline(self) -> float | None:
        return None if self.due == inf else self.due

    @property
    def event(self) -> dict[str, Any] | None:
        """The event as it was published, a new dict each time; None if contents are not stored."""
        return None if self.content is None else unpack_event(self.content)


@dataclass(frozen=True, slots=True, eq=False)
class DeliveryColumns:
    """All deliveries of one poll, in columns. `len()` is their number. Pass it to `ack` as it is."""

    subscriber: str | int
    subscriber_code: int
    levels: tuple[str, ...]
    lease: int
    visible_until: float
    sequence: NDArray[np.int64]
    subscription_id: NDArray[Any]
    event_id: NDArray[Any]
    content: list[bytes | None]
    level: NDArray[np.int16]
    enqueued: NDArray[np.float64]
    due: NDArray[np.float64]
    attempt: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.sequence)

    def deliveries(self) -> list[Delivery]:
        levels = self.level.tolist()
        return list(
            map(
                Delivery,
                repeat(self.subscriber, len(self)),
                repeat(self.subscriber_code),
                self.sequence.tolist(),
                self.subscription_id.tolist(),
                self.event_id.tolist(),
                self.content,
                levels,
                [self.levels[level] for level in levels],
                self.enqueued.tolist(),
                self.due.tolist(),
                self.attempt.tolist(),
                repeat(self.lease),
                repeat(self.visible_until),
            )
        )

    def to_arrow(self) -> Any:
        """Returns a pyarrow Table. If ids are both str and int they become text, because an Arrow column has one type."""
        import pyarrow as pa

        return pa.table(
            {
                "sequence": self.sequence,
                "subscription_id": _arrow_ids(self.subscription_id),
                "event_id": _arrow_ids(self.event_id),
                "content": pa.array(self.content, pa.binary()),
                "level": self.level,
                "priority": pa.DictionaryArray.from_arrays(pa.array(self.level, pa.int32()), list(self.levels)),
                "enqueued": self.enqueued,
                "due": self.due,
                "attempt": self.attempt,
                "lease": np.full(len(self), self.lease, np.int64),
            }
        )


StaleReason = Literal["settled", "redelivered", "dead", "unknown"]


class StaleReceipt(NamedTuple):
    """A receipt that is no longer valid, and the reason: its delivery was acknowledged or dropped before (settled), waits or was handed
    out again (redelivered), is a dead letter (dead), or never was in this mailbox (unknown)."""

    position: int
    receipt: Receipt
    reason: StaleReason


@dataclass(frozen=True, slots=True)
class AckReport:
    """The number of valid receipts, and the stale ones, which changed nothing."""

    accepted: int
    stale: Sequence[StaleReceipt] = ()


@dataclass(frozen=True, slots=True, repr=False)
class DeadLetter:
    """A delivery that failed for good and is no longer attempted."""

    subscriber: str | int
    subscriber_code: int
    sequence: int
    subscription_id: str | int
    event_id: Any
    content: bytes | None
    level: int
    priority: str
    enqueued: float
    attempts: int
    reason: str
    died: float

    def __repr__(self) -> str:
        return _short(
            self, "subscriber", "sequence", "subscription_id", "event_id", "priority", "attempts", "reason", "event"
        )

    @property
    def event(self) -> dict[str, Any] | None:
        return None if self.content is None else unpack_event(self.content)


def _short(message: Delivery | DeadLetter, *fields: str) -> str:
    shown = ", ".join(f"{name}={shortened(repr(getattr(message, name)), SHOWN)}" for name in fields)
    return f"{type(message).__name__}({shown})"


def receipts_of(given: Any) -> list[Receipt]:
    """Converts deliveries, receipts, pairs of numbers, an array of such pairs, or the columns of a poll to receipts."""
    if isinstance(given, DeliveryColumns):
        return [Receipt(sequence, given.lease) for sequence in given.sequence.tolist()]
    if isinstance(given, Delivery | Receipt):
        return [Receipt(given[0], given[1]) if isinstance(given, Receipt) else given.receipt]
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise SettingError("receipts", f"must be deliveries or their receipts, not {given!r}")
    return [each.receipt if isinstance(each, Delivery) else _receipt(each) for each in given]


def _receipt(given: Any) -> Receipt:
    try:
        sequence, lease = given
    except (TypeError, ValueError):
        sequence = lease = None
    if type(sequence) is not int or type(lease) is not int:
        raise SettingError("receipts", f"must be deliveries or their receipts, not {given!r}")
    return Receipt(sequence, lease)


def _arrow_ids(ids: NDArray[Any]) -> Any:
    import pyarrow as pa

    if ids.dtype != object:
        return pa.array(ids)
    values = ids.tolist()
    if all(type(value) is int or value is None for value in values):
        return pa.array(values, pa.int64())
    return pa.array([None if value is None else str(value) for value in values], pa.string())
