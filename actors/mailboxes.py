"""All mailboxes of a process: what the coordinator delivers to and consumers poll from."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from math import inf, isfinite
from typing import Any, Literal, overload

from actors.arrivals import Arrivals, wake_in_loop
from actors.batch_marks import BatchMarks
from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.delivery_message import AckReport, DeadLetter, DeliveryColumns, DeliveryMessage, Receipt, receipts_of
from actors.mailbox_intake import MailboxIntake
from actors.mailbox_settings import MailboxSettings
from actors.mailbox_state import MailboxState
from actors.mailbox_stats import MailboxStats
from actors.mailbox_store import MailboxStore
from actors.mailbox_summary import MailboxSummary, summarise
from actors.offset_reading import OffsetReading
from ray_pubsub.delivery.levels import level_names
from ray_pubsub.delivery.levels import seconds as checked_seconds
from ray_pubsub.delivery.on_time import LevelStats
from ray_pubsub.errors import SettingError

__all__ = ["Mailboxes"]

QUEUED_CHANGES = 1000
"""Changes that need not be on disk at once are written when so many have come together, or with the next that must be."""
LONGEST_PAUSE = 3600.0
LOOKED_AT_ONCE = 64


class Mailboxes:
    """Mailboxes come into being with their first delivery. A subscriber is given by name or by code; to poll one that was never
    heard of is no error, and finds nothing until something is delivered to it.

    `clock` gives seconds since 1970, which must mean the same after a restart; if it goes back, time stands still. Every method may be
    called from any thread. With a durable store, what was told is so after a crash: what `deliver` has returned for is delivered until
    it is settled, what `ack` has returned for never comes again. What was in flight waits again after a restart, and receipts given
    before it no longer hold.
    """

    def __init__(
        self,
        store: MailboxStore | None = None,
        settings: MailboxSettings | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings or MailboxSettings()
        self._store = store or MailboxStore(None)
        self._lock = threading.Lock()
        self._arrivals = Arrivals()
        self._state = MailboxState(self._store, self.settings, clock)
        stored = self._store.load()
        self._state.restore(stored)
        self.offsets = OffsetReading(self._store, self.settings, self._state, self._lock)
        """The same deliveries for consumers that keep their own place."""
        self.marks = BatchMarks(self._store, stored)
        self._intake = MailboxIntake(self._store, self.settings, self._state, self._arrivals, self._lock, stored)

    @property
    def epoch(self) -> int:
        return self._store.epoch

    def introduce(self, names: Mapping[int, str]) -> None:
        """The names of subscribers, by code."""
        with self._lock:
            for name in self._state.introduce(names):
                self._arrivals.notify(name)

    def adopt(self, names: Mapping[int, str]) -> dict[int, int]:
        """The codes under which the mailboxes of these subscribers are here, by the codes that somebody else has for them. A mailbox is
        its subscriber's by name: what waits for one never goes to another who has got the same code since."""
        with self._lock:
            own, news = self._state.own_codes(names)
            for name in self._state.introduce(news):
                self._arrivals.notify(name)
        return own

    def deliver(self, batch: DeliveryBatch) -> DeliverReport:
        """The matches of a batch enter their mailboxes; on return they are on disk, if there is one. What a full mailbox rejects is
        reported and stops nothing else. Bad columns raise, and nothing was delivered."""
        return self._intake.deliver(batch)

    @overload
    def poll(
        self,
        subscriber: str | int,
        limit: int = 100,
        wait: float = 0.0,
        *,
        visibility_timeout: float | None = None,
        columns: Literal[False] = False,
    ) -> list[DeliveryMessage]: ...
    @overload
    def poll(
        self,
        subscriber: str | int,
        limit: int = 100,
        wait: float = 0.0,
        *,
        visibility_timeout: float | None = None,
        columns: Literal[True],
    ) -> DeliveryColumns: ...
    def poll(
        self,
        subscriber: str | int,
        limit: int = 100,
        wait: float = 0.0,
        *,
        visibility_timeout: float | None = None,
        columns: bool = False,
    ) -> list[DeliveryMessage] | DeliveryColumns:
        """Up to `limit` deliveries by priority, as soon as there are any, none after `wait` seconds. They are the caller's until the
        visibility timeout has passed, and then come again unless they were acknowledged."""
        ends = time.monotonic() + _checked_poll(limit, wait)
        visible = self._visible(visibility_timeout)
        self._write_if_many()
        while True:
            woken = threading.Event()
            with self._lock:
                self.offsets.refuse(subscriber)
                found = self._state.hand_out(subscriber, limit, visible)
                left = ends - time.monotonic()
                if len(found) or left <= 0:
                    break
                stop = self._arrivals.watch(self._state.key(subscriber), woken.set)
                pause = min(left, self._state.until_next_sweep(subscriber), LONGEST_PAUSE)
            try:
                woken.wait(pause)
            finally:
                with self._lock:
                    stop()
        return found if columns else found.messages()

    async def poll_async(
        self, subscriber: str | int, limit: int = 100, wait: float = 0.0, *, visibility_timeout: float | None = None
    ) -> list[DeliveryMessage]:
        """As `poll`, but waiting holds no thread."""
        ends = time.monotonic() + _checked_poll(limit, wait)
        visible = self._visible(visibility_timeout)
        while True:
            woken = asyncio.Event()
            with self._lock:
                self.offsets.refuse(subscriber)
                found = self._state.hand_out(subscriber, limit, visible)
                left = ends - time.monotonic()
                if len(found) or left <= 0:
                    return found.messages()
                stop = self._arrivals.watch(self._state.key(subscriber), wake_in_loop(woken))
                pause = min(left, self._state.until_next_sweep(subscriber), LONGEST_PAUSE)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), pause)
            finally:
                with self._lock:
                    stop()

    async def listen(
        self, subscriber: str | int, limit: int = 100, *, visibility_timeout: float | None = None
    ) -> AsyncIterator[DeliveryMessage]:
        """Deliveries one by one, for ever. They are taken from the mailbox up to `limit` at a time; those not yet reached when the
        iteration ends go back as if they had never been taken."""
        while True:
            messages = await self.poll_async(subscriber, limit, inf, visibility_timeout=visibility_timeout)
            reached = 0
            try:
                for message in messages:
                    reached += 1
                    yield message
            finally:
                if reached < len(messages):
                    self.release(subscriber, messages[reached:])

    def watch(self, subscriber: str | int, wake: Callable[[], None]) -> Callable[[], None]:
        """`wake` is called, from whatever thread, when something may have arrived; it must not wait, nor call back. Returns what ends
        it. What comes back by a timeout wakes nobody: `poll` and `poll_async` look at the clock themselves."""
        with self._lock:
            stop = self._arrivals.watch(self._state.key(subscriber), wake)

        def stop_watching() -> None:
            with self._lock:
                stop()

        return stop_watching

    def ack(self, subscriber: str | int, receipts: Any) -> AckReport:
        """These deliveries are done with; on return that is on disk, if there is one. Receipts that no longer hold are reported and
        change nothing. `receipts` are messages, their receipts, an array of (sequence, lease), or the columns of a poll.

        If this raises, the deliveries are not handed out again by this process, but they may be after a restart.
        """
        given = receipts_of(receipts)
        ticket = None
        with self._lock:
            box = self._state.swept_box(subscriber)
            settled, had_failed, stale = box.ack(given) if box is not None else ([], [], _all(given))
            if settled:
                ticket = self._state.settle(settled, had_failed)
                self._arrivals.notify(self._state.key(subscriber))
            report = self._state.report(subscriber, given, stale)
        if ticket is not None:
            self._store.commit(ticket)
        return report

    def nack(self, subscriber: str | int, receipts: Any, delay: float = 0.0, reason: str = "refused") -> AckReport:
        """These failed: they wait again, after `delay` seconds, or become dead letters, with the reason, if this was the last attempt. On
        return that is on disk, if there is one."""
        given, delay = receipts_of(receipts), _finite("delay", delay)
        with self._lock:
            box, stale = self._state.swept_box(subscriber), _all(given)
            if box is not None:
                stale, swept = box.nack(given, delay, self._state.now(), reason)
                self._state.keep(swept)
                self._arrivals.notify(self._state.key(subscriber))
            report = self._state.report(subscriber, given, stale)
        if report.accepted:
            self._store.commit()
        return report

    def release(self, subscriber: str | int, receipts: Any) -> AckReport:
        """These were not looked at: they wait again, and it was no attempt."""
        given = receipts_of(receipts)
        with self._lock:
            box = self._state.swept_box(subscriber)
            stale = box.release(given) if box is not None else _all(given)
            self._arrivals.notify(self._state.key(subscriber))
            return self._state.report(subscriber, given, stale)

    def extend(self, subscriber: str | int, receipts: Any, seconds: float) -> AckReport:
        """These take longer: they are the caller's for so many seconds from now."""
        given, longer = receipts_of(receipts), _finite("seconds", seconds)
        with self._lock:
            box = self._state.swept_box(subscriber)
            stale = box.extend(given, self._state.now() + longer) if box is not None else _all(given)
            return self._state.report(subscriber, given, stale)

    def dead_letters(self, subscriber: str | int, limit: int | None = None) -> list[DeadLetter]:
        """Oldest first; up to `limit` of them."""
        if limit is not None:
            _checked_limit(limit)
        with self._lock:
            return self._state.dead_letters(subscriber, limit)

    def redrive(self, subscriber: str | int, sequence: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are delivered anew, with all attempts before them; returns how many there was room for."""
        with self._intake.held:
            with self._lock:
                self.offsets.refuse(subscriber)  # their old numbers are behind where it is read
                box = self._state.swept_box(subscriber)
                revived = box.redrive(sequence) if box is not None else []
                ticket = self._store.queue(self._store.revived(revived))
                self._arrivals.notify(self._state.key(subscriber))
            self._store.commit(ticket)
        return len(revived)

    def purge_dead(self, subscriber: str | int, sequence: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are gone; returns how many."""
        with self._lock:
            box = self._state.swept_box(subscriber)
            gone = box.purge_dead(sequence) if box is not None else []
            ticket = self._state.settle(gone, gone, were_dead=gone)
        self._store.commit(ticket)
        return len(gone)

    def remove(self, subscriber: str | int) -> int:
        """The mailbox and everything in it is gone, its name too; returns how many deliveries that were."""
        with self._intake.held:
            with self._lock:
                self._store.check()
                code = self._state.key(subscriber)
                gone = self._state.remove(code) if isinstance(code, int) else []
                ticket = self._state.settle(gone, gone, were_dead=gone)
            self._store.commit(ticket)
        return len(gone)

    def stats(self) -> list[MailboxStats]:
        """Of every mailbox."""
        return [stats for stats, _ in self._each()]

    def summary(self, most: int = 10) -> MailboxSummary:
        """Of all mailboxes together, and of the fullest ones."""
        return summarise(self._each(), level_names(self.settings.levels), most)

    def _each(self) -> Iterator[tuple[MailboxStats, list[LevelStats]]]:
        """Some at a time: with very many mailboxes, deliveries go on meanwhile."""
        with self._lock:
            codes = list(self._state.boxes)
        for start in range(0, len(codes), LOOKED_AT_ONCE):
            with self._lock:
                portion = codes[start : start + LOOKED_AT_ONCE]
                found = [self._state.stats(code) for code in portion if code in self._state.boxes]
            yield from found

    def stats_of(self, subscriber: str | int) -> MailboxStats:
        """Of one; of one that was never heard of, all zeros."""
        with self._lock:
            return self._state.stats(subscriber)[0]

    def flush(self) -> None:
        """Everything that happened so far is on disk, attempts and dead letters too, which otherwise wait for company."""
        self._store.commit()

    def close(self) -> None:
        self._store.close()

    def _visible(self, own: float | None) -> float:
        return self.settings.visibility_timeout if own is None else _finite("visibility_timeout", own)

    def _write_if_many(self) -> None:
        if self._store.queued > QUEUED_CHANGES:
            self._store.commit()


def _all(receipts: list[Receipt]) -> list[int]:
    return list(range(len(receipts)))


def _checked_poll(limit: int, wait: float) -> float:
    _checked_limit(limit)
    return checked_seconds("wait", wait)


def _checked_limit(limit: int) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise SettingError("limit", f"must be a whole number of at least 1, not {limit!r}")


def _finite(name: str, value: float) -> float:
    checked = checked_seconds(name, value)
    if not isfinite(checked):
        raise SettingError(name, "must be a finite number of seconds")
    return checked
