"""The mailbox of one subscriber: deliveries that wait by priority, are in flight, delayed or dead. It does not
hold their contents; the log does."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Any, NamedTuple

from actors.mailboxes.delivery import Receipt, StaleReason
from actors.mailboxes.queue.entries import TakenEntry
from actors.mailboxes.queue.on_time import LevelStats
from actors.mailboxes.queue.priority_queue import PriorityQueue
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.stats import MailboxStats
from actors.mailboxes.timers import Timers

__all__ = ["Dead", "Failures", "Flight", "Mailbox", "MailboxRun"]

COUNTED = 8
"""The number of counters of a mailbox, beside those of its levels."""

MOST_POLLED_BYTES = 32 << 20
"""The most bytes of events that one poll hands out, unless a single event is larger."""

MailboxRun = tuple[int, Sequence[int], Sequence[int] | int]
"""A level, sequence numbers, and their sizes or the one size of each."""


class Flight(NamedTuple):
    """A delivery that was handed out."""

    delivery: TakenEntry
    lease: int
    attempt: int
    until: float

    @property
    def sequence(self) -> int:
        sequence: int = self.delivery.item
        return sequence


class Dead(NamedTuple):
    """A dead letter, without the event."""

    sequence: int
    level: int
    size: int
    enqueued: float
    attempts: int
    reason: str
    died: float


@dataclass(slots=True)
class Failures:
    """The effects of a timeout or a nack, to be written to the store: the deliveries that failed with their attempts, those that became
    dead letters, and the dead letters that were dropped for them."""

    failed: dict[int, int]
    died: list[Dead]
    gone: list[int]

    def __bool__(self) -> bool:
        return bool(self.failed or self.died or self.gone)


class Mailbox:
    """The mailbox of one subscriber. Not thread-safe: `Mailboxes` holds the lock.

    An acknowledgement counts until the delivery is handed out again, nacked or dead, even after the visibility timeout. The other calls
    with a receipt count only while the delivery is in flight.
    """

    def __init__(
        self, settings: MailboxSettings, clock: Callable[[], float], counted: Sequence[int] | None = None
    ) -> None:
        """`counted` has the `counts` that this mailbox had when it was last in memory."""
        self._settings = settings
        self._drops = settings.overflow in ("drop-oldest", "drop-lowest")
        self._queue = PriorityQueue(
            settings.levels,
            deadlines=settings.deadlines,
            policy=settings.policy,
            capacity=settings.capacity,
            capacity_bytes=settings.capacity_bytes,
            overflow=settings.overflow if settings.overflow != "dead-letter" else "reject",
            expired=settings.expired,
            clock=clock,
        )
        self._limit = settings.delivery_limit or inf
        self._in_flight: dict[int, Flight] = {}
        self._timed_out: dict[int, Flight] = {}  # these wait again, but their receipts are still valid
        self._delayed: dict[int, Flight] = {}
        self._attempts: dict[int, int] = {}  # attempts of the deliveries that failed
        self._dead: OrderedDict[int, Dead] = OrderedDict()  # oldest first
        self._timers = Timers()
        own = counted[:COUNTED] if counted else [0] * COUNTED
        self._delivered, self._acked, self._dropped, self._expired, self._redeliveries, self._stale = own[:6]
        self.rejected, self.duplicates = own[6:]
        if counted:
            self._queue.take_counts(counted[COUNTED:])

    def counts(self) -> list[int]:
        """Returns the counts since the start. Only an empty mailbox is replaced by its counts (mailbox_table.py)."""
        own = [self._delivered, self._acked, self._dropped, self._expired, self._redeliveries, self._stale]
        return [*own, self.rejected, self.duplicates, *self._queue.counts()]

    def is_empty(self) -> bool:
        return not (len(self) or self._in_flight or self._delayed or self._dead)

    # What comes in

    def has_room(self, count: int, size: int) -> bool:
        """Whether `count` deliveries, together of this size, fit."""
        return self._queue.has_room(count, size)

    def refused(self, counts: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
        """Returns the positions of the groups of deliveries that do not fit. Group i has `counts[i]` deliveries of the size `sizes[i]`
        each."""
        return self._queue.refused(counts, sizes)

    def enter(self, runs: Sequence[MailboxRun], enqueued: float | None, admitted: bool = False) -> list[int]:
        """Puts all these deliveries into the mailbox. Returns the deliveries that were dropped for them. With `admitted` none is
        dropped, because these were in the mailbox before a restart."""
        for _, sequence, _ in runs:
            self._delivered += len(sequence)
        # If nothing may be dropped, room was checked before the batch was written. What came back since must not push it out.
        admission = self._queue.put(runs, enqueued=enqueued, regardless=admitted or not self._drops)
        if not admission.lost:
            return []
        self._count_lost(admission.lost)
        return [entry.item for entry in admission.lost]

    def bury(self, dead: Dead) -> list[int]:
        """Turns a delivery that never waited into a dead letter. Returns the dead letters that were dropped for it."""
        self._delivered += 1
        return self._bury([dead])

    def take_over(self, before: Mailbox) -> None:
        """Takes over the counts and dead letters of the mailbox that this one replaces. Its deliveries, waiting or in
        flight, are not taken over; the delivery log has them."""
        self._dead, self._attempts = before._dead, before._attempts
        self._delivered, self._acked, self._dropped = before._delivered, before._acked, before._dropped
        self._expired, self._redeliveries, self._stale = before._expired, before._redeliveries, before._stale
        self.rejected, self.duplicates = before.rejected, before.duplicates

    def failed_among(self, sequence: Iterable[int]) -> list[int]:
        """Returns those of these deliveries that failed before, and forgets their attempts."""
        return [number for number in sequence if self._attempts.pop(number, 0)] if self._attempts else []

    def dead_numbers(self) -> list[int]:
        return list(self._dead)

    def remember(self, sequence: int, attempts: int) -> None:
        """Records how often a delivery had failed before a restart."""
        self._attempts[sequence] = attempts

    # What goes out

    def hand_out(self, limit: int, lease: int, until: float) -> tuple[list[Flight], list[int]]:
        """Hands out up to `limit` deliveries by priority, fewer if they are large. Returns them, and those that had expired."""
        room = self._settings.in_flight_limit - len(self._in_flight) - len(self._delayed)
        taken = self._queue.take(max(min(limit, room), 0))
        self._count_lost(taken.lost)
        if not taken.deliveries:
            return [], [entry.item for entry in taken.lost]
        deliveries = self._not_too_large(taken.deliveries)
        attempts = self._attempts
        if attempts:
            flights = [Flight(each, lease, attempts.get(each.item, 0) + 1, until) for each in deliveries]
            for flight in flights:
                if flight.attempt > 1:
                    self._redeliveries += 1
                    self._timed_out.pop(flight.sequence, None)
        else:
            flights = [Flight(each, lease, 1, until) for each in deliveries]
        self._in_flight.update((flight.delivery.item, flight) for flight in flights)
        self._time(until, [flight.delivery.item for flight in flights])
        return flights, [entry.item for entry in taken.lost]

    def _not_too_large(self, deliveries: list[TakenEntry]) -> list[TakenEntry]:
        """Returns the first of these deliveries, as many as one answer carries; the others wait again. A poll is answered as a whole, and
        many large events would fill the memory of every process on the way."""
        count = _carried([delivery.size for delivery in deliveries])
        if count < len(deliveries):
            self._queue.requeue(deliveries[count:])
        return deliveries[:count]

    def sweep(self, now: float) -> Failures:
        """Makes deliveries whose timer has ended wait again, or turns them into dead letters."""
        swept = Failures({}, [], [])
        for until, numbers in self._timers.ended(now):
            back: list[Flight] = []
            for number in numbers:
                flight = self._in_flight.get(number)
                if flight is not None and flight.until == until:
                    del self._in_flight[number]
                    if self._may_try_again(flight, "timed out", now, swept):
                        self._timed_out[number] = flight
                        back.append(flight)
                elif (flight := self._delayed.get(number)) is not None and flight.until == until:
                    del self._delayed[number]
                    back.append(flight)
            self._queue.requeue(flight.delivery for flight in back)
        return swept

    @property
    def next_sweep(self) -> float:
        return self._timers.next_end

    def ack(self, receipts: Iterable[Receipt]) -> tuple[list[int], list[int], list[int]]:
        """Acknowledges deliveries. Returns the sequence numbers that are settled, those of them that had failed before, and the
        positions of stale receipts."""
        settled: list[int] = []
        had_failed: list[int] = []
        stale: list[int] = []
        for position, receipt in enumerate(receipts):
            number = receipt.sequence
            flight = self._in_flight.get(number)
            if flight is not None and flight.lease == receipt.lease:
                del self._in_flight[number]
            else:
                flight = self._timed_out.get(number)
                if flight is None or flight.lease != receipt.lease or not self._queue.withdraw(flight.delivery):
                    stale.append(position)
                    continue
                del self._timed_out[number]
            settled.append(number)
            if self._attempts.pop(number, 0):
                had_failed.append(number)
        self._acked += len(settled)
        self._stale += len(stale)
        return settled, had_failed, stale

    def nack(self, receipts: Iterable[Receipt], delay: float, now: float, reason: str) -> tuple[list[int], Failures]:
        """Makes the deliveries wait again after the delay, or turns them into dead letters. Returns the positions of stale receipts, and
        the effects."""
        swept = Failures({}, [], [])
        flights, stale = self._pulled(receipts)
        back = [flight for flight in flights if self._may_try_again(flight, reason, now, swept)]
        if delay == 0:
            self._queue.requeue(flight.delivery for flight in back)
        else:
            for flight in back:
                self._delayed[flight.sequence] = flight._replace(until=now + delay)
            self._time(now + delay, [flight.sequence for flight in back])
        return stale, swept

    def release(self, receipts: Iterable[Receipt]) -> list[int]:
        """Makes deliveries wait as if they had not been handed out. Returns the positions of stale receipts."""
        flights, stale = self._pulled(receipts)
        self._queue.requeue(flight.delivery for flight in flights)
        return stale

    def extend(self, receipts: Iterable[Receipt], until: float) -> list[int]:
        """Keeps deliveries in flight until the given time. Returns the positions of stale receipts."""
        stale: list[int] = []
        extended: list[int] = []
        for position, receipt in enumerate(receipts):
            flight = self._in_flight.get(receipt.sequence)
            if flight is None or flight.lease != receipt.lease:
                stale.append(position)
            else:
                self._in_flight[receipt.sequence] = flight._replace(until=until)
                extended.append(receipt.sequence)
        self._time(until, extended)
        self._stale += len(stale)
        return stale

    def why_stale(self, sequence: int, is_live: bool) -> StaleReason:
        if sequence in self._dead:
            return "dead"
        return "redelivered" if is_live else "settled"

    # Dead letters

    def dead_letters(self, limit: int | None) -> list[Dead]:
        """Returns dead letters, oldest first: all, or up to `limit`, and then fewer if they are large."""
        if limit is None:
            return list(self._dead.values())
        letters = list(islice(self._dead.values(), limit))
        return letters[: _carried([letter.size for letter in letters])]

    def redrive(self, sequence: Iterable[int] | None) -> list[int]:
        """Makes these dead letters, or all, wait again as if they were new, as far as there is room. Returns those that do."""
        chosen = self._chosen_dead(sequence)
        refused = set(self._queue.refused([1] * len(chosen), [self._dead[number].size for number in chosen]))
        revived = [number for position, number in enumerate(chosen) if position not in refused]
        for number in revived:
            dead = self._dead.pop(number)
            self._queue.put([(dead.level, (number,), dead.size)], regardless=True)
        return revived

    def purge_dead(self, sequence: Iterable[int] | None) -> list[int]:
        chosen = self._chosen_dead(sequence)
        for number in chosen:
            del self._dead[number]
        self._dropped += len(chosen)
        return chosen

    def _chosen_dead(self, sequence: Iterable[int] | None) -> list[int]:
        """Returns those of these deliveries that are dead letters, each once, or all dead letters."""
        if sequence is None:
            return list(self._dead)
        return [number for number in dict.fromkeys(sequence) if number in self._dead]

    def everything(self) -> list[int]:
        """Takes everything out of this mailbox, before it is removed. Returns the sequence numbers."""
        taken = self._queue.take(len(self._queue))
        waiting = [delivery.item for delivery in taken.deliveries] + [entry.item for entry in taken.lost]
        return [*waiting, *self._in_flight, *self._delayed, *self._dead]

    # Looking in

    def __len__(self) -> int:
        """The number of deliveries that wait, without delayed ones."""
        return len(self._queue)

    def stats(self, subscriber: str | int, code: int | None) -> tuple[MailboxStats, list[LevelStats]]:
        """Returns the statistics of the mailbox and of each of its levels."""
        levels = self._queue.stats()
        waits = [level.oldest_wait for level in levels if level.oldest_wait is not None]
        stats = MailboxStats(
            subscriber=subscriber,
            subscriber_code=code,
            delivered=self._delivered,
            acked=self._acked,
            waiting=len(self._queue) + len(self._delayed),
            delayed=len(self._delayed),
            waiting_bytes=self._queue.waiting_bytes,
            in_flight=len(self._in_flight),
            dead=len(self._dead),
            dropped=self._dropped,
            expired=self._expired,
            rejected=self.rejected,
            redeliveries=self._redeliveries,
            duplicates=self.duplicates,
            stale=self._stale,
            oldest_wait=max(waits, default=None),
            on_time={level.level: level.edor for level in levels},
        )
        return stats, levels

    def _pulled(self, receipts: Iterable[Receipt]) -> tuple[list[Flight], list[int]]:
        """Takes deliveries out of flight. Returns them, and the positions of stale receipts."""
        flights: list[Flight] = []
        stale: list[int] = []
        for position, receipt in enumerate(receipts):
            flight = self._in_flight.get(receipt.sequence)
            if flight is None or flight.lease != receipt.lease:
                stale.append(position)
            else:
                flights.append(self._in_flight.pop(receipt.sequence))
        self._stale += len(stale)
        return flights, stale

    def _may_try_again(self, flight: Flight, reason: str, now: float, swept: Failures) -> bool:
        number = flight.sequence
        if flight.attempt < self._limit:
            self._attempts[number] = swept.failed[number] = flight.attempt
            return True
        delivery = flight.delivery
        self._attempts.pop(number, None)
        dead = Dead(number, delivery.level, delivery.size, delivery.enqueued, flight.attempt, reason, now)
        swept.died.append(dead)
        swept.gone += self._bury([dead])
        return False

    def _bury(self, letters: Iterable[Dead]) -> list[int]:
        gone: list[int] = []
        for dead in letters:
            self._dead[dead.sequence] = dead
            if len(self._dead) > self._settings.dead_capacity:
                gone.append(self._dead.popitem(last=False)[0])
        self._dropped += len(gone)
        return gone

    def _count_lost(self, lost: Sequence[Any]) -> None:
        for entry in lost:
            self._attempts.pop(entry.item, None)
            self._timed_out.pop(entry.item, None)
            if entry.reason == "expired":
                self._expired += 1
            else:
                self._dropped += 1

    def _time(self, until: float, numbers: list[int]) -> None:
        self._timers.set(until, numbers)
        if self._timers.has_idle(len(self._in_flight) + len(self._delayed)):
            flights = {**self._in_flight, **self._delayed}
            self._timers.keep(lambda number, until: number in flights and flights[number].until == until)


def _carried(sizes: Sequence[int]) -> int:
    """Returns how many events of these sizes one answer carries, at least one."""
    left = MOST_POLLED_BYTES
    for place, size in enumerate(sizes):
        left -= size
        if left < 0 and place:
            return place
    return len(sizes)
