"""Finds the rare grams of texts, on a sample of the strings that will be searched (see gram_search.py)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.columns.gram_search import MULTIPLIER, gram_at, width_mask
from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["GramShape", "choose_grams", "count_grams", "looks_and_hits"]


HASH_SHIFT = np.uint64(32)


class GramShape(NamedTuple):
    """How a text is known by its grams; see Pass in gram_search.py."""

    width: Any
    stride: Any
    fold: Any


@inlined
def _counted(gram, table):
    """Returns where a gram is counted in a table whose size is a power of two."""
    return (gram * MULTIPLIER >> HASH_SHIFT) & np.uint64(len(table) - 1)


@compiled
def count_grams(data, start, stop, width, fold, counts):
    """Adds to counts[hash] how often a gram with that hash is in the strings."""
    address, mask = data.ctypes.data, width_mask(width)
    for string in range(len(start)):
        for place in range(start[string], stop[string] - width + 1):
            gram = (gram_at(address, place, len(data), mask) | np.uint64(fold)) & mask
            counts[_counted(gram, counts)] += 1


@inlined
def _best_place(data, begin, end, shape, costs):
    """Returns where in the text data[begin:end] the grams are that cost least."""
    width, stride, fold = shape
    address, size, mask = data.ctypes.data, len(data), width_mask(width)
    least, best = np.inf, 0
    for place in range(begin, end - width - stride + 2):
        cost = 0.0
        for step in range(stride):
            cost += costs[_counted((gram_at(address, place + step, size, mask) | np.uint64(fold)) & mask, costs)]
        if cost < least:
            least, best = cost, place - begin
    return best


@compiled
def looks_and_hits(texts, bucket, shape, costs, out):
    """out[b] = what the grams chosen of the texts of bucket b cost, those in common counted once."""
    data, start, stop = texts
    width, stride, fold = shape
    address, mask = data.ctypes.data, width_mask(width)
    counted = np.zeros(len(costs), np.uint8)
    for text in range(len(start)):
        if stop[text] - start[text] >= width + stride - 1:
            best = _best_place(data, start[text], stop[text], shape, costs)
            for step in range(stride):
                gram = gram_at(address, start[text] + best + step, len(data), mask)
                place = _counted((gram | np.uint64(fold)) & mask, costs)
                if not counted[place]:
                    counted[place] = 1
                    out[bucket[text]] += costs[place]


@compiled
def choose_grams(texts, shape, costs, chosen, grams):
    """Per text the place whose grams cost least, and these grams."""
    data, start, stop = texts
    width, stride, fold = shape
    address, mask = data.ctypes.data, width_mask(width)
    for text in range(len(start)):
        best = _best_place(data, start[text], stop[text], shape, costs)
        chosen[text] = best
        for step in range(stride):
            gram = gram_at(address, start[text] + best + step, len(data), mask)
            grams[text, step] = (gram | np.uint64(fold)) & mask
