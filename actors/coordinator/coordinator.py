"""The coordinator's process: sends a batch to the shards that may match it, assigns priorities, delivers to the mailboxes and replies with
the matches.

It owns no data: what it knows comes from the registry (`routing_table.py`), and after a crash it starts from nothing. Large batches pass
through it by reference. It is a plain class; `transport/remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.client.preparing import new_key, prepare
from actors.client.publish_result import PublishResult
from actors.coordinator.admission_control import AdmissionControl
from actors.coordinator.attachment import REPORT_FREQUENCIES_EVERY, RegistryAttachment, RegistryOfCoordinator
from actors.coordinator.batch_matching import BatchMatcher, ShardsOfCoordinator
from actors.coordinator.delivering import delivered, delivery_batch
from actors.coordinator.publish_counts import PublishCounts
from actors.coordinator.routing_table import RoutingTable
from actors.mailboxes.delivery_batch import DeliverReport, DeliveryBatch
from actors.server_settings import ServerSettings
from actors.telemetry.process_memory import process_bytes
from actors.telemetry.rate_limited_log import RateLimitedLog
from actors.transport.calls import Deadline
from actors.transport.matching import FEW_MATCHES
from actors.transport.messages import BARRIER_LEASES, Note
from actors.transport.object_refs import StoredRef
from actors.transport.publish_reply import PublishReply
from actors.transport.published_events import PublishRequest
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import RayPubSubError
from ray_pubsub.model.events import read_events
from ray_pubsub.priority.report import PriorityBatch
from ray_pubsub.priority.rules import PriorityRules
from ray_pubsub.sharding.few_matches import listed_subscribers

__all__ = ["Coordinator"]

logger = logging.getLogger(__name__)


class MailboxesOfCoordinator(Protocol):
    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        """Delivers a matched batch. `names` has the names of the batch's subscribers, by code."""


class FirstLevels(NamedTuple):
    """The levels of a batch when it arrived, and the rules that determined them."""

    rules: PriorityRules
    found: PriorityBatch

    @property
    def highest(self) -> int:
        return int(self.found.levels.max(initial=0))

    def by(self, rules: PriorityRules) -> PriorityBatch | None:
        """Returns the levels if they are valid for these rules, and None if these rules may determine other levels."""
        return self.found if rules is self.rules and rules.version == self.found.version else None


