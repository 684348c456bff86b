"""Generates ids for events without an id. They are the same when Spark repeats a task, even if its rows come in another order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from actors.mailboxes.event_content import pack_event
from spark_bridge.task_place import TaskPlace

__all__ = ["ContentIds", "row_numbers"]

PARTITION_BITS = 33
"""The same number as in Spark's monotonically_increasing_id."""


def row_numbers(place: TaskPlace, first: int, count: int) -> Any:
    """Row numbers that are distinct within one run of a DataFrame."""
    start = (place.rows_of << PARTITION_BITS) + first
    return pa.array(np.arange(start, start + count))


class ContentIds:
    """Ids made of a digest of the row, of its micro-batch (or job) and partition, and of the number of equal rows before it there.

    Without the partition, equal rows of two partitions would be taken for one event, and one would be lost. With it, a batch that is split
    differently when it is repeated is delivered again: delivering twice is better than never.
    """

    def __init__(self, place: TaskPlace, otherwise: str) -> None:
        self._prefix = f"{place.scope(otherwise)}/".encode()
        self._seen: Counter[bytes] = Counter()

    def of(self, rows: Any) -> NDArray[Any]:
        """Returns a str for each row."""
        ids = np.empty(rows.num_rows, object)
        for place, row in enumerate(rows.to_pylist(maps_as_pydicts="lossy")):
            content = xxhash.xxh3_128_digest(pack_event(row, place))
            before = self._seen[content]
            self._seen[content] = before + 1
            ids[place] = xxhash.xxh3_128_hexdigest(self._prefix + content + b"%d" % before)
        return ids
