"""The one place where plain classes become Ray actors: names, restarts, threads, sockets, and which clients each gets.

All actors are named and detached, and restarted for ever. Ray repeats no call (`max_task_retries=0`): retries are ours, with ids. Short
calls have threads of their own, so that none waits behind a batch.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import ray
import ray.util.metrics
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster.ray_internals import untraced
from actors.coordinator.admission_control import MOST_WAITING
from actors.coordinator.coordinator import Coordinator
from actors.mailboxes.host import FORWARDED, MOST_POLLS, MailboxHost
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.shard.shard import Shard
from actors.storage.postgres.address import PostgresAddress
from actors.telemetry.metrics import ActorMetrics, numbers_of_mailboxes, numbers_of_stats
from actors.transport.actor_handles import (
    NAMESPACE,
    ActorHandles,
    MailboxClient,
    RegistryClient,
    actor_name,
    own_node,
)
from actors.transport.calls import fetched
from actors.transport.dispatch import answering
from actors.transport.frames import Frame
from actors.transport.matching import FEW_MATCHES, MatchRequest, ShardReply, read_request
from actors.transport.object_refs import SharedEvents
from actors.transport.publish_reply import PublishReply
from actors.transport.published_events import read_publish_request
from actors.transport.shard_client import ShardClient
from actors.transport.sockets.connection import SocketAddress
from actors.transport.sockets.unix_server import UnixServer
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.sharding.merging import ShardMatches

__all__ = ["create_coordinator", "create_mailboxes", "create_registry", "create_shard"]

logger = logging.getLogger(__name__)

Place = str | PostgresAddress | None
"""Where data is stored: in a folder, in a database, or nowhere."""
POLL_THREADS = MOST_POLLS + 16
MOST_LARGE = 64
"""The most large batches that wait in a shard for their turn, each with a thread."""
ROOM_FOR_WAITING = 2
"""The bytes that may have arrived over sockets, as a multiple of the bytes that a coordinator works on at once; the rest of them waits."""


class SocketHost:
    """An actor that processes of its node can also reach over a Unix socket."""

    _server: UnixServer | None = None

    def _listen(self, answer: Callable[[Frame], Frame], role: str, settings: ServerSettings) -> None:
        if not settings.sockets:
            return
        try:
            room = ROOM_FOR_WAITING * settings.max_in_flight_bytes
            self._server = UnixServer(answer, own_node(), role, most_bytes=room)
            atexit.register(self._server.close)
        except OSError as error:
            logger.warning("without a socket, calls on this node go through Ray: %s", error)

    def socket_address(self) -> SocketAddress | None:
        """Returns the address for processes on the same node, or None if there is no socket."""
        return None if self._server is None else self._server.address

    def close_socket(self) -> None:
        """Closes the socket before the actor ends. From then on calls go through Ray."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


@untraced
class ShardActor(Shard, SocketHost):
    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_as(f"{server} shard {number}")
        super().__init__(number, settings, RegistryClient(ActorHandles(server), settings.timeout))
        metrics = ActorMetrics(ray.util.metrics, server, "shard", number)
        self.latencies.watcher = metrics.observing("match_seconds")
        metrics.follow(lambda: numbers_of_stats("shard", self.stats()))
        self._listen(answering(read_request, super().match, ShardReply.frame), f"shard-{number}", settings)

    def match_stored(
        self, events: EventBatch, lineage: str, needed: int, timeout: float, numbers: bool, level: int
    ) -> tuple[ShardReply, ShardMatches | None]:
        """Does the same as `match` for a large batch from the object store. Many matches are returned beside the reply, as a separate
        object that the coordinator passes on by reference."""
        reply = self.match(MatchRequest(SharedEvents(events), lineage, needed, timeout, numbers, level))
        if reply.count <= FEW_MATCHES:
            return reply, None
        assert isinstance(reply.matches, ShardMatches)
        return replace(reply, matches=None), reply.matches


