"""Ids of events that have none of their own, which are the same when Spark runs a task again, whatever order its rows come in."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from actors.event_content import pack_event
from spark_bridge.task_place import TaskPlace

__all__ = ["ContentIds", "row_numbers"]

PARTITION_BITS = 33
"""As Spark's monotonically_increasing_id has it."""


def row_numbers(place: TaskPlace, first: int, count: int) -> Any:
    """Distinct within one run of a DataFrame, and no more than that."""
    start = (place.rows_of << PARTITION_BITS) + first
    return pa.array(np.arange(start, start + count))


class ContentIds:
    """A digest of the row, of the micro-batch (or the job) and partition it is in, and of how many equal rows came before it there.

    Without the partition, equal rows of two partitions would be taken for one event, and lost. With it, a batch that is cut otherwise
    when it is repeated is delivered again: rather twice than never.
    """

    def __init__(self, place: TaskPlace, otherwise: str) -> None:
        self._prefix = f"{place.scope(otherwise)}/".encode()
        self._seen: Counter[bytes] = Counter()

    def of(self, rows: Any) -> NDArray[Any]:
        """A str for each row."""
        ids = np.empty(rows.num_rows, object)
        for place, row in enumerate(rows.to_pylist(maps_as_pydicts="lossy")):
            content = xxhash.xxh3_128_digest(pack_event(row, place))
            before = self._seen[content]
            self._seen[content] = before + 1
            ids[place] = xxhash.xxh3_128_hexdigest(self._prefix + content + b"%d" % before)
        return ids
