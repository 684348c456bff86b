"""Where plain classes become Ray actors: names, restarts, threads, and who gets which handles. Nowhere else.

All are named and detached, and restarted for ever. Ray repeats no call (`max_task_retries=0`): what is repeated we repeat, with ids.
Calls that ask or tell a little have threads of their own, so that none waits behind a batch.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
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
from actors.packing import unpacked
from actors.registry import Registry
from actors.server_settings import ServerSettings
from actors.shard import LOADING, Shard
from actors.stored_batch import Stored
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import UnavailableError
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["create_coordinator", "create_mailboxes", "create_registry", "create_shard"]

POLL_THREADS = MOST_WAITING + 16
ALIVE_PATIENCE = 5.0


class RayShards:
    """The shards as a coordinator asks them."""

    def __init__(self, links: Links) -> None:
        self._links = links

    def store(self, batch: EventBatch) -> Any:
        return Stored(ray.put(batch))

    def fetch(self, stored: Any) -> Any:
        return fetched(stored)

    def match(self, questions: Sequence[tuple[Any, ...]], timeout: float) -> list[ShardReply | Exception]:
        replies, columns = [], []
        for shard, events, *rest in questions:
            # As an argument of its own a reference becomes what it stands for, in the shard's memory map.
            if isinstance(events, Stored):
                apart = self._links.shard(shard).match_apart.options(num_returns=2)
                reply, matches = apart.remote(events.reference, *rest)
            else:
                reply, matches = self._links.shard(shard).match_few.remote(events, *rest), None
            replies.append(reply)
            columns.append(matches)
        found = [
            unpacked(reply) if isinstance(reply, bytes) else reply
            for reply in answers(replies, [f"shard {shard}" for shard, *_ in questions], timeout)
        ]
        return [
            replace(reply, matches=Stored(matches, reply.count))
            if isinstance(reply, ShardReply) and reply.matches is None
            else reply
            for reply, matches in zip(found, columns, strict=True)
        ]

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


class ShardActor(Shard):
    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_here(f"{server} shard {number}")
        super().__init__(number, settings, RegistryLink(Links(server), settings.timeout))
        metrics = ActorMetrics(server, "shard", number)
        self.latencies.watcher = metrics.observing("match_seconds")
        metrics.follow(lambda: numbers_of_stats("shard", self.stats()))


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


class CoordinatorActor(Coordinator):
    """One of several."""

    def __init__(self, server: str, number: int, settings: ServerSettings) -> None:
        _log_here(f"{server} coordinator {number}")
        links = Links(server)
        registry, mailboxes = RegistryLink(links, settings.timeout), RayMailboxes(links, settings.timeout)
        super().__init__(number, settings, registry, RayShards(links), mailboxes)
        _follow_coordinator(server, self)


class CoordinatorWithMailboxes(Coordinator, MailboxHost):
    """The only one: a delivery takes no call."""

    def __init__(self, server: str, number: int, settings: ServerSettings, data_dir: str | None) -> None:
        _log_here(f"{server} coordinator {number}")
        MailboxHost.__init__(self, settings, data_dir)
        links = Links(server)
        Coordinator.__init__(self, number, settings, RegistryLink(links, settings.timeout), RayShards(links), self)
        _follow_coordinator(server, self)
        _follow_mailboxes(server, self)


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
        "ctl": ("health", "stats", "ranking", "match_counts", "wait_for_merges"),
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
        "ctl": ("health", "stats", "explain", "names_of", "close"),
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


def _log_here(who: str) -> None:
    """The actor's log file says who speaks."""
    logging.basicConfig(level=logging.INFO, format=f"%(asctime)s %(levelname)s [{who}] %(name)s: %(message)s")
