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
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from actors.calls import Deadline
from actors.coordinator_knowledge import CoordinatorKnowledge, View
from actors.coordinator_leases import BARRIER_LEASES
from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.gathering import Question, gather
from actors.latencies import Latencies
from actors.messages import CoordinatorState, Note, ShardReply
from actors.packing import packed, packed_apart, unpacked
from actors.process_memory import process_bytes
from actors.publish_result import Delivered, PublishResult
from actors.published_events import PublishedEvents, new_request, prepare
from actors.recent_rate import RecentRate
from actors.seldom import Seldom
from actors.server_settings import ServerSettings
from actors.stored_batch import Carried, Stored
from actors.true_deaths import with_true_deaths
from actors.turnstile import Turnstile
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import EventError, FencedError, RayPubSubError, UnavailableError
from ray_pubsub.kernels.merged_matches import mark_codes
from ray_pubsub.model.events import read_events
from ray_pubsub.priority.selection import select_events
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.merging import ShardMatches, merge_matches, unpacked_ids

__all__ = ["Coordinator"]

logger = logging.getLogger(__name__)

PAUSE = 0.1
TELL_LEARNED_EVERY = 10.0
FEW_MATCHES = 4096
SMALL_EVENTS = 64
"""So few events travel in the call; more are put into the object store once, for all shards."""


class RegistryOfCoordinator(Protocol):
    """What a coordinator asks of the registry. Every method may raise UnavailableError."""

    def start_coordinator(self, coordinator: int) -> int: ...

    def attach_coordinator(self, coordinator: int, epoch: int, age: float) -> CoordinatorState: ...

    def renew(
        self, coordinator: int, epoch: int, registry_epoch: int, serial: int, learned: dict[str, Any] | None
    ) -> bool | None: ...


class ShardsOfCoordinator(Protocol):
    def fetch(self, stored: Any) -> Any:
        """What that stands for."""

    def match(self, questions: Sequence[tuple[Any, ...]], timeout: float) -> list[ShardReply | Exception]:
        """Asks shards at once: which, and the arguments of `Shard.match`, whose events are `Carried` if they are many."""

    def alive(self, shard: int, timeout: float) -> int | None:
        """The epoch of a shard that answers and has loaded; else None."""

    def explain(self, questions: Sequence[tuple[Any, ...]], timeout: float) -> list[IndexPlan | Exception]:
        """The same of `Shard.explain`."""

    def numbers(self) -> dict[str, int]:
        """What was counted, for `stats`."""

    def close(self) -> None: ...


class MailboxesOfCoordinator(Protocol):
    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        """`names`: of the subscribers in the batch, by code."""


