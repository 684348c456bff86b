"""Server: what a user of a running server has in hand. Found by name from any process of the cluster; holds nothing but handles."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, overload
from weakref import WeakSet

import ray

from actors.client.closed_handles import ClosedHandle
from actors.client.consuming import Consumer
from actors.client.offset_consuming import OffsetConsumer
from actors.client.publish_result import PublishResult
from actors.client.publishing import Publisher, PublishOptions
from actors.client.registry_client import LONG, RegistryClient
from actors.client.server_explanation import ServerPlan, explanation_of, plan_of
from actors.client.server_stats import ServerStats, collect_stats
from actors.client.subscriber_check import SubscriberCheck
from actors.cluster.server_notes import remove_note
from actors.mailboxes.delivery import AckReport, DeadLetter, Delivery
from actors.registry.columns import RebalanceReport
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline, answer, retried
from ray_pubsub.columns.json.documents import documents_of
from ray_pubsub.errors import ServerClosedError, SettingError, counted
from ray_pubsub.index.explanation import Explanation
from ray_pubsub.model.arguments import check_flag, check_text

__all__ = ["Server"]

_open_servers: WeakSet[Server] = WeakSet()
"""Of this process, which has one connection for all of them."""


class Server(RegistryClient):
    """Subscribe, publish, poll. Safe to use from several threads, and from asyncio where a method says so.

    Every method waits at most `timeout` seconds (a setting of the server) for a process that restarts, and then raises UnavailableError.
    After `stop()` or `close()` every other one raises ServerClosedError.
    """

    def __init__(
        self, name: str, actors: Any, settings: ServerSettings, data_dir: str | None, joined: Any, own: bool
    ) -> None:
        """Made by `ray_pubsub.start` and `ray_pubsub.connect`. `own`: this process has started it, and ends it with the `with` block."""
        self.name = name
        self.settings = settings
        self.data_dir = data_dir
        self.registry: Any = actors.registry
        """Handles of Ray actors, to be called directly with .remote()."""
        self.shards: list[Any] = actors.shards
        self.coordinators: list[Any] = actors.coordinators
        self.mailboxes: Any = actors.mailboxes
        self._joined = joined
        self._own = own
        self._stop = actors.stop
        self._publisher = Publisher(self.coordinators, settings.timeout, self._lookup)
        self._consumer = Consumer(self.mailboxes, settings.timeout, SubscriberCheck(self._ask), self._lookup)
        self._ended: str | None = None
        _open_servers.add(self)

    @property
    def coordinator(self) -> Any:
        """The first coordinator's handle: `ray.get(server.coordinator.publish.remote(events))`."""
        return self.coordinators[0]

    @property
    def address(self) -> str:
        """What other processes give to `ray_pubsub.connect(address=…)`."""
        address: str = self._joined.address
        return address

    @property
    def ends_with_program(self) -> bool:
        """Whether its cluster was started for it by this process, and ends with it."""
        return bool(self._joined.started)

    def __repr__(self) -> str:
        kept = f", data_dir={self.data_dir!r}" if self.data_dir else ""
        ended = f", {self._ended}" if self._ended else ""
        return f"Server({self.name!r} at {self.address}, {counted(len(self.shards), 'shard')}{kept}{ended})"

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._own and not self._ended and ray.is_initialized():
            self.stop()
        else:
            self.close()

    def stop(self) -> None:
        """Ends the server, and the cluster if it was started for it; other servers, and other people's clusters, stay. What is in the
        `data_dir` stays too. Said again it does nothing."""
        if self._ended == "stopped":
            return
        self._check_open()  # one that was only closed may still run
        self._stop()
        self._leave("stopped")

    def close(self) -> None:
        """This process lets go of the server, which goes on; but for one on a cluster that was started for it, which ends. Said again it
        does nothing."""
        if not self._ended:
            self._leave("closed")

    def _leave(self, how: str) -> None:
        self._let_go(how)
        if how == "stopped" or self._joined.started:
            remove_note(self.name, self.address)
        self._joined.leave()
        if not ray.is_initialized():  # the connection was everybody's here
            for other in list(_open_servers):
                other._let_go("closed")

    def _let_go(self, how: str) -> None:
        """Every use of the server from now on, also one that is in flight, raises ServerClosedError."""
        self._ended = how
        handle = ClosedHandle(self.name, how)
        self.registry = self.mailboxes = handle
        self.shards = [handle] * len(self.shards)
        self.coordinators = [handle] * len(self.coordinators)
        self._publisher.close(handle)
        self._consumer.close(handle)
        _open_servers.discard(self)

    def _check_open(self) -> None:
        if not self._ended and not ray.is_initialized():  # somebody has said ray.shutdown()
            self._let_go("closed")
        if self._ended:
            raise ServerClosedError(self.name, self._ended)

    def remove_subscriber(self, subscriber: str) -> int:
        """Removes all subscriptions of a subscriber, and then its mailbox with everything in it; returns the number of subscriptions."""
        ids = [each.id for each in self.subscriptions(subscriber)]
        removed = self.unsubscribe_many(ids) if ids else 0
        self._consumer.remove(subscriber)
        return removed

    # ------------------------------------------------------------------------------------------------------------ publishing

    def publish(
        self,
        events: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """Matches events and delivers them: a dict, a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame.

        `event_id` names the attribute that holds the events' ids: an event whose id was published before, within the window, is not
        delivered again. `deliver=False` only matches. `idempotency_key`: an id of your own for the whole publication; repeated under it,
        after an error say, it is delivered once. More than 8,192 events go in portions, delivered in any order. A bad event is in the
        result's `errors`; the others are published. An attribute whose value cannot be used (bytes, an object, an integer beyond 64 bits)
        is left out of its event, also of what is delivered, with a warning in the result's `warnings`; with `strict=True`, such an event is
        a bad one. Raises OverloadedError if too much waits."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return self._publisher.publish(events, options)

    async def publish_async(
        self,
        events: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """The same for asyncio."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return await self._publisher.publish_async(events, options)

    def publish_json(
        self,
        lines: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """`publish` for JSON: bytes or a str with a document per line (or one document), or a list of bytes or str; see
        `MatchIndex.match_json`. Documents are delivered as they came, as the dict that json.loads makes of them."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return self._publisher.publish(documents_of(lines), options)

    async def publish_json_async(
        self,
        lines: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """The same for asyncio."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return await self._publisher.publish_async(documents_of(lines), options)

    def publish_stream(
        self,
        batches: Iterable[Any],
        *,
        event_id: str | None = None,
        deliver: bool = True,
        strict: bool = False,
        idempotency_keys: Iterable[str] | None = None,
        max_in_flight: int = 4,
        timeout: float | None = None,
        patience: float = 600.0,
    ) -> Iterator[PublishResult]:
        """Publishes batch after batch, several under way at once, and gives their results in order. Batches that are under way together may
        be delivered in another order than they were given; `max_in_flight=1` keeps it. If the server is overloaded this waits, up to
        `patience` seconds, and does not take the next batch meanwhile. `idempotency_keys`: one for each batch, as in `publish`."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout)
        return self._publisher.publish_stream(batches, options, idempotency_keys, max_in_flight, patience)

    # ------------------------------------------------------------------------------------------------------------ consuming

    def poll(
        self,
        subscriber: str,
        *,
        limit: int = 100,
        wait: float = 0.0,
        visibility_timeout: float | None = None,
        with_data: bool = False,
    ) -> list[Delivery]:
        """Up to `limit` deliveries, the most urgent first, as soon as there are any; none after `wait` seconds. Acknowledge them, or they
        come again when the visibility timeout has passed. That is an attempt, also for those that a consumer had not looked at when it
        crashed: poll few at a time if consumers may crash. Warns of a name that nobody has subscribed as (UnknownSubscriberWarning).
        `with_data`: deliveries have the `data` and `tags` of their subscriptions, as they are stored now; one more call of the registry."""
        self._check_open()
        return self._consumer.poll(subscriber, limit, wait, visibility_timeout, check_flag("with_data", with_data))

    async def poll_async(
        self,
        subscriber: str,
        *,
        limit: int = 100,
        wait: float = 0.0,
        visibility_timeout: float | None = None,
        with_data: bool = False,
    ) -> list[Delivery]:
        """The same for asyncio."""
        self._check_open()
        check_flag("with_data", with_data)
        return await self._consumer.poll_async(subscriber, limit, wait, visibility_timeout, with_data)

    def listen(
        self, subscriber: str, *, limit: int = 100, visibility_timeout: float | None = None, with_data: bool = False
    ) -> AsyncIterator[Delivery]:
        """`async for delivery in server.listen("desk-7"): …; await server.ack_async(delivery)`, for ever. What was fetched and not reached
        when the loop is left goes back."""
        self._check_open()
        return self._consumer.listen(subscriber, limit, visibility_timeout, check_flag("with_data", with_data))

    def ack(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """These are done with, and never come again."""
        self._check_open()
        return self._consumer.ack(deliveries)

    async def ack_async(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """The same for asyncio."""
        self._check_open()
        return await self._consumer.ack_async(deliveries)

    def nack(
        self, deliveries: Delivery | Iterable[Delivery], *, delay: float = 0.0, reason: str = "refused"
    ) -> AckReport:
        """These failed: they come again after `delay` seconds, or are dead letters if that was the last attempt."""
        self._check_open()
        return self._consumer.nack(deliveries, delay, reason)

    def release(self, deliveries: Delivery | Iterable[Delivery]) -> AckReport:
        """These were not looked at: they wait again, and it was no attempt."""
        self._check_open()
        return self._consumer.release(deliveries)

    def extend(self, deliveries: Delivery | Iterable[Delivery], seconds: float) -> AckReport:
        """These take longer: they come back only after this number of seconds from now."""
        self._check_open()
        return self._consumer.extend(deliveries, seconds)

    def dead_letters(self, subscriber: str, *, limit: int | None = None) -> list[DeadLetter]:
        """Deliveries that failed for good, oldest first."""
        self._check_open()
        return self._consumer.dead_letters(subscriber, limit)

    def redrive(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are delivered again."""
        self._check_open()
        return self._consumer.redrive(subscriber, sequences)

    def purge_dead(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are gone."""
        self._check_open()
        return self._consumer.purge_dead(subscriber, sequences)

    def end_stream(self, subscriber: str) -> int:
        """A subscriber that a stream of Spark has read is polled again; returns how many deliveries wait. The query must have ended, for
        good: what it had read and not yet committed is delivered again."""
        check_text("subscriber", subscriber)
        return OffsetConsumer(self).end(subscriber)

    # ------------------------------------------------------------------------------------------------------------ looking in

    @overload
    def explain(self, event: Mapping[str, Any]) -> ServerPlan: ...

    @overload
    def explain(self, event: Mapping[str, Any], id: str | int) -> Explanation: ...

    def explain(self, event: Mapping[str, Any], id: str | int | None = None) -> ServerPlan | Explanation:
        """With an id: why this subscription did or did not match, predicate by predicate. Without: how the event is matched, shard by
        shard. Print it to read it."""
        self._check_open()
        return plan_of(self, event) if id is None else explanation_of(self, event, id)

    def stats(self, *, hot: int = 10) -> ServerStats:
        """All processes of the server in numbers. Print it to read it. `hot`: of how many subscriptions and mailboxes it tells one by
        one: those that match most, those that never did, those in which most is waiting."""
        self._check_open()
        return collect_stats(self, hot)

    def rebalance(self, factor: float = 1.1) -> RebalanceReport:
        """Moves subscriptions between shards, by how often their pivots occur in events, until none has more than `factor` times the
        mean to do; before that, where events have come to carry other attributes, chooses routes again if events are then sent to fewer
        shards by enough. Publishing and subscribing go on."""
        self._check_open()
        if not isinstance(factor, int | float) or not factor >= 1:
            raise SettingError("factor", f"must be a number of at least 1, not {factor!r}")
        report: RebalanceReport = answer(self.registry.rebalance.remote(factor), "the registry", LONG)
        return report

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the `data_dir` into a new or empty folder of the machine that has it, while the server runs; `start(restore=path, …)` puts
        it back. Everything acknowledged before the call is in the copy. Raises StoreError, and SettingError for
        a server with `store=`, whose database is copied by pg_dump."""
        self._check_open()
        folder = str(Path(path).expanduser().absolute())
        deadline = Deadline(LONG)
        retried(lambda left: answer(self.mailboxes.backup_mailboxes.remote(folder), "the mailboxes", left), deadline)
        retried(lambda left: answer(self.registry.backup.remote(folder), "the registry", left), deadline)
