"""A bounded queue with levels and deadlines: the paper's prioritized multiqueue, which measures its own on-time rate."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from math import inf
from time import monotonic
from typing import Any, Literal

from actors.mailboxes.queue.arguments import (
    Runs,
    checked_bound,
    checked_clock,
    checked_count,
    checked_deliveries,
    checked_delivery,
    checked_runs,
    reading,
    scheduler_of,
)
from actors.mailboxes.queue.batch import Batch, batch_of_runs, checked_columns, entry_level, entry_size, entry_times
from actors.mailboxes.queue.entries import (
    DUE,
    LEVEL,
    Admission,
    Lost,
    LostReason,
    Taken,
    TakenEntry,
    Waiting,
    as_deliveries,
    as_lost,
    size_of,
    waiting_again,
)
from actors.mailboxes.queue.levels import PerLevel, level_names, per_level, seconds
from actors.mailboxes.queue.line import Line
from actors.mailboxes.queue.on_time import LEVEL_COUNTED, LevelCounts, LevelStats
from actors.mailboxes.queue.overflow import Overflow, refused_groups, victim_chooser
from actors.mailboxes.queue.policy import Policy
from actors.mailboxes.queue.run import Run
from ray_pubsub.errors import SettingError

__all__ = ["PriorityQueue"]

_ENTERED = Admission(1, (), ())


class PriorityQueue:
    """A bounded queue. Entries wait in one line per level, first in first out; the policy says which line is next.

    >>> queue = PriorityQueue(["low", "high"], deadlines={"high": 0.1})
    >>> queue.put_many(["a", "b", "c"], [0, 1, 0]).accepted
    3
    >>> [delivery.item for delivery in queue.take(2).deliveries]
    ['b', 'a']
    >>> queue.edor()
    {'low': 1.0, 'high': 1.0}

    `levels` are names, lowest first; entries give their level by number. `deadlines` are seconds from an entry's enqueue time, by name or
    as a list, lowest first; an entry of a level without one is always on time. `capacity` bounds the entries that wait, `capacity_bytes`
    the sum of their sizes; `overflow` says which entries make room (`Overflow`). With `expired="drop"` an entry past its due time is not
    delivered but reported as lost; with `"deliver-late"` it is delivered, and counts as late. `clock` returns seconds; if it goes back,
    time stands still.

    Nothing is lost silently: an entry is waiting, was delivered, or was returned as `Lost`, and `stats` counts each (`on_time.LevelStats`).
    Every method may be called from any thread, and is atomic.
    """

    def __init__(
        self,
        levels: Sequence[str],
        *,
        deadlines: PerLevel[float] | None = None,
        policy: Policy | None = None,
        capacity: int | None = None,
        capacity_bytes: int | None = None,
        overflow: Overflow = "reject",
        expired: Literal["deliver-late", "drop"] = "deliver-late",
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if not isinstance(expired, str) or expired not in ("deliver-late", "drop"):
            raise SettingError("expired", f"must be 'deliver-late' or 'drop', not {expired!r}")
        self.levels = level_names(levels)
        self._deadlines = per_level("deadlines", deadlines, self.levels, inf, seconds)
        self._scheduler = scheduler_of(policy, self.levels)
        self._capacity = checked_bound("capacity", capacity)
        self._capacity_bytes = checked_bound("capacity_bytes", capacity_bytes)
        self._victim = victim_chooser(overflow)
        self._drops_expired = expired == "drop"
        self._clock = checked_clock(clock)
        self._lock = threading.Lock()
        self._lines = [Line() for _ in self.levels]
        self._counts = [LevelCounts() for _ in self.levels]
        self._waiting = 0
        self._bytes = 0
        self._next_order = 0
        self._latest = -inf

    def __len__(self) -> int:
        """The number of entries that wait."""
        return self._waiting

    @property
    def waiting_bytes(self) -> int:
        """The sum of the sizes of the entries that wait."""
        return self._bytes

    def put(
        self,
        item: Any,
        level: int,
        *,
        enqueued: float | None = None,
        deadline: float | None = None,
        size: int = 0,
    ) -> Admission:
        """Puts one item. `deadline` is its own, in seconds, in place of its level's. `enqueued` is the time from which it counts: now if
        not given, and never later than now."""
        level, size = entry_level(level, len(self.levels)), entry_size(size)
        with self._lock:
            now = self._now()
            time, due = entry_times(level, enqueued, deadline, self._deadlines, now)
            if self._overfull(1, size):
                return self._put(Batch((item,), (level,), (time,), (due,), (size,)), now)
            self._lines[level].append((self._next_order, time, due, size, level, item))
            self._counts[level].put += 1
            self._next_order += 1
            self._waiting += 1
            self._bytes += size
            return _ENTERED

    def put_many(
        self,
        items: Iterable[Any],
        levels: int | Iterable[int],
        *,
        enqueued: float | Iterable[float] | None = None,
        deadlines: float | Iterable[float | None] | None = None,
        sizes: int | Iterable[int] | None = None,
    ) -> Admission:
        """Puts a batch. Levels, times, deadlines and sizes are one for all or one for each. Bad arguments raise before anything is put.

        With `overflow="reject"` items enter in turn, each if it fits. Otherwise all enter, and then entries leave until the rest fits. An
        item larger than `capacity_bytes` is rejected whatever `overflow` says. When the queue is full and drops expired entries, those at
        the front of their lines leave first.
        """
        # This is done without the lock, because the caller's iterables may be slow or use this queue.
        columns = checked_columns(items, levels, enqueued, deadlines, sizes, len(self.levels))
        with self._lock:
            now = self._now()
            return self._put(columns.put_at(now, self._deadlines), now)

    def put_runs(
        self,
        runs: Runs,
        *,
        enqueued: float | None = None,
        regardless: bool = False,
    ) -> Admission:
        """Puts a batch by level: (level, items, sizes or the one size of each). It does the same as `put_many`, but as long as all fit
        makes no object for an entry before it leaves; `items` and `sizes` must not change. Positions are counted through all runs.

        `regardless` ignores the bounds, for entries that were admitted before, as `requeue` does.
        """
        count, total = checked_runs(runs, len(self.levels))
        with self._lock:
            now = self._now()
            if not regardless and self._overfull(count, total):
                return self._put(batch_of_runs(runs, enqueued, self._deadlines, now), now)
            time = now if enqueued is None else entry_times(0, enqueued, None, self._deadlines, now)[0]
            for level, items, sizes in runs:
                length, due, order = len(items), time + self._deadlines[level], self._next_order
                if length == 1:
                    size = sizes if isinstance(sizes, int) else sizes[0]
                    self._lines[level].append((order, time, due, size, level, items[0]))
                elif length:
                    self._lines[level].append_run(Run(order, time, due, sizes, level, items), due)
                self._counts[level].put += length
                self._next_order = order + length
            self._waiting += count
            self._bytes += total
            return _ENTERED if count == 1 else Admission(count, (), ())

    def has_room(self, count: int, size: int) -> bool:
        """Returns whether `count` items with this total size would enter now without anything leaving."""
        if type(count) is not int or type(size) is not int or count < 0 or size < 0:
            count, size = checked_count("count", count), entry_size(size)
        return not self._overfull(count, size)

    def refused(self, counts: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
        """Returns the positions of the groups that would be rejected if they were put now. Group i has `counts[i]` entries of the size
        `sizes[i]` each."""
        with self._lock:
            if self._victim:
                return [position for position, size in enumerate(sizes) if size > self._capacity_bytes]
            return refused_groups(counts, sizes, self._waiting, self._capacity, self._bytes, self._capacity_bytes)

    def take(self, count: int = 1) -> Taken:
        """Takes up to `count` entries in delivery order. Also returns the entries that had expired in front of them (with
        `expired="drop"`)."""
        checked_count("count", count)
        taken: list[Waiting] = []
        expired: list[Waiting] = []
        by_level: dict[int, list[Waiting]] = {}
        with self._lock:
            now = self._now()
            while self._waiting and len(taken) < count:
                level, most, enqueued_by = self._scheduler.turn(self._lines, now)
                entries = self._left(self._lines[level].pop(min(most, count - len(taken)), enqueued_by))
                last_expired = False
                if self._drops_expired:
                    last_expired = entries[-1][DUE] < now
                    expired += [entry for entry in entries if entry[DUE] < now]
                    entries = [entry for entry in entries if entry[DUE] >= now]
                self._scheduler.served(level, len(entries), last_expired)
                taken += entries
                if level in by_level:
                    by_level[level] += entries
                else:
                    by_level[level] = entries
            for level, entries in by_level.items():
                self._counts[level].deliver(entries, now)
            return Taken(as_deliveries(taken, now), self._record_lost(expired, "expired", now))

    def requeue(self, deliveries: Iterable[TakenEntry]) -> int:
        """Makes deliveries that failed wait again, at their old position and with their enqueue and due times. They count as not delivered.

        They were admitted once and are not refused now, so the queue may be over its capacity until the next put. Returns the number that
        came back; a delivery that waits again already is ignored. Giving back a delivery whose entry was taken again since, or lost, is an
        error that is not noticed here: the mailbox knows what is in flight.
        """
        deliveries = checked_deliveries(deliveries)
        with self._lock:
            for delivery in deliveries:
                if not self._may_return(delivery):
                    raise SettingError("deliveries", f"must be deliveries that this queue made, not {delivery!r}")
            before = self._waiting
            for delivery in deliveries:
                if self._lines[delivery.level].give_back(waiting_again(delivery)):
                    self._counts[delivery.level].take_back(delivery)
                    self._waiting += 1
                    self._bytes += delivery.size
            return self._waiting - before

    def withdraw(self, delivery: TakenEntry) -> bool:
        """Removes a requeued delivery that had succeeded after all; it counts as delivered when it was taken. Returns False if it does
        not wait."""
        checked_delivery(delivery)
        with self._lock:
            if delivery.level >= len(self._lines) or not self._lines[delivery.level].withdraw(delivery.order):
                return False
            self._left([waiting_again(delivery)])
            self._counts[delivery.level].deliver([waiting_again(delivery)], delivery.taken)
            return True

    def expire(self) -> list[Lost]:
        """Removes and returns all entries past their due time, whatever `expired` says."""
        with self._lock:
            now = self._now()
            return [lost for line in self._lines for lost in self._lose(line.remove_overdue(now), "expired", now)]

    def stats(self) -> list[LevelStats]:
        """Returns the statistics of each level, lowest first. Looks at every entry that waits, to count the overdue ones."""
        with self._lock:
            now = self._now()
            return [
                counts.stats(name, line, now)
                for name, counts, line in zip(self.levels, self._counts, self._lines, strict=True)
            ]

    def edor(self) -> dict[str, float | None]:
        """Returns the event delivery on-time rate of each level (`on_time` defines it); None where nothing has become due."""
        return {stats.level: stats.edor for stats in self.stats()}

    def counts(self) -> list[int]:
        """Returns the counts of an empty queue, level by level; not how long entries waited."""
        return [number for counts in self._counts for number in counts.state()]

    def take_counts(self, counted: Sequence[int]) -> None:
        """Restores the counts that `counts` returned before this queue was made."""
        for number, counts in enumerate(self._counts):
            counts.restore(counted[number * LEVEL_COUNTED : (number + 1) * LEVEL_COUNTED])

    # All methods below run under the lock.

    def _now(self) -> float:
        time = self._clock()
        if type(time) is not float:
            time = reading(time)
        if time > self._latest:
            self._latest = time
        return self._latest

    def _put(self, batch: Batch, now: float) -> Admission:
        if not self._overfull(len(batch.items), sum(batch.sizes)):
            self._enter(batch)
            return Admission(len(batch.items), (), ())
        lost: list[Lost] = []
        if self._drops_expired:
            for line in self._lines:
                lost += self._lose(line.pop_overdue_heads(now), "expired", now)
        rejected = self._rejected(batch.sizes)
        if rejected:
            for position in rejected:
                self._counts[batch.levels[position]].rejected += 1
            batch = batch.without(rejected)
        self._enter(batch)
        if self._victim:
            victims: list[Waiting] = []
            while self._overfull():
                victims += self._left(self._victim(self._lines).pop(1))
            lost += self._record_lost(victims, "dropped", now)
        return Admission(len(batch.items), rejected, lost)

    def _overfull(self, more: int = 0, more_bytes: int = 0) -> bool:
        return self._waiting + more > self._capacity or self._bytes + more_bytes > self._capacity_bytes

    def _rejected(self, sizes: Sequence[int]) -> Sequence[int]:
        """Returns the positions of the items that do not enter."""
        if self._victim:
            return [position for position, size in enumerate(sizes) if size > self._capacity_bytes]
        room, room_bytes = self._capacity - self._waiting, self._capacity_bytes - self._bytes
        rejected: list[int] = []
        for position, size in enumerate(sizes):
            if room >= 1 and size <= room_bytes:
                room, room_bytes = room - 1, room_bytes - size
            else:
                rejected.append(position)
        return rejected

    def _may_return(self, delivery: TakenEntry) -> bool:
        return (
            delivery.level < len(self._lines)
            and delivery.order < self._next_order
            and not self._lines[delivery.level].was_never_taken(delivery.order)
        )

    def _enter(self, batch: Batch) -> None:
        count = len(batch.items)
        orders = range(self._next_order, self._next_order + count)
        by_level: list[list[Waiting]] = [[] for _ in self._lines]
        for entry in zip(orders, batch.enqueued, batch.due, batch.sizes, batch.levels, batch.items, strict=True):
            by_level[entry[LEVEL]].append(entry)
        for line, counts, entries in zip(self._lines, self._counts, by_level, strict=True):
            if entries:
                line.extend(entries)
                counts.put += len(entries)
        self._next_order += count
        self._waiting += count
        self._bytes += sum(batch.sizes)

    def _left(self, entries: list[Waiting]) -> list[Waiting]:
        """Accounts for entries that have left the queue."""
        self._waiting -= len(entries)
        if self._bytes:
            self._bytes -= sum(map(size_of, entries))
        return entries

    def _lose(self, entries: list[Waiting], reason: LostReason, now: float) -> list[Lost]:
        return self._record_lost(self._left(entries), reason, now)

    def _record_lost(self, entries: list[Waiting], reason: LostReason, now: float) -> list[Lost]:
        for entry in entries:
            self._counts[entry[LEVEL]].lose(reason)
        return as_lost(entries, now, reason)
