"""Answers that are remembered, so that a request that is sent twice is done once."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgpack

from actors.registry_changes import Answer, BulkAnswer, Gone
from ray_pubsub.errors import SettingError
from ray_pubsub.sharding.pivots import Route

__all__ = ["remember", "remembered", "remembered_bulk"]

LONGEST_REQUEST = 200
"""Characters of a request's id."""


def remembered(connection: sqlite3.Connection, request: str | None) -> Answer | None:
    """The answer that a change with this request id got before; None if there was none, or it was long ago."""
    found = _find(connection, request)
    if found is None:
        return None
    version, number, was_found, gone, moved = found
    left = None if gone is None else Gone(gone[0], gone[1], Route(tuple(gone[3]), gone[2]))
    return Answer(version, number, was_found, left, moved, repeated=True)


def remembered_bulk(connection: sqlite3.Connection, request: str | None) -> BulkAnswer | None:
    """The same for a table. What it replaced and rejected is not remembered."""
    found = _find(connection, request)
    return None if found is None else BulkAnswer(found[0], found[1], found[2], repeated=True)


def remember(connection: sqlite3.Connection, request: str | None, answer: Answer | BulkAnswer, kept: int) -> None:
    """Keeps the answer in the transaction of the change itself; those before the last `kept` are forgotten."""
    if request is None:
        return
    if isinstance(answer, BulkAnswer):
        content: list[Any] = [answer.version, answer.first, answer.added]
    else:
        left = answer.gone
        gone = None if left is None else [left.number, left.shard, left.route.universal, left.route.attributes]
        content = [answer.version, answer.number, answer.found, gone, answer.moved]
    rank = connection.execute(
        "INSERT INTO requests (request, answer) VALUES (?, ?)", (request, msgpack.packb(content))
    ).lastrowid
    assert rank is not None
    connection.execute("DELETE FROM requests WHERE rank <= ?", (rank - kept,))


def _find(connection: sqlite3.Connection, request: str | None) -> list[Any] | None:
    if request is None:
        return None
    if not isinstance(request, str) or len(request) > LONGEST_REQUEST or not request.isprintable():
        raise SettingError("request", f"must be a printable str of at most {LONGEST_REQUEST} characters")
    row = connection.execute("SELECT answer FROM requests WHERE request = ?", (request,)).fetchone()
    found: list[Any] | None = None if row is None else msgpack.unpackb(row[0])
    return found
