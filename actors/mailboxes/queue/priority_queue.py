"""A bounded queue with levels and deadlines: the paper's prioritized multiqueue, which measures its own on-time rate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from math import inf
from time import monotonic
from typing import Any, Literal

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
from actors.mailboxes.queue.levels import PerLevel, per_level
from actors.mailboxes.queue.line import Line
from actors.mailboxes.queue.on_time import LEVEL_COUNTED, LevelCounts, LevelStats
from actors.mailboxes.queue.overflow import VICTIMS, Overflow, refused_groups
from actors.mailboxes.queue.policy import Policy, Strict
from actors.mailboxes.queue.run import Run
from ray_pubsub.model.arguments import check_seconds

__all__ = ["PriorityQueue", "Runs"]

Runs = Sequence[tuple[int, Sequence[Any], Sequence[int] | int]]
"""Each a level, items, and their sizes or the one size of each."""
_ENTERED = Admission(1, (), ())


class PriorityQueue:
    """A bounded queue. Entries wait in one line per level, first in first out; the policy says which line is next.

    >>> queue = PriorityQueue(["low", "high"], deadlines={"high": 0.1})
    >>> queue.put([(0, ["a", "c"], 0), (1, ["b"], 0)]).accepted
    3
    >>> [delivery.item for delivery in queue.take(2).deliveries]
    ['b', 'a']
    >>> [(level.level, level.edor) for level in queue.stats()]
    [('low', 1.0), ('high', 1.0)]

    `levels` are names, lowest first; entries give their level by number. `deadlines` are seconds from an entry's enqueue time, by name or
    as a list, lowest first; an entry of a level without one is always on time. `capacity` bounds the entries that wait, `capacity_bytes`
    the sum of their sizes; `overflow` says which entries make room (`Overflow`). With `expired="drop"` an entry past its due time is not
    delivered but reported as lost; with `"deliver-late"` it is delivered, and counts as late. `clock` returns seconds; if it goes back,
    time stands still.

    Nothing is lost silently: an entry is waiting, was delivered, or was returned as `Lost`, and `stats` counts each (`on_time.LevelStats`).
    Not thread-safe, and settings are not checked: a queue belongs to one mailbox, `Mailboxes` holds the lock, and MailboxSettings checks.
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
        self.levels = tuple(levels)
        self._deadlines = per_level("deadlines", deadlines, self.levels, inf, check_seconds)
        self._scheduler = (policy or Strict()).scheduler(self.levels)
        self._capacity = inf if capacity is None else capacity
        self._capacity_bytes = inf if capacity_bytes is None else capacity_bytes
        self._victim = VICTIMS.get(overflow)
        self._drops_expired = expired == "drop"
        self._clock = clock
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

    def put(self, runs: Runs, *, enqueued: float | None = None, regardless: bool = False) -> Admission:
        """Puts a batch, level by level. As long as all fit, no object is made for an entry before it leaves; items and sizes must not
        change. Positions are counted through all runs. `enqueued` is the time from which all count: now if not given, and never later.

        With `overflow="reject"` items enter in turn, each if it fits. Otherwise all enter, and then entries leave until the rest fits. An
        item larger than `capacity_bytes` is rejected whatever `overflow` says. When the queue is full and drops expired entries, those at
        the front of their lines leave first. `regardless` ignores the bounds, for entries that were admitted before, as `requeue` does.
        """
        now = self._now()
        time = now if enqueued is None else min(enqueued, now)
        count = total = 0
        for _, items, sizes in runs:
            count += len(items)
            total += sizes * len(items) if isinstance(sizes, int) else sum(sizes)
        if self._overfull(count, total) and not regardless:
            return self._put_one_by_one(runs, time, now)
        for level, items, sizes in runs:
            length, due, order = len(items), time + self._deadlines[level], self._next_order
            if length == 1:
                size = sizes if isinstance(sizes, int) else sizes[0]
                self._lines[level].append((order, time, due, size, level, items[0]))
            elif length:
                self._lines[level].append_run(Run(order, time, due, sizes, level, items))
            self._counts[level].put += length
            self._next_order = order + length
        self._waiting += count
        self._bytes += total
        return _ENTERED if count == 1 else Admission(count, (), ())

    def has_room(self, count: int, size: int) -> bool:
        """Returns whether `count` items with this total size would enter now without anything leaving."""
        return not self._overfull(count, size)

    def refused(self, counts: Sequence[int], sizes: Sequence[int]) -> Sequence[int]:
        """Returns the positions of the groups that would be rejected if they were put now. Group i has `counts[i]` entries of the size
        `sizes[i]` each."""
        if self._victim:
            return [position for position, size in enumerate(sizes) if size > self._capacity_bytes]
        return refused_groups(counts, sizes, self._waiting, self._capacity, self._bytes, self._capacity_bytes)

    def take(self, count: int = 1) -> Taken:
        """Takes up to `count` entries in delivery order. Also returns the entries that had expired in front of them (with
        `expired="drop"`)."""
        taken: list[Waiting] = []
        expired: list[Waiting] = []
        by_level: dict[int, list[Waiting]] = {}
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
        came back; a delivery that waits again already is ignored. The mailbox knows what is in flight, and gives back nothing else.
        """
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
        if not self._lines[delivery.level].withdraw(delivery.order):
            return False
        self._left([waiting_again(delivery)])
        self._counts[delivery.level].deliver([waiting_again(delivery)], delivery.taken)
        return True

    def stats(self) -> list[LevelStats]:
        """Returns the statistics of each level, lowest first. Looks at every entry that waits, to count the overdue ones."""
        now = self._now()
        return [
            counts.stats(name, line, now)
            for name, counts, line in zip(self.levels, self._counts, self._lines, strict=True)
        ]

    def counts(self) -> list[int]:
        """Returns the counts of an empty queue, level by level; not how long entries waited."""
        return [number for counts in self._counts for number in counts.state()]

    def take_counts(self, counted: Sequence[int]) -> None:
        """Restores the counts that `counts` returned before this queue was made."""
        for number, counts in enumerate(self._counts):
            counts.restore(counted[number * LEVEL_COUNTED : (number + 1) * LEVEL_COUNTED])

    def _now(self) -> float:
        self._latest = max(self._latest, self._clock())
        return self._latest

    def _put_one_by_one(self, runs: Runs, time: float, now: float) -> Admission:
        """Puts a batch that does not fit as it is."""
        lost: list[Lost] = []
        if self._drops_expired:
            for line in self._lines:
                lost += self._record_lost(self._left(line.pop_overdue_heads(now)), "expired", now)
        rejected: list[int] = []
        position = accepted = 0
        for level, items, sizes in runs:
            due, line, counts = time + self._deadlines[level], self._lines[level], self._counts[level]
            for item, size in zip(items, repeat(sizes) if isinstance(sizes, int) else sizes, strict=False):
                if size > self._capacity_bytes if self._victim else self._overfull(1, size):
                    rejected.append(position)
                    counts.rejected += 1
                else:
                    line.append((self._next_order, time, due, size, level, item))
                    counts.put += 1
                    accepted += 1
                    self._next_order += 1
                    self._waiting += 1
                    self._bytes += size
                position += 1
        victims: list[Waiting] = []
        while self._victim and self._overfull():
            victims += self._left(self._victim(self._lines).pop(1))
        return Admission(accepted, rejected, lost + self._record_lost(victims, "dropped", now))

    def _overfull(self, more: int = 0, more_bytes: int = 0) -> bool:
        return self._waiting + more > self._capacity or self._bytes + more_bytes > self._capacity_bytes

    def _left(self, entries: list[Waiting]) -> list[Waiting]:
        """Accounts for entries that have left the queue."""
        self._waiting -= len(entries)
        if self._bytes:
            self._bytes -= sum(map(size_of, entries))
        return entries

    def _record_lost(self, entries: list[Waiting], reason: LostReason, now: float) -> list[Lost]:
        for entry in entries:
            self._counts[entry[LEVEL]].lose(reason)
        return as_lost(entries, now, reason)
