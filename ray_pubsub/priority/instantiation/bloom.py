"""One counting Bloom filter per level: how large they must be, and what goes into them (paper §4.2; kernels/priority/bloom.py).

A key's k positions lie in one block of 512 bits. With λ keys a block on average, a block has i keys with Poisson's probability, and then a
key that is not there finds all its positions set with probability (1 - (1 - 1/512)^(ki))^k; the mean of that is the rate of false
positives. Given the rate, k = -log2(rate), rounded, and λ and so the size follow. An event is looked up in every vector and at every
level, so each lookup's share of the rate is smaller.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.priority.bloom import (
    BLOCK_BITS,
    contains_cells,
    count_cells,
    fill_of,
    rate_of_bits,
    saturated_counters,
)

__all__ = ["CountingFilters", "rate_of", "rate_per_lookup", "size_for"]

MOST_PROBES = 30
HEADROOM = 1.25
FEWEST_KEYS = 256


def rate_per_lookup(rate: float, lookups: int) -> float:
    """Returns the rate that each of `lookups` independent lookups may have so that all of them together have `rate`."""
    return -math.expm1(math.log1p(-rate) / max(1, lookups))


def probes_for(rate: float) -> int:
    return min(MOST_PROBES, max(1, round(-math.log2(rate))))


def size_for(keys: int, rate: float) -> int:
    """Returns the size of a filter for this number of keys at this rate: a whole number of blocks."""
    probes = probes_for(rate)
    least, most = 1, 2
    while rate_of(keys, most * BLOCK_BITS, probes) > rate:
        least, most = most, 2 * most
    while least < most:
        middle = (least + most) // 2
        if rate_of(keys, middle * BLOCK_BITS, probes) > rate:
            least = middle + 1
        else:
            most = middle
    return least * BLOCK_BITS


def rate_of(keys: int, size: int, probes: int) -> float:
    """Returns the rate of false positives in theory."""
    mean = keys * BLOCK_BITS / size
    spread = 12 * math.sqrt(mean) + 12
    inside = np.arange(max(0, math.floor(mean - spread)), math.ceil(mean + spread) + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, inside[-1] + 1)))])[inside]
    weight = np.exp(inside * math.log(mean) - mean - log_factorial) if mean > 0 else (inside == 0) * 1.0
    return float((weight * (1 - (1 - 1 / BLOCK_BITS) ** (probes * inside)) ** probes).sum())


class CountingFilters:
    """The filters of all levels that can have rules, in one array. Sizes never change: growth makes new filters and fills them."""

    def __init__(self, keys: NDArray[np.int64], rate: float, lookups: int) -> None:
        """Makes room for `keys[l]` keys (and a quarter more) in the filter of level l + 1."""
        share = rate_per_lookup(rate, lookups)
        room = [max(FEWEST_KEYS, math.ceil(HEADROOM * count)) for count in keys.tolist()]
        sizes = [size_for(count, share) for count in room]
        self.size = np.array(sizes, dtype=np.uint64)
        self.start = (np.cumsum(self.size) - self.size).astype(np.uint64)
        self.probes = np.full(len(sizes), probes_for(share), dtype=np.int64)
        self.keys = np.zeros(len(sizes), dtype=np.int64)
        self.bits = _lines(sum(sizes) // 8).view(np.uint64)
        self.counters = _lines(sum(sizes) // 2)

    def has_room(self, more: NDArray[np.int64], rate: float, lookups: int) -> bool:
        """Returns whether the rate still holds when `keys` more are added."""
        share = rate_per_lookup(rate, lookups) * (1 + 1e-9)
        keys = (self.keys + more).tolist()
        parts = zip(keys, self.size.tolist(), self.probes.tolist(), strict=True)
        return all(rate_of(count, size, probes) <= share for count, size, probes in parts)

    def insert(self, level: int, cells: NDArray[np.int64], salt: int) -> None:
        count_cells(cells, np.uint64(salt), *self._place(level), self.counters, self.bits, True)
        self.keys[level - 1] += len(cells)

    def remove(self, level: int, cells: NDArray[np.int64], salt: int) -> None:
        count_cells(cells, np.uint64(salt), *self._place(level), self.counters, self.bits, False)
        self.keys[level - 1] -= len(cells)

    def contains(self, level: int, cells: NDArray[np.int64], salt: int) -> NDArray[np.bool_]:
        found = np.empty(len(cells), dtype=np.bool_)
        contains_cells(cells, np.uint64(salt), *self._place(level), self.bits, found)
        return found

    def _place(self, level: int) -> tuple[np.uint64, np.uint64, int]:
        return self.start[level - 1], self.size[level - 1], int(self.probes[level - 1])

    def fill(self, level: int) -> float:
        """Returns the share of the filter's bits that is set."""
        start, size, _ = self._place(level)
        return float(fill_of(start, size, self.bits) / int(size))

    def saturated(self, level: int) -> int:
        start, size, _ = self._place(level)
        return int(saturated_counters(start, size, self.counters))

    def lookup_rate(self, level: int) -> float:
        """Returns the rate of false positives of one lookup, from the bits that are set."""
        return float(rate_of_bits(*self._place(level), self.bits))

    @property
    def nbytes(self) -> int:
        return self.bits.nbytes + self.counters.nbytes


def _lines(size: int) -> NDArray[np.uint8]:
    """Returns zeroed bytes aligned to a cache line, so that each block of 512 bits is one line."""
    room = np.zeros(size + 64, dtype=np.uint8)
    begin = -room.ctypes.data % 64
    return room[begin : begin + size]
