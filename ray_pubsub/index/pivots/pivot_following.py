"""Makes blocks follow the stream: every few thousand events a thread checks whether choosing pivots or the engine again would pay
(repivot_policy.py), and has such blocks rebuilt (segment_maintenance.py).

A match only compares two numbers, and starts the thread when it is time. The thread ends after its check, so an idle index has none. The
thread is used also if merges are inline, because a match is not a change that could wait for a rebuild.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.engines.contract import EngineCost, Segment
from ray_pubsub.engines.selection.segment_choice import AutoBuild
from ray_pubsub.index.pivots.repivot_policy import RepivotPolicy

if TYPE_CHECKING:
    from ray_pubsub.index.segmented_index import SegmentedIndex

__all__ = ["PivotFollowing"]


@dataclass(frozen=True, slots=True)
class Looked:
    """The state of the stream at the last check of a block, and its result."""

    turns: int
    events: float
    seen: int
    regret: float = 0.0


class PivotFollowing:
    """Follows the stream for one live index."""

    def __init__(self, index: SegmentedIndex, policy: RepivotPolicy) -> None:
        self._index, self.policy = index, policy
        self.rebuilt = 0
        """The number of times that a block was rebuilt."""
        self._last_look = index.frequency.seen
        self.look_at = self._last_look + policy.look_events
        """A match calls `look` when this number of events was seen."""
        self._looked: WeakKeyDictionary[Segment, Looked] = WeakKeyDictionary()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None

    def look(self) -> None:
        """Starts a check, unless one is running. Never waits for it."""
        if not self._starting.acquire(blocking=False):
            return
        try:
            if self._index.frequency.seen < self.look_at:
                return
            if not self._index.snapshot.blocks:
                self._put_off()
                return
            self.look_at = sys.maxsize
            self._thread = threading.Thread(target=self._work, name="ray-pubsub-pivots", daemon=True)
            self._thread.start()
        finally:
            self._starting.release()

    def wait(self) -> None:
        """Waits until no check is running. Raises the error with which the last one failed."""
        with self._starting:  # a thread that has not started cannot be waited for
            thread = self._thread
        if thread is not None:
            thread.join()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _work(self) -> None:
        try:
            self._look_at_all()
        except BaseException as failure:  # the index is still correct; `wait` raises the failure
            self._failure = failure
        finally:
            self._put_off()

    def _put_off(self) -> None:
        self._last_look = self._index.frequency.seen
        clauses = sum(map(len, self._index.snapshot.blocks))
        self.look_at = self._last_look + self.policy.events_until_a_look(clauses)

    def _look_at_all(self) -> None:
        index, frequency = self._index, self._index.frequency
        events = frequency.seen - self._last_look
        frequency.learn()
        shares = frequency.of(index.vocabulary)
        if shares is None:
            return
        now = Looked(frequency.turns, frequency.events, frequency.seen)
        for block in index.snapshot.blocks:
            last = self._looked.get(block)
            if len(block) < self.policy.fewest_clauses or (last is not None and self._is_settled(last, now)):
                continue
            pivots, engine = block.pivot_cost(shares), self._engine_cost(block, shares)
            if pivots is None and engine is None:
                self._looked[block] = now
                continue
            verdict = self.policy.judge(len(block), pivots, engine, last.regret if last is not None else 0.0, events)
            self._looked[block] = replace(now, regret=verdict.regret)
            if verdict.rebuild:
                fresh = index.maintenance.rebuild(block)
                if fresh is not None:
                    self.rebuilt += 1
                    # Their pivots were chosen for this stream, whatever an estimate from a sample says of them.
                    self._looked.update((each, now) for each in fresh)

    def _engine_cost(self, block: Segment, shares: NDArray[np.float64]) -> EngineCost | None:
        """Compares a block with what the engine `auto` would build now; None if another engine was chosen, or too few events are known."""
        build, events = self._index.segment_build, self._index.frequency.recent.sample()
        if events is None or not isinstance(build, AutoBuild):
            return None
        return build.judged(block, self._index.vocabulary, shares, events)

    def _is_settled(self, last: Looked, now: Looked) -> bool:
        if last.regret or last.turns != now.turns or now.events >= self.policy.more_events * last.events:
            return False
        return now.seen - last.seen < self.policy.again_events  # values may change while attributes stay
