"""REIN (Qian, Cao, Zhu, Li; INFOCOM 2014): mark what cannot match, keep what is not marked.

Section IV.C: two bucket lists per attribute, of low and of high bounds. Section IV.D, Fig. 4: the event's value falls into one bucket of
each; all buckets beyond it are marked in a bit set without a comparison, and only in that one bucket bounds are compared.

What is different here, and why:

- Fig. 3's doubling of values, which makes room for a cube around a point, is what the code space already is (columns/coding.py): operands
  have odd places and gaps even ones, so `bound < code` and `bound > code` decide exactly, and the cube has shrunk to the code again.
- A bucket is a run of an array instead of a vector of its own (kernels/papers/bucket_lists.py): marking "all buckets after b" is one loop
over 16-bit ids.
- The bit set covers a block of 65,536 clauses, 8 KB, which stays in the first-level cache while it is marked at random.
- A test of several intervals (a set, `!=`, `not between`) is in the bucket lists with its hull, and each of its gaps is two boundaries that
  toggle a bit (kernels/papers/gap_toggles.py): a value in a gap marks the clause as one outside the hull does.
- Attributes may be absent. Absence is code 0, below every bound that needs a value, so the low list marks all of those clauses. A bound
  that excludes nothing is in no list, and so a clause without tests is never marked.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced, numbers_of, values_of
from ray_pubsub.engines.papers.coded_segment import BLOCK, CodedSegment, events_of
from ray_pubsub.engines.papers.gap_lists import gap_toggles
from ray_pubsub.kernels.papers.bucket_lists import (
    WORD,
    BucketIndex,
    BucketList,
    Grid,
    Scratch,
    bucket_grid,
    bucket_list,
    mark_excluded,
    mark_run,
    match_buckets,
)
from ray_pubsub.kernels.papers.gap_toggles import exclude_gaps

__all__ = ["ReinSegment"]

BUCKETS = 1024
"""Per list; Fig. 9's best is 1,000 for two million subscriptions. Cells are a power of two wide, so there may be half as many."""
SHARE = 16
"""Bounds per bucket at least, so that a rarely tested attribute has few buckets."""


class ReinSegment(CodedSegment):
    """`buckets`: the largest number of buckets per list."""

    engine = "rein"
    _toggles_gaps = True

    def __init__(
        self,
        table: ClauseTable,
        vocabulary: Vocabulary,
        frequency: Frequency = None,
        *,
        buckets: int = BUCKETS,
        block: int = BLOCK,
    ) -> None:
        assert block <= BLOCK, "a clause's number within its block fits 16 bits"
        self._buckets = buckets
        self._block = block
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        top, count = coded.space.top, len(coded.offsets) - 1
        blocks = max(1, -(-count // self._block))
        grid = Grid(*bucket_grid(coded.column, top, blocks, self._buckets, SHARE))
        tests = (coded.offsets, coded.column)
        lows = BucketList(*bucket_list(*tests, coded.low, np.zeros_like(top), self._block, grid))
        highs = BucketList(*bucket_list(*tests, coded.high, top, self._block, grid))
        gaps = gap_toggles(coded, np.arange(count), self._block)
        self._index = BucketIndex(grid, lows, highs, self._block, gaps)

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, dtype=np.int64)
        out = np.empty(min(self._block, len(self)) + 64 * events, dtype=np.int32)
        event = 0
        while event < events:
            event, needed = match_buckets(
                self._index, len(self), events_of(codes), event, self._scratch(), offsets, out
            )
            if event < events:
                out = np.concatenate([out, np.empty(len(out) + needed, dtype=np.int32)])
        return offsets, out[: offsets[-1]]

    def _trace(self, codes: EventCodes) -> Traced:
        """Traces a match. REIN estimates nothing: columns come in the order of their numbers, and only the bounds of one bucket in each
        list are compared."""
        values = values_of(codes, self.coded.space.columns)
        grid, lows, highs, block, gaps = self._index
        count, cells = len(self), int(grid.first[-1])
        starts = range(0, count, block)
        marked = np.zeros((len(starts), -(-min(block, count) // WORD)), np.uint64)
        trace = Trace("all clauses", count)
        for columns in _turns(values):
            touched = 0
            for place, bits in enumerate(marked):
                base = place * cells + grid.first
                if values[columns[0]] == 0:
                    ids = lows.ids[slice(*lows.starts[[base[columns[0]], base[columns[-1] + 1]]])]
                    mark_run(ids, bits)
                    touched += len(ids)
                else:
                    column = columns[0]
                    mark_excluded(column, values[column], place * cells, grid, lows, highs, bits)
            left = count - int(np.bitwise_count(marked).sum())
            if values[columns[0]] > 0:
                bucket, buckets = (
                    int(values[columns[0]]) >> int(grid.shift[columns[0]]),
                    np.diff(grid.first)[columns[0]],
                )
                trace.add(self._named(*columns), f"bucket {bucket} of {buckets} compared, others marked", left)
            elif touched:
                trace.add(self._named(*columns), "absent: all marked", left)
        alive, sizes, asked = ~marked, [min(block, count - start) for start in starts], 0
        for place, bits in enumerate(alive):
            asked += exclude_gaps(gaps, values, place, -(-sizes[place] // WORD), np.empty_like(bits), bits)
        numbers = [start + numbers_of(bits, size) for start, bits, size in zip(starts, alive, sizes, strict=True)]
        if asked:
            trace.add(self._named(*gaps.columns), "gaps toggled", sum(map(len, numbers)))
        trace.numbers = np.concatenate([np.empty(0, np.int64), *numbers])
        return Traced(Partitions("blocks", len(starts), 0, count, 0), [trace], 0)

    def _details(self) -> dict[str, int]:
        return {
            "buckets": int(self._index.grid.first[-1]),
            "bounds": len(self._index.lows.ids) + len(self._index.highs.ids),
        }

    def _new_scratch(self) -> Scratch:
        words = -(-min(self._block, len(self)) // WORD)
        return Scratch(np.zeros(self.coded.space.columns, dtype=np.int32), *np.empty((2, words), dtype=np.uint64))


def _turns(values: NDArray[np.int32]) -> list[range]:
    """Returns the columns in the kernel's order: adjacent absent columns together, every other column alone."""
    turns: list[range] = []
    for column, value in enumerate(values.tolist()):
        if value == 0 and turns and values[turns[-1][0]] == 0:
            turns[-1] = range(turns[-1][0], column + 1)
        else:
            turns.append(range(column, column + 1))
    return turns
