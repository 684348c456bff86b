"""The fast way to cut a text whose constants are all plain integers; language/shapes.py cuts any text."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.cut_integers import cut_integers

__all__ = ["IntegerCutter"]

LONGEST, MOST = 4096, 512
"""Bytes and integers of a text that is worth it."""

NOTHING = np.empty(0, dtype=np.int64)


class IntegerCutter(threading.local):
    """Each thread has its own buffers."""

    def __init__(self) -> None:
        self._skeleton = np.empty(LONGEST, dtype=np.uint8)
        self._values = np.empty(MOST, dtype=np.int64)

    def __call__(self, text: str) -> tuple[bytes | None, NDArray[np.int64]]:
        """The text without its integers, and these; None if it is none of those texts."""
        if not text.isascii() or not 0 < len(text) <= LONGEST:
            return None, NOTHING
        written, found = cut_integers(np.frombuffer(text.encode(), np.uint8), self._skeleton, self._values)
        if written < 0 or found == 0:
            return None, NOTHING
        return self._skeleton[:written].tobytes(), self._values[:found].copy()
