"""Sparse matching: every clause sits under one of its tests, its pivot; an event looks up its own values and meets only
clauses whose pivot holds.

A pivot is posted in one of two ways. A point, a set or a short range has an entry under each of its codes. A long range has one entry,
in a run: those that are looked up from above by their high code, followed by the others by their low code. The ranges that may hold for a
code v are a suffix of the first list and a prefix of the second; the lists are neighbours, so they are one run. Entries are in this order:
by value, by (column, code); in runs, by column; last those of clauses without a pivot.

    directory[4 * (base[column] + code)]   run by value (start, end), run of ranges (start, end); one cache line per value of an event
    entries[4 * entry], [4 * entry + 1]    slot << 16 | mask: two other tests. signature[slot] has a bit for the bucket of the event's code
                                           in that column; most entries die here, by two loads from a small array and no branch
    entries[4 * entry + 2]                 the clause's owner, in the same line: apart, it was a miss per match (15 µs an event, not 7)
    entries[4 * entry + 3]                 where the clause's row starts (kernels/pivot/clause_rows.py), for the few that are left; with
                                           the bit PROVEN, if the entry and the two tests prove the clause

Slot 0 is for entries with fewer than two other tests: it always holds. A mask of 0 never does. Columns that share a slot (there are
65,535) only let more entries pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.intrinsics import prefetch
from ray_pubsub.kernels.pivot.row_check import row_holds

__all__ = [
    "BUCKETS",
    "NO_TEST",
    "PROVEN",
    "SLOTS",
    "Cells",
    "PivotLists",
    "Scratch",
    "count_met",
    "count_order",
    "fill_directory",
    "match_event",
    "match_events",
]

PROVEN = 2**31
NO_TEST = 2**16 - 1
"""Slot 0 and all buckets."""
SLOTS = 2**16 - 1
BUCKETS = 16
AHEAD = 8
"""Candidates whose rows are asked for ahead."""
TYPICAL_ROW = 31
"""A row goes on into a second cache line more often than not."""


class Cells(NamedTuple):
    """Events as codes: event i has code[offsets[i]:offsets[i + 1]] in the columns beside them."""

    offsets: np.ndarray
    column: np.ndarray
    code: np.ndarray


class PivotLists(NamedTuple):
    base: np.ndarray
    """Column → where its codes begin in the directory."""
    bucket: np.ndarray
    """Place in the directory → the bucket of the code, of BUCKETS that are about equally frequent."""
    directory: np.ndarray
    entries: np.ndarray
    words: np.ndarray
    """All rows."""
    universal: int
    """The first entry without a pivot."""
    alike: bool
    """Every entry proves its clause with the same two other tests, as those of patterns of one attribute do."""


class Scratch(NamedTuple):
    """`signature` is zero but for its first place (all bits), `codes` is zero; both are left so."""

    signature: np.ndarray
    codes: np.ndarray
    candidates: np.ndarray
    """Room for all entries."""


NO_OFFSETS = np.zeros(0, np.int64)
"""In the place of offsets where there is one event."""


def count_order(keys: NDArray[np.int64], bins: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the clauses in the order of their keys, and where each key's run starts. numpy allocates, in large pages: in the kernel, the
    page faults took longer than the sorting."""
    starts, order = np.zeros(bins + 2, np.int64), np.empty(len(keys), np.int64)
    sort_by_count(keys, starts, order)
    return order, starts


@compiled
def sort_by_count(keys, starts, order):
    """`starts` is zeroed; while keys are placed, starts[key + 1] is where the next clause of that key goes."""
    bins = len(starts) - 2
    for clause in range(len(keys)):
        starts[keys[clause] + 2] += 1
    for key in range(1, bins + 1):
        starts[key + 1] += starts[key]
    for clause in range(len(keys)):
        key = keys[clause] + 1
        order[starts[key]] = clause
        starts[key] += 1


@compiled
def fill_directory(starts, base, top, directory):
    spread = len(directory) // 4
    for column in range(len(top)):
        for code in range(top[column] + 1):
            entry = base[column] + code
            ranges = spread + 2 * base[column]
            directory[4 * entry] = starts[entry]
            directory[4 * entry + 1] = starts[entry + 1]
            directory[4 * entry + 2] = starts[ranges + code]
            directory[4 * entry + 3] = starts[ranges + (top[column] + 1) + code + 1]