class Coordinator:
    """Publishes batches. Every method may be called from any thread."""

    def __init__(
        self,
        number: int,
        settings: ServerSettings,
        registry: RegistryOfCoordinator,
        shards: ShardsOfCoordinator,
        mailboxes: MailboxesOfCoordinator,
    ) -> None:
        self.number = number
        self.settings = settings
        self._shards, self._mail = shards, mailboxes
        self._table = RoutingTable(settings)
        self._admission = AdmissionControl(
            settings.max_in_flight, settings.max_in_flight_bytes, settings.patience, len(settings.levels)
        )
        self._counts = PublishCounts()
        self._matcher = BatchMatcher(shards, self._table, self._counts)
        self._failures = RateLimitedLog()
        self._started = time.time()
        report_every = min(REPORT_FREQUENCIES_EVERY, settings.reroute_every or REPORT_FREQUENCIES_EVERY)
        self._attachment = RegistryAttachment(
            number, settings.lease, report_every, registry, self._table, self._counts.frequencies
        )
        self._attachment.start()

    # ------------------------------------------------------------------------------------------------------------ publishing

    def publish(
        self,
        events: Any,
        event_id: str | None = None,
        deliver: bool = True,
        idempotency_key: str | None = None,
        timeout: float | None = None,
        strict: bool = False,
    ) -> PublishResult:
        """Publishes events for callers of the actor's handle: a dict, a list of dicts, Arrow, pandas, or a reference to one of them.

        `event_id` names the attribute that holds the events' ids. An event whose id was published before, within the deduplication window,
        is not delivered again. `idempotency_key` is an id for the whole publication: if it is repeated under the same key, it is delivered
        once. Bad events are listed in the result's `errors`, and the others are published. `strict` has the meaning that it has in
        `Server.publish`.
        """
        key = new_key() if idempotency_key is None else idempotency_key
        seconds = self.settings.timeout if timeout is None else timeout
        prepared = prepare(events, event_id, key, deliver, strict=strict)
        reply = self.publish_prepared(PublishRequest(prepared, deliver, key, seconds))
        reply.fetch(self._shards.fetch)
        result = PublishResult.of(prepared, reply)
        result.idempotency_key = key
        if result.names is None:
            result.names = self.names_of(reply.lineage, result.codes(), seconds)
        return result

    def publish_prepared(self, request: PublishRequest) -> PublishReply:
        """Publishes events that the publisher has read and packed. The matches of the reply may still be in the object store."""
        events, deadline = request.events, Deadline(request.timeout)
        started = time.perf_counter()
        published = time.monotonic() - request.age
        if self._attachment.fenced is not None:
            raise self._attachment.fenced
        events.shared.load(self._shards.fetch)
        # The levels are determined before the batch waits for anything, so that urgent batches do not wait behind others.
        rules = self._table.rules
        first = FirstLevels(rules, rules.levels_of(events.batch)) if len(rules) else None
        try:
            with self._admission.admitted(events.nbytes, deadline.left, None if first is None else first.highest):
                reply, matches = self._publish(request, first, published, deadline)
        except RayPubSubError as error:
            self._counts.add(failed=1)
            if failures := self._failures.due():
                logger.warning(
                    "not published idempotency_key=%s events=%d failures=%d: %s: %s",
                    request.key, len(events), failures, type(error).__name__, error,
                )  # fmt: skip
            raise
        bad = len(events.errors) + len(reply.errors)
        self._counts.published(events.batch, len(events), bad, matches, time.perf_counter() - started)
        return reply

    def _publish(
        self, request: PublishRequest, first: FirstLevels | None, published: float, deadline: Deadline
    ) -> tuple[PublishReply, int]:
        """Matches and delivers an admitted batch. Returns the reply and the number of matches. `published` is the time of publication on
        the clock of `time.monotonic`. The levels are determined again if the rules have changed since the batch arrived: the view of the
        routing table that the batch was matched by includes every acknowledged rule, the rules at arrival may not."""
        events = request.events
        view, parts, errors = self._matcher.match(events, request.key, deadline, 0 if first is None else first.highest)
        levels = np.zeros(len(events), np.uint8)
        if len(view.rules):
            found = None if first is None else first.by(view.rules)
            found = view.rules.levels_of(events.batch) if found is None else found
            levels[slice(None) if events.positions is None else events.positions] = found.levels
        reply = PublishReply(levels, self.settings.levels, parts, view.lineage, errors)
        matches = len(reply)
        if matches and (request.deliver or matches <= FEW_MATCHES):
            here = [self._shards.fetch(part) if isinstance(part, StoredRef) else part for part in parts]
            names = self._table.names_of(view.lineage, listed_subscribers(here), deadline)
            if matches <= FEW_MATCHES:
                reply.names = names
            if request.deliver:
                age = time.monotonic() - published
                batch, unfit = delivery_batch(here, levels, events, request.key, age)
                reply.errors += unfit
                reply.deliveries = delivered(self._mail.deliver(batch, names))
        return reply, matches

    def names_of(self, lineage: str, codes: NDArray[np.int32], timeout: float | None = None) -> dict[int, str]:
        """Returns the names of subscribers by code. Waits for new ones, because a shard may know of a change before this coordinator
        does."""
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        return self._table.names_of(lineage, codes.tolist(), deadline)

    def explain(self, event: Mapping[str, Any], timeout: float | None = None) -> dict[int, IndexPlan]:
        """Returns how an event is matched by every shard that it visits, by shard number."""
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        batch = read_events([event], strict=False)
        if batch.errors:
            raise batch.errors[0]
        with self._table.view(batch, deadline) as view:
            requests = [
                (shard, dict(event), view.lineage, needed, deadline.left)
                for shard, needed in zip(view.shards, view.needed, strict=True)
            ]
            replies = self._shards.explain(requests, deadline.left)
        plans: dict[int, IndexPlan] = {}
        for shard, reply in zip(view.shards, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            plans[shard] = reply
        return plans

    def take_note(self, note: Note) -> bool:
        """Applies a note of the registry. True confirms that every batch that begins from now on is handled according to it."""
        return self._table.apply(note, BARRIER_LEASES * self.settings.lease)

    # ------------------------------------------------------------------------------------------------------------ looking in

    def watch_latencies(self, observe: Callable[[float], None]) -> None:
        """Registers `observe`, which is called with the seconds that each batch took."""
        self._counts.latencies.watcher = observe

    def health(self) -> dict[str, Any]:
        """Returns which instance this is and what it knows."""
        return {"pid": os.getpid(), "epoch": self._attachment.epoch, **self._table.state()}

    def stats(self) -> dict[str, Any]:
        """Returns `health` and all counts."""
        return {
            **self.health(),
            **self._counts.state(),
            **self._shards.counts(),
            **self._admission.counts(),
            "refused_by_level": dict(zip(self.settings.levels, self._admission.refused_by_level(), strict=True)),
            "memory_bytes": process_bytes(),
            "uptime": time.time() - self._started,
            "priorities": self._table.rules.stats(),
        }

    def close(self) -> None:
        self._attachment.stop()
        self._shards.close()
