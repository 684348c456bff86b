"""The consumer's side of a server: polling, acknowledging and listening."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import replace
from typing import Any

from actors.client.subscriber_check import SubscriberCheck
from actors.mailboxes.delivery import AckReport, DeadLetter, Delivery, DeliveryColumns, StaleReceipt
from actors.mailboxes.stats import MailboxStats
from actors.transport.calls import Deadline, answer, answer_async, retried
from ray_pubsub.errors import SettingError, UnavailableError
from ray_pubsub.model.arguments import check_seconds, check_text
from ray_pubsub.model.metadata import Lookup, data_of, distinct_data, tags_of

__all__ = ["Consumer"]

LONGEST_WAIT = 10.0
"""The longest wait of one call, in seconds. A longer wait takes several calls, so that the death of the process is noticed."""
PAUSE = 0.05


class Consumer:
    """Polls and settles deliveries, for any subscriber. Safe to use from several threads."""

    def __init__(self, mailboxes: Any, timeout: float, check: SubscriberCheck, lookup: Lookup | None = None) -> None:
        """`lookup` finds the data and tags of subscriptions."""
        self._mailboxes = mailboxes
        self._timeout = timeout
        self._check = check
        self._lookup = lookup

    def close(self, handle: Any) -> None:
        """Replaces the mailboxes' handle by one that raises, so that a listener that is still running ends with ServerClosedError."""
        self._mailboxes = handle

    def poll(
        self, subscriber: str, limit: int, wait: float, visibility_timeout: float | None, with_data: bool = False
    ) -> list[Delivery]:
        check_text("subscriber", subscriber)
        ends = time.monotonic() + check_seconds("wait", wait)
        while True:
            begun = time.monotonic()
            own = max(0.0, min(LONGEST_WAIT, ends - begun))
            found: DeliveryColumns = self._call("poll", subscriber, limit, own, visibility_timeout, more=own)
            now = time.monotonic()
            if len(found) or now >= ends:
                if not len(found):
                    self._check.warn_if_unknown(subscriber)
                return self._described(found.deliveries()) if with_data else found.deliveries()
            if now - begun < own / 2:  # the mailboxes answer early when too many callers wait
                time.sleep(min(PAUSE, ends - now))

    async def poll_async(
        self, subscriber: str, limit: int, wait: float, visibility_timeout: float | None, with_data: bool = False
    ) -> list[Delivery]:
        check_text("subscriber", subscriber)
        ends = time.monotonic() + check_seconds("wait", wait)
        while True:
            begun = time.monotonic()
            own = max(0.0, min(LONGEST_WAIT, ends - begun))
            try:
                reference = self._mailboxes.poll.remote(subscriber, limit, own, visibility_timeout)
                found: DeliveryColumns = await answer_async(reference, "the mailboxes", own + self._timeout)
            except UnavailableError as error:
                # If that process handed out deliveries, they come again after their visibility timeout.
                if error.gone or time.monotonic() > ends + self._timeout:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            now = time.monotonic()
            if len(found) or now >= ends:
                if not len(found):
                    await self._check.warn_if_unknown_async(subscriber)
                if with_data:
                    return await asyncio.to_thread(self._described, found.deliveries())
                return found.deliveries()
            if now - begun < own / 2:
                await asyncio.sleep(min(PAUSE, max(0.0, ends - now)))

    def _described(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Returns the deliveries with the data and tags that their subscriptions have now."""
        if not deliveries:
            return deliveries
        known = distinct_data(self._lookup, [each.subscription_id for each in deliveries])
        data = {id: (data_of(found), tags_of(found)) for id, found in known.items()}
        pairs = [data[each.subscription_id] for each in deliveries]
        return [replace(each, data=value, tags=tags) for each, (value, tags) in zip(deliveries, pairs, strict=True)]

    async def listen(
        self, subscriber: str, limit: int, visibility_timeout: float | None, with_data: bool = False
    ) -> AsyncIterator[Delivery]:
        await self._check.warn_if_unknown_async(subscriber)
        while True:
            messages = await self.poll_async(subscriber, limit, LONGEST_WAIT, visibility_timeout, with_data)
            reached = 0
            try:
                for message in messages:
                    reached += 1
                    yield message
            finally:
                if reached < len(messages):
                    await asyncio.to_thread(self.release, messages[reached:])

    def ack(self, deliveries: Any) -> AckReport:
        return self._settle("ack", deliveries)

    async def ack_async(self, deliveries: Any) -> AckReport:
        return await asyncio.to_thread(self.ack, deliveries)

    def nack(self, deliveries: Any, delay: float, reason: str) -> AckReport:
        check_text("reason", reason)
        check_seconds("delay", delay)
        return self._settle("nack", deliveries, delay, reason)

    def release(self, deliveries: Any) -> AckReport:
        return self._settle("release", deliveries)

    def extend(self, deliveries: Any, seconds: float) -> AckReport:
        check_seconds("seconds", seconds)
        return self._settle("extend", deliveries, seconds)

    def dead_letters(self, subscriber: str, limit: int | None) -> list[DeadLetter]:
        check_text("subscriber", subscriber)
        found: list[DeadLetter] = self._call("dead_letters", subscriber, limit)
        return found

    def redrive(self, subscriber: str, sequences: Iterable[int] | None) -> int:
        check_text("subscriber", subscriber)
        return int(self._call("redrive", subscriber, _sequences(sequences)))

    def purge_dead(self, subscriber: str, sequences: Iterable[int] | None) -> int:
        check_text("subscriber", subscriber)
        return int(self._call("purge_dead", subscriber, _sequences(sequences)))

    def remove(self, subscriber: str) -> int:
        """Removes a mailbox; returns the number of deliveries in it."""
        return int(self._call("remove_mailbox", subscriber))

    def stats(self, subscriber: str | None) -> list[MailboxStats]:
        """Returns the statistics of one mailbox, or of all if `subscriber` is None."""
        found: list[MailboxStats] = self._call("mailbox_stats", subscriber)
        return found

    def _settle(self, method: str, deliveries: Any, *arguments: Any) -> AckReport:
        """Calls the mailboxes once for each subscriber. Positions in the joined report refer to `deliveries`."""
        accepted, stale = 0, []
        for subscriber, places, receipts in _by_subscriber(deliveries):
            report: AckReport = self._call(method, subscriber, receipts, *arguments)
            accepted += report.accepted
            stale += [StaleReceipt(places[each.position], each.receipt, each.reason) for each in report.stale]
        return AckReport(accepted, sorted(stale))

    def _call(self, method: str, *arguments: Any, more: float = 0.0) -> Any:
        """Calls a method of the mailboxes, again while their process restarts. A repeated call is harmless: what it had settled before
        is reported as stale."""

        def call(timeout: float) -> Any:
            reference = getattr(self._mailboxes, method).remote(*arguments)
            return answer(reference, "the mailboxes", timeout)

        return retried(call, Deadline(self._timeout + more))


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
