"""Where plain classes become Ray actors: names, restarts, threads, and who gets which handles. Nowhere else.

All are named and detached, and restarted for ever. Ray repeats no call (`max_task_retries=0`): what is repeated we repeat, with ids.
Calls that ask or tell a little have threads of their own, so that none waits behind a batch.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.calls import Deadline, answer, answers, fetched, retried
from actors.coordinator import Coordinator
from actors.delivery_batch import DeliverReport, DeliveryBatch
from actors.links import NAMESPACE, Links, RegistryLink, actor_name
from actors.mailbox_host import MOST_WAITING, MailboxHost
from actors.messages import ShardReply
from actors.metrics import ActorMetrics, numbers_of_mailboxes, numbers_of_stats
from actors.neighbour_connection import NeighbourAddress
from actors.neighbour_door import NeighbourDoor
from actors.neighbour_links import PATIENCE, Asked, NeighbourLinks
from actors.packing import unpacked, unpacked_apart
from actors.ray_internals import sockets_folder
from actors.registry import Registry
from actors.server_settings import ServerSettings
from actors.shard import LOADING, Shard
from actors.stored_batch import Carried, Stored
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import UnavailableError

__all__ = ["create_coordinator", "create_mailboxes", "create_registry", "create_shard"]

logger = logging.getLogger(__name__)

POLL_THREADS = MOST_WAITING + 16
ALIVE_PATIENCE = 5.0
WAITING_TOO = 2
"""So many times what a coordinator works on at once may have come by links: some of it waits."""


class RayShards:
    """The shards as a coordinator asks them: those on the same node by a link, others, and whenever a link fails, through Ray."""

    def __init__(self, links: Links, most: int) -> None:
        self._links = links
        self._neighbours = NeighbourLinks(self._neighbour, _node(), most)
        self._epochs: dict[tuple[str, int], int] = {}

    def fetch(self, stored: Any) -> Any:
        return fetched(stored)

    def match(self, questions: Sequence[tuple[Any, ...]], timeout: float) -> list[ShardReply | Exception]:
        deadline = Deadline(timeout)
        links = [self._ask_neighbour(*question) for question in questions]
        try:
            calls = [
                self._call(*question) if link is None else None for question, link in zip(questions, links, strict=True)
            ]
            found: list[Any] = [
                None if link is None else self._told(question, link.answer(deadline.left))
                for question, link in zip(questions, links, strict=True)
            ]
        finally:
            for link in links:
                if link is not None:
                    link.give_up()
        left = [place for place, reply in enumerate(found) if reply is None]
        if left:
            pairs = [calls[place] or self._call(*questions[place]) for place in left]
            names = [f"shard {questions[place][0]}" for place in left]
            replies = answers([reply for reply, _ in pairs], names, deadline.left)
            for place, reply, (_, matches) in zip(left, replies, pairs, strict=True):
                found[place] = self._called(questions[place], reply, matches)
        return found

    def _ask_neighbour(
        self, shard: int, events: Any, lineage: str, needed: int, timeout: float, numbers: bool
    ) -> Asked | None:
        if isinstance(events, Carried):
            return self._neighbours.ask(shard, events.batch, lineage, needed, timeout, numbers, patience=timeout)
        # For what takes longer than a link waits there is Ray.
        return self._neighbours.ask(shard, events, lineage, needed, min(timeout, PATIENCE / 2), numbers)

    def _told(self, question: tuple[Any, ...], answer: Sequence[Any] | None) -> ShardReply | None:
        """By a link. An instance that was replaced may live on at its old address; through Ray the new one is asked."""
        if answer is None:
            return None
        shard, _, lineage, *_ = question
        reply: ShardReply = unpacked_apart(answer)
        known = self._epochs.get((lineage, shard), 0)
        if reply.epoch < known:
            self._neighbours.forget(shard)
            return None
        if reply.epoch > known:  # else another thread may know of a newer one by now
            self._epochs[lineage, shard] = reply.epoch
        return reply

    def _call(self, shard: int, events: Any, *rest: Any) -> tuple[Any, Any]:
        """References to the reply and, if they may be many, to the matches."""
        if isinstance(events, Carried):
            # As an argument of its own a reference becomes what it stands for, in the shard's memory map.
            whole = events.in_store(lambda batch: Stored(ray.put(batch))).reference
            reply, matches = self._links.shard(shard).match_apart.options(num_returns=2).remote(whole, *rest)
            return reply, matches
        return self._links.shard(shard).match_few.remote(events, *rest), None

    def _called(self, question: tuple[Any, ...], answer: Any, matches: Any) -> ShardReply | Exception:
        reply: ShardReply | Exception = unpacked(answer) if isinstance(answer, bytes) else answer
        if not isinstance(reply, ShardReply):
            return reply
        shard, _, lineage, *_ = question
        self._epochs[lineage, shard] = max(reply.epoch, self._epochs.get((lineage, shard), 0))
        return replace(reply, matches=Stored(matches, reply.count)) if reply.matches is None else reply

    def _neighbour(self, shard: int) -> NeighbourAddress | None:
        reference = self._links.shard(shard).neighbour_address.remote()
        address: NeighbourAddress | None = answer(reference, f"shard {shard}", ALIVE_PATIENCE)
        return address

    def numbers(self) -> dict[str, int]:
        return {"linked": self._neighbours.answered}

    def close(self) -> None:
        self._neighbours.close()

    def alive(self, shard: int, timeout: float) -> int | None:
        try:
            health = answer(self._links.shard(shard).health.remote(), f"shard {shard}", min(timeout, ALIVE_PATIENCE))
        except UnavailableError:
            return None
        return None if health["version"] == LOADING else int(health["epoch"])

    def explain(self, questions: Sequence[tuple[Any, ...]], timeout: float) -> list[IndexPlan | Exception]:
        references = [self._links.shard(shard).explain.remote(*rest) for shard, *rest in questions]
        return answers(references, [f"shard {shard}" for shard, *_ in questions], timeout)


class RayMailboxes:
    """The mailboxes of another process as a coordinator fills them: a delivery is repeated until it is confirmed. The mailboxes know it
    by its key."""

    def __init__(self, links: Links, timeout: float) -> None:
        self._links = links
        self._timeout = timeout

    def deliver(self, batch: DeliveryBatch, names: Mapping[int, str]) -> DeliverReport:
        def call(timeout: float) -> DeliverReport:
            report: DeliverReport = answer(
                self._links.mailboxes().deliver.remote(batch, names), "the mailboxes", timeout
            )
            return report

        return retried(call, Deadline(self._timeout))


class WithDoor:
    """An actor that processes of its node may also ask without Ray."""

    _door: NeighbourDoor | None = None

    def _open_door(self, answering: Callable[..., Sequence[Any]], most_bytes: int | None = None) -> None:
        try:
            self._door = NeighbourDoor(answering, _node(), sockets_folder(), most_bytes=most_bytes)
            atexit.register(self._door.close)
        except OSError as error:
            logger.warning("who is on this node asks through Ray, as others do: %s", error)

    def neighbour_address(self) -> NeighbourAddress | None:
        """Where those on the same node may ask; None: nowhere."""
        return None if self._door is None else self._door.address

    def close_door(self) -> None:
        """Before the end: those on the same node ask through Ray from now on."""
        door, self._door = self._door, None
        if door is not None:
            door.close()


class ShardActor(Shard, WithDoor):
    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_here(f"{server} shard {number}")
        super().__init__(number, settings, RegistryLink(Links(server), settings.timeout))
        metrics = ActorMetrics(server, "shard", number)
        self.latencies.watcher = metrics.observing("match_seconds")
        metrics.follow(lambda: numbers_of_stats("shard", self.stats()))
        self._open_door(self.match_for_neighbour)


class RegistryActor(Registry):
    def __init__(self, server: str, data_dir: str | None, given: Mapping[str, Any], starter: str) -> None:
        _log_here(f"{server} registry")
        super().__init__(Links(server), data_dir, given, starter)
        ActorMetrics(server, "registry").follow(lambda: numbers_of_stats("registry", self.stats()))


class MailboxActor(MailboxHost):
    def __init__(self, server: str, settings: ServerSettings, data_dir: str | None) -> None:
        _log_here(f"{server} mailboxes")
        super().__init__(settings, data_dir)
        _follow_mailboxes(server, self)


class CoordinatorActor(Coordinator, WithDoor):
    """One of several."""

    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_here(f"{server} coordinator {number}")
        links = Links(server)
        registry, mailboxes = RegistryLink(links, settings.timeout), RayMailboxes(links, settings.timeout)
        super().__init__(number, settings, registry, RayShards(links, settings.in_flight), mailboxes)
        _follow_coordinator(server, self)
        self._open_door(self.publish_for_neighbour, WAITING_TOO * settings.in_flight_bytes)


class CoordinatorWithMailboxes(Coordinator, MailboxHost, WithDoor):
    """The only one: a delivery takes no call."""

    def __init__(self, server: str, number: int, settings: ServerSettings, data_dir: str | None) -> None:
        _log_here(f"{server} coordinator {number}")
        MailboxHost.__init__(self, settings, data_dir)
        links = Links(server)
        registry, shards = RegistryLink(links, settings.timeout), RayShards(links, settings.in_flight)
        Coordinator.__init__(self, number, settings, registry, shards, self)
        _follow_coordinator(server, self)
        _follow_mailboxes(server, self)
        self._open_door(self.publish_for_neighbour, WAITING_TOO * settings.in_flight_bytes)


def create_registry(server: str, data_dir: str | None, given: Mapping[str, Any], starter: str, node: str | None) -> Any:
    """On the node that has the data."""
    groups = {"ctl": 4, "ask": 8, "bulk": 2}
    marks = {
        "ctl": ("health", "opened", "stats", "renew", "close"),
        "ask": (
            "start_shard", "changes_for_shard", "start_coordinator", "attach_coordinator", "subscriber_names", "get", "page",
            "rules",
        ),
        "bulk": ("subscribe_texts", "subscribe_intervals", "rebalance"),
    }  # fmt: skip
    actor = _actor(RegistryActor, groups, marks, threads=64)
    return _create(actor, server, "registry", node, server, data_dir, given, starter)


def create_shard(server: str, number: int, settings: ServerSettings) -> Any:
    groups = {"ctl": 2, "match": 4, "large": 1, "apply": 1}
    marks = {
        "ctl": ("health", "stats", "ranking", "match_counts", "wait_for_merges", "neighbour_address", "close_door"),
        "match": ("match", "match_few", "explain"),
        "large": ("match_apart",),
        "apply": ("apply", "catch_up", "take_over", "let_go"),
    }
    actor = _actor(ShardActor, groups, marks)
    return _create(actor, server, f"shard-{number}", None, server, number, settings)


def create_coordinator(
    server: str, number: int, settings: ServerSettings, data_dir: str | None, node: str | None
) -> Any:
    """The only one has the mailboxes with it, and stays where their file is."""
    groups = {"ctl": 4, "note": 2, "publish": settings.in_flight + 16}
    marks: dict[str, tuple[str, ...]] = {
        "ctl": ("health", "stats", "explain", "names_of", "close", "neighbour_address", "close_door"),
        "note": ("take_note",),
        "publish": ("publish", "publish_few", "publish_prepared"),
    }
    if settings.coordinators > 1:
        actor = _actor(CoordinatorActor, groups, marks)
        return _create(actor, server, f"coordinator-{number}", None, server, number, settings)
    actor = _actor(CoordinatorWithMailboxes, {**groups, **MAIL_GROUPS}, {**marks, **MAIL_MARKS})
    return _create(actor, server, f"coordinator-{number}", node, server, number, settings, data_dir)


def create_mailboxes(server: str, settings: ServerSettings, data_dir: str | None, node: str | None) -> Any:
    """For several coordinators."""
    actor = _actor(MailboxActor, MAIL_GROUPS, MAIL_MARKS)
    return _create(actor, server, "mailboxes", node, server, settings, data_dir)


MAIL_GROUPS = {"poll": POLL_THREADS, "mail": 8}
MAIL_MARKS = {
    "poll": ("poll",),
    "mail": (
        "deliver", "ack", "nack", "release", "extend", "dead_letters", "redrive", "purge_dead",
        "first_offset", "begin_offsets", "end_offsets", "offset_bounds", "read_range", "ack_through", "last_batch", "mark_batch",
        "remove_mailbox", "mailbox_stats", "mailbox_summary", "mailbox_health", "close_mailboxes",
    ),
}  # fmt: skip


def _actor(kind: type, groups: Mapping[str, int], marks: Mapping[str, Sequence[str]], threads: int = 4) -> Any:
    """A class of actors. The mark is all that Ray's decorator of methods makes; so the classes need not know Ray."""
    for group, methods in marks.items():
        for method in methods:
            getattr(kind, method).__ray_concurrency_group__ = group
    options: dict[str, Any] = {"concurrency_groups": dict(groups), "max_concurrency": threads}
    return ray.remote(num_cpus=0, max_restarts=-1, max_task_retries=0, **options)(kind)


def _create(actor: Any, server: str, role: str, node: str | None, *arguments: Any) -> Any:
    """The actor of this name; a new one if there is none."""
    strategy: Any = "SPREAD" if node is None else NodeAffinitySchedulingStrategy(node, soft=False)
    return actor.options(
        name=actor_name(server, role),
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        scheduling_strategy=strategy,
    ).remote(*arguments)


def _follow_coordinator(server: str, coordinator: Coordinator) -> None:
    metrics = ActorMetrics(server, "coordinator", coordinator.number)
    coordinator.latencies.watcher = metrics.observing("publish_seconds")
    metrics.follow(lambda: numbers_of_stats("coordinator", coordinator.stats()))


def _follow_mailboxes(server: str, host: MailboxHost) -> None:
    ActorMetrics(server, "mailboxes").follow(lambda: numbers_of_mailboxes(host.mailbox_summary(0)))


def _node() -> str:
    """The node of this process."""
    return str(ray.get_runtime_context().get_node_id())


def _log_here(who: str) -> None:
    """The actor's log file says who speaks."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s [{who}] %(name)s: %(message)s")
