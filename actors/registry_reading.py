"""What the registry answers to questions, from one connection that sees one state: columns for shards, pages for people."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.block_directory import BlockDirectory
from actors.interval_blocks import Block, text_of, unpacked_rows
from actors.registry_arguments import chunks, places
from actors.registry_columns import Counts, IntervalColumns, Page, ShardChanges, ShardColumns, StoredSubscription
from actors.registry_transaction import unpack_route
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.rebalance import Group, Move

__all__ = [
    "alive",
    "changes_since",
    "columns_of",
    "counts",
    "groups",
    "members",
    "page",
    "route_counts",
    "shard_columns",
    "shards_of",
    "subscription",
    "version_of",
]

Chooser = Callable[[Block], NDArray[np.bool_]]
COLUMNS = "number, id, subscriber, route, hint, text"


def version_of(connection: sqlite3.Connection) -> int:
    """Of the last change that the connection sees."""
    (version,) = connection.execute("SELECT max(version) FROM commits").fetchone()
    return int(version)


def shard_columns(connection: sqlite3.Connection, shard: int) -> ShardColumns:
    """All that is on a shard."""
    rows = connection.execute(f"SELECT {COLUMNS} FROM subscriptions WHERE shard = ? ORDER BY number", (shard,))
    blocks = _living_blocks(connection, lambda block: block.shards == shard)
    return _columns(connection, rows.fetchall(), blocks)


def changes_since(connection: sqlite3.Connection, version: int, shard: int) -> ShardChanges | None:
    """What happened on a shard since then; None if that is no longer known, and all must be loaded."""
    row = connection.execute("SELECT next_number FROM commits WHERE version = ?", (version,)).fetchone()
    if row is None:
        return None
    (first_new,) = row
    gone = connection.execute(
        "SELECT number FROM changes WHERE version > ? AND source = ?", (version, shard)
    ).fetchall()
    came = connection.execute(
        "SELECT number FROM changes WHERE version > ? AND target = ?", (version, shard)
    ).fetchall()
    moved = np.unique(np.array([number for (number,) in came if number < first_new], dtype=np.int64))
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM subscriptions WHERE number >= ? AND shard = ? ORDER BY number", (first_new, shard)
    ).fetchall()
    moved_rows = _rows_of(connection, moved.tolist(), "AND shard = ?", (shard,))

    def chosen(block: Block) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = (block.shards == shard) & (
            (block.numbers >= first_new) | np.isin(block.numbers, moved)
        )
        return there

    lowest = int(moved[0]) if len(moved) else first_new
    added = _columns(connection, moved_rows + rows, _living_blocks(connection, chosen, lowest))
    removed = np.unique(np.array([number for (number,) in gone], dtype=np.int64))
    return ShardChanges(version, added.version, removed, added)


def columns_of(connection: sqlite3.Connection, numbers: NDArray[np.int64], shard: int | None = None) -> ShardColumns:
    """Those of these subscriptions that there are, on this shard if one is named."""
    wanted = np.unique(np.asarray(numbers, dtype=np.int64))
    lowest = int(wanted[0]) if len(wanted) else 0

    def chosen(block: Block) -> NDArray[np.bool_]:
        there: NDArray[np.bool_] = np.isin(block.numbers, wanted)
        return there if shard is None else there & (block.shards == shard)

    rows = _rows_of(connection, wanted.tolist(), *(() if shard is None else ("AND shard = ?", (shard,))))
    return _columns(connection, rows, _living_blocks(connection, chosen, lowest))


def _rows_of(connection: sqlite3.Connection, numbers: Sequence[int], more: str = "", values: Any = ()) -> list[Any]:
    found: list[Any] = []
    for chunk in chunks(numbers):
        asked = f"SELECT {COLUMNS} FROM subscriptions WHERE number IN ({places(chunk)}) {more} ORDER BY number"
        found += connection.execute(asked, (*chunk, *values)).fetchall()
    return found


def _columns(connection: sqlite3.Connection, rows: list[Any], blocks: Iterable[tuple[Any, ...]]) -> ShardColumns:
    numbers, ids, subscribers, routes, hints, texts = zip(*rows, strict=True) if rows else ((), (), (), (), (), ())
    intervals = []
    for key, block, chosen, _ in blocks:
        (content,) = connection.execute("SELECT rows FROM block_rows WHERE block = ?", (key,)).fetchone()
        own = block if chosen.all() else block.only(chosen)
        table = unpacked_rows(content, block, chosen)
        intervals.append(IntervalColumns(own.numbers, own.ids, own.subscribers, own.routes, table))
    return ShardColumns(
        version_of(connection),
        np.array(numbers, dtype=np.int64),
        ids_of(ids),
        np.array(subscribers, dtype=np.int32),
        np.array(routes, dtype=np.int32),
        list(hints),
        list(texts),
        intervals,
    )


def _living_blocks(
    connection: sqlite3.Connection, choose: Chooser, lowest: int = 0
) -> Iterator[tuple[int, Block, NDArray[np.bool_], int]]:
    """Key, block, which of it is chosen and alive, and its version, for the blocks in which there is something."""
    asked = "SELECT block, version, subscriptions, shards FROM blocks WHERE last >= ? ORDER BY first"
    for key, version, subscriptions, shards in connection.execute(asked, (lowest,)).fetchall():
        block = Block.unpacked(subscriptions, shards)
        chosen = choose(block)
        if chosen.any():
            chosen = chosen & alive(connection, block)
            if chosen.any():
                yield key, block, chosen, version


def alive(connection: sqlite3.Connection, block: Block) -> NDArray[np.bool_]:
    """Which subscriptions of a block are."""
    numbers = block.numbers
    dead = connection.execute(
        "SELECT number FROM dead WHERE number BETWEEN ? AND ?", (int(numbers[0]), int(numbers[-1]))
    ).fetchall()
    living = np.ones(len(numbers), dtype=np.bool_)
    living[np.searchsorted(numbers, np.array([number for (number,) in dead], dtype=np.int64))] = False
    return living


def subscription(connection: sqlite3.Connection, id: str | int, number_in_block: int) -> StoredSubscription | None:
    """By its id, which the directory of blocks has looked up too."""
    asked = f"SELECT shard, version, {COLUMNS} FROM subscriptions WHERE id = ?"
    row = connection.execute(asked, (id,)).fetchone()
    if row is not None:
        return _stored(connection, [row])[0]
    if number_in_block < 0:
        return None
    found = _from_blocks(connection, lambda block: block.numbers == number_in_block, number_in_block, 1)
    return found[0] if found else None


def shards_of(connection: sqlite3.Connection, ids: Sequence[Any], blocks: BlockDirectory) -> dict[Any, int]:
    """Id → shard, of those of these that there are."""
    found: dict[Any, int] = {}
    for chunk in chunks(ids):
        asked = f"SELECT id, shard FROM subscriptions WHERE id IN ({places(chunk)})"
        try:
            found.update(connection.execute(asked, chunk).fetchall())
        except (OverflowError, UnicodeEncodeError):  # an id that cannot be there; the others are asked one by one
            if len(chunk) > 1:
                for identity in chunk:
                    found.update(shards_of(connection, [identity], blocks))
    for identity, number in zip(ids, blocks.numbers(ids), strict=True):
        block = blocks.block_of(number) if number >= 0 else None
        if block is not None:
            found[identity] = int(block[1].shards[block[1].place(number)])
    return found


def page(connection: sqlite3.Connection, subscriber: str, after: int, limit: int) -> Page:
    """The subscriber's subscriptions with larger numbers than `after`. What is added or removed meanwhile moves no other."""
    row = connection.execute("SELECT code FROM subscribers WHERE name = ?", (subscriber,)).fetchone()
    if row is None:
        return Page([], None)
    (code,) = row
    asked = f"SELECT shard, version, {COLUMNS} FROM subscriptions WHERE subscriber = ? AND number > ? ORDER BY number LIMIT ?"
    items = _stored(connection, connection.execute(asked, (code, after, limit + 1)).fetchall())
    items += _from_blocks(
        connection, lambda block: (block.subscribers == code) & (block.numbers > after), after + 1, limit + 1
    )
    items.sort(key=lambda item: item.number)
    more = len(items) > limit
    items = items[:limit]
    return Page(items, items[-1].number if more else None)


