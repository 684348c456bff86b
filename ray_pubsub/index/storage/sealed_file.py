"""A file of Arrow tables and arrays with a header, written atomically, and checked completely before anything of it is used.

    magic, format version, header length       24 bytes
    header                                     msgpack, with length and checksum of every section
    checksum of all the above                  8 bytes
    sections                                   Arrow streams
    arrays                                     as they are in memory

Checksums are XXH3. A file that is truncated, damaged, foreign or of a newer format is rejected with the reason. Sections and arrays are
read straight into their final memory, which for arrays is aligned.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgpack
import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from ray_pubsub.errors import IndexFileError
from ray_pubsub.failpoints import reach

__all__ = ["FileKind", "Unsealed", "read_file", "read_memory", "read_whole", "seal", "sealed", "unseal", "write_whole"]

PREFIX = struct.Struct("<12sIQ")
CHECKSUM = struct.Struct("<Q")
LARGEST_HEADER = 1 << 24
PIECE = 1 << 20
"""A file is read in pieces of this size, and each is checksummed while it is still in the CPU's cache."""
HUGE_PAGE = 1 << 21
ARRAYS = ("|u1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f8")
"""The types that an array may have."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """The magic bytes of a file, the version of its format, and its name in errors."""

    magic: bytes
    version: int
    name: str


class Unsealed(NamedTuple):
    """The content of a file whose checksums were right."""

    header: dict[str, Any]
    tables: list[Any]
    """None for tables that were not wanted."""
    arrays: list[NDArray[Any]]


class Input(Protocol):
    """The source of a file's bytes."""

    size: int

    def fill(self, room: memoryview) -> bool:
        """Reads the next bytes; returns False if there are too few."""


def sealed(
    kind: FileKind, header: dict[str, Any], tables: Iterable[Any], arrays: Sequence[NDArray[Any]] = ()
) -> list[Any]:
    """Returns the content of a file, in parts."""
    sections = [_packed(table) for table in tables]
    parts = [array.reshape(-1).view(np.uint8) for array in map(np.ascontiguousarray, arrays)]
    entries: dict[str, Any] = {"sections": [(len(section), _sum(section)) for section in sections]}
    if arrays:
        entries["arrays"] = [
            (array.dtype.str, array.shape, _sum(part)) for array, part in zip(arrays, parts, strict=True)
        ]
    packed = msgpack.packb({**header, **entries})
    start = PREFIX.pack(kind.magic, kind.version, len(packed)) + packed
    return [start, CHECKSUM.pack(_sum(start)), *sections, *parts]


def seal(kind: FileKind, header: dict[str, Any], tables: list[Any]) -> bytes:
    """Returns the content of a file."""
    return b"".join(sealed(kind, header, tables))


