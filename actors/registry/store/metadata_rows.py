"""The data and tags of subscriptions, in separate tables by number: most subscriptions have none, and no shard ever reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from actors.registry.store.chunks import chunks
from actors.storage.database import Session, content_of
from ray_pubsub.model.metadata import Metadata

__all__ = ["metadata_by_id", "metadata_by_number", "put_metadata", "remove_metadata", "tagged_after"]


def put_metadata(connection: Session, described: Iterable[tuple[int, Metadata]]) -> None:
    """Stores the data and tags of subscriptions that have just been added."""
    rows = list(described)
    connection.load("metadata", ((number, each.text, json.dumps(each.tags)) for number, each in rows))
    connection.load("tags", ((tag, number) for number, each in rows for tag in each.tags))


def remove_metadata(connection: Session, numbers: Sequence[int]) -> None:
    """Removes the data and tags of subscriptions that are gone."""
    for chunk in chunks(numbers):
        condition, values = connection.among("number", chunk)
        asked = f"DELETE FROM metadata WHERE {condition} RETURNING number, tags"
        gone = [(tag, number) for number, tags in connection.execute(asked, values).fetchall() for tag in _tags(tags)]
        connection.executemany("DELETE FROM tags WHERE tag = ? AND number = ?", gone)


def metadata_by_number(connection: Session, numbers: Sequence[int]) -> dict[int, Metadata]:
    """Returns the data and tags of those of these subscriptions that have any, by number."""
    return _found(connection, "SELECT number, data, tags FROM metadata WHERE {}", "number", numbers)


def metadata_by_id(connection: Session, ids: Sequence[str | int]) -> dict[Any, Metadata]:
    """Returns the same by id, for subscriptions that are not in blocks."""
    asked = "SELECT s.id, m.data, m.tags FROM subscriptions s JOIN metadata m ON m.number = s.number WHERE {}"
    return _found(connection, asked, "s.id", list(map(connection.id_value, ids)))


def tagged_after(connection: Session, tag: str, after: int) -> list[int]:
    """Returns the numbers of the subscriptions that have a tag, in ascending order."""
    asked = "SELECT number FROM tags WHERE tag = ? AND number > ? ORDER BY number"
    return [number for (number,) in connection.execute(asked, (tag, after))]


def _found(connection: Session, asked: str, column: str, values: Sequence[Any]) -> dict[Any, Metadata]:
    found: dict[Any, Metadata] = {}
    for chunk in chunks(values):
        condition, parameters = connection.among(column, chunk)
        for key, text, tags in connection.execute(asked.format(condition), parameters).fetchall():
            found[key] = Metadata(text, _tags(tags))
    return found


def _tags(packed: str) -> tuple[str, ...]:
    with content_of("metadata"):
        return tuple(json.loads(packed))