def _stored(connection: sqlite3.Connection, rows: list[Any]) -> list[StoredSubscription]:
    items = []
    for shard, version, number, identity, code, route, hint, text in rows:
        name, found = _name_and_route(connection, code, route)
        items.append(StoredSubscription(number, identity, name, "text", text, shard, found, version, hint))
    return items


def _from_blocks(connection: sqlite3.Connection, choose: Chooser, lowest: int, limit: int) -> list[StoredSubscription]:
    items: list[StoredSubscription] = []
    for key, block, chosen, version in _living_blocks(connection, choose, lowest):
        taken = np.flatnonzero(chosen)[: limit - len(items)]
        only = np.zeros(len(chosen), dtype=np.bool_)
        only[taken] = True
        (content,) = connection.execute("SELECT rows FROM block_rows WHERE block = ?", (key,)).fetchone()
        texts = text_of(unpacked_rows(content, block, only), block.numbers[only].tolist())
        for place, text in zip(taken.tolist(), texts, strict=True):
            identity = block.ids[place]
            name, route = _name_and_route(connection, int(block.subscribers[place]), int(block.routes[place]))
            items.append(
                StoredSubscription(
                    int(block.numbers[place]), identity if isinstance(identity, str) else int(identity), name,
                    "intervals", text, int(block.shards[place]), route, version,
                )
            )  # fmt: skip
        if len(items) >= limit:
            break
    return items


