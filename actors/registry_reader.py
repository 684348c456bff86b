"""Asking the registry's store. Every question is answered from one state of it, and waits for no writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from actors import registry_reading as reading
from actors.registry_arguments import check_text
from actors.registry_columns import Counts, Page, Rule, ShardChanges, ShardColumns, StoredSubscription
from actors.registry_schema import IN_MEMORY, open_reader, store_errors
from actors.registry_transaction import Known
from ray_pubsub.errors import FencedError, SettingError, StoreError, UnknownSubscriptionError
from ray_pubsub.index.catalogue import check_id
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.rebalance import Group, Move

__all__ = ["RegistryReader"]

MOST_IDLE = 4
LARGEST_PAGE = 10_000


class View(NamedTuple):
    """One state of the store: a connection that sees it, and what the directory of blocks says of it."""

    connection: sqlite3.Connection
    number: int
    """Of the id that is asked for, if it is in a block; else -1."""
    in_blocks: int


class RegistryReader:
    """The reading half of RegistryStore."""

    def __init__(self, path: str, connection: sqlite3.Connection, known: Known) -> None:
        self.path = path
        self._connection = connection
        self._known = known
        self._writing = threading.RLock()
        self._visible = threading.Lock()
        """Held while a transaction ends and memory follows, and while a reader begins: nobody sees one without the other."""
        self._idle: list[sqlite3.Connection] = []
        self._closed = False

    def epoch_of(self, role: str, index: int = 0) -> int:
        """The highest epoch of a role, 0 if none was taken."""
        with self._view() as (connection, _, _):
            asked = "SELECT epoch FROM epochs WHERE role = ? AND place = ?"
            row = connection.execute(asked, (role, index)).fetchone()
        return 0 if row is None else int(row[0])

    def check_epoch(self, role: str, index: int, epoch: int) -> None:
        """Raises FencedError if a higher epoch than this was taken."""
        current = self.epoch_of(role, index)
        if current > epoch:
            raise FencedError(f"{self.path} ({role} {index})", epoch, current)

    def get(self, id: str | int) -> StoredSubscription:
        """One subscription. Raises UnknownSubscriptionError."""
        check_id(id)
        with self._view(id) as view:
            found = reading.subscription(view.connection, id, view.number)
        if found is None:
            raise UnknownSubscriptionError(id)
        return found

    def page(self, subscriber: str, after: int | None = 0, limit: int = 100) -> Page:
        """Subscriptions of one subscriber in the order they were added; `after` is what the page before gave, 0 to begin."""
        check_text("subscriber", subscriber)
        if not isinstance(limit, int) or not 1 <= limit <= LARGEST_PAGE:
            raise SettingError("limit", f"must be from 1 to {LARGEST_PAGE:,}, not {limit!r}")
        if after is None:
            return Page([], None)
        with self._view() as (connection, _, _):
            return reading.page(connection, subscriber, after, limit)

    def snapshot_for_shard(self, shard: int) -> ShardColumns:
        """All subscriptions of a shard, in columns, at a version."""
        with self._view() as (connection, _, _):
            return reading.shard_columns(connection, shard)

    def changes_since(self, version: int, shard: int) -> ShardChanges | None:
        """What a shard that is at `version` has missed; None if that is no longer known: then it loads the snapshot."""
        with self._view() as (connection, _, _):
            return reading.changes_since(connection, version, shard)

    def columns_of(self, numbers: NDArray[np.int64], shard: int | None = None) -> ShardColumns:
        """Those of these subscriptions that there are, in columns: on this shard, or whatever shard they are on."""
        with self._view() as (connection, _, _):
            return reading.columns_of(connection, numbers, shard)

    def members(self, moves: Sequence[Move]) -> list[NDArray[np.int64]]:
        """For each move, the numbers of the subscriptions it is about."""
        with self._view() as (connection, _, _):
            return reading.members(connection, moves)

    def groups(self) -> list[Group]:
        """What `plan_rebalance` plans with."""
        with self._view() as (connection, _, _):
            return reading.groups(connection)

    def route_counts(self) -> list[tuple[int, Route, int]]:
        """Shard, route, and how many subscriptions."""
        with self._view() as (connection, _, _):
            return reading.route_counts(connection)

    def shards_of(self, ids: Sequence[Any] | NDArray[Any]) -> dict[Any, int]:
        """Id → shard, of those of these subscriptions that there are. What is no id is not there. Asked by the writer."""
        listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
        listed = [identity for identity in listed if type(identity) in (str, int)]
        with self._view() as (connection, _, _):
            return reading.shards_of(connection, listed, self._known.blocks)

    def subscriber_code(self, name: str) -> int:
        """The code of a subscriber that there is."""
        return self._known.subscribers[name]

    def route(self, code: int) -> Route:
        """The route of a code."""
        return self._known.route_of[code]

    def subscribers_after(self, code: int = 0) -> list[tuple[int, str]]:
        """Code and name of the subscribers that have come since the one with this code."""
        with self._view() as (connection, _, _):
            return connection.execute(
                "SELECT code, name FROM subscribers WHERE code > ? ORDER BY code", (code,)
            ).fetchall()

    def rules(self) -> list[Rule]:
        """All priority rules, by their versions."""
        with self._view() as (connection, _, _):
            asked = "SELECT id, level, expression, version FROM rules ORDER BY version, typeof(id), id"
            return [Rule(*row) for row in connection.execute(asked)]

    def rules_version(self) -> int:
        """The version in which a rule last changed."""
        return int(self.setting("rules_version") or 0)

    def placement(self) -> dict[str, Any] | None:
        """The placement's state as it was last kept."""
        found: dict[str, Any] | None = self.setting("placement")
        return found

    def setting(self, name: str) -> Any:
        """A value that was kept; None if there is none."""
        with self._view() as (connection, _, _):
            row = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgpack.unpackb(row[0])

    def counts(self) -> Counts:
        """How much there is."""
        with self._view() as view:
            return reading.counts(view.connection, view.in_blocks)

    @contextmanager
    def _view(self, id: str | int | None = None) -> Iterator[View]:
        with store_errors(self.path):
            if self.path == IN_MEMORY:  # there is only the one connection, on which a change half done would be seen
                with self._writing:
                    self._check_open()
                    yield self._look(self._connection, id)
                return
            connection = self._reader()
            try:
                with self._visible:
                    self._check_open()
                    connection.execute("BEGIN")
                    reading.version_of(connection)  # only with its first question does a transaction see a state
                    view = self._look(connection, id)
                yield view
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                self._give_back(connection)

    def _look(self, connection: sqlite3.Connection, id: str | int | None) -> View:
        blocks = self._known.blocks
        return View(connection, -1 if id is None else blocks.number(id), len(blocks))

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._idle.pop()  # atomic, as append is
        except IndexError:
            return open_reader(self.path)

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if self._closed or len(self._idle) >= MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.path, "was closed; open it again")
