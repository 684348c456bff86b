"""Encodes a batch of events as bytes, for the shards. The publisher encodes it once; a coordinator passes the same bytes on.

A batch of one event has a form of its own (`single_codec.py`). Otherwise all lanes are joined into one column each for rows, values and
rests, so that the number of a message's parts does not depend on the number of attributes, and the kernels' cells are available when the
message is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from actors.transport.frames import FrameReader, FrameWriter, ascends, check, number, packed, unpacked
from actors.transport.single_codec import SINGLE_FIELDS, decode_single, encode_single
from ray_pubsub.columns.string_hashes import distinct_of
from ray_pubsub.model.event_batch import Cells, EventBatch, Lane, ListColumn
from ray_pubsub.model.text_column import TextColumn, checked_texts
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import EVENT_DEPTH

__all__ = ["EncodedEvents", "decode_events", "encode_events"]

KIND_OF = {int(kind): kind for kind in Kind}
KINDS = frozenset(KIND_OF)
NO_RESTS = "rests that are not those of numbers"
MOST_EVENTS = 2**24
FIELDS = 11


class EncodedEvents(NamedTuple):
    """A batch of events as a header and columns, ready for a frame."""

    header: bytes
    columns: list[Any]

    @property
    def nbytes(self) -> int:
        return len(self.header) + sum(memoryview(column).nbytes for column in self.columns)


def encode_events(batch: EventBatch, writer: FrameWriter | None = None) -> EncodedEvents:
    """Encodes the good events of a batch, and the moment that now() stands for in all of them; ids and errors are not included. `writer`
    collects the columns of a batch that is part of another; any other batch of one event is packed without columns."""
    if writer is None:
        single = encode_single(batch)
        if single is not None:
            return EncodedEvents(packed(single), [])
        writer = FrameWriter()
    lanes, cells = batch.lanes, batch.cells()
    dense = all(lane.rows is None for lane in lanes)
    with_rest = [place for place, lane in enumerate(lanes) if lane.rest is not None]
    values, strings = _with_distinct_strings(batch, cells.whole, cells.offsets)
    fields = (
        batch.size,
        [lane.attribute for lane in lanes],
        bytes([lane.kind for lane in lanes]),
        None if dense else writer.column(cells.offsets),
        None if dense else writer.column(cells.rows),
        writer.column(values),
        with_rest,
        writer.column(cells.rest) if with_rest else None,
        [part if isinstance(part, list) else [writer.column(column) for column in part.packed()] for part in strings],
        [_encoded_lists(lane.lists, writer) for lane in lanes if lane.lists is not None],
        batch.moment,
    )
    return EncodedEvents(packed(fields), writer.columns)


def _encoded_lists(lists: ListColumn, writer: FrameWriter) -> list[Any]:
    """Encodes lists: where each begins, and the elements, which are a batch of their own. Its columns are among the frame's columns."""
    return [writer.column(lists.offsets), encode_events(lists.elements, writer).header]


def _with_distinct_strings(
    batch: EventBatch, values: NDArray[np.int64], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[TextColumn | list[str]]]:
    """Returns the cells' values, with strings as positions in the list of their lane; and these lists, in which each string occurs once."""
    strings: list[TextColumn | list[str]] = []
    for place, lane in enumerate(batch.lanes):
        if lane.strings is None:
            continue
        if batch.size == 1:
            strings.append([lane.strings[int(lane.whole[0])]] if len(lane) else [])
            continue
        which, distinct = distinct_of(lane.strings)
        if not strings:
            values = values.copy()
        values[offsets[place] : offsets[place + 1]] = which[lane.whole]
        strings.append(distinct)
    return values, strings


def decode_events(header: bytes, columns: Sequence[Any]) -> tuple[EventBatch, EncodedEvents]:
    """Returns the batch, and its encoded form to pass on, which may use only the first of these columns."""
    fields = unpacked(header)
    if type(fields) is list and len(fields) == SINGLE_FIELDS:
        return decode_single(fields), EncodedEvents(header, [])
    reader = FrameReader(header, columns, fields=FIELDS)
    batch = _decoded(reader, 0)
    return batch, EncodedEvents(header, list(columns[: reader.used]))


def _decoded(reader: FrameReader, depth: int) -> EventBatch:
    size, names, kinds, offsets, rows, whole, with_rest, rest, strings, lists, moment = reader.fields
    check(depth <= EVENT_DEPTH, "lists nested too deep")
    number(size, 0, MOST_EVENTS)
    check(type(names) is list and set(map(type, names)) <= {str}, "attributes that are not texts")
    check(type(kinds) is bytes and len(kinds) == len(names) and KINDS.issuperset(kinds), "a value that is not a kind")
    layout = tuple(zip(names, kinds, strict=True))
    check(len(set(layout)) == len(layout), "an attribute twice")
    check(type(with_rest) is list and bool(with_rest) == (rest is not None), NO_RESTS)
    check(
        all(type(lane) is int and 0 <= lane < len(kinds) and kinds[lane] == Kind.NUMBER for lane in with_rest), NO_RESTS
    )
    starts, rows_of_cells = reader.optional(offsets, np.int64), reader.optional(rows, np.int32)
    values = reader.column(whole, np.int64)
    starts, rows_of_cells = _rows(size, len(names), len(values), starts, rows_of_cells)
    cells = Cells(starts, rows_of_cells, values, _rest(reader.optional(rest, np.float64), len(values)))
    lanes = _lanes(size, layout, cells, frozenset(with_rest))
    check(type(strings) is list and len(strings) == kinds.count(Kind.STRING), "strings of other lanes")
    _check_places(lanes, kinds, [_texts(reader, part) for part in strings])
    check(type(lists) is list and len(lists) == kinds.count(Kind.LIST), "lists of other lanes")
    for lane, part in zip([lane for lane in lanes if lane.kind == Kind.LIST], lists, strict=True):
        lane.lists = _lists(reader, part, depth)
        check(_below(lane.whole, len(lane.lists)), "a list that is not in its column")
    number(moment, -(2**63))
    return EventBatch(size, lanes, np.zeros(size, np.int8), _layout=layout, _cells=cells, _moment=moment)


