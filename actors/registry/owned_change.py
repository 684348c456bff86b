"""A change of a subscription that depends on whose it is: the check and the change are one step."""

from __future__ import annotations

from actors.registry.changes import Answer, Subscribe, Unsubscribe
from actors.registry.opening import OpenRegistry
from ray_pubsub.errors import UnknownSubscriptionError

__all__ = ["change_if_owned"]


def change_if_owned(opened: OpenRegistry, owner: str | None, change: Subscribe | Unsubscribe) -> bool:
    """Makes a change if `owner` is the subscriber of its id at that moment (None: if there is no such subscription), and returns whether it
    was. Both happen in the thread that makes all changes."""

    def make() -> Answer | None:
        try:
            found: str | None = opened.store.get(change.id).subscriber
        except UnknownSubscriptionError:
            found = None
        return opened.writer.commit([change])[0] if found == owner else None

    return opened.writer.run(make, opened.settings.timeout) is not None
