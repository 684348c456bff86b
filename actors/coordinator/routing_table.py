"""A coordinator's routing table: where events are sent, which priority rules apply, and until when the coordinator may rely on both.

All of it comes from the registry: first the whole state, then notes (`messages.Note`). Confirming a note means that every batch that begins
from then on is matched, prioritised and delivered according to it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from types import TracebackType
from typing import Any

from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline
from actors.transport.messages import CoordinatorState, News, Note, RuleChange
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.sharding.routing import ShardRoutes

__all__ = ["RoutingTable", "RoutingView"]


@dataclass(slots=True, eq=False)  # not frozen: to make one that is takes three times as long
class RoutingView:
    """The table as one batch sees it from beginning to end."""

    lineage: str
    version: int
    shards: tuple[int, ...]
    """The shards that may match some event of the batch."""
    needed: tuple[int, ...]
    """The version that each of these shards must have."""
    moving: bool
    """Whether a subscription may be on two shards, because it is being moved."""
    rules: PriorityRules
    attachment: int


class RoutingTable:
    """The routing table of a coordinator. Safe to use from several threads. Changes are made under one lock, which no batch holds while
    it waits and nobody holds for long: rules are compiled before it is taken."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._applying = threading.Lock()
        """Held while a note is applied, so that notes are applied one after the other. Taken before the lock of `_changed`."""
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        """The condition of the lock. What a batch does takes the lock itself, in half of the time."""
        self._lease_until = 0.0
        self._serial, self._version = 0, 0
        self._confirmed = 0
        """The serial of the last note that applies to every batch in flight too. It is less than `_serial` while a barrier waits for
        some batches."""
        self._registry_epoch, self._lineage = 0, ""
        self._needed = [0] * settings.shards
        self._routes = ShardRoutes(settings.shards)
        self._moving = True
        self._attachment = 0
        """How often the whole state was loaded."""
        self._generation = 0
        self._in_flight: dict[int, int] = {}
        """The number of batches being matched, by the generation in which they began."""
        self._barriers = 0
        """The number of barriers that wait for batches."""
        self.rules = settings.priority_rules()
        self.names: dict[int, str] = {}

    @property
    def serial(self) -> int:
        """The serial of the last note that may be confirmed. Renewing the lease with it lets the registry go on."""
        return self._confirmed

    @property
    def registry_epoch(self) -> int:
        return self._registry_epoch

    @property
    def lineage(self) -> str:
        return self._lineage

    def load(self, state: CoordinatorState, asked_at: float) -> None:
        """Replaces the table by the whole state of the registry, as it was when it was requested."""
        rules = self._settings.priority_rules()
        _change_rules(rules, [RuleChange(rule.id, rule.level, rule.expression) for rule in state.rules])
        routes = ShardRoutes(self._settings.shards)
        for shard, route, count in state.routes:
            routes.add(shard, route, count)
        with self._changed:
            known = (self._registry_epoch, self._lineage) == (state.registry_epoch, state.lineage)
            self._attachment += 1  # batches with an older view are matched again, so nothing waits for them
            if known and state.serial < self._serial:
                # A note that is newer than this state arrived before it, and was confirmed.
                self._confirmed = self._serial
                self._lease_until = asked_at + state.lease
                self._changed.notify_all()
                return
            self._registry_epoch, self._lineage = state.registry_epoch, state.lineage
            self._serial = self._confirmed = state.serial
            self._version, self._needed = state.version, state.needed.tolist()
            self._routes, self._moving, self.rules = routes, state.moving, rules
            self.names = dict(state.subscribers)
            self._lease_until = asked_at + state.lease
            self._changed.notify_all()

    def renew_lease(self, asked_at: float, seconds: float) -> None:
        with self._changed:
            self._lease_until = max(self._lease_until, asked_at + seconds)
            self._changed.notify_all()

    def drop_lease(self) -> None:
        """Gives up the lease. Called before the whole state is requested: the registry assumes that this coordinator knows the state as
        soon as the reply is sent, which is before the reply arrives."""
        with self._changed:
            self._lease_until = 0.0

    def apply(self, note: Note, timeout: float) -> bool:
        """Applies a note if it is the next one. Returns whether the note is in effect, from now on or already before. A barrier waits
        for the batches that began before it."""
        with self._applying:
            while (rules := self._rules_to_change(note)) is not None:
                attachment, own = rules
                _change_rules(own, note.news.rules)  # may take seconds; no batch waits for it
                with self._changed:
                    if attachment == self._attachment:  # otherwise the state was loaded again, with other rules
                        self._change(note.news)
                        self._serial = note.serial
                        self._changed.notify_all()
        with self._changed:
            if not self._is_known(note):
                return False
            attachment = self._attachment
            if note.news.barrier:
                self._generation += 1
                ended = self._generation
                self._barriers += 1
                try:
                    if not self._changed.wait_for(lambda: all(begun >= ended for begun in self._in_flight), timeout):
                        return False
                finally:
                    self._barriers -= 1
            if attachment == self._attachment and self._confirmed == note.serial - 1:
                self._confirmed = note.serial
            return True

    def _rules_to_change(self, note: Note) -> tuple[int, PriorityRules] | None:
        """Returns the attachment and its rules if the note is the next one, and None if the note is known already or cannot be applied."""
        with self._changed:
            if note.registry_epoch < self._registry_epoch:
                raise FencedError("the registry", note.registry_epoch, self._registry_epoch)
            if self._is_ours(note) and note.serial == self._serial + 1:
                return self._attachment, self.rules
            return None

    def _is_ours(self, note: Note) -> bool:
        return note.registry_epoch == self._registry_epoch and note.lineage == self._lineage

    def _is_known(self, note: Note) -> bool:
        return self._is_ours(note) and note.serial <= self._serial

    def _change(self, news: News) -> None:
        """Applies everything but the rules."""
        for shard, route, count in news.added:
            self._routes.add(shard, route, count)
        for shard in news.touched:
            self._needed[shard] = max(news.version, self._needed[shard])
        for shard, route, count in news.removed:
            self._routes.remove(shard, route, count)
        self.names.update(news.subscribers)
        self._version = max(self._version, news.version)
        self._moving = news.moving

    def view(self, batch: EventBatch, deadline: Deadline) -> ViewInUse:
        """Provides the table for one batch, which counts as in flight until the block ends. Raises UnavailableError if there is no lease
        within the deadline."""
        return ViewInUse(self, batch, deadline)

    def begin(self, batch: EventBatch, deadline: Deadline) -> tuple[RoutingView, int]:
        """Returns the view of a batch, and the generation to `end`."""
        attributes = batch.attributes()
        with self._lock:
            if not self._has_lease() and not self._changed.wait_for(self._has_lease, deadline.left):
                raise UnavailableError("the registry", "has not answered this coordinator for longer than a lease")
            begun = self._generation
            self._in_flight[begun] = self._in_flight.get(begun, 0) + 1
            shards = self._routes.visited(attributes)
            needed = tuple([self._needed[shard] for shard in shards])
            view = RoutingView(self._lineage, self._version, shards, needed, self._moving, self.rules, self._attachment)
        return view, begun

    def end(self, begun: int) -> None:
        """Ends a batch that began in this generation."""
        with self._lock:
            self._in_flight[begun] -= 1
            if not self._in_flight[begun]:
                del self._in_flight[begun]
                if self._barriers:
                    self._changed.notify_all()

    def is_current(self, view: RoutingView) -> bool:
        """Returns whether the view may still be used, that is, whether the whole state has not been loaded again since."""
        with self._lock:
            return view.attachment == self._attachment

    def held(self, view: RoutingView) -> bool:
        """Returns whether a matched batch counts: its view and the lease are still valid, so that the registry cannot have gone on
        without this batch. The registry waits for a coordinator's batches only while the coordinator has its lease."""
        with self._lock:
            return view.attachment == self._attachment and self._has_lease()

    def names_of(self, lineage: str, codes: Sequence[int], deadline: Deadline) -> dict[int, str]:
        """Returns subscribers' names by code. Waits for new ones, because a shard may know of a change before its note has arrived here."""
        with self._lock:
            if lineage == self._lineage:
                try:
                    return {code: self.names[code] for code in codes}
                except KeyError:
                    pass

            def known() -> bool:
                return lineage != self._lineage or all(code in self.names for code in codes)

            if not known() and not self._changed.wait_for(known, deadline.left):
                raise UnavailableError("the registry", "has not notified this coordinator of a new subscriber")
            if lineage != self._lineage:
                raise UnavailableError("the registry", "has lost its data since, and no longer knows these subscribers")
            return {code: self.names[code] for code in codes}

    def _has_lease(self) -> bool:
        return time.monotonic() < self._lease_until

    def state(self) -> dict[str, Any]:
        """Returns the state for `health`."""
        with self._changed:
            return {
                "version": self._version,
                "serial": self._serial,
                "lease_left": max(0.0, self._lease_until - time.monotonic()),
                "moving": self._moving,
                "being_matched": sum(self._in_flight.values()),
                "subscribers": len(self.names),
                "rules": len(self.rules),
            }


class ViewInUse:
    """The table for one batch, while a block runs."""

    __slots__ = ("_batch", "_begun", "_deadline", "_table")

    def __init__(self, table: RoutingTable, batch: EventBatch, deadline: Deadline) -> None:
        self._table, self._batch, self._deadline = table, batch, deadline

    def __enter__(self) -> RoutingView:
        view, self._begun = self._table.begin(self._batch, self._deadline)
        return view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._table.end(self._begun)


def _change_rules(rules: PriorityRules, changes: Sequence[RuleChange]) -> None:
    """Applies changes of rules in order. Consecutive additions are made in one step."""
    for removes, group in groupby(changes, key=lambda change: change.expression is None):
        own = list(group)
        if removes:
            for change in own:
                rules.remove(change.id)
        else:
            texts = [change.expression or "" for change in own]
            rules.add_many([change.id for change in own], [change.level for change in own], texts, atomic=True)
