"""The registry's store: the one truth about subscriptions, subscribers, rules, placement, versions and epochs, in a SQLite file.

One connection writes, a group of changes per transaction; a group that `commit` has answered is on disk and survives the loss of the
process or the power. Readers have connections of their own. Without a path all is in memory.

Opened with a role, the store takes a higher epoch for it, and every write first looks whether that is still the highest: an instance that
was given up for dead, but lives, is refused (FencedError) from the moment its successor has opened the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors import registry_reading as reading
from actors.block_directory import BlockDirectory
from actors.interval_blocks import Block, IntervalLoad
from actors.registry_bulk import TextColumns, put_intervals, put_texts, rewrite_block, text_columns
from actors.registry_changes import Answer, BulkAnswer, Change, Committed
from actors.registry_reader import RegistryReader
from actors.registry_requests import remember, remembered, remembered_bulk
from actors.registry_schema import IN_MEMORY, open_writer, store_errors
from actors.registry_transaction import Known, Transaction, unpack_route
from ray_pubsub.errors import FencedError, RayPubSubError
from ray_pubsub.sharding.pivots import PivotColumn, Route

__all__ = ["RegistryStore"]

KEPT_REQUESTS = 100_000
KEPT_VERSIONS = 10_000
TRIM_EVERY = 1024


class RegistryStore(RegistryReader):
    """Safe to use from several threads; writers wait for each other, readers for nobody.

    >>> from actors.registry_changes import Subscribe
    >>> store = RegistryStore()
    >>> store.commit([Subscribe("s1", "desk-7", "price < 5")]).answers[0].number
    1
    >>> store.get("s1").text
    'price < 5'
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        role: str | None = None,
        index: int = 0,
        most_bytes: int | None = None,
        kept_requests: int = KEPT_REQUESTS,
        kept_versions: int = KEPT_VERSIONS,
    ) -> None:
        """`role` and `index`: take an epoch for them and refuse to write once it is no longer the highest. `most_bytes`: the largest
        size of the file. `kept_requests`: how many answers are remembered for those who ask again. `kept_versions`: how far back
        `changes_since` goes. Raises StoreError."""
        name = IN_MEMORY if path is None else os.fspath(path)
        connection = open_writer(path, most_bytes)
        try:
            with store_errors(name):
                super().__init__(name, connection, _load(connection))
            self._kept_requests, self._kept_versions = kept_requests, kept_versions
            self._role: tuple[str, int] | None = None
            self.epoch = 0
            if role is not None:
                self.epoch = self.take_epoch(role, index)
                self._role = (role, index)
        except BaseException:
            connection.close()
            raise

    def __enter__(self) -> RegistryStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all connections. Nothing is lost without it."""
        with self._writing, self._visible:
            self._closed = True
            for connection in (*self._idle, self._connection):
                connection.close()
            self._idle = []

    @property
    def version(self) -> int:
        """Of the last change that is on disk."""
        return self._known.version

    def commit(self, changes: Sequence[Change]) -> Committed:
        """One transaction. A change that is wrong by itself gets its error as its answer, and the others are done. Raises StoreError or
        FencedError if nothing was."""
        with self._transaction() as transaction:
            answers: list[Answer | RayPubSubError] = []
            for change in changes:
                try:
                    answer = remembered(self._connection, change.request)
                    if answer is None:
                        answer = transaction.apply(change)
                        remember(self._connection, change.request, answer, self._kept_requests)
                except RayPubSubError as error:
                    answers.append(error)
                else:
                    answers.append(answer)
        return Committed(transaction.known.version, answers)

    def commit_table(
        self,
        table: Any,
        *,
        shards: Sequence[int] | NDArray[Any] | int = 0,
        routes: Sequence[Route] | None = None,
        request: str | None = None,
    ) -> BulkAnswer:
        """Many subscriptions in one transaction, from an Arrow table with the columns id, subscriber and expression, which were parsed and
        placed. `shards` and `routes` go by the table's rows. Raises TableError, StoreError, FencedError."""
        return self.commit_texts(text_columns(table), shards=shards, routes=routes, request=request)

    def commit_texts(
        self,
        columns: TextColumns,
        *,
        shards: Sequence[int] | NDArray[Any] | int = 0,
        routes: Sequence[Route] | None = None,
        request: str | None = None,
    ) -> BulkAnswer:
        """The same from lists, in which ids of str and int may be mixed."""
        with self._transaction() as transaction:
            known = remembered_bulk(self._connection, request)
            if known is not None:
                return known
            answer = put_texts(transaction, columns, shards, routes)
            remember(self._connection, request, answer, self._kept_requests)
        return answer

    def commit_intervals(
        self,
        load: IntervalLoad,
        *,
        shards: Sequence[int] | NDArray[Any] | int = 0,
        routes: PivotColumn | None = None,
        request: str | None = None,
    ) -> BulkAnswer:
        """Many subscriptions given as intervals (`interval_blocks.read_intervals`) in one transaction. `shards` and `routes` go by the
        load's subscriptions."""
        with self._transaction() as transaction:
            known = remembered_bulk(self._connection, request)
            if known is not None:
                return known
            answer = put_intervals(transaction, load, shards, routes)
            remember(self._connection, request, answer, self._kept_requests)
        return answer

    def trim(self) -> None:
        """Forgets changes older than `kept_versions` and gives back the space of blocks of which most is dead. Done by itself now
        and then, but for the blocks."""
        with self._transaction() as transaction:
            self._forget(transaction.known.version)
            for key, block in self._known.blocks.items():
                living = reading.alive(self._connection, block)
                if 2 * int(living.sum()) < len(living):
                    rewrite_block(transaction, key, block, living)

    def take_epoch(self, role: str, index: int = 0) -> int:
        """A higher epoch than any before it for this role; on disk when it returns."""
        with self._transaction():
            (epoch,) = self._connection.execute(
                "INSERT INTO epochs VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET epoch = epoch + 1 RETURNING epoch",
                (role, index),
            ).fetchone()
        return int(epoch)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        with self._writing, store_errors(self.path):
            self._check_open()
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            transaction = None
            try:
                self._check_fence()
                if reading.version_of(connection) != self._known.version:
                    self._known = _load(connection)  # another process has written; without an epoch that is allowed
                transaction = Transaction(connection, self._known)
                yield transaction
                transaction.finish()
                if transaction.changed and transaction.version % TRIM_EVERY == 0:
                    self._forget(transaction.version)
                with self._visible:
                    connection.execute("COMMIT")
                    transaction.publish()
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                if transaction is not None:
                    transaction.cancel()
                raise

    def _check_fence(self) -> None:
        if self._role is None:
            return
        asked = "SELECT epoch FROM epochs WHERE role = ? AND place = ?"
        (current,) = self._connection.execute(asked, self._role).fetchone()
        if current != self.epoch:
            role, index = self._role
            raise FencedError(f"{self.path} ({role} {index})", self.epoch, current)

    def _forget(self, version: int) -> None:
        oldest = version - self._kept_versions
        self._connection.execute("DELETE FROM changes WHERE version <= ?", (oldest,))
        self._connection.execute("DELETE FROM commits WHERE version < ?", (oldest,))


def _load(connection: sqlite3.Connection) -> Known:
    version, next_number = connection.execute(
        "SELECT version, next_number FROM commits ORDER BY version DESC"
    ).fetchone()
    subscribers = {name: code for code, name in connection.execute("SELECT code, name FROM subscribers")}
    route_of = {code: unpack_route(packed) for code, packed in connection.execute("SELECT code, route FROM routes")}
    blocks = BlockDirectory()
    dead = np.array([number for (number,) in connection.execute("SELECT number FROM dead ORDER BY number")], np.int64)
    for key, subscriptions, shards in connection.execute(
        "SELECT block, subscriptions, shards FROM blocks ORDER BY first"
    ):
        blocks.add(key, Block.unpacked(subscriptions, shards), dead)
    return Known(version, next_number, subscribers, {route: code for code, route in route_of.items()}, route_of, blocks)
