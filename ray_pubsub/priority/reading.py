"""Reads the events of priority rules: only the attributes that rules test, and again if a rule was added meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ray_pubsub.errors import EventError
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events

__all__ = ["Reader", "batch_reader", "event_reader"]

Reader = Callable[[], tuple[EventBatch, int | None]]
"""Reads events. It also returns how many of the rules' attributes were read, or None if all attributes of the events were."""


def batch_reader(events: Any, event_id: str | None, attributes: AttributeTree, *, strict: bool) -> Reader:
    """Returns a function that reads the events; it may be called several times."""
    if isinstance(events, EventBatch):
        return lambda: (events, None)
    again = list(events) if isinstance(events, Iterator) else events

    def read() -> tuple[EventBatch, int | None]:
        batch = read_events(again, event_id, None if strict else attributes, strict=strict)
        size = None if batch.scope is None else batch.scope.size
        batch.scope = None  # the indexes of levels may already have rules that no snapshot shows
        return batch, size

    return read


def event_reader(event: Mapping[str, Any], attributes: AttributeTree, *, strict: bool) -> Reader:
    """Returns the same for one event. It raises EventError if the event cannot be read."""
    if not isinstance(event, Mapping):
        raise EventError(None, f"an event is a dict, not {type(event).__name__}")
    read_batch = batch_reader(event, None, attributes, strict=strict)

    def read() -> tuple[EventBatch, int | None]:
        batch, size = read_batch()
        if batch.errors:
            error = batch.errors[0]
            raise type(error)(error.attribute, error.reason)
        return batch, size

    return read
