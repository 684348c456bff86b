"""The delivery queue as a list of entries in the order in which they were put, every question answered by looking at all of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf
from typing import Any

from actors.mailboxes.queue.policy import Strict, Weighted


class SimulatedClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(eq=False)
class Entry:
    order: int
    item: Any
    level: int
    enqueued: float
    due: float
    size: int
    fate: str = "waiting"


@dataclass
class Model:
    """`entries` holds everything that was ever accepted; what waits is what has no other fate."""

    levels: int
    deadlines: list[float]
    policy: Strict | Weighted
    capacity: float
    capacity_bytes: float
    overflow: str
    drops_expired: bool
    entries: list[Entry] = field(default_factory=list)
    rejected: Counter[int] = field(default_factory=Counter)
    turn_level: int = 0
    turn_left: int = 0

    def waiting(self, level: int | None = None) -> list[Entry]:
        return [entry for entry in self.entries if entry.fate == "waiting" and level in (None, entry.level)]

    def overfull(self, more: list[Entry]) -> bool:
        held = [*self.waiting(), *more]
        return len(held) > self.capacity or sum(entry.size for entry in held) > self.capacity_bytes

    def put(self, batch: list[Entry], now: float) -> tuple[list[int], list[Entry]]:
        """Positions rejected, entries lost."""
        lost: list[Entry] = []
        if self.overfull(batch) and self.drops_expired:
            for level in range(self.levels):
                for entry in self.waiting(level):
                    if entry.due >= now:
                        break
                    entry.fate = "expired"
                    lost.append(entry)
        rejected = []
        entering: list[Entry] = []
        for position, entry in enumerate(batch):
            refused = (
                self.overfull([*entering, entry]) if self.overflow == "reject" else entry.size > self.capacity_bytes
            )
            if refused:
                rejected.append(position)
                self.rejected[entry.level] += 1
            else:
                entering.append(entry)
        for entry in entering:
            entry.order = len(self.entries)
            self.entries.append(entry)
        while self.overflow != "reject" and self.overfull([]):
            waiting = self.waiting()
            lowest = min(entry.level for entry in waiting)
            victim = next(entry for entry in waiting if self.overflow == "drop-oldest" or entry.level == lowest)
            victim.fate = "dropped"
            lost.append(victim)
        return rejected, lost

    def take(self, count: int, now: float) -> tuple[list[Entry], list[Entry]]:
        taken: list[Entry] = []
        lost: list[Entry] = []
        while len(taken) < count and self.waiting():
            entry = self.next_strict(now) if isinstance(self.policy, Strict) else self.next_weighted()
            if self.drops_expired and entry.due < now:
                entry.fate = "expired"
                lost.append(entry)
            else:
                entry.fate = "on_time" if now <= entry.due else "late"
                taken.append(entry)
                self.turn_left -= 1
        return taken, lost

    def fronts(self) -> list[Entry]:
        return [self.waiting(level)[0] for level in range(self.levels) if self.waiting(level)]

    def next_strict(self, now: float) -> Entry:
        assert isinstance(self.policy, Strict)
        longest = inf if self.policy.longest_wait is None else self.policy.longest_wait
        aged = [entry for entry in self.fronts() if now - entry.enqueued >= longest]
        if aged:
            return min(aged, key=lambda entry: (entry.enqueued, -entry.level))
        return max(self.fronts(), key=lambda entry: entry.level)

    def next_weighted(self) -> Entry:
        assert isinstance(self.policy, Weighted) and isinstance(self.policy.weights, list)
        while self.turn_left <= 0 or not self.waiting(self.turn_level):
            self.turn_level = (self.turn_level - 1) % self.levels
            self.turn_left = self.policy.weights[self.turn_level]
        return self.waiting(self.turn_level)[0]

    def fates(self, level: int, fate: str) -> int:
        return sum(entry.level == level and entry.fate == fate for entry in self.entries)

    def edor(self, level: int, now: float) -> float | None:
        own = [entry for entry in self.entries if entry.level == level]
        became_due = [entry for entry in own if entry.fate != "waiting" or entry.due < now]
        return sum(entry.fate == "on_time" for entry in own) / len(became_due) if became_due else None
