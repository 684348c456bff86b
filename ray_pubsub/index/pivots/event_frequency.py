"""How often events carry each attribute, learned from the events themselves (OpIndex section 4.1, Lemma 2: the rarest attribute of a clause
is its best pivot). Blocks are built with what is known by then, and built again when that pays (repivot_policy.py).

A match counts, and does nothing else. Now and then what was counted is compared with what was known before (stream_turn.py): as long as the
stream stays as it is, all of it counts and rare attributes are known well; once it has turned, only what came since.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.saved_state import SavedState, State, Texts, check
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.index.pivots.stream_turn import Counted, has_turned
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["EventFrequency"]

LARGE = 64
EVERY = 16
"""Small batches, and wide ones, are counted one in this many: counting costs a microsecond for a few attributes, a match not much more."""
FEWEST = 256
"""Events that say something."""
MOST_NAMES = 65_536
MEMORY = 1_000_000
"""Events after which what was counted counts half, whether or not a turn was noticed. So do names without end."""


class EventFrequency:
    """Approximate, and cheap: concurrent readers may lose a count."""

    def __init__(self) -> None:
        self._known, self._recent = Counted(), Counted()
        self._calls = 0
        self.seen = 0
        """Events that came by, counted or not."""
        self.turns = 0
        """How often the stream was found to have changed."""

    @property
    def events(self) -> float:
        """Events that the shares are of, older ones with less weight."""
        return self._known.events + self._recent.events

    @property
    def names(self) -> int:
        """Attributes that are known of."""
        return len(self._known.counts.keys() | self._recent.counts.keys())

    def observe(self, events: EventBatch) -> None:
        self._calls += 1
        self.seen += events.size
        if self._calls % EVERY and (
            events.size < LARGE or len(events.lanes) > events.size
        ):  # no lanes are made for one
            return
        recent = self._recent
        counts = recent.counts
        for lane in events.lanes:
            counts[lane.attribute] = counts.get(lane.attribute, 0.0) + len(lane)
        recent.events += events.size
        if recent.events > MEMORY or len(counts) > MOST_NAMES:
            self.learn()

    def learn(self) -> bool:
        """Takes what was counted since the last time for known. Returns whether it contradicts what was known, which is forgotten then."""
        if self._recent.events < FEWEST:
            return False
        recent, self._recent = self._recent, Counted()
        recent = Counted(recent.events, recent.counts.copy())  # another reader may add to it meanwhile
        turned = has_turned(self._known, recent)
        self.turns += turned
        known = recent if turned else self._known.plus(recent)
        full = known.events > MEMORY or len(known.counts) > MOST_NAMES
        self._known = _faded(known) if full else known
        return turned

    def of(self, vocabulary: Vocabulary) -> NDArray[np.float64] | None:
        """Per attribute number the part of events that carry it; None until enough were seen."""
        known, recent = self._known, self._recent
        events = known.events + recent.events
        if events < FEWEST:
            return None
        before, since = known.counts, recent.counts
        texts = vocabulary.attributes.texts
        counts = [before.get(text, 0.0) + since.get(text, 0.0) for text in texts]
        return np.minimum(1.0, np.array(counts, dtype=np.float64) / events)

    def expect(self, shares: Mapping[str, float]) -> None:
        """What is known before any event came, if anything; it counts as the fewest events that say something."""
        if shares:
            self._known = Counted(FEWEST, {name: FEWEST * share for name, share in shares.items()})

    def state(self) -> State:
        """The saved form."""
        recent = self._recent
        known = self._known.plus(Counted(recent.events, recent.counts.copy()))
        counts = np.fromiter(known.counts.values(), np.float64, len(known.counts))
        return {"names": Texts(list(known.counts)), "counts": counts, "events": int(known.events)}

    def restore(self, state: SavedState) -> None:
        """What `state` gave, as if it had been learned here. Raises UnfitStateError."""
        names = state.texts("names")
        counts = state.array("counts", np.float64, len(names))
        events = state.number("events", 0, 2 * MEMORY)
        check(bool(np.isfinite(counts).all() and (counts >= 0).all()), "frequencies are not counts")
        self._known = Counted(float(events), dict(zip(names, counts.tolist(), strict=True)))


def _faded(counted: Counted) -> Counted:
    """Half of it, without the rarest names if there are too many."""
    kept = {name: count / 2 for name, count in counted.counts.items() if count >= 2}
    if len(kept) > MOST_NAMES:
        kept = dict(sorted(kept.items(), key=lambda item: -item[1])[: MOST_NAMES // 2])
    return Counted(counted.events / 2, kept)
