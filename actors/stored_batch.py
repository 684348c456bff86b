"""A batch in Ray's object store, on its way from the publisher to the shards."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["FETCH_TIMEOUT", "Stored"]

FETCH_TIMEOUT = 30.0


class Stored(NamedTuple):
    """Inside something else a reference stays one: the coordinator gets it, not the batch."""

    reference: Any
