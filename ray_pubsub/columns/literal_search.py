"""All of many texts that occur in a string, found in one pass over it (kernels/text_search.py)."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.text_search import build_trie, find_texts, link_failures

__all__ = ["LiteralSearch"]


class LiteralSearch:
    """Immutable. Bytes of UTF-8 are searched: a text occurs in a string exactly where its bytes do."""

    def __init__(self, texts: Sequence[str]) -> None:
        """The texts are distinct and not empty."""
        encoded = [text.encode() for text in texts]
        order = sorted(range(len(encoded)), key=encoded.__getitem__)
        self._numbers = np.array(order, dtype=np.int64)
        data, offsets = _joined([encoded[number] for number in order])
        parent, self._byte, depth, self._text_of = build_trie(data, offsets)
        nodes = len(parent)
        by_parent = np.argsort(parent[1:], kind="stable").astype(np.int32) + np.int32(1)  # ordered by byte, too
        self._children = by_parent
        self._child_start = np.searchsorted(parent[by_parent], np.arange(nodes + 1)).astype(np.int32)
        self._root = np.zeros(256, np.int32)
        first = by_parent[: self._child_start[1]]
        self._root[self._byte[first]] = first
        self._failure, self._shorter = np.zeros(nodes, np.int32), np.zeros(nodes, np.int32)
        by_depth = np.argsort(depth, kind="stable")[1:]
        link_failures(by_depth, parent, self._byte, self._text_of, *self._edges, self._failure, self._shorter)
        self._scratch = threading.local()

    @property
    def _edges(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        return self._child_start, self._children, self._root

    def find(self, strings: Sequence[bytes]) -> tuple[list[int], list[int], list[bool]]:
        """String i contains the texts numbers[offsets[i]:offsets[i + 1]], each once; beside each, whether the string ends with it."""
        data, starts = _joined(strings)
        scratch = self._scratch
        if not hasattr(scratch, "seen"):
            scratch.seen, scratch.where = np.zeros(len(self._numbers), np.int64), np.zeros(len(self._numbers), np.int64)
            scratch.stamp = 1
        offsets = np.zeros(len(strings) + 1, np.int64)
        size = 64 + 8 * len(strings)
        while True:
            numbers, ending = np.empty(size, np.int32), np.empty(size, np.bool_)
            stamp, scratch.stamp = scratch.stamp, scratch.stamp + len(strings)
            done = find_texts(
                data, starts, self._byte, self._text_of, *self._edges, self._failure, self._shorter,
                scratch.seen, scratch.where, stamp, offsets, numbers, ending,
            )  # fmt: skip
            if done == len(strings):
                break
            size = 4 * size
        filled = offsets[-1]
        return offsets.tolist(), self._numbers[numbers[:filled]].tolist(), ending[:filled].tolist()


def _joined(parts: Sequence[bytes]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return np.frombuffer(b"".join(parts), np.uint8), offsets
