"""The registry: the one source of truth about subscriptions and rules, and where subscribing, placing and moving are decided.

Here a request is checked and parsed; `change_writer.py` makes it part of the server. Acknowledged means: on disk, and seen by every
publication that begins later. A plain class: `remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from actors.change_writer import ChangeWriter
from actors.coordinator_leases import CoordinatorLeases
from actors.data_folder import claim
from actors.interval_blocks import read_intervals
from actors.links import Links
from actors.messages import CoordinatorState, ShardStart
from actors.outlets import RayOutlets
from actors.process_memory import process_bytes
from actors.protocol import own_protocol
from actors.rebalancing import Mover, RebalanceReport
from actors.registry_arguments import check_subscriber
from actors.registry_bulk import TextColumns
from actors.registry_changes import (
    BulkAnswer,
    MoveSubscriptions,
    PutRule,
    RemoveRule,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry_columns import Page, Rule, ShardChanges, StoredSubscription
from actors.registry_store import RegistryStore
from actors.server_settings import ServerSettings
from actors.shard_content import all_numbers
from ray_pubsub.columns.integer_cutter import IntegerCutter
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    UnavailableError,
    UnknownLevelError,
)
from ray_pubsub.index.catalogue import check_id
from ray_pubsub.index.match_index import AddReport
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotChooser, Route
from ray_pubsub.sharding.placement import Placement

__all__ = ["Registry"]

logger = logging.getLogger(__name__)

FILE = "registry.sqlite"
PAUSE = 0.2
BULK_TIMEOUT = 600.0


class Registry:
    """Every method may be called from any thread."""

    def __init__(self, links: Links, data_dir: str | None, given: Mapping[str, Any], starter: str = "") -> None:
        """`given`: settings that were given; the others are as they were kept, or as they are by default. `starter`: who it is that
        started it, of several that tried at once."""
        self.name, self._starter = links.server, starter
        self._started = time.time()
        self._ready, self._closed = threading.Event(), threading.Event()
        self._failed: RayPubSubError | None = None
        try:
            self._open(links, data_dir, given)
        except RayPubSubError as error:  # kept for `ready`: nobody sees what the constructor of an actor raises
            self._failed = error
            logger.error("could not open: %s", error)

    def _open(self, links: Links, data_dir: str | None, given: Mapping[str, Any]) -> None:
        self.data_dir = None if data_dir is None else Path(data_dir)
        path = None
        self._claimed = None
        if self.data_dir is not None:
            self._claimed = claim(self.data_dir, f"{self.name} ({links.cluster()})")
            path = self.data_dir / FILE
        self._store = RegistryStore(path, role="registry")
        kept = self._store.setting("server")
        stored = ServerSettings() if kept is None else ServerSettings.of_state(kept)
        self.settings = settings = stored.changed(given)
        if kept is not None and settings.levels != stored.levels:
            self._check_levels(settings.levels)
        self.lineage = self._store.setting("lineage") or uuid.uuid4().hex
        # A registry that kept nothing has none, and yet there are coordinators with leases from the one before it.
        fresh = (kept is None or self._store.setting("stopped") is True) and not links.restarted()
        state = self._store.placement()
        self._vacate()
        kept_frequencies = self._store.setting("frequencies")
        self._frequencies = (
            AttributeFrequencies.of_state(kept_frequencies) if kept_frequencies else AttributeFrequencies()
        )
        self._learned: dict[int, AttributeFrequencies] = {}
        placement = self._placement(state)
        changes = {"lineage": self.lineage, "server": settings.state(), "stopped": False}
        self._store.commit([SetSetting(name, value) for name, value in changes.items()])
        self._shapes = ShapeCache(settings.limits, cutter=IntegerCutter())
        self._chooser = PivotChooser()
        self._chooser.refresh(self._frequencies)
        self._parsing = threading.Lock()
        self._leases = CoordinatorLeases(settings.coordinators, settings.lease)
        if fresh:  # nobody has a lease
            for coordinator in range(settings.coordinators):
                self._leases.expect(coordinator)
        outlets = RayOutlets(links, settings.lease, settings.timeout + settings.lease)
        longest = settings.timeout + settings.lease
        self._writer = ChangeWriter(self._store, placement, self.lineage, self._leases, outlets, longest)
        self._mover = Mover(self._writer, outlets, self._leases.wait_until_known, BULK_TIMEOUT)
        self._rebalancing = threading.Lock()
        logger.info(
            "opened epoch=%d version=%d lineage=%s shards=%d coordinators=%d data_dir=%s fresh=%s pid=%d",
            self._store.epoch, self._store.version, self.lineage, settings.shards, settings.coordinators, data_dir, fresh,
            os.getpid(),
        )  # fmt: skip
        threading.Thread(target=self._settle, name="registry-settle", daemon=True).start()

    def _placement(self, state: Mapping[str, Any] | None) -> Placement:
        shards = self.settings.shards
        if state is None or state["shards"] != shards:  # what was split is split anew over all there are
            return Placement(shards, self._frequencies)
        return Placement.of_state(state, self._frequencies)

    def _vacate(self) -> None:
        """There may be fewer shards than there were: what the others had goes to those that stay, before anybody has loaded it."""
        for group_shard in sorted(
            {shard for shard, _, _ in self._store.route_counts() if shard >= self.settings.shards}
        ):
            numbers = all_numbers(self._store.snapshot_for_shard(group_shard))
            for target in range(self.settings.shards):  # evenly, but for what `rebalance` knows better
                own = numbers[target :: self.settings.shards]
                self._store.commit([MoveSubscriptions(own, group_shard, target)])

    def _check_levels(self, levels: tuple[str, ...]) -> None:
        for rule in self._store.rules():
            if rule.level not in levels:
                raise SettingError(
                    "levels", f"rule {rule.id!r} has the level {rule.level!r}, which is not among {levels}"
                )

    def _settle(self) -> None:
        """What a crash may have interrupted is ended, as soon as all shards answer."""
        while self._writer.moving and not self._closed.is_set():
            try:
                with self._rebalancing:
                    self._mover.settle()
            except UnavailableError as error:
                logger.info("waiting for the shards: %s", error)
                time.sleep(PAUSE)
            except Exception:  # without this thread the server would never be ready
                logger.exception("could not settle")
                time.sleep(1.0)
        self._ready.set()

    # ------------------------------------------------------------------------------------------------------------ requests

    def opened(self) -> dict[str, Any]:
        """Who this is, and how it is set up; raises what kept it from opening its store."""
        if self._failed is not None:
            raise self._failed
        return {
            "name": self.name,
            "settings": self.settings.state(),
            "data_dir": None if self.data_dir is None else str(self.data_dir),
            "lineage": self.lineage,
            "starter": self._starter,
            "pid": os.getpid(),
            **own_protocol(),
        }

    def subscribe(self, subscriber: str, expression: str, id: str | int, request: str | None = None) -> int:
        """Adds or replaces; returns the version that has it."""
        check_id(id)
        check_subscriber(subscriber)
        route = self._route(expression)
        answer = self._writer.submit(Subscribe(id, subscriber, expression, 0, route, None, request), self._timeout)
        return answer.version

    def unsubscribe(self, ids: Sequence[str | int], request: str | None = None) -> list[bool]:
        """Removes; whether each was there."""
        for identity in ids:
            check_id(identity)
        changes = [
            Unsubscribe(identity, None if request is None else f"{request}/{place}")
            for place, identity in enumerate(ids)
        ]
        futures = self._writer.committer.submit_many(changes)
        try:
            return [future.result(self._timeout).found for future in futures]
        except TimeoutError:
            raise UnavailableError("the registry", f"did not get to it within {self._timeout:g} s") from None

    def subscribe_texts(self, columns: TextColumns, atomic: bool = False, request: str | None = None) -> AddReport:
        """Many at once. The bad ones are in the report, by position; the others are in. With `atomic` all or none."""
        good, routes, rejections = self._parsed(columns)
        if atomic and rejections:
            raise RejectedSubscriptionsError(rejections)
        if not good:
            return AddReport(0, rejections)
        chosen = columns if len(good) == len(columns) else _taken(columns, good)
        answer = self._writer.work(lambda: self._writer.put_texts(chosen, routes, request), BULK_TIMEOUT)
        return _report(answer, good, rejections, atomic)

    def subscribe_intervals(
        self, table: Any, subscriber: str | None = None, atomic: bool = False, request: str | None = None
    ) -> AddReport:
        """The same of intervals (MatchIndex.add_predicates), with a column `subscriber` unless one is given for all."""
        load = read_intervals(table, subscriber)
        if atomic and load.rejections:
            raise RejectedSubscriptionsError(load.rejections)
        if not len(load):
            return AddReport(0, load.rejections)
        with self._parsing:
            pivots = self._chooser.routes_of_rows(load.predicates)
        answer = self._writer.work(lambda: self._writer.put_intervals(load, pivots, request), BULK_TIMEOUT)
        return AddReport(answer.added, answer.rejections)

    def prioritize(self, id: str | int, level: str, expression: str, request: str | None = None) -> int:
        """Adds or replaces a priority rule; returns the version that has it."""
        check_id(id)
        if level not in self.settings.levels:
            raise UnknownLevelError(level, self.settings.levels)
        self._route(expression)
        return self._writer.submit(PutRule(id, level, expression, request), self._timeout).version

    def remove_rule(self, id: str | int, request: str | None = None) -> bool:
        """Whether it was there."""
        check_id(id)
        return self._writer.submit(RemoveRule(id, request), self._timeout).found

    def get(self, id: str | int) -> StoredSubscription:
        return self._store.get(id)

    def page(self, subscriber: str, after: int | None = 0, limit: int = 100) -> Page:
        return self._store.page(subscriber, after, limit)

    def rules(self) -> list[Rule]:
        return self._store.rules()

    def rebalance(self, factor: float = 1.1) -> RebalanceReport:
        """Evens out the loads of the shards, while everything goes on."""
        with self._rebalancing:
            frequencies = self.frequencies()
            try:
                report = self._mover.rebalance(frequencies, factor)
            finally:
                if self._writer.moving:  # it was given up half-way, because a shard stayed away
                    threading.Thread(target=self._settle, name="registry-settle", daemon=True).start()
            with self._parsing:
                self._chooser.refresh(frequencies)
            self._writer.work(
                lambda: self._store.commit([SetSetting("frequencies", frequencies.state())]), self._timeout
            )
        return report

    def frequencies(self) -> AttributeFrequencies:
        """What all coordinators have learned about events."""
        known = AttributeFrequencies.of_state(self._frequencies.state())
        for learned in list(self._learned.values()):
            known.merge(learned)
        return known

    # ------------------------------------------------------------------------------------------------------------ its actors

    def start_shard(self, shard: int) -> ShardStart:
        """For a new instance of a shard: its epoch, and all its subscriptions."""
        self._check_failed()
        epoch = self._store.take_epoch("shard", shard)
        return ShardStart(epoch, self.lineage, self._store.snapshot_for_shard(shard))

    def changes_for_shard(self, shard: int, epoch: int, lineage: str, since: int) -> ShardChanges | None:
        """What a shard has missed; None if it must start anew. Raises FencedError if there is a newer instance of it."""
        self._check_failed()
        if lineage != self.lineage:
            return None
        self._store.check_epoch("shard", shard, epoch)
        return self._store.changes_since(since, shard)

    def start_coordinator(self, coordinator: int) -> int:
        """The epoch of a new instance."""
        self._check_failed()
        return self._store.take_epoch("coordinator", coordinator)

    def attach_coordinator(self, coordinator: int, epoch: int, age: float = 0.0) -> CoordinatorState:
        """Everything a coordinator must know; from now on it has a lease, and is told the rest. `age`: see `CoordinatorLeases.attach`."""
        self._check_failed()
        self._check_not_replaced()
        self._store.check_epoch("coordinator", coordinator, epoch)
        return self._writer.state_for_coordinator(coordinator, epoch, age)

    def renew(
        self, coordinator: int, epoch: int, registry_epoch: int, serial: int, learned: dict[str, Any] | None = None
    ) -> bool | None:
        """Whether the lease is renewed; None: attach anew. `learned`: what it knows of the events' attributes by now."""
        self._check_failed()
        if learned is not None:
            self._learned[coordinator] = AttributeFrequencies.of_state(learned)
            with self._parsing:
                self._chooser.refresh(self.frequencies())
        if registry_epoch != self._store.epoch:
            return None
        self._check_not_replaced()
        return self._leases.renew(coordinator, epoch, serial, self._writer.serial)

    # ------------------------------------------------------------------------------------------------------------ looking in

    def health(self) -> dict[str, Any]:
        self._check_failed()
        return {
            "pid": os.getpid(),
            "epoch": self._store.epoch,
            "version": self._store.version,
            "settled": self._ready.is_set(),
            "coordinators": self._leases.attached(),
        }

    def stats(self) -> dict[str, Any]:
        """In numbers."""
        counts = self._store.counts()
        return {
            **self.health(),
            "uptime": time.time() - self._started,
            "subscriptions": counts.subscriptions,
            "as_text": counts.as_text,
            "as_intervals": counts.as_intervals,
            "subscribers": counts.subscribers,
            "rules": counts.rules,
            "loads": self._writer.placement.loads,
            "sizes": self._writer.placement.sizes,
            "needed": self._writer.needed,
            "memory_bytes": process_bytes(),
            "bytes": _size(self.data_dir),
        }

    def subscriber_names(self) -> dict[int, str]:
        return dict(self._store.subscribers_after())

    def close(self) -> None:
        """Nothing more is taken; what was taken is done. A clean end spares the next start a lease's waiting."""
        if self._failed is not None:
            return
        self._closed.set()
        self._writer.committer.close()
        changes = {"stopped": True, "frequencies": self.frequencies().state()}
        try:
            self._store.commit([SetSetting(name, value) for name, value in changes.items()])
        finally:
            self._store.close()
            if self._claimed is not None:
                self._claimed.close()

    @property
    def _timeout(self) -> float:
        return self.settings.timeout

    def _check_not_replaced(self) -> None:
        """Or leases would be given behind the back of a newer instance, which waits for those given before it to end."""
        self._store.check_epoch("registry", 0, self._store.epoch)

    def _check_failed(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _route(self, expression: str) -> Route:
        """Raises an ExpressionError."""
        with self._parsing:
            return self._chooser.route(self._shapes.parse(expression))

    def _parsed(self, columns: TextColumns) -> tuple[list[int], list[Route], list[Rejection]]:
        """Positions and routes of the good ones."""
        good, routes, rejections = [], [], []
        rows = zip(columns.ids, columns.subscribers, columns.texts, strict=True)
        for position, (identity, subscriber, text) in enumerate(rows):
            try:
                check_id(identity)
                check_subscriber(subscriber)
                routes.append(self._route(text))
                good.append(position)
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
        return good, routes, rejections


def _taken(columns: TextColumns, positions: Sequence[int]) -> TextColumns:
    return TextColumns(
        *([column[place] for place in positions] for column in (columns.ids, columns.subscribers, columns.texts))
    )


def _report(answer: BulkAnswer, good: Sequence[int], rejections: list[Rejection], atomic: bool) -> AddReport:
    """What the store rejected has its position among the good ones."""
    more = [rejection.at(good[rejection.position]) for rejection in answer.rejections]
    return AddReport(answer.added, sorted([*rejections, *more], key=lambda rejection: rejection.position))


def _size(directory: Path | None) -> int | None:
    if directory is None:
        return None
    return sum(path.stat().st_size for path in directory.glob(f"{FILE}*"))
