"""Hash tables of code vectors. The code vector of an event is its columns and codes, all that a segment knows about it: events with equal
vectors match the same clauses.

A store holds vectors and their matches. Vector v is words[word_starts[v]:word_starts[v + 1]], a word per cell; its matches are
matches[match_starts[v]:match_starts[v + 1]]. The table uses open addressing with linear probing: a slot holds the upper half of the hash
and the vector's number + 1, or zero. Vectors are only added, so readers may look up while one writer adds: they ignore numbers from their
own `count` on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ray_pubsub.kernels.columns.strings import FIRST, UPPER, mixed
from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "Store", "VectorCells", "add_vectors", "count_repeats", "distinct_vectors", "fill_table", "find_vectors", "hash_vectors",
    "join_matches", "take_vectors",
]  # fmt: skip


class VectorCells(NamedTuple):
    """Event i has code[offsets[i]:offsets[i + 1]] in the columns beside them."""

    offsets: np.ndarray
    column: np.ndarray
    code: np.ndarray


class Store(NamedTuple):
    table: np.ndarray
    hashes: np.ndarray
    word_starts: np.ndarray
    words: np.ndarray
    match_starts: np.ndarray
    matches: np.ndarray


@inlined
def _word(column, code, cell):
    return np.int64(column[cell]) << 32 | np.int64(code[cell])


@compiled
def hash_vectors(cells, seed):
    """A hash per event. Nobody who does not know the seed can choose vectors whose hashes collide."""
    cells = VectorCells(*cells)
    offsets, column, code = cells.offsets, cells.column, cells.code
    hashes = np.empty(len(offsets) - 1, np.uint64)
    for event in range(len(offsets) - 1):
        bits = seed
        for cell in range(offsets[event], offsets[event + 1]):
            bits = (bits ^ np.uint64(_word(column, code, cell))) * FIRST
            bits ^= bits >> np.uint64(32)
        hashes[event] = mixed(bits)
    return hashes


@compiled
def count_repeats(hashes, seen, part):
    """Of the events whose hash is among one in `part`: how many there are, and how many of them `seen` has. It learns them: a place for
    each, the last to come. So a small memory says what a large one would find."""
    mask = np.uint64(len(seen) - 1)
    looked, found = 0, 0
    for event in range(len(hashes)):
        bits = hashes[event]
        if (bits >> np.uint64(32)) % np.uint64(part) == 0:
            place = bits & mask
            looked += 1
            found += seen[place] == bits
            seen[place] = bits
    return looked, found


@compiled
def find_vectors(cells, hashes, store, count):
    """Per event the number of its vector among the first `count` of the store, -1 if it is not there."""
    cells, store = VectorCells(*cells), Store(*store)
    offsets, column, code = cells.offsets, cells.column, cells.code
    table, word_starts, words = store.table, store.word_starts, store.words
    mask = np.uint64(len(table) - 1)
    found = np.full(len(hashes), -1, np.int64)
    for event in range(len(hashes)):
        bits = hashes[event]
        first, size = offsets[event], offsets[event + 1] - offsets[event]
        slot = bits & mask
        entry = table[slot]
        while entry != 0:
            number = np.int64(entry & ~UPPER) - 1
            if (entry ^ bits) & UPPER == 0 and number < count:
                start = word_starts[number]
                same = word_starts[number + 1] - start == size
                if same:
                    for cell in range(size):
                        same &= words[start + cell] == _word(column, code, first + cell)
                if same:
                    found[event] = number
                    break
            slot = (slot + np.uint64(1)) & mask
            entry = table[slot]
    return found


@compiled
def distinct_vectors(cells, hashes, found):
    """Replaces -1 in `found` by -1 - d, where d numbers the distinct vectors of those events; returns where each occurs first."""
    cells = VectorCells(*cells)
    offsets, column, code = cells.offsets, cells.column, cells.code
    missing = 0
    for event in range(len(found)):
        missing += found[event] < 0
    size = 16
    while size < 2 * missing:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.zeros(size, np.uint64)
    first = np.empty(missing, np.int64)
    count = 0
    for event in range(len(found)):
        if found[event] >= 0:
            continue
        bits = hashes[event]
        begin, length = offsets[event], offsets[event + 1] - offsets[event]
        slot = bits & mask
        number = np.int64(-1)
        while number < 0:
            entry = table[slot]
            if entry == 0:
                table[slot] = (bits & UPPER) | np.uint64(count + 1)
                first[count] = event
                number = count
                count += 1
            elif (entry ^ bits) & UPPER == 0:
                known = np.int64(entry & ~UPPER) - 1
                other = offsets[first[known]]
                same = offsets[first[known] + 1] - other == length
                if same:
                    for cell in range(length):
                        same &= (
                            column[begin + cell] == column[other + cell] and code[begin + cell] == code[other + cell]
                        )
                if same:
                    number = known
            slot = (slot + np.uint64(1)) & mask
        found[event] = -1 - number
    return first[:count].copy()


@compiled
def take_vectors(cells, chosen):
    """The cells of the chosen events."""
    cells = VectorCells(*cells)
    offsets, column, code = cells.offsets, cells.column, cells.code
    starts = np.zeros(len(chosen) + 1, np.int64)
    for number in range(len(chosen)):
        starts[number + 1] = starts[number] + offsets[chosen[number] + 1] - offsets[chosen[number]]
    columns, codes = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.int32)
    for number in range(len(chosen)):
        first = offsets[chosen[number]]
        for cell in range(starts[number + 1] - starts[number]):
            columns[starts[number] + cell] = column[first + cell]
            codes[starts[number] + cell] = code[first + cell]
    return starts, columns, codes


@compiled
def fill_table(hashes, count, table):
    """Puts the first `count` vectors into an empty table."""
    mask = np.uint64(len(table) - 1)
    for number in range(count):
        slot = hashes[number] & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = (hashes[number] & UPPER) | np.uint64(number + 1)


@compiled
def add_vectors(cells, hashes, hits, store, count):
    """Adds the vectors of events, which the store has not and has room for, with their matches."""
    cells, store = VectorCells(*cells), Store(*store)
    offsets, column, code = cells.offsets, cells.column, cells.code
    hit_offsets, slots = hits
    mask = np.uint64(len(store.table) - 1)
    for event in range(len(hashes)):
        number = count + event
        start, match = store.word_starts[number], store.match_starts[number]
        for cell in range(offsets[event], offsets[event + 1]):
            store.words[start + cell - offsets[event]] = _word(column, code, cell)
        for place in range(hit_offsets[event], hit_offsets[event + 1]):
            store.matches[match + place - hit_offsets[event]] = slots[place]
        store.word_starts[number + 1] = start + offsets[event + 1] - offsets[event]
        store.match_starts[number + 1] = match + hit_offsets[event + 1] - hit_offsets[event]
        store.hashes[number] = hashes[event]
        slot = hashes[event] & mask
        while store.table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        store.table[slot] = (hashes[event] & UPPER) | np.uint64(number + 1)


@compiled
def join_matches(found, store, hits):
    """The matches of all events: of vector `found[i]` of the store, or, if that is negative, of number -1 - found[i] of `hits`."""
    store = Store(*store)
    match_starts, matches = store.match_starts, store.matches
    hit_offsets, slots = hits
    offsets = np.zeros(len(found) + 1, np.int64)
    for event in range(len(found)):
        number = found[event]
        if number >= 0:
            offsets[event + 1] = offsets[event] + match_starts[number + 1] - match_starts[number]
        else:
            offsets[event + 1] = offsets[event] + hit_offsets[-number] - hit_offsets[-1 - number]
    joined = np.empty(offsets[-1], np.int64)
    for event in range(len(found)):
        number, place = found[event], offsets[event]
        if number >= 0:
            for match in range(match_starts[number], match_starts[number + 1]):
                joined[place] = matches[match]
                place += 1
        else:
            for match in range(hit_offsets[-1 - number], hit_offsets[-number]):
                joined[place] = slots[match]
                place += 1
    return offsets, joined
