"""Reads the registry's store. Every answer reflects one committed state, and no reader waits for a writer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import msgpack
import numpy as np
from numpy.typing import NDArray

from actors.registry.columns import LARGEST_PAGE, Counts, Page, Rule, StoredSubscription
from actors.registry.store.chunks import chunks
from actors.registry.store.interval_blocks import Block, chosen_blocks, expressions_of, rows_of
from actors.registry.store.metadata_rows import metadata_by_id, metadata_by_number, tagged_after
from actors.registry.store.transaction import Known, unpack_route
from actors.storage.database import Database, Session
from ray_pubsub.errors import FencedError, StoreError, UnknownSubscriptionError
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.pivots import Route

__all__ = ["StoreReader", "version_of"]

MOST_IDLE = 4
STORED = "shard, version, number, id, subscriber, route, expression"


def version_of(connection: Session) -> int:
    """Returns the version of the last change that the connection sees."""
    (version,) = connection.execute("SELECT max(version) FROM commits").fetchone()
    return int(version)


class View(NamedTuple):
    """One state of the store: a connection that sees it, and what the directory of blocks has of it."""

    connection: Session
    numbers: list[int]
    """The numbers of the requested ids in blocks; -1 for ids that are not in a block."""
    in_blocks: int
    """The number of subscriptions in blocks."""


class StoreReader:
    """Answers the queries of people and of the registry itself: settings, epochs, rules, subscribers, single subscriptions."""

    def __init__(self, database: Database, known: Known) -> None:
        self.path = database.name
        self._database = database
        self._connection = database.writer
        self._known = known
        self._writing = threading.RLock()
        self._visible = threading.Lock()
        """Held from a commit until memory is up to date, and while a reader begins, so that a reader sees a change in both or in
        neither."""
        self._idle: list[Session] = []
        self._closed = False

    @property
    def version(self) -> int:
        """The version of the last change that is on disk."""
        return self._known.version

    def check_epoch(self, role: str, index: int, epoch: int) -> None:
        """Raises FencedError if a higher epoch than this was taken."""
        with self._view() as (connection, *_):
            asked = "SELECT epoch FROM epochs WHERE role = ? AND place = ?"
            row = connection.execute(asked, (role, index)).fetchone()
        if row is not None and row[0] > epoch:
            raise FencedError(f"{self.path} ({role} {index})", epoch, row[0])

    def setting(self, name: str) -> Any:
        """Returns a stored value, or None if there is none."""
        with self._view() as (connection, *_):
            row = connection.execute("SELECT value FROM settings WHERE name = ?", (name,)).fetchone()
        return None if row is None else msgpack.unpackb(row[0])

    def rules(self) -> list[Rule]:
        """Returns all priority rules, ordered by version."""
        with self._view() as (connection, *_):
            rules = [Rule(*row) for row in connection.execute("SELECT id, level, expression, version FROM rules")]
        return sorted(rules, key=lambda rule: (rule.version, isinstance(rule.id, str), rule.id))

    def subscribers_after(self, code: int = 0) -> list[tuple[int, str]]:
        """Returns code and name of the subscribers that were added after the one with this code."""
        with self._view() as (connection, *_):
            asked = "SELECT code, name FROM subscribers WHERE code > ? ORDER BY code"
            return connection.execute(asked, (code,)).fetchall()

    def subscriber_names(self) -> Collection[str]:
        """Returns all names of subscribers, from memory."""
        return self._known.subscribers.keys()

    def subscriber_code(self, name: str) -> int:
        """Returns the code of a stored subscriber."""
        return self._known.subscribers[name]

    def route(self, code: int) -> Route:
        """Returns the route with this code."""
        return self._known.route_of[code]

    def get(self, id: str | int) -> StoredSubscription:
        """Returns one subscription. Raises UnknownSubscriptionError."""
        with self._view([id]) as (connection, (number,), _):
            asked = f"SELECT {STORED} FROM subscriptions WHERE id = ?"
            found = _stored(connection, connection.execute(asked, (connection.id_value(id),)).fetchall())
            if not found and number >= 0:
                found = _from_blocks(connection, lambda block: block.numbers == number, number, 1)
            found = self._described(connection, found)
        if not found:
            raise UnknownSubscriptionError(id)
        return found[0]

    def page(self, subscriber: str | None, after: int | None = 0, limit: int = 100, tag: str | None = None) -> Page:
        """Returns a page of the subscriptions of one subscriber (None: of all) in the order in which they were added; with `tag`, only
        those that have it. `after` is that of the previous page, 0 for the first. Additions and removals between two pages do not
        shift the others."""
        code = None if subscriber is None else self._known.subscribers.get(subscriber)
        if after is None or (code is None and subscriber is not None):
            return Page([], None)
        lowest = after
        with self._view() as (connection, _, in_blocks):
            condition = "number > ?"
            values: list[Any] = [after]
            if code is not None:
                condition += " AND subscriber = ?"
                values = [*values, code]
            if tag is not None:
                condition += " AND number IN (SELECT number FROM tags WHERE tag = ?)"
                values = [*values, tag]
            asked = f"SELECT {STORED} FROM subscriptions WHERE {condition} ORDER BY number LIMIT ?"
            items = _stored(connection, connection.execute(asked, (*values, limit + 1)).fetchall())
            tagged = None if tag is None or not in_blocks else tagged_after(connection, tag, after)

            def chosen(block: Block) -> Any:
                found: Any = block.numbers > lowest
                found = found if code is None else found & (block.subscribers == code)
                return found if tagged is None else found & np.isin(block.numbers, tagged)

            if in_blocks:
                items += _from_blocks(connection, chosen, after + 1, limit + 1)
            items = self._described(connection, items)
        items.sort(key=lambda item: item.number)
        return Page(items[:limit], items[limit - 1].number if len(items) > limit else None)

    def metadata(self, ids: Sequence[str | int]) -> list[Metadata | None]:
        """Returns the data and tags of each of these subscriptions, or None if it has none or is not stored."""
        if not self._known.carrying:
            return [None] * len(ids)
        with self._view(ids) as (connection, numbers, _):
            by_id = metadata_by_id(connection, ids)
            by_number = metadata_by_number(connection, [number for number in numbers if number >= 0])
        return [by_id.get(identity) or by_number.get(number) for identity, number in zip(ids, numbers, strict=True)]

    def tagged(self, tag: str) -> list[str | int]:
        """Returns the ids of all subscriptions that have a tag, in the order in which they were added."""
        found: list[str | int] = []
        after: int | None = 0
        while after is not None:
            page = self.page(None, after, LARGEST_PAGE, tag)
            found += [item.id for item in page.items]
            after = page.after
        return found

    def _described(self, connection: Session, items: list[StoredSubscription]) -> list[StoredSubscription]:
        """Returns the subscriptions with their data and tags."""
        if not self._known.carrying:
            return items
        found = metadata_by_number(connection, [item.number for item in items])
        none = Metadata(None)
        carried = [found.get(item.number, none) for item in items]
        return [replace(item, data=each.data, tags=each.tags) for item, each in zip(items, carried, strict=True)]

    def shards_of(self, ids: Sequence[Any] | NDArray[Any]) -> dict[Any, int]:
        """Returns the shards of those of these subscriptions that are stored, by id. Called by the thread that writes."""
        listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
        found: dict[Any, int] = {}
        with self._view() as (connection, *_):
            for chunk in chunks(listed):
                condition, values = connection.among("id", list(map(connection.id_value, chunk)))
                asked = f"SELECT id, shard FROM subscriptions WHERE {condition}"
                found.update(connection.execute(asked, values).fetchall())
        blocks = self._known.blocks
        for identity, number in zip(listed, blocks.numbers(listed), strict=True):
            if number >= 0:
                found[identity] = blocks.shard_and_route(number)[0]
        return found

    def counts(self) -> Counts:
        """Returns how much is stored."""
        with self._view() as (connection, _, in_blocks):
            tables = ("subscriptions", "subscribers", "rules")
            found = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]
            texts, subscribers, rules = found
            return Counts(version_of(connection), texts + in_blocks, texts, in_blocks, subscribers, rules)

    @contextmanager
    def _view(self, ids: Sequence[str | int] = ()) -> Iterator[View]:
        """Provides one state of the store. The view has the numbers of the subscriptions with these `ids`."""
        with self._database.errors():
            if not self._database.has_readers:  # the writer's connection would show half a change
                with self._writing:
                    self._check_open()
                    yield self._look(self._connection, ids)
                return
            connection = self._reader()
            try:
                with self._visible:
                    self._check_open()
                    connection.begin_read()
                    version_of(connection)  # a transaction sees the state of its first query
                    view = self._look(connection, ids)
                yield view
            finally:
                if connection.in_transaction:
                    connection.rollback()
                self._give_back(connection)

    def _look(self, connection: Session, ids: Sequence[str | int]) -> View:
        blocks = self._known.blocks
        return View(connection, list(map(blocks.number, ids)), len(blocks))

    def _reader(self) -> Session:
        try:
            return self._idle.pop()  # pop is atomic, as append is
        except IndexError:
            return self._database.reader()

    def _give_back(self, connection: Session) -> None:
        if self._closed or len(self._idle) >= MOST_IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError(self.path, "was closed; open it again")


def _stored(connection: Session, rows: list[Any]) -> list[StoredSubscription]:
    items = []
    for shard, version, number, identity, code, route, expression in rows:
        name, found = _name_and_route(connection, code, route)
        items.append(StoredSubscription(number, identity, name, "text", expression, shard, found, version))
    return items


def _from_blocks(
    connection: Session, choose: Callable[[Block], Any], lowest: int, limit: int
) -> list[StoredSubscription]:
    items: list[StoredSubscription] = []
    for key, block, chosen, version in chosen_blocks(connection, choose, lowest):
        chosen[np.flatnonzero(chosen)[limit - len(items) :]] = False
        own = block.only(chosen)
        expressions = expressions_of(rows_of(connection, key, block, chosen), own.numbers.tolist())
        columns = (own.numbers, own.ids, own.subscribers, own.routes, own.shards)
        rows = zip(*(column.tolist() for column in columns), expressions, strict=True)
        for number, identity, code, route, shard, expression in rows:
            name, found = _name_and_route(connection, code, route)
            items.append(StoredSubscription(number, identity, name, "intervals", expression, shard, found, version))
        if len(items) >= limit:
            break
    return items


def _name_and_route(connection: Session, code: int, route: int) -> tuple[str, Route]:
    (name,) = connection.execute("SELECT name FROM subscribers WHERE code = ?", (code,)).fetchone()
    (packed,) = connection.execute("SELECT route FROM routes WHERE code = ?", (route,)).fetchone()
    return name, unpack_route(packed)
