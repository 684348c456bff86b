"""Announces committed changes to shards and coordinators.

A shard is sent its changes, or is asked to fetch them. Coordinators get a note: which version each shard must have from now on, which
routes were added and removed, new subscribers, changed rules. Notes are numbered; a coordinator that missed one requests the whole state.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from actors.registry.changes import Subscribe
from actors.registry.columns import ShardChanges, ShardColumns
from actors.registry.leases import CoordinatorLeases
from actors.registry.store.store import RegistryStore
from actors.transport.messages import CoordinatorState, News, Note, RouteCount, RuleChange, ShardPush
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.sharding.pivots import Route

__all__ = ["Announcer", "Effects", "Notifier"]


class Notifier(Protocol):
    """How the registry reaches the other actors."""

    def push(self, shard: int, push: ShardPush) -> None:
        """Sends changes to a shard; waits only if many are unanswered."""

    def catch_up(self, shard: int, lineage: str, version: int) -> None:
        """Asks a shard to fetch the changes up to a version; waits only if many calls are unanswered."""

    def notify(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
        """Sends a note to coordinators, given with their epochs; returns which of them have confirmed it."""


@dataclass(slots=True)
class Effects:
    """The changes of one transaction."""

    added: Counter[tuple[int, Route]] = field(default_factory=Counter)
    removed: Counter[tuple[int, Route]] = field(default_factory=Counter)
    gone: defaultdict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    """For each shard, the numbers of the subscriptions to remove."""
    came: defaultdict[int, list[tuple[int, Subscribe]]] = field(default_factory=lambda: defaultdict(list))
    """For each shard, the subscriptions to add, with their numbers."""
    in_bulk: set[int] = field(default_factory=set)
    """The shards that fetch their changes, because there are too many to send with a call."""
    rules: list[RuleChange] = field(default_factory=list)

    @property
    def touched(self) -> tuple[int, ...]:
        return tuple(sorted({*self.gone, *self.came, *self.in_bulk}))


class Announcer:
    """Announces changes. Used by the thread that makes changes; `state_for_coordinator` and the properties may be used by any thread."""

    def __init__(self, store: RegistryStore, shards: int, leases: CoordinatorLeases, notifier: Notifier) -> None:
        self.lineage = store.identity
        self.state = threading.RLock()
        """Held while the store and its derived state in memory change together."""
        self.moving = True
        """Whether a shard may have a subscription that it does not own. It is true until the remains of an interrupted move were
        removed."""
        self.serial = 0
        """The number of the last note."""
        self._store, self._leases, self._notifier = store, leases, notifier
        self._routes: Counter[tuple[int, Route]] = Counter()
        self._needed = np.zeros(shards, np.int64)
        self._pushed = self._needed.copy()
        """For each shard, the version that the last push ended with."""
        self._last_subscriber = max((code for code, _ in store.subscribers_after()), default=0)
        self._recount()

    def state_for_coordinator(self, coordinator: int, epoch: int, age: float) -> CoordinatorState:
        """Returns everything a coordinator must know. From now on it has a lease and gets the notes."""
        with self.state:
            state = CoordinatorState(
                epoch,
                self._store.epoch,
                self.lineage,
                self.serial,
                self._store.version,
                self._needed.copy(),
                self.route_counts(),
                dict(self._store.subscribers_after()),
                self._store.rules(),
                self.moving,
                self._leases.seconds,
            )
            self._leases.attach(coordinator, epoch, self.serial, age)
        return state

    def route_counts(self) -> list[RouteCount]:
        """Returns the number of subscriptions for each shard and route."""
        with self.state:
            return [(shard, route, count) for (shard, route), count in self._routes.items()]

    @property
    def needed(self) -> list[int]:
        """For each shard, the version that it must have."""
        found: list[int] = self._needed.tolist()
        return found

    def need(self, shards: Iterable[int], version: int) -> None:
        """Requires this version of these shards from now on. Their next push starts from it."""
        with self.state:
            for shard in shards:
                self._needed[shard] = self._pushed[shard] = version

    def require(self, shards: Iterable[int], version: int) -> None:
        """Requires at least this version of these shards, which are known to have it, so that they do not answer from an older one."""
        with self.state:
            for shard in shards:
                self._needed[shard] = max(version, self._needed[shard])

    def announce(self, effects: Effects) -> int:
        """Sends the changes of a transaction to shards and coordinators. Returns the serial of the note."""
        version = self._store.version
        for shard in effects.touched:
            self._needed[shard] = version
            if shard in effects.in_bulk:
                self._notifier.catch_up(shard, self.lineage, version)
            else:
                self._notifier.push(shard, ShardPush(self.lineage, self._changes(shard, version, effects)))
            self._pushed[shard] = version
        new = dict(self._store.subscribers_after(self._last_subscriber))
        self._last_subscriber = max(new, default=self._last_subscriber)
        if not (effects.touched or effects.rules or new):
            return self.serial
        added, removed = (
            [(shard, route, count) for (shard, route), count in counts.items()]
            for counts in (effects.added, effects.removed)
        )
        return self.notify(News(version, effects.touched, added, removed, new, effects.rules, self.moving))

    def notify(self, news: News) -> int:
        """Sends a note to every coordinator and records which of them have confirmed it. Returns its serial. A coordinator that attaches
        meanwhile gets a state that contains the news."""
        with self.state:
            self.serial += 1
            for shard, route, count in news.added:
                self._routes[shard, route] += count
            for shard, route, count in news.removed:
                self._routes[shard, route] -= count
                if not self._routes[shard, route]:
                    del self._routes[shard, route]
            note = Note(self._store.epoch, self.lineage, self.serial, news)
            attached = self._leases.attached()
        for coordinator, confirmed in self._notifier.notify(note, attached).items():
            if confirmed:
                self._leases.confirm(coordinator, attached[coordinator], note.serial)
            else:
                self._leases.miss(coordinator, note.serial)
        return note.serial

    def announce_everything(self) -> int:
        """Recovers from a failed announcement: shards must have everything that is stored, and coordinators request the whole state."""
        self._recount()
        self.serial += 1
        for coordinator in self._leases.attached():
            self._leases.miss(coordinator, self.serial)
        return self.serial

    def _recount(self) -> None:
        self._routes = Counter({(shard, route): count for shard, route, count in self._store.route_counts()})
        self._needed[:] = self._pushed[:] = self._store.version

    def _changes(self, shard: int, version: int, effects: Effects) -> ShardChanges:
        removed = np.array(effects.gone.get(shard, ()), np.int64)
        gone = set(removed.tolist())
        came = [(number, change) for number, change in effects.came.get(shard, ()) if number not in gone]
        added = ShardColumns(
            version,
            np.array([number for number, _ in came], np.int64),
            ids_of([change.id for _, change in came]),
            np.array([self._store.subscriber_code(change.subscriber) for _, change in came], np.int32),
            np.zeros(len(came), np.int32),
            [change.expression for _, change in came],
        )
        return ShardChanges(int(self._pushed[shard]), version, removed, added)