@inlined
def _ask_directory(first, last, column, code, base, directory, bucket):
    for cell in range(first, last):
        place = base[column[cell]] + code[cell]
        prefetch(directory, place * 4)
        prefetch(bucket, place)


@inlined
def _ask_runs(first, last, column, code, base, directory, entries):
    for cell in range(first, last):
        run = (base[column[cell]] + code[cell]) * 4
        prefetch(entries, 4 * np.int64(directory[run]))
        prefetch(entries, 4 * np.int64(directory[run + 2]))
        prefetch(entries, 4 * np.int64(directory[run + 3]) - 4)


@inlined
def _may_hold(entry, entries, signature):
    one, other = entries[4 * entry], entries[4 * entry + 1]
    return ((signature[one >> 16] & one) != 0) & ((signature[other >> 16] & other) != 0)


@inlined
def _note_codes(first, last, cells, lists, scratch):
    """Enters an event's codes and the buckets that they are in."""
    column, code, base, bucket = cells.column, cells.code, lists.base, lists.bucket
    signature, codes = scratch.signature, scratch.codes
    for cell in range(first, last):
        place = column[cell]
        signature[1 + place % SLOTS] |= np.uint16(1 << bucket[base[place] + code[cell]])
        codes[place] = code[cell]


@inlined
def _forget_codes(first, last, cells, scratch):
    column, signature, codes = cells.column, scratch.signature, scratch.codes
    for cell in range(first, last):
        signature[1 + column[cell] % SLOTS] = 0
        codes[column[cell]] = 0


