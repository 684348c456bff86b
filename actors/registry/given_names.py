"""What a server accepts as the id of a subscription or rule, and as the name of a subscriber.

Both come back with every match and delivery, and are kept for as long as the server exists: one of megabytes, which a client may send over
HTTP, would cost everybody. An index in one's own process has no such limit.
"""

from __future__ import annotations

from typing import Any

from ray_pubsub.errors import SettingError, SubscriptionIdError
from ray_pubsub.model.arguments import check_id, check_name

__all__ = ["LONGEST_NAME", "check_new_id", "check_subscriber"]

LONGEST_NAME = 1000
"""The most characters."""
SHOWN = 40


def check_new_id(identity: Any) -> None:
    """Checks the id of something that is to be stored."""
    check_id(identity)
    if type(identity) is str and len(identity) > LONGEST_NAME:
        raise SubscriptionIdError(f"{identity[:SHOWN]}…", f"an id has at most {LONGEST_NAME:,} characters")


def check_subscriber(name: Any) -> str:
    """Checks the name of a subscriber, and returns it."""
    checked = check_name("subscriber", name)
    if len(checked) > LONGEST_NAME:
        raise SettingError("subscriber", f"has at most {LONGEST_NAME:,} characters, not {len(checked):,}")
    return checked
