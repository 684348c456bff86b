"""Ids that events carry: what is an id, and that another one makes only its own event bad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ray_pubsub.model.events import read_events


@pytest.mark.parametrize(
    "identity", [np.timedelta64(5, "s"), np.datetime64("2024-01-01"), "\ud800", b"a", True, 1.5, None]
)
def test_ids_of_events_that_are_none_make_their_event_bad(identity: Any) -> None:
    batch = read_events([{"id": identity, "x": 1}, {"id": "good", "x": 2}], "id")
    assert [error.position for error in batch.errors] == [0]
    assert batch.size == 1


def test_numpys_integers_are_ids_of_events() -> None:
    assert read_events([{"id": np.int32(5), "x": 1}], "id").input_ids.tolist() == [5]
