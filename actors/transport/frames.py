"""Frames: the form in which requests and replies cross a socket, and the checks before anything received is used.

A frame has a kind, a header (msgpack: scalars, strings, short columns) and columns (bytes of numpy arrays and Arrow streams, sent from
where they are and received without a further copy). Nothing in a frame can name code: there is no pickle. A reader trusts neither sizes nor
types nor offsets; a frame that breaks a rule raises ProtocolError, and its connection is closed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import msgpack
import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ERROR",
    "MATCH",
    "NO_REPLY",
    "PUBLISH",
    "REPLY",
    "Frame",
    "FrameReader",
    "FrameWriter",
    "ProtocolError",
    "ascends",
    "check",
    "decoded",
    "number",
    "packed",
    "seconds",
    "text",
    "truth",
    "unpacked",
]

Message = TypeVar("Message")

PUBLISH, MATCH, REPLY, ERROR, NO_REPLY = range(1, 6)
"""The kinds of frames. NO_REPLY means that the request was understood and could not be answered here."""
INLINE_BYTES = 4096
"""Columns up to this size in bytes are copied into the header, because a read of their own would take longer."""


class ProtocolError(ConnectionError):
    """The peer sent something that is not a frame of this protocol, or not the frame that was expected."""


class Frame(NamedTuple):
    """One message: its kind, a msgpack header and raw columns."""

    kind: int
    header: bytes
    columns: Sequence[Any] = ()
    """Objects with the buffer interface."""

    @property
    def nbytes(self) -> int:
        size = len(self.header)
        if not self.columns:
            return size
        for column in self.columns:
            size += memoryview(column).nbytes
        return size

    def detached(self) -> Frame:
        """Returns a copy that pickles as byte strings. Ray handles every array separately, which takes longer than copying a few small
        ones."""
        return Frame(self.kind, self.header, [bytes(column) for column in self.columns])


class FrameWriter:
    """Collects the columns of a frame while its header is put together. `columns` are those of a part that was encoded before."""

    def __init__(self, columns: Sequence[Any] = (), inline: float = INLINE_BYTES) -> None:
        self.columns = list(columns)
        self._inline = inline

    def column(self, array: NDArray[Any]) -> bytes | int:
        """Returns what the header contains for a column: its bytes, or its number among the frame's columns."""
        if array.nbytes <= self._inline:
            return array.tobytes()
        return self._add(np.ascontiguousarray(array).data.cast("B"))

    def buffer(self, content: Any) -> bytes | int:
        """Does the same for any object with the buffer interface."""
        view = memoryview(content)
        return view.tobytes() if view.nbytes <= self._inline else self._add(view)

    def _add(self, view: memoryview) -> int:
        self.columns.append(view)
        return len(self.columns) - 1

    def frame(self, kind: int, fields: Sequence[Any]) -> Frame:
        return Frame(kind, packed(fields), self.columns)


class FrameReader:
    """Reads the fields of a header and the columns they refer to, in the order in which they were written."""

    def __init__(self, header: bytes, columns: Sequence[Any], fields: int) -> None:
        """`fields` is the number of fields that the header must have."""
        self._read(unpacked(header), columns, fields)

    @classmethod
    def of(cls, fields: list[Any], columns: Sequence[Any]) -> FrameReader:
        """Returns a reader for fields that were unpacked already."""
        found = cls.__new__(cls)
        found._read(fields, columns, len(fields))
        return found

    def _read(self, unpacked_fields: Any, columns: Sequence[Any], fields: int) -> None:
        self.fields = unpacked_fields
        check(type(self.fields) is list and len(self.fields) == fields, "a header with another number of fields")
        self._columns = columns
        self.used = 0
        """The number of columns that were read, which is the number of the next one."""

    def column(self, value: Any, kind: Any) -> NDArray[Any]:
        """Returns a column of this dtype. Raises ValueError if its bytes are not whole values."""
        return np.frombuffer(self.buffer(value), kind)

    def optional(self, value: Any, kind: Any) -> NDArray[Any] | None:
        return None if value is None else self.column(value, kind)

    def buffer(self, value: Any) -> Any:
        if type(value) is bytes:
            return value
        check(
            type(value) is int and value == self.used < len(self._columns), "a reference to a column that is not there"
        )
        self.used += 1
        return self._columns[value]

    def inner(self, header: bytes, fields: int) -> FrameReader:
        """Returns a reader for a part with its own header, whose columns are the next ones. Its `used` then says how many were read in
        all."""
        part = FrameReader(header, self._columns, fields)
        part.used = self.used
        return part

    def finish(self) -> None:
        check(self.used == len(self._columns), "columns that nothing refers to")


def packed(fields: Any) -> bytes:
    found: bytes = msgpack.Packer(unicode_errors="surrogatepass").pack(fields)  # packb takes twice as long
    return found


def unpacked(header: bytes) -> Any:
    return msgpack.unpackb(header, unicode_errors="surrogatepass")


def decoded(read: Callable[[Frame], Message], frame: Frame) -> Message:
    """Returns what `read` makes of a frame from outside. Any exception is the frame's fault, and is raised as ProtocolError."""
    try:
        return read(frame)
    except ProtocolError:
        raise
    except Exception as error:
        raise ProtocolError(f"not a valid message: {error!r}") from error


def check(holds: Any, problem: str) -> None:
    """Raises ProtocolError unless the condition holds."""
    if not holds:
        raise ProtocolError(problem)


def ascends(column: NDArray[Any]) -> bool:
    """Returns whether no value is less than the one before."""
    if len(column) == 2:
        return bool(column[0] <= column[1])
    return bool((column[1:] >= column[:-1]).all())


def number(value: Any, least: int = 0, most: int = 2**63 - 1) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ProtocolError("a value that is not a number, or out of its range")
    return value


def seconds(value: Any) -> float:
    if type(value) is not float or not 0 <= value < math.inf:
        raise ProtocolError("a value that is not a number of seconds")
    return value


def text(value: Any) -> str:
    if type(value) is not str:
        raise ProtocolError("a value that is not a text")
    return value


def truth(value: Any) -> bool:
    if type(value) is not bool:
        raise ProtocolError("a value that is not true or false")
    return value
