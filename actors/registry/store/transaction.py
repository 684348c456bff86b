"""One write transaction of the registry: changes are applied one by one, and all of them reach the disk or none.

The registry's state in memory (codes, the directory of blocks) changes only after the commit; until then the transaction collects what has
to change.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from actors.registry.changes import (
    Answer,
    Change,
    Gone,
    MoveSubscriptions,
    PutRule,
    RemoveRule,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry.store.block_directory import BlockDirectory
from actors.registry.store.chunks import chunks
from actors.registry.store.interval_blocks import Block, alive
from actors.registry.store.metadata_rows import put_metadata, remove_metadata
from actors.storage.database import Session
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.placement import part_of

__all__ = ["Known", "Transaction", "unpack_numbers", "unpack_route"]

INSERT = "INSERT INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
PUT_SETTING = "INSERT INTO settings VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
PUT_RULE = """INSERT INTO rules VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE
    SET level = excluded.level, expression = excluded.expression, version = excluded.version"""
WORTH_COMPRESSING = 16


def pack_route(route: Route) -> bytes:
    packed: bytes = msgpack.packb([route.universal, *route.attributes])
    return packed


def unpack_route(content: bytes) -> Route:
    universal, *attributes = msgpack.unpackb(content)
    return Route(tuple(attributes), universal)


def pack_numbers(numbers: NDArray[np.int64]) -> bytes:
    """Packs the numbers of subscriptions that left a shard together. They are mostly neighbours, so that their differences compress
    well."""
    differences = np.diff(np.sort(numbers), prepend=0).astype("<i8").tobytes()
    return zlib.compress(differences, 1) if len(numbers) >= WORTH_COMPRESSING else b"\0" + differences


def unpack_numbers(packed: bytes) -> NDArray[np.int64]:
    differences = packed[1:] if packed[:1] == b"\0" else zlib.decompress(packed)
    return np.cumsum(np.frombuffer(differences, "<i8"), dtype=np.int64)


@dataclass(slots=True, eq=False)
class Known:
    """The registry's state in memory, as of `version`."""

    version: int
    next_number: int
    subscribers: dict[str, int]
    routes: dict[Route, int]
    route_of: dict[int, Route]
    blocks: BlockDirectory
    dead: int
    """The number of subscriptions in blocks that were removed and still take space there."""
    changes: int
    """The approximate number of logged departures of subscriptions from a shard."""
    carrying: bool
    """Whether any subscription has, or had, data or tags."""


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction that was begun. Its changes belong to the version after the known one."""

    connection: Session
    known: Known
    changed: bool = False
    next_number: int = field(init=False)
    _subscribers: dict[str, int] = field(default_factory=dict)
    _routes: dict[Route, int] = field(default_factory=dict)
    _buried: set[str | int] = field(default_factory=set)
    """The ids whose subscriptions in blocks are removed by this transaction."""
    then: list[Callable[[], None]] = field(default_factory=list)
    """The changes to make in memory after the commit."""
    _undo: list[Callable[[], None]] = field(default_factory=list)
    """The changes to revert in memory after a rollback."""

    def __post_init__(self) -> None:
        self.next_number = self.known.next_number

    @property
    def version(self) -> int:
        """The version that this transaction creates."""
        return self.known.version + 1

    def now(self) -> int:
        """Returns the version that contains what was done so far."""
        return self.version if self.changed else self.known.version

    def finish(self) -> None:
        """Writes the version and the next number. Must be the last statement before the commit."""
        if self.changed:
            self.connection.execute("INSERT INTO commits VALUES (?, ?)", (self.version, self.next_number))

    def publish(self) -> None:
        """Brings memory up to date after the commit."""
        known = self.known
        known.subscribers.update(self._subscribers)
        known.routes.update(self._routes)
        known.route_of.update({code: route for route, code in self._routes.items()})
        for change in self.then:
            change()
        known.next_number = self.next_number
        known.version += self.changed

    def cancel(self) -> None:
        """Reverts changes in memory after a rollback."""
        for undo in reversed(self._undo):
            undo()

    def apply(self, change: Change) -> Answer:
        match change:
            case Subscribe():
                return self._subscribe(change)
            case Unsubscribe():
                gone = self._remove(change.id)
                return Answer(self.now(), 0 if gone is None else gone.number, found=gone is not None, gone=gone)
            case PutRule():
                identity = self.connection.id_value(change.id)
                return self._put(PUT_RULE, identity, change.level, change.expression, self.version)
            case RemoveRule():
                identity = self.connection.id_value(change.id)
                removed = self.connection.execute("DELETE FROM rules WHERE id = ?", (identity,)).rowcount
                self.changed |= removed > 0
                return Answer(self.now(), found=removed > 0)
            case SetSetting():
                return self._put(PUT_SETTING, change.name, msgpack.packb(change.value))
            case MoveSubscriptions():
                return self._move(change)

    def subscriber(self, name: str) -> int:
        """Returns the code of a subscriber, and adds the subscriber if it is new."""
        code = self.known.subscribers.get(name) or self._subscribers.get(name)
        if code is None:
            code = len(self.known.subscribers) + len(self._subscribers) + 1
            self.connection.execute("INSERT INTO subscribers VALUES (?, ?)", (code, name))
            self._subscribers[name] = code
            self.changed = True
        return code

    def route(self, route: Route) -> int:
        """Returns the code of a route, and adds the route if it is new."""
        code = self.known.routes.get(route) or self._routes.get(route)
        if code is None:
            code = len(self.known.routes) + len(self._routes) + 1
            self.connection.execute("INSERT INTO routes VALUES (?, ?)", (code, pack_route(route)))
            self._routes[route] = code
        return code

    def bury(self, ids: Sequence[str | int], numbers: Sequence[int]) -> None:
        """Marks subscriptions in blocks as dead."""
        self.connection.executemany("INSERT INTO dead VALUES (?)", [(number,) for number in numbers])
        self._buried.update(ids)
        self.then.append(lambda: self._remove_from_blocks(ids))

    def _remove_from_blocks(self, ids: Sequence[str | int]) -> None:
        self.known.blocks.remove(ids)
        self.known.dead += len(ids)

    def log(self, numbers: Sequence[int], shards: Sequence[int], target: int | None = None) -> None:
        """Records that subscriptions left their shards, for another shard or for good."""
        every, sources = np.asarray(numbers, np.int64), np.asarray(shards)
        for source in np.unique(sources).tolist():
            own = every[sources == source]
            row = (self.version, source, target, len(own), pack_numbers(own))
            self.connection.execute("INSERT INTO changes VALUES (?, ?, ?, ?, ?)", row)
        self.known.changes += len(every)
        self.changed = True

    def describe(self, described: Iterable[tuple[int, Metadata | None]]) -> None:
        """Stores the data and tags of added subscriptions, by number."""
        carried = [(number, each) for number, each in described if each is not None]
        if carried:
            put_metadata(self.connection, carried)
            self.known.carrying = True  # this also stays after a rollback: removals then search in vain, nothing else

    def forget(self, numbers: Sequence[int]) -> None:
        """Removes the data and tags of subscriptions that are gone."""
        if self.known.carrying:
            remove_metadata(self.connection, numbers)

    def _subscribe(self, change: Subscribe) -> Answer:
        gone = self._remove(change.id)
        number, self.next_number = self.next_number, self.next_number + 1
        self.connection.execute(
            INSERT,
            (
                number, self.connection.id_value(change.id), self.subscriber(change.subscriber), change.shard,
                self.route(change.route), part_of(change.id), self.version, change.expression,
            ),
        )  # fmt: skip
        self.describe([(number, change.metadata)])
        self.changed = True
        return Answer(self.version, number, gone=gone)

    def _put(self, statement: str, *values: Any) -> Answer:
        self.connection.execute(statement, values)
        self.changed = True
        return Answer(self.version)

    def _remove(self, identity: str | int) -> Gone | None:
        """Removes a subscription, which has a row of its own or is in a block."""
        asked = "DELETE FROM subscriptions WHERE id = ? RETURNING number, shard, route"
        row = self.connection.execute(asked, (self.connection.id_value(identity),)).fetchone()
        if row is None:
            number = -1 if identity in self._buried else self.known.blocks.number(identity)
            if number < 0:
                return None
            self.bury([identity], [number])
            row = (number, *self.known.blocks.shard_and_route(number))
        number, shard, route = row
        self.log([number], [shard])
        self.forget([number])
        return Gone(number, shard, self._route_of(route))

    def _route_of(self, code: int) -> Route:
        known = self.known.route_of.get(code)
        return known if known is not None else next(route for route, each in self._routes.items() if each == code)

    def _move(self, change: MoveSubscriptions) -> Answer:
        numbers = np.unique(np.asarray(change.numbers, dtype=np.int64))
        moved: list[int] = []
        route = None if change.route is None else self.route(change.route)
        places, given = (
            ("shard = ?", (change.target,)) if route is None else ("shard = ?, route = ?", (change.target, route))
        )
        for chunk in chunks(numbers.tolist()):
            condition, values = self.connection.among("number", chunk)
            asked = f"UPDATE subscriptions SET {places} WHERE shard = ? AND {condition} RETURNING number"
            moved += [row[0] for row in self.connection.execute(asked, (*given, change.source, *values))]
        for key, block in self.known.blocks.items():
            chosen = np.isin(block.numbers, numbers) & (block.shards == change.source)
            if chosen.any():
                chosen &= alive(self.connection, block)
                before, shards = block.shards, block.shards.copy()
                shards[chosen] = change.target
                # This is done now and not after the commit, because a later change of this transaction may move or remove one of them.
                block.shards = shards
                self._undo.append(lambda block=block, before=before: setattr(block, "shards", before))  # type: ignore[misc]
                packed = (block.packed_shards(), key)
                self.connection.execute("UPDATE blocks SET shards = ? WHERE block = ?", packed)
                if route is not None:
                    self._reroute(key, block, chosen, route)
                moved += block.numbers[chosen].tolist()
        self.changed |= len(moved) > 0
        if moved and change.source != change.target:
            self.log(moved, [change.source] * len(moved), change.target)
        return Answer(self.now(), moved=len(moved))

    def _reroute(self, key: int, block: Block, chosen: NDArray[np.bool_], route: int) -> None:
        """Gives some subscriptions of a block another route."""
        before, routes = block.routes, block.routes.copy()
        routes[chosen] = route
        block.routes = routes
        self._undo.append(lambda: setattr(block, "routes", before))
        self.connection.execute("UPDATE blocks SET subscriptions = ? WHERE block = ?", (block.packed(), key))
