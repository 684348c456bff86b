"""The other actors of a server, found by their names when they are first needed."""

from __future__ import annotations

from typing import Any

import ray

from actors.calls import answer
from ray_pubsub.errors import UnavailableError

__all__ = ["NAMESPACE", "Links", "RegistryLink"]

NAMESPACE = "ray_pubsub"


class Links:
    """Handles stay good when their actors are restarted, so each is looked up once. Safe to use from several threads."""

    def __init__(self, server: str) -> None:
        self.server = server
        self._handles: dict[str, Any] = {}

    def cluster(self) -> str:
        """Which cluster this is."""
        return str(ray.get_runtime_context().gcs_address)

    def restarted(self) -> bool:
        """Whether this actor's process was started again after it had died."""
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)

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
                raise UnavailableError(f"{self.server}'s {role}", "is not there (any more, or yet)") from None
        return handle


def actor_name(server: str, role: str) -> str:
    """What Ray knows an actor by, in our namespace."""
    return f"{server}/{role}"


class RegistryLink:
    """The registry as shards and coordinators ask it: every method waits for the answer, at most so many seconds."""

    def __init__(self, links: Links, timeout: float) -> None:
        self._links = links
        self._timeout = timeout

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)

        def call(*arguments: Any) -> Any:
            reference = getattr(self._links.registry(), method).remote(*arguments)
            return answer(reference, "the registry", self._timeout)

        return call
