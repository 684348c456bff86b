"""The entries of one level, in the order in which they were put."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain, repeat
from math import inf
from operator import lt

from actors.mailboxes.queue.entries import DUE, ENQUEUED, ORDER, Waiting, due_of
from actors.mailboxes.queue.run import Run

__all__ = ["Line"]

_EMPTY: deque[Waiting | Run] = deque()
"""Shared by every line in which nothing was put: a deque of its own takes 760 bytes at once."""
_NONE_RETURNED: set[int] = set()
"""Shared by every line to which nothing came back; a set of its own takes 216 bytes."""


class Line:
    """A deque of the entries that were never taken, and before it a heap of those that were taken and came back.

    Entries only ever leave from the front, or for good. So an entry that comes back was put before all entries that were never taken, and
    its old position is somewhere in the heap: giving it back costs the logarithm of the number that came back, wherever it belongs.

    Entries that were put as a run (`run.Run`) are one element of the deque.
    """

    __slots__ = ("_fresh", "_returned", "_returned_orders", "_runs", "_within_runs")

    def __init__(self) -> None:
        self._fresh: deque[Waiting | Run] = _EMPTY
        self._runs = 0
        self._within_runs = 0  # entries of runs, beyond one for each run
        self._returned: list[Waiting] = []
        self._returned_orders = _NONE_RETURNED

    def __len__(self) -> int:
        # A withdrawn entry is still in the heap, but not among its orders.
        return len(self._fresh) + self._within_runs + len(self._returned_orders)

    def __iter__(self) -> Iterator[Waiting | Run]:
        """Yields entries and runs, in no particular order."""
        orders = self._returned_orders
        return chain((entry for entry in self._returned if entry[ORDER] in orders), self._fresh)

    @property
    def head(self) -> Waiting | Run:
        return self._returned[0] if self._returned else self._fresh[0]

    def append(self, entry: Waiting) -> None:
        self._own_deque().append(entry)

    def append_run(self, run: Run) -> None:
        """Appends a run of at least one entry."""
        self._within_runs += len(run) - 1
        self._runs += 1
        self._own_deque().append(run)

    def give_back(self, entry: Waiting) -> bool:
        """Puts an entry back that was taken. Returns False if it is here already."""
        if entry[ORDER] in self._returned_orders:
            return False
        if self._returned_orders is _NONE_RETURNED:
            self._returned_orders = set()
        heappush(self._returned, entry)
        self._returned_orders.add(entry[ORDER])
        return True

    def withdraw(self, order: int) -> bool:
        """Removes an entry that came back, wherever it is, for good. Returns False if it is not here."""
        if order not in self._returned_orders:
            return False
        self._returned_orders.discard(order)
        # The head is always an entry that is still here; withdrawn entries behind it are removed when they become the head.
        self._drop_withdrawn_heads()
        return True

    def pop(self, count: int, enqueued_by: float = inf) -> list[Waiting]:
        """Removes and returns up to `count` entries from the front, stopping before the first that was enqueued after `enqueued_by`."""
        if not self._returned and not self._runs and enqueued_by == inf:
            fresh = self._fresh
            return [fresh.popleft() for _ in range(min(count, len(fresh)))]  # type: ignore[misc]  # no runs
        popped: list[Waiting] = []
        while len(popped) < count and len(self) and self.head[ENQUEUED] <= enqueued_by:
            popped += self._pop_head(count - len(popped))
        return popped

    def pop_overdue_heads(self, now: float) -> list[Waiting]:
        """Removes and returns the overdue entries at the front."""
        popped: list[Waiting] = []
        while len(self) and self.head[DUE] < now:
            popped += self._pop_head()
        return popped

    def count_overdue(self, now: float) -> int:
        if not self._runs:
            return sum(map(lt, map(due_of, self), repeat(now)))
        return sum(len(each) if isinstance(each, Run) else 1 for each in self if each[DUE] < now)

    def _own_deque(self) -> deque[Waiting | Run]:
        if self._fresh is _EMPTY:
            self._fresh = deque()
        return self._fresh

    def _pop_head(self, count: float = inf) -> list[Waiting]:
        """Removes and returns the first entry or, of a run, up to `count` of its entries, which are alike in all that a caller looks at."""
        if not self._returned:
            return self._pop_fresh(count)
        entry = heappop(self._returned)
        self._returned_orders.discard(entry[ORDER])
        self._drop_withdrawn_heads()
        return [entry]

    def _pop_fresh(self, count: float) -> list[Waiting]:
        head = self._fresh[0]
        if not isinstance(head, Run):
            self._fresh.popleft()
            return [head]
        entries = head.take(min(count, len(head)))  # type: ignore[arg-type]  # an int: a run is not endless
        self._within_runs -= len(entries)
        if not len(head):
            self._fresh.popleft()
            self._runs -= 1
            self._within_runs += 1
        return entries

    def _drop_withdrawn_heads(self) -> None:
        while self._returned and self._returned[0][ORDER] not in self._returned_orders:
            heappop(self._returned)
