"""The registry's process: the one source of truth about subscriptions and rules.

It checks requests and parses expressions, once; `change_writer.py` makes them part of the server. An acknowledged change is on disk and
seen by every publication that begins later. It is a plain class; `actors/transport/remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from actors.registry.changes import (
    Answer,
    BulkAnswer,
    Change,
    PutRule,
    RemoveRule,
    Subscribe,
    Unsubscribe,
)
from actors.registry.columns import (
    LARGEST_PAGE,
    Page,
    RebalanceReport,
    Rule,
    ShardChanges,
    StoredSubscription,
    TextColumns,
)
from actors.registry.given_names import check_new_id, check_subscriber
from actors.registry.interval_load import read_intervals
from actors.registry.moves import BALANCE
from actors.registry.opening import BULK_TIMEOUT, OpenRegistry, open_registry
from actors.storage.backup import copy_store, finish_copy
from actors.storage.data_folder import STORES
from actors.storage.opening import Opening
from actors.storage.postgres.address import PostgresAddress
from actors.telemetry.process_memory import process_bytes
from actors.transport.actor_handles import ActorHandles
from actors.transport.messages import CoordinatorState, ShardStart
from actors.transport.protocol import own_protocol
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    UnknownLevelError,
)
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.arguments import check_id, check_ids, check_key, check_text, check_whole
from ray_pubsub.model.metadata import Metadata, check_tag, described, metadata_of
from ray_pubsub.sharding.pivots import PivotColumn

__all__ = ["Registry"]

logger = logging.getLogger(__name__)

SIMILAR, MOST_COMPARED = 3, 10_000
"""The number of similar names that are suggested for an unknown one, and the most names among which they are searched."""


class Registry:
    """The registry. Every method may be called from any thread. While the store cannot be opened, every method raises the error that
    prevents it."""

    def __init__(self, handles: ActorHandles, place: str | PostgresAddress | None, given: Mapping[str, Any]) -> None:
        """`place` is the data folder or the database, if anything is stored. `given` has the settings that the caller gave; the others
        have their stored values, or the defaults."""
        self.name = handles.server
        self._place = place
        self._folder = Path(place) if isinstance(place, str) else None
        self._started = time.time()

        def open_and_settle() -> OpenRegistry:
            opened = open_registry(handles, self._folder or self._database, given)
            opened.moves.start()
            return opened

        self._opening = Opening(open_and_settle, f"the registry of {self.name!r}")

    @property
    def _database(self) -> PostgresAddress | None:
        return self._place if isinstance(self._place, PostgresAddress) else None

    @property
    def _open(self) -> OpenRegistry:
        return self._opening.get()

    @property
    def lineage(self) -> str:
        """Identifies the registry's data. Numbers and versions of another lineage have no meaning here."""
        return self._open.store.identity

    # ------------------------------------------------------------------------------------------------------------ clients

    def opened(self) -> dict[str, Any]:
        """Returns the server's identity and settings. Raises the error that keeps the registry from opening its store."""
        opened = self._open
        return {
            "name": self.name,
            "settings": opened.settings.state(),
            "data_dir": None if self._place is None else str(self._place),
            "in_database": self._database is not None,
            "lineage": opened.store.identity,
            "pid": os.getpid(),
            **own_protocol(),
        }

    def subscribe(
        self,
        subscriber: str,
        expression: str,
        id: str | int,
        key: str | None = None,
        data: Any = None,
        tags: Sequence[str] = (),
    ) -> int:
        """Adds or replaces a subscription. Returns the version that contains it."""
        return self._submit(self._subscription(subscriber, expression, id, key, data, tags)).version

    def subscribe_as(
        self,
        owner: str | None,
        subscriber: str,
        expression: str,
        id: str | int,
        data: Any = None,
        tags: Sequence[str] = (),
    ) -> bool:
        """Does the same if `owner` is the id's subscriber at that moment (None: if there is none), and returns whether it was."""
        return self._submit_if_owned(owner, self._subscription(subscriber, expression, id, None, data, tags))

    def unsubscribe_as(self, owner: str, id: str | int) -> bool:
        """Removes a subscription if `owner` is its subscriber at that moment; returns whether it was."""
        check_id(id)
        return self._submit_if_owned(owner, Unsubscribe(id))

    def _subscription(
        self, subscriber: str, expression: str, id: str | int, key: str | None, data: Any, tags: Sequence[str]
    ) -> Subscribe:
        check_new_id(id)
        metadata = metadata_of(data, tags)
        check_subscriber(subscriber)
        check_key(key)
        return Subscribe(id, subscriber, expression, 0, self._open.routes.route(expression), key, metadata)

    def unsubscribe(self, id: str | int, key: str | None = None) -> bool:
        """Removes a subscription. Returns whether it existed."""
        check_id(id)
        check_key(key)
        return self._submit(Unsubscribe(id, key)).found

    def subscribe_texts(self, columns: TextColumns, atomic: bool = False, key: str | None = None) -> AddReport:
        """Adds many subscriptions. Bad ones are reported by position, and the others are added; with `atomic`, all or none are added."""
        check_key(key)
        carried = described(columns.ids, None, columns.data, columns.tags)
        refused = {each.position: each.error for each in carried.rejections} if carried else {}
        rejections: list[Rejection] = []
        good, routes = [], []
        found = self._open.routes.routes(columns.expressions)
        for position, (identity, name, route) in enumerate(zip(columns.ids, columns.subscribers, found, strict=True)):
            try:
                check_new_id(identity)
                check_subscriber(name)
                if isinstance(route, RayPubSubError):
                    raise route
                if position in refused:
                    raise refused[position]
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
            else:
                good.append(position)
                routes.append(route)
        _check_rejections(atomic, rejections)
        if not good:
            return AddReport(0, rejections)
        columns = replace(columns, data=None, tags=None, metadata=carried.metadata if carried else None)
        chosen = columns if len(good) == len(columns) else columns.take(good)
        pivots, writer = PivotColumn.of(routes), self._open.writer
        answer: BulkAnswer = writer.run(lambda: writer.put_texts(chosen, pivots, key), BULK_TIMEOUT)
        return AddReport(answer.count, rejections)

    def subscribe_intervals(
        self,
        table: Any,
        subscriber: str | None = None,
        atomic: bool = False,
        key: str | None = None,
        data: Any = None,
        tags: Any = None,
    ) -> AddReport:
        """Does the same for intervals (see MatchIndex.add_predicates), with a column `subscriber` unless one subscriber is given for
        all."""
        check_key(key)
        load = read_intervals(table, subscriber)
        carried = described(load.ids.tolist(), None, data, tags)
        _check_rejections(True, carried.rejections if carried else [])
        load.metadata = carried.metadata if carried else None
        _check_rejections(atomic, load.rejections)
        if not len(load):
            return AddReport(0, load.rejections)
        pivots, writer = self._open.routes.of_rows(load.predicates), self._open.writer
        answer: BulkAnswer = writer.run(lambda: writer.put_intervals(load, pivots, key), BULK_TIMEOUT)
        return AddReport(answer.count, load.rejections)

    def unsubscribe_many(self, ids: Sequence[str | int] | None, key: str | None = None, tag: str | None = None) -> int:
        """Removes many subscriptions: all of these ids, or nothing if one of them is not a valid id; without ids, those that have a tag.
        Returns the number that were stored."""
        check_ids(() if ids is None else ids)
        check_key(key)
        writer, store = self._open.writer, self._open.store

        # The ids of a tag are read by the thread that makes changes, so that no change comes in between.
        def remove() -> BulkAnswer:
            return writer.remove_many(store.tagged(check_tag(tag)) if ids is None else ids, key)

        answer: BulkAnswer = writer.run(remove, BULK_TIMEOUT)
        return answer.count

    def metadata(self, ids: Sequence[str | int]) -> list[Metadata | None]:
        """Returns the data and tags of each of these subscriptions, or None if it has none or is not stored."""
        check_ids(ids)
        return self._open.store.metadata(ids)

    def prioritize(self, id: str | int, level: str, expression: str, key: str | None = None) -> int:
        """Adds or replaces a priority rule. Returns the version that contains it."""
        check_key(key)
        return self._submit(self._rule(id, level, expression, key)).version

    def prioritize_many(
        self, rules: Sequence[tuple[Any, Any, Any]], atomic: bool = False, key: str | None = None
    ) -> AddReport:
        """Adds many rules (id, level, expression) in one transaction. Bad ones are reported by position; with `atomic`, all or none are
        added."""
        check_key(key)
        changes, rejections = [], []
        for position, (identity, level, expression) in enumerate(rules):
            try:
                own = None if key is None else f"{key}/{position}"
                changes.append(self._rule(identity, level, expression, own))
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
        _check_rejections(atomic, rejections)
        writer = self._open.writer
        if changes:
            writer.run(lambda: writer.commit(changes), BULK_TIMEOUT)
        return AddReport(len({change.id for change in changes}), rejections)

    def _rule(self, id: Any, level: Any, expression: Any, key: str | None) -> PutRule:
        check_new_id(id)
        levels = self._open.settings.levels
        if level not in levels:
            raise UnknownLevelError(level, levels)
        self._open.routes.route(expression)  # raises ExpressionError
        return PutRule(id, level, expression, key)

    def remove_rule(self, id: str | int, key: str | None = None) -> bool:
        """Removes a priority rule. Returns whether it existed."""
        check_id(id)
        check_key(key)
        return self._submit(RemoveRule(id, key)).found

    def get(self, id: str | int) -> StoredSubscription:
        """Returns one subscription. Raises UnknownSubscriptionError."""
        check_id(id)
        return self._open.store.get(id)

    def page(self, subscriber: str | None, after: int | None = 0, limit: int = 100, tag: str | None = None) -> Page:
        """Returns a page of the subscriptions of a subscriber, or of all; see `RegistryStore.page`."""
        if subscriber is not None:
            check_text("subscriber", subscriber)
        if tag is not None:
            check_tag(tag)
        return self._open.store.page(subscriber, after, check_whole("limit", limit, 1, LARGEST_PAGE), tag)

    def rules(self) -> list[Rule]:
        """Returns all priority rules."""
        return self._open.store.rules()

    def rebalance(self, factor: float = BALANCE) -> RebalanceReport:
        """Chooses routes again where the stream has changed, and balances the loads of the shards, while publishing and subscribing go
        on."""
        return self._open.moves.rebalance(factor)

    def _submit(self, change: Change) -> Answer:
        opened = self._open
        return opened.writer.submit(change, opened.settings.timeout)

    def _submit_if_owned(self, owner: str | None, change: Subscribe | Unsubscribe) -> bool:
        opened = self._open
        return opened.writer.submit_if_owned(owner, change, opened.settings.timeout)

    # ------------------------------------------------------------------------------------------------------------ actors

    def start_shard(self, shard: int) -> ShardStart:
        """Returns the epoch and all subscriptions for a new instance of a shard."""
        store = self._open.store
        epoch = store.take_epoch("shard", shard)
        known = self._open.routes.frequencies()
        return ShardStart(epoch, self.lineage, store.snapshot_for_shard(shard), known.frequencies())

    def changes_for_shard(self, shard: int, epoch: int, lineage: str, since: int) -> ShardChanges | None:
        """Returns the changes that a shard has missed, or None if it must load everything. Raises FencedError if there is a newer
        instance of it."""
        store = self._open.store
        if lineage != self.lineage:
            return None
        store.check_epoch("shard", shard, epoch)
        return store.changes_since(since, shard)

    def start_coordinator(self, coordinator: int) -> int:
        """Returns the epoch for a new instance of a coordinator."""
        return self._open.store.take_epoch("coordinator", coordinator)

    def attach_coordinator(self, coordinator: int, epoch: int, age: float = 0.0) -> CoordinatorState:
        """Returns everything a coordinator must know. From now on it has a lease and gets notes. `age`: see `CoordinatorLeases.attach`."""
        self._check_not_replaced()
        self._open.store.check_epoch("coordinator", coordinator, epoch)
        return self._open.writer.announcer.state_for_coordinator(coordinator, epoch, age)

    def renew(
        self, coordinator: int, epoch: int, registry_epoch: int, serial: int, learned: dict[str, Any] | None = None
    ) -> bool | None:
        """Returns whether the lease was renewed, or None if the coordinator must attach again. `learned`: see `Routes.learn`."""
        opened = self._open
        if learned is not None:
            opened.routes.learn(coordinator, learned)
            opened.moves.upkeep.reported()
        if registry_epoch != opened.store.epoch:
            return None
        self._check_not_replaced()
        return opened.leases.renew(coordinator, epoch, serial, opened.writer.announcer.serial)

    def _check_not_replaced(self) -> None:
        """Raises FencedError if a successor exists. The successor waits for the old leases to end, and would not know of a lease granted
        now."""
        store = self._open.store
        store.check_epoch("registry", 0, store.epoch)

    # ------------------------------------------------------------------------------------------------------------ health

    def health(self) -> dict[str, Any]:
        """Returns which instance this is, and whether the server is ready."""
        opened = self._open
        return {
            "pid": os.getpid(),
            "epoch": opened.store.epoch,
            "version": opened.store.version,
            "settled": opened.moves.settled.is_set(),
            "coordinators": opened.leases.attached(),
        }

    def stats(self) -> dict[str, Any]:
        """Returns the statistics of the registry."""
        opened = self._open
        counts, placement = opened.store.counts(), opened.writer.assignment.placement
        return {
            **self.health(),
            "uptime": time.time() - self._started,
            "subscriptions": counts.subscriptions,
            "as_text": counts.as_text,
            "as_intervals": counts.as_intervals,
            "subscribers": counts.subscribers,
            "rules": counts.rules,
            "loads": placement.loads,
            "sizes": placement.sizes,
            "needed": opened.writer.announcer.needed,
            "routes": opened.moves.upkeep.stats(),
            "memory_bytes": process_bytes(),
            "bytes": None if self._folder is None else _size(self._folder),
        }

    def subscriber_names(self) -> dict[int, str]:
        """Returns the names of all subscribers, by code."""
        return dict(self._open.store.subscribers_after())

    def is_subscriber(self, name: str) -> tuple[bool, tuple[str, ...]]:
        """Returns whether anybody has subscribed under this name and, if not, similar names."""
        names = self._open.store.subscriber_names()
        if name in names:
            return True, ()
        return False, tuple(get_close_matches(name, list(names), SIMILAR)) if len(names) <= MOST_COMPARED else ()

    def backup(self, folder: str) -> None:
        """Copies the store into a folder that has the copy of the mailboxes already, which completes the backup. Changes go on
        meanwhile."""
        self._open  # noqa: B018 - raises what keeps it from opening its store
        if self._database is not None:
            schemas = f"--schema='{self._database.schema}_*'"
            raise SettingError(
                "store", f"is a PostgreSQL database: copy it by pg_dump {schemas}, put it back by pg_restore"
            )
        if self._folder is None:
            raise SettingError("data_dir", "this server was started without one; it has nothing on disk to copy")
        copy_store(str(self._folder / STORES["registry"]), Path(folder))
        finish_copy(self._folder, Path(folder))

    def close(self) -> None:
        """Makes the changes that were submitted, and refuses further ones."""
        opened = self._opening.close()
        if opened is not None:
            opened.close()


def _check_rejections(atomic: bool, rejections: list[Rejection]) -> None:
    if atomic and rejections:
        raise RejectedSubscriptionsError(rejections)


def _size(folder: Path) -> int:
    """Returns the size of the registry's files in bytes."""
    return sum(path.stat().st_size for path in folder.glob(f"{STORES['registry']}*"))
