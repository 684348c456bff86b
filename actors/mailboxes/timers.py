"""Timers of deliveries that were handed out: when they wait again, unless they are settled before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

__all__ = ["Timers"]

IDLE = 4096


class Timers:
    """A heap of end times, each with the numbers of the deliveries that got it together. A delivery that is settled leaves its number
    behind, which costs nothing at the time; but at a high rate such idle numbers would be most of what a mailbox holds, so they are
    removed now and then."""

    __slots__ = ("_heap", "_numbers", "_rank")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, list[int]]] = []
        self._rank = count()
        self._numbers = 0

    def __len__(self) -> int:
        """The number of numbers held, including idle ones."""
        return self._numbers

    @property
    def next_end(self) -> float:
        return self._heap[0][0] if self._heap else inf

    def set(self, end: float, numbers: list[int]) -> None:
        if numbers:
            heappush(self._heap, (end, next(self._rank), numbers))
            self._numbers += len(numbers)

    def ended(self, now: float) -> Iterator[tuple[float, list[int]]]:
        """Removes and yields the timers that have ended, the earliest first."""
        while self._heap and self._heap[0][0] <= now:
            end, _, numbers = heappop(self._heap)
            self._numbers -= len(numbers)
            yield end, numbers

    def has_idle(self, needed: int) -> bool:
        """Returns whether most numbers are idle, given that only `needed` of them are not."""
        return self._numbers > IDLE + 4 * needed

    def keep(self, is_needed: Callable[[int, float], bool]) -> None:
        heap = [(end, rank, [each for each in numbers if is_needed(each, end)]) for end, rank, numbers in self._heap]
        self._heap = [timer for timer in heap if timer[2]]
        heapify(self._heap)
        self._numbers = sum(len(numbers) for _, _, numbers in self._heap)
