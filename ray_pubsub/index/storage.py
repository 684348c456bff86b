"""A saved index: one file, written whole or not at all, checked whole before anything of it is used.

    magic, format version, header length       24 bytes
    header                                     msgpack: engine, limits, sections with length and checksum
    checksum of all the above                  8 bytes
    sections                                   Arrow streams in the order of adding: expressions, or rows of intervals

Checksums are XXH3. A file that is cut short, changed, foreign or of a newer format is refused with the reason.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import xxhash

from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Source
from ray_pubsub.errors import IndexFileError
from ray_pubsub.index.indexed_table import IndexedTable, interval_rows
from ray_pubsub.index.predicate_table import PredicateTable
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.settings import Limits

__all__ = ["SavedIndex", "dump", "ids_and_texts", "load", "read", "save"]

MAGIC = b"ray-pubsub\r\n"
VERSION = 1
PREFIX = struct.Struct("<12sIQ")
CHECKSUM = struct.Struct("<Q")
LARGEST_HEADER = 1 << 24


Items = list[tuple[str | int, int, Source]]
"""Id, slot and source of every subscription, in the order of adding."""
Options = Mapping[str, int | bool]


@dataclass(frozen=True, slots=True)
class SavedIndex:
    engine: str
    options: dict[str, int | bool]
    limits: Limits
    sections: list[Any]
    """Arrow tables in the order the subscriptions were added; one with a column `text` is expressions, else intervals."""


def dump(engine: str, options: Options, limits: Limits, items: Items) -> bytes:
    """The content of the file."""
    sections = [_pack(table) for table in _tables(items)]
    header = msgpack.packb(
        {
            "engine": engine,
            "options": dict(options),
            "limits": asdict(limits),
            "sections": [(len(section), xxhash.xxh3_64_intdigest(section)) for section in sections],
        }
    )
    start = PREFIX.pack(MAGIC, VERSION, len(header)) + header
    return b"".join([start, CHECKSUM.pack(xxhash.xxh3_64_intdigest(start)), *sections])


def save(path: str | os.PathLike[str], engine: str, options: Options, limits: Limits, items: Items) -> None:
    """Writes beside the target, then renames: no reader ever sees half a file."""
    target = Path(path)
    partial = target.with_name(f"{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(dump(engine, options, limits, items))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise IndexFileError(os.fspath(path), f"cannot be written: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def load(path: str | os.PathLike[str]) -> SavedIndex:
    """Reads and checks a file; raises IndexFileError and has then done nothing."""
    name = os.fspath(path)
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise IndexFileError(name, f"cannot be read: {error.strerror}") from None
    return read(name, content)


def read(name: str, content: bytes) -> SavedIndex:
    """Checks a content that `dump` made."""
    if len(content) < PREFIX.size or not content.startswith(MAGIC):
        raise IndexFileError(name, "is not a saved ray-pubsub index")
    _, version, header_length = PREFIX.unpack_from(content)
    if version != VERSION:
        raise IndexFileError(name, f"has format version {version}; this release reads version {VERSION}")
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
    return SavedIndex(header["engine"], header.get("options", {}), Limits(**header["limits"]), tables)


def _tables(items: Items) -> Iterator[Any]:
    """A table for each run of subscriptions that came as expressions, or in one table of intervals."""
    for _, group in groupby(items, key=_run_of):
        run = list(group)
        source, rows = run[0][2], None
        slots = np.array([slot for _, slot, _ in run])
        if isinstance(source, IndexedTable):
            rows = interval_rows(ids_of([identity for identity, _, _ in run]), *source.store.clauses_of(slots))
        elif isinstance(source, PredicateTable) and _is_plain(run[0]):
            words = Vocabulary()
            rows = interval_rows(ids_of([identity for identity, _, _ in run]), source.clauses(slots, words), words)
        if rows is not None:
            yield rows
        else:
            ids = [identity for identity, _, _ in run]
            yield pa.table(
                {
                    "number": pa.array(
                        [identity if isinstance(identity, int) else None for identity in ids], pa.int64()
                    ),
                    "name": pa.array(
                        [identity if isinstance(identity, str) else None for identity in ids], pa.string()
                    ),
                    "text": pa.array([each.text_at(slot) for _, slot, each in run], pa.large_string()),
                }
            )


def _run_of(item: tuple[str | int, int, Source]) -> Any:
    """Equal for neighbours that can stand in one section; ids of a section of intervals are of one type."""
    identity, _, source = item
    return (id(source), type(identity)) if isinstance(source, IndexedTable) or _is_plain(item) else None


def _is_plain(item: tuple[str | int, int, Source]) -> bool:
    _, slot, source = item
    return isinstance(source, PredicateTable) and bool(source.plain[slot - source.first_slot])


def ids_and_texts(section: Any) -> tuple[list[str | int], list[str]]:
    """The subscriptions of a section of expressions."""
    numbers, names, texts = (section.column(name).to_pylist() for name in ("number", "name", "text"))
    return [name if number is None else number for number, name in zip(numbers, names, strict=True)], texts


def _pack(table: Any) -> bytes:
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
