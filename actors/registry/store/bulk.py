"""Adds or removes many subscriptions in one transaction of the registry, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry.changes import BulkAnswer, GoneColumns
from actors.registry.columns import TextColumns
from actors.registry.interval_load import IntervalLoad
from actors.registry.store.chunks import chunks
from actors.registry.store.interval_blocks import Block, cut, packed_table, rows_of
from actors.registry.store.transaction import Transaction
from ray_pubsub.sharding.pivots import PivotColumn
from ray_pubsub.sharding.placement import parts_of

__all__ = ["put_intervals", "put_texts", "remove_many", "rewrite_block"]


def put_texts(
    transaction: Transaction, columns: TextColumns, shards: NDArray[np.int32], pivots: PivotColumn
) -> BulkAnswer:
    """Adds subscriptions; of equal ids the last one is added. `shards` and `pivots` have an entry for each row of the columns."""
    last = {identity: position for position, identity in enumerate(columns.ids)}
    codes, kept = pivots.code, None
    if len(last) < len(columns):
        kept = np.array(sorted(last.values()), np.int64)
        columns, shards, codes = columns.take(kept.tolist()), shards[kept], codes[kept]
    first, count = transaction.next_number, len(columns)
    if not count:
        return BulkAnswer(transaction.known.version, first, kept=kept)
    gone = remove_many(transaction, columns.ids)
    subscribers = {name: transaction.subscriber(name) for name in dict.fromkeys(columns.subscribers)}
    transaction.next_number += count
    transaction.changed = True
    transaction.connection.load(
        "subscriptions",
        zip(
            range(first, transaction.next_number),
            map(transaction.connection.id_value, columns.ids),
            map(subscribers.__getitem__, columns.subscribers),
            shards.tolist(),
            _route_codes(transaction, codes, pivots).tolist(),
            parts_of(columns.ids).tolist(),
            [transaction.version] * count,
            columns.expressions,
            strict=True,
        ),
    )
    if columns.metadata is not None:
        transaction.describe(enumerate(columns.metadata, first))
    return BulkAnswer(transaction.version, first, count, gone, kept)


def put_intervals(
    transaction: Transaction, load: IntervalLoad, shards: NDArray[np.int32], pivots: PivotColumn
) -> BulkAnswer:
    """Adds the subscriptions of a load, in blocks. `shards` and `pivots` have an entry for each of them."""
    count, first = len(load), transaction.next_number
    if not count:
        return BulkAnswer(transaction.known.version, first)
    gone = remove_many(transaction, load.ids.tolist())
    subscribers = {name: transaction.subscriber(name) for name in dict.fromkeys(load.subscribers)}
    whole = Block(
        np.arange(first, first + count),
        load.ids,
        np.fromiter(map(subscribers.__getitem__, load.subscribers), np.int32, count=count),
        _route_codes(transaction, pivots.code, pivots),
        parts_of(load.ids),
        np.diff(load.offsets).astype(np.int32),
        shards.astype(np.int16),
    )
    for block, rows in cut(whole, load.rows):
        (key,) = transaction.connection.execute(
            "INSERT INTO blocks (first, last, version, subscriptions, shards) VALUES (?, ?, ?, ?, ?) RETURNING block",
            (int(block.numbers[0]), int(block.numbers[-1]), transaction.version, block.packed(), block.packed_shards()),
        ).fetchone()
        transaction.connection.execute("INSERT INTO block_rows VALUES (?, ?)", (key, packed_table(rows)))
        transaction.then.append(lambda key=key, block=block: transaction.known.blocks.add(key, block))  # type: ignore[misc]
    if load.metadata is not None:
        transaction.describe(enumerate(load.metadata, first))
    transaction.next_number += count
    transaction.changed = True
    return BulkAnswer(transaction.version, first, count, gone)


def _route_codes(transaction: Transaction, codes: NDArray[np.int32], pivots: PivotColumn) -> NDArray[np.int32]:
    """Returns the store's code of each route."""
    stored = np.zeros(len(pivots.routes), dtype=np.int32)
    for code in np.unique(codes).tolist():
        stored[code] = transaction.route(pivots.routes[code])
    return stored[codes]


def remove_many(transaction: Transaction, ids: Sequence[Any]) -> GoneColumns:
    """Removes those of these subscriptions that are stored."""
    connection, blocks = transaction.connection, transaction.known.blocks
    rows: list[tuple[int, int, int]] = []
    if connection.execute("SELECT 1 FROM subscriptions LIMIT 1").fetchone() is not None:
        for chunk in chunks(ids):
            condition, values = connection.among("id", list(map(connection.id_value, chunk)))
            asked = f"DELETE FROM subscriptions WHERE {condition} RETURNING number, shard, route"
            rows += connection.execute(asked, values).fetchall()
    in_blocks = {number: identity for identity, number in zip(ids, blocks.numbers(ids), strict=True) if number >= 0}
    if in_blocks:
        numbers = np.array(sorted(in_blocks), np.int64)
        transaction.bury(list(in_blocks.values()), numbers.tolist())
        for block, places in blocks.places_of(numbers):
            columns = (block.numbers[places], block.shards[places], block.routes[places])
            rows += zip(*(column.tolist() for column in columns), strict=True)
    if not rows:
        return GoneColumns()
    gone = [np.array(column) for column in zip(*rows, strict=True)]
    transaction.log(gone[0].tolist(), gone[1].tolist())
    transaction.forget(gone[0].tolist())
    return GoneColumns(gone[0].astype(np.int64), gone[1].astype(np.int32), gone[2].astype(np.int32))


def rewrite_block(transaction: Transaction, key: int, block: Block, living: NDArray[np.bool_]) -> None:
    """Stores a block without its dead subscriptions; deletes it if all are dead."""
    connection, blocks = transaction.connection, transaction.known.blocks
    rest: Block | None = None
    if living.any():
        rest = block.only(living)
        rows = rows_of(connection, key, block, living).drop_columns(["id"])
        connection.execute(
            "UPDATE blocks SET first = ?, last = ?, subscriptions = ?, shards = ? WHERE block = ?",
            (int(rest.numbers[0]), int(rest.numbers[-1]), rest.packed(), rest.packed_shards(), key),
        )
        connection.execute("UPDATE block_rows SET rows = ? WHERE block = ?", (packed_table(rows), key))
    else:
        connection.execute("DELETE FROM blocks WHERE block = ?", (key,))
        connection.execute("DELETE FROM block_rows WHERE block = ?", (key,))
    span = (int(block.numbers[0]), int(block.numbers[-1]))
    forgotten = connection.execute("DELETE FROM dead WHERE number BETWEEN ? AND ?", span).rowcount

    def replace() -> None:
        blocks.replace(key, rest)
        transaction.known.dead -= forgotten

    transaction.then.append(replace)
