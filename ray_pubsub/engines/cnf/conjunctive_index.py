"""An index of subscriptions that are conjunctions of disjunctions, too large to be multiplied out into clauses (OpIndex section 6.1).

  (model = 1 or colour = 2) and (price <= 5 or …) and …

The pivots of a subscription are the attributes of one of its disjunctions; an event that has none of them cannot match it. Differences
from the paper, with reasons:

- The paper keeps a bitmap per subscription and pivot; an event that has the pivot clears a bit for every predicate that holds. Here a
  subscription is a candidate only if a predicate of its pivot disjunction holds, and it is then compared up to the first disjunction that
  fails. Most predicates are never evaluated, and there is no per-subscription state to initialise or scan. Bitmaps were built first, and
  were much slower.
- The pivot disjunction is the one least likely to hold, not the one with the fewest predicates (footnote 8's sum of frequencies, weighted
  by the share of its attribute's values that each predicate admits).
- A disjunction with a member that admits absence can hold without any attribute, so it cannot be the pivot. If there is no other, every
  event is compared with the subscription.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.kernels.pivot import disjunction_lists
from ray_pubsub.kernels.pivot.pivot_lists import count_order, fill_directory
from ray_pubsub.workspace import PerThread

__all__ = ["CnfIndex"]

Tests = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
"""Column, low, high: the codes low … high of the column, where code 0 is absence."""


class CnfIndex:
    """Immutable. `match` may run in several threads at once: scratch is per thread."""

    def __init__(
        self,
        disjunctions: NDArray[np.int64],
        members: NDArray[np.int64],
        tests: Tests,
        top: NDArray[np.int32],
        frequency: NDArray[np.float64] | None = None,
    ) -> None:
        """Subscription i has the disjunctions disjunctions[i]:disjunctions[i + 1]; disjunction j has the tests members[j]:members[j + 1],
        of which one must hold. `top`: the largest code of each column. `frequency`: for each column the share of events that have it, by
        default equal for all."""
        self._disjunctions: NDArray[np.int64] = np.asarray(disjunctions, np.int64)
        self._top = top
        frequency = np.ones(len(top)) if frequency is None else frequency
        weights = disjunction_lists.weigh_disjunctions(members, *tests, top, frequency)
        owner = np.repeat(np.arange(len(self)), np.diff(self._disjunctions))
        order = np.lexsort(
            (weights, owner)
        )  # the one least likely to hold comes first: it is the pivot, and is compared first
        sizes = np.diff(members)[order]
        member = _ranges(members[:-1][order], sizes)
        column, low, high = (part[member] for part in tests)
        self._members = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._tests = np.stack([column, low, high], axis=1).astype(np.int32).reshape(-1)
        pivot = np.append(weights[order], np.inf)[self._disjunctions[:-1]]
        pivot[np.diff(self._disjunctions) == 0] = np.inf
        self.expected: float = float(pivot[np.isfinite(pivot)].sum())
        """The expected number of subscriptions that an event is compared with, if it has attributes as often as `frequency` says."""
        self._place(np.flatnonzero(np.isfinite(pivot)), np.flatnonzero(np.isinf(pivot)), np.asarray(top, np.int64))
        self._scratch: PerThread[tuple[Any, ...]] = PerThread()

    def __len__(self) -> int:
        return len(self._disjunctions) - 1

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in vars(self).values() if isinstance(part, np.ndarray))

    @property
    def universal(self) -> NDArray[np.int32]:
        """The subscriptions that every event is compared with."""
        return self._entries[self._universal :]

    def met(self, column: int, code: int | None = None) -> NDArray[np.int32]:
        """Returns the subscriptions with a pivot in the column, or, given a code, those of them that the code finds."""
        if code is not None:
            runs = self._directory[4 * (self._base[column] + code) :][:4].reshape(2, 2)
        else:
            first, last = 4 * self._base[column], 4 * (self._base[column + 1] - 1)
            runs = np.stack([self._directory[first : first + 4 : 2], self._directory[last + 1 : last + 4 : 2]], axis=1)
        return np.unique(np.concatenate([self._entries[start:end] for start, end in runs.tolist()]))

    def expectations(self, frequency: NDArray[np.float64]) -> tuple[float, float]:
        """Returns the expected number of subscriptions that an event is compared with if columns have this frequency: with the current
        pivots, and with those that would be chosen now."""
        tests = np.ascontiguousarray(self._tests.reshape(-1, 3).T)
        weights = disjunction_lists.weigh_disjunctions(self._members, *tests, self._top, frequency)
        firsts = self._disjunctions[:-1][np.diff(self._disjunctions) > 0]
        if not len(firsts):
            return 0.0, 0.0
        pivots, least = weights[firsts], np.minimum.reduceat(weights, firsts)
        found = np.isfinite(least)
        return float(pivots[found].sum()), float(least[found].sum())

    def match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Returns (offsets, numbers): for each event the subscriptions all of whose disjunctions hold, each once."""
        events = len(codes.offsets) - 1
        *scratch, clock = self._scratch.get(self._new_scratch)
        lists = (
            self._base, self._directory, self._entries, self._universal, self._disjunctions, self._members, self._tests
        )  # fmt: skip
        cells = (codes.offsets, codes.column, codes.code)
        offsets = np.zeros(events + 1, np.int64)
        out = np.empty(len(self) + 64 * events, np.int32)
        event = 0
        while event < events:
            event = disjunction_lists.match_disjunctions(
                event, cells, lists, tuple(scratch), int(clock[0]), offsets, out
            )
            if event < events:
                out = np.concatenate([out, np.empty(len(out), np.int32)])
        clock[0] += events
        return offsets, out[: offsets[-1]]

    def _place(self, found: NDArray[np.int64], universal: NDArray[np.int64], top: NDArray[np.int64]) -> None:
        """Adds an entry for each test of each pivot disjunction, in the order of pivot_lists.py, the universal ones last."""
        self._base = np.concatenate([[0], np.cumsum(top + 1)])
        spread = int(self._base[-1])
        pivot = self._disjunctions[found]
        sizes = self._members[pivot + 1] - self._members[pivot]
        column, low, high = self._tests.reshape(-1, 3)[_ranges(self._members[pivot], sizes)].astype(np.int64).T
        base, last = self._base[column], top[column]
        high = np.minimum(high, last)
        keys = np.where(low <= 1, spread + 2 * base + high, spread + 2 * base + last + 1 + low)
        keys = np.where(low == high, base + low, keys)
        possible = low <= high
        keys = np.append(keys[possible], np.full(len(universal), 3 * spread))
        entries = np.append(np.repeat(found, sizes)[possible], universal)
        order, starts = count_order(keys, 3 * spread + 1)
        self._entries: NDArray[np.int32] = entries[order].astype(np.int32)
        self._universal = len(entries) - len(universal)
        self._directory: NDArray[np.uint32] = np.zeros(4 * spread, np.uint32)
        fill_directory(starts, self._base[:-1], top, self._directory)

    def _new_scratch(self) -> tuple[Any, ...]:
        """Creates the buffers that the kernel writes to, and the clock by which it knows what it has already seen for an event."""
        seen, candidates = np.full(len(self), -1, np.int64), np.empty(len(self) + 1, np.int32)
        return np.zeros(len(self._base) - 1, np.int32), seen, candidates, np.zeros(1, np.int64)


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns start, start + 1, … for each start, concatenated."""
    behind = np.cumsum(lengths)
    ranges: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - behind + lengths, lengths)
    return ranges