def _lists(reader: FrameReader, part: Any, depth: int) -> ListColumn:
    check(type(part) is list and len(part) == 2 and type(part[1]) is bytes, "lists that are no columns")
    offsets = reader.column(part[0], np.int64)
    inner = reader.inner(part[1], FIELDS)
    elements = _decoded(inner, depth + 1)
    reader.used = inner.used
    check(
        len(offsets) and offsets[0] == 0 and offsets[-1] == elements.size,
        "lists that end elsewhere than their elements",
    )
    check(ascends(offsets), "lists out of their order")
    return ListColumn(offsets, elements)


def _rows(
    size: int, lanes: int, cells: int, offsets: NDArray[np.int64] | None, rows: NDArray[np.int32] | None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Returns where each lane begins, and the row of each cell."""
    if offsets is None or rows is None:
        check(offsets is None and rows is None and cells == lanes * size, "lanes that are shorter than the batch")
        if size == 1:
            return np.arange(lanes + 1), np.zeros(lanes, np.int32)
        return np.arange(lanes + 1) * size, np.tile(np.arange(size, dtype=np.int32), lanes)
    check(len(offsets) == lanes + 1 and len(rows) == cells, "lanes of another length than their values")
    check(offsets[0] == 0 and offsets[-1] == cells and ascends(offsets), "lanes out of their order")
    if cells:
        check(rows.view(np.uint32).max() < size, "a row outside of the batch")
        in_order = rows[1:] > rows[:-1]
        first_cells = offsets[(offsets > 0) & (offsets < cells)]  # at the first cell of a lane the rows start again
        in_order[first_cells - 1] = True
        check(in_order.all(), "rows out of their order")
    return offsets, rows


def _rest(rest: NDArray[np.float64] | None, cells: int) -> NDArray[np.float64]:
    if rest is None:
        return np.zeros(cells)
    check(len(rest) == cells and not np.isnan(rest).any(), NO_RESTS)
    return rest


def _lanes(size: int, layout: Sequence[tuple[str, int]], cells: Cells, with_rest: frozenset[int]) -> list[Lane]:
    ends, rows, whole, rest = cells.offsets.tolist(), cells.rows, cells.whole, cells.rest
    return [
        Lane(
            name,
            KIND_OF[kind],
            None if end - start == size else rows[start:end],
            whole[start:end],
            rest[start:end] if with_rest and lane in with_rest else None,
        )
        for lane, ((name, kind), start, end) in enumerate(zip(layout, ends, ends[1:], strict=False))
    ]


def _check_places(lanes: list[Lane], kinds: bytes, strings: list[TextColumn]) -> None:
    """Gives the lanes of strings the texts that they refer to by position. Checks that these positions and the booleans are in range."""
    if not strings and Kind.BOOLEAN not in kinds:
        return
    texts = iter(strings)
    for lane in lanes:
        if lane.kind == Kind.STRING:
            lane.strings = next(texts)
            check(_below(lane.whole, len(lane.strings)), "a string that is not in its list")
        elif lane.kind == Kind.BOOLEAN:
            check(_below(lane.whole, 2), "a truth value that is neither 0 nor 1")


def _texts(reader: FrameReader, part: Any) -> TextColumn:
    """Reads a list of texts, or their bytes and where each begins."""
    check(type(part) is list, "strings that are neither texts nor columns")
    if len(part) != 2 or type(part[0]) is str:
        check(set(map(type, part)) <= {str}, "strings that are not texts")
        return TextColumn(None, part)
    data, starts = reader.column(part[0], np.uint8), reader.column(part[1], np.int64)
    check(len(starts) and starts[0] == 0 and starts[-1] == len(data), "strings that end elsewhere than their bytes")
    check(ascends(starts), "strings out of their order")
    texts, valid = checked_texts(data, starts[:-1], starts[1:])
    check(valid is None, "strings that are not UTF-8")
    return texts


def _below(values: NDArray[np.int64], end: int) -> bool:
    """Returns whether all values are at least 0 and less than `end`."""
    if len(values) == 1:  # for a single value numpy is slower than Python
        return 0 <= int(values[0]) < end
    return not len(values) or int(values.view(np.uint64).max()) < end
