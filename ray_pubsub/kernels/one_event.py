"""One event against all that was added lately: dense segments, tails, and what of the matches was removed, in one call. Every return from
a kernel may have to wait until a writer lets go of the GIL, so there is one."""

from __future__ import annotations

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense_run import append_dense_run
from ray_pubsub.kernels.hits import visible_of_event
from ray_pubsub.kernels.tail import ABSENT, match_tail_event

__all__ = ["TAIL_FIELDS", "match_one_event"]

TAIL_FIELDS = 4
"""Of a sealed tail: its clauses, and the addresses of offsets, tests and owners."""


@compiled
def match_one_event(
    segments, lane_whole, lane_rest, texts, live, lines, bits, places,
    others, count, offsets_at, tests_at, owners_at, sealed, attribute, cell_kind, cell_whole, cell_rest, kind, whole, rest,
    filtered, died, version, flags, marks, seen, turn,
):  # fmt: skip
    """The visible slots of all matching clauses, and whether one of them needs its expression asked. The first line of arguments is
    append_dense_run's; `others`: slots found elsewhere; then the tail, sealed tails as int64[tails * TAIL_FIELDS], the event's cells and
    the scratch as for match_tail; all tests of the tails are records. The last line is visible_of_event's, unless not `filtered`."""
    room = len(others) + count + 1
    for tail in range(0, len(sealed), TAIL_FIELDS):
        room += sealed[tail]
    found, filled = append_dense_run(
        segments, lane_whole, lane_rest, texts, live, lines, bits, places, np.empty(room, np.int64), 0
    )
    if filled + room > len(found):
        grown = np.empty(filled + room, np.int64)
        grown[:filled] = found[:filled]
        found = grown
    found[filled : filled + len(others)] = others
    filled += len(others)
    if count or len(sealed):
        for cell in range(len(attribute)):
            number = attribute[cell]
            if number >= 0:
                kind[number], whole[number], rest[number] = cell_kind[cell], cell_whole[cell], cell_rest[cell]
        no_verdict = np.empty(0, np.bool_)
        for tail in range(0, len(sealed), TAIL_FIELDS):
            filled = match_tail_event(
                sealed[tail], sealed[tail + 1], sealed[tail + 2], sealed[tail + 3], no_verdict,
                kind, whole, rest, found, filled,
            )  # fmt: skip
        filled = match_tail_event(count, offsets_at, tests_at, owners_at, no_verdict, kind, whole, rest, found, filled)
        for cell in range(len(attribute)):
            if attribute[cell] >= 0:
                kind[attribute[cell]] = ABSENT
    residual = False
    if filtered:
        filled, residual = visible_of_event(found, 0, filled, died, version, flags, marks, seen, turn, found, 0)
    return found[:filled], residual