@untraced
class RegistryActor(Registry):
    def __init__(self, server: str, place: Place, given: Mapping[str, Any]) -> None:
        _log_as(f"{server} registry")
        handles = ActorHandles(server)
        handles.end_left_over()
        super().__init__(handles, place, given)
        ActorMetrics(ray.util.metrics, server, "registry").follow(lambda: numbers_of_stats("registry", self.stats()))


@untraced
class MailboxActor(MailboxHost):
    def __init__(self, server: str, settings: ServerSettings, place: Place) -> None:
        _log_as(f"{server} mailboxes")
        handles = ActorHandles(server)
        super().__init__(settings, place, handles.owner(), handles.end_process)
        _follow_mailboxes(server, self)


@untraced
class CoordinatorActor(Coordinator, SocketHost):
    """One of several coordinators."""

    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_as(f"{server} coordinator {number}")
        handles = ActorHandles(server)
        registry, mailboxes = RegistryClient(handles, settings.timeout), MailboxClient(handles, settings.timeout)
        super().__init__(number, settings, registry, ShardClient(handles, settings.max_in_flight), mailboxes)
        _follow_coordinator(server, self)
        self._listen(_publishing(self), f"coordinator-{number}", settings)


@untraced
class CoordinatorWithMailboxes(Coordinator, MailboxHost, SocketHost):
    """The only coordinator, which has the mailboxes in its process: delivering needs no remote call."""

    def __init__(self, server: str, number: int, settings: ServerSettings, place: Place) -> None:
        _log_as(f"{server} coordinator {number}")
        handles = ActorHandles(server)
        MailboxHost.__init__(self, settings, place, handles.owner(), handles.end_process)
        registry, shards = RegistryClient(handles, settings.timeout), ShardClient(handles, settings.max_in_flight)
        Coordinator.__init__(self, number, settings, registry, shards, self)
        _follow_coordinator(server, self)
        _follow_mailboxes(server, self)
        self._listen(_publishing(self), f"coordinator-{number}", settings)


def _publishing(coordinator: Coordinator) -> Callable[[Frame], Frame]:
    # Not the actor's own method: Ray has put a function around it that looks for a trace.
    def frame_of(reply: PublishReply) -> Frame:
        reply.fetch(fetched)
        return reply.frame()

    return answering(read_publish_request, partial(Coordinator.publish_prepared, coordinator), frame_of)


def create_registry(server: str, place: Place, given: Mapping[str, Any], node: str | None) -> tuple[Any, bool]:
    """Creates the registry on the node that has the data; None means any node, because the data is in a database. Returns its handle and
    whether this call has created it: of several processes that start a server at once, one does."""
    groups = {"ctl": 4, "ask": 8, "bulk": 2}
    marks = {
        "ctl": ("health", "opened", "stats", "renew", "close"),
        "ask": (
            "start_shard", "changes_for_shard", "start_coordinator", "attach_coordinator", "subscriber_names", "is_subscriber", "get",
            "metadata", "page", "rules",
        ),
        "bulk": ("subscribe_texts", "subscribe_intervals", "unsubscribe_many", "prioritize_many", "rebalance", "backup"),
    }  # fmt: skip
    actor = _actor(RegistryActor, groups, marks, threads=64)
    try:
        return _create(actor, server, "registry", node, server, place, given, must_be_new=True), True
    except ValueError:  # Ray's error for a name that is taken
        return ray.get_actor(actor_name(server, "registry"), NAMESPACE), False


def create_shard(server: str, number: int, settings: ServerSettings) -> Any:
    # Of large batches the shard lets one match, the most urgent: so all that coordinators send at once need threads to wait in, because
    # Ray hands out calls in the order of their arrival.
    large = min(settings.max_in_flight * settings.coordinators, MOST_LARGE)
    groups = {"ctl": 2, "match": 4, "large": large, "apply": 1}
    marks = {
        "ctl": ("health", "stats", "ranking", "wait_for_merges", "socket_address", "close_socket"),
        "match": ("match", "explain"),
        "large": ("match_stored",),
        "apply": ("apply", "catch_up", "take_over", "let_go"),
    }
    actor = _actor(ShardActor, groups, marks)
    return _create(actor, server, f"shard-{number}", number, server, number, settings)


