"""Reads the registry's store for shards, in columns: what a shard loads, what it has missed, and what is to be moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.registry.columns import IntervalColumns, ShardChanges, ShardColumns
from actors.registry.store.chunks import chunks
from actors.registry.store.interval_blocks import Block, Chosen, chosen_blocks, rows_of
from actors.registry.store.reader import StoreReader, version_of
from actors.registry.store.transaction import unpack_numbers, unpack_route
from actors.storage.database import Session, content_of
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.rebalance import Group, Move

__all__ = ["ShardReader"]

COLUMNS = "number, id, subscriber, route, expression"


class ShardReader(StoreReader):
    """Answers the queries of shards and of a rebalance."""

    def snapshot_for_shard(self, shard: int) -> ShardColumns:
        """Returns all subscriptions of a shard, at a version."""
        with self._view() as (connection, *_):
            asked = f"SELECT {COLUMNS} FROM subscriptions WHERE shard = ? ORDER BY number"
            rows = connection.execute(asked, (shard,)).fetchall()
            return _columns(connection, rows, chosen_blocks(connection, lambda block: block.shards == shard))

    def changes_since(self, version: int, shard: int) -> ShardChanges | None:
        """Returns the changes that a shard at `version` has missed, or None if they were forgotten and the shard must load a snapshot."""
        with self._view() as (connection, *_):
            known = connection.execute("SELECT next_number FROM commits WHERE version = ?", (version,)).fetchone()
            if known is None:
                return None
            (first_new,) = known
            removed, arrived = (_changed(connection, version, shard, end) for end in ("source", "target"))
            arrived = arrived[arrived < first_new]
            asked = f"SELECT {COLUMNS} FROM subscriptions WHERE number >= ? AND shard = ? ORDER BY number"
            rows = _rows_on(connection, arrived.tolist(), shard)
            rows += connection.execute(asked, (first_new, shard)).fetchall()

            def chosen(block: Block) -> Any:
                new = (block.numbers >= first_new) | np.isin(block.numbers, arrived)
                return new & (block.shards == shard)

            lowest = int(arrived[0]) if len(arrived) else first_new
            added = _columns(connection, rows, chosen_blocks(connection, chosen, lowest))
            return ShardChanges(version, added.version, removed, added)

    def columns_of(self, numbers: NDArray[np.int64], shard: int) -> ShardColumns:
        """Returns those of these subscriptions that are on a shard."""
        wanted = np.unique(numbers)

        def chosen(block: Block) -> Any:
            return np.isin(block.numbers, wanted) & (block.shards == shard)

        with self._view() as (connection, *_):
            lowest = int(wanted[0]) if len(wanted) else 0
            rows = _rows_on(connection, wanted.tolist(), shard)
            return _columns(connection, rows, chosen_blocks(connection, chosen, lowest))

    def route_counts(self) -> list[tuple[int, Route, int]]:
        """Returns the number of subscriptions for each shard and route, from which `ShardRoutes` and `Placement` count."""
        counted: Counter[tuple[int, int]] = Counter()
        with self._view() as (connection, *_):
            routes = _routes(connection)
            for shard, route, _, count in _groups(connection):
                counted[shard, route] += count
        return [(shard, routes[route], count) for (shard, route), count in sorted(counted.items())]

    def groups(self) -> list[Group]:
        """Returns the groups of subscriptions with which `plan_rebalance` plans."""
        counted: Counter[tuple[str, int, int]] = Counter()
        with self._view() as (connection, *_):
            routes = _routes(connection)
            for shard, route, part, count in _groups(connection):
                counted[routes[route].home, part, shard] += count
        return [Group(pivot, part, shard, count) for (pivot, part, shard), count in sorted(counted.items())]

    def members(self, moves: Sequence[Move]) -> list[NDArray[np.int64]]:
        """Returns for each move the numbers of the subscriptions that it moves."""
        with self._view() as (connection, *_):
            routes = _routes(connection)
            of_shard = {shard: _routes_and_parts(connection, shard) for shard in {move.source for move in moves}}
        found = []
        for move in moves:
            numbers, codes, parts = of_shard[move.source]
            own = np.isin(codes, [code for code, route in routes.items() if route.home == move.pivot])
            if move.parts:
                own &= np.isin(parts, move.parts)
            found.append(np.sort(numbers[own]))
        return found


def _changed(connection: Session, version: int, shard: int, end: str) -> NDArray[np.int64]:
    """Returns the numbers of the subscriptions that left a shard (`end` is "source") or came to it ("target") after a version."""
    asked = f"SELECT numbers FROM changes WHERE version > ? AND {end} = ?"
    with content_of("changes"):
        found = [unpack_numbers(packed) for (packed,) in connection.execute(asked, (version, shard))]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.int64)


def _rows_on(connection: Session, numbers: Sequence[int], shard: int) -> list[Any]:
    found: list[Any] = []
    for chunk in chunks(numbers):
        condition, values = connection.among("number", chunk)
        asked = f"SELECT {COLUMNS} FROM subscriptions WHERE {condition} AND shard = ? ORDER BY number"
        found += connection.execute(asked, (*values, shard)).fetchall()
    return found


def _columns(connection: Session, rows: list[Any], blocks: Iterable[Chosen]) -> ShardColumns:
    numbers, ids, subscribers, routes, expressions = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    intervals = []
    for key, block, chosen, _ in blocks:
        own = block if chosen.all() else block.only(chosen)
        table = rows_of(connection, key, block, chosen)
        intervals.append(IntervalColumns(own.numbers, own.ids, own.subscribers, own.routes, table))
    return ShardColumns(
        version_of(connection),
        np.array(numbers, dtype=np.int64),
        ids_of(ids),
        np.array(subscribers, dtype=np.int32),
        np.array(routes, dtype=np.int32),
        list(expressions),
        intervals,
    )


def _groups(connection: Session) -> Iterator[tuple[int, int, int, int]]:
    """Yields shard, route, part and a number of subscriptions. A combination may occur several times."""
    yield from connection.execute(
        "SELECT shard, route, part, count(*) FROM subscriptions GROUP BY shard, route, part"
    ).fetchall()
    for _, block, chosen, _ in chosen_blocks(connection, lambda block: np.ones(len(block.numbers), np.bool_)):
        columns = (block.shards[chosen], block.routes[chosen], block.parts[chosen])
        shards, routes, parts = (column.astype(np.int64) for column in columns)
        distinct, amounts = np.unique(shards << 40 | routes << 8 | parts, return_counts=True)
        for key, amount in zip(distinct.tolist(), amounts.tolist(), strict=True):
            yield key >> 40, key >> 8 & 0xFFFF_FFFF, key & 0xFF, amount


def _routes_and_parts(connection: Session, shard: int) -> list[NDArray[Any]]:
    """Returns the numbers of a shard's subscriptions, the codes of their routes, and their parts."""
    asked = "SELECT number, route, part FROM subscriptions WHERE shard = ?"
    rows = np.array(connection.execute(asked, (shard,)).fetchall(), np.int64).reshape(-1, 3)
    found: list[list[NDArray[Any]]] = [list(rows.T)]
    for _, block, chosen, _ in chosen_blocks(connection, lambda block: block.shards == shard):
        found.append([block.numbers[chosen], block.routes[chosen], block.parts[chosen]])
    return [np.concatenate(column) for column in zip(*found, strict=True)]


def _routes(connection: Session) -> dict[int, Route]:
    return {code: unpack_route(packed) for code, packed in connection.execute("SELECT code, route FROM routes")}
