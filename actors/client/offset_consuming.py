"""The consumer's side of offset reading: deliveries are read by sequence number, and batches of a stream are marked as done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.mailboxes.delivery import DeliveryColumns
from actors.mailboxes.offsets.offset_reading import Place
from actors.transport.calls import Deadline, answer, retried
from ray_pubsub.model.arguments import check_text

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["OffsetConsumer"]


class OffsetConsumer:
    """Reads deliveries of one server by sequence number. Every call is idempotent, and is repeated while the mailboxes' process
    restarts."""

    def __init__(self, server: Server) -> None:
        self._mailboxes = server.mailboxes
        self._timeout = server.settings.timeout

    def begin(self, subscriber: str) -> Place:
        """Switches a subscriber's mailbox to offset reading; from then on poll refuses it. Returns the place before its first delivery."""
        check_text("subscriber", subscriber)
        place: Place = self._call("begin_offsets", subscriber)
        return place

    def start(self) -> Place:
        """Returns the place before all deliveries, from which any mailbox can be read."""
        place: Place = self._call("first_offset")
        return place

    def end(self, subscriber: str) -> int:
        """Switches a subscriber's mailbox back to polling. Returns the number of deliveries that wait in it."""
        return int(self._call("end_offsets", subscriber))

    def bounds(self, subscriber: str, after: Place, up_to: int | None, rows: int) -> list[int]:
        """Splits the deliveries after a place into ranges of `rows` each. Returns the sequence number at which each range ends. The last
        range ends at `up_to`, or at the newest delivery if that is None."""
        found: list[int] = self._call("offset_bounds", subscriber, after, up_to, rows)
        return found

    def read(self, subscriber: str, after: Place, up_to: int) -> DeliveryColumns:
        """Returns the deliveries of a range. Repeated reads return the same deliveries, until they are acknowledged."""
        found: DeliveryColumns = self._call("read_range", subscriber, after, up_to)
        return found

    def ack_through(self, subscriber: str, place: Place) -> int:
        """Acknowledges everything up to this place."""
        return int(self._call("ack_through", subscriber, place))

    def last_batch(self, stream: str) -> int | None:
        """Returns the last batch of a stream that was delivered completely, or None if there is no such batch."""
        found: int | None = self._call("last_batch", stream)
        return found

    def mark_batch(self, stream: str, batch: int) -> None:
        """Records that this batch of a stream, and so every batch before it, was delivered completely."""
        self._call("mark_batch", stream, batch)

    def _call(self, method: str, *arguments: Any) -> Any:
        def call(timeout: float) -> Any:
            return answer(getattr(self._mailboxes, method).remote(*arguments), "the mailboxes", timeout)

        return retried(call, Deadline(self._timeout))
