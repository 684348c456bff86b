"""The counting filters: rates as in theory, removal, counters that are full; boxes counted cell by cell and by corners."""

from __future__ import annotations

import numpy as np
import pytest

from ray_pubsub.kernels.priority.boxes import add_corners, count_all_cells, count_cell_by_cell
from ray_pubsub.priority.instantiation.bloom import CountingFilters, rate_of, rate_per_lookup, size_for

RATES = [0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5]
SALT = 0x1234_5678_9ABC_DEF0


def filled(keys: int, rate: float) -> CountingFilters:
    filters = CountingFilters(np.array([keys]), rate, 1)
    filters.insert(1, np.arange(keys), SALT)
    return filters


@pytest.mark.parametrize("rate", RATES)
def test_the_rate_of_false_positives_is_that_of_theory(rate: float) -> None:
    keys, probes = 20_000, 400_000
    filters = filled(keys, rate)
    found = filters.contains(1, np.arange(keys, keys + probes), SALT)
    theory = rate_of(keys, int(filters.size[0]), int(filters.probes[0]))
    noise = 4 * np.sqrt(theory / probes) + 0.03 * theory
    assert abs(found.mean() - theory) < noise
    assert abs(filters.lookup_rate(1) - theory) < 0.2 * theory
    assert theory <= rate
    assert filters.contains(1, np.arange(keys), SALT).all()


@pytest.mark.parametrize("rate", RATES)
def test_the_size_follows_from_keys_and_rate(rate: float) -> None:
    for keys in (1, 300, 70_000):
        size = size_for(keys, rate)
        probes = max(1, round(-np.log2(rate)))
        assert rate_of(keys, size, probes) <= rate * (1 + 1e-9)
        assert size == 512 or rate_of(keys, size - 512, probes) > rate


def test_several_lookups_share_the_rate() -> None:
    share = rate_per_lookup(0.1, 12)
    assert 1 - (1 - share) ** 12 == pytest.approx(0.1)


def test_cells_of_other_vectors_are_other_keys() -> None:
    filters = filled(2000, 0.001)
    assert filters.contains(1, np.arange(2000), SALT + 1).mean() < 0.01


def test_what_is_removed_is_gone_and_the_rest_is_not() -> None:
    filters = filled(10_000, 0.01)
    filters.remove(1, np.arange(0, 10_000, 2), SALT)
    assert filters.contains(1, np.arange(1, 10_000, 2), SALT).all()
    assert filters.contains(1, np.arange(0, 10_000, 2), SALT).mean() < 0.01
    filters.remove(1, np.arange(1, 10_000, 2), SALT)
    assert not filters.bits.any()
    assert not filters.counters.any()


def test_a_full_counter_stays_so_that_nothing_is_lost() -> None:
    filters = CountingFilters(np.array([10]), 0.01, 1)
    kept, other = np.array([3]), np.array([4])
    for _ in range(20):
        filters.insert(1, other, SALT)
    filters.insert(1, kept, SALT)
    assert filters.saturated(1) > 0
    for _ in range(20):
        filters.remove(1, other, SALT)
    assert filters.contains(1, kept, SALT).all()


@pytest.mark.parametrize("rate", [0.9, 0.5, 0.25, 0.12, 0.06, 0.03, 0.001])
def test_every_probe_counts_however_few_there_are(rate: float) -> None:
    """Against the positions worked out one by one: some lookups take several probes at a time."""
    keys = 300
    filters = filled(keys, rate)
    probes, blocks = int(filters.probes[0]), int(filters.size[0]) // 512
    found = filters.contains(1, np.arange(3 * keys), SALT)
    bits = np.unpackbits(filters.bits.view(np.uint8), bitorder="little")
    expected = [all(bits[position] for position in positions(cell, probes, blocks)) for cell in range(3 * keys)]
    assert found.tolist() == expected
    assert all(expected[:keys])


def positions(cell: int, probes: int, blocks: int) -> list[int]:
    """What kernels/priority/bloom.py says, in Python's integers."""
    whole, half = 2**64 - 1, 2**32 - 1
    mixed = (cell * 0x9E3779B97F4A7C15 & whole) ^ SALT
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & whole
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & whole
    mixed ^= mixed >> 31
    block = ((mixed * 0xD6E8FEB86659FD93 & whole) >> 32) * blocks >> 32
    place, step = mixed & half, mixed >> 32
    found = []
    for probe in range(probes):
        found.append(block * 512 + (place >> 23))
        place, step = place + step & half, step + (probe + 1) * 0x9E3779B9 & half
    return found


@pytest.mark.parametrize("dimensions", [0, 1, 2, 3, 5])
def test_corners_count_what_cells_count(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    shape = rng.integers(1, 6, dimensions)
    strides = np.array([int(np.prod(shape[place + 1 :])) for place in range(dimensions)], dtype=np.int64)
    cells = int(np.prod(shape))
    ends = np.sort(rng.integers(0, np.maximum(shape, 1), (2, 50, dimensions)), axis=0).astype(np.uint16)
    lows, highs = ends
    counts, fresh = np.zeros(cells, np.uint16), np.empty(cells, np.int64)
    found = count_cell_by_cell(lows, highs, strides, counts, 65535, 1, fresh)
    difference = np.zeros(cells, np.int32)
    add_corners(lows, highs, shape, strides, difference)
    cube = difference.reshape(tuple(shape.tolist()))
    for axis in range(dimensions):
        np.cumsum(cube, axis=axis, out=cube)
    assert np.array_equal(difference, counts)
    assert np.array_equal(np.sort(fresh[:found]), np.flatnonzero(counts))
    again, fresh_again = np.zeros(cells, np.uint16), np.empty(cells, np.int64)
    assert count_all_cells(difference, again, 65535, 1, fresh_again) == found
    assert np.array_equal(again, counts)
    bare = np.empty(cells, np.int64)
    assert count_cell_by_cell(lows, highs, strides, counts, 65535, -1, bare) == found
    assert not counts.any()
    assert count_all_cells(difference, again, 65535, -1, bare) == found
    assert not again.any()
