"""Code vectors and their matches in arrays that grow (kernels/columns/code_vectors.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.code_vectors import (
    Store,
    add_vectors,
    fill_table,
    find_vectors,
    join_matches,
)

__all__ = ["Answers", "Cells", "VectorStore", "bytes_of"]

Cells = tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]
"""Events as codes: offsets, columns, codes."""
Answers = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Matches as `Hits`: offsets and slots."""
VECTOR_BYTES, WORD_BYTES, MATCH_BYTES = 40, 8, 4


class VectorStore:
    """A reader sees the first `count` vectors. A store that was extended may share the arrays, and sees more."""

    __slots__ = ("_arrays", "count")

    def __init__(self, arrays: tuple[NDArray[Any], ...] | None = None, count: int = 0) -> None:
        self._arrays = arrays or NO_ROOM
        self.count = count

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._arrays)

    @property
    def used(self) -> int:
        """Bytes of what is in it."""
        store = Store(*self._arrays)
        words, matches = int(store.word_starts[self.count]), int(store.match_starts[self.count])
        return bytes_of(self.count, words, matches)

    def find(self, cells: Cells, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Returns for each event the number of its vector, -1 if it is not stored."""
        found: NDArray[np.int64] = find_vectors(cells, hashes, self._arrays, self.count)
        return found

    def joined(self, found: NDArray[np.int64], others: Answers) -> Answers:
        """Returns the matches of vectors, or of number -1 - f of `others` for a negative number f."""
        answers: Answers = join_matches(found, self._arrays, others)
        return answers

    def with_more(self, cells: Cells, hashes: NDArray[np.uint64], answers: Answers) -> VectorStore:
        """Returns a store that also has these vectors; only one thread at a time may call it."""
        arrays = self._with_room(len(hashes), len(cells[1]), len(answers[1]))
        add_vectors(cells, hashes, answers, arrays, self.count)
        return VectorStore(arrays, self.count + len(hashes))

    def _with_room(self, vectors: int, words: int, matches: int) -> tuple[NDArray[Any], ...]:
        store, count = Store(*self._arrays), self.count
        used = int(store.word_starts[count]), int(store.match_starts[count])
        needed = count + vectors, used[0] + words, used[1] + matches
        room = len(store.hashes), len(store.words), len(store.matches)
        if all(wanted <= has for wanted, has in zip(needed, room, strict=True)):
            return self._arrays
        larger = Store(*_arrays(*(max(has, _grown(wanted, has)) for wanted, has in zip(needed, room, strict=True))))
        parts = (count, count + 1, used[0], count + 1, used[1])
        for new, old, size in zip(larger[1:], store[1:], parts, strict=True):
            new[:size] = old[:size]
        fill_table(larger.hashes, count, larger.table)
        return tuple(larger)


def bytes_of(vectors: int, words: int, matches: int) -> int:
    """Returns the bytes that these take in a store, without room to grow."""
    return VECTOR_BYTES * vectors + WORD_BYTES * words + MATCH_BYTES * matches


def _grown(wanted: int, has: int) -> int:
    return has if wanted <= has else wanted + wanted // 2


def _arrays(vectors: int, words: int, matches: int) -> list[NDArray[Any]]:
    table = np.zeros(1 << max(4, (2 * vectors - 1).bit_length()), np.uint64)
    starts = [np.zeros(vectors + 1, np.int64) for _ in range(2)]
    return [
        table, np.zeros(vectors, np.uint64), starts[0], np.empty(words, np.int64), starts[1], np.empty(matches, np.int32),
    ]  # fmt: skip


NO_ROOM = tuple(_arrays(0, 0, 0))
"""The arrays of every store that nothing was added to."""
