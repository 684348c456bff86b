"""The registry's store: the one source of truth about subscriptions, subscribers, rules, placement, versions and epochs, in a SQLite file
or in PostgreSQL.

One connection writes, a group of changes per transaction. A group whose commit has returned is on disk and survives the loss of the process
or of power. Readers have connections of their own. Without a place everything is in memory.

If it is opened with a role, the store takes a higher epoch for it, and every write first checks that this epoch is still the highest. So an
instance that was believed dead but still runs is refused (FencedError) from the moment its successor has opened the store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from actors.registry.changes import Answer, BulkAnswer, Change
from actors.registry.columns import TextColumns
from actors.registry.interval_load import IntervalLoad
from actors.registry.store.block_directory import BlockDirectory
from actors.registry.store.bulk import put_intervals, put_texts, remove_many, rewrite_block
from actors.registry.store.idempotency import remember, remembered, remembered_bulk
from actors.registry.store.interval_blocks import Block, alive
from actors.registry.store.reader import version_of
from actors.registry.store.schema import open_writer
from actors.registry.store.shard_reader import ShardReader
from actors.registry.store.transaction import Known, Transaction, unpack_route
from actors.storage.database import Database, Session, content_of
from ray_pubsub.errors import FencedError
from ray_pubsub.failpoints import reach
from ray_pubsub.sharding.pivots import PivotColumn

__all__ = ["RegistryStore"]

KEPT_VERSIONS = 10_000
"""The number of versions that `changes_since` goes back, unless more than KEPT_CHANGES subscriptions were removed or moved."""
KEPT_CHANGES = 100_000
LEAST_VERSIONS = 4
"""The number of versions that `changes_since` goes back in any case."""
FORGET_EVERY = 1024
FEWEST_DEAD = 1_000
"""The number of removed subscriptions in blocks below which nothing is trimmed."""
BLOCKS_AT_ONCE = 4
"""The number of blocks that are rewritten in one transaction. Changes wait for it."""


class RegistryStore(ShardReader):
    """Safe to use from several threads; writers wait for each other, readers do not wait. Callers have checked what they hand over.

    >>> from actors.registry.changes import Subscribe
    >>> store = RegistryStore()
    >>> store.commit([Subscribe("s1", "desk-7", "price < 5")])[0].number
    1
    >>> store.get("s1").expression
    'price < 5'
    """

    def __init__(
        self,
        place: str | os.PathLike[str] | Database | None = None,
        *,
        role: str | None = None,
        create: bool = True,
    ) -> None:
        """`place` is the path of a SQLite file, or an open database, which the store then owns. With a `role` the store takes an epoch
        for it, and refuses to write when the epoch is no longer the highest. `create` allows a new file. Raises StoreError."""
        database = open_writer(place, create) if place is None or isinstance(place, (str, os.PathLike)) else place
        try:
            with database.errors():
                connection = database.writer
                super().__init__(database, _load(connection))
                self.identity: str = connection.execute("SELECT value FROM identity").fetchone()[0]
            self._role, self.epoch = None, 0
            if role is not None:
                self.epoch = self.take_epoch(role, 0)
                self._role = role
        except BaseException:
            database.close()
            raise

    def __enter__(self) -> RegistryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections. Nothing is lost if it is not called."""
        with self._writing, self._visible:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle = []
            self._database.close()

    def commit(self, changes: Sequence[Change]) -> list[Answer]:
        """Makes changes in one transaction, all or none. Raises StoreError or FencedError."""
        answers = []
        with self._transaction() as transaction:
            for change in changes:
                answer = remembered(self._connection, change.key)
                if answer is None:
                    answer = transaction.apply(change)
                    remember(self._connection, change.key, answer)
                answers.append(answer)
        return answers

    def commit_texts(
        self, columns: TextColumns, shards: NDArray[np.int32], pivots: PivotColumn, key: str | None = None
    ) -> BulkAnswer:
        """Adds many subscriptions, which were parsed and placed, in one transaction."""
        return self._commit_bulk(key, lambda transaction: put_texts(transaction, columns, shards, pivots))

    def commit_intervals(
        self, load: IntervalLoad, shards: NDArray[np.int32], pivots: PivotColumn, key: str | None = None
    ) -> BulkAnswer:
        """Adds many subscriptions given as intervals, which were placed, in one transaction."""
        return self._commit_bulk(key, lambda transaction: put_intervals(transaction, load, shards, pivots))

    def commit_removal(self, ids: Sequence[str | int], key: str | None = None) -> BulkAnswer:
        """Removes those of these subscriptions that are stored, in one transaction."""

        def remove(transaction: Transaction) -> BulkAnswer:
            gone = remove_many(transaction, ids)
            return BulkAnswer(transaction.now(), count=len(gone), gone=gone)

        return self._commit_bulk(key, remove)

    def _commit_bulk(self, key: str | None, perform: Callable[[Transaction], BulkAnswer]) -> BulkAnswer:
        with self._transaction() as transaction:
            answer = remembered_bulk(self._connection, key)
            if answer is None:
                answer = perform(transaction)
                remember(self._connection, key, answer)
        return answer

    @property
    def untrimmed(self) -> bool:
        """Whether removed subscriptions take so much space that `trim` is worth its time."""
        known = self._known
        in_blocks = known.dead >= FEWEST_DEAD and 2 * known.dead > len(known.blocks)
        return in_blocks or known.changes > 2 * KEPT_CHANGES

    def trim(self) -> bool:
        """Forgets old changes, rewrites some blocks of which over a quarter is dead, and returns free space to the file system. Returns
        whether there are more such blocks."""
        with self._transaction() as transaction:
            self._forget(self._known.version)
            rewritten = 0
            for key, block in self._known.blocks.items():
                living = alive(self._connection, block)
                if 4 * int(living.sum()) < 3 * len(living):
                    rewritten += 1
                    if rewritten > BLOCKS_AT_ONCE:
                        break
                    rewrite_block(transaction, key, block, living)
                    reach("registry.merge")
        with self._writing:
            self._check_open()
            self._database.give_back_space()
        return rewritten > BLOCKS_AT_ONCE

    def doubt(self) -> None:
        """Called when what the registry has announced may differ from what is stored; see `Database.doubt`."""
        self._database.doubt()

    def take_epoch(self, role: str, index: int) -> int:
        """Returns a higher epoch for this role than any before. It is on disk when this returns."""
        with self._transaction():
            (epoch,) = self._connection.execute(
                """INSERT INTO epochs VALUES (?, ?, 1) ON CONFLICT (role, place) DO UPDATE SET epoch = epochs.epoch + 1
                RETURNING epoch""",
                (role, index),
            ).fetchone()
        return int(epoch)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._writing, self._database.errors():
            self._check_open()
            connection = self._connection
            connection.begin_write()
            transaction = None
            try:
                self._check_fence()
                if version_of(connection) != self._known.version:
                    self._known = _load(connection)  # another process has written, which is allowed without a role
                transaction = Transaction(connection, self._known)
                yield transaction
                reach("registry.append")
                transaction.finish()
                if transaction.changed and transaction.version % FORGET_EVERY == 0:
                    self._forget(transaction.version)
                with self._visible:
                    reach("registry.fsync")
                    connection.commit()
                    reach("registry.apply")
                    transaction.publish()
                self._database.committed()
                reach("registry.acknowledge")
            except BaseException:
                if connection.in_transaction:
                    connection.rollback()
                self._database.failed()
                if transaction is not None:
                    transaction.cancel()
                raise

    def _check_fence(self) -> None:
        if self._role is None:
            return
        asked = "SELECT epoch FROM epochs WHERE role = ? AND place = 0"
        (current,) = self._connection.execute(asked, (self._role,)).fetchone()
        if current != self.epoch:
            raise FencedError(f"{self.path} ({self._role} 0)", self.epoch, current)

    def _forget(self, version: int) -> None:
        oldest, kept = version - KEPT_VERSIONS, 0
        asked = "SELECT version, count FROM changes WHERE version > ? ORDER BY version DESC"
        for each, count in self._connection.execute(asked, (oldest,)).fetchall():
            kept += count
            if kept > KEPT_CHANGES and each <= version - LEAST_VERSIONS:
                oldest = each
                break
        self._connection.execute("DELETE FROM changes WHERE version <= ?", (oldest,))
        self._connection.execute("DELETE FROM commits WHERE version < ?", (oldest,))
        self._known.changes = _changes(self._connection)


def _changes(connection: Session) -> int:
    return int(connection.execute("SELECT coalesce(sum(count), 0) FROM changes").fetchone()[0])


def _load(connection: Session) -> Known:
    version, next_number = connection.execute(
        "SELECT version, next_number FROM commits ORDER BY version DESC LIMIT 1"
    ).fetchone()
    subscribers = {name: code for code, name in connection.execute("SELECT code, name FROM subscribers")}
    with content_of("routes"):
        route_of = {code: unpack_route(packed) for code, packed in connection.execute("SELECT code, route FROM routes")}
    blocks = BlockDirectory()
    dead = np.array([number for (number,) in connection.execute("SELECT number FROM dead ORDER BY number")], np.int64)
    for key, subscriptions, shards in connection.execute(
        "SELECT block, subscriptions, shards FROM blocks ORDER BY first"
    ):
        with content_of(f"block {key}"):
            blocks.add(key, Block.unpacked(subscriptions, shards), dead)
    routes = {route: code for code, route in route_of.items()}
    carrying = connection.execute("SELECT 1 FROM metadata LIMIT 1").fetchone() is not None
    changes = _changes(connection)
    return Known(version, next_number, subscribers, routes, route_of, blocks, len(dead), changes, carrying)
