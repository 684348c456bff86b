"""What a coordinator knows of the server, and whether it still may act on it.

All of it comes from the registry: at first everything, then notes (`messages.Note`). Confirming a note means that every batch that begins
from now on is matched, prioritised and delivered by it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from actors.calls import Deadline
from actors.messages import CoordinatorState, News, Note
from actors.server_settings import ServerSettings
from ray_pubsub.errors import FencedError, UnavailableError
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.sharding.routing import ShardRoutes

__all__ = ["CoordinatorKnowledge", "View"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """What one batch goes by."""

    lineage: str
    version: int
    shards: tuple[int, ...]
    needed: tuple[int, ...]
    """The version that each of these shards must have."""
    moving: bool
    """A subscription may be on two shards."""
    rules: PriorityRules
    attachment: int


class CoordinatorKnowledge:
    """Safe to use from several threads. What changes is changed under one lock, which no batch holds while it waits."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._changed = threading.Condition()
        self._lease_until = 0.0
        self._serial, self._version = 0, 0
        self._confirmed = 0
        """The last note that holds for every batch under way too: less than the serial while a barrier waits for some."""
        self._registry_epoch, self._lineage = 0, ""
        self._needed = np.zeros(settings.shards, np.int64)
        self._routes = ShardRoutes(settings.shards)
        self._moving = True
        self._attachment = 0
        """How often everything was learned anew."""
        self._generation = 0
        self._under_way: dict[int, int] = {}
        """Batches that are being matched, by the generation in which they began."""
        self.rules = PriorityRules(settings.levels, confirm=settings.confirm, limits=settings.limits)
        self.names: dict[int, str] = {}

    @property
    def serial(self) -> int:
        """Of the last note that may be confirmed: a lease that is renewed by it lets the registry go on."""
        return self._confirmed

    @property
    def registry_epoch(self) -> int:
        return self._registry_epoch

    @property
    def lineage(self) -> str:
        return self._lineage

    def learn(self, state: CoordinatorState, asked_at: float) -> None:
        """Everything, as it was when this was asked for."""
        rules = PriorityRules(self._settings.levels, confirm=self._settings.confirm, limits=self._settings.limits)
        if state.rules:
            rules.add_many(
                [rule.id for rule in state.rules],
                [rule.level for rule in state.rules],
                [rule.expression for rule in state.rules],
                atomic=True,
            )
        routes = ShardRoutes(self._settings.shards)
        for shard, route, count in state.routes:
            routes.add(shard, route, count)
        with self._changed:
            known = (self._registry_epoch, self._lineage) == (state.registry_epoch, state.lineage)
            self._attachment += 1  # batches from before this are matched anew, so nothing waits for them
            if known and state.serial < self._serial:
                # A note that came after this was made has overtaken it, and was confirmed.
                self._confirmed = self._serial
                self._lease_until = asked_at + state.lease
                self._changed.notify_all()
                return
            self._registry_epoch, self._lineage = state.registry_epoch, state.lineage
            self._serial = self._confirmed = state.serial
            self._version, self._needed = state.version, state.needed.copy()
            self._routes, self._moving, self.rules = routes, state.moving, rules
            self.names = dict(state.subscribers)
            self._lease_until = asked_at + state.lease
            self._changed.notify_all()

    def renewed(self, asked_at: float, seconds: float) -> None:
        with self._changed:
            self._lease_until = max(self._lease_until, asked_at + seconds)
            self._changed.notify_all()

    def let_lease_go(self) -> None:
        """Before everything is asked for anew: the registry takes this coordinator to know it from when it has answered, and that is
        before the answer is here."""
        with self._changed:
            self._lease_until = 0.0

    def take(self, note: Note, timeout: float) -> bool:
        """Whether the note is taken: it follows the last one, or is known already. A barrier waits for the batches before it."""
        with self._changed:
            if note.registry_epoch < self._registry_epoch:
                raise FencedError("the registry", note.registry_epoch, self._registry_epoch)
            if note.registry_epoch != self._registry_epoch or note.lineage != self._lineage:
                return False
            if note.serial > self._serial + 1:
                return False
            if note.serial == self._serial + 1:
                self._apply(note.news)
                self._serial = note.serial
                self._changed.notify_all()
            attachment = self._attachment
            if note.news.barrier:
                self._generation += 1
                ended = self._generation
                if not self._changed.wait_for(lambda: all(begun >= ended for begun in self._under_way), timeout):
                    return False
            if attachment == self._attachment and self._confirmed == note.serial - 1:
                self._confirmed = note.serial
            return True

    def _apply(self, news: News) -> None:
        for shard, route, count in news.added:
            self._routes.add(shard, route, count)
        for shard in news.touched:
            self._needed[shard] = max(news.version, self._needed[shard])
        for shard, route, count in news.removed:
            self._routes.remove(shard, route, count)
        for change in news.rules:
            if change.expression is None:
                self.rules.remove(change.id)
            else:
                self.rules.add(change.id, change.level, change.expression)
        self.names.update(news.subscribers)
        self._version = max(self._version, news.version)
        self._moving = news.moving

    @contextmanager
    def view(self, batch: EventBatch, deadline: Deadline) -> Iterator[View]:
        """What the batch goes by. Within, it counts as being matched. Raises UnavailableError if there is no lease in time."""
        attributes = [lane.attribute for lane in batch.lanes if len(lane)]
        with self._changed:
            if not self._changed.wait_for(self._may_publish, deadline.left):
                raise UnavailableError("the registry", "has not answered this coordinator for longer than a lease")
            begun = self._generation
            self._under_way[begun] = self._under_way.get(begun, 0) + 1
            shards = self._routes.visited(attributes)
            needed = tuple(int(self._needed[shard]) for shard in shards)
            view = View(self._lineage, self._version, shards, needed, self._moving, self.rules, self._attachment)
        try:
            yield view
        finally:
            with self._changed:
                self._under_way[begun] -= 1
                if not self._under_way[begun]:
                    del self._under_way[begun]
                    self._changed.notify_all()

    def is_current(self, view: View) -> bool:
        """Whether what this view says may still be acted on: it is from after the last time that everything was learned anew."""
        with self._changed:
            return view.attachment == self._attachment

    def held(self, view: View) -> bool:
        """Asked when a batch was matched: whether the registry cannot have gone on without it. It waits for the batches of a
        coordinator only while that has its lease."""
        with self._changed:
            return view.attachment == self._attachment and self._may_publish()

    def names_of(self, lineage: str, codes: Sequence[int], deadline: Deadline) -> dict[int, str]:
        """Waits until these subscribers have names: a shard may know of a change before the note about it has come."""
        with self._changed:

            def told() -> bool:
                return lineage != self._lineage or all(code in self.names for code in codes)

            if not self._changed.wait_for(told, deadline.left):
                raise UnavailableError("the registry", "has not told this coordinator of a new subscriber")
            if lineage != self._lineage:
                raise UnavailableError("the registry", "has lost its data since, and no longer knows these subscribers")
            return {code: self.names[code] for code in codes}

    def _may_publish(self) -> bool:
        return time.monotonic() < self._lease_until

    def state(self) -> dict[str, Any]:
        with self._changed:
            return {
                "version": self._version,
                "serial": self._serial,
                "lease_left": max(0.0, self._lease_until - time.monotonic()),
                "moving": self._moving,
                "being_matched": sum(self._under_way.values()),
                "subscribers": len(self.names),
                "rules": len(self.rules),
            }
