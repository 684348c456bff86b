"""Mailboxes as one list of all deliveries ever, every question answered by looking at all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

SIZE = 64


@dataclass(eq=False)
class Entry:
    sequence: int
    order: int
    """Among all of its mailbox, by when it entered."""
    subscriber: int
    subscription: int
    event: str
    level: int
    enqueued: float
    state: str = "waiting"
    attempts: int = 0
    lease: int = 0
    until: float = 0.0
    receipt_holds: bool = False
    reason: str = ""
    died: float = 0.0
    buried: int = 0


@dataclass
class Model:
    levels: int
    deadlines: list[float]
    capacity: int
    overflow: str
    drops_expired: bool
    limit: int
    dead_capacity: int
    in_flight_limit: int
    timeout: float
    entries: list[Entry] = field(default_factory=list)
    next_sequence: int = 1
    next_order: int = 0
    burials: int = 0
    delivered_keys: dict[str, set[int]] = field(default_factory=dict)
    """By key, the subscribers who rejected the event."""

    def of(self, subscriber: int, *states: str) -> list[Entry]:
        return [entry for entry in self.entries if entry.subscriber == subscriber and entry.state in states]

    def find(self, sequence: int) -> Entry:
        return next(entry for entry in self.entries if entry.sequence == sequence)

    def deliver(self, matches: list[tuple[str, int, int, int]], now: float) -> tuple[int, int, int, int, list[int]]:
        """Matches: event, which is its key, subscription, subscriber, level. Delivered, duplicates, dead, dropped, rejected positions."""
        seen = {event: left.copy() for event, left in self.delivered_keys.items()}
        fresh = [
            at for at, (event, _, subscriber, _) in enumerate(matches) if event not in seen or subscriber in seen[event]
        ]
        rejected: list[int] = []
        dead = dropped = 0
        order = sorted(fresh, key=lambda at: (matches[at][2], -matches[at][3]))
        together = Counter((matches[at][2], matches[at][0]) for at in order)
        fits: dict[tuple[int, str], bool] = {}
        room = {subscriber: self.capacity - len(self.of(subscriber, "waiting")) for subscriber, _ in together}
        for at in order:
            event, _, subscriber, _ = matches[at]
            if (subscriber, event) not in fits:
                count = together[subscriber, event]
                fits[subscriber, event] = count <= room[subscriber] or room[subscriber] == self.capacity
                room[subscriber] -= count * fits[subscriber, event]
        for at in order:
            event, subscription, subscriber, level = matches[at]
            entry = Entry(self.next_sequence, self.next_order, subscriber, subscription, event, level, now)
            self.next_sequence += 1
            self.next_order += 1
            full = not fits[subscriber, event]
            if full and self.overflow == "reject":
                rejected.append(at)
                continue
            self.entries.append(entry)
            if full and self.overflow == "dead-letter":
                dead += 1
                dropped += self.bury(entry, "overflow", now)
        for subscriber in {matches[at][2] for at in order}:
            dropped += self.make_room(subscriber, now)
        for event, *_ in matches:
            if event in seen and not seen[event]:
                continue
            self.delivered_keys[event] = {matches[at][2] for at in rejected if matches[at][0] == event}
        return len(fresh) - len(rejected) - dead, len(matches) - len(fresh), dead, dropped, sorted(rejected)

    def make_room(self, subscriber: int, now: float) -> int:
        if self.overflow not in ("drop-oldest", "drop-lowest"):
            return 0
        left = 0
        if len(self.of(subscriber, "waiting")) > self.capacity and self.drops_expired:
            for level in range(self.levels):
                for entry in sorted(self.of(subscriber, "waiting"), key=lambda entry: entry.order):
                    if entry.level == level:
                        if self.due(entry) >= now:
                            break
                        entry.state = "expired"
                        left += 1
        while len(waiting := self.of(subscriber, "waiting")) > self.capacity:
            lowest = self.overflow == "drop-lowest"
            min(waiting, key=lambda entry: (entry.level if lowest else 0, entry.order)).state = "dropped"
            left += 1
        return left

    def bury(self, entry: Entry, reason: str, now: float) -> int:
        self.burials += 1
        entry.state, entry.reason, entry.died, entry.buried = "dead", reason, now, self.burials
        entry.receipt_holds = False
        dead = self.dead(entry.subscriber)
        too_many = max(len(dead) - self.dead_capacity, 0)
        for oldest in dead[:too_many]:
            oldest.state = "dropped"
        return too_many

    def dead(self, subscriber: int) -> list[Entry]:
        return sorted(self.of(subscriber, "dead"), key=lambda entry: entry.buried)

    def due(self, entry: Entry) -> float:
        return entry.enqueued + self.deadlines[entry.level]

    def sweep(self, subscriber: int, now: float) -> None:
        """In the order of the timers: those that end first, and among them those that were set first."""
        for entry in sorted(self.of(subscriber, "in flight", "delayed"), key=lambda entry: entry.until):
            if entry.until > now:
                break
            if entry.state == "delayed":
                entry.state = "waiting"
            elif self.try_again(entry, "timed out", now):
                entry.state, entry.receipt_holds = "waiting", True

    def try_again(self, entry: Entry, reason: str, now: float) -> bool:
        if entry.attempts < self.limit:
            return True
        self.bury(entry, reason, now)
        return False

    def poll(self, subscriber: int, count: int, now: float) -> list[Entry]:
        self.sweep(subscriber, now)
        room = self.in_flight_limit - len(self.of(subscriber, "in flight", "delayed"))
        taken: list[Entry] = []
        while len(taken) < min(count, room) and (waiting := self.of(subscriber, "waiting")):
            entry = min(waiting, key=lambda entry: (-entry.level, entry.order))
            if self.drops_expired and self.due(entry) < now:
                entry.state = "expired"
                continue
            entry.state, entry.attempts, entry.until = "in flight", entry.attempts + 1, now + self.timeout
            entry.receipt_holds = True
            taken.append(entry)
        return taken

    def holds(self, subscriber: int, receipt: Any, *, even_late: bool) -> Entry | None:
        entry = self.find(receipt.sequence)
        states = ("in flight", "waiting") if even_late else ("in flight",)
        good = entry.receipt_holds and entry.lease == receipt.lease and entry.state in states
        return entry if good and entry.subscriber == subscriber else None

    def restart(self) -> None:
        self.entries = [entry for entry in self.entries if entry.state in ("waiting", "in flight", "delayed", "dead")]
        for entry in self.entries:
            if entry.state == "in flight":
                entry.attempts -= 1  # what the attempt came to is not known
            if entry.state != "dead":
                entry.state = "waiting"
            entry.order = entry.sequence
            entry.receipt_holds = False
        self.next_order = self.next_sequence
