"""Strings as UTF-8 bytes: the strings of events are hashed, compared and searched without a Python object for each."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TextBytes", "TextColumn", "checked_texts", "invalid_utf8"]

NOT_ASCII = np.uint64(0x8080808080808080)


class TextBytes(NamedTuple):
    """String i is `data[start[i]:stop[i]]`, valid UTF-8. The order by bytes is the order by code points."""

    data: NDArray[np.uint8]
    start: NDArray[np.int64]
    stop: NDArray[np.int64]


class TextColumn:
    """Strings as bytes or as Python objects; each form is made from the other on request. Immutable."""

    __slots__ = ("_bytes", "_list", "distinct", "hashes")

    def __init__(self, encoded: TextBytes | None, texts: list[str] | None = None) -> None:
        """At least one of the two must be given; `texts` must be valid Unicode."""
        self._bytes = None if encoded is None else _read_only(encoded)
        self._list = texts
        self.hashes: Any = None
        """A place where columns/string_hashes.py stores the strings' hashes."""
        self.distinct: Any = None
        """A place where it stores the distinct strings."""

    @classmethod
    def encoded(cls, texts: Sequence[str]) -> TextColumn:
        """Encodes strings. Raises UnicodeEncodeError for a lone surrogate and TypeError for anything but a str."""
        return cls(_encoded(texts))

    @property
    def bytes(self) -> TextBytes:
        if self._bytes is None:
            assert self._list is not None
            self._bytes = _read_only(_encoded(self._list))
        return self._bytes

    def __len__(self) -> int:
        return len(self._list) if self._list is not None else len(self.bytes.start)

    def __getitem__(self, place: int) -> str:
        return self.tolist()[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tolist())

    def tolist(self) -> list[str]:
        """Returns the strings as Python objects, which are made once."""
        if self._list is None:
            data, start, stop = self.bytes
            raw, bounds = data.tobytes(), zip(start.tolist(), stop.tolist(), strict=True)
            if raw.isascii():
                text = raw.decode()
                self._list = [text[first:last] for first, last in bounds]
            else:
                self._list = [raw[first:last].decode() for first, last in bounds]
        return self._list

    def raw(self, place: int) -> builtins.bytes:
        """Returns the bytes of one string."""
        data, start, stop = self.bytes
        return data[start[place] : stop[place]].tobytes()

    def take(self, places: NDArray[np.int64]) -> TextColumn:
        """Returns the strings at these places; the bytes are shared."""
        data, start, stop = self.bytes
        return TextColumn(TextBytes(data, start[places], stop[places]))

    @classmethod
    def joined(cls, columns: Sequence[TextColumn]) -> TextColumn:
        """Joins columns of strings one after the other."""
        parts = [column.bytes for column in columns]
        firsts = np.cumsum([0, *(len(part.data) for part in parts)])
        moved = [[part.start + first, part.stop + first] for part, first in zip(parts, firsts, strict=False)]
        start, stop = (np.concatenate(bounds) for bounds in zip(*moved, strict=True))
        return cls(TextBytes(np.concatenate([part.data for part in parts]), start, stop))

    def packed(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns the bytes of the strings without gaps, and where each begins, with the end of the last."""
        data, start, stop = self.bytes
        offsets = np.zeros(len(start) + 1, np.int64)
        np.cumsum(stop - start, out=offsets[1:])
        if not len(start):
            return data[:0], offsets
        if (start[1:] == stop[:-1]).all():
            return data[start[0] : stop[-1]], offsets
        raw = data.tobytes()
        parts = [raw[first:last] for first, last in zip(start.tolist(), stop.tolist(), strict=True)]
        return np.frombuffer(b"".join(parts), np.uint8), offsets

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in self.bytes)

    def __reduce__(self) -> Any:
        return TextColumn, (self.bytes,)


def checked_texts(
    data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> tuple[TextColumn, NDArray[np.bool_] | None]:
    """Returns the strings data[start[i]:stop[i]] and, unless all are valid UTF-8, a mask of the valid ones; invalid ones become empty."""
    valid = None if _is_ascii(data) else _valid_utf8(data, start, stop)
    if valid is not None:
        stop = np.where(valid, stop, start)
    return TextColumn(TextBytes(data, start, stop)), valid


def invalid_utf8(
    data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]
) -> NDArray[np.int64] | list[int]:
    """Returns the numbers of the strings data[start[i]:stop[i]] that are not valid UTF-8."""
    valid = None if _is_ascii(data) else _valid_utf8(data, start, stop)
    return [] if valid is None else np.flatnonzero(~valid)


def _is_ascii(data: NDArray[np.uint8]) -> bool:
    words = len(data) & ~7
    bits = np.bitwise_or.reduce(data[:words].view(np.uint64), initial=np.uint64(0))
    return not bits & NOT_ASCII and not (data[words:] & 0x80).any()


def _valid_utf8(data: NDArray[np.uint8], start: NDArray[np.int64], stop: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Returns a mask of the valid strings, or None if all are. The strings together may be valid although a character is cut in two."""
    raw = data.tobytes()
    if decodes(raw) and not any((data[cuts[cuts < len(data)]] & 0xC0 == 0x80).any() for cuts in (start, stop)):
        return None
    valid = np.array([decodes(raw[first:last]) for first, last in zip(start.tolist(), stop.tolist(), strict=True)])
    return None if valid.all() else valid


def decodes(raw: bytes) -> bool:
    """Returns whether the bytes are UTF-8."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _encoded(texts: Sequence[str]) -> TextBytes:
    # Joined and encoded at once, a string takes 15 ns; an Arrow array of them takes 35 each.
    data = np.frombuffer("\0".join(texts).encode(), np.uint8)
    ends = np.flatnonzero(data == 0)
    if len(ends) + 1 != len(texts):  # there are no strings, or one contains a zero
        parts = [text.encode() for text in texts]
        data = np.frombuffer(b"".join(parts), np.uint8)
        bounds = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        return TextBytes(data, bounds[:-1], bounds[1:])
    bounds = np.concatenate([[-1], ends, [len(data)]])
    return TextBytes(data, bounds[:-1] + 1, bounds[1:])


def _read_only(encoded: TextBytes) -> TextBytes:
    """Makes the arrays read-only, so that kernels see one type of array, whatever its origin, and are compiled once."""
    if not any(part.flags.writeable for part in encoded):
        return encoded
    views = [part.view() for part in encoded]
    for view in views:
        view.setflags(write=False)
    return TextBytes._make(views)
