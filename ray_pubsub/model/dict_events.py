"""Events from Python dictionaries. One bad event is reported by its position; the others go on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ray_pubsub.errors import EventError
from ray_pubsub.model.event_batch import Cells, EventBatch, Lane, split_floats, split_number
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.values import READERS, Kind, Value, ValueProblem, read_value

__all__ = ["flatten", "from_dicts"]

DEEPEST_NESTING = 32


def from_dicts(events: Sequence[Mapping[str, Any]], event_id: str | None = None) -> EventBatch:
    """The batch of a list of dictionaries; `event_id` names the key that holds each event's id."""
    if len(events) == 1 and event_id is None:
        try:
            return _of_one(flatten(events[0]))
        except EventError as error:
            return EventBatch(0, [], ids_of([0]), np.empty(0, dtype=np.int64), [error.at(0)])
    lanes: dict[tuple[str, Kind], tuple[list[int], list[Any]]] = {}
    positions: list[int] = []
    ids: list[Any] = []
    errors: list[EventError] = []
    for position, event in enumerate(events):
        row = len(positions)
        ids.append(position if event_id is None else None)
        try:
            if event_id is not None:
                ids[-1] = _id(event, event_id)
            values = flatten(event)
        except EventError as error:
            errors.append(error.at(position))
            continue
        positions.append(position)
        for attribute, (kind, plain) in values.items():
            lane = lanes.get((attribute, kind))
            if lane is None:
                lane = lanes[attribute, kind] = ([], [])
            lane[0].append(row)
            lane[1].append(plain)
    size = len(positions)
    return EventBatch(
        size=size,
        lanes=[_lane(attribute, kind, rows, plains, size) for (attribute, kind), (rows, plains) in lanes.items()],
        input_ids=ids_of(ids),
        positions=None if not errors else np.array(positions, dtype=np.int64),
        errors=errors,
    )


def _of_one(values: dict[str, Value]) -> EventBatch:
    """A batch of one. Its lanes are pieces of two arrays, which are its cells as well: an array a lane takes longer than many a match."""
    pairs = [
        (0, 0.0) if kind == Kind.STRING else split_number(plain) if kind == Kind.NUMBER else (int(plain), 0.0)
        for kind, plain in values.values()
    ]
    count = len(pairs)
    whole = np.array([pair[0] for pair in pairs], dtype=np.int64)
    rest = np.array([pair[1] for pair in pairs], dtype=np.float64)
    lanes = [
        Lane(
            attribute,
            kind,
            None,
            whole[place : place + 1],
            rest[place : place + 1] if pairs[place][1] else None,
            [plain] if kind == Kind.STRING else None,
        )
        for place, (attribute, (kind, plain)) in enumerate(values.items())
    ]
    cells = Cells(np.arange(count + 1), np.zeros(count, dtype=np.int32), whole, rest)
    return EventBatch(1, lanes, ids_of([0]), _cells=cells)


def flatten(event: Mapping[str, Any]) -> dict[str, Value]:
    """Attribute → value, nested dictionaries joined with dots, absent values left out; raises EventError."""
    if not isinstance(event, Mapping):
        raise EventError(None, f"an event is a dict, not {type(event).__name__}")
    values: dict[str, Value] = {}
    _flatten(event, "", values, 0)
    return values


def _flatten(event: Mapping[str, Any], prefix: str, values: dict[str, Value], depth: int) -> None:
    if depth > DEEPEST_NESTING:
        raise EventError(prefix[:-1][:100], f"nested more than {DEEPEST_NESTING} deep")
    for name, raw in event.items():
        if not isinstance(name, str):
            raise EventError(f"{prefix}{name}", f"an attribute's name is a str, not {type(name).__name__}")
        attribute = prefix + name if prefix else name
        if type(raw) not in READERS and isinstance(raw, Mapping):
            _flatten(raw, attribute + ".", values, depth + 1)
            continue
        try:
            value = read_value(raw)
        except ValueProblem as problem:
            raise EventError(attribute, str(problem)) from None
        if value is not None:
            if attribute in values:
                raise EventError(attribute, "given twice, once with a dot in its name and once nested")
            values[attribute] = value


def _id(event: Mapping[str, Any], event_id: str) -> str | int:
    if not isinstance(event, Mapping):
        raise EventError(None, f"an event is a dict, not {type(event).__name__}")
    identity = event.get(event_id)
    if isinstance(identity, np.integer):
        identity = int(identity)
    if isinstance(identity, bool) or not isinstance(identity, str | int):
        raise EventError(event_id, f"an event's id is a str or an int, not {type(identity).__name__}")
    return identity


def _lane(attribute: str, kind: Kind, rows: list[int], plains: list[Any], size: int) -> Lane:
    row_array = None if len(rows) == size else np.array(rows, dtype=np.int32)
    if kind == Kind.STRING:
        distinct = list(dict.fromkeys(plains))
        number = {string: position for position, string in enumerate(distinct)}
        whole = np.fromiter((number[string] for string in plains), np.int64, len(plains))
        return Lane(attribute, kind, row_array, whole, strings=distinct)
    if kind == Kind.NUMBER and not all(type(plain) is int for plain in plains):
        return Lane(attribute, kind, row_array, *_split_mixed(plains))
    return Lane(attribute, kind, row_array, np.array(plains, dtype=np.int64))


def _split_mixed(plains: Iterable[int | float]) -> tuple[Any, Any]:
    """Ints keep all their 64 bits: only the floats go through float64."""
    numbers = list(plains)
    is_float = np.array([isinstance(number, float) for number in numbers])
    whole = np.array([0 if isinstance(number, float) else number for number in numbers], dtype=np.int64)
    rest = np.zeros(len(numbers))
    floats = np.array([number for number in numbers if isinstance(number, float)], dtype=np.float64)
    whole[is_float], float_rest = split_floats(floats)
    if float_rest is None:
        return whole, None
    rest[is_float] = float_rest
    return whole, rest
