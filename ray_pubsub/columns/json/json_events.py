"""Reads events from JSON texts without creating a Python dictionary per event.

The scanner (kernels/json/) skips whatever no subscription tests, and strings remain slices of the text. Alternatives were rejected:
orjson and msgspec create a dictionary per event, which takes longer than the rest of a match; pyarrow.json reads every column, converts
some strings to timestamps and refuses columns of several kinds. Documents that the scanner cannot read with certainty are read by
Python's json module, which also words the errors.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.json.documents import LONG, Documents, documents_of, only_document
from ray_pubsub.columns.json.json_columns import list_column_of, read_floats, strings_of
from ray_pubsub.columns.json.key_table import KeyTable, key_table
from ray_pubsub.columns.string_hashes import SEED
from ray_pubsub.errors import EventError
from ray_pubsub.kernels.json.scan import Cells, group_cells, scan_documents
from ray_pubsub.kernels.json.values import KINDS, LIST, Elements
from ray_pubsub.kernels.readiness import are_ready
from ray_pubsub.model import event_batch
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch, Lane, merged_lanes, without_bad
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.text_column import invalid_utf8
from ray_pubsub.model.values import Kind

__all__ = ["from_json"]

SHORTEST_CELL = 5
"""The length of `"a":1`, without the comma."""
SHORTEST_ELEMENT = 2
"""The length of `1,` in a list."""
FEWEST_SCANNED, FEWEST_UNKNOWN = 2, 8
"""Fewer documents, with fewer bytes in all, are not worth a scan: of known attributes, and of attributes that have to be learned."""
FEW_HARD = 16
"""All documents are scanned again unless fewer than one in this many has attributes that were not known."""

Refused = dict[int, tuple[str | None, str]]


def from_json(
    lines: Any, event_id: str | None = None, attributes: AttributeTree | None = None, *, strict: bool = True
) -> EventBatch:
    """Returns the batch of the documents (documents.py). Only `attributes` are read, or all if None. `strict` as for events.read_events."""
    only = only_document(lines)
    if only is not None:
        return from_dicts([only.event], event_id, attributes, strict=strict)
    documents = documents_of(lines)
    fewest = FEWEST_UNKNOWN if attributes is None else FEWEST_SCANNED
    few = documents.size < fewest and len(documents.raw) < LONG
    if few or not are_ready():  # compiling the scanner takes longer than most texts, and another process is doing it
        return _loaded_batch(documents, event_id, attributes, strict)
    if attributes is not None:
        return _read(documents, event_id, attributes, strict)[0]
    # The attributes are learned from the documents: from the first one, and from those that have others.
    names = AttributeTree(_names(_loaded_batch(documents.part(0, 1), event_id, None, strict)))
    batch, hard = _read(documents, event_id, names, strict, every=True)
    if hard * FEW_HARD > documents.size:
        more = AttributeTree([*names, *_names(batch)])
        if len(more) > len(names):
            batch, _ = _read(documents, event_id, more, strict, every=True)
    return batch


def _names(batch: EventBatch) -> set[str]:
    return {lane.attribute for lane in batch.lanes}


def _loaded_batch(
    documents: Documents, event_id: str | None, attributes: AttributeTree | None, strict: bool
) -> EventBatch:
    """Returns the batch by way of dictionaries, which for a few documents takes less time than to set up a scan."""
    problems: Refused = {row: (None, reason) for row, reason in documents.refused.items()}
    events = [_loaded(documents, row, problems) for row in range(documents.size)]
    batch = from_dicts(events, event_id, attributes, strict=strict)
    if not problems:
        return batch
    return _with_loaded([], np.empty(len(events), dtype=object), np.arange(len(events)), batch, problems, event_id)


def _read(
    documents: Documents, event_id: str | None, attributes: AttributeTree, strict: bool, every: bool = False
) -> tuple[EventBatch, int]:
    """Returns the batch, and the number of documents that the scanner could not read with certainty. `every`: all attributes are read,
    and `attributes` are those known so far."""
    hard = np.zeros(documents.size, np.bool_)
    scope = None if every else attributes.scope
    table = key_table(attributes, event_id, every)
    if table is None:
        return _loaded_batch(documents, event_id, None if every else attributes, strict), 0
    lanes, ids, cells = _scanned(documents, table, hard)
    if not hard.any():
        return EventBatch(documents.size, lanes, ids, scope=scope, _cells=cells), 0
    rows = np.flatnonzero(hard)
    problems: Refused = {row: (None, reason) for row, reason in documents.refused.items()}
    dicts = [_loaded(documents, row, problems) for row in rows.tolist()]
    rest = from_dicts(dicts, event_id, None if every else attributes, strict=strict)
    return _with_loaded(lanes, ids, rows, rest, problems, event_id), len(rows)


def _with_loaded(
    lanes: list[Lane],
    ids: NDArray[Any],
    rows: NDArray[np.int64],
    rest: EventBatch,
    problems: Refused,
    event_id: str | None,
) -> EventBatch:
    """Joins the lanes and ids of the scanned documents with the batch of the others, whose rows are `rows`."""
    count = len(ids)
    for error in rest.errors:
        assert error.position is not None
        problems.setdefault(int(rows[error.position]), (error.attribute, error.reason))
    good = rows if rest.positions is None else rows[rest.positions]
    lanes = merged_lanes(lanes, rest.lanes, good.astype(np.int32), count)
    if event_id is None:
        ids = np.arange(count)
    else:
        ids = ids.astype(object)
        ids[rows] = rest.input_ids
        ids = ids_of(ids.tolist())
    lanes, positions, errors = without_bad(lanes, count, problems)
    size = count if positions is None else len(positions)
    warnings = [
        EventError(warning.attribute, warning.reason, int(rows[warning.position or 0]))
        for warning in rest.warnings
        if int(rows[warning.position or 0]) not in problems
    ]
    return EventBatch(size, lanes, ids, positions, errors, rest.scope, warnings=warnings)


def _scanned(
    documents: Documents, table: KeyTable, hard: NDArray[np.bool_]
) -> tuple[list[Lane], NDArray[Any], event_batch.Cells]:
    """Returns the lanes of the documents that the scanner can read, and marks the others in `hard`."""
    count = documents.size
    hard[list(documents.refused)] = True
    data, start, stop = documents.data, documents.start, documents.stop
    begin = start[0]
    hard[invalid_utf8(data[begin : stop[-1]], start - begin, stop - begin)] = True
    attributes = len(table.names) + 1  # one more for the ids
    room = min((stop[-1] - begin) // SHORTEST_CELL * 2, count * attributes) + 1
    cells = Cells(
        np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty(room), np.zeros(attributes, np.bool_),
    )  # fmt: skip
    most = int(stop[-1] - begin) // SHORTEST_ELEMENT + 1
    elements = Elements(np.empty(most, np.int8), np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most))
    filled = scan_documents(data, start, stop, table.keys, SEED, cells, elements, hard)
    offsets = np.zeros(attributes * KINDS + 1, np.int64)
    rows, whole, rest = np.empty(filled, np.int32), np.empty(filled, np.int64), np.empty(filled)
    first, last = np.empty(filled, np.int64), np.empty(filled, np.int64)
    group_cells(cells, filled, offsets, rows, whole, first, last, rest)
    lanes: list[Lane] = []
    for number in np.flatnonzero(np.diff(offsets)).tolist():
        attribute, kind = divmod(number, KINDS)
        if attribute == attributes - 1:
            break
        place = slice(offsets[number], offsets[number + 1])
        strings = lists = None
        packed = table.every or bool(cells.escaped[attribute])  # what is sent must not keep the whole text alive
        if kind == Kind.STRING:
            strings = strings_of(data, first[place], last[place], packed)
        elif kind == LIST:
            lists = list_column_of(documents, elements, first[place], last[place], packed)
        elif kind == Kind.NUMBER:
            read_floats(documents.raw, first[place], last[place], whole[place], rest[place])
        lanes.append(
            Lane(
                table.names[attribute],
                Kind.LIST if kind == LIST else Kind(kind),
                None if place.stop - place.start == count else rows[place],
                whole[place],
                rest[place] if kind == Kind.NUMBER and rest[place].any() else None,
                strings,
                lists,
            )
        )
    ids: NDArray[Any] = np.arange(count)
    end = int(offsets[-1 - KINDS])
    if table.event_id is not None:
        ids = _ids(count, hard, data, offsets[-1 - KINDS :], rows, whole, first, last, bool(cells.escaped[-1]))
    used = np.concatenate([[0], np.cumsum([len(lane) for lane in lanes])]).astype(np.int64)
    return lanes, ids, event_batch.Cells(used, rows[:end], whole[:end], rest[:end])


def _ids(
    count: int,
    hard: NDArray[np.bool_],
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int32],
    whole: NDArray[np.int64],
    start: NDArray[np.int64],
    stop: NDArray[np.int64],
    escaped: bool,
) -> NDArray[Any]:
    """Returns the ids. An event without an id is marked as hard: it is not a valid event."""
    numbers, texts = slice(offsets[Kind.NUMBER], offsets[Kind.STRING]), slice(offsets[Kind.STRING], offsets[-1])
    if numbers.stop - numbers.start == count:
        return whole[numbers].copy()
    ids = np.empty(count, dtype=object)
    given = np.zeros(count, np.bool_)
    ids[rows[numbers]] = whole[numbers].tolist()
    ids[rows[texts]] = strings_of(data, start[texts], stop[texts], escaped).tolist()
    given[rows[numbers]] = given[rows[texts]] = True
    hard |= ~given
    return ids


def _loaded(documents: Documents, row: int, problems: Refused) -> Any:
    """Returns the dictionary of a document. If it is not valid, records the problem and returns an empty dictionary."""
    if row in problems:
        return {}
    try:
        return json.loads(documents.text(row).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        problems[row] = (None, f"not valid UTF-8 at byte {error.start}")
    except json.JSONDecodeError as error:
        problems[row] = (None, f"not valid JSON at character {error.pos}: {error.msg}")
    except RecursionError:
        problems[row] = (None, "nested too deeply")
    except ValueError as error:  # an integer of thousands of digits
        problems[row] = (None, f"not valid JSON: {error}")
    return {}
