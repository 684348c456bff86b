"""Starts a server, connects to a running one, and ends one."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import ray

from actors.client.server import Server
from actors.cluster.finding import address_to_start_at, server_to_connect_to
from actors.cluster.joining import Joined, join
from actors.cluster.server_notes import ServerNote, check_name, remove_note, write_note
from actors.server_settings import MailboxOptions, PriorityOptions, ServerSettings
from actors.storage.backup import restore as restore_copy
from actors.storage.postgres.address import PostgresAddress
from actors.transport.actor_handles import NAMESPACE, actor_name, end_actors
from actors.transport.calls import Deadline, answer, answers, retried
from actors.transport.protocol import check_protocol
from actors.transport.remote import create_coordinator, create_mailboxes, create_registry, create_shard
from ray_pubsub.errors import SettingError, UnavailableError, UnknownServerError
from ray_pubsub.settings import Limits

__all__ = ["Server", "connect", "end_by_force", "start"]

START_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
LEAST_WAIT = 1.0
"""Seconds for one question at the end of the start's time, so that the error says what the server still lacks."""
PAUSE = 0.05


@dataclass(slots=True)
class Actors:
    """The actor handles of one server."""

    registry: Any
    shards: list[Any] = field(default_factory=list)
    coordinators: list[Any] = field(default_factory=list)
    mailboxes: Any = None

    def stop(self) -> None:
        """Ends all actors. The ones that write files close them first."""
        for each in (*self.shards, *self.coordinators):
            each.close_socket.remote()  # this is not waited for: the socket's folder is removed if there is time
        closing = [each.close.remote() for each in self.coordinators]
        if self.mailboxes is not None:
            closing.append(self.mailboxes.close_mailboxes.remote())
        closing.append(self.registry.close.remote())
        answers(closing, [str(place) for place in range(len(closing))], STOP_TIMEOUT)
        # The registry goes last, because a server of this name exists as long as its registry does.
        everybody = [*self.coordinators, *self.shards, self.mailboxes, self.registry]
        for handle in everybody:
            if handle is not None:
                ray.kill(handle, no_restart=True)


