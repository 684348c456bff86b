"""What is small as bytes. Ray hands every argument and every array of an answer over by itself, which is right for large ones; for a few
numbers one string of bytes is quicker."""

from __future__ import annotations

import copyreg
import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["packed", "packed_apart", "unpacked", "unpacked_apart"]

MUCH_UNSEEN = 2
"""So many times as many bytes behind a table as are seen of it, and it travels as a copy."""
MANY_PIECES = 8
"""The same of a table in so many pieces, each of which has several columns of bytes."""


def packed(answer: Any) -> bytes:
    """With copies of all arrays in it; as elsewhere between processes, who gets them cannot write to them."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5)
    pickler.dispatch_table = _SHORTLY
    pickler.dump(answer)
    return buffer.getvalue()


def unpacked(answer: bytes) -> Any:
    return pickle.loads(answer)


def packed_apart(answer: Any) -> list[Any]:
    """Without a copy of the arrays in it: they follow, each as it is."""
    columns: list[pickle.PickleBuffer] = []
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, 5, buffer_callback=columns.append)
    pickler.dispatch_table = _APART
    pickler.dump(answer)
    return [buffer.getvalue(), *(column.raw() for column in columns)]


def unpacked_apart(parts: Sequence[Any]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])


def _array(array: NDArray[Any]) -> Any:
    """numpy's own way is made for large ones, and takes several times as long."""
    if array.ndim != 1 or array.dtype.hasobject or array.dtype.names is not None:
        return array.__reduce_ex__(5)
    return np.frombuffer, (array.tobytes(), array.dtype.str)


def _rows(table: Any) -> Any:
    """Arrow would send all that a table was cut from, with every portion of it."""
    several = isinstance(table, pa.Table)
    in_pieces = several and any(column.num_chunks >= MANY_PIECES for column in table.columns)
    if not in_pieces and table.get_total_buffer_size() <= MUCH_UNSEEN * table.nbytes:
        return table.__reduce_ex__(5)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write(table)
    return _whole_rows, (sink.getvalue(), several)


def _whole_rows(written: Any, several: bool) -> Any:
    reader = pa.ipc.open_stream(written)
    return reader.read_all() if several else reader.read_next_batch()


_SHORTLY: dict[Any, Any] = {**copyreg.dispatch_table, np.ndarray: _array}
_APART: dict[Any, Any] = {**copyreg.dispatch_table, pa.Table: _rows, pa.RecordBatch: _rows}
