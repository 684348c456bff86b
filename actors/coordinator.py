"""A coordinator: a batch in; to the shards that may match it, their answers merged, priorities, mailboxes; the result out.

It holds no truth: what it knows comes from the registry (`coordinator_knowledge.py`), and a killed one begins anew. A batch passes it by
reference where it is large. A plain class: `remote.py` makes it an actor.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.calls import Deadline
from actors.coordinator_knowledge import CoordinatorKnowledge, View
from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.gathering import Question, gather
from actors.latencies import Latencies
from actors.messages import CoordinatorState, Note, ShardReply
from actors.publish_result import Delivered, PublishResult
from actors.published_events import PublishedEvents, new_request, prepare
from actors.server_settings import ServerSettings
from actors.turnstile import Turnstile
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import EventError, FencedError, RayPubSubError, UnavailableError
from ray_pubsub.kernels.merged_matches import mark_codes
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.priority.selection import select_events
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.merging import ShardMatches, merge_matches, unpacked_ids

__all__ = ["Coordinator"]

logger = logging.getLogger(__name__)

PAUSE = 0.1
TELL_LEARNED_EVERY = 10.0
SMALL_EVENTS = 64
"""So few events travel in the call; more are put into the object store once, for all shards."""


class RegistryOfCoordinator(Protocol):
    """What a coordinator asks of the registry. Every method may raise UnavailableError."""

    def start_coordinator(self, coordinator: int) -> int: ...

    def attach_coordinator(self, coordinator: int, epoch: int) -> CoordinatorState: ...

    def renew(
        self, coordinator: int, epoch: int, registry_epoch: int, serial: int, learned: dict[str, Any] | None
    ) -> bool | None: ...


class ShardsOfCoordinator(Protocol):
    def store(self, batch: EventBatch) -> Any:
        """Something that stands for the batch in `ask`, and is carried to any number of shards."""

    def fetch(self, stored: Any) -> EventBatch:
        """What that stands for."""

    def ask(self, questions: Sequence[tuple[int, str, tuple[Any, ...]]], timeout: float) -> list[Any | Exception]:
        """Calls methods of shards at once: the shard, the method, its arguments."""


class MailboxesOfCoordinator(Protocol):
    def introduce(self, names: dict[int, str]) -> None: ...

    def deliver(self, batch: DeliveryBatch) -> DeliverReport: ...


class Coordinator:
    """Every method may be called from any thread."""

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
        self._registry, self._shards, self._mail = registry, shards, mailboxes
        self._knowledge = CoordinatorKnowledge(settings)
        self._turnstile = Turnstile(settings.in_flight, settings.in_flight_bytes, settings.patience)
        self._epoch = 0
        self._shard_epochs: dict[int, int] = {}
        self._counting = threading.Lock()
        self._learned = AttributeFrequencies()
        self._latencies = Latencies()
        self._counts = dict.fromkeys(("batches", "events", "bad_events", "matches", "retries", "failed"), 0)
        self._started = time.time()
        self._fenced: FencedError | None = None
        self._stopped = threading.Event()
        # Not in the constructor: an actor whose constructor fails is never started again.
        threading.Thread(target=self._stay_attached, name=f"coordinator-{number}-lease", daemon=True).start()

    # ------------------------------------------------------------------------------------------------------------ publishing

    def publish(
        self,
        events: Any,
        event_id: str | None = None,
        deliver: bool = True,
        request: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """A dict, a list of dicts, Arrow, pandas, or a reference to one of them. `event_id` names the attribute with the events' ids: an
        id that was published before, within the window, is not delivered again. `request`: an id for the publication as a whole: one
        that is repeated under it is delivered once. Bad events are in the result's `errors`; the others are published."""
        request = new_request() if request is None else request
        return self.publish_prepared(prepare(events, event_id, request, deliver), None, deliver, request, timeout)

    def publish_prepared(
        self, events: PublishedEvents, stored: Any, deliver: bool, request: str, timeout: float | None = None
    ) -> PublishResult:
        """The same of events that the publisher has made ready. `stored`: their columns are not in `events`, but in the object store."""
        if stored is not None:
            events.batch = self._shards.fetch(stored)
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        started = time.perf_counter()
        if self._fenced is not None:
            raise self._fenced
        try:
            with self._turnstile.passed(events.nbytes, deadline.left):
                result = self._publish(events, stored, deliver, request, deadline)
        except RayPubSubError:
            with self._counting:
                self._counts["failed"] += 1
            raise
        with self._counting:
            self._latencies.add(time.perf_counter() - started)
            self._learned.observe(events.batch)
            for name, more in (
                ("batches", 1), ("events", len(events)), ("bad_events", len(result.errors)), ("matches", len(result)),
            ):  # fmt: skip
                self._counts[name] += more
        return result

    def _publish(
        self, events: PublishedEvents, stored: Any, deliver: bool, request: str, deadline: Deadline
    ) -> PublishResult:
        batch = events.batch
        levels = np.zeros(len(events), np.uint8)
        rules = self._knowledge.rules
        with self._knowledge.view(batch, deadline) as view:
            matches, errors = self._match(events, stored, view, deadline)
        if len(rules):
            found = rules.levels_of(batch).levels
            levels[slice(None) if events.positions is None else events.positions] = found
        offsets = matches.offsets
        if events.positions is not None:
            counts = np.zeros(len(events), np.int64)
            counts[events.positions] = np.diff(offsets)
            offsets = np.concatenate([[0], np.cumsum(counts)])
        result = PublishResult(
            offsets,
            events.ids,
            levels,
            self.settings.levels,
            matches.ids,
            matches.subscribers,
            self._names_of(matches.subscribers),
            sorted([*events.errors, *errors], key=lambda error: error.position or 0),
        )
        if deliver and len(result):
            result.deliveries = self._deliver(result, events, request)
        return result

    def _match(
        self, events: PublishedEvents, stored: Any, view: View, deadline: Deadline
    ) -> tuple[ShardMatches, list[EventError]]:
        batch = events.batch
        if not view.shards or not batch.size:
            return ShardMatches.none(batch.size), []
        needed = dict(zip(view.shards, view.needed, strict=True))
        whole = stored
        if whole is None:
            whole = self._shards.store(batch) if batch.size > SMALL_EVENTS else batch

        def ask(questions: Sequence[Question], timeout: float) -> list[ShardReply | Exception]:
            calls = []
            for question in questions:
                own = whole if question.rows is None else select_events(batch, question.rows)
                arguments = (own, view.lineage, needed[question.shard], timeout, view.moving)
                calls.append((question.shard, "match", arguments))
            replies = self._shards.ask(calls, timeout)
            return [self._checked(question.shard, reply) for question, reply in zip(questions, replies, strict=True)]

        gathered = gather(ask, view.shards, batch.size, deadline)
        if gathered.retries:
            with self._counting:
                self._counts["retries"] += gathered.retries
        errors = [
            EventError(None, "was left out: a shard died whenever it matched this event", _position(events, row))
            for row in gathered.deadly
        ]
        for error in errors:
            logger.error("%s", error)
        return merge_matches(gathered.parts, batch.size, repeated=view.moving and len(gathered.parts) > 1), errors

    def _checked(self, shard: int, reply: Any) -> Any:
        """An answer of an instance that was replaced is none. One that finds itself replaced is asked again: by then it is the new one."""
        if isinstance(reply, FencedError):
            return UnavailableError(f"shard {shard}", "is being replaced by a newer instance")
        if isinstance(reply, ShardReply):
            if reply.epoch < self._shard_epochs.get(shard, 0):
                return UnavailableError(f"shard {shard}", f"answered as epoch {reply.epoch}, which was replaced")
            self._shard_epochs[shard] = reply.epoch
        return reply

    def _names_of(self, codes: NDArray[np.int32]) -> dict[int, str]:
        """The names of the subscribers that occur."""
        if not len(codes):
            return {}
        used = np.zeros(int(codes.max()) + 1, np.bool_)
        mark_codes(codes, used)
        names = self._knowledge.names
        return {code: names[code] for code in np.flatnonzero(used).tolist()}

    def _deliver(self, result: PublishResult, events: PublishedEvents, request: str) -> Delivered:
        counts = result.counts()
        rows = np.repeat(np.arange(len(events)), counts)
        report = self._mail.deliver(
            DeliveryBatch(
                rows,
                unpacked_ids(result.packed_ids),
                result.subscriber_codes,
                result.levels[rows],
                events.ids,
                events.contents_of(np.flatnonzero(counts)),
                events.keys(),
                request,
            )
        )
        return Delivered(
            report.delivered,
            report.duplicates,
            report.dead,
            report.dropped,
            len(report.rejected),
            report.rejected_subscribers,
        )

    def explain(self, event: Mapping[str, Any], timeout: float | None = None) -> dict[int, IndexPlan]:
        """How an event is matched, by every shard that it visits."""
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        batch = read_events([event])
        if batch.errors:
            raise batch.errors[0]
        with self._knowledge.view(batch, deadline) as view:
            calls = [
                (shard, "explain", (dict(event), view.lineage, needed, deadline.left))
                for shard, needed in zip(view.shards, view.needed, strict=True)
            ]
            replies = self._shards.ask(calls, deadline.left)
        plans: dict[int, IndexPlan] = {}
        for shard, reply in zip(view.shards, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            plans[shard] = reply
        return plans

    # ------------------------------------------------------------------------------------------------------------ staying informed

    def take_note(self, note: Note) -> bool:
        """From the registry: whether every batch from now on goes by it."""
        if note.news.subscribers:
            self._mail.introduce(note.news.subscribers)
        return self._knowledge.take(note, self.settings.timeout)

    def _stay_attached(self) -> None:
        """Asks for everything, and then for a new lease well before the old one ends."""
        told = time.monotonic()
        renewed: bool | None = None
        while not self._stopped.wait(0 if renewed is None else self.settings.lease / 5):
            asked_at = time.monotonic()
            try:
                if not self._epoch:
                    self._epoch = self._registry.start_coordinator(self.number)
                if renewed is None:
                    state = self._registry.attach_coordinator(self.number, self._epoch)
                    self._mail.introduce(state.subscribers)
                    self._knowledge.learn(state, asked_at)
                    renewed = True
                    continue
                learned = None
                if asked_at - told > TELL_LEARNED_EVERY:
                    told = asked_at
                    with self._counting:
                        learned = self._learned.state()
                known = self._knowledge
                renewed = self._registry.renew(self.number, self._epoch, known.registry_epoch, known.serial, learned)
                if renewed:
                    known.renewed(asked_at, self.settings.lease)
            except FencedError as error:
                logger.warning("coordinator %d was replaced: %s", self.number, error)
                self._fenced = error
                return
            except RayPubSubError as error:
                logger.info("coordinator %d waits for the registry: %s", self.number, error)
                time.sleep(PAUSE)
            except Exception:
                logger.exception("coordinator %d", self.number)
                time.sleep(PAUSE)

    # ------------------------------------------------------------------------------------------------------------ looking in

    def health(self) -> dict[str, Any]:
        """Who this is, and how far it has come."""
        return {"pid": os.getpid(), "epoch": self._epoch, **self._knowledge.state()}

    def stats(self) -> dict[str, Any]:
        """In numbers."""
        with self._counting:
            counted = {**self._counts, "latencies": self._latencies.state()}
        turn = self._turnstile
        return {
            **self.health(),
            **counted,
            "in_flight": turn.inside,
            "in_flight_bytes": turn.bytes,
            "waiting": turn.waiting,
            "refused": turn.refused,
            "uptime": time.time() - self._started,
            "priorities": self._knowledge.rules.stats(),
        }

    def close(self) -> None:
        self._stopped.set()


def _position(events: PublishedEvents, row: int) -> int:
    return row if events.positions is None else int(events.positions[row])