def start(
    shards: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    name: str = "default",
    *,
    address: str | None = None,
    coordinators: int | None = None,
    engine: str | None = None,
    options: Mapping[str, int | bool] | None = None,
    limits: Limits | None = None,
    ignore_case: bool | None = None,
    levels: Sequence[str] | None = None,
    confirm: bool | None = None,
    priority: PriorityOptions | None = None,
    mailbox: MailboxOptions | None = None,
    max_in_flight: int | None = None,
    max_in_flight_bytes: int | None = None,
    patience: float | None = None,
    timeout: float | None = None,
    lease: float | None = None,
    reroute_every: float | None = None,
    sockets: bool | None = None,
    restore: str | os.PathLike[str] | None = None,
    store: str | None = None,
) -> Server:
    """Starts a server on the Ray cluster at `address` or at RAY_ADDRESS. If neither is given, it starts a new cluster on this machine,
    which ends with the server and with this program. If a server of this name runs on the cluster already, or has the `data_dir` open on
    this machine, this call connects to it.

    `with start(…) as server:` stops the server at the end of the block if this call has started it; a server that ran before goes on.

    data_dir: a folder of this machine in which subscriptions, rules and deliveries are stored. A server that is started with it again
        continues where it was. Without one, everything is in memory.
    name: the name by which `connect` finds the server.
    address: of a Ray cluster, host:port; "auto": RAY_ADDRESS, or this user's cluster on this machine; "local": always a new cluster. On a
        cluster that was started by `ray start --head --port=6379` the server outlives this program, at an address that stays the same.

    store: a PostgreSQL database in place of a data_dir: postgresql://user@host:5432/database. Every process of the server may then restart
        on any node. With ?schema=name at the end, several servers can share a database. The password is best left to PGPASSWORD or
        ~/.pgpass of every node; one in the URL is never shown. Needs the extra ray-pubsub[postgres].
    restore: a folder that `Server.backup` wrote: the server begins with its content. `data_dir` must be new or empty.

    The settings below are stored in the `data_dir`. A setting that is not given has its stored value, or else the default shown first:

    shards: 2; the number of processes that match. Two cores keep two busy.
    coordinators: 1; the number of processes that publish. A single one hosts the mailboxes; several have them in a process of their own.
    engine: "auto"; the engine of the shards' indexes, as in MatchIndex.
    options: {}; the engine's options by name, as in MatchIndex: engine="dexin", options={"cache": 64}.
    limits: Limits(); how large one subscription may be.
    ignore_case: False; whether subscriptions compare texts in lower case, as in MatchIndex; priority rules do not. It cannot be changed
        while there are subscriptions.
    levels: low, normal, high, critical; the priority levels, lowest first. An event that no rule matches has the lowest.
    confirm: True; whether priorities are exact, as in PriorityRules.
    priority: {}; more options of PriorityRules (PriorityOptions): false_positive_rate 0.01, signatures 2**22, vectors 64, discretizers,
        cache.
    mailbox: {}; settings of each mailbox (MailboxOptions): capacity 100,000, capacity_bytes 256 MB, overflow "reject" ("drop-oldest",
        "drop-lowest", "dead-letter"), visibility_timeout 30 s, delivery_limit 16, in_flight_limit 20,000, dead_capacity 10,000,
        deadlines by level (1 s for the highest, ten times as much for each lower one), expired "deliver-late" ("drop"), longest_wait or
        weights against starvation of lower levels, window 200,000, window_bytes 64 MB.
    max_in_flight: 16; the number of batches that a coordinator works on at once; further batches wait.
    max_in_flight_bytes: 512 MB; the total size of these batches.
    patience: 2.0; the seconds that a batch waits for its turn before OverloadedError is raised.
    timeout: 60.0; the seconds that a call waits for a process that restarts before UnavailableError is raised.
    lease: 5.0; the seconds that a coordinator may publish without hearing from the registry. A change waits at most that long for a
        coordinator that does not answer.
    reroute_every: 60.0; the seconds after which the routes of stored subscriptions may be chosen again, and the loads of the shards evened
        out, when events have come to carry other attributes and that saves more than it costs; 0: only `Server.rebalance` does it.
    sockets: True; processes on one node talk over Unix sockets that only this user can open, which is faster than Ray; False: only
        through Ray.
    """
    settings = {
        "shards": shards, "coordinators": coordinators, "engine": engine, "options": options, "limits": limits, "ignore_case": ignore_case,
        "levels": levels, "confirm": confirm, "priority": priority, "mailbox": mailbox, "max_in_flight": max_in_flight,
        "max_in_flight_bytes": max_in_flight_bytes, "patience": patience, "timeout": timeout, "lease": lease,
        "reroute_every": reroute_every, "sockets": sockets,
    }  # fmt: skip
    given = {setting: value for setting, value in settings.items() if value is not None}
    check_name(name)
    ServerSettings().changed(given)  # raises before anything is started
    place = _place(data_dir, store, restore)
    folder = place if isinstance(place, str) else None
    joined = join(address_to_start_at(name, address, folder), start=True)
    registry, created = None, False
    try:
        existing = _find(name)
        if restore is not None:
            _restore(name, existing, restore, place)
        node = None if isinstance(place, PostgresAddress) else joined.node_id
        # If two processes start a server at once, one of them creates it and the other joins it.
        registry, created = (existing, False) if existing else create_registry(name, place, given, node)
        opened = _opened(registry)
        check_protocol(name, opened)
        kept = ServerSettings.of_state(opened["settings"])
        if not created:
            _warn_of_differences(name, kept, opened["data_dir"], given, place)
        if created or not opened["in_database"]:
            kept_in = place if opened["in_database"] else opened["data_dir"]
            actors = _create(name, registry, kept, kept_in, node)
        else:  # this process need not know the password
            actors = _existing(name, registry, kept)
        _wait_until_ready(actors, kept)
    except BaseException:
        if created:  # the processes of a server that others have started are theirs, whatever is wrong with it
            _end(name, registry)
        joined.leave()
        raise
    if created:
        write_note(ServerNote.of(name, joined.address, None if opened["in_database"] else opened["data_dir"]))
    return Server(name, actors, kept, opened["data_dir"], joined, created)


def connect(
    name: str | None = None, *, address: str | None = None, data_dir: str | os.PathLike[str] | None = None
) -> Server:
    """Returns a running server: one on the cluster at `address` or at RAY_ADDRESS, or one that this user has started on this machine,
    found by its name ("default" if none is given) or its `data_dir`. Raises UnknownServerError and ClusterError."""
    name, registry, joined = _join_server(name, address, data_dir)
    try:
        opened = _opened(registry)
        check_protocol(name, opened)
        settings = ServerSettings.of_state(opened["settings"])
        actors = _existing(name, registry, settings)
    except BaseException:
        joined.leave()
        raise
    return Server(name, actors, settings, opened["data_dir"], joined, own=False)


def end_by_force(
    name: str | None = None, *, address: str | None = None, data_dir: str | os.PathLike[str] | None = None
) -> str:
    """Ends the processes of a server that cannot be stopped because it does not answer, or cannot open its data; returns its name. What is
    on disk stays. Finds the server as `connect` does."""
    name, registry, joined = _join_server(name, address, data_dir)
    try:
        _end(name, registry)
        remove_note(name, joined.address)
    finally:
        joined.leave()
    return name


def _join_server(
    name: str | None, address: str | None, data_dir: str | os.PathLike[str] | None
) -> tuple[str, Any, Joined]:
    """Joins the cluster of a running server. Returns the server's name, its registry, and the cluster, which the caller must leave."""
    if name is not None:
        check_name(name)
    name, found = server_to_connect_to(name, address, None if data_dir is None else _folder(data_dir))
    joined = join(found, start=False)
    try:
        registry = _find(name)
        if registry is None:
            raise UnknownServerError(name, _running(), joined.address)
    except BaseException:
        joined.leave()
        raise
    return name, registry, joined


