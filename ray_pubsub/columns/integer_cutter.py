"""Splits a text whose constants are all plain integers into skeleton and integers, fast; language/shapes.py splits any text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.cut_integers import cut_integers, cut_many
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.workspace import workspace

__all__ = ["IntegerCutter"]

LONGEST, MOST = 4096, 512
"""Longer texts, or texts with more integers, are not handled here."""

FEW = 1000
NOTHING = np.empty(0, dtype=np.int64)


class _Buffers:
    """The memory of the kernel. The kernel reads and writes arrays; Python accesses the same memory as bytearrays. Making an array of every
    text took longer than splitting it."""

    __slots__ = ("skeleton", "skeleton_bytes", "text", "text_bytes", "values")

    def __init__(self, longest: int) -> None:
        text, skeleton = bytearray(longest), bytearray(longest)
        self.text_bytes, self.skeleton_bytes = memoryview(text), memoryview(skeleton)
        self.text = np.frombuffer(text, dtype=np.uint8)
        self.skeleton = np.frombuffer(skeleton, dtype=np.uint8)
        self.values = np.empty(MOST, dtype=np.int64)


class IntegerCutter:
    """The kernel, with buffers of the calling thread's workspace."""

    __slots__ = ()

    def __call__(self, text: str) -> tuple[bytes | None, NDArray[np.int64]]:
        """Returns the text without its integers, and the integers. The text is None if the kernel does not handle it."""
        length = len(text)
        if not text.isascii() or not 0 < length <= LONGEST or not are_ready():
            return None, NOTHING
        buffers = workspace().take(_Buffers, _Buffers, LONGEST)
        buffers.text_bytes[:length] = text.encode()
        written, found = cut_integers(buffers.text, length, buffers.skeleton, buffers.values)
        if written < 0 or found == 0:
            return None, NOTHING
        return bytes(buffers.skeleton_bytes[:written]), buffers.values[:found].copy()

    def many(self, texts: Sequence[str]) -> list[tuple[bytes | None, NDArray[np.int64]]] | None:
        """Returns for every text what a call returns, in one call of a kernel that releases the GIL. Consecutive texts with equal
        skeletons share one object. Returns None if not all are ASCII, or if the kernel is not compiled yet and there are few texts."""
        joined = "".join(texts)
        if not joined.isascii() or (len(texts) <= FEW and not are_ready()):
            return None
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum([len(text) for text in texts], out=offsets[1:])
        written, found = np.zeros(len(texts) + 1, np.int64), np.zeros(len(texts) + 1, np.int64)
        skeletons, values = np.empty(len(joined), np.uint8), np.empty(len(joined) // 2 + 1 + MOST, np.int64)
        alike = np.empty(len(texts), np.int8)
        cut_many(np.frombuffer(joined.encode(), np.uint8), offsets, MOST, skeletons, written, values, found, alike)
        ends, places = written.tolist(), found.tolist()
        cut: list[tuple[bytes | None, NDArray[np.int64]]] = []
        skeleton = b""
        for number, same in enumerate(alike.tolist()):
            if same < 0:
                cut.append((None, NOTHING))
                continue
            if not same:
                skeleton = skeletons[ends[number] : ends[number + 1]].tobytes()
            cut.append((skeleton, values[places[number] : places[number + 1]].copy()))
        return cut
