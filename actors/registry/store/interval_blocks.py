"""The stored form of subscriptions given as intervals: thousands in one row of the database, in Arrow's format.

A single one is rarely read, but a shard that starts reads all of its own. One database row per subscription would cost more time than
everything else that the shard does; a block is used as it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.storage.database import Session, content_of
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.model.id_column import ids_of

__all__ = ["Block", "Chosen", "alive", "chosen_blocks", "cut", "expressions_of", "packed_table", "rows_of"]

BLOCK_SIZE = 16_384
"""The number of subscriptions in a block. Reading one of them means reading its block, a few megabytes."""


@dataclass(slots=True, eq=False)
class Block:
    """The subscriptions of a block, including the dead ones. Numbers ascend."""

    numbers: NDArray[np.int64]
    ids: NDArray[Any]
    subscribers: NDArray[np.int32]
    routes: NDArray[np.int32]
    parts: NDArray[np.uint8]
    lengths: NDArray[np.int32]
    """The number of rows of each subscription."""
    shards: NDArray[np.int16]

    def packed(self) -> bytes:
        """Packs everything except the shards."""
        columns = {
            "number": self.numbers,
            "id": pa.array(self.ids.tolist(), pa.string()) if self.ids.dtype == object else self.ids,
            "subscriber": self.subscribers,
            "route": self.routes,
            "part": self.parts,
            "length": self.lengths,
        }
        return packed_table(pa.table(columns))

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

    def only(self, chosen: NDArray[np.bool_] | NDArray[np.int64]) -> Block:
        """Returns a block of some of the subscriptions, with arrays of its own."""
        return Block(
            self.numbers[chosen], self.ids[chosen], self.subscribers[chosen], self.routes[chosen], self.parts[chosen],
            self.lengths[chosen], self.shards[chosen],
        )  # fmt: skip


def cut(block: Block, rows: Any) -> Iterator[tuple[Block, Any]]:
    """Cuts a large block into blocks of the usual size, each with its rows."""
    offsets = np.concatenate([[0], np.cumsum(block.lengths, dtype=np.int64)])
    for start in range(0, len(block.numbers), BLOCK_SIZE):
        end = min(start + BLOCK_SIZE, len(block.numbers))
        # Copies: slices would keep the arrays of the whole load in memory as long as one block of it is there.
        yield block.only(np.arange(start, end)), rows.slice(int(offsets[start]), int(offsets[end] - offsets[start]))


class Chosen(NamedTuple):
    """A block of the store, with a mask of the chosen subscriptions."""

    key: int
    block: Block
    chosen: NDArray[np.bool_]
    version: int


def chosen_blocks(connection: Session, choose: Callable[[Block], Any], lowest: int = 0) -> Iterator[Chosen]:
    """Yields the blocks that have chosen, living subscriptions. `lowest` is the lowest number that can be chosen."""
    asked = "SELECT block, version, subscriptions, shards FROM blocks WHERE last >= ? ORDER BY first"
    for key, version, subscriptions, shards in connection.execute(asked, (lowest,)).fetchall():
        with content_of(f"block {key}"):
            block = Block.unpacked(subscriptions, shards)
        chosen = choose(block)
        if chosen.any():
            chosen = chosen & alive(connection, block)
            if chosen.any():
                yield Chosen(key, block, chosen, version)


def alive(connection: Session, block: Block) -> NDArray[np.bool_]:
    """Returns a mask of the subscriptions of a block that were not removed."""
    numbers = block.numbers
    dead = connection.execute(
        "SELECT number FROM dead WHERE number BETWEEN ? AND ?", (int(numbers[0]), int(numbers[-1]))
    ).fetchall()
    living = np.ones(len(numbers), dtype=np.bool_)
    living[np.searchsorted(numbers, np.array([number for (number,) in dead], dtype=np.int64))] = False
    return living


def rows_of(connection: Session, key: int, block: Block, chosen: NDArray[np.bool_]) -> Any:
    """Returns the rows of some subscriptions of a block as the table that `MatchIndex.add_predicates` takes, with the number as id."""
    (content,) = connection.execute("SELECT rows FROM block_rows WHERE block = ?", (key,)).fetchone()
    numbers, lengths = block.numbers, block.lengths
    with content_of(f"the rows of block {key}"):
        rows = _unpacked(content)
        if not chosen.all():
            rows = rows.filter(pa.array(np.repeat(chosen, lengths)))
            numbers, lengths = numbers[chosen], lengths[chosen]
        return rows.add_column(0, "id", pa.array(np.repeat(numbers, lengths)))


def expressions_of(rows: Any, numbers: Sequence[int]) -> list[str]:
    """Returns the subscriptions of such a table as expressions."""
    table = PredicateTable(rows)
    table.first_slot = 0
    places = {int(number): place for place, number in enumerate(table.ids)}
    return [table.text_at(places[number]) for number in numbers]


def packed_table(table: Any) -> bytes:
    """Serialises a table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _unpacked(content: bytes) -> Any:
    """Reads and validates a table: damaged offsets would make Arrow read memory outside of it."""
    table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
    table.validate(full=True)
    return table.combine_chunks()
