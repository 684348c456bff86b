"""The `Server` object of a user. It holds only actor handles, and is found by name from any process of the cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import unwrap
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
from actors.registry.columns import RebalanceReport
from actors.server_settings import ServerSettings
from actors.transport.calls import Deadline, answer, retried
from ray_pubsub.columns.json.documents import documents_of, only_document
from ray_pubsub.errors import ServerClosedError, SettingError, counted
from ray_pubsub.index.explanation import Explanation
from ray_pubsub.model.arguments import check_text

__all__ = ["Server"]

_is_connected: Callable[[], bool] = unwrap(ray.is_initialized)
"""What every call asks, without Ray's look for its own client (`ray://`), which is refused here."""
_open_servers: WeakSet[Server] = WeakSet()
"""The open servers of this process, which share one connection to Ray."""


class Server(RegistryClient, Consumer):
    """A running server: subscribe, publish, poll. Safe to use from several threads, and from asyncio where a method says so.

    Every method waits at most `timeout` seconds (a setting of the server) for a process that restarts, and then raises UnavailableError.
    After `stop()` or `close()` every other method raises ServerClosedError.
    """

    def __init__(
        self, name: str, actors: Any, settings: ServerSettings, data_dir: str | None, joined: Any, own: bool
    ) -> None:
        """Called by `ray_pubsub.start` and `ray_pubsub.connect` only. `own`: this process has started the server, and the end of the
        `with` block stops it."""
        self.name = name
        self.settings = settings
        self.data_dir = data_dir
        self.registry: Any = actors.registry
        """Ray actor handles, to be called directly with .remote()."""
        self.shards: list[Any] = actors.shards
        self.coordinators: list[Any] = actors.coordinators
        self.mailboxes: Any = actors.mailboxes
        self._joined = joined
        self._own = own
        self._stop = actors.stop
        self._publisher = Publisher(self.coordinators, settings.timeout, self._lookup)
        self._subscribers = SubscriberCheck(self._ask)
        self._ended: str | None = None
        _open_servers.add(self)

    @property
    def coordinator(self) -> Any:
        """The handle of the first coordinator: `ray.get(server.coordinator.publish.remote(events))`."""
        return self.coordinators[0]

    @property
    def address(self) -> str:
        """The address that other processes pass to `ray_pubsub.connect(address=…)`."""
        address: str = self._joined.address
        return address

    @property
    def ends_with_program(self) -> bool:
        """Whether this process started the cluster for the server. If so, the cluster ends with this program."""
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
        """Ends the server, and its cluster if that was started for it. Other servers and other clusters go on, and the `data_dir` is
        kept. A second call does nothing."""
        if self._ended == "stopped":
            return
        self._check_open()  # a server that was only closed here may still run
        self._stop()
        self._leave("stopped")

    def close(self) -> None:
        """Disconnects this process from the server, which goes on. A server whose cluster was started for it ends with the cluster. A
        second call does nothing."""
        if not self._ended:
            self._leave("closed")

    def _leave(self, how: str) -> None:
        self._let_go(how)
        if how == "stopped" or self._joined.started:
            remove_note(self.name, self.address)
        self._joined.leave()
        if not ray.is_initialized():  # all servers of this process shared the connection
            for other in list(_open_servers):
                other._let_go("closed")

    def _let_go(self, how: str) -> None:
        """Makes every later use of the server raise ServerClosedError, also calls that are in flight."""
        self._ended = how
        handle = ClosedHandle(self.name, how)
        self.registry = self.mailboxes = handle
        self.shards = [handle] * len(self.shards)
        self.coordinators = [handle] * len(self.coordinators)
        self._publisher.close(handle)
        _open_servers.discard(self)

    def _check_open(self) -> None:
        if not self._ended and not _is_connected():  # the program has called ray.shutdown()
            self._let_go("closed")
        if self._ended:
            raise ServerClosedError(self.name, self._ended)

    def remove_subscriber(self, subscriber: str) -> int:
        """Removes all subscriptions of a subscriber, and then its mailbox with all deliveries in it. Returns the number of
        subscriptions."""
        ids = [each.id for each in self.subscriptions(subscriber)]
        removed = self.unsubscribe_many(ids) if ids else 0
        self._call_mailboxes("remove_mailbox", subscriber)
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
        """Matches events and delivers them to the subscribers. `events` is a dict, a list of dicts, a pyarrow Table or RecordBatch, or a
        pandas DataFrame.

        `event_id` names the attribute that holds the events' ids. An event whose id was published before, within the deduplication window,
        is not delivered again. `deliver=False` only matches. `idempotency_key` is an id of the caller's choice for the whole publication:
        if it is repeated under the same key, for example after an error, it is delivered once. More than 8,192 events are sent in portions,
        which are delivered in any order.

        A bad event is listed in the result's `errors`, and the others are published. An attribute whose value cannot be used (bytes, an
        object, an integer beyond 64 bits) is left out of its event, also of what is delivered, with a warning in the result's `warnings`;
        with `strict=True` such an event is a bad one. Raises OverloadedError if too many batches wait.
        """
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
        """Does the same as `publish`, for asyncio."""
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
        """Publishes JSON as `publish` publishes events: bytes or a str with one document per line (or a single document), or a list of
        bytes or str; see `MatchIndex.match_json`. Documents are delivered as they came: a subscriber gets the dict that json.loads
        makes of them."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return self._publisher.publish(only_document(lines) or documents_of(lines), options)

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
        """Does the same as `publish_json`, for asyncio."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout, idempotency_key)
        return await self._publisher.publish_async(only_document(lines) or documents_of(lines), options)

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
        """Publishes batch after batch, with several in flight, and yields their results in order. Batches that are in flight together
        may be delivered in another order than they were given; `max_in_flight=1` keeps the order. While the server is overloaded this
        waits, for at most `patience` seconds, and does not take the next batch. `idempotency_keys` has one key for each batch, as in
        `publish`."""
        self._check_open()
        options = PublishOptions(event_id, deliver, strict, timeout)
        return self._publisher.publish_stream(batches, options, idempotency_keys, max_in_flight, patience)

    # ------------------------------------------------------------------------------------------------------------ consuming

    def end_stream(self, subscriber: str) -> int:
        """Switches a subscriber that a Spark stream has read back to polling. Returns the number of deliveries that wait. The query must
        have ended for good: what it had read and not yet committed is delivered again."""
        check_text("subscriber", subscriber)
        return OffsetConsumer(self).end(subscriber)

    # ------------------------------------------------------------------------------------------------------------ looking in

    @overload
    def explain(self, event: Mapping[str, Any]) -> ServerPlan: ...

    @overload
    def explain(self, event: Mapping[str, Any], id: str | int) -> Explanation: ...

    def explain(self, event: Mapping[str, Any], id: str | int | None = None) -> ServerPlan | Explanation:
        """With an id, explains why this subscription did or did not match, predicate by predicate. Without one, explains how the event
        is matched, shard by shard. Print the result to read it."""
        self._check_open()
        return plan_of(self, event) if id is None else explanation_of(self, event, id)

    def stats(self, *, hot: int = 10) -> ServerStats:
        """Returns the statistics of all processes of the server. Print them to read them. `hot` is the number of subscriptions and
        mailboxes that are listed one by one: those that match most, those that never matched, and the mailboxes with the most waiting
        deliveries."""
        self._check_open()
        return collect_stats(self, hot)

    def rebalance(self, factor: float = 1.1) -> RebalanceReport:
        """Moves subscriptions between shards, weighted by how often their pivots occur in events, until no shard has more than `factor`
        times the mean work. If events now carry other attributes than before, it first chooses routes again, provided that events
        then visit sufficiently fewer shards. Publishing and subscribing go on meanwhile."""
        self._check_open()
        if not isinstance(factor, int | float) or not factor >= 1:
            raise SettingError("factor", f"must be a number of at least 1, not {factor!r}")
        report: RebalanceReport = answer(self.registry.rebalance.remote(factor), "the registry", LONG)
        return report

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the `data_dir` into a new or empty folder on the machine that holds it, while the server runs. `start(restore=path, …)`
        restores the copy. It contains everything that was acknowledged before the call. Raises StoreError; raises SettingError for a
        server with `store=`, whose database is to be copied by pg_dump."""
        self._check_open()
        folder = str(Path(path).expanduser().absolute())
        deadline = Deadline(LONG)
        retried(lambda left: answer(self.mailboxes.backup_mailboxes.remote(folder), "the mailboxes", left), deadline)
        retried(lambda left: answer(self.registry.backup.remote(folder), "the registry", left), deadline)
