"""The consumer's side of a server: polling, acknowledging and listening."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from actors.client.subscriber_check import SubscriberCheck
from actors.mailboxes.delivery import AckReport, DeadLetter, Delivery, DeliveryColumns, StaleReceipt
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline, answer, answer_async, retried
from ray_pubsub.errors import SettingError, UnavailableError
from ray_pubsub.model.arguments import check_flag, check_seconds, check_text
from ray_pubsub.model.metadata import Metadata, data_of, distinct_data, tags_of

__all__ = ["Consumer"]

LONGEST_WAIT = 10.0
"""The longest wait of one call, in seconds. A longer wait takes several calls, so that the death of the process is noticed."""
PAUSE = 0.05


class Consumer(ABC):
    """The methods of `Server` that call the mailboxes. Safe to use from several threads."""

    mailboxes: Any
    """The Ray actor handle of the mailboxes, to be called directly with .remote()."""
    settings: ServerSettings
    _subscribers: SubscriberCheck

    @abstractmethod
    def _check_open(self) -> None:
        """Raises ServerClosedError if the server was stopped or closed here."""

    @abstractmethod
    def _lookup(self, ids: Sequence[str | int]) -> list[Metadata | None]:
        """Returns the metadata of subscriptions."""

    def poll(
        self,
        subscriber: str,
        *,
        limit: int = 100,
        wait: float = 0.0,
        visibility_timeout: float | None = None,
        with_data: bool = False,
    ) -> list[Delivery]:
        """Returns up to `limit` deliveries, the most urgent first, as soon as there are any, and an empty list after `wait` seconds without
        any.

        A delivery that is not acknowledged comes again after its visibility timeout. That counts as an attempt, also for deliveries that a
        consumer had not looked at when it crashed, so poll few at a time if consumers may crash. Warns with UnknownSubscriberWarning if
        nobody has subscribed under this name. `with_data` adds the `data` and `tags` that the subscriptions have now, by one more call to
        the registry.
        """
        self._check_open()
        check_flag("with_data", with_data)
        check_text("subscriber", subscriber)
        ends = time.monotonic() + check_seconds("wait", wait)
        while True:
            begun = time.monotonic()
            own = max(0.0, min(LONGEST_WAIT, ends - begun))
            found: DeliveryColumns = self._call_mailboxes("poll", subscriber, limit, own, visibility_timeout, more=own)
            now = time.monotonic()
            if len(found) or now >= ends:
                if not len(found):
                    self._subscribers.warn_if_unknown(subscriber)
                return self._described(found.deliveries()) if with_data else found.deliveries()
            if now - begun < own / 2:  # the mailboxes answer early when too many callers wait
                time.sleep(min(PAUSE, ends - now))

    async def poll_async(
        self,
        subscriber: str,
        *,
        limit: int = 100,
        wait: float = 0.0,
        visibility_timeout: float | None = None,
        with_data: bool = False,
    ) -> list[Delivery]:
        """Does the same as `poll`, for asyncio."""
        self._check_open()
        check_flag("with_data", with_data)
        check_text("subscriber", subscriber)
        ends = time.monotonic() + check_seconds("wait", wait)
        while True:
            begun = time.monotonic()
            own = max(0.0, min(LONGEST_WAIT, ends - begun))
            try:
                reference = self.mailboxes.poll.remote(subscriber, limit, own, visibility_timeout)
                found: DeliveryColumns = await answer_async(reference, "the mailboxes", own + self.settings.timeout)
            except UnavailableError as error:
                # If that process handed out deliveries, they come again after their visibility timeout.
                if error.gone or time.monotonic() > ends + self.settings.timeout:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            now = time.monotonic()
            if len(found) or now >= ends:
                if not len(found):
                    await self._subscribers.warn_if_unknown_async(subscriber)
                if with_data:
                    return await asyncio.to_thread(self._described, found.deliveries())
                return found.deliveries()
            if now - begun < own / 2:
                await asyncio.sleep(min(PAUSE, max(0.0, ends - now)))

    def listen(
        self, subscriber: str, *, limit: int = 100, visibility_timeout: float | None = None, with_data: bool = False
    ) -> AsyncIterator[Delivery]:
        """Yields deliveries for ever: `async for delivery in server.listen("desk-7"): …; await server.ack_async(delivery)`. When the
        loop is left, deliveries that were fetched but not yet reached are released."""
        self._check_open()
        check_text("subscriber", subscriber)
        return self._listened(subscriber, limit, visibility_timeout, check_flag("with_data", with_data))

    async def _listened(
        self, subscriber: str, limit: int, visibility_timeout: float | None, with_data: bool
    ) -> AsyncIterator[Delivery]:
        await self._subscribers.warn_if_unknown_async(subscriber)
        while True:
            messages = await self.poll_async(
                subscriber, limit=limit, wait=LONGEST_WAIT, visibility_timeout=visibility_timeout, with_data=with_data
            )
            reached = 0
            try:
                for message in messages:
                    reached += 1
                    yield message
            finally:
                if reached < len(messages):
                    await asyncio.to_thread(self.release, messages[reached:])

    def ack(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """Acknowledges deliveries: they are done and never come again."""
        return self._settle("ack", deliveries)

    async def ack_async(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """Does the same as `ack`, for asyncio."""
        return await asyncio.to_thread(self.ack, deliveries)

    def nack(
        self, deliveries: Delivery | Iterable[Delivery], *, delay: float = 0.0, reason: str = "refused"
    ) -> AckReport:
        """Reports that deliveries failed. They come again after `delay` seconds, or become dead letters if that was their last attempt."""
        check_text("reason", reason)
        check_seconds("delay", delay)
        return self._settle("nack", deliveries, delay, reason)

    def release(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """Returns deliveries that were not looked at. They wait again, and this does not count as an attempt."""
        return self._settle("release", deliveries)

    def extend(self, deliveries: Delivery | Iterable[Delivery], seconds: float) -> AckReport:
        """Extends the visibility timeout of deliveries: they come again only after this number of seconds from now."""
        check_seconds("seconds", seconds)
        return self._settle("extend", deliveries, seconds)

    def dead_letters(self, subscriber: str, *, limit: int | None = None) -> list[DeadLetter]:
        """Returns the deliveries that failed for good, oldest first."""
        check_text("subscriber", subscriber)
        found: list[DeadLetter] = self._call_mailboxes("dead_letters", subscriber, limit)
        return found

    def redrive(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """Delivers these dead letters again, or all of them if `sequences` is None. Returns their number."""
        check_text("subscriber", subscriber)
        return int(self._call_mailboxes("redrive", subscriber, _sequences(sequences)))

    def purge_dead(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """Deletes these dead letters, or all of them if `sequences` is None. Returns their number."""
        check_text("subscriber", subscriber)
        return int(self._call_mailboxes("purge_dead", subscriber, _sequences(sequences)))

    def _described(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Returns the deliveries with the data and tags that their subscriptions have now."""
        if not deliveries:
            return deliveries
        known = distinct_data(self._lookup, [each.subscription_id for each in deliveries])
        data = {id: (data_of(found), tags_of(found)) for id, found in known.items()}
        pairs = [data[each.subscription_id] for each in deliveries]
        return [replace(each, data=value, tags=tags) for each, (value, tags) in zip(deliveries, pairs, strict=True)]

    def _settle(self, method: str, deliveries: Any, *arguments: Any) -> AckReport:
        """Calls the mailboxes once for each subscriber. Positions in the joined report refer to `deliveries`."""
        self._check_open()
        accepted, stale = 0, []
        for subscriber, places, receipts in _by_subscriber(deliveries):
            report: AckReport = self._call_mailboxes(method, subscriber, receipts, *arguments)
            accepted += report.accepted
            stale += [StaleReceipt(places[each.position], each.receipt, each.reason) for each in report.stale]
        return AckReport(accepted, sorted(stale))

    def _call_mailboxes(self, method: str, *arguments: Any, more: float = 0.0) -> Any:
        """Calls a method of the mailboxes, again while their process restarts. A repeated call is harmless: what it had settled before
        is reported as stale."""

        self._check_open()

        def call(timeout: float) -> Any:
            reference = getattr(self.mailboxes, method).remote(*arguments)
            return answer(reference, "the mailboxes", timeout)

        return retried(call, Deadline(self.settings.timeout + more))


def _sequences(given: Any) -> list[int] | None:
    if given is None:
        return None
    found = list(given) if isinstance(given, Iterable) else None
    if found is None or not all(type(sequence) is int for sequence in found):
        raise SettingError("sequences", f"must be a list of dead letters' sequences, not {given!r}")
    return found


def _by_subscriber(deliveries: Any) -> Iterator[tuple[str | int, list[int], list[Any]]]:
    if isinstance(deliveries, Delivery):
        deliveries = [deliveries]
    if isinstance(deliveries, str | bytes) or not isinstance(deliveries, Iterable):
        raise SettingError("deliveries", f"must be a delivery or several, not {deliveries!r}")
    found: dict[str | int, tuple[list[int], list[Any]]] = {}
    for place, delivery in enumerate(deliveries):
        if not isinstance(delivery, Delivery):
            raise SettingError("deliveries", f"must be what poll gave, not {delivery!r}")
        places, receipts = found.setdefault(delivery.subscriber, ([], []))
        places.append(place)
        receipts.append(delivery.receipt)
    for subscriber, (places, receipts) in found.items():
        yield subscriber, places, receipts
