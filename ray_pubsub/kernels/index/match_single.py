"""Matches one event against dense segments and tails and filters the visible matches, in one call, because every return from a kernel may
have to wait until a writer releases the GIL.

Passing an array from Python costs 0.06 µs, a record 0.3 µs, a NamedTuple 0.6 µs and more. So what outlives the call is passed as
addresses, in an array described by SCRATCH or SLOTS; what belongs to the event is passed as plain tuples. The caller keeps all memory
alive.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray

from ray_pubsub.kernels.compiled import compiled, inlined
from ray_pubsub.kernels.dense.check import DenseScratch
from ray_pubsub.kernels.dense.segment_group import append_dense_run
from ray_pubsub.kernels.index.hits import Visibility, visible_of_event
from ray_pubsub.kernels.index.tail import Cells, Tail, Values, clear_values, match_tail_event, put_values
from ray_pubsub.kernels.intrinsics import pointer_float64, pointer_int32, pointer_int64, pointer_uint8, pointer_uint64

__all__ = ["Scratch", "Slots", "match_single", "match_tails"]


class Slots(NamedTuple):
    """How many slots there are, and the addresses of what is known of each; see Visibility."""

    count: Any
    died: Any
    flags: Any
    marks: Any


class Scratch(NamedTuple):
    """How many attributes there is room for, and the addresses of Values' arrays; the address of Visibility's `seen`; addresses and lengths
    of the arrays that append_dense_run works in."""

    attributes: Any
    kind: Any
    whole: Any
    rest: Any
    seen: Any
    live: Any
    live_length: Any
    lines: Any
    lines_length: Any
    bits: Any
    bits_length: Any
    places: Any
    places_length: Any


@inlined
def _slots(given):
    return Slots(given[0], given[1], given[2], given[3])


@inlined
def _scratch(given):
    return Scratch(
        given[0], given[1], given[2], given[3], given[4], given[5], given[6], given[7], given[8], given[9], given[10],
        given[11], given[12],
    )  # fmt: skip


@inlined
def _room(others, newest, sealed):
    """For all that others and tails may add."""
    room = len(others) + newest.clauses + 1
    for number in range(len(sealed)):
        room += sealed[number, 0]
    return room


@inlined
def _append(target, filled, values, count):
    # Not a slice: numba compiles what writes the message about slices that do not fit, which takes longer than all the rest.
    for place in range(count):
        target[filled + place] = values[place]
    return filled + count


@inlined
def _visible(found, filled, newest, sealed, cells, work, slots, reader):
    """Appends what tails hold to `found`, and leaves what is visible."""
    given, verdict = Cells(cells[0], cells[1], cells[2], cells[3]), cells[4]
    version, turn, filtered = reader
    if newest.clauses or len(sealed):
        values = Values(
            carray(pointer_uint8(work.kind), (work.attributes,)),
            carray(pointer_int64(work.whole), (work.attributes,)),
            carray(pointer_float64(work.rest), (work.attributes,)),
        )
        put_values(given, 0, len(given.attribute), values)
        for number in range(len(sealed)):
            older = Tail(sealed[number, 0], sealed[number, 1], sealed[number, 2], sealed[number, 3])
            filled = match_tail_event(older, verdict, values, found, filled)
        filled = match_tail_event(newest, verdict, values, found, filled)
        clear_values(given, 0, len(given.attribute), values)
    residual = False
    if filtered:
        each = _slots(slots)
        known = Visibility(
            carray(pointer_int64(each.died), (each.count,)),
            carray(pointer_uint8(each.flags), (each.count,)),
            carray(pointer_uint8(each.marks), ((each.count + 3) // 4,)),
            version,
            carray(pointer_int64(work.seen), (each.count,)),
        )
        filled, residual = visible_of_event(found, 0, filled, known, turn, found, 0)
    return filled, residual


@compiled
def match_single(dense, others, tail, sealed, cells, scratch, slots, reader):
    """The visible slots of all matching clauses, and whether one of them needs its expression evaluated.

    `dense`: the segments and the event, as append_dense_run takes them; `others`: slots found elsewhere; `tail`: a Tail; `sealed`: further
    tails, int64[tail, field], whose tests are all records; `cells`: the fields of Cells, and per test of `tail` that is not a record
    whether it holds. `scratch`, `slots`: int64 arrays. `reader`: its version, the turn of this event, and whether any slot needs a look
    at all."""
    newest, work = Tail(*tail), _scratch(scratch)
    room = _room(others, newest, sealed)
    segments, whole, rest, texts = dense
    dense_scratch = DenseScratch(
        carray(pointer_uint64(work.live), (work.live_length,)), carray(pointer_int32(work.lines), (work.lines_length,)),
        carray(pointer_uint64(work.bits), (work.bits_length,)), carray(pointer_int32(work.places), (work.places_length,)),
    )  # fmt: skip
    found, filled = append_dense_run(segments, whole, rest, texts, dense_scratch, np.empty(room, np.int64), 0)
    if filled + room > len(found):
        grown = np.empty(filled + room, np.int64)
        _append(grown, 0, found, filled)
        found = grown
    filled = _append(found, filled, others, len(others))
    filled, residual = _visible(found, filled, newest, sealed, cells, work, slots, reader)
    return found[:filled], residual


@compiled
def match_tails(others, tail, sealed, cells, scratch, slots, reader):
    """The same for an index without dense segments, as every index is at first: compiled in a fraction of the time."""
    newest, work = Tail(*tail), _scratch(scratch)
    found = np.empty(_room(others, newest, sealed), np.int64)
    filled = _append(found, 0, others, len(others))
    filled, residual = _visible(found, filled, newest, sealed, cells, work, slots, reader)
    return found[:filled], residual
