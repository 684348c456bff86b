"""Converts Arrow's strings, of every layout, to a TextColumn. Arrow checks neither that they are UTF-8 nor that offsets lie within the
data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import TableError
from ray_pubsub.model.text_column import TextBytes, TextColumn, checked_texts

__all__ = ["arrow_texts", "is_string"]


def is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


class ArrowTexts(NamedTuple):
    """The strings of an array that are not null."""

    texts: TextColumn
    valid: NDArray[np.bool_] | None
    """Which of them are valid UTF-8, None if all are. The others are empty here."""
    places: NDArray[np.int64] | None
    """Where in the array they are; None if nothing is null."""


def arrow_texts(name: str, array: Any) -> ArrowTexts:
    """Returns the strings of an array; `name` is the column's, for errors. Tables of sparse events have many columns that are mostly null,
    so nothing is done for a null beyond finding it."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    validity, offset_buffer, data_buffer = array.buffers()
    size, first = len(array), array.offset
    places = _places(name, validity, first, size) if array.null_count else None
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else NO_BYTES
    if size == 0 or offset_buffer is None:
        none = np.zeros(size if places is None else len(places), np.int64)
        return ArrowTexts(TextColumn(TextBytes(data[:0], none, none)), None, places)
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets: NDArray[Any] = np.frombuffer(offset_buffer, width)[first : first + size + 1]
    begin, end = int(offsets[0]), int(offsets[-1])
    if begin < 0 or end > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise TableError(name, "the column is damaged: its offsets do not lie within its data")
    if places is None:
        bounds = offsets.astype(np.int64)
        bounds -= begin
        start, stop = bounds[:-1], bounds[1:]
    else:
        start, stop = offsets[places].astype(np.int64), offsets[1:][places].astype(np.int64)
        start -= begin
        stop -= begin
    return ArrowTexts(*checked_texts(data[begin:end], start, stop), places)


NO_BYTES = np.empty(0, np.uint8)


def _places(name: str, validity: Any, first: int, size: int) -> NDArray[np.int64]:
    """Returns the places of the bits that are set, counted from the first."""
    held = np.frombuffer(validity, np.uint8)[first >> 3 : (first + size + 7) >> 3]
    bits = np.unpackbits(held, bitorder="little")[first & 7 :]
    if len(bits) < size:
        raise TableError(name, "the column is damaged: it does not say of all rows whether they are null")
    return np.flatnonzero(bits[:size].view(np.bool_))
