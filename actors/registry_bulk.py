"""Many subscriptions in one transaction of the registry, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.interval_blocks import Block, IntervalLoad, cut, packed_rows, unpacked_rows
from actors.registry_arguments import MOST_SHARDS, check_text, chunks, places
from actors.registry_changes import BulkAnswer, GoneColumns
from actors.registry_transaction import INSERT, Transaction
from ray_pubsub.errors import RayPubSubError, Rejection, SettingError, TableError
from ray_pubsub.index.arrow_table import as_arrow_table
from ray_pubsub.index.catalogue import check_id
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn, Route
from ray_pubsub.sharding.placement import parts_of

__all__ = ["TextColumns", "put_intervals", "put_texts", "remove_many", "rewrite_block", "text_columns"]

Shards = Sequence[int] | NDArray[Any] | int


@dataclass(slots=True, eq=False)
class TextColumns:
    """Subscriptions as texts, in lists of one length."""

    ids: list[Any]
    subscribers: list[Any]
    texts: list[Any]

    def __len__(self) -> int:
        return len(self.ids)


def text_columns(table: Any) -> TextColumns:
    """From a pyarrow Table, RecordBatch or pandas DataFrame with the columns id, subscriber and expression. Raises TableError."""
    table = as_arrow_table(table, "subscriptions")
    found = []
    for name in ("id", "subscriber", "expression"):
        if name not in table.column_names:
            raise TableError(name, "missing; subscriptions have the columns id, subscriber and expression")
        found.append(table.column(name).to_pylist())
    return TextColumns(*found)


def put_texts(
    transaction: Transaction, columns: TextColumns, shards: Shards, routes: Sequence[Route] | None
) -> BulkAnswer:
    """Adds the good ones; of equal ids the last one counts."""
    count = len(columns)
    for name, given in (("subscribers", columns.subscribers), ("texts", columns.texts), ("routes", routes)):
        if given is not None and len(given) != count:
            raise SettingError(name, f"there are {len(given)} for {count} subscriptions")
    shard_of = _shards(shards, count)
    rejections: list[Rejection] = []
    last: dict[Any, int] = {}
    """Id → its last position. A dict takes 1 and True for the same, but True is no id."""
    for position, (identity, subscriber, text) in enumerate(
        zip(columns.ids, columns.subscribers, columns.texts, strict=True)
    ):
        try:
            check_id(identity)
            check_text("subscriber", subscriber)
            check_text("expression", text)
        except RayPubSubError as error:
            rejections.append(Rejection(position, identity, error))
        else:
            last[identity] = position
    kept = sorted(last.values()) if len(last) < count else None
    if kept is not None:
        columns = TextColumns(
            *([column[place] for place in kept] for column in (columns.ids, columns.subscribers, columns.texts))
        )
        shard_of = shard_of[kept]
        routes = routes and [routes[place] for place in kept]
    first = transaction.next_number
    if not len(columns):
        return BulkAnswer(transaction.known.version, first, 0, rejections=rejections, kept=_positions(kept))
    gone = remove_many(transaction, columns.ids)
    codes = {name: transaction.subscriber(name) for name in dict.fromkeys(columns.subscribers)}
    route_codes = {route: transaction.route(route) for route in (dict.fromkeys(routes) if routes else [UNIVERSAL])}
    transaction.next_number += len(columns)
    transaction.changed = True
    transaction.connection.executemany(
        INSERT,
        zip(
            range(first, transaction.next_number),
            columns.ids,
            map(codes.__getitem__, columns.subscribers),
            shard_of.tolist(),
            map(route_codes.__getitem__, routes if routes else [UNIVERSAL] * len(columns)),
            parts_of(columns.ids).tolist(),
            [transaction.version] * len(columns),
            [None] * len(columns),
            columns.texts,
            strict=True,
        ),
    )
    return BulkAnswer(transaction.version, first, len(columns), gone, rejections, _positions(kept))


def put_intervals(
    transaction: Transaction, load: IntervalLoad, shards: Shards, routes: PivotColumn | None
) -> BulkAnswer:
    """Adds the subscriptions of a load, in blocks. Their ids were checked, and grouped, when it was read."""
    count, first = len(load), transaction.next_number
    shard_of = _shards(shards, count)
    if routes is not None and len(routes.code) != count:
        raise SettingError("routes", f"there are {len(routes.code)} for {count} subscriptions")
    if isinstance(load.subscribers, list) and len(load.subscribers) != count:
        raise SettingError("subscribers", f"there are {len(load.subscribers)} for {count} subscriptions")
    names = [load.subscribers] if isinstance(load.subscribers, str) else list(dict.fromkeys(load.subscribers))
    for name in names:
        check_text("subscriber", name)
    if not count:
        return BulkAnswer(transaction.known.version, first, 0, rejections=load.rejections)
    gone = remove_many(transaction, load.ids.tolist())
    codes = {name: transaction.subscriber(name) for name in names}
    if isinstance(load.subscribers, str):
        subscribers = np.full(count, codes[load.subscribers], dtype=np.int32)
    else:
        subscribers = np.fromiter(map(codes.__getitem__, load.subscribers), np.int32, count=count)
    if routes is None:
        route_of = np.full(count, transaction.route(UNIVERSAL), dtype=np.int32)
    else:
        used = np.zeros(len(routes.routes), dtype=np.int32)
        for code in np.unique(routes.code).tolist():
            used[code] = transaction.route(routes.routes[code])
        route_of = used[routes.code]
    block = Block(
        np.arange(first, first + count),
        load.ids,
        subscribers,
        route_of,
        parts_of(load.ids),
        np.diff(load.offsets).astype(np.int32),
        shard_of.astype(np.int16),
    )
    for part, rows in cut(block, load.rows):
        key = transaction.connection.execute(
            "INSERT INTO blocks (first, last, version, subscriptions, shards) VALUES (?, ?, ?, ?, ?)",
            (int(part.numbers[0]), int(part.numbers[-1]), transaction.version, part.packed(), part.packed_shards()),
        ).lastrowid
        assert key is not None
        transaction.connection.execute("INSERT INTO block_rows VALUES (?, ?)", (key, packed_rows(rows)))
        transaction.then.append(_adding(transaction, key, part))
    transaction.next_number += count
    transaction.changed = True
    return BulkAnswer(transaction.version, first, count, gone, load.rejections)


def _adding(transaction: Transaction, key: int, block: Block) -> Any:
    return lambda: transaction.known.blocks.add(key, block)


def remove_many(transaction: Transaction, ids: Sequence[Any]) -> GoneColumns:
    """Those of these subscriptions that are there, gone at once."""
    connection, blocks = transaction.connection, transaction.known.blocks
    rows: list[tuple[int, int, int]] = []
    if connection.execute("SELECT 1 FROM subscriptions LIMIT 1").fetchone() is not None:
        for chunk in chunks(ids):
            asked = f"SELECT number, shard, route FROM subscriptions WHERE id IN ({places(chunk)})"
            rows += connection.execute(asked, chunk).fetchall()
        connection.executemany("DELETE FROM subscriptions WHERE number = ?", [row[:1] for row in rows])
    in_blocks = [(identity, number) for identity, number in zip(ids, blocks.numbers(ids), strict=True) if number >= 0]
    if in_blocks:
        numbers_there = sorted(number for _, number in in_blocks)
        transaction.bury([identity for identity, _ in in_blocks], numbers_there)
        for block, chosen in blocks.places_of(np.array(numbers_there)):
            columns = (block.numbers[chosen], block.shards[chosen], block.routes[chosen])
            rows += zip(*(column.tolist() for column in columns), strict=True)
    if not rows:
        return GoneColumns()
    numbers, shards, routes = (np.array(column) for column in zip(*rows, strict=True))
    transaction.log(numbers.tolist(), shards.tolist())
    return GoneColumns(numbers.astype(np.int64), shards.astype(np.int32), routes.astype(np.int32))


def rewrite_block(transaction: Transaction, key: int, block: Block, living: NDArray[np.bool_]) -> None:
    """A block without its dead; none, if all are."""
    connection, blocks = transaction.connection, transaction.known.blocks
    span = (int(block.numbers[0]), int(block.numbers[-1]))
    rest: Block | None = None
    if living.any():
        rest = block.only(living)
        (content,) = connection.execute("SELECT rows FROM block_rows WHERE block = ?", (key,)).fetchone()
        rows = unpacked_rows(content, block, living).drop_columns(["id"])
        connection.execute(
            "UPDATE blocks SET first = ?, last = ?, subscriptions = ?, shards = ? WHERE block = ?",
            (int(rest.numbers[0]), int(rest.numbers[-1]), rest.packed(), rest.packed_shards(), key),
        )
        connection.execute("UPDATE block_rows SET rows = ? WHERE block = ?", (packed_rows(rows), key))
    else:
        connection.execute("DELETE FROM blocks WHERE block = ?", (key,))
        connection.execute("DELETE FROM block_rows WHERE block = ?", (key,))
    connection.execute("DELETE FROM dead WHERE number BETWEEN ? AND ?", span)
    transaction.then.append(lambda: blocks.replace(key, rest))


def _shards(shards: Shards, count: int) -> NDArray[np.int32]:
    given = np.full(count, shards) if isinstance(shards, int) else np.asarray(shards)
    if given.shape != (count,) or (count and given.dtype.kind not in "iu"):
        raise SettingError("shards", f"must be a whole number, or one for each of {count} subscriptions")
    if count and not 0 <= int(given.min()) <= int(given.max()) < MOST_SHARDS:
        raise SettingError("shards", f"must be from 0 to {MOST_SHARDS - 1}")
    return given.astype(np.int32)


def _positions(kept: list[int] | None) -> NDArray[np.int64] | None:
    return None if kept is None else np.array(kept, dtype=np.int64)
