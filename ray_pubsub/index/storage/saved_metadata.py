"""The metadata of a saved index's subscriptions as an Arrow table: place (which subscription), data (JSON or null), tags. A release that
does not know the table ignores it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ray_pubsub.columns.saved_state import check, check_within
from ray_pubsub.model.metadata import Metadata, metadata_of

__all__ = ["metadata_of_table", "metadata_table"]


def metadata_table(carried: list[tuple[int, Metadata]]) -> Any:
    """Returns the table of places and their metadata."""
    return pa.table(
        {
            "place": pa.array([place for place, _ in carried], pa.int64()),
            "data": pa.array([metadata.text for _, metadata in carried], pa.large_string()),
            "tags": pa.array([metadata.tags for _, metadata in carried], pa.list_(pa.string())),
        }
    )


def metadata_of_table(table: Any, count: int) -> list[tuple[int, Metadata]]:
    """Reads the table of an index with `count` subscriptions. Nothing in a file is trusted: the content is checked as if a user gave it."""
    if table is None:
        return []
    places = table.column("place").to_numpy()
    check_within(places, 0, count - 1, "places of data")
    found = []
    for place, text, tags in zip(
        places.tolist(), table.column("data").to_pylist(), table.column("tags").to_pylist(), strict=True
    ):
        metadata = metadata_of(None if text is None else json.loads(text), tags)
        check(metadata is not None, "a subscription listed without data or tags")
        assert metadata is not None
        found.append((place, metadata))
    return found
