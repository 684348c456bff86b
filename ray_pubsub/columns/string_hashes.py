"""Hashes strings and finds the distinct ones, once per column of strings for all its users."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.strings import distinct_strings, hash_strings
from ray_pubsub.model.text_column import TextColumn

__all__ = ["distinct_of", "hashes_of"]

SEED = np.uint64(secrets.randbits(64))
"""Random in each process, so nobody can choose strings whose hashes collide."""


def hashes_of(strings: TextColumn) -> NDArray[np.uint64]:
    """Returns a hash per string."""
    if strings.hashes is None:
        strings.hashes = hash_strings(*strings.bytes, SEED)
    found: NDArray[np.uint64] = strings.hashes
    return found


def distinct_of(strings: TextColumn) -> tuple[NDArray[np.int64], TextColumn]:
    """Returns each string's number among the distinct ones, and the distinct strings."""
    if strings.distinct is None:
        which, first = distinct_strings(*strings.bytes, hashes_of(strings))
        alone = strings if len(first) == len(strings) else strings.take(first)
        strings.distinct = which, alone
    found: tuple[NDArray[np.int64], TextColumn] = strings.distinct
    return found
