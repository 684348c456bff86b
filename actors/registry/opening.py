"""Starts a registry: opens its store, merges the given settings with the stored ones, and reassigns the subscriptions of shards that no
longer exist."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.registry.announcements import Announcer
from actors.registry.assignment import Assignment
from actors.registry.change_writer import ChangeWriter
from actors.registry.changes import MoveSubscriptions, SetSetting
from actors.registry.leases import CoordinatorLeases
from actors.registry.moves import Moves
from actors.registry.notifier import RayNotifier
from actors.registry.rebalancing import Mover
from actors.registry.route_upkeep import RouteUpkeep
from actors.registry.routes import Routes
from actors.registry.store.store import RegistryStore
from actors.server_settings import ServerSettings
from actors.storage.data_folder import STORES, DataFolder
from actors.storage.database import Database
from actors.storage.postgres.address import PostgresAddress
from actors.transport.actor_handles import ActorHandles
from ray_pubsub.errors import SettingError, StoreError, UnavailableError
from ray_pubsub.sharding.placement import Placement

__all__ = ["BULK_TIMEOUT", "OpenRegistry", "open_registry"]

logger = logging.getLogger(__name__)

BULK_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True, eq=False)
class OpenRegistry:
    """The parts of a registry whose store is open."""

    settings: ServerSettings
    store: RegistryStore
    leases: CoordinatorLeases
    writer: ChangeWriter
    routes: Routes
    moves: Moves
    folder: DataFolder | None
    """The data folder, claimed while it is open."""

    def close(self) -> None:
        """Makes the changes that were submitted and closes the store. After a clean end the next start need not wait for leases."""
        self.moves.stop()
        self.writer.close()
        changes = {"stopped": True, **self.moves.learned()}
        try:
            self.store.commit([SetSetting(name, value) for name, value in changes.items()])
        finally:
            self.store.close()
            if self.folder is not None:
                self.folder.close()


def open_registry(
    handles: ActorHandles, place: Path | PostgresAddress | None, given: Mapping[str, Any]
) -> OpenRegistry:
    """Opens a registry. `place` is the data folder or the database. `given` has the settings that the caller gave; the others have their
    stored values, or the defaults. Raises StoreError or SettingError."""
    with ExitStack() as undo:
        folder = None
        if isinstance(place, Path):
            folder = undo.enter_context(DataFolder(place, handles.owner(), new=not handles.restarted()))
            path, create = place / STORES["registry"], folder.may_create("registry")
            store = undo.enter_context(RegistryStore(path, role="registry", create=create))
            folder.record("registry", store.identity)
        else:
            store = undo.enter_context(
                RegistryStore(None if place is None else _database(handles, place), role="registry")
            )
        opened = _assembled(handles, store, folder, given)
        undo.pop_all()
    logger.info(
        "opened epoch=%d version=%d lineage=%s shards=%d coordinators=%d data_dir=%s pid=%d",
        store.epoch, store.version, store.identity, opened.settings.shards, opened.settings.coordinators, place, os.getpid(),
    )  # fmt: skip
    return opened


def _database(handles: ActorHandles, address: PostgresAddress) -> Database:
    from actors.registry.store.postgres_schema import REGISTRY_TABLES
    from actors.storage.postgres.database import PostgresDatabase

    new = not handles.restarted()
    try:
        return PostgresDatabase(address, REGISTRY_TABLES, handles.owner(), create=new, in_doubt=handles.end_process)
    except UnavailableError as error:
        if new:  # the address is probably wrong; a restarting database is less likely
            raise StoreError(
                str(address), f"{error.reason.partition(';')[0]}; check the URL and start again"
            ) from error
        raise


def _assembled(
    handles: ActorHandles, store: RegistryStore, folder: DataFolder | None, given: Mapping[str, Any]
) -> OpenRegistry:
    stored = store.setting("server")
    # A registry without a data folder has stored nothing, but coordinators may still hold leases of its predecessor.
    fresh = (stored is None or store.setting("stopped") is True) and not handles.restarted()
    settings = _settings(store, stored, given)
    _empty_surplus_shards(store, settings.shards)
    store.commit([SetSetting("server", settings.state()), SetSetting("stopped", False)])
    leases = CoordinatorLeases(settings.coordinators, settings.lease)
    if fresh:
        for coordinator in range(settings.coordinators):
            leases.expect(coordinator)
    routes = Routes(settings.limits, store.setting("frequencies"), ignore_case=settings.ignore_case)
    longest = settings.timeout + settings.lease
    notifier = RayNotifier(handles, settings.lease, longest)
    assignment = Assignment(store, _placement(store, settings.shards, routes), longest)
    announcer = Announcer(store, settings.shards, leases, notifier)
    writer = ChangeWriter(store, assignment, announcer, leases)
    mover = Mover(writer, notifier, leases.wait_until_known, BULK_TIMEOUT)
    upkeep = RouteUpkeep(routes, mover, settings.reroute_every, store.setting("routes_judged"))
    moves = Moves(mover, routes, upkeep, writer, settings.timeout)
    return OpenRegistry(settings, store, leases, writer, routes, moves, folder)


def _settings(store: RegistryStore, stored: Mapping[str, Any] | None, given: Mapping[str, Any]) -> ServerSettings:
    before = ServerSettings() if stored is None else ServerSettings.of_state(stored)
    settings = before.changed(given)
    if settings.ignore_case != before.ignore_case and store.counts().subscriptions:
        reason = f"was {before.ignore_case} when the subscriptions of this server were stored, and they are filed by it"
        raise SettingError("ignore_case", f"{reason}; export them, and load them into a new server")
    for rule in store.rules() if settings.levels != before.levels else ():
        if rule.level not in settings.levels:
            reason = f"rule {rule.id!r} has the level {rule.level!r}, which is not among {settings.levels}"
            raise SettingError("levels", reason)
    return settings


def _placement(store: RegistryStore, shards: int, routes: Routes) -> Placement:
    state, frequencies = store.setting("placement"), routes.frequencies()
    if state is None or state["shards"] != shards:  # pivots are split again, over the current shards
        return Placement(shards, frequencies)
    return Placement.of_state(state, frequencies)


def _empty_surplus_shards(store: RegistryStore, shards: int) -> None:
    """Moves the subscriptions of shards that no longer exist to the remaining ones, before any shard has loaded."""
    for surplus in sorted({shard for shard, _, _ in store.route_counts() if shard >= shards}):
        numbers = store.snapshot_for_shard(surplus).all_numbers
        for target in range(shards):  # distributed evenly; `rebalance` does better
            store.commit([MoveSubscriptions(numbers[target::shards], surplus, target)])
