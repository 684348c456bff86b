"""A consumer's side of reading deliveries by sequence number, and of marking batches of a stream."""

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
    """For one server. Every call may be repeated without harm, and is while the mailboxes' process restarts."""

    def __init__(self, server: Server) -> None:
        self._mailboxes = server.mailboxes
        self._timeout = server.settings.timeout

    def begin(self, subscriber: str) -> Place:
        """From now on this subscriber's deliveries are read by sequence number, and poll refuses them. The place before all of them."""
        check_text("subscriber", subscriber)
        place: Place = self._call("begin_offsets", subscriber)
        return place

    def start(self) -> Place:
        """The place before everything, for a look at any mailbox."""
        place: Place = self._call("first_offset")
        return place

    def end(self, subscriber: str) -> int:
        """They are polled again; how many wait."""
        return int(self._call("end_offsets", subscriber))

    def bounds(self, subscriber: str, after: Place, up_to: int | None, rows: int) -> list[int]:
        """The ends of ranges of `rows` deliveries each, after a place, up to a sequence number or the newest."""
        found: list[int] = self._call("offset_bounds", subscriber, after, up_to, rows)
        return found

    def read(self, subscriber: str, after: Place, up_to: int) -> DeliveryColumns:
        """The deliveries of a range; the same however often it is read, until it is acknowledged."""
        found: DeliveryColumns = self._call("read_range", subscriber, after, up_to)
        return found

    def ack_through(self, subscriber: str, place: Place) -> int:
        """Everything up to this place is done with."""
        return int(self._call("ack_through", subscriber, place))

    def last_batch(self, stream: str) -> int | None:
        """The last batch of a stream that was delivered as a whole; None if none was."""
        found: int | None = self._call("last_batch", stream)
        return found

    def mark_batch(self, stream: str, batch: int) -> None:
        """This batch, and so all before it, were."""
        self._call("mark_batch", stream, batch)

    def _call(self, method: str, *arguments: Any) -> Any:
        def call(timeout: float) -> Any:
            return answer(getattr(self._mailboxes, method).remote(*arguments), "the mailboxes", timeout)

        return retried(call, Deadline(self._timeout))