@inlined
def _find_candidates(first, last, cells, lists, scratch):
    """Lists the entries that an event's codes meet and whose two tests may hold. Returns how many there are."""
    column, code, base = cells.column, cells.code, lists.base
    directory, entries = lists.directory, lists.entries
    signature, candidates = scratch.signature, scratch.candidates
    found = 0
    for cell in range(first, last):
        place = (base[column[cell]] + code[cell]) * 4
        for run in range(place, place + 4, 2):
            for entry in range(directory[run], directory[run + 1]):
                candidates[found] = entry
                found += _may_hold(entry, entries, signature)  # no branch: most fail, but not predictably
    for entry in range(lists.universal, len(entries) // 4):
        candidates[found] = entry
        found += _may_hold(entry, entries, signature)
    return found


@inlined
def _first_range(directory):
    """Of an entry by value the pivot holds as it is met; behind the last of them are runs of ranges."""
    return 4 * np.int64(directory[len(directory) - 3]) if len(directory) else 0


@inlined
def _take_matches(found, posted, lists, scratch, out, filled):
    """Appends the owners of the candidates whose clauses hold. Returns how many there are in `out` then."""
    entries, words = lists.entries, lists.words
    codes, candidates = scratch.codes, scratch.candidates
    for candidate in range(found):
        entry = 4 * candidates[candidate]
        start = np.int64(entries[entry + 3])
        if candidate + AHEAD < found:
            ahead = np.int64(entries[4 * candidates[candidate + AHEAD] + 3])
            if not ahead & PROVEN:
                prefetch(words, ahead)
                prefetch(words, ahead + TYPICAL_ROW)
        out[filled] = entries[entry + 2]
        filled += True if start & PROVEN else row_holds(start, entry < posted, words, codes)
    return filled


@inlined
def _match_alike(first_event, cells, lists, out_offsets, out):
    """`match_events` where entries are alike: an event makes their two tests once, and all entries that its codes meet are matches."""
    offsets, column, code = cells.offsets, cells.column, cells.code
    base, bucket, directory, entries = lists.base, lists.bucket, lists.directory, lists.entries
    events, count, universal = len(offsets) - 1, len(entries) // 4, np.int64(lists.universal)
    slots = np.int64(entries[0] >> 16), np.int64(entries[1] >> 16)
    masks = np.int64(entries[0] & NO_TEST), np.int64(entries[1] & NO_TEST)
    filled = out_offsets[first_event]
    for event in range(first_event, events):
        first, last = offsets[event], offsets[event + 1]
        one = masks[0] if slots[0] == 0 else 0
        other = masks[1] if slots[1] == 0 else 0
        needed = count - universal
        for cell in range(first, last):
            place = base[column[cell]] + code[cell]
            slot = column[cell] + 1
            if slot == slots[0]:
                one |= masks[0] >> bucket[place] & 1
            if slot == slots[1]:
                other |= masks[1] >> bucket[place] & 1
            run = 4 * place
            needed += np.int64(directory[run + 1]) - np.int64(directory[run])
            needed += np.int64(directory[run + 3]) - np.int64(directory[run + 2])
        if one != 0 and other != 0:
            if filled + needed > len(out):
                return event, needed
            for cell in range(first, last):
                place = 4 * (base[column[cell]] + code[cell])
                for run in range(place, place + 4, 2):
                    for entry in range(np.int64(directory[run]), np.int64(directory[run + 1])):
                        out[filled] = entries[4 * entry + 2]
                        filled += 1
            for entry in range(universal, count):
                out[filled] = entries[4 * entry + 2]
                filled += 1
        out_offsets[event + 1] = filled
    return events, 0


@inlined
def _met(first, last, column, code, base, directory):
    """Returns how many entries an event's codes lead to."""
    met = np.int64(0)
    for cell in range(first, last):
        run = (base[column[cell]] + code[cell]) * 4
        met += np.int64(directory[run + 1]) - np.int64(directory[run])
        met += np.int64(directory[run + 3]) - np.int64(directory[run + 2])
    return met


@compiled
def count_met(cells, events, base, directory):
    """Returns how many entries the codes of the first `events` lead to, those without a pivot left out."""
    offsets, column, code = cells
    return _met(0, offsets[events], column, code, base, directory)


@compiled
def match_event(column, code, lists, scratch, most):
    """Owners of the clauses that one event matches, in a new array, and how many entries it visits. If these are more than `most`, it is
    not matched."""
    cells, lists, scratch = Cells(NO_OFFSETS, column, code), PivotLists(*lists), Scratch(*scratch)
    last = len(column)
    _ask_directory(0, last, column, code, lists.base, lists.directory, lists.bucket)
    met = _met(0, last, column, code, lists.base, lists.directory) + len(lists.entries) // 4 - np.int64(lists.universal)
    if met > most:
        return np.empty(0, np.int64), met
    _note_codes(0, last, cells, lists, scratch)
    found = _find_candidates(0, last, cells, lists, scratch)
    out = np.empty(found, np.int64)
    filled = _take_matches(found, _first_range(lists.directory), lists, scratch, out, 0)
    _forget_codes(0, last, cells, scratch)
    return out[:filled], met


@compiled
def match_events(first_event, cells, lists, scratch, out_offsets, out):
    """Owners of matching clauses, event by event from `first_event` on. Returns the first event that no longer fits `out` and how many
    places it may need. Cells, PivotLists and Scratch come as plain tuples: a NamedTuple takes 30 µs to pass from Python."""
    cells, lists, scratch = Cells(*cells), PivotLists(*lists), Scratch(*scratch)
    if lists.alike:
        return _match_alike(first_event, cells, lists, out_offsets, out)
    # An array that is read out of a struct takes a reference to it, atomically: once here, not in every step of a loop.
    offsets, column, code = cells.offsets, cells.column, cells.code
    base, bucket, directory, entries = lists.base, lists.bucket, lists.directory, lists.entries
    events, posted = len(offsets) - 1, _first_range(directory)
    filled = out_offsets[first_event]
    for event in range(first_event, min(first_event + 2, events)):
        _ask_directory(offsets[event], offsets[event + 1], column, code, base, directory, bucket)
    for event in range(first_event, events):
        first, last = offsets[event], offsets[event + 1]
        # Two events ahead the directory is asked for, one ahead, when it has come, the runs it points at.
        if event + 2 < events:
            _ask_directory(offsets[event + 2], offsets[event + 3], column, code, base, directory, bucket)
        if event + 1 < events:
            _ask_runs(last, offsets[event + 2], column, code, base, directory, entries)
        _note_codes(first, last, cells, lists, scratch)
        found = _find_candidates(first, last, cells, lists, scratch)
        fits = filled + found <= len(out)
        if fits:
            filled = _take_matches(found, posted, lists, scratch, out, filled)
        _forget_codes(first, last, cells, scratch)
        if not fits:
            return event, found
        out_offsets[event + 1] = filled
    return events, 0
