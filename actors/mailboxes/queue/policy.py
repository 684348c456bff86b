"""Decides from which level the next entries are taken; it does not take them.

A policy is a setting; its scheduler is the state of one queue. A scheduler names a turn: a level, the number of entries that may leave it
in a row, and the latest enqueue time of those entries, so that a batch costs a few turns and not a decision for each entry. Taking n
entries at one instant gives the same as taking one entry n times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nextafter
from typing import Protocol

from actors.mailboxes.queue.entries import ENQUEUED
from actors.mailboxes.queue.levels import PerLevel, per_level
from actors.mailboxes.queue.line import Line
from ray_pubsub.errors import SettingError
from ray_pubsub.model.arguments import check_seconds

__all__ = ["Policy", "Scheduler", "Strict", "Turn", "Weighted"]


Turn = tuple[int, int, float]
"""The level, the most entries that may leave it, and the latest enqueue time of those that may."""


class Scheduler(Protocol):
    """Decides for one queue which level is served next."""

    def turn(self, lines: Sequence[Line], now: float) -> Turn:
        """Returns the next turn; the line that it names gives at least one entry. Called only when something waits."""

    def served(self, level: int, count: int, last_expired: bool) -> None:
        """Reports that `count` of the turn's entries were delivered, without expired ones. `last_expired`: the last entry that left had
        expired."""


class Policy(Protocol):
    """Makes the scheduler of each queue."""

    def scheduler(self, levels: tuple[str, ...]) -> Scheduler: ...


@dataclass(frozen=True, slots=True)
class Strict:
    """Always takes from the highest level that has entries; lower levels may starve unless `longest_wait` is set.

    An entry that has waited `longest_wait` seconds goes before all that have not, whatever their levels; among such entries the oldest goes
    first, and of equally old ones the one of the highest level. So no entry is delivered before one that was enqueued more than
    `longest_wait` earlier and is still waiting, and once an entry has waited that long, only older ones go before it. Ageing is for bursts.
    If more arrives than leaves for longer than that, everything ages, and the queue is first in, first out (as it is at once with 0): the
    highest levels are then late with the rest, as `python -m benchmarks delivery` shows. `Weighted` serves both high and low levels. Ageing
    looks at the front of each level; an entry put with an enqueue time earlier than theirs waits behind them.
    """

    longest_wait: float | None = None

    def __post_init__(self) -> None:
        if self.longest_wait is not None:
            check_seconds("longest_wait", self.longest_wait)

    def scheduler(self, levels: tuple[str, ...]) -> Scheduler:
        return _StrictScheduler(inf if self.longest_wait is None else float(self.longest_wait))


class _StrictScheduler:
    __slots__ = ("_longest_wait",)

    def __init__(self, longest_wait: float) -> None:
        self._longest_wait = longest_wait

    def turn(self, lines: Sequence[Line], now: float) -> Turn:
        highest = len(lines) - 1
        while not len(lines[highest]):
            highest -= 1
        aged_by = now - self._longest_wait
        if aged_by == -inf:  # no ageing
            return highest, len(lines[highest]), inf
        # The highest level comes first, and min keeps the first of equals.
        fronts = [(lines[level].head[ENQUEUED], level) for level in range(highest, -1, -1) if len(lines[level])]
        aged = [(enqueued, level) for enqueued, level in fronts if enqueued <= aged_by]
        if not aged:
            return highest, len(lines[highest]), inf
        _, oldest = min(aged, key=lambda front: front[0])
        # The turn lasts while this level's front is older than every other aged front, or as old and of a higher level.
        until = [
            enqueued if level < oldest else nextafter(enqueued, -inf) for enqueued, level in aged if level != oldest
        ]
        return oldest, len(lines[oldest]), min([aged_by, *until])

    def served(self, level: int, count: int, last_expired: bool) -> None:
        pass


@dataclass(frozen=True)
class Weighted:
    """Takes in rounds from the highest level to the lowest. In a round each level may deliver as many entries as its weight, which is 1 if
    not given.

    With W the sum of the weights and w a level's own: while the level has something waiting, at most W - w entries of other levels are
    delivered between two of its turns, so it gets at least w of every W deliveries, and its front is never W - w deliveries away. An entry
    with p others of its level in front of it is preceded by at most ceil((p + 1) / w) * (W - w) entries of other levels. A level with
    nothing waiting gives its turn away and does not save it up.

    This is deficit round robin in which every entry costs the same; without costs that differ there is no deficit to carry over.
    """

    weights: PerLevel[int] | None = None

    def scheduler(self, levels: tuple[str, ...]) -> Scheduler:
        return _WeightedScheduler(per_level("weights", self.weights, levels, 1, _weight))


class _WeightedScheduler:
    __slots__ = ("_left", "_level", "_weights")

    def __init__(self, weights: tuple[int, ...]) -> None:
        self._weights = weights
        self._level = 0
        self._left = 0  # entries left of the turn; 0, so that the first round begins with the highest level

    def turn(self, lines: Sequence[Line], now: float) -> Turn:
        if not self._left or not len(lines[self._level]):
            step = 1
            while not len(lines[self._level - step]):  # negative indexes wrap from the lowest to the highest
                step += 1
            self._level = (self._level - step) % len(lines)
            self._left = self._weights[self._level]
            if step == len(lines):  # a full circle: a level that is alone takes all its turns at once
                return self._level, len(lines[self._level]), inf
        return self._level, self._left, inf

    def served(self, level: int, count: int, last_expired: bool) -> None:
        if count:  # a whole turn leaves 0; beyond it, several turns were taken
            self._left = (self._left - count) % self._weights[level]
            if not self._left and last_expired:  # one by one, that entry would have left in another turn, which goes on
                self._left = self._weights[level]


def _weight(setting: str, value: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SettingError(setting, f"must be whole numbers of at least 1, not {value!r}")
    return value
