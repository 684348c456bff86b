"""Hashes strings, finds the distinct ones, and finds their position among sorted operands. Strings are slices of bytes.

String i is data[start[i]:stop[i]]. A table of operands uses open addressing with linear probing: a slot holds the upper half of the hash
and the operand's number + 1, or zero. Bytes are loaded eight at a time and never beyond a string's end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import load_big_endian, load_byte, load_uint32, load_uint64

__all__ = [
    "Operands",
    "build_string_table",
    "distinct_strings",
    "equal_operands",
    "hash_strings",
    "operand_offsets",
    "string_prefixes",
]

FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # splitmix64
UPPER = np.uint64(0xFFFFFFFF00000000)
LONG = 96


class Operands(NamedTuple):
    """Sorted strings to look others up in. A call from Python passes it as a plain tuple, made once."""

    slots: Any
    """The table."""
    prefixes: Any
    """Of each, its first bytes (string_prefixes)."""
    data: Any
    start: Any
    stop: Any


@inlined
def mixed(bits):
    bits = (bits ^ (bits >> np.uint64(30))) * FIRST
    bits = (bits ^ (bits >> np.uint64(27))) * SECOND
    return bits ^ (bits >> np.uint64(31))


@inlined
def hash_bytes(address, length, seed):
    """No two strings of one length up to eight have one hash; of longer ones, nobody who does not know the seed can choose two that do."""
    bits = seed + np.uint64(length) * FIRST
    if length > 8:
        place = address
        last = address + length - 8
        if length > LONG:  # four at once: each step of one waits for the step before
            second, third, fourth = mixed(bits ^ FIRST), mixed(bits ^ SECOND), mixed(bits ^ (FIRST ^ SECOND))
            while place < last - 24:
                bits = mixed(bits ^ load_uint64(place))
                second = mixed(second ^ load_uint64(place + 8))
                third = mixed(third ^ load_uint64(place + 16))
                fourth = mixed(fourth ^ load_uint64(place + 24))
                place += 32
            bits = mixed(mixed(mixed(bits) ^ second) ^ third) ^ fourth
        while place < last:
            bits = mixed(bits ^ load_uint64(place))
            place += 8
        bits ^= load_uint64(last)
    elif length >= 4:
        bits ^= load_uint32(address) | (load_uint32(address + length - 4) << np.uint64(32))
    elif length > 0:
        bits ^= load_byte(address) | (load_byte(address + (length >> 1)) << np.uint64(8)) | (
            load_byte(address + length - 1) << np.uint64(16)
        )  # fmt: skip
    return mixed(bits)


@inlined
def equal_bytes(left, right, length):
    same = True
    if length >= 8:
        place = 0
        while same and place < length - 8:
            same = load_uint64(left + place) == load_uint64(right + place)
            place += 8
        return same and load_uint64(left + length - 8) == load_uint64(right + length - 8)
    if length >= 4:
        return load_uint32(left) == load_uint32(right) and (
            load_uint32(left + length - 4) == load_uint32(right + length - 4)
        )
    for place in range(length):
        same = same and load_byte(left + place) == load_byte(right + place)
    return same


@inlined
def prefix_of(address, length):
    """The first eight bytes as a number that orders as they do, zeros behind a shorter string."""
    if length >= 8:
        return load_big_endian(address)
    bits = np.uint64(0)
    for place in range(length):
        bits |= load_byte(address + place) << np.uint64(56 - 8 * place)
    return bits


@inlined
def less_bytes(left, left_length, right, right_length):
    """Returns whether the first string comes before the second."""
    shorter = min(left_length, right_length)
    place = 0
    while place + 8 <= shorter and load_uint64(left + place) == load_uint64(right + place):
        place += 8
    while place < shorter and load_byte(left + place) == load_byte(right + place):
        place += 1
    if place == shorter:
        return left_length < right_length
    return load_byte(left + place) < load_byte(right + place)


@compiled
def hash_strings(data, start, stop, seed):
    first = data.ctypes.data
    hashes = np.empty(len(start), np.uint64)
    for string in range(len(start)):
        hashes[string] = hash_bytes(first + start[string], stop[string] - start[string], seed)
    return hashes


@compiled
def distinct_strings(data, start, stop, hashes):
    """which[i]: the number of string i among the distinct ones; and where each of those occurs first."""
    address = data.ctypes.data
    size = 16
    while size < 2 * len(start):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.zeros(size, np.uint64)
    which, first = np.empty(len(start), np.int64), np.empty(len(start), np.int64)
    count = 0
    for string in range(len(start)):
        bits = hashes[string]
        length = stop[string] - start[string]
        slot = bits & mask
        number = np.int64(-1)
        while number < 0:
            entry = slots[slot]
            if entry == 0:
                slots[slot] = (bits & UPPER) | np.uint64(count + 1)
                first[count] = string
                number = count
                count += 1
            elif (entry ^ bits) & UPPER == 0:
                known = np.int64(entry & ~UPPER) - 1
                other = first[known]
                if stop[other] - start[other] == length and equal_bytes(
                    address + start[other], address + start[string], length
                ):
                    number = known
            slot = (slot + np.uint64(1)) & mask
        which[string] = number
    return which, first[:count].copy()


@compiled
def build_string_table(hashes):
    """The slots of a table of distinct strings."""
    size = 16
    while size < 2 * len(hashes):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.zeros(size, np.uint64)
    for number in range(len(hashes)):
        slot = hashes[number] & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (hashes[number] & UPPER) | np.uint64(number + 1)
    return slots


@compiled
def string_prefixes(data, start, stop):
    first = data.ctypes.data
    prefixes = np.empty(len(start), np.uint64)
    for string in range(len(start)):
        prefixes[string] = prefix_of(first + start[string], stop[string] - start[string])
    return prefixes


@inlined
def find_operand(address, length, bits, slots, operands, operand_start, operand_stop):
    """The number of the operand that equals a string, -1 if none does."""
    mask = np.uint64(len(slots) - 1)
    slot = bits & mask
    entry = slots[slot]
    found = np.int64(-1)
    while entry != 0:
        if (entry ^ bits) & UPPER == 0:
            number = np.int64(entry & ~UPPER) - 1
            begin = operand_start[number]
            if operand_stop[number] - begin == length and equal_bytes(operands + begin, address, length):
                found = number
                break
        slot = (slot + np.uint64(1)) & mask
        entry = slots[slot]
    return found


@inlined
def operands_before(address, length, prefixes, operands, operand_start, operand_stop):
    """Returns how many of the sorted operands come before a string. Most comparisons are of the first eight bytes, which lie together."""
    prefix = prefix_of(address, length)
    low, high = 0, len(prefixes)
    while low < high:
        middle = (low + high) >> 1
        before = prefixes[middle] < prefix
        if prefixes[middle] == prefix:
            begin = operand_start[middle]
            before = less_bytes(operands + begin, operand_stop[middle] - begin, address, length)
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def operand_offsets(data, start, stop, hashes, operands, base, codes):
    """codes[i] = base + the offset of string i among sorted operands (kernels/columns/coding.py): 2r + 1 if it is operand r, 2r if r
    operands come before it."""
    slots, prefixes, operand_data, operand_start, operand_stop = operands
    first, operand_first = data.ctypes.data, operand_data.ctypes.data
    for string in range(len(start)):
        address, length = first + start[string], stop[string] - start[string]
        number = find_operand(address, length, hashes[string], slots, operand_first, operand_start, operand_stop)
        if number >= 0:
            codes[string] = base + 2 * number + 1
        else:
            codes[string] = base + 2 * operands_before(
                address, length, prefixes, operand_first, operand_start, operand_stop
            )


@compiled
def equal_operands(data, start, stop, hashes, slots, operands, operand_start, operand_stop):
    """Per string the number of the operand that equals it, -1 if none does; operands come in any order."""
    first, operand_first = data.ctypes.data, operands.ctypes.data
    numbers = np.empty(len(start), np.int64)
    for string in range(len(start)):
        address, length = first + start[string], stop[string] - start[string]
        numbers[string] = find_operand(
            address, length, hashes[string], slots, operand_first, operand_start, operand_stop
        )
    return numbers
