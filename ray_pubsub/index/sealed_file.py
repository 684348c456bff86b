"""A file of Arrow tables with a header, written whole or not at all, checked whole before anything of it is used.

    magic, format version, header length       24 bytes
    header                                     msgpack, with length and checksum of every section
    checksum of all the above                  8 bytes
    sections                                   Arrow streams

Checksums are XXH3. A file that is cut short, changed, foreign or of a newer format is refused with the reason.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa
import xxhash

from ray_pubsub.errors import IndexFileError

__all__ = ["FileKind", "read_whole", "seal", "unseal", "write_whole"]

PREFIX = struct.Struct("<12sIQ")
CHECKSUM = struct.Struct("<Q")
LARGEST_HEADER = 1 << 24


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file begins with, its format's version, and what to call it."""

    magic: bytes
    version: int
    name: str


def seal(kind: FileKind, header: dict[str, Any], tables: list[Any]) -> bytes:
    """The content of a file."""
    sections = [_packed(table) for table in tables]
    sizes = [(len(section), xxhash.xxh3_64_intdigest(section)) for section in sections]
    packed = msgpack.packb({**header, "sections": sizes})
    start = PREFIX.pack(kind.magic, kind.version, len(packed)) + packed
    return b"".join([start, CHECKSUM.pack(xxhash.xxh3_64_intdigest(start)), *sections])


def unseal(kind: FileKind, name: str, content: bytes) -> tuple[dict[str, Any], list[Any]]:
    """Header and tables of a content that `seal` made; raises IndexFileError."""
    if len(content) < PREFIX.size or not content.startswith(kind.magic):
        raise IndexFileError(name, f"is not {kind.name}")
    _, version, header_length = PREFIX.unpack_from(content)
    if version != kind.version:
        raise IndexFileError(name, f"has format version {version}; this release reads version {kind.version}")
    end = PREFIX.size + header_length
    if header_length > LARGEST_HEADER or end + CHECKSUM.size > len(content):
        raise IndexFileError(name, "is cut short")
    if CHECKSUM.unpack_from(content, end)[0] != xxhash.xxh3_64_intdigest(content[:end]):
        raise IndexFileError(name, "has a damaged header")
    header = msgpack.unpackb(content[PREFIX.size : end])
    place = end + CHECKSUM.size
    tables = []
    for length, checksum in header["sections"]:
        section = memoryview(content)[place : place + length]
        if len(section) != length:
            raise IndexFileError(name, "is cut short")
        if xxhash.xxh3_64_intdigest(section) != checksum:
            raise IndexFileError(name, "is damaged: a checksum does not fit")
        tables.append(pa.ipc.open_stream(pa.py_buffer(section)).read_all())
        place += length
    if place != len(content):
        raise IndexFileError(name, "has bytes after its end")
    return header, tables


def write_whole(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes beside the target, then renames: no reader ever sees half a file."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
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


def _packed(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
