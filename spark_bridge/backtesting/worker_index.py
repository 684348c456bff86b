"""The index in a Spark Python worker: unpacked once per process, for all its tasks and batches."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import xxhash

from ray_pubsub import MatchIndex

__all__ = ["PackedIndex", "pack", "unpacked"]

KEPT = 2
"""The number of indexes that a worker keeps: the one in use, and another for a query that runs beside it."""

_unpacked: dict[str, MatchIndex] = {}


@dataclass(frozen=True, slots=True)
class PackedIndex:
    """An index as bytes, with its built blocks, so that a worker need not build them. Spark broadcasts large values."""

    digest: str
    content: bytes


def pack(index: MatchIndex) -> PackedIndex:
    content = pickle.dumps(index)
    return PackedIndex(xxhash.xxh3_128_hexdigest(content), content)


def unpacked(packed: PackedIndex) -> MatchIndex:
    """Returns the index: the same object for the same content, as long as the process caches it."""
    index: Any = _unpacked.pop(packed.digest, None)
    if index is None:
        index = pickle.loads(packed.content)
    _unpacked[packed.digest] = index  # the latest is last
    while len(_unpacked) > KEPT:
        del _unpacked[next(iter(_unpacked))]
    found: MatchIndex = index
    return found
