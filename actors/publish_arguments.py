"""The arguments of a publication, checked before anything is sent: a SettingError here, not the failure of a process elsewhere."""

from __future__ import annotations

from typing import Any

from actors.registry_arguments import check_text
from ray_pubsub.delivery.levels import seconds
from ray_pubsub.errors import SettingError

__all__ = ["check_publication"]

LONGEST = 1e6
"""Seconds. A deadline later than that is none, and more than Ray can wait."""


def check_publication(event_id: Any, deliver: Any, timeout: Any, request: Any = None) -> None:
    """Raises SettingError."""
    if event_id is not None:
        check_text("event_id", event_id)
        if not event_id:
            raise SettingError("event_id", "must name the attribute that holds the events' ids, or be left out")
    if not isinstance(deliver, bool):
        raise SettingError("deliver", f"must be True or False, not {deliver!r}")
    if request is not None:
        check_text("request", request)
        if not request:
            raise SettingError("request", "must be a name of its own for every publication, or be left out")
    if timeout is not None and not 0 < seconds("timeout", timeout) < LONGEST:
        raise SettingError("timeout", f"must be more than 0 and less than {LONGEST:,.0f} seconds, not {timeout!r}")
