"""Converts events in any of the accepted forms to an EventBatch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray_pubsub.errors import EventError, TableError
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["arrow_of", "read_events"]


def read_events(
    events: Any, event_id: str | None = None, attributes: AttributeTree | None = None, *, strict: bool = True
) -> EventBatch:
    """Reads a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame as a batch.

    Bad events are reported in the batch's `errors`, by position; the others are in the batch. Only `attributes` of an event are looked at,
    or everything if it is None: to match a batch against several indexes, read the attributes that any of them tests. With `strict`, a
    value that cannot be used (bytes, an object, an integer beyond 64 bits) makes its event a bad one. Otherwise only the attribute is left
    out, and reported in the batch's `warnings`. Neither a MatchIndex nor a server is strict by default: real events carry much that nobody
    tests, and one odd field must not hide the others.
    """
    if isinstance(events, EventBatch):
        return events
    if isinstance(events, Mapping):
        return from_dicts([events], event_id, attributes, strict=strict)
    module = type(events).__module__.partition(".")[0]
    if module == "pyarrow":
        from ray_pubsub.model.arrow.arrow_events import from_arrow

        if hasattr(events, "read_all"):
            events = events.read_all()
        if hasattr(events, "schema"):
            return from_arrow(events, event_id, attributes, strict=strict)
    elif module == "pandas" and hasattr(events, "columns"):
        return _from_pandas(events, event_id, attributes, strict)
    if isinstance(events, str | bytes) or not hasattr(events, "__iter__"):
        raise EventError(
            None,
            f"events are a list of dicts, a pyarrow Table or RecordBatch or a pandas DataFrame, not {type(events).__name__}",
        )
    return from_dicts(list(events), event_id, attributes, strict=strict)


def _from_pandas(frame: Any, event_id: str | None, attributes: AttributeTree | None, strict: bool) -> EventBatch:
    repeated = frame.columns[frame.columns.duplicated()]
    if len(repeated):
        raise TableError(str(repeated[0]), "there are two columns of this name")
    if attributes is not None:
        frame = frame[[name for name in frame.columns if name == event_id or _matters(name, attributes)]]
    if not len(frame.columns):  # Arrow's table would have no rows either
        return from_dicts([{}] * len(frame), event_id, attributes, strict=strict)
    mixed = [name for name in frame.columns if _is_mixed(frame[name])]
    table = _table(frame.drop(columns=mixed))
    if table is None:
        mixed += [name for name in frame.columns if name not in mixed and _table(frame[[name]]) is None]
        table = _table(frame.drop(columns=mixed))
    if table is not None and not mixed:
        from ray_pubsub.model.arrow.arrow_events import from_arrow

        return from_arrow(table, event_id, attributes, strict=strict)
    batch = None
    if (
        table is not None
        and table.num_columns
        and event_id not in mixed
        and all(isinstance(name, str) for name in mixed)
    ):
        batch = _joined(frame, mixed, table, event_id, attributes, strict)
    return from_dicts(frame.to_dict("records"), event_id, attributes, strict=strict) if batch is None else batch


def _joined(
    frame: Any, mixed: list[str], table: Any, event_id: str | None, attributes: AttributeTree | None, strict: bool
) -> EventBatch | None:
    """Reads the mixed columns value by value and the others as a table. Returns None for a frame that has to be read row by row: with a
    bad event, or with an attribute in two columns."""
    from ray_pubsub.model.arrow.arrow_events import from_arrow

    try:
        typed = from_arrow(table, event_id, attributes, strict=strict)
    except TableError:
        return None
    values = zip(*(frame[name].tolist() for name in mixed), strict=True)
    others = from_dicts([dict(zip(mixed, row, strict=True)) for row in values], None, attributes, strict=strict)
    names = {lane.attribute for lane in others.lanes}
    if typed.errors or others.errors or any(lane.attribute in names for lane in typed.lanes):
        return None
    warnings = sorted([*typed.warnings, *others.warnings], key=lambda each: (each.position, each.attribute))
    lanes = [*typed.lanes, *others.lanes]
    return EventBatch(typed.size, lanes, typed.input_ids, scope=typed.scope, warnings=warnings)


def _matters(name: Any, attributes: AttributeTree) -> bool:
    return attributes.leads_to(name if isinstance(name, str) else str(name))


def arrow_of(frame: Any) -> Any:
    """Returns a pandas DataFrame as an Arrow table, or None if a column has no Arrow type."""
    return None if any(_is_mixed(frame[name]) for name in frame.columns) else _table(frame)


def _table(frame: Any) -> Any:
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, UnicodeError):
        return None


def _is_mixed(column: Any) -> bool:
    """Returns whether a column has mixed objects. Arrow would give a column of dates and datetimes one type and drop the times; value by
    value nothing is lost, and only the rows at fault are refused."""
    from pandas.api.types import infer_dtype

    return column.dtype == object and infer_dtype(column, skipna=True) not in ("string", "integer", "boolean", "empty")
