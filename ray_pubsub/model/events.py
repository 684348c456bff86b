"""Whatever a user hands over as events → an EventBatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import EventError
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["read_events"]


def read_events(events: Any, event_id: str | None = None) -> EventBatch:
    """A list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame, as a batch.

    Bad events are reported in the batch's `errors`, by position; the others are in the batch.
    """
    if isinstance(events, EventBatch):
        return events
    if isinstance(events, Mapping):
        return from_dicts([events], event_id)
    module = type(events).__module__.partition(".")[0]
    if module == "pyarrow":
        from ray_pubsub.model.arrow_events import from_arrow

        if hasattr(events, "schema"):
            return from_arrow(events, event_id)
    elif module == "pandas" and hasattr(events, "columns"):
        return _from_pandas(events, event_id)
    if isinstance(events, str | bytes) or not hasattr(events, "__iter__"):
        raise EventError(
            None,
            f"events are a list of dicts, a pyarrow Table or RecordBatch or a pandas DataFrame, not {type(events).__name__}",
        )
    return from_dicts(list(events), event_id)


def _from_pandas(frame: Any, event_id: str | None) -> EventBatch:
    import pyarrow as pa

    from ray_pubsub.model.arrow_events import from_arrow

    try:
        table = pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        # A column of mixed objects has no Arrow type; row by row, only the rows at fault are refused.
        return from_dicts(frame.to_dict("records"), event_id)
    return from_arrow(table, event_id)
