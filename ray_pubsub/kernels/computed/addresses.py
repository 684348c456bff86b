"""Reads IP addresses from the bytes of strings. Unusual spellings are left to Python's ipaddress."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled, inlined

__all__ = ["NO_ADDRESS", "UNUSUAL", "V4", "V6", "read_addresses"]

NO_ADDRESS, V4, V6, UNUSUAL = 0, 4, 6, 1
DOT, COLON = 46, 58
GROUPS = 8


@inlined
def _version_4(data, begin, end):
    """The number of four decimal octets without leading zeros; -1 if it is anything else."""
    number, octets, place = np.int64(0), 0, begin
    while octets < 4:
        octet, digits = np.int64(0), 0
        while place < end and digits < 4 and 48 <= data[place] <= 57:
            octet = 10 * octet + np.int64(data[place]) - 48
            digits += 1
            place += 1
        if digits == 0 or digits > 3 or octet > 255 or (digits > 1 and data[place - digits] == 48):
            break
        number = number << 8 | octet
        octets += 1
        if octets < 4:
            if place == end or data[place] != DOT:
                break
            place += 1
    return number if octets == 4 and place == end else np.int64(-1)


@inlined
def _digit(byte):
    """Of a hexadecimal number; -1 if it is none."""
    if 48 <= byte <= 57:
        return np.int64(byte) - 48
    if 97 <= byte <= 102:
        return np.int64(byte) - 87
    if 65 <= byte <= 70:
        return np.int64(byte) - 55
    return np.int64(-1)


@inlined
def _version_6(data, begin, end, groups):
    """Fills the eight groups of hexadecimal digits; False if it is written in any but the usual way."""
    count, gap, place = 0, -1, begin
    usual = True
    if end - begin >= 2 and data[begin] == COLON and data[begin + 1] == COLON:
        gap, place = 0, begin + 2
    while usual and place < end:
        group, digits = np.int64(0), 0
        while place < end and digits < 5 and _digit(data[place]) >= 0:
            group = group << 4 | _digit(data[place])
            digits += 1
            place += 1
        if digits == 0 or digits > 4 or count == GROUPS:
            usual = False
            break
        groups[count] = group
        count += 1
        if place == end:
            break
        if data[place] != COLON or place + 1 == end:
            usual = False
            break
        place += 1
        if data[place] == COLON:
            usual = gap < 0
            gap = count
            place += 1
    if gap < 0:
        return usual and count == GROUPS
    if count >= GROUPS:
        return False
    behind = count - gap
    for number in range(behind):
        groups[GROUPS - 1 - number] = groups[count - 1 - number]
    for number in range(gap, GROUPS - behind):
        groups[number] = 0
    return usual


@compiled
def read_addresses(data, start, stop):
    """Per string what it is; the number of an IPv4 address, or the upper half of an IPv6 address; and the lower half of that. Halves are
    unsigned."""
    kind = np.zeros(len(start), np.uint8)
    upper, lower = np.zeros(len(start), np.uint64), np.zeros(len(start), np.uint64)
    groups = np.zeros(GROUPS, np.int64)
    for string in range(len(start)):
        begin, end = start[string], stop[string]
        number = _version_4(data, begin, end)
        if number >= 0:
            kind[string] = V4
            upper[string] = number
            continue
        colon = False
        for place in range(begin, end):
            colon |= data[place] == COLON
        if not colon:
            continue
        if not _version_6(data, begin, end, groups):
            kind[string] = UNUSUAL
            continue
        kind[string] = V6
        for group in range(4):
            upper[string] = upper[string] << np.uint64(16) | np.uint64(groups[group])
            lower[string] = lower[string] << np.uint64(16) | np.uint64(groups[4 + group])
    return kind, upper, lower