def _name_and_route(connection: sqlite3.Connection, code: int, route: int) -> tuple[str, Route]:
    (name,) = connection.execute("SELECT name FROM subscribers WHERE code = ?", (code,)).fetchone()
    (packed,) = connection.execute("SELECT route FROM routes WHERE code = ?", (route,)).fetchone()
    return name, unpack_route(packed)


def route_counts(connection: sqlite3.Connection) -> list[tuple[int, Route, int]]:
    """Shard, route and how many subscriptions: what `ShardRoutes` and `Placement` count from."""
    counted: Counter[tuple[int, int]] = Counter()
    for shard, route, _, count in _groups(connection):
        counted[shard, route] += count
    routes = _routes(connection)
    return [(shard, routes[route], count) for (shard, route), count in sorted(counted.items())]


def groups(connection: sqlite3.Connection) -> list[Group]:
    """What `plan_rebalance` plans with."""
    counted: Counter[tuple[str, int, int]] = Counter()
    routes = _routes(connection)
    for shard, route, part, count in _groups(connection):
        counted[routes[route].home, part, shard] += count
    return [Group(pivot, part, shard, count) for (pivot, part, shard), count in sorted(counted.items())]


def members(connection: sqlite3.Connection, moves: Sequence[Move]) -> list[NDArray[np.int64]]:
    """For each move the numbers of the subscriptions it is about."""
    routes = _routes(connection)
    of_shard: dict[int, tuple[NDArray[Any], ...]] = {}
    for shard in {move.source for move in moves}:
        rows = connection.execute("SELECT number, route, part FROM subscriptions WHERE shard = ?", (shard,)).fetchall()
        parts: list[list[NDArray[Any]]] = []
        if rows:
            parts.append([np.array(column, dtype=np.int64) for column in zip(*rows, strict=True)])
        for _, block, chosen, _ in _living_blocks(connection, lambda block, shard=shard: block.shards == shard):  # type: ignore[misc]
            parts.append([block.numbers[chosen], block.routes[chosen], block.parts[chosen]])
        joined = (
            [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.empty(0, np.int64)] * 3
        )
        of_shard[shard] = tuple(joined)
    found = []
    for move in moves:
        numbers, codes, parts_of = of_shard[move.source]
        own = np.isin(codes, [code for code, route in routes.items() if route.home == move.pivot])
        if move.parts:
            own &= np.isin(parts_of, move.parts)
        found.append(np.sort(numbers[own]))
    return found


def _groups(connection: sqlite3.Connection) -> Iterator[tuple[int, int, int, int]]:
    """Shard, route, part and how many; a combination may come several times."""
    yield from connection.execute(
        "SELECT shard, route, part, count(*) FROM subscriptions GROUP BY shard, route, part"
    ).fetchall()
    for _, block, chosen, _ in _living_blocks(connection, lambda block: np.ones(len(block.numbers), np.bool_)):
        columns = (block.shards[chosen], block.routes[chosen], block.parts[chosen])
        shards, routes, parts = (column.astype(np.int64) for column in columns)
        distinct, amounts = np.unique(shards << 40 | routes << 8 | parts, return_counts=True)
        for key, amount in zip(distinct.tolist(), amounts.tolist(), strict=True):
            yield key >> 40, key >> 8 & 0xFFFF_FFFF, key & 0xFF, amount


def _routes(connection: sqlite3.Connection) -> dict[int, Route]:
    return {code: unpack_route(packed) for code, packed in connection.execute("SELECT code, route FROM routes")}


def counts(connection: sqlite3.Connection, in_blocks: int) -> Counts:
    """How much there is; how many subscriptions live in blocks the directory knows."""
    (texts,) = connection.execute("SELECT count(*) FROM subscriptions").fetchone()
    (subscribers,) = connection.execute("SELECT count(*) FROM subscribers").fetchone()
    (rules,) = connection.execute("SELECT count(*) FROM rules").fetchone()
    return Counts(version_of(connection), texts + in_blocks, texts, in_blocks, subscribers, rules)
