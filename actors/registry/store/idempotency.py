"""Remembers answers by their idempotency keys, so that a change that is sent twice is done once."""

from __future__ import annotations

from typing import Any

import msgpack

from actors.registry.changes import Answer, BulkAnswer, Gone
from actors.storage.database import Session
from ray_pubsub.sharding.pivots import Route

__all__ = ["remember", "remembered", "remembered_bulk"]

KEPT_ANSWERS = 100_000


def remembered(connection: Session, key: str | None) -> Answer | None:
    """Returns the answer that a change with this key got before, or None if there was none or it was forgotten."""
    found = _find(connection, key)
    if found is None:
        return None
    version, number, was_found, gone, moved = found
    left = None if gone is None else Gone(gone[0], gone[1], Route(tuple(gone[3]), gone[2]))
    return Answer(version, number, was_found, left, moved, repeated=True)


def remembered_bulk(connection: Session, key: str | None) -> BulkAnswer | None:
    """Does the same for a bulk change. The subscriptions that it replaced are not remembered."""
    found = _find(connection, key)
    return None if found is None else BulkAnswer(found[0], found[1], found[2], repeated=True)


def remember(connection: Session, key: str | None, answer: Answer | BulkAnswer) -> None:
    """Stores the answer in the transaction of the change itself, and forgets all but the last KEPT_ANSWERS."""
    if key is None:
        return
    if isinstance(answer, BulkAnswer):
        content: list[Any] = [answer.version, answer.first, answer.count]
    else:
        left = answer.gone
        gone = None if left is None else [left.number, left.shard, left.route.universal, left.route.attributes]
        content = [answer.version, answer.number, answer.found, gone, answer.moved]
    (rank,) = connection.execute(
        "INSERT INTO idempotency_keys (key, answer) VALUES (?, ?) RETURNING rank", (key, msgpack.packb(content))
    ).fetchone()
    connection.execute("DELETE FROM idempotency_keys WHERE rank <= ?", (rank - KEPT_ANSWERS,))


def _find(connection: Session, key: str | None) -> list[Any] | None:
    if key is None:
        return None
    row = connection.execute("SELECT answer FROM idempotency_keys WHERE key = ?", (key,)).fetchone()
    found: list[Any] | None = None if row is None else msgpack.unpackb(row[0])
    return found
