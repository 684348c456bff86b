"""Converts strings, numbers and lists found by a scan of JSON texts to columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.json.documents import Documents
from ray_pubsub.kernels.json.unescape import unescape_strings
from ray_pubsub.kernels.json.values import NOT_TEXT, ElementLane, Elements, count_elements, group_elements
from ray_pubsub.model.event_batch import NO_IDS, EventBatch, Lane, ListColumn, split_floats
from ray_pubsub.model.text_column import TextBytes, TextColumn
from ray_pubsub.model.values import Kind

__all__ = ["list_column_of", "read_floats", "strings_of"]


def strings_of(data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64], packed: bool) -> TextColumn:
    if not packed:
        return TextColumn(TextBytes(data, start, stop))
    out, out_start, out_stop = np.empty(int((stop - start).sum()), np.uint8), np.empty_like(start), np.empty_like(stop)
    unescape_strings(data, start, stop, out, out_start, out_stop)
    return TextColumn(TextBytes(out, out_start, out_stop))


def read_floats(
    raw: bytes, start: NDArray[np.int64], stop: NDArray[np.int64], whole: NDArray[np.int64], rest: NDArray[np.float64]
) -> None:
    """Parses numbers with many digits or a large exponent. Arrow's parser rounds as Python does, in a third of the time."""
    places = np.flatnonzero(stop != NOT_TEXT)
    if not len(places):
        return
    import pyarrow as pa

    texts = [raw[begin:end] for begin, end in zip(start[places].tolist(), stop[places].tolist(), strict=True)]
    try:
        values = pa.array(texts, pa.binary()).cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:  # beyond a float64: Python reads it as infinite
        values = np.array([float(text) for text in texts])
    whole[places], parts = split_floats(values)
    rest[places] = 0.0 if parts is None else parts


def list_column_of(
    documents: Documents, elements: Elements, start: NDArray[np.int64], stop: NDArray[np.int64], packed: bool
) -> ListColumn:
    """Returns the lists whose elements lie between `start` and `stop`. `packed` as for strings."""
    offsets = np.concatenate([[0], np.cumsum(stop - start)]).astype(np.int64)
    size = int(offsets[-1])
    counts = np.zeros(len(Kind), np.int64)
    count_elements(elements, start, stop, counts)
    lanes = []
    for kind in np.flatnonzero(counts).tolist():
        count = int(counts[kind])
        whole, first, last = (np.empty(count, np.int64) for _ in range(3))
        found = ElementLane(np.empty(count, np.int32), whole, first, last, np.empty(count))
        group_elements(elements, start, stop, kind, found)
        strings = None
        if kind == Kind.STRING:
            strings = strings_of(documents.data, first, last, packed)
        elif kind == Kind.NUMBER:
            read_floats(documents.raw, first, last, whole, found.rest)
        rest = found.rest if kind == Kind.NUMBER and found.rest.any() else None
        lanes.append(Lane("", Kind(kind), None if count == size else found.row, whole, rest, strings))
    return ListColumn(offsets, EventBatch(size, lanes, NO_IDS))
