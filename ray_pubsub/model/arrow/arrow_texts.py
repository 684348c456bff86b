"""Converts Arrow's strings, of every layout, to a TextColumn. Arrow checks neither that they are UTF-8 nor that offsets lie within the
data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.errors import TableError
from ray_pubsub.model.text_column import TextBytes, TextColumn, checked_texts

__all__ = ["arrow_texts", "is_string"]


def is_string(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def arrow_texts(name: str, array: Any) -> tuple[TextColumn, NDArray[np.bool_] | None]:
    """Returns the strings of an array and, unless all are valid UTF-8, a mask of the valid ones; invalid ones become empty. The string
    of a null is arbitrary. `name` is the column's, for errors."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    _, offset_buffer, data_buffer = array.buffers()
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    if len(array) == 0 or offset_buffer is None:
        return TextColumn(TextBytes(data[:0], *(np.zeros(len(array), np.int64),) * 2)), None
    width = np.int64 if pa.types.is_large_string(array.type) else np.int32
    offsets = np.frombuffer(offset_buffer, width)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    if offsets[0] < 0 or offsets[-1] > len(data) or (offsets[1:] < offsets[:-1]).any():
        raise TableError(name, "the column is damaged: its offsets do not lie within its data")
    return checked_texts(data[offsets[0] : offsets[-1]], offsets - offsets[0])