class OutdatedViewError(Exception):
    """What a batch is being matched by was replaced meanwhile."""


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
        self._shard_epochs: dict[tuple[str, int], int] = {}
        """By lineage too: a registry that kept nothing counts anew when it is started anew."""
        self._counting = threading.Lock()
        self._learned = AttributeFrequencies()
        self.latencies, self._rate = Latencies(), RecentRate()
        self._tell_failure = Seldom()
        self._counts = dict.fromkeys(("batches", "events", "bad_events", "matches", "retries", "failed", "deadly"), 0)
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
        result = self.publish_prepared(prepare(events, event_id, request, deliver), None, deliver, request, timeout)
        result.fetch(self._shards.fetch)
        result.names = self.names_of(result.lineage, result.codes(), timeout)
        return result

    def publish_few(self, publication: bytes) -> bytes:
        """The same for a few events: the arguments packed, and the result."""
        return packed(self.publish(*unpacked(publication)))

    def publish_for_neighbour(self, events: PublishedEvents | bytes, *rest: Any) -> Sequence[Any]:
        """The same for one on this node who has no need of Ray to carry it: few events as for `publish_few`, others as for
        `publish_prepared`. Gives the parts of a message: the result, or the error."""
        try:
            if isinstance(events, bytes):
                result = self.publish(*unpacked(events))
            else:
                result = self.publish_prepared(events, None, *rest)
                result.fetch(self._shards.fetch)
        except (FencedError, UnavailableError):
            raise  # no answer: Ray finds the instance that is the coordinator now
        except RayPubSubError as error:
            return [packed(error)]
        return [packed(result)] if len(result) <= FEW_MATCHES else packed_apart(result)

    def publish_prepared(
        self, events: PublishedEvents, stored: Any, deliver: bool, request: str, timeout: float | None = None
    ) -> PublishResult:
        """The same of events that the publisher has made ready. `stored`: their columns are not in `events`, but in the object store. The
        result's columns may be there too, and the names of subscribers are not in it: `fetch` and `names_of` bring both."""
        if stored is not None:
            events.batch = self._shards.fetch(stored)
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        started = time.perf_counter()
        if self._fenced is not None:
            raise self._fenced
        try:
            with self._turnstile.passed(events.nbytes, deadline.left):
                result = self._publish(events, stored, deliver, request, deadline)
        except RayPubSubError as error:
            with self._counting:
                self._counts["failed"] += 1
            if failures := self._tell_failure.due():
                logger.warning(
                    "not published request=%s events=%d failures=%d: %s: %s",
                    request, len(events), failures, type(error).__name__, error,
                )  # fmt: skip
            raise
        with self._counting:
            self.latencies.add(time.perf_counter() - started)
            self._rate.add(len(events))
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
        view, parts, errors = self._matched(events, stored, request, deadline)
        if len(view.rules):
            found = view.rules.levels_of(batch).levels
            levels[slice(None) if events.positions is None else events.positions] = found
        result = PublishResult(
            events.ids,
            levels,
            self.settings.levels,
            parts,
            events.positions,
            view.moving,
            sorted([*events.errors, *errors], key=lambda error: error.position or 0),
            lineage=view.lineage,
        )
        if deliver and parts:
            result.deliveries = self._deliver(parts, view, levels, events, request, deadline)
        return result

    def _matched(
        self, events: PublishedEvents, stored: Any, request: str, deadline: Deadline
    ) -> tuple[View, list[ShardMatches | Stored], list[EventError]]:
        """Matches by one view from beginning to end; if that did not hold for so long, again by a new one."""
        while True:
            try:
                with self._knowledge.view(events.batch, deadline) as view:
                    parts, errors = self._match(events, stored, request, view, deadline)
                    if self._knowledge.held(view):
                        return view, parts, errors
            except OutdatedViewError:
                pass
            if not deadline:
                raise UnavailableError("the registry", "was replaced, and this batch was not matched anew in time")
            with self._counting:
                self._counts["retries"] += 1

    def _match(
        self, events: PublishedEvents, stored: Any, request: str, view: View, deadline: Deadline
    ) -> tuple[list[ShardMatches | Stored], list[EventError]]:
        batch = events.batch
        if not view.shards or not batch.size:
            return [], []
        needed = dict(zip(view.shards, view.needed, strict=True))
        whole = Carried(batch, stored) if batch.size > SMALL_EVENTS else (events.few or batch)

        def ask(questions: Sequence[Question], timeout: float) -> list[ShardReply | Exception]:
            if not self._knowledge.is_current(view):
                raise OutdatedViewError
            calls = []
            for question in questions:
                own = whole if question.rows is None else select_events(batch, question.rows)
                calls.append((question.shard, own, view.lineage, needed[question.shard], timeout, view.moving))
            replies = self._shards.match(calls, timeout)
            return [
                self._checked(view.lineage, question, reply) for question, reply in zip(questions, replies, strict=True)
            ]

        gathered = gather(with_true_deaths(ask, self._shards.alive), view.shards, batch.size, deadline)
        if gathered.retries:
            with self._counting:
                self._counts["retries"] += gathered.retries
                self._counts["deadly"] += len(gathered.deadly)
            logger.warning(
                "retried request=%s retries=%d events=%d version=%d shards=%s",
                request, gathered.retries, len(events), view.version, list(view.shards),
            )  # fmt: skip
        errors = [
            EventError(None, "was left out: a shard died whenever it matched this event", _position(events, row))
            for row in gathered.deadly
        ]
        for row, error in zip(gathered.deadly, errors, strict=True):
            logger.error(
                "deadly event request=%s event=%r version=%d: %s",
                request, events.ids[_position(events, row)], view.version, error,
            )  # fmt: skip
        return gathered.parts, errors

    def _checked(self, lineage: str, question: Question, reply: ShardReply | Exception) -> ShardReply | Exception:
        """An answer of an instance that was replaced is none. One that finds itself replaced is asked again: by then it is the new one."""
        shard = question.shard
        if isinstance(reply, FencedError):
            return UnavailableError(f"shard {shard}", "is being replaced by a newer instance")
        if isinstance(reply, ShardReply):
            if reply.epoch < self._shard_epochs.get((lineage, shard), 0):
                return UnavailableError(f"shard {shard}", f"answered as epoch {reply.epoch}, which was replaced")
            self._shard_epochs[lineage, shard] = reply.epoch
            if question.rows is not None and isinstance(reply.matches, Stored):
                return replace(reply, matches=self._shards.fetch(reply.matches))
        return reply

    def names_of(self, lineage: str, codes: NDArray[np.int32], timeout: float | None = None) -> dict[int, str]:
        """The names of subscribers. Those that are new are waited for: a shard may know of a change before this coordinator does."""
        deadline = Deadline(self.settings.timeout if timeout is None else timeout)
        return self._knowledge.names_of(lineage, codes.tolist(), deadline)

    def _deliver(
        self,
        parts: Sequence[ShardMatches | Stored],
        view: View,
        levels: NDArray[np.uint8],
        events: PublishedEvents,
        request: str,
        deadline: Deadline,
    ) -> Delivered:
        """The mailboxes put everything into their own order, so the shards' answers need not be merged, unless some may be there twice."""
        found = [self._shards.fetch(part) if isinstance(part, Stored) else part for part in parts]
        if view.moving:
            found = [merge_matches(found, events.batch.size, repeated=len(found) > 1)]
        rows = np.concatenate([np.repeat(np.arange(part.events), np.diff(part.offsets)) for part in found])
        if not len(rows):
            return Delivered()
        if events.positions is not None:
            rows = events.positions[rows]
        matched = np.zeros(len(events), np.bool_)
        matched[rows] = True
        codes = _distinct(np.concatenate([part.subscribers for part in found]))
        names = self._knowledge.names_of(view.lineage, codes, deadline)
        report = self._mail.deliver(
            DeliveryBatch(
                rows,
                np.concatenate([unpacked_ids(part.ids)[part.places] for part in found if len(part)]),
                np.concatenate([part.match_subscribers for part in found]),
                levels[rows],
                events.ids,
                events.contents_of(np.flatnonzero(matched)),
                events.keys(),
                request,
            ),
            names,
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
                (shard, dict(event), view.lineage, needed, deadline.left)
                for shard, needed in zip(view.shards, view.needed, strict=True)
            ]
            replies = self._shards.explain(calls, deadline.left)
        plans: dict[int, IndexPlan] = {}
        for shard, reply in zip(view.shards, replies, strict=True):
            if isinstance(reply, Exception):
                raise reply
            plans[shard] = reply
        return plans

    # ------------------------------------------------------------------------------------------------------------ staying informed

    def take_note(self, note: Note) -> bool:
        """From the registry: whether every batch from now on goes by it."""
        return self._knowledge.take(note, BARRIER_LEASES * self.settings.lease)

    def _stay_attached(self) -> None:
        """Asks for everything, and then for a new lease well before the old one ends."""
        told = time.monotonic()
        renewed: bool | None = None
        failed = False
        attached_since: float | None = None
        while not self._stopped.wait(0 if renewed is None or failed else self.settings.lease / 5):
            asked_at = time.monotonic()
            failed = False
            try:
                if not self._epoch:
                    self._epoch = self._registry.start_coordinator(self.number)
                if renewed is None:
                    self._knowledge.let_lease_go()
                    age = 0.0 if attached_since is None else asked_at - attached_since
                    state = self._registry.attach_coordinator(self.number, self._epoch, age)
                    if attached_since is None:
                        attached_since = time.monotonic()
                    self._knowledge.learn(state, asked_at)
                    logger.info(
                        "attached coordinator=%d epoch=%d registry_epoch=%d version=%d serial=%d lineage=%s pid=%d",
                        self.number, self._epoch, state.registry_epoch, state.version, state.serial, state.lineage, os.getpid(),
                    )  # fmt: skip
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
                logger.warning("fenced coordinator=%d epoch=%d: %s", self.number, self._epoch, error)
                self._fenced = error
                return
            except RayPubSubError as error:
                logger.info("coordinator %d waits for the registry: %s", self.number, error)
                failed = True
                time.sleep(PAUSE)
            except Exception:  # without this thread the coordinator would never publish again
                logger.exception("coordinator %d", self.number)
                time.sleep(PAUSE)

    # ------------------------------------------------------------------------------------------------------------ looking in

    def health(self) -> dict[str, Any]:
        """Who this is, and how far it has come."""
        return {"pid": os.getpid(), "epoch": self._epoch, **self._knowledge.state()}

    def stats(self) -> dict[str, Any]:
        """In numbers."""
        with self._counting:
            counted = {
                **self._counts,
                "events_per_second": self._rate.per_second(),
                "latencies": self.latencies.state(),
            }
        turn = self._turnstile
        return {
            **self.health(),
            **counted,
            **self._shards.numbers(),
            "in_flight": turn.inside,
            "in_flight_bytes": turn.bytes,
            "waiting": turn.waiting,
            "refused": turn.refused,
            "memory_bytes": process_bytes(),
            "uptime": time.time() - self._started,
            "priorities": self._knowledge.rules.stats(),
        }

    def close(self) -> None:
        self._stopped.set()
        self._shards.close()


def _distinct(codes: NDArray[np.int32]) -> list[int]:
    used = np.zeros(int(codes.max()) + 1, np.bool_)
    mark_codes(codes, used)
    found: list[int] = np.flatnonzero(used).tolist()
    return found


def _position(events: PublishedEvents, row: int) -> int:
    return row if events.positions is None else int(events.positions[row])
