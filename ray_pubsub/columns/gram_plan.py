"""Plans the passes of a search for texts: ranges of lengths, each with a width and a stride of grams, chosen on a sample of the strings.

A text of length n can be found by grams of any width w and stride s with w + s - 1 <= n. Wide grams are rare, and a long stride examines
few positions; but one pass for all texts must suit the shortest of them, so short and long texts get separate passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.columns.gram_choice import GramShape, count_grams, looks_and_hits
from ray_pubsub.model.text_column import TextBytes, TextColumn

__all__ = ["GramCosts", "PlannedPass", "planned_passes"]

LENGTHS = (1, 2, 3, 4, 5, 7, 9, 11, 15)
"""The lengths at which a range may begin."""
MOST_STRIDE, MOST_WIDTH = 8, 8
LEAST_SAMPLE, MOST_SAMPLE, SAMPLED_TEXTS = 1 << 12, 1 << 17, 256
"""The bytes of strings and the number of texts that a plan is based on. Few texts are not worth a large sample."""
HIT = 3.0
"""The cost of comparing a position with texts, in units of examining a position (about a nanosecond)."""
LETTERS = 20.0
"""A gram of w bytes that does not occur in the sample may occur in other strings: its frequency is estimated as if bytes were drawn from
this many letters."""
PER_TEXT = 0.125
"""What each further text with the same gram adds to the cost of comparing."""


class PlannedPass(NamedTuple):
    """A pass for texts of at least `least` bytes, up to those of the next pass."""

    least: int
    width: int
    stride: int


class GramCosts:
    """The cost of using a gram, per byte of the data, by width and hash of the gram."""

    def __init__(self, texts: TextBytes, sample: TextColumn | None, fold: int) -> None:
        self._texts, self._fold = texts, fold
        self._size = min(MOST_SAMPLE, max(LEAST_SAMPLE, 1 << (256 * len(texts.start)).bit_length()))
        self._sample = None
        if sample is not None and len(sample):
            data, start, stop = sample.bytes
            enough = int(np.searchsorted(np.cumsum(stop - start), self._size)) + 1
            self._sample = TextBytes(data, start[:enough], stop[:enough])
        self._of_width: dict[int, NDArray[np.float64]] = {}

    def of(self, width: int) -> NDArray[np.float64]:
        if width not in self._of_width:
            known, met = np.zeros(self._size, np.int64), np.zeros(self._size, np.int64)
            count_grams(*self._texts, width, self._fold, known)
            size = self._size
            if self._sample is not None:
                count_grams(*self._sample, width, self._fold, met)
                size = max(1, int((self._sample.stop - self._sample.start).sum()))
            self._of_width[width] = (met / size + LETTERS**-width) * HIT * (1 + PER_TEXT * known)
        return self._of_width[width]


def planned_passes(texts: TextBytes, costs: GramCosts, fold: int) -> Sequence[PlannedPass]:
    """Returns the passes with the least total cost, from the shortest texts to the longest."""
    bucket = np.searchsorted(LENGTHS, texts.stop - texts.start, side="right") - 1
    used, bucket, count = np.unique(bucket, return_inverse=True, return_counts=True)
    least = [LENGTHS[number] for number in used.tolist()]
    few = np.concatenate([np.flatnonzero(bucket == each)[:SAMPLED_TEXTS] for each in range(len(used))])
    sample, chosen = TextBytes(texts.data, texts.start[few], texts.stop[few]), bucket[few]
    scale = np.maximum(1.0, count / SAMPLED_TEXTS)
    hits: dict[tuple[int, int], NDArray[np.float64]] = {}
    best: list[tuple[float, list[PlannedPass]]] = [(0.0, [])]
    """The best plan for the first i ranges."""
    for end in range(1, len(used) + 1):
        options = []
        for first in range(end):
            for width, stride in _shapes(least[first]):
                if (width, stride) not in hits:
                    hits[width, stride] = np.zeros(len(used))
                    shape = GramShape(width, stride, fold)
                    looks_and_hits(sample, chosen, shape, costs.of(width), hits[width, stride])
                cost = (1 + float((scale * hits[width, stride])[first:end].sum())) / stride
                before, passes = best[first]
                options.append((before + cost, [*passes, PlannedPass(least[first], width, stride)]))
        best.append(min(options))
    return best[-1][1]


def _shapes(length: int) -> list[tuple[int, int]]:
    """Returns the possible widths and strides for texts of at least this length."""
    widths = range(max(1, length - MOST_STRIDE + 1), min(MOST_WIDTH, length) + 1)
    return [(width, length - width + 1) for width in widths] or [(MOST_WIDTH, MOST_STRIDE)]