def _create(
    name: str, registry: Any, settings: ServerSettings, place: str | PostgresAddress | None, node: str | None
) -> Actors:
    actors = Actors(registry)
    actors.shards = [create_shard(name, number, settings) for number in range(settings.shards)]
    if settings.coordinators > 1:
        actors.mailboxes = create_mailboxes(name, settings, place, node)
    actors.coordinators = [
        create_coordinator(name, number, settings, place, node) for number in range(settings.coordinators)
    ]
    if settings.coordinators == 1:
        actors.mailboxes = actors.coordinators[0]
    return actors


def _existing(name: str, registry: Any, settings: ServerSettings) -> Actors:
    """Returns the handles of a server that runs or is just being started."""
    deadline = Deadline(START_TIMEOUT)

    def found(role: str) -> Any:
        while True:
            try:
                return ray.get_actor(actor_name(name, role), NAMESPACE)
            except ValueError:
                if not deadline:
                    raise UnavailableError(
                        f"{name}'s {role}", "is not there; stop the server and start it again"
                    ) from None
            time.sleep(PAUSE)

    actors = Actors(registry)
    actors.shards = [found(f"shard-{number}") for number in range(settings.shards)]
    actors.coordinators = [found(f"coordinator-{number}") for number in range(settings.coordinators)]
    actors.mailboxes = found("mailboxes") if settings.coordinators > 1 else actors.coordinators[0]
    return actors


def _opened(registry: Any) -> dict[str, Any]:
    """Returns what the registry says of its server. Raises the error that keeps it from opening its store; it goes on trying, because a
    full disk or an absent volume may come back."""
    deadline = Deadline(START_TIMEOUT)
    opened: dict[str, Any] = retried(
        lambda timeout: answer(registry.opened.remote(), "the registry", timeout), deadline
    )
    return opened


def _wait_until_ready(actors: Actors, settings: ServerSettings) -> None:
    """Waits until every shard has loaded, every coordinator is attached, and nothing is left to repair of an earlier crash."""
    deadline = Deadline(START_TIMEOUT)
    while True:
        wait = Deadline(max(deadline.left, LEAST_WAIT))
        health = retried(lambda timeout: answer(actors.registry.health.remote(), "the registry", timeout), wait)
        if health["settled"] and len(health["coordinators"]) == settings.coordinators:
            break
        if not deadline:
            raise UnavailableError("the server", f"is not ready after {START_TIMEOUT:g} s: {health}")
        time.sleep(PAUSE)
    retried(lambda timeout: answer(actors.mailboxes.mailbox_health.remote(), "the mailboxes", timeout), deadline)


def _find(name: str) -> Any | None:
    try:
        return ray.get_actor(actor_name(name, "registry"), NAMESPACE)
    except ValueError:
        return None


def _end(name: str, registry: Any) -> None:
    """Ends the processes of a server, whatever state they are in, so that its name is free again."""
    try:
        end_actors(name)
    finally:
        ray.kill(registry, no_restart=True)


def _running() -> tuple[str, ...]:
    """Returns the names of the servers on the cluster."""
    names = (
        actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True) if actor["namespace"] == NAMESPACE
    )
    return tuple(sorted(name.removesuffix("/registry") for name in names if name.endswith("/registry")))


def _folder(data_dir: str | os.PathLike[str]) -> str:
    try:
        path = str(Path(data_dir).expanduser().absolute())
        if "\0" in path:
            raise ValueError("embedded null character")
        return path
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError("data_dir", f"must be a path, not {data_dir!r}: {error}") from None


def _place(
    data_dir: str | os.PathLike[str] | None, store: str | None, restore: str | os.PathLike[str] | None
) -> str | PostgresAddress | None:
    if store is None:
        return None if data_dir is None else _folder(data_dir)
    address = PostgresAddress.of(store)
    if data_dir is not None:
        raise SettingError("store", "is given beside a data_dir; data are kept in one of them")
    if restore is not None:
        raise SettingError(
            "restore", "puts back the copy of a data_dir; a PostgreSQL database is restored by pg_restore"
        )
    if find_spec("psycopg") is None:
        raise SettingError("store", "needs the driver of PostgreSQL: pip install 'ray-pubsub[postgres]'")
    return address


def _restore(
    name: str, existing: Any | None, restore: str | os.PathLike[str], folder: str | PostgresAddress | None
) -> None:
    if not isinstance(folder, str):
        raise SettingError("restore", "needs a data_dir to put the copy into")
    if existing is not None:
        raise SettingError("restore", f"the server {name!r} runs already; stop it first, or choose another name")
    restore_copy(Path(_folder(restore)), Path(folder))


def _warn_of_differences(
    name: str, kept: ServerSettings, data_dir: str | None, given: dict[str, Any], place: str | PostgresAddress | None
) -> None:
    wanted, have = kept.changed(given).state(), kept.state()
    different = [setting for setting in have if wanted[setting] != have[setting]]
    if place is not None and str(place) != data_dir:
        different.append("data_dir" if isinstance(place, str) else "store")
    if different:
        warnings.warn(
            f"server {name!r} runs already, and goes on as it is: {', '.join(different)} had no effect; "
            "stop it first, or choose another name",
            stacklevel=3,
        )
