"""Which way a pivot block takes for an event or a batch: pivot lists, masks of events (batches only), or states of clauses.

What the lists would visit is read off the directory before anything is matched; the other two cost the same for every event, beside its
matches. States are made when they would have saved as much time as making them takes, those of a large block when half of it, by a thread:
meanwhile events are matched as before. If crowded events were expected when the block was built, they are made with it (`prepare`).
"""

from __future__ import annotations

import logging
import sys
import threading
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.engines.pivot.batch_masks import BatchMasks, Cells
from ray_pubsub.engines.pivot.clause_states import ClauseStates, expected_cost
from ray_pubsub.engines.pivot.lists import coded_of_rows
from ray_pubsub.kernels.pivot.pivot_lists import PivotLists, count_met
from ray_pubsub.kernels.readiness import are_ready

__all__ = ["MatchWays", "Way"]

logger = logging.getLogger(__name__)

FEWEST_MASKED = 64
"""Masks are considered for batches of at least this many events."""
LOOKED_AT = 128
"""The number of events from which the number of entries that the others visit is estimated."""
ENTRY, HELD, MASKED_MATCH = 3.0, 20.0, 2.0
"""Approximate nanoseconds: for an entry that an event visits; for one that holds; for a match that is found by masks, beyond one by
states."""
BUILD_CLAUSE, BUILD_NUMBER = 100, 12
"""Approximate nanoseconds that making states takes, by clauses and by numbers in their rows."""
MOST_AT_ONCE = 10_000_000.0
"""Up to this many nanoseconds of making states one event waits."""
MOST_COMPARED = 0.5
"""The largest share of clauses that states may leave to be compared."""
STREAK, UNTRIED = 16, 15
"""After this many single events in a row by states, the next ones are not looked up in the directory first; and how many of them. Reading
off the directory what the lists would visit takes longer than the states of a small block."""
NEVER = sys.maxsize
NEWEST, NEWEST_EVENT = 0.25, 0.05
"""Share of the newest batch, and of the newest event, in averages."""


class Way(Enum):
    LISTS = "lists"
    MASKS = "masks"
    STATES = "states"


class MatchWays:
    """Approximate and cheap: concurrent readers may lose a count, and if two make states at once, either are valid."""

    def __init__(self, lists: PivotLists, rows: NDArray[np.uint32], owners: NDArray[Any], space: CodeSpace) -> None:
        self._lists, self._rows, self._owners, self._space = lists, rows, owners, space
        self._directory = lists.base, lists.directory
        self._universal = len(lists.entries) // 4 - lists.universal
        self._masks: BatchMasks | None = None
        self.states: ClauseStates | None = None
        self._maker: threading.Thread | None = None
        self._cost = expected_cost(len(rows), min(space.columns, 8))
        self._takes = float(BUILD_CLAUSE * len(rows) + BUILD_NUMBER * len(lists.words))
        self._making = (
            self._takes / 2 if self._takes > MOST_AT_ONCE else self._takes
        )  # a thread works beside the events
        self._matches, self._entry = 0.0, ENTRY
        self.crowded = self.untried = 0
        """How many single events in a row were matched by states; how many are now, before the lists are asked again."""
        self._set_limits()

    def _set_limits(self) -> None:
        self.watched = int(min(NEVER, self._cost / (ENTRY + HELD)))
        """An event that visits more entries may be better matched by states, if many of them hold."""
        self.most = int(min(NEVER, self._cost / self._entry))
        """The entries up to which an event is matched by the lists."""

    @property
    def nbytes(self) -> int:
        return 0 if self.states is None else self.states.nbytes

    @property
    def masks(self) -> BatchMasks:
        if self._masks is None:
            self._masks = BatchMasks(self._lists, self._owners, self._space.top)
        return self._masks

    def met(self, cells: Cells) -> float:
        """Returns how many entries an event visits."""
        events = min(len(cells[0]) - 1, LOOKED_AT)
        met: int = count_met(cells, events, *self._directory)
        return met / events + self._universal

    def prepare(self) -> None:
        """Makes the states now, if little enough is left to be compared beside them."""
        if self.states is None and self._cost < np.inf and are_ready():
            self._make()

    def wait(self) -> None:
        """Waits until no thread makes states."""
        maker = self._maker
        if maker is not None:
            maker.join()

    def states_for(self, nanoseconds: float, events: int = 1) -> ClauseStates | None:
        """Returns the states, if they were made or are worth making now; `nanoseconds`: what an event takes without."""
        if self.states is None and self._cost < np.inf and are_ready():
            self._making -= events * max(0.0, nanoseconds - self._cost)
            if self._making <= 0 and self._takes <= MOST_AT_ONCE:
                self._make()
            elif self._making <= 0 and self._maker is None:
                self._make_in_a_thread()
        return self.states

    def states_of_event(self, met: int) -> ClauseStates | None:
        """Does the same for a single event that visits more than `most` entries."""
        states = self.states_for(self._entry * met)
        if states is not None:
            self.crowded += 1
            if self.crowded >= STREAK:
                self.untried = UNTRIED
        return states

    def visited(self, met: int, matches: int) -> None:
        """Notes what the lists gave for an event that visited more than `watched` entries, for the next."""
        self.crowded = 0
        self._entry += NEWEST_EVENT * (ENTRY + HELD * min(1.0, matches / met) - self._entry)
        self._set_limits()

    def for_batch(self, cells: Cells) -> Way:
        """Returns the way that costs the least."""
        events = len(cells[0]) - 1
        met, masks = self.met(cells), np.inf
        lists = ENTRY * met + HELD * min(met, self._matches)
        if events >= FEWEST_MASKED:
            masks = self.masks.cost(events) + MASKED_MATCH * self._matches
        other = min(lists, masks)
        if self._cost < other and self.states_for(other, events) is not None and self._cost < other:
            return Way.STATES
        return Way.LISTS if lists <= masks else Way.MASKS

    def matched(self, events: int, matches: int) -> None:
        """Notes what a batch has matched, for the next."""
        self._matches += NEWEST * (matches / events - self._matches)

    def room(self, events: int) -> int:
        """Returns about how many matches a batch will have; memory that is not used is not touched."""
        return 256 + int(1.25 * self._matches * events)

    def _make_in_a_thread(self) -> None:
        self._maker = threading.Thread(target=self._make_or_not, name="ray-pubsub-states", daemon=True)
        try:
            self._maker.start()
        except RuntimeError:  # no more threads can be started; a later event tries again
            self._maker = None

    def _make_or_not(self) -> None:
        try:
            self._make()
        except MemoryError:
            logger.warning("no memory for states of %d clauses, which are matched without", len(self._rows))
            self._cost = np.inf
            self._set_limits()

    def _make(self) -> None:
        words = self._lists.words
        states = ClauseStates(coded_of_rows(self._space, words, self._rows), words, self._rows, self._owners)
        if states.compared <= MOST_COMPARED and states.cost < (ENTRY + HELD) * len(self._rows):
            self._cost, self.states = states.cost, states
        else:  # little would be gained
            self._cost = np.inf
        self._set_limits()
