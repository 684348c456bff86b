"""How often events carry each attribute, learned from the events themselves (OpIndex section 4.1, Lemma 2: the rarest attribute of a clause
is its best pivot). Blocks are built with what is known by then."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["EventFrequency"]

LARGE = 64
EVERY = 16
"""Small batches, and wide ones, are counted one in so many: counting costs a microsecond for a few attributes, a match not much more."""
FEWEST = 256
"""Events that say something."""
MOST_NAMES = 65_536
MEMORY = 1_000_000
"""Events after which what was counted counts half: streams change. So do names without end."""


class EventFrequency:
    """Approximate, and cheap: concurrent readers may lose a count."""

    def __init__(self) -> None:
        self._events = 0.0
        self._counts: dict[str, float] = {}
        self._calls = 0

    def observe(self, events: EventBatch) -> None:
        self._calls += 1
        if self._calls % EVERY and (events.size < LARGE or len(events.lanes) > events.size):
            return
        counts = self._counts
        for lane in events.lanes:
            counts[lane.attribute] = counts.get(lane.attribute, 0.0) + len(lane)
        self._events += events.size
        if self._events > MEMORY or len(counts) > MOST_NAMES:
            self._events /= 2
            past = counts.copy()  # another reader may add to it meanwhile
            least = sorted(past.values())[-MOST_NAMES // 2] if len(past) > MOST_NAMES else 2
            self._counts = {name: count / 2 for name, count in past.items() if count >= least}

    def of(self, vocabulary: Vocabulary) -> NDArray[np.float64] | None:
        """Per attribute number the part of events that carry it; None until enough were seen."""
        events, counts = self._events, self._counts
        if events < FEWEST:
            return None
        texts = vocabulary.attributes.texts
        return np.array([min(1.0, counts.get(text, 0.0) / events) for text in texts], dtype=np.float64)
