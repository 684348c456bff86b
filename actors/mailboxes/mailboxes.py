"""All mailboxes of a server. The coordinator delivers to them, and consumers poll from them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import Any

from actors.mailboxes.arrivals import Arrived
from actors.mailboxes.delivery import AckReport, DeadLetter, DeliveryColumns, Receipt, receipts_of
from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.mailboxes.intake import MailboxIntake
from actors.mailboxes.offsets.batch_marks import BatchMarks
from actors.mailboxes.offsets.offset_reading import OffsetReading
from actors.mailboxes.queue.levels import level_names
from actors.mailboxes.queue.on_time import LevelStats
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.state import MailboxState
from actors.mailboxes.stats import MailboxStats
from actors.mailboxes.store.store import MailboxStore
from actors.mailboxes.summary import MailboxSummary, summarise
from actors.mailboxes.waiters import Waiters
from actors.storage.backup import copy_store
from ray_pubsub.errors import SettingError
from ray_pubsub.failpoints import reach
from ray_pubsub.model.arguments import check_seconds, check_whole

__all__ = ["Mailboxes"]

QUEUED_CHANGES = 1000
"""The most changes that may wait for the disk. Changes that need not be on disk at once are written when there are more, or with the
next change that must be."""
LONGEST_PAUSE = 3600.0
LOOKED_AT_ONCE = 64


class Mailboxes:
    """All mailboxes of a server. A mailbox is created by its first delivery. A subscriber is given by name or by code; polling an unknown
    one is not an error, and finds nothing until something is delivered to it.

    `clock` returns seconds since 1970, which must mean the same after a restart; if it goes back, time stands still. Every method may be
    called from any thread. With a durable store, what a call has reported remains true after a crash: deliveries that `deliver` has
    reported are delivered until they are settled, and those that `ack` has reported are never handed out again. Deliveries in flight wait
    again after a restart, and receipts from before it are no longer valid.
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
        self._waiters = Waiters()
        self._state = MailboxState(self._store, self.settings, clock)
        stored = self._store.load(self.settings.window, self.settings.window_bytes)
        self._state.restore(stored)
        self.offsets = OffsetReading(self._store, self.settings, self._state, self._lock)
        """The same deliveries, for consumers that keep their own offsets."""
        self.marks = BatchMarks(self._store, stored)
        self._intake = MailboxIntake(self._store, self.settings, self._state, self._waiters, self._lock, stored)

    @property
    def epoch(self) -> int:
        return self._store.epoch

    def introduce(self, names: Mapping[int, str]) -> None:
        """Records the names of subscribers, by code."""
        with self._lock:
            for name in self._state.introduce(names):
                self._waiters.notify(name)

    def adopt(self, names: Mapping[int, str]) -> dict[int, int]:
        """Maps the registry's codes of these subscribers to the codes that they have here. A mailbox belongs to its subscriber by name:
        its deliveries never go to another subscriber that was given the same code since."""
        with self._lock:
            own, news = self._state.own_codes(names)
            for name in self._state.introduce(news):
                self._waiters.notify(name)
        return own

    def deliver(self, batch: DeliveryBatch) -> DeliverReport:
        """Puts the matches of a batch into their mailboxes; on return they are on disk, if there is a store. Matches that a full mailbox
        rejects are reported, and the others are delivered. Raises for bad columns, before anything is delivered."""
        return self._intake.deliver(batch)

    def poll(
        self, subscriber: str | int, limit: int = 100, wait: float = 0.0, *, visibility_timeout: float | None = None
    ) -> DeliveryColumns:
        """Returns up to `limit` deliveries by priority, as soon as there are any, and none after `wait` seconds without any. They belong
        to the caller until the visibility timeout has passed, and are then handed out again unless they were acknowledged."""
        ends = time.monotonic() + _checked_poll(limit, wait)
        visible = self._visible(visibility_timeout)
        self._write_if_many()
        woken = threading.Event()
        while True:
            with self._lock:
                self.offsets.refuse(subscriber)
                found = self._state.hand_out(subscriber, limit, visible)
                left = ends - time.monotonic()
                if len(found) or left <= 0:
                    return found
                woken.clear()
                mailbox = self._state.key(subscriber)
                self._waiters.add(mailbox, woken)
                pause = min(left, self._state.until_next_sweep(subscriber), LONGEST_PAUSE)
            try:
                woken.wait(pause)
            finally:
                with self._lock:
                    self._waiters.remove(mailbox, woken)

    def arrivals(self, after: tuple[str, int] | None = None, wait: float = 0.0) -> Arrived:
        """Returns the subscribers whose mailboxes may have something that was not there at `after` (that of the previous answer; None
        for the first call), as soon as there are any, and none after `wait` seconds. Deliveries that come back by a timer (a
        visibility timeout, the delay of a nack) are not reported."""
        ends = time.monotonic() + check_seconds("wait", wait)
        arrivals, woken = self._waiters.arrivals, threading.Event()
        while True:
            with self._lock:
                found = arrivals.since(after, self._state.named)
                left = ends - time.monotonic()
                if found is not None or left <= 0:
                    return found or arrivals.nothing()
                arrivals.add(woken)
            try:
                woken.wait(min(left, LONGEST_PAUSE))
            finally:
                woken.clear()
                with self._lock:
                    arrivals.remove(woken)

    def ack(self, subscriber: str | int, receipts: Any) -> AckReport:
        """Acknowledges deliveries; on return that is on disk, if there is a store. Stale receipts are reported and change nothing.
        `receipts` are deliveries, their receipts, an array of (sequence, lease), or the columns of a poll.

        If this raises, the deliveries are not handed out again by this process, but they may be after a restart.
        """
        given = receipts_of(receipts)
        ticket = None
        with self._lock:
            box = self._state.swept_box(subscriber)
            settled, had_failed, stale = box.ack(given) if box is not None else ([], [], _all(given))
            if settled:
                ticket = self._state.settle(settled, had_failed)
                self._state.emptied(subscriber)
                self._waiters.notify(self._state.key(subscriber))
            report = self._state.report(subscriber, given, stale)
        if ticket is not None:
            self._store.commit(ticket)
            reach("mailboxes.acknowledge")
        return report

    def nack(self, subscriber: str | int, receipts: Any, delay: float = 0.0, reason: str = "refused") -> AckReport:
        """Reports that deliveries failed. They wait again after `delay` seconds or, if this was the last attempt, become dead letters
        with the reason. On return that is on disk, if there is a store."""
        given, delay = receipts_of(receipts), _finite("delay", delay)
        with self._lock:
            box, stale = self._state.swept_box(subscriber), _all(given)
            if box is not None:
                stale, swept = box.nack(given, delay, self._state.now(), reason)
                self._state.keep(swept)
                self._waiters.notify(self._state.key(subscriber))
            report = self._state.report(subscriber, given, stale)
        if report.accepted:
            self._store.commit()
        return report

    def release(self, subscriber: str | int, receipts: Any) -> AckReport:
        """Returns deliveries that were not looked at. They wait again, and this does not count as an attempt."""
        given = receipts_of(receipts)
        with self._lock:
            box = self._state.swept_box(subscriber)
            stale = box.release(given) if box is not None else _all(given)
            self._waiters.notify(self._state.key(subscriber))
            return self._state.report(subscriber, given, stale)

    def extend(self, subscriber: str | int, receipts: Any, seconds: float) -> AckReport:
        """Extends the visibility timeout of deliveries: they belong to the caller for `seconds` from now."""
        given, longer = receipts_of(receipts), _finite("seconds", seconds)
        with self._lock:
            box = self._state.swept_box(subscriber)
            stale = box.extend(given, self._state.now() + longer) if box is not None else _all(given)
            return self._state.report(subscriber, given, stale)

    def dead_letters(self, subscriber: str | int, limit: int | None = None) -> list[DeadLetter]:
        """Returns up to `limit` dead letters, oldest first."""
        if limit is not None:
            check_whole("limit", limit, 1)
        with self._lock:
            return self._state.dead_letters(subscriber, limit)

    def redrive(self, subscriber: str | int, sequence: Iterable[int] | None = None) -> int:
        """Delivers these dead letters again, or all, with the full number of attempts. Returns how many there was room for."""
        with self._intake.held:
            with self._lock:
                self.offsets.refuse(subscriber)  # their old numbers are before the place that is read next
                box = self._state.swept_box(subscriber)
                revived = box.redrive(sequence) if box is not None else []
                ticket = self._store.queue(self._store.revived(revived))
                self._waiters.notify(self._state.key(subscriber))
            self._store.commit(ticket)
        return len(revived)

    def purge_dead(self, subscriber: str | int, sequence: Iterable[int] | None = None) -> int:
        """Deletes these dead letters, or all. Returns their number."""
        with self._lock:
            box = self._state.swept_box(subscriber)
            gone = box.purge_dead(sequence) if box is not None else []
            ticket = self._state.settle(gone, gone, were_dead=gone)
            self._state.emptied(subscriber)
        self._store.commit(ticket)
        return len(gone)

    def remove(self, subscriber: str | int) -> int:
        """Removes a mailbox with everything in it and its name. Returns the number of deliveries in it."""
        with self._intake.held:
            with self._lock:
                self._store.check()
                code = self._state.key(subscriber)
                gone = self._state.remove(code) if isinstance(code, int) else []
                ticket = self._state.settle(gone, gone, were_dead=gone)
            self._store.commit(ticket)
        return len(gone)

    def stats(self) -> list[MailboxStats]:
        """Returns the statistics of every mailbox."""
        with self._lock:
            codes = list(self._state.boxes)
        return [stats for stats, _ in self._each(codes)]

    def summary(self, most: int = 10) -> MailboxSummary:
        """Returns the statistics of all mailboxes together, and of the fullest ones."""
        with self._lock:
            codes, count = self._state.boxes.active(), len(self._state.boxes)
            resting = self._state.resting_stats()
        each = chain(self._each(codes), [resting])
        return summarise(each, count, level_names(self.settings.levels), most)

    def _each(self, codes: Sequence[int]) -> Iterator[tuple[MailboxStats, list[LevelStats]]]:
        """Yields the statistics of mailboxes. The lock is released after every few, so that with very many mailboxes deliveries go on
        meanwhile."""
        for start in range(0, len(codes), LOOKED_AT_ONCE):
            with self._lock:
                portion = codes[start : start + LOOKED_AT_ONCE]
                found = [self._state.stats(code) for code in portion if code in self._state.boxes]
            yield from found

    def stats_of(self, subscriber: str | int) -> MailboxStats:
        """Returns the statistics of one mailbox; all zeros if it is unknown."""
        with self._lock:
            return self._state.stats(subscriber)[0]

    def flush(self) -> None:
        """Writes everything so far to disk, including attempts and dead letters, which otherwise wait for the next commit."""
        self._store.commit()

    def backup(self, folder: str) -> None:
        """Copies the store into a folder while deliveries go on. Copies nothing if nothing is stored."""
        if self._store.path is not None:
            self._store.commit()
            copy_store(str(self._store.path), Path(folder))

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
    check_whole("limit", limit, 1)
    return check_seconds("wait", wait)


def _finite(name: str, value: float) -> float:
    checked = check_seconds(name, value)
    if not isfinite(checked):
        raise SettingError(name, "must be a finite number of seconds")
    return checked
