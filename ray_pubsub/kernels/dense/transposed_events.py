"""Prepares a batch of events for the transposed kernel (kernels/dense/transposed_match.py); coded once for all groups of a segment."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.dense.bitmaps import buckets_of_codes
from ray_pubsub.kernels.dense.clustering import EDGES
from ray_pubsub.kernels.dense.transposed_rows import ROWS

__all__ = ["EventBits", "code_event_bits"]

ONE = np.uint64(1)


class EventBits(NamedTuple):
    """Arrays for a number of events."""

    rests: Any
    """int32[event, column]: the codes of the space, less the least that has the same byte; nothing where the event has none."""
    keys: Any
    """uint8[event, lane]: a clause's byte is compared with this one; 255 where there is no lane, up to a multiple of 32."""
    unsure: Any
    """uint32[event, lane / 32]: lanes in which equal bytes do not decide."""
    low_row: Any
    """uint8[column, event]: row in the column's low lane. The row in its high lane is 64 - that, at most 63."""
    passing: Any
    """uint64[lane, row, word]: events in this row or above."""


@compiled
def code_event_bits(first, offsets, column, code, edges, least, bits):
    """Fills `bits` with as many events, from event `first` on, as it has room for."""
    columns = edges.shape[0]
    rests, keys, unsure, low_row, passing = bits
    events = len(keys)
    row_of_code = buckets_of_codes(ROWS)
    keys[:] = 255
    keys[:, :columns] = 0
    unsure[:] = 0
    low_row[:] = 0
    for event in range(events):
        for cell in range(offsets[first + event], offsets[first + event + 1]):
            place, value = np.int64(column[cell]), code[cell]
            below, above = 0, EDGES
            while below < above:
                middle = (below + above) >> 1
                if edges[place, middle] <= value:
                    below = middle + 1
                else:
                    above = middle
            byte = below + 1
            rests[event, place] = value - least[place, byte]
            keys[event, place] = byte
            keys[event, columns + place] = 255 - byte
            for lane in (place, columns + place):
                unsure[event, lane >> 5] |= np.uint32(1) << np.uint32(lane & 31)
            low_row[place, event] = row_of_code[byte]
    passing[:] = 0
    for place in range(columns):
        lows, highs = passing[place], passing[columns + place]
        for event in range(events):
            lows[low_row[place, event], event >> 6] |= ONE << np.uint64(event & 63)
        for word in range(passing.shape[2]):
            gathered = lows[0, word]
            for row in range(1, ROWS):
                gathered |= lows[row, word]
                highs[ROWS - row, word] = gathered
            highs[0, word] = gathered
            for row in range(ROWS - 2, -1, -1):
                lows[row, word] |= lows[row + 1, word]
