"""Scans JSON documents for the values of the attributes that subscriptions test, and skips everything else.

Attributes may be nested. A node is an object that leads to attributes (ray_pubsub/model/attribute_tree.py), node 0 is the document
itself; an entry is a key of a node. The cells of a document are those of the dictionary that json.loads would return. A document for
which that is not certain (a repeated key, a list of lists or of objects, any error) is marked as hard and has no
cells.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.columns.strings import equal_bytes, hash_bytes, mixed
from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.intrinsics import load_byte
from ray_pubsub.kernels.json.syntax import (
    CLOSE_OBJECT,
    COMMA,
    DEEPEST,
    FAILED,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    has_lone_surrogate,
    number_end,
    skip_colon,
    skip_space,
    skip_value,
    string_end,
)
from ray_pubsub.kernels.json.unescape import unescape_string
from ray_pubsub.kernels.json.values import KINDS, LIST, NUMBER, STRING, read_list, read_value

__all__ = ["Cells", "Keys", "build_keys", "group_cells", "scan_documents"]

MOST_NODES = 33
"""Nested in each other: the document and DEEPEST_NESTING levels (model/dict_events.py)."""
MOST_KEY = 1024
"""The bytes of a key with escapes; a document with a longer one is hard."""
GUESSES = 256
UPPER = np.uint64(0xFFFFFFFF00000000)


class Keys(NamedTuple):
    """The entries, in an open-addressing table by their node and bytes; see kernels/columns/strings.py for `slots`."""

    slots: Any
    data: Any
    start: Any
    stop: Any
    node: Any
    attribute: Any
    """Of a scalar; -1 if the entry is none."""
    inner: Any
    """The node that an object leads to, or -1."""
    identity: Any
    """The entry whose value is the event's id, or -1; ids are cells of one more attribute."""
    every: Any
    """Whether all attributes matter: then a document with a key that is no entry is hard, unless the value is absent."""


class Cells(NamedTuple):
    """In the order of the documents. A string, or a number that needs care, is data[whole:stop]; otherwise `stop` is NOT_TEXT. A list
    has the elements from `whole` to `stop`."""

    row: Any
    lane: Any
    """Attribute * KINDS + kind."""
    whole: Any
    stop: Any
    rest: Any
    escaped: Any
    """Per attribute, whether a string of it has escapes."""


