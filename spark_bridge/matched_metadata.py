"""The data and tags of the subscriptions that a task's events match."""

from __future__ import annotations

from typing import Any

from actors.client.publish_result import PublishResult
from ray_pubsub.model.metadata import Metadata, distinct_data, metadata_columns

__all__ = ["MatchedMetadata"]

KNOWN_AT_MOST = 1 << 17


class MatchedMetadata:
    """What a task knows of the subscriptions that it has seen: events of one task match the same ones again and again, and each is asked
    for once. Bounded: when full, it is emptied."""

    def __init__(self) -> None:
        self._known: dict[Any, Metadata | None] = {}

    def columns(self, result: PublishResult) -> list[Any]:
        """Returns the Arrow columns `data` and `tags` of a result's matches."""
        ids = result.subscription_ids.tolist()
        if len(self._known) > KNOWN_AT_MOST:
            self._known = {}
        new = [id for id in dict.fromkeys(ids) if id not in self._known]
        if new:
            self._known |= distinct_data(result.lookup, new)
        found = metadata_columns({id: self._known[id] for id in dict.fromkeys(ids)}, ids)
        return [found["data"], found["tags"]]
