"""Counting Bloom filters over signatures: a stable 64-bit hash of (vector, cell), two halves of which make all the probes.

Every level has a filter of its own; they lie one after the other in two arrays. `counters` has four bits a position and belongs to the
writer; `bits` has one bit a position, set where the counter is not zero, and is what readers probe. A counter that reached 15 stays there:
it no longer knows how many keys it counts, and a bit too many costs a false positive where a bit too few would cost a rule.

All positions of a key lie in one block of 512 bits, a cache line (Putze, Sanders and Singler 2007): a lookup is one access to memory, so
a filter of megabytes is probed about as fast as one of kilobytes. Within the block the probes are h1 + i·h2 (Kirsch and Mitzenmacher) with
the cubic term of enhanced double hashing (Dillinger and Manolios 2004), without which a small h2 would probe one place again and again.
"""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = [
    "BLOCK_BITS",
    "block_of",
    "contains_cells",
    "count_cells",
    "early_places",
    "fill_of",
    "has_all",
    "rate_of_bits",
    "saturated_counters",
    "signature_hash",
]

BLOCK_BITS = 512
STICKY = 15
EARLY = 4
"""Probes of a lookup that are asked together."""
LOW_HALF = np.uint64(0xFFFFFFFF)
TO_PLACE = np.uint64(32 - 9)  # the upper 9 of 32 bits: a place in the block
STEP = np.uint64(0x9E3779B9)


@inlined
def signature_hash(cell, salt):
    """splitmix64's finalizer: the same in every process. The salt says which attributes and which discretizer the cell is of."""
    mixed = (np.uint64(cell) * np.uint64(0x9E3779B97F4A7C15)) ^ salt
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@inlined
def block_of(hashed, start, size):
    """The first position of the key's block; from another mix of the hash than the probes."""
    spread = (hashed * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(32)
    return start + (((spread * (size >> np.uint64(9))) >> np.uint64(32)) << np.uint64(9))


@inlined
def early_places(hashed, probes):
    """The places in its block of a key's first EARLY probes (repeated if there are not as many), the same in every level's filter; then
    the place and step of the probe after them."""
    first, step = hashed & LOW_HALF, hashed >> np.uint64(32)
    second = (first + step) & LOW_HALF
    step = (step + STEP) & LOW_HALF
    third = (second + step) & LOW_HALF
    step = (step + np.uint64(2) * STEP) & LOW_HALF
    fourth = (third + step) & LOW_HALF
    step = (step + np.uint64(3) * STEP) & LOW_HALF
    place = (fourth + step) & LOW_HALF
    step = (step + np.uint64(4) * STEP) & LOW_HALF
    if probes < EARLY:
        second = second if probes > 1 else first
        third = third if probes > 2 else first
        fourth = first
    return first >> TO_PLACE, second >> TO_PLACE, third >> TO_PLACE, fourth >> TO_PLACE, place, step


@inlined
def _word_from(position, bits):
    """The word that has the position, shifted so that its bit is the lowest."""
    return bits[position >> np.uint64(6)] >> (position & np.uint64(63))


@inlined
def has_all(block, places, probes, bits):
    """Whether all positions of a key are set, given what `early_places` says of it.

    In a filter as full as it should be, every other probe of a key that is not there fails: a branch after each would be mispredicted
    every other time, and cost more than the probes. So the first four are one branch, which nearly always goes the same way.
    """
    first, second, third, fourth, place, step = places
    early = _word_from(block + first, bits) & _word_from(block + second, bits)
    early &= _word_from(block + third, bits) & _word_from(block + fourth, bits)
    if not early & np.uint64(1):
        return False
    for probe in range(EARLY, probes):
        if not _word_from(block + (place >> TO_PLACE), bits) & np.uint64(1):
            return False
        place = (place + step) & LOW_HALF
        step = (step + np.uint64(probe + 1) * STEP) & LOW_HALF
    return True


@compiled
def count_cells(cells, salt, start, size, probes, counters, bits, adding):
    """Adds each cell's signature once, or takes it out again. A counter that has reached STICKY stays there."""
    for number in range(len(cells)):
        hashed = signature_hash(cells[number], salt)
        block = block_of(hashed, start, size)
        place, step = hashed & LOW_HALF, hashed >> np.uint64(32)
        for probe in range(probes):
            position = block + (place >> TO_PLACE)
            pair = counters[position >> np.uint64(1)]
            shift = np.uint8((position & np.uint64(1)) << np.uint64(2))
            count, one = (pair >> shift) & np.uint8(STICKY), np.uint8(np.uint8(1) << shift)
            bit = np.uint64(1) << (position & np.uint64(63))
            if adding and count < STICKY:
                counters[position >> np.uint64(1)] = pair + one
                if count == 0:
                    bits[position >> np.uint64(6)] |= bit
            elif not adding and 0 < count < STICKY:
                counters[position >> np.uint64(1)] = pair - one
                if count == 1:
                    bits[position >> np.uint64(6)] &= ~bit
            place = (place + step) & LOW_HALF
            step = (step + np.uint64(probe + 1) * STEP) & LOW_HALF


@compiled
def contains_cells(cells, salt, start, size, probes, bits, found):
    """found[i]: whether the filter has the signature of cell i."""
    for number in range(len(cells)):
        hashed = signature_hash(cells[number], salt)
        found[number] = has_all(block_of(hashed, start, size), early_places(hashed, probes), probes, bits)


@inlined
def _set_bits(word):
    count = 0
    while word:
        word &= word - np.uint64(1)
        count += 1
    return count


@compiled
def fill_of(start, size, bits):
    """Returns how many of a filter's bits are set."""
    count = 0
    for word in range(start >> np.uint64(6), (start + size) >> np.uint64(6)):
        count += _set_bits(bits[word])
    return count


@compiled
def rate_of_bits(start, size, probes, bits):
    """The rate of false positives with these bits: the mean over the blocks of (part of the bits that is set) ^ probes."""
    total = 0.0
    words = BLOCK_BITS // 64
    first, last = np.int64(start >> np.uint64(6)), np.int64((start + size) >> np.uint64(6))
    for block in range(first, last, words):
        count = 0
        for word in range(block, block + words):
            count += _set_bits(bits[word])
        total += (count / BLOCK_BITS) ** probes
    return total / ((last - first) // words)


@compiled
def saturated_counters(start, size, counters):
    """Returns how many of a filter's counters count no more."""
    count = 0
    for pair in range(start >> np.uint64(1), (start + size) >> np.uint64(1)):
        count += (counters[pair] & np.uint8(STICKY)) == STICKY
        count += (counters[pair] >> np.uint8(4)) == STICKY
    return count