@compiled
def build_keys(data, start, stop, node, seed):
    """The `slots` of Keys."""
    first = data.ctypes.data
    size = 16
    while size < 4 * len(start):
        size *= 2
    mask = np.uint64(size - 1)
    slots = np.zeros(size, np.uint64)
    for entry in range(len(start)):
        bits = _hash(first + start[entry], stop[entry] - start[entry], node[entry], seed)
        slot = bits & mask
        while slots[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (bits & UPPER) | np.uint64(entry + 1)
    return slots


@compiled
def _hash(address, length, node, seed):
    return mixed(hash_bytes(address, length, seed) + np.uint64(node))


@compiled
def _find(address, length, node, keys, seed):
    mask = np.uint64(len(keys.slots) - 1)
    bits = _hash(address, length, node, seed)
    slot = bits & mask
    while keys.slots[slot] != 0:
        if (keys.slots[slot] ^ bits) & UPPER == 0:
            entry = np.int64(keys.slots[slot] & ~UPPER) - 1
            begin = keys.start[entry]
            if (
                keys.node[entry] == node
                and keys.stop[entry] - begin == length
                and equal_bytes(keys.data.ctypes.data + begin, address, length)
            ):
                return entry
        slot = (slot + np.uint64(1)) & mask
    return -1


@compiled
def scan_documents(data, start, stop, keys, seed, cells, elements, hard):
    """The number of cells found. Documents that are marked in `hard` are left out, others may be marked. `cells` has room for one of each
    attribute and document, or for one every five bytes; `elements` for one every two bytes."""
    first = data.ctypes.data
    attributes = len(cells.escaped)
    seen, given = np.full(len(keys.start) + 1, -1, np.int64), np.full(attributes, -1, np.int64)
    nodes, stack = np.zeros(MOST_NODES, np.int64), np.empty(DEEPEST, np.uint8)
    key = np.empty(MOST_KEY, np.uint8)
    # Documents mostly have the keys of the one before, in the same order: the bytes are compared with those, and not searched.
    guess_start, guess_length = np.zeros(GUESSES, np.int64), np.full(GUESSES, -1, np.int64)
    guess_node, guess_entry = np.zeros(GUESSES, np.int64), np.zeros(GUESSES, np.int64)
    filled = used = 0
    for row in range(len(start)):
        if hard[row]:
            continue
        end, before, used_before = stop[row], filled, used
        place = skip_space(first, start[row], end)
        if place >= end or load_byte(first + place) != OPEN_OBJECT:
            hard[row] = True
            continue
        place += 1
        level, turn, fresh = 0, 0, True
        while place >= 0 and level >= 0:
            place = skip_space(first, place, end)
            if place >= end:
                place = FAILED
                break
            byte = load_byte(first + place)
            place += 1
            if fresh and byte == CLOSE_OBJECT:
                level -= 1
            else:
                if byte != QUOTE:
                    place = FAILED
                    break
                node = nodes[level]
                length, guess = guess_length[turn], guess_start[turn]
                if (
                    length >= 0
                    and guess_node[turn] == node
                    and place + length < end
                    and equal_bytes(first + guess, first + place, length + 1)
                ):
                    entry = guess_entry[turn]
                    place += length + 1
                else:
                    closing, escaped = string_end(first, place, end)
                    if closing < 0:
                        place = FAILED
                        break
                    if escaped == 0:
                        entry = _find(first + place, closing - place, node, keys, seed)
                    elif closing - place > MOST_KEY or (escaped == 3 and has_lone_surrogate(first, place, closing)):
                        place = FAILED
                        break
                    else:
                        length = unescape_string(data, place, closing, key, 0)
                        entry = _find(key.ctypes.data, length, node, keys, seed)
                    guess_start[turn], guess_length[turn] = place, closing - place
                    guess_node[turn], guess_entry[turn] = node, entry
                    place = closing + 1
                turn = min(turn + 1, GUESSES - 1)
                place = skip_colon(first, place, end)
                if place < 0 or place >= end:
                    place = FAILED
                    break
                if entry < 0:
                    if keys.every and load_byte(first + place) != 110:  # n, for null
                        place = FAILED
                        break
                    place = skip_value(first, place, end, stack)
                else:
                    attribute, inner = keys.attribute[entry], keys.inner[entry]
                    if seen[entry] == row or (attribute >= 0 and given[attribute] == row):
                        place = FAILED
                        break
                    seen[entry] = row
                    byte = load_byte(first + place)
                    if byte == OPEN_OBJECT and inner >= 0 and entry != keys.identity:
                        level += 1
                        place += 1
                        if level == MOST_NODES:
                            place = FAILED
                            break
                        nodes[level] = inner
                        fresh = True
                        continue
                    if attribute >= 0 or entry == keys.identity:
                        if attribute >= 0:
                            given[attribute] = row
                        begin = place
                        if byte == OPEN_LIST:
                            kind, cell_whole, cell_rest = LIST, used, 0.0
                            place, used, escaped = read_list(first, place, end, stack, elements, used)
                            cell_stop = used
                        else:
                            place, kind, cell_whole, cell_stop, cell_rest, escaped = read_value(
                                first, place, end, stack
                            )
                        if place < 0 or (keys.every and byte == OPEN_OBJECT):
                            place = FAILED
                            break
                        if attribute >= 0 and kind >= 0:
                            cells.row[filled], cells.lane[filled] = row, attribute * KINDS + kind
                            cells.whole[filled], cells.stop[filled] = cell_whole, cell_stop
                            cells.rest[filled] = cell_rest
                            cells.escaped[attribute] |= escaped
                            filled += 1
                        if entry == keys.identity:
                            if kind != STRING and (kind != NUMBER or not number_end(first, begin, end)[1]):
                                place = FAILED
                                break
                            cells.row[filled], cells.lane[filled] = row, (attributes - 1) * KINDS + kind
                            cells.whole[filled], cells.stop[filled] = cell_whole, cell_stop
                            cells.escaped[attributes - 1] |= escaped
                            filled += 1
                    elif keys.every:
                        place = FAILED
                        break
                    else:
                        place = skip_value(first, place, end, stack)
            while place >= 0 and level >= 0:  # behind a value
                place = skip_space(first, place, end)
                if place >= end:
                    place = FAILED
                    break
                byte = load_byte(first + place)
                place += 1
                if byte == COMMA:
                    fresh = False
                    break
                if byte != CLOSE_OBJECT:
                    place = FAILED
                level -= 1
        if place < 0 or skip_space(first, place, end) < end:
            hard[row] = True
            filled, used = before, used_before
    return filled


@compiled
def group_cells(cells, filled, offsets, row, whole, start, stop, rest):
    """The cells by lane, in the order of their rows. `offsets` (one per lane and one more) comes zeroed. A string's or a
    list's `whole` is its number in its lane; its bytes, or its elements, are those from `start` to `stop`."""
    lanes = len(offsets) - 1
    for cell in range(filled):
        offsets[cells.lane[cell] + 1] += 1
    for lane in range(lanes):
        offsets[lane + 1] += offsets[lane]
    target = offsets.copy()
    for cell in range(filled):
        lane = cells.lane[cell]
        place = target[lane]
        target[lane] += 1
        row[place] = cells.row[cell]
        numbered = lane % KINDS == STRING or lane % KINDS == LIST
        whole[place] = place - offsets[lane] if numbered else cells.whole[cell]
        start[place], stop[place], rest[place] = cells.whole[cell], cells.stop[cell], cells.rest[cell]