def create_coordinator(server: str, number: int, settings: ServerSettings, place: Place, node: str | None) -> Any:
    """Creates a coordinator. The only one has the mailboxes with it, and stays on the node of their file."""
    groups = {"ctl": 4, "note": 2, "publish": settings.max_in_flight + MOST_WAITING}
    marks: dict[str, tuple[str, ...]] = {
        "ctl": ("health", "stats", "explain", "names_of", "close", "socket_address", "close_socket"),
        "note": ("take_note",),
        "publish": ("publish", "publish_prepared"),
    }
    if settings.coordinators > 1:
        actor = _actor(CoordinatorActor, groups, marks)
        return _create(actor, server, f"coordinator-{number}", settings.shards + number, server, number, settings)
    actor = _actor(CoordinatorWithMailboxes, {**groups, **MAIL_GROUPS}, {**marks, **MAIL_MARKS})
    return _create(actor, server, f"coordinator-{number}", node, server, number, settings, place)


def create_mailboxes(server: str, settings: ServerSettings, place: Place, node: str | None) -> Any:
    """Creates the mailboxes' actor, for several coordinators."""
    actor = _actor(MailboxActor, MAIL_GROUPS, MAIL_MARKS)
    return _create(actor, server, "mailboxes", node, server, settings, place)


MAIL_GROUPS = {"poll": POLL_THREADS, "mail": 8}
MAIL_MARKS = {
    "poll": ("poll", "arrivals"),
    "mail": ("deliver", "mailbox_stats", "mailbox_health", "close_mailboxes", *FORWARDED),
}


def _actor(kind: type, groups: Mapping[str, int], marks: Mapping[str, Sequence[str]], threads: int = 4) -> Any:
    """Makes an actor class. `ray.method` only sets this attribute; setting it here means that the classes need not import Ray."""
    for group, methods in marks.items():
        for method in methods:
            getattr(kind, method).__ray_concurrency_group__ = group
    # Task events are switched off: Ray's GCS keeps 100,000 of them, of more than 3 kB each, and nobody reads them.
    options: dict[str, Any] = {
        "concurrency_groups": dict(groups),
        "max_concurrency": threads,
        "enable_task_events": False,
    }
    return ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, **options)(kind)


def _create(
    actor: Any, server: str, role: str, place: str | int | None, *arguments: Any, must_be_new: bool = False
) -> Any:
    """Returns the actor of this name, and creates it if it does not exist. `place`: the only node where it may be; or its turn, if every
    node is to have its part of such actors; or None for any node. With `must_be_new`, raises ValueError if it exists."""
    strategy: Any = "SPREAD"
    if isinstance(place, str):
        strategy = NodeAffinitySchedulingStrategy(place, soft=False)
    elif place is not None:
        # For actors that need no CPU, "SPREAD" begins at a random node each time. These go to another node if theirs is lost.
        nodes: Any = ray.nodes()  # type: ignore[no-untyped-call]
        alive = sorted(node["NodeID"] for node in nodes if node["Alive"])
        strategy = NodeAffinitySchedulingStrategy(alive[place % len(alive)], soft=True)
    return actor.options(
        name=actor_name(server, role),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=not must_be_new,
        scheduling_strategy=strategy,
    ).remote(*arguments)


def _follow_coordinator(server: str, coordinator: Coordinator) -> None:
    metrics = ActorMetrics(ray.util.metrics, server, "coordinator", coordinator.number)
    coordinator.watch_latencies(metrics.observing("publish_seconds"))
    metrics.follow(lambda: numbers_of_stats("coordinator", coordinator.stats()))


def _follow_mailboxes(server: str, host: MailboxHost) -> None:
    ActorMetrics(ray.util.metrics, server, "mailboxes").follow(lambda: numbers_of_mailboxes(host.mailboxes.summary(0)))


def _log_as(who: str) -> None:
    """Makes the lines of the actor's log file begin with its role."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s [{who}] %(name)s: %(message)s")
