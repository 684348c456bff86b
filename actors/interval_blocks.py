"""Subscriptions given as intervals, as the registry keeps them: thousands in one value, in Arrow's format.

Nobody reads a single one of them on a hot path, but a shard that starts reads all of its own. A row per subscription in the database
would cost more time than everything else the shard does; a block is read as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ray_pubsub.errors import Rejection, TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.index.interval_columns import checked_table, group_by_id
from ray_pubsub.index.predicate_table import PredicateTable
from ray_pubsub.model.id_column import ids_of

__all__ = ["Block", "IntervalLoad", "packed_rows", "read_intervals", "unpacked_rows"]

BLOCK_SIZE = 16_384
"""Subscriptions in a block. To read one of them is to read its block, a few megabytes."""
BOUNDS = ("attribute", "low", "high", "low_closed", "high_closed")


@dataclass(slots=True, eq=False)
class IntervalLoad:
    """A table of intervals, read and checked: subscription i has the id `ids[i]` and the rows offsets[i]:offsets[i + 1]."""

    predicates: PredicateTable
    """The same for `PivotChooser.routes_of_rows`."""
    ids: NDArray[Any]
    offsets: NDArray[np.int64]
    rows: Any
    """A pyarrow Table: attribute, low, high and, if given, low_closed, high_closed."""
    subscribers: str | list[str]
    """Of all, or of each."""
    rejections: list[Rejection]

    def __len__(self) -> int:
        return len(self.ids)


def read_intervals(table: Any, subscriber: str | None = None) -> IntervalLoad:
    """Reads what `MatchIndex.add_predicates` takes, with a column `subscriber` unless one is given for all. Raises TableError; a
    subscription with a bad bound is among the rejections, and the others are in."""
    table = as_arrow_table(table, "predicates")
    predicates = PredicateTable(table)
    rows = checked_table(table)
    names = None
    if subscriber is None:
        if "subscriber" not in table.column_names:
            raise TableError("subscriber", "missing; say who subscribes in a column, or for the whole table")
        names = table.column("subscriber")
        if names.null_count:
            raise TableError("subscriber", "has nulls")
        if not pa.types.is_string(names.type) and not pa.types.is_large_string(names.type):
            raise TableError("subscriber", f"subscribers are strings, not {names.type}")
        if pc.any(pc.equal(names, "")).as_py():
            raise TableError("subscriber", "has an empty name")
        rows = rows.append_column("subscriber", names.combine_chunks())
    if rows.num_rows:
        order, offsets, ids = group_by_id(rows.column("id").chunk(0))
        if order is not None:
            rows = rows.take(pa.array(order))
        if predicates.rejections:
            bad = {rejection.id for rejection in predicates.rejections}
            good = np.array([identity not in bad for identity in ids_of(ids).tolist()], dtype=np.bool_)
            rows = rows.filter(pa.array(np.repeat(good, np.diff(offsets))))
    owners: str | list[str] = subscriber or ""
    if names is not None:
        owners = rows.column("subscriber").take(pa.array(predicates.offsets[:-1])).to_pylist()
    return IntervalLoad(
        predicates,
        ids_of(predicates.ids),
        predicates.offsets,
        rows.select([name for name in BOUNDS if name in rows.column_names]).combine_chunks(),
        owners,
        predicates.rejections,
    )


@dataclass(slots=True, eq=False)
class Block:
    """The subscriptions of a block, all of them, the dead ones too. Numbers ascend."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    routes: NDArray[np.int32]
    parts: NDArray[np.uint8]
    lengths: NDArray[np.int32]
    """How many rows each has."""
    shards: NDArray[np.int16]

    def packed(self) -> bytes:
        """All but the shards."""
        columns = {
            "number": self.numbers,
            "id": pa.array(self.ids.tolist(), pa.string()) if self.ids.dtype == object else self.ids,
            "subscriber": self.subscribers,
            "route": self.routes,
            "part": self.parts,
            "length": self.lengths,
        }
        return _packed(pa.table(columns))

    @classmethod
    def unpacked(cls, subscriptions: bytes, shards: bytes) -> Block:
        table = _unpacked(subscriptions)
        ids = table.column("id")
        columns = [table.column(name).to_numpy() for name in ("number", "subscriber", "route", "part", "length")]
        numbers, subscribers, routes, parts, lengths = columns
        identities = ids_of(ids.to_pylist()) if pa.types.is_string(ids.type) else ids.to_numpy()
        return cls(numbers, identities, subscribers, routes, parts, lengths, np.frombuffer(shards, "<i2"))

    def packed_shards(self) -> bytes:
        return self.shards.astype("<i2").tobytes()

    def only(self, chosen: NDArray[np.bool_]) -> Block:
        """The block without the others."""
        return Block(
            self.numbers[chosen], self.ids[chosen], self.subscribers[chosen], self.routes[chosen], self.parts[chosen],
            self.lengths[chosen], self.shards[chosen],
        )  # fmt: skip

    def place(self, number: int) -> int:
        """Where in the block a number is; -1 if it is not."""
        place = int(np.searchsorted(self.numbers, number))
        return place if place < len(self.numbers) and self.numbers[place] == number else -1


def cut(block: Block, rows: Any) -> Iterator[tuple[Block, Any]]:
    """A large block as blocks of the usual size, each with its rows."""
    offsets = np.concatenate([[0], np.cumsum(block.lengths, dtype=np.int64)])
    for start in range(0, len(block.numbers), BLOCK_SIZE):
        end = min(start + BLOCK_SIZE, len(block.numbers))
        own = np.zeros(len(block.numbers), dtype=np.bool_)
        own[start:end] = True
        yield block.only(own), rows.slice(int(offsets[start]), int(offsets[end] - offsets[start]))


def packed_rows(rows: Any) -> bytes:
    """The rows of a block, as bytes."""
    return _packed(rows)


def unpacked_rows(content: bytes, block: Block, chosen: NDArray[np.bool_] | None = None) -> Any:
    """The rows of some subscriptions of a block, as the table that `MatchIndex.add_predicates` takes, the number as id."""
    rows = _unpacked(content)
    numbers, lengths = block.numbers, block.lengths
    if chosen is not None and not chosen.all():
        rows = rows.filter(pa.array(np.repeat(chosen, lengths)))
        numbers, lengths = numbers[chosen], lengths[chosen]
    return rows.add_column(0, "id", pa.array(np.repeat(numbers, lengths)))


def text_of(rows: Any, numbers: Sequence[int]) -> list[str]:
    """The subscriptions of such a table as they would be written."""
    table = PredicateTable(rows)
    table.first_slot = 0
    places = {int(number): place for place, number in enumerate(table.ids)}
    return [table.text_at(places[number]) for number in numbers]


def _packed(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> Any:
    return pa.ipc.open_stream(pa.py_buffer(content)).read_all().combine_chunks()
