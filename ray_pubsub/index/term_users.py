"""Tracks which computed attributes no subscription tests any more, so that they need not be evaluated.

Flags are not counted: looking an element up among constants takes the same time however many there are. A clause that was removed may still
test a term until its block is merged; without a value it does not hold, and if it did it would be left out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.snapshot import ALIVE

__all__ = ["TermUsers"]

NOTHING: frozenset[int] = frozenset()


class TermUsers:
    """The living subscriptions by term. Changed by one thread, before the snapshot of the change is visible; any thread may ask."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._attributes = vocabulary.attributes
        self._computed = self._flags = 0
        """The number of the vocabulary's computed attributes and flags that are known here."""
        self._is_term = np.zeros(64, np.bool_)
        self._any = False
        self._users: dict[int, int] = {}
        self._pairs: NDArray[np.int64] = np.empty(64, np.int64)
        """The slot and term of each use, in one number, in ascending order, because slots are given in order."""
        self._size = 0
        self._unused: dict[int, int] = {}
        """For each unused term the version that removed its last user."""
        self._since = self._changes = 0
        """The version of the last change of `_unused`, and the number of changes."""
        self._known: tuple[int, int, frozenset[int]] = (0, 0, NOTHING)
        """The last answer, with the number of changes and the version for which it was found."""

    def added(self, table: ClauseTable, first: int = 0) -> None:
        """Counts the clauses of a table from number `first` on, which belong to subscriptions that are being added."""
        self._learn()
        if not self._any or table.count == first:
            return
        start, stop = int(table.offsets[first]), table.test_count
        attribute = table.tests["attribute"][start:stop]
        used = self._is_term[attribute]
        if not used.any():
            return
        owners = np.repeat(table.owners[first : table.count], np.diff(table.offsets[first : table.count + 1]))
        pairs = np.unique(owners[used] << 32 | attribute[used])
        self._append(pairs)
        terms, counts = np.unique(pairs & 0xFFFFFFFF, return_counts=True)
        for term, count in zip(terms.tolist(), counts.tolist(), strict=True):
            self._users[term] = self._users.get(term, 0) + count
            if self._unused.pop(term, None) is not None:
                self._changes += 1

    def removed(self, given: NDArray[np.int64] | int, died: NDArray[np.int64], version: int) -> None:
        """Counts slots that this version removes. Must be called before they are marked in `died`."""
        if not self._size:
            return
        slots = np.unique(given)
        slots = slots[died[slots] == ALIVE]
        pairs = self._pairs[: self._size]
        firsts, lasts = np.searchsorted(pairs, slots << 32), np.searchsorted(pairs, (slots + 1) << 32)
        for place in np.flatnonzero(lasts > firsts).tolist():
            for term in (pairs[firsts[place] : lasts[place]] & 0xFFFFFFFF).tolist():
                self._users[term] -= 1
                if not self._users[term]:
                    self._unused[term] = version
                    self._since = version
                    self._changes += 1

    def keep_all(self) -> None:
        """Marks all terms of the vocabulary as used by subscriptions that are not counted: those of an index that was read from a file."""
        self._learn()
        for term in np.flatnonzero(self._is_term).tolist():
            self._users[term] = self._users.get(term, 0) + 1

    def unused(self, version: int) -> frozenset[int]:
        """Returns terms that no subscription visible at this version tests; possibly not all of them."""
        changes, since = self._changes, self._since
        known = self._known
        if known[0] == changes and version >= known[1]:
            return known[2]
        found = frozenset(term for term, died in list(self._unused.items()) if died <= version)
        if version >= since:
            self._known = (changes, version, found)
        return found

    def _learn(self) -> None:
        numbers, flags = self._attributes.computed, self._attributes.flags
        if len(numbers) == self._computed:
            return
        fresh = set(numbers[self._computed :]).difference(flags[self._flags :])
        self._computed, self._flags = len(numbers), len(flags)
        self._any |= bool(fresh)
        if len(self._attributes) > len(self._is_term):
            larger = np.zeros(2 * len(self._attributes), np.bool_)
            larger[: len(self._is_term)] = self._is_term
            self._is_term = larger
        self._is_term[list(fresh)] = True

    def _append(self, pairs: NDArray[np.int64]) -> None:
        needed = self._size + len(pairs)
        if needed > len(self._pairs):
            larger = np.empty(max(needed, 2 * len(self._pairs)), np.int64)
            larger[: self._size] = self._pairs[: self._size]
            self._pairs = larger
        in_order = not self._size or pairs[0] > self._pairs[self._size - 1]
        self._pairs[self._size : needed] = pairs
        self._size = needed
        if not in_order:
            self._pairs[:needed].sort()
