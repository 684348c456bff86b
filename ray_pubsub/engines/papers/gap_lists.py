"""Builds the boundaries of gaps by which the papers' engines exclude clauses (kernels/papers/gap_toggles.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.kernels.papers.gap_toggles import LEAST_STRIDE, GapToggles, SourceTests, count_toggles, lay_toggles

__all__ = ["gap_toggles", "words_of"]


def gap_toggles(coded: CodedTests, order: NDArray[Any], block: int) -> GapToggles:
    """`order`: the clauses in the order of their blocks of `block`. Caches take about a byte per boundary."""
    block = min(block, max(1, len(order)))
    columns = np.empty(0, np.int64)
    if coded.pieces is not None:
        columns = np.unique(coded.column[coded.pieces >= 0]).astype(np.int64)
    blocks = -(-len(order) // block)
    starts = np.zeros(blocks * len(columns) + 1, np.int64)
    stride = max(LEAST_STRIDE, block // 8)
    if coded.pieces is None or not len(starts) - 1:
        nothing = np.empty(0, np.int32), np.empty(0, np.uint16), np.empty(0, np.int64), np.empty(0, np.uint64)
        return GapToggles(columns, starts, *nothing, stride, block)
    place = np.full(coded.space.columns, -1, np.int64)
    place[columns] = np.arange(len(columns))
    parts = (coded.pieces, coded.piece_offsets, coded.piece_low, coded.piece_high)
    tests = SourceTests(order.astype(np.int64), coded.offsets.astype(np.int64), coded.column, *parts)
    count_toggles(tests, place, block, starts)
    starts = np.cumsum(starts)
    caches = -(-np.diff(starts) // stride)
    words = np.concatenate([[0], np.cumsum(caches)]) * words_of(block)
    codes, ids = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.uint16)
    toggles = GapToggles(columns, starts, codes, ids, words, np.empty(int(words[-1]), np.uint64), stride, block)
    lay_toggles(tests, place, block, toggles)
    return toggles


def words_of(clauses: int) -> int:
    """Returns the number of words of a bit set of the clauses."""
    return -(-clauses // 64)