def unseal(kind: FileKind, name: str, content: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Returns the header and the tables of bytes that `seal` returned. Raises IndexFileError."""
    header, tables, _ = read_memory(kind, name, content)
    return header, tables


def read_memory(
    kind: FileKind, name: str, content: Any, wanted: Callable[[dict[str, Any]], Iterable[bool]] | None = None
) -> Unsealed:
    """Reads from bytes in memory."""
    return _read(kind, name, _Memory(memoryview(content).cast("B")), wanted)


def read_file(
    kind: FileKind, path: str | os.PathLike[str], wanted: Callable[[dict[str, Any]], Iterable[bool]] | None = None
) -> Unsealed:
    """Reads a file. `wanted` returns for a header whether each table is to be kept; the others are only checked."""
    name = os.fspath(path)
    try:
        with Path(path).open("rb", buffering=0) as file:
            return _read(kind, name, _File(file), wanted)
    except OSError as error:
        raise IndexFileError(name, f"cannot be read: {error.strerror}") from None


def _read(
    kind: FileKind, name: str, source: Input, wanted: Callable[[dict[str, Any]], Iterable[bool]] | None
) -> Unsealed:
    def take(length: int) -> memoryview:
        room = memoryview(bytearray(length))
        if not source.fill(room):
            raise IndexFileError(name, "is cut short")
        return room

    prefix = bytes(take(min(PREFIX.size, source.size)))
    if len(prefix) < PREFIX.size or not prefix.startswith(kind.magic):
        raise IndexFileError(name, f"is not {kind.name}")
    _, version, header_length = PREFIX.unpack(prefix)
    if version != kind.version:
        raise IndexFileError(name, f"has format version {version}; this release reads version {kind.version}")
    left = source.size - PREFIX.size - CHECKSUM.size - header_length
    if header_length > LARGEST_HEADER or left < 0:
        raise IndexFileError(name, "is cut short")
    packed = bytes(take(header_length))
    if CHECKSUM.unpack(take(CHECKSUM.size))[0] != _sum(prefix + packed):
        raise IndexFileError(name, "has a damaged header")
    header, sections, arrays = _header(name, packed)
    left -= sum(section.length for section in (*sections, *(array.section for array in arrays)))
    if left:
        raise IndexFileError(name, "is cut short" if left < 0 else "has bytes after its end")
    keep = [True] * len(sections) if wanted is None else list(wanted(header))
    tables = []
    for section, kept in zip(sections, keep, strict=True):
        room = _room(section.length) if kept else None
        _fill(name, source, section, room)
        tables.append(None if room is None else _unpacked(name, room))
    found = []
    for array in arrays:
        room = _room(array.section.length)
        _fill(name, source, array.section, room)
        found.append(room.view(array.kind).reshape(array.shape))
    return Unsealed(header, tables, found)


class _Section(NamedTuple):
    length: int
    checksum: int


class _Array(NamedTuple):
    kind: np.dtype[Any]
    shape: tuple[int, ...]
    section: _Section


def _header(name: str, packed: bytes) -> tuple[dict[str, Any], list[_Section], list[_Array]]:
    """Returns the header and the position of what follows it. It has a checksum, but a forged header must do no harm either."""
    try:
        header = msgpack.unpackb(packed, strict_map_key=False)
        sections = [_Section(length, checksum) for length, checksum in header["sections"]]
        arrays = []
        for kind, shape, checksum in header.get("arrays", ()):
            if kind not in ARRAYS:
                raise ValueError(kind)
            length = prod(shape) * np.dtype(kind).itemsize
            arrays.append(_Array(np.dtype(kind), tuple(shape), _Section(length, checksum)))
        numbers = [section.length for section in sections] + [size for array in arrays for size in array.shape]
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise ValueError("lengths")
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise IndexFileError(name, "has a damaged header") from None
    return header, sections, arrays


def _fill(name: str, source: Input, section: _Section, room: NDArray[np.uint8] | None) -> None:
    """Reads and checks a section, to be kept or not."""
    checksum = xxhash.xxh3_64()
    passing = memoryview(bytearray(min(PIECE, section.length))) if room is None else memoryview(room.data)
    for start in range(0, section.length, PIECE):
        length = min(PIECE, section.length - start)
        piece = passing[:length] if room is None else passing[start : start + length]
        if not source.fill(piece):
            raise IndexFileError(name, "is cut short")
        checksum.update(piece)
    if checksum.intdigest() != section.checksum:
        raise IndexFileError(name, "is damaged: a checksum does not fit")


class _File:
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size: int = os.fstat(file.fileno()).st_size

    def fill(self, room: memoryview) -> bool:
        filled = 0
        while filled < len(room):
            count = self._file.readinto(room[filled:])
            if not count:
                return False
            filled += count
        return True


class _Memory:
    def __init__(self, content: memoryview) -> None:
        self._content, self._place = content, 0
        self.size = len(content)

    def fill(self, room: memoryview) -> bool:
        part = self._content[self._place : self._place + len(room)]
        self._place += len(part)
        room[: len(part)] = part
        return len(part) == len(room)


def write_whole(path: str | os.PathLike[str], *parts: Any) -> None:
    """Writes beside the target, then renames, so that no reader ever sees half a file."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            reach("save.fsync")
            os.fsync(file.fileno())
        reach("save.rename")
        partial.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise IndexFileError(os.fspath(path), f"cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def read_whole(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise IndexFileError(os.fspath(path), f"cannot be read: {error.strerror}") from None


def _sum(part: Any) -> int:
    return xxhash.xxh3_64_intdigest(part)


def _packed(table: Any) -> memoryview:
    """Serialises a table. The size is computed first, because a growing buffer would be copied repeatedly."""
    measure = pa.MockOutputStream()
    _write(table, measure)
    room = pa.allocate_buffer(measure.size())
    _write(table, pa.FixedSizeBufferWriter(room))
    return memoryview(room)


def _write(table: Any, sink: Any) -> None:
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _unpacked(name: str, room: NDArray[np.uint8]) -> Any:
    try:
        table = pa.ipc.open_stream(pa.py_buffer(room)).read_all()
        table.validate(full=True)
        _ = table.column_names  # a forged name need not be UTF-8
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise IndexFileError(name, f"is damaged: {error}") from None
    return table


def _room(length: int) -> NDArray[np.uint8]:
    """Returns memory aligned to a cache line, or to a huge page if it is large, because kernels read it at random."""
    boundary = HUGE_PAGE if length >= HUGE_PAGE else 64
    raw = np.empty(length + boundary, np.uint8)
    start = -raw.ctypes.data % boundary
    return raw[start : start + length]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
