"""Starting a server, finding one, ending one."""

from __future__ import annotations

import os
import re
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray

from actors.calls import Deadline, answer, answers, retried
from actors.cluster import join
from actors.links import NAMESPACE, actor_name
from actors.protocol import check_protocol
from actors.published_events import new_request
from actors.remote import create_coordinator, create_mailboxes, create_registry, create_shard
from actors.server import Server
from actors.server_settings import ServerSettings
from ray_pubsub.errors import RayPubSubError, SettingError, StoreError, UnavailableError, UnknownServerError

__all__ = ["Server", "connect", "start"]

NAMES = re.compile(r"[A-Za-z0-9_.-]{1,100}")
START_TIMEOUT = 120.0
STOP_TIMEOUT = 10.0
PAUSE = 0.05


@dataclass(slots=True)
class Actors:
    """The handles of one server."""

    registry: Any
    shards: list[Any] = field(default_factory=list)
    coordinators: list[Any] = field(default_factory=list)
    mailboxes: Any = None

    def stop(self) -> None:
        """Writers say goodbye to their files first; then all are gone."""
        for each in (*self.shards, *self.coordinators):
            each.close_door.remote()  # not waited for: it leaves no file behind if it gets to it
        closing = [each.close.remote() for each in self.coordinators]
        if self.mailboxes is not None:
            closing.append(self.mailboxes.close_mailboxes.remote())
        closing.append(self.registry.close.remote())
        answers(closing, [str(place) for place in range(len(closing))], STOP_TIMEOUT)
        # The registry last: as long as it is there, a server of this name is.
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
    **settings: Any,
) -> Server:
    """Starts a server on the Ray cluster at `address`, at RAY_ADDRESS or on this machine; where there is none, one is started, and
    ends with the server. If a server of this name runs, this joins it.

    `data_dir`: a folder of this machine in which subscriptions, rules and deliveries are kept; a server started with it again goes on
    where it was. Without one all is in memory. `settings`: those below; the ones not given are as they were kept.

    `with start(…) as server:` stops the server at the end of the block if this call has started it; one that ran before goes on.

    """
    _check_name(name)
    given = {**settings, **({} if shards is None else {"shards": shards})}
    ServerSettings().changed(given)  # says what is wrong with them before anything is started
    folder = None if data_dir is None else _folder(data_dir)
    joined = join(address, start=True)
    existing, starter = None, new_request()
    try:
        existing = _find(name)
        registry = existing or create_registry(name, folder, given, starter, joined.node_id)
        opened = _opened(registry)
        check_protocol(name, opened)
        kept = ServerSettings.of_state(opened["settings"])
        own = opened["starter"] == starter  # of two that start it at once, one has
        if not own:
            _warn_of_differences(name, kept, opened["data_dir"], given, folder)
        actors = _create(name, registry, kept, opened["data_dir"], joined.node_id)
        _wait_until_ready(actors, kept)
    except BaseException:
        if existing is None:
            _discard(name)
        joined.leave()
        raise
    return Server(name, actors, kept, opened["data_dir"], joined, own)


start.__doc__ = f"{start.__doc__}{ServerSettings.__doc__}"


def connect(name: str = "default", *, address: str | None = None) -> Server:
    """A server that runs on the cluster at `address`, at RAY_ADDRESS or on this machine. Raises UnknownServerError, ClusterError."""
    _check_name(name)
    joined = join(address, start=False)
    try:
        registry = _find(name)
        if registry is None:
            raise UnknownServerError(name, _running(), joined.address)
        opened = _opened(registry)
        check_protocol(name, opened)
        settings = ServerSettings.of_state(opened["settings"])
        actors = _existing(name, registry, settings)
    except BaseException:
        joined.leave()
        raise
    return Server(name, actors, settings, opened["data_dir"], joined, own=False)


def _create(name: str, registry: Any, settings: ServerSettings, data_dir: str | None, node: str) -> Actors:
    actors = Actors(registry)
    actors.shards = [create_shard(name, number, settings) for number in range(settings.shards)]
    if settings.coordinators > 1:
        actors.mailboxes = create_mailboxes(name, settings, data_dir, node)
    actors.coordinators = [
        create_coordinator(name, number, settings, data_dir, node) for number in range(settings.coordinators)
    ]
    if settings.coordinators == 1:
        actors.mailboxes = actors.coordinators[0]
    return actors


def _existing(name: str, registry: Any, settings: ServerSettings) -> Actors:
    """The handles of a server that runs, or is just being started."""
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
    deadline = Deadline(START_TIMEOUT)
    try:
        opened: dict[str, Any] = retried(
            lambda timeout: answer(registry.opened.remote(), "the registry", timeout), deadline
        )
        return opened
    except UnavailableError:
        raise
    except RayPubSubError:
        ray.kill(registry, no_restart=True)  # it could not open its store, and never will by itself
        raise


def _wait_until_ready(actors: Actors, settings: ServerSettings) -> None:
    """Every shard has loaded, every coordinator knows, nothing is left of an earlier crash."""
    deadline = Deadline(START_TIMEOUT)
    while True:
        health = retried(lambda timeout: answer(actors.registry.health.remote(), "the registry", timeout), deadline)
        if health["settled"] and len(health["coordinators"]) == settings.coordinators:
            return
        if not deadline:
            raise UnavailableError("the server", f"is not ready after {START_TIMEOUT:g} s: {health}")
        time.sleep(PAUSE)


def _find(name: str) -> Any | None:
    try:
        return ray.get_actor(actor_name(name, "registry"), NAMESPACE)
    except ValueError:
        return None


def _discard(name: str) -> None:
    """What was begun and did not come to be is in nobody's way."""
    for actor in ray.util.list_named_actors(all_namespaces=True):
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(f"{name}/"):
            with suppress(ValueError):  # it is gone already
                ray.kill(ray.get_actor(actor["name"], NAMESPACE), no_restart=True)


def _running() -> tuple[str, ...]:
    """The names of the servers on the cluster."""
    names = (
        actor["name"] for actor in ray.util.list_named_actors(all_namespaces=True) if actor["namespace"] == NAMESPACE
    )
    return tuple(sorted(name.removesuffix("/registry") for name in names if name.endswith("/registry")))


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not NAMES.fullmatch(name):
        raise SettingError("name", f"must be 1 to 100 letters, digits, dots, dashes or underscores, not {name!r}")


def _folder(data_dir: str | os.PathLike[str]) -> str:
    try:
        folder = Path(data_dir).expanduser().absolute()
        folder.mkdir(parents=True, exist_ok=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError("data_dir", f"must be a path, not {data_dir!r}: {error}") from None
    except OSError as error:
        raise StoreError(str(folder), f"is no folder to keep data in: {error.strerror}") from None
    return str(folder)


def _warn_of_differences(
    name: str, kept: ServerSettings, data_dir: str | None, given: dict[str, Any], folder: str | None
) -> None:
    wanted, have = kept.changed(given).state(), kept.state()
    different = [setting for setting in have if wanted[setting] != have[setting]]
    if folder is not None and folder != data_dir:
        different.append("data_dir")
    if different:
        warnings.warn(
            f"server {name!r} runs already, and goes on as it is: {', '.join(different)} had no effect; "
            "stop it first, or choose another name",
            stacklevel=3,
        )
