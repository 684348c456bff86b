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
        # The kernel reads and writes arrays, Python the same memory: making an array of every text took longer than cutting it.
        text, skeleton = bytearray(LONGEST), bytearray(LONGEST)
        self._text_bytes, self._skeleton_bytes = memoryview(text), memoryview(skeleton)
        self._text = np.frombuffer(text, dtype=np.uint8)
        self._skeleton = np.frombuffer(skeleton, dtype=np.uint8)
        self._values = np.empty(MOST, dtype=np.int64)

    def __call__(self, text: str) -> tuple[bytes | None, NDArray[np.int64]]:
        """The text without its integers, and these; None if it is none of those texts."""
        length = len(text)
        if not text.isascii() or not 0 < length <= LONGEST:
            return None, NOTHING
        self._text_bytes[:length] = text.encode()
        written, found = cut_integers(self._text, length, self._skeleton, self._values)
        if written < 0 or found == 0:
            return None, NOTHING
        return bytes(self._skeleton_bytes[:written]), self._values[:found].copy()
