"""Learns from events how often they carry each attribute (OpIndex section 4.1, Lemma 2: the rarest attribute of a clause is its best
pivot). Blocks are built with what is known by then, and built again when that pays (repivot_policy.py).

A match only counts. Now and then the counts are compared with what was known before (stream_turn.py): as long as the stream stays the same,
all of it counts and rare attributes are known well; after it has turned, only what came since.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.saved_state import SavedState, State, Texts, check
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.pivots.recent_events import RecentEvents
from ray_pubsub.index.pivots.stream_turn import Counted, has_turned
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["EventFrequency"]

LARGE = 64
EVERY = 16
"""One in this many small batches is counted, and of wide ones too: counting costs a microsecond for a few attributes, and a match does
not cost much more."""
FEWEST = 256
"""The fewest events from which anything is concluded."""
MOST_NAMES = 65_536
MEMORY = 1_000_000
"""The number of events after which counts are halved, whether or not a turn was noticed. Too many names have the same effect."""


class EventFrequency:
    """The shares of events that carry each attribute. Approximate and cheap: concurrent readers may lose a count."""

    def __init__(self) -> None:
        self._known, self._recent = Counted(), Counted()
        self._calls = 0
        self.recent = RecentEvents()
        self.seen = 0
        """The number of events seen, counted or not."""
        self.turns = 0
        """The number of times that the stream was found to have changed."""

    @property
    def events(self) -> float:
        """The number of events that the shares are based on; older ones have less weight."""
        return self._known.events + self._recent.events

    @property
    def names(self) -> int:
        """The number of known attributes."""
        return len(self._known.counts.keys() | self._recent.counts.keys())

    def observe(self, events: EventBatch) -> None:
        self._calls += 1
        self.seen += events.size
        if self._calls % EVERY and (
            events.size < LARGE or len(events.lanes) > events.size
        ):  # no lanes are made for a single event
            return
        self.recent.observe(events, self.seen)
        recent = self._recent
        counts = recent.counts
        if events.size == 1:
            for name in events.attributes():
                counts[name] = counts.get(name, 0.0) + 1
        else:
            for lane in events.lanes:
                counts[lane.attribute] = counts.get(lane.attribute, 0.0) + len(lane)
        recent.events += events.size
        if recent.events > MEMORY or len(counts) > MOST_NAMES:
            self.learn()

    def learn(self) -> bool:
        """Merges the recent counts into what is known. Returns whether they contradict it; it is then forgotten."""
        if self._recent.events < FEWEST:
            return False
        recent, self._recent = self._recent, Counted()
        recent = Counted(recent.events, recent.counts.copy())  # another reader may add to it meanwhile
        turned = has_turned(self._known, recent)
        self.turns += turned
        if turned:
            self.recent.forget()
        known = recent if turned else self._known.plus(recent)
        full = known.events > MEMORY or len(known.counts) > MOST_NAMES
        self._known = _faded(known) if full else known
        return turned

    def of(self, vocabulary: Vocabulary) -> NDArray[np.float64] | None:
        """Returns for each attribute number the share of events that carry it; None until enough were seen."""
        known, recent = self._known, self._recent
        events = known.events + recent.events
        if events < FEWEST:
            return None
        before, since = known.counts, recent.counts
        texts = vocabulary.attributes.texts
        counts = [before.get(text, 0.0) + since.get(text, 0.0) for text in texts]
        return np.minimum(1.0, np.array(counts, dtype=np.float64) / events)

    def expect(self, shares: Mapping[str, float]) -> None:
        """Sets what is known before any event came. It weighs as much as the fewest events from which anything is concluded."""
        if shares:
            self._known = Counted(FEWEST, {name: FEWEST * share for name, share in shares.items()})

    def state(self) -> State:
        """Returns the saved form."""
        recent = self._recent
        known = self._known.plus(Counted(recent.events, recent.counts.copy()))
        counts = np.fromiter(known.counts.values(), np.float64, len(known.counts))
        return {"names": Texts(list(known.counts)), "counts": counts, "events": int(known.events)}

    def restore(self, state: SavedState) -> None:
        """Restores what `state` returned, as if it had been learned here. Raises UnfitStateError."""
        names = state.texts("names")
        counts = state.array("counts", np.float64, len(names))
        events = state.number("events", 0, 2 * MEMORY)
        check(bool(np.isfinite(counts).all() and (counts >= 0).all()), "frequencies are not counts")
        self._known = Counted(float(events), dict(zip(names, counts.tolist(), strict=True)))


def _faded(counted: Counted) -> Counted:
    """Halves the counts, and drops the rarest names if there are too many."""
    kept = {name: count / 2 for name, count in counted.counts.items() if count >= 2}
    if len(kept) > MOST_NAMES:
        kept = dict(sorted(kept.items(), key=lambda item: -item[1])[: MOST_NAMES // 2])
    return Counted(counted.events / 2, kept)
