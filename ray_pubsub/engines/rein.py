"""REIN (Qian, Cao, Zhu, Li; INFOCOM 2014): mark what cannot match, keep what is not marked.

Section IV.C: two bucket lists per attribute, of low and of high bounds. Section IV.D, Fig. 4: the event's value falls into one bucket of
each; all buckets beyond it are marked in a bit set without a comparison, and only in that one bucket bounds are compared.

What is different here, and why:

- Fig. 3's doubling of values, which makes room for a cube around a point, is what the code space already is (columns/coding.py): operands
  have odd places and gaps even ones, so `bound < code` and `bound > code` decide exactly, and the cube has shrunk to the code again.
- A bucket is a run of an array instead of a vector of its own (kernels/bucket_lists.py): marking "all buckets after b" is one loop over
  16-bit ids.
- The bit set covers a block of 65,536 clauses, 8 KB, which stays in the first-level cache while it is marked at random.
- Attributes may be absent. Absence is code 0, below every bound that needs a value, so the low list marks all of those clauses. A bound
  that excludes nothing is in no list, and so a clause without tests is never marked.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.coded_segment import BLOCK, CodedSegment
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.plan import Partitions
from ray_pubsub.engines.trace import Trace, Traced, numbers_of, values_of
from ray_pubsub.kernels.bucket_lists import (
    WORD,
    BucketList,
    Grid,
    bucket_grid,
    bucket_list,
    mark_excluded,
    mark_run,
    match_buckets,
)

__all__ = ["ReinSegment"]

BUCKETS = 1024
"""Per list; Fig. 9's best is 1,000 for two million subscriptions. Cells are a power of two wide, so there may be half as many."""
SHARE = 16
"""Bounds per bucket at least, so that a rarely tested attribute has few buckets."""


class ReinSegment(CodedSegment):
    """Immutable. `match` may run in several threads at once: scratch is per thread."""

    engine = "rein"

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
        self._scratch = threading.local()
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        top, count = coded.space.top, len(coded.offsets) - 1
        blocks = max(1, -(-count // self._block))
        self._grid = Grid(*bucket_grid(coded.column, top, blocks, self._buckets, SHARE))
        tests = (coded.offsets, coded.column)
        self._lows = BucketList(*bucket_list(*tests, coded.low, np.zeros_like(top), self._block, self._grid))
        self._highs = BucketList(*bucket_list(*tests, coded.high, top, self._block, self._grid))

    def _match(self, codes: EventCodes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        events = len(codes.offsets) - 1
        offsets = np.zeros(events + 1, dtype=np.int64)
        out = np.empty(min(self._block, len(self)) + 64 * events, dtype=np.int32)
        event = 0
        while event < events:
            event, needed = match_buckets(
                event, codes.offsets, codes.column, codes.code, self._grid, self._lows, self._highs,
                self._block, len(self), *self._buffers(), offsets, out,
            )  # fmt: skip
            if event < events:
                out = np.concatenate([out, np.empty(len(out) + needed, dtype=np.int32)])
        return offsets, out[: offsets[-1]]

    def _trace(self, codes: EventCodes) -> Traced:
        """REIN estimates nothing: columns come as they are numbered, and nothing is compared but the bounds of one bucket in each list."""
        values = values_of(codes, self.coded.space.columns)
        count, block, cells = len(self), self._block, int(self._grid.first[-1])
        starts = range(0, count, block)
        marked = np.zeros((len(starts), -(-min(block, count) // WORD)), np.uint64)
        trace = Trace("all clauses", count)
        for columns in _turns(values):
            touched = 0
            for place, bits in enumerate(marked):
                base = place * cells + self._grid.first
                if values[columns[0]] == 0:
                    ids = self._lows.ids[slice(*self._lows.starts[[base[columns[0]], base[columns[-1] + 1]]])]
                    mark_run(ids, bits)
                    touched += len(ids)
                else:
                    column = columns[0]
                    mark_excluded(column, values[column], place * cells, self._grid, self._lows, self._highs, bits)
            left = count - int(np.bitwise_count(marked).sum())
            if values[columns[0]] > 0:
                trace.add(self._named(*columns), "other buckets marked", left)
            elif touched:
                trace.add(self._named(*columns), "absent: all marked", left)
        numbers = [
            start + numbers_of(~bits, min(block, count - start)) for start, bits in zip(starts, marked, strict=True)
        ]
        trace.numbers = np.concatenate([np.empty(0, np.int64), *numbers])
        return Traced(Partitions("blocks", len(starts), 0, count, 0), [trace], 0)

    def _index_bytes(self) -> int:
        return sum(array.nbytes for part in (self._grid, self._lows, self._highs) for array in part)

    def _buffers(self) -> tuple[Any, ...]:
        """Codes of the event by column, and the bit set of a block."""
        buffers: tuple[Any, ...] | None = getattr(self._scratch, "buffers", None)
        if buffers is None:
            codes = np.zeros(self.coded.space.columns, dtype=np.int32)
            buffers = (codes, np.empty(-(-min(self._block, len(self)) // WORD), dtype=np.uint64))
            self._scratch.buffers = buffers
        return buffers


def _turns(values: NDArray[np.int32]) -> list[range]:
    """The columns as the kernel takes them: neighbours that are absent at once, every other alone."""
    turns: list[range] = []
    for column, value in enumerate(values.tolist()):
        if value == 0 and turns and values[turns[-1][0]] == 0:
            turns[-1] = range(turns[-1][0], column + 1)
        else:
            turns.append(range(column, column + 1))
    return turns
