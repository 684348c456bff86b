"""One write transaction of the registry: changes applied one by one, all on disk together or none of them.

What the registry keeps in memory (codes, the directory of blocks) is changed only after the transaction has ended well: until then the
transaction remembers what it will have to change.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgpack

from actors.block_directory import BlockDirectory
from actors.registry_arguments import check_shard, check_text
from actors.registry_changes import (
    Answer,
    Change,
    Gone,
    MoveSubscriptions,
    PutRule,
    RemoveRule,
    SetPlacement,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry_moves import move
from ray_pubsub.errors import SettingError
from ray_pubsub.index.catalogue import check_id
from ray_pubsub.sharding.pivots import Route
from ray_pubsub.sharding.placement import part_of

__all__ = ["INSERT", "Known", "Transaction", "unpack_route"]

INSERT = "INSERT INTO subscriptions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def pack_route(route: Route) -> bytes:
    packed: bytes = msgpack.packb([route.universal, *route.attributes])
    return packed


def unpack_route(content: bytes) -> Route:
    universal, *attributes = msgpack.unpackb(content)
    return Route(tuple(attributes), universal)


@dataclass(slots=True, eq=False)
class Known:
    """What the registry has in memory, as of `version`."""

    version: int
    next_number: int
    subscribers: dict[str, int]
    routes: dict[Route, int]
    route_of: dict[int, Route]
    blocks: BlockDirectory


@dataclass(slots=True, eq=False)
class Found:
    """A subscription that is there: in a row of its own, or in a block."""

    number: int
    shard: int
    route: int
    in_block: bool


@dataclass(slots=True, eq=False)
class Transaction:
    """Begun; the changes in it are of the version after the known one."""

    connection: sqlite3.Connection
    known: Known
    changed: bool = False
    next_number: int = field(init=False)
    _subscribers: dict[str, int] = field(default_factory=dict)
    _routes: dict[Route, int] = field(default_factory=dict)
    buried: set[str | int] = field(default_factory=set)
    """Ids that lose their subscription in a block."""
    then: list[Callable[[], None]] = field(default_factory=list)
    """What memory does when it is on disk."""
    undo: list[Callable[[], None]] = field(default_factory=list)
    """What memory does if it is not to be."""

    def __post_init__(self) -> None:
        self.next_number = self.known.next_number

    @property
    def version(self) -> int:
        return self.known.version + 1

    def finish(self) -> None:
        """The last statements before the end."""
        if self.changed:
            self.connection.execute("INSERT INTO commits VALUES (?, ?)", (self.version, self.next_number))

    def publish(self) -> None:
        """It is on disk: memory follows."""
        known = self.known
        known.subscribers.update(self._subscribers)
        known.routes.update(self._routes)
        known.route_of.update({code: route for route, code in self._routes.items()})
        for change in self.then:
            change()
        known.next_number = self.next_number
        known.version += self.changed

    def apply(self, change: Change) -> Answer:
        """One change. An error of ours leaves nothing of it: all is checked before anything is written."""
        match change:
            case Subscribe():
                return self._subscribe(change)
            case Unsubscribe():
                return self._unsubscribe(change.id)
            case PutRule():
                return self._put_rule(change)
            case RemoveRule():
                return self._remove_rule(change.id)
            case SetSetting():
                return self._set(change.name, change.value)
            case SetPlacement():
                return self._set("placement", change.state)
            case MoveSubscriptions():
                return move(self, change)
        raise SettingError("change", f"is no change that the registry knows: {type(change).__name__}")

    def subscriber(self, name: str) -> int:
        """The code of a subscriber, who may be new."""
        code = self.known.subscribers.get(name) or self._subscribers.get(name)
        if code is None:
            code = len(self.known.subscribers) + len(self._subscribers) + 1
            self.connection.execute("INSERT INTO subscribers VALUES (?, ?)", (code, name))
            self._subscribers[name] = code
            self.changed = True
        return code

    def route(self, route: Route) -> int:
        """The code of a route."""
        code = self.known.routes.get(route) or self._routes.get(route)
        if code is None:
            code = len(self.known.routes) + len(self._routes) + 1
            self.connection.execute("INSERT INTO routes VALUES (?, ?)", (code, pack_route(route)))
            self._routes[route] = code
        return code

    def _route_of(self, code: int) -> Route:
        known = self.known.route_of.get(code)
        return known if known is not None else next(route for route, each in self._routes.items() if each == code)

    def _find(self, identity: str | int) -> Found | None:
        row = self.connection.execute(
            "SELECT number, shard, route FROM subscriptions WHERE id = ?", (identity,)
        ).fetchone()
        if row is not None:
            return Found(row[0], row[1], row[2], in_block=False)
        number = -1 if identity in self.buried else self.known.blocks.number(identity)
        return None if number < 0 else self.in_block(number)

    def in_block(self, number: int) -> Found:
        """What is known of a subscription in a block."""
        found = self.known.blocks.block_of(number)
        assert found is not None
        block = found[1]
        place = block.place(number)
        return Found(number, int(block.shards[place]), int(block.routes[place]), in_block=True)

    def _subscribe(self, change: Subscribe) -> Answer:
        check_id(change.id)
        check_text("subscriber", change.subscriber)
        check_text("expression", change.text)
        check_shard(change.shard)
        if change.hint is not None:
            check_text("hint", change.hint)
        gone = self._remove(change.id)
        number, self.next_number = self.next_number, self.next_number + 1
        self.connection.execute(
            INSERT,
            (
                number, change.id, self.subscriber(change.subscriber), change.shard, self.route(change.route),
                part_of(change.id), self.version, change.hint, change.text,
            ),
        )  # fmt: skip
        self.changed = True
        return Answer(self.version, number, gone=gone)

    def _unsubscribe(self, identity: str | int) -> Answer:
        check_id(identity)
        gone = self._remove(identity)
        return Answer(self.now(), 0 if gone is None else gone.number, found=gone is not None, gone=gone)

    def _remove(self, identity: str | int) -> Gone | None:
        found = self._find(identity)
        if found is None:
            return None
        if found.in_block:
            self.bury([identity], [found.number])
        else:
            self.connection.execute("DELETE FROM subscriptions WHERE number = ?", (found.number,))
        self.log([found.number], [found.shard])
        return Gone(found.number, found.shard, self._route_of(found.route))

    def _put_rule(self, change: PutRule) -> Answer:
        check_id(change.id)
        check_text("level", change.level)
        check_text("expression", change.expression)
        self.connection.execute(
            "INSERT OR REPLACE INTO rules VALUES (?, ?, ?, ?)",
            (change.id, change.level, change.expression, self.version),
        )
        return self._rules_changed()

    def _remove_rule(self, identity: str | int) -> Answer:
        check_id(identity)
        removed = self.connection.execute("DELETE FROM rules WHERE id = ?", (identity,)).rowcount
        return self._rules_changed() if removed else Answer(self.now(), found=False)

    def _rules_changed(self) -> Answer:
        self._set("rules_version", self.version)
        return Answer(self.version)

    def _set(self, name: str, value: Any) -> Answer:
        check_text("setting", name)
        try:
            packed = msgpack.packb(value)
        except (TypeError, ValueError, OverflowError) as error:
            raise SettingError(name, f"cannot be kept: {error}") from None
        self.connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (name, packed))
        self.changed = True
        return Answer(self.version)

    def cancel(self) -> None:
        """It was rolled back."""
        for undo in reversed(self.undo):
            undo()

    def bury(self, ids: Sequence[str | int], numbers: Sequence[int]) -> None:
        """Subscriptions in blocks are dead from now on."""
        self.connection.executemany("INSERT INTO dead VALUES (?)", [(number,) for number in numbers])
        self.buried.update(ids)
        self.then.append(lambda: self.known.blocks.remove(ids))

    def log(self, numbers: Sequence[int], shards: Sequence[int], target: int | None = None) -> None:
        """They left their shards, for another one or for good."""
        rows = [(self.version, number, shard, target) for number, shard in zip(numbers, shards, strict=True)]
        self.connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", rows)
        self.changed = True

    def now(self) -> int:
        """The version that has what was done so far."""
        return self.version if self.changed else self.known.version
