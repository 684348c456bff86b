"""Checks clauses with tests of several intervals: the dense engines match the hull, this module excludes the gaps."""

from __future__ import annotations

from typing import Any, NamedTuple

from ray_pubsub.kernels.compiled import compiled

__all__ = ["Gaps", "keep_inside"]


class Gaps(NamedTuple):
    """The tests of several intervals, by clause."""

    offsets: Any
    column: Any
    pieces: Any
    """Test → the number k of its pieces, which are piece_offsets[k]:piece_offsets[k + 1]."""
    piece_offsets: Any
    piece_low: Any
    piece_high: Any
    holed: Any
    """Clause → whether it has such a test."""


@compiled
def keep_inside(cells, gaps, values, offsets, numbers):
    """Takes out, in place, the matches whose event's code lies in a hole. `cells`: offsets, columns and codes of the events; `gaps`: Gaps.
    Both are plain tuples (kernels/pivot/pivot_lists.py). `values` is zero, and is left so."""
    event_offsets, column, code = cells
    clause_offsets, test_column, test_pieces, piece_offsets, piece_low, piece_high, holed = Gaps(*gaps)
    target = 0
    start = 0
    for event in range(len(offsets) - 1):
        for cell in range(event_offsets[event], event_offsets[event + 1]):
            values[column[cell]] = code[cell]
        end = offsets[event + 1]
        for source in range(start, end):
            clause = numbers[source]
            numbers[target] = clause
            keep = True
            if holed[clause]:
                for test in range(clause_offsets[clause], clause_offsets[clause + 1]):
                    piece = test_pieces[test]
                    if piece >= 0:
                        value = values[test_column[test]]
                        inside = False
                        for number in range(piece_offsets[piece], piece_offsets[piece + 1]):
                            inside |= (value >= piece_low[number]) & (value <= piece_high[number])
                        keep &= inside
            target += keep
        start = end
        offsets[event + 1] = target
        for cell in range(event_offsets[event], event_offsets[event + 1]):
            values[column[cell]] = 0
