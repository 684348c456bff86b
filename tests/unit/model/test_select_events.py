"""Some of a batch's events."""

from __future__ import annotations

import numpy as np

from ray_pubsub.model.events import read_events
from ray_pubsub.model.select_events import select_events


def test_they_have_the_moment_of_their_batch() -> None:
    """Shards that are asked about different events of one batch agree on now()."""
    batch = read_events([{"x": 1}, {"x": 2}, {"x": 3}])
    batch._moment = 5
    chosen = select_events(batch, np.array([0, 2]))
    assert (chosen.size, chosen.moment) == (2, 5)
