"""What the registry is given, checked; and put into queries, of which each takes only so many values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ray_pubsub.errors import SettingError

__all__ = ["MOST_SHARDS", "check_shard", "check_subscriber", "check_text", "chunks", "places"]

ASKED_AT_ONCE = 10_000
"""Values in one query: fewer than SQLite's 32,766."""
MOST_SHARDS = 2**15


def check_text(name: str, text: object) -> None:
    """Raises SettingError unless it is a text that can be kept."""
    if not isinstance(text, str):
        raise SettingError(name, f"must be a str, not {type(text).__name__}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise SettingError(name, "must be valid Unicode") from None


def check_subscriber(name: object) -> None:
    """Raises SettingError unless a subscriber can have this name."""
    check_text("subscriber", name)
    if not name:
        raise SettingError("subscriber", "must have a name; '' is none")


def check_shard(shard: object) -> None:
    """Raises SettingError unless it is the number of a shard."""
    if not isinstance(shard, int) or not 0 <= shard < MOST_SHARDS:
        raise SettingError("shard", f"must be a whole number from 0 to {MOST_SHARDS - 1}, not {shard!r}")


def chunks(values: Sequence[Any]) -> Iterable[list[Any]]:
    """So many values as fit one query."""
    for start in range(0, len(values), ASKED_AT_ONCE):
        yield list(values[start : start + ASKED_AT_ONCE])


def places(values: Sequence[Any]) -> str:
    """The question marks of a query."""
    return ",".join("?" * len(values))
