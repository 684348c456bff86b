"""The handles of a server's other actors, found by name on first use, and clients that call these actors through Ray."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import ray

from actors.transport.calls import Deadline, answer, retried
from ray_pubsub.errors import UnavailableError

__all__ = ["NAMESPACE", "ActorHandles", "MailboxClient", "RegistryClient", "actor_name", "end_actors", "own_node"]

NAMESPACE = "ray_pubsub"
END_TIMEOUT = 10.0
"""Seconds until the name of an actor that was ended must be free."""
PAUSE = 0.02

logger = logging.getLogger(__name__)


class ActorHandles:
    """Finds actors. A handle stays valid when its actor is restarted, so each is looked up once. Safe to use from several threads."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._handles: dict[str, Any] = {}

    def cluster(self) -> str:
        """Returns the address of this cluster."""
        return str(ray.get_runtime_context().gcs_address)

    def owner(self) -> str:
        """Returns the name of this server for the lock of its data."""
        return f"{self.server} ({self.cluster()})"

    def end_process(self) -> None:
        """Ends this process at once; Ray starts it again. Used by an instance that no longer knows what is stored: its successor reads
        it."""
        logger.error("the database went away during a commit: this process ends, and its successor reads what was done")
        logging.shutdown()
        os._exit(1)

    def restarted(self) -> bool:
        """Returns whether this actor's process was restarted after it had died."""
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)

    def end_left_over(self) -> None:
        """Called by a registry as it begins. The registry is the first actor of a server, so all others that exist when a new one is
        created were left over by a registry that is gone for good, with its node for example. They end before anybody can find them: they
        have the settings of then, and those that cannot leave a lost node would never answer."""
        if not self.restarted():
            end_actors(self.server)

    def registry(self) -> Any:
        return self._handle("registry")

    def shard(self, number: int) -> Any:
        return self._handle(f"shard-{number}")

    def coordinator(self, number: int) -> Any:
        return self._handle(f"coordinator-{number}")

    def mailboxes(self) -> Any:
        return self._handle("mailboxes")

    def _handle(self, role: str) -> Any:
        handle = self._handles.get(role)
        if handle is None:
            try:
                handle = self._handles[role] = ray.get_actor(actor_name(self.server, role), NAMESPACE)
            except ValueError:
                raise UnavailableError(f"{self.server}'s {role}", "does not exist (yet, or any more)") from None
        return handle


def own_node() -> str:
    """Returns the id of the node on which this process runs."""
    return str(ray.get_runtime_context().get_node_id())


def actor_name(server: str, role: str) -> str:
    """Returns the name of an actor in Ray, within our namespace."""
    return f"{server}/{role}"


def end_actors(server: str) -> None:
    """Ends the actors of a server except its registry, and waits until their names are free again. The registry goes last, because a
    server of this name exists as long as its registry does."""
    deadline, registry = Deadline(END_TIMEOUT), actor_name(server, "registry")
    while names := [
        actor["name"]
        for actor in ray.util.list_named_actors(all_namespaces=True)
        if actor["namespace"] == NAMESPACE and actor["name"].startswith(f"{server}/") and actor["name"] != registry
    ]:
        for name in names:
            with suppress(ValueError):  # the actor is gone already
                ray.kill(ray.get_actor(name, NAMESPACE), no_restart=True)
        if not deadline:
            raise UnavailableError(f"the server {server!r}", f"cannot be ended: {', '.join(names)}")
        time.sleep(PAUSE)


class RegistryClient:
    """Calls the registry for shards and coordinators. Every method of the registry is a method here, and waits at most `timeout` seconds
    for the reply."""

    def __init__(self, handles: ActorHandles, timeout: float) -> None:
        self._handles = handles
        self._timeout = timeout

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any) -> Any:
            reference = getattr(self._handles.registry(), method).remote(*arguments)
            return answer(reference, "the registry", self._timeout)

        return call


class MailboxClient:
    """Delivers to the mailboxes of another process. A delivery is repeated until it is confirmed; the mailboxes recognise a repetition
    by its key."""

    def __init__(self, handles: ActorHandles, timeout: float) -> None:
        self._handles = handles
        self._timeout = timeout

    def deliver(self, batch: Any, names: Mapping[int, str]) -> Any:
        """Calls `MailboxHost.deliver`."""

        def call(timeout: float) -> Any:
            return answer(self._handles.mailboxes().deliver.remote(batch, names), "the mailboxes", timeout)

        return retried(call, Deadline(self._timeout))
