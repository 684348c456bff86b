"""What is small as bytes. Ray hands every argument and every array of an answer over by itself, which is right for large ones; for a few
numbers one string of bytes is quicker."""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["packed", "packed_apart", "unpacked", "unpacked_apart"]


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
    head = pickle.dumps(answer, 5, buffer_callback=columns.append)
    return [head, *(column.raw() for column in columns)]


def unpacked_apart(parts: Sequence[Any]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])


def _array(array: NDArray[Any]) -> Any:
    """numpy's own way is made for large ones, and takes several times as long."""
    if array.ndim != 1 or array.dtype.hasobject or array.dtype.names is not None:
        return array.__reduce_ex__(5)
    return np.frombuffer, (array.tobytes(), array.dtype.str)


_SHORTLY: dict[type, Any] = {np.ndarray: _array}
