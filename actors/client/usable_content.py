"""Removes the values that cannot be used from the content that is delivered. A mailbox may not be able to hold such a value, and
subscribers see the event as it was matched."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from ray_pubsub.errors import EventError
from ray_pubsub.model.values import READERS
from ray_pubsub.settings import EVENT_DEPTH

__all__ = ["left_out_by_position", "without_attributes", "without_cells"]


def left_out_by_position(warnings: Iterable[EventError]) -> dict[int, set[str]]:
    """Returns the attributes that are left out, for each event that lacks some, by position."""
    found: dict[int, set[str]] = {}
    for warning in warnings:
        if warning.position is not None and warning.attribute is not None:
            found.setdefault(warning.position, set()).add(warning.attribute)
    return found


def without_attributes(
    event: Mapping[Any, Any], names: Collection[str], prefix: str = "", depth: int = 0
) -> dict[Any, Any]:
    """Returns the event without some attributes, and without what is no attribute: names that are no str, and what is nested too deeply.
    Attributes of nested dictionaries have names with dots."""
    found: dict[Any, Any] = {}
    for key, value in event.items():
        if not isinstance(key, str):
            continue
        name = f"{prefix}{key}"
        if type(value) not in READERS and isinstance(value, Mapping):
            if depth < EVENT_DEPTH:
                found[key] = without_attributes(value, names, f"{name}.", depth + 1)
        elif name not in names:
            found[key] = value
    return found


def without_cells(table: Any, warnings: Iterable[EventError]) -> Any:
    """Returns a table or record batch with nulls in place of some values. A map that has such a value becomes null as a whole."""
    rows: dict[str, list[int]] = {}
    for warning in warnings:
        if warning.position is not None and warning.attribute is not None:
            rows.setdefault(warning.attribute, []).append(warning.position)
    for place, name in enumerate(table.schema.names):
        bad = {attribute: np.array(of) for attribute, of in rows.items() if _is_within(attribute, name)}
        if bad:
            column = table.column(place)
            table = table.set_column(place, name, _nulled(column, name, bad))
    return table


def _is_within(attribute: str, name: str) -> bool:
    return attribute == name or attribute.startswith(f"{name}.")


def _nulled(column: Any, name: str, bad: Mapping[str, Any]) -> Any:
    """Returns the column with nulls in some rows. `bad` has the rows for each attribute, which is the column itself or a field in it."""
    kind = column.type
    if pa.types.is_dictionary(kind):  # a dictionary keeps its values even if no row refers to them
        return _nulled(column.cast(kind.value_type), name, bad)
    if not pa.types.is_struct(kind) or name in bad:
        rows = np.zeros(len(column), dtype=bool)
        rows[np.concatenate(list(bad.values()))] = True
        return column.take(pa.array(np.arange(len(column)), mask=rows))
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    fields, children = [], []
    for number in range(kind.num_fields):
        field, child = kind.field(number), column.field(number)
        inner = f"{name}.{field.name}"
        within = {attribute: of for attribute, of in bad.items() if _is_within(attribute, inner)}
        child = _nulled(child, inner, within) if within else child
        fields.append(pa.field(field.name, child.type))
        children.append(child)
    return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
