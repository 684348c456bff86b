"""Server: what a user of a running server has in hand. Found by name from any process of the cluster; holds nothing but handles."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, overload
from weakref import WeakSet

import ray

from actors.calls import Deadline, answer, retried
from actors.closed_handles import ClosedHandle
from actors.consuming import Consumer
from actors.delivery_message import AckReport, DeadLetter, DeliveryMessage
from actors.loading import load_subscriptions
from actors.offset_consuming import OffsetConsumer
from actors.publish_arguments import check_publication
from actors.publish_result import PublishResult
from actors.published_events import new_request
from actors.publishing import Publisher
from actors.rebalancing import RebalanceReport
from actors.registry_arguments import check_subscriber, check_text
from actors.registry_columns import Rule, StoredSubscription
from actors.server_explanation import ServerPlan
from actors.server_settings import ServerSettings
from actors.server_stats import ServerStats, collect_stats
from ray_pubsub.errors import EventError, ServerClosedError, SettingError, counted
from ray_pubsub.index.catalogue import check_id
from ray_pubsub.index.explanation import Explanation, explain_tree
from ray_pubsub.index.match_index import AddReport
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.dict_events import flatten

__all__ = ["Server"]

LONG = 600.0
LONGEST_PAGE = 100_000

_open_servers: WeakSet[Server] = WeakSet()
"""Of this process, which has one connection for all of them."""


class Server:
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
        self._publisher = Publisher(self.coordinators, settings.timeout)
        self._consumer = Consumer(self.mailboxes, settings.timeout)
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
        self._joined.leave()
        if not ray.is_initialized():  # the connection was everybody's here
            for other in list(_open_servers):
                other._let_go("closed")

    def _let_go(self, how: str) -> None:
        """What uses the server from now on, also what is under way, is told that it is no more."""
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

    # ------------------------------------------------------------------------------------------------------------ subscribing

    def subscribe(self, subscriber: str, expression: str, *, id: str | int | None = None) -> str | int:
        """Adds a subscription, or replaces the one with this id; returns the id. When it returns, the subscription is on disk (with a
        `data_dir`), and every publication that begins later sees it. Raises an ExpressionError that says what is wrong."""
        check_subscriber(subscriber)
        identity = new_request() if id is None else id
        request = new_request()
        self._ask("subscribe", subscriber, expression, identity, request)
        return identity

    def subscribe_many(
        self, table: Any, *, subscriber: str | None = None, atomic: bool = False, progress: bool | None = None
    ) -> AddReport:
        """Adds many: a pyarrow Table, RecordBatch or pandas DataFrame with the columns id, subscriber and expression; or with a row per
        interval: id, subscriber, attribute, low, high (as MatchIndex.add_predicates). `subscriber`: of all, instead of the column.

        The bad ones are in the report, by position, and the others are in; with `atomic=True` a bad one raises, and none is in.
        `progress`: a bar; by default when it takes long and somebody looks on."""
        self._check_open()
        return load_subscriptions(self.registry, table, subscriber, atomic, progress, self.settings.timeout)

    def unsubscribe(self, id: str | int) -> bool:
        """Removes a subscription; False if there was none. No publication that begins later sees it."""
        found: list[bool] = self._ask("unsubscribe", [id], new_request())
        return found[0]

    def unsubscribe_many(self, ids: Iterable[str | int]) -> int:
        """Removes many; returns how many there were."""
        self._check_open()
        if isinstance(ids, str | bytes) or not isinstance(ids, Iterable):
            raise SettingError("ids", f"must be several ids, not {ids!r}; unsubscribe() takes one")
        listed = list(ids)
        for identity in listed:  # before any of them is gone
            check_id(identity)
        portions = [listed[start : start + 1000] for start in range(0, len(listed), 1000)]
        return sum(sum(self._ask("unsubscribe", portion, new_request())) for portion in portions)

    def subscription(self, id: str | int) -> StoredSubscription:
        """One subscription. Raises UnknownSubscriptionError."""
        found: StoredSubscription = self._ask("get", id)
        return found

    def subscriptions(self, subscriber: str, *, page: int = 1000) -> Iterator[StoredSubscription]:
        """All of one subscriber, in the order they were added, read page by page."""
        self._check_open()
        check_text("subscriber", subscriber)
        if not isinstance(page, int) or isinstance(page, bool) or not 1 <= page <= LONGEST_PAGE:
            raise SettingError("page", f"must be a whole number from 1 to {LONGEST_PAGE:,}, not {page!r}")
        return self._pages(subscriber, page)

    def _pages(self, subscriber: str, page: int) -> Iterator[StoredSubscription]:
        after: int | None = 0
        while after is not None:
            found = self._ask("page", subscriber, after, page)
            yield from found.items
            after = found.after

    # ------------------------------------------------------------------------------------------------------------ priorities

    def prioritize(self, id: str | int, level: str, expression: str) -> None:
        """Adds or replaces a rule: events that match it have at least this level."""
        self._ask("prioritize", id, level, expression, new_request())

    def unprioritize(self, id: str | int) -> bool:
        """Removes a rule; False if there was none."""
        return bool(self._ask("remove_rule", id, new_request()))

    def rules(self) -> list[Rule]:
        """All rules."""
        found: list[Rule] = self._ask("rules")
        return found

    # ------------------------------------------------------------------------------------------------------------ publishing

    def publish(
        self,
        events: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        request: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """Matches events and delivers them: a dict, a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame.

        `event_id` names the attribute that holds the events' ids: what was published under an id is, within the window, not delivered
        again. `deliver=False` only matches. `request`: an id of your own for the whole publication, to repeat it after an error and have it
        delivered once. More than 8,192 events go in portions, delivered in any order. A bad event is in the result's `errors`; the
        others are published. Raises OverloadedError if too much waits."""
        self._check_open()
        check_publication(event_id, deliver, timeout, request)
        return self._publisher.publish(events, event_id, deliver, request, timeout)

    async def publish_async(
        self,
        events: Any,
        *,
        event_id: str | None = None,
        deliver: bool = True,
        request: str | None = None,
        timeout: float | None = None,
    ) -> PublishResult:
        """The same for asyncio."""
        self._check_open()
        check_publication(event_id, deliver, timeout, request)
        return await self._publisher.publish_async(events, event_id, deliver, request, timeout)

    def publish_stream(
        self,
        batches: Iterable[Any],
        *,
        event_id: str | None = None,
        deliver: bool = True,
        requests: Iterable[str] | None = None,
        under_way: int = 4,
        timeout: float | None = None,
        patience: float = 600.0,
    ) -> Iterator[PublishResult]:
        """Publishes batch after batch, several under way at once, and gives their results in order. If the server is overloaded this waits,
        up to `patience` seconds, and does not take the next batch meanwhile. `requests`: a name for each batch, as `publish` has it."""
        self._check_open()
        check_publication(event_id, deliver, timeout)
        return self._publisher.publish_stream(batches, event_id, deliver, requests, under_way, timeout, patience)

    # ------------------------------------------------------------------------------------------------------------ consuming

    def poll(
        self, subscriber: str, *, limit: int = 100, wait: float = 0.0, visibility_timeout: float | None = None
    ) -> list[DeliveryMessage]:
        """Up to `limit` deliveries, the most urgent first, as soon as there are any; none after `wait` seconds. Acknowledge them, or they
        come again when the visibility timeout has passed."""
        self._check_open()
        return self._consumer.poll(subscriber, limit, wait, visibility_timeout)

    async def poll_async(
        self, subscriber: str, *, limit: int = 100, wait: float = 0.0, visibility_timeout: float | None = None
    ) -> list[DeliveryMessage]:
        """The same for asyncio."""
        self._check_open()
        return await self._consumer.poll_async(subscriber, limit, wait, visibility_timeout)

    def listen(
        self, subscriber: str, *, limit: int = 100, visibility_timeout: float | None = None
    ) -> AsyncIterator[DeliveryMessage]:
        """`async for delivery in server.listen("desk-7"): …; await server.ack_async(delivery)`, for ever. What was fetched and not reached
        when the loop is left goes back."""
        self._check_open()
        return self._consumer.listen(subscriber, limit, visibility_timeout)

    def ack(self, deliveries: DeliveryMessage | Iterable[DeliveryMessage]) -> AckReport:
        """These are done with, and never come again."""
        self._check_open()
        return self._consumer.ack(deliveries)

    async def ack_async(self, deliveries: DeliveryMessage | Iterable[DeliveryMessage]) -> AckReport:
        """The same for asyncio."""
        self._check_open()
        return await self._consumer.ack_async(deliveries)

    def nack(
        self, deliveries: DeliveryMessage | Iterable[DeliveryMessage], *, delay: float = 0.0, reason: str = "refused"
    ) -> AckReport:
        """These failed: they come again after `delay` seconds, or are dead letters if that was the last attempt."""
        self._check_open()
        return self._consumer.nack(deliveries, delay, reason)

    def release(self, deliveries: DeliveryMessage | Iterable[DeliveryMessage]) -> AckReport:
        """These were not looked at: they wait again, and it was no attempt."""
        self._check_open()
        return self._consumer.release(deliveries)

    def extend(self, deliveries: DeliveryMessage | Iterable[DeliveryMessage], seconds: float) -> AckReport:
        """These take longer: so many seconds from now."""
        self._check_open()
        return self._consumer.extend(deliveries, seconds)

    def dead_letters(self, subscriber: str, *, limit: int | None = None) -> list[DeadLetter]:
        """Deliveries that failed for good, oldest first."""
        self._check_open()
        return self._consumer.dead_letters(subscriber, limit)

    def redrive(self, subscriber: str, sequences: Iterable[int] | None = None) -> int:
        """These dead letters, or all, are delivered anew."""
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
        if not isinstance(event, Mapping):
            raise EventError(None, f"an event is a dict, not {type(event).__name__}")
        if id is not None:
            text = self.subscription(id).text
            return explain_tree(ShapeCache(self.settings.limits).parse(text).tree, flatten(event))
        plans = self._call(self.coordinator, "explain", "the coordinator", dict(event))
        return ServerPlan(plans, len(self.shards))

    def stats(self, *, hot: int = 10) -> ServerStats:
        """All processes of the server in numbers. Print it to read it. `hot`: of how many subscriptions and mailboxes it tells one by
        one: those that match most, those that never did, those in which most is waiting."""
        self._check_open()
        return collect_stats(self, hot)

    def rebalance(self, factor: float = 1.1) -> RebalanceReport:
        """Moves subscriptions between shards, by how often their pivots occur in events, until none has more than `factor` times the
        mean to do. Publishing and subscribing go on."""
        self._check_open()
        if not isinstance(factor, int | float) or not factor >= 1:
            raise SettingError("factor", f"must be a number of at least 1, not {factor!r}")
        report: RebalanceReport = answer(self.registry.rebalance.remote(factor), "the registry", LONG)
        return report

    def _ask(self, method: str, *arguments: Any) -> Any:
        return self._call(self.registry, method, "the registry", *arguments)

    def _call(self, handle: Any, method: str, who: str, *arguments: Any) -> Any:
        """Repeated while the process restarts. What changes something carries an id, and is done once."""
        self._check_open()

        def call(timeout: float) -> Any:
            return answer(getattr(handle, method).remote(*arguments), who, timeout)

        return retried(call, Deadline(self.settings.timeout))
