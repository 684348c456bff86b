"""A saved index: one file (sealed_file.py), which says the same twice.

- The subscriptions (saved_subscriptions.py): ids, texts and rows of intervals. That is the index; any release can build it from them.
- The blocks as they were built (prepared.py), if the engine has blocks: a release of the same layout takes them as they are, and texts are
  parsed only when somebody asks for one. Another layout, or another engine at loading, and the subscriptions are added anew.

Checksums guard against accidents. A file that somebody made up, with checksums that fit, is refused, or gives an index with other matches,
or an error when it is used; it never makes a kernel read or write beyond its arrays, and nothing of it is ever run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.columns.saved_state import SavedState, State, Texts, UnfitStateError, check, packed_texts
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines import segment_state
from ray_pubsub.engines.contract import Engine, Source
from ray_pubsub.errors import IndexFileError, RayPubSubError
from ray_pubsub.index.catalogue import Catalogue, check_id
from ray_pubsub.index.indexed_table import IndexedTable
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.index.prepared import prepared_state, restore
from ray_pubsub.index.saved_subscriptions import (
    Listed,
    ids_and_names,
    in_order,
    subscription_tables,
    texts_and_places,
)
from ray_pubsub.index.saved_texts import Parse, SavedTexts
from ray_pubsub.index.sealed_file import FileKind, Unsealed, read_file, read_memory, sealed, write_whole
from ray_pubsub.index.snapshot import Snapshot
from ray_pubsub.settings import Limits

__all__ = ["Content", "SavedIndex", "dump", "load", "read", "save"]

INDEX = FileKind(b"ray-pubsub\r\n", 1, "a saved ray-pubsub index")
AN_ARRAY = 1
"""Code of the msgpack extension that stands for an array, by its number."""
SPOILT = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError),
    pa.ArrowException,
)
"""What reading a file that somebody made up may end in, here or in numpy or Arrow."""


class Content(NamedTuple):
    """An index at one moment."""

    engine: str
    options: Mapping[str, int | bool]
    limits: Limits
    listed: Listed
    holder: Engine
    snapshot: Snapshot | None
    """Of a live index."""


class SavedIndex:
    """A file that was read and checked."""

    def __init__(self, name: str, unsealed: Unsealed, prepared: bool) -> None:
        """Raises IndexFileError. `prepared`: take the blocks as they are."""
        self._name = name
        header = unsealed.header
        with _Refusing(name):
            self.engine: str = header["engine"]
            self.options: dict[str, Any] = header["options"]
            self.limits = Limits(**header["limits"])
            tables = list(zip(header["tables"], unsealed.tables, strict=True))
            check(isinstance(self.options, dict), "options are not named")
            self._ids, self._names = ids_and_names(dict(tables)["ids"], dict(tables)["attributes"])
            if self._ids.dtype != np.int64:
                for identity in self._ids.tolist():
                    check_id(identity)
            self._tables = [(kind, table) for kind, table in tables if kind in ("texts", "intervals")]
            self._state = SavedState(_unpacked(header["prepared"], unsealed.arrays)) if prepared else None

    def restored(self, engine: Engine, parse: Parse) -> Catalogue | None:
        """Puts the blocks into an empty engine; the catalogue that goes with them, or None if there are no blocks to be had."""
        if self._state is None or not isinstance(engine, LiveIndex):
            return None
        with _Refusing(self._name):
            count = len(self._ids)
            sources: list[Source] = [IndexedTable(engine)] * count
            texts: SavedTexts | None = None
            for kind, table in self._tables:
                if kind == "texts":
                    check(texts is None, "texts twice")
                    column, places = texts_and_places(table, count)
                    texts = SavedTexts(places, column, parse)
                    if len(places) == count:
                        sources = [texts] * count
                    else:
                        for place in places.tolist():
                            sources[place] = texts

            def alone(slot: int) -> Source:
                source = sources[slot]
                check(isinstance(source, SavedTexts), "a subscription without its text")
                assert isinstance(source, SavedTexts)
                sources[slot] = source.alone(slot)
                return sources[slot]

            dead = restore(engine, self._state, self._names, count, self.options, alone)
            catalogue = Catalogue()
            replaced, added = catalogue.add_many(self._ids, sources)
            check(not len(replaced) and len(added) == count, "an id twice")
            if dead:
                catalogue.skip_slot()
            return catalogue

    def in_order(self) -> Iterator[tuple[Any, Any]]:
        """The subscriptions, run by run: ids and texts, or None and a table of intervals."""
        with _Refusing(self._name):
            yield from in_order(self._ids, self._names, self._tables)


class _Refusing:
    """What goes wrong within is the file's fault."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if isinstance(error, IndexFileError):
            return
        if isinstance(error, (*SPOILT, RayPubSubError)):
            reason = str(error) if isinstance(error, UnfitStateError | RayPubSubError) else repr(error)
            raise IndexFileError(self._name, f"is damaged: {reason}") from error


def save(path: str | os.PathLike[str], content: Content) -> None:
    """Writes beside the target, then renames: no reader ever sees half a file."""
    write_whole(path, *_parts(content))


def dump(content: Content) -> bytes:
    """The content of the file."""
    return b"".join(_parts(content))


def load(path: str | os.PathLike[str], engine: str | None = None) -> SavedIndex:
    """Reads and checks a file, for this engine or the one it was saved with; raises IndexFileError and has then done nothing."""
    unsealed = read_file(INDEX, path, lambda header: _wanted(header, engine))
    return SavedIndex(os.fspath(path), unsealed, _is_prepared(unsealed.header, engine))


def read(name: str, content: Any) -> SavedIndex:
    """The same of a content that `dump` made."""
    unsealed = read_memory(INDEX, name, content, lambda header: _wanted(header, None))
    return SavedIndex(name, unsealed, _is_prepared(unsealed.header, None))


def _parts(content: Content) -> list[Any]:
    index, snapshot = content.holder, content.snapshot
    arrays: list[NDArray[Any]] = []
    header: dict[str, Any] = {
        "engine": content.engine,
        "options": dict(content.options),
        "limits": asdict(content.limits),
    }
    vocabulary = Vocabulary()
    if isinstance(index, LiveIndex) and snapshot is not None:
        vocabulary = index.vocabulary
        header["prepared"] = _packed(prepared_state(index, snapshot, content.listed.slots), arrays)
        header["layout"] = _layout()
    tables = subscription_tables(content.listed, snapshot, vocabulary)
    header["tables"] = [name for name, _ in tables]
    return sealed(INDEX, header, (table for _, table in tables), arrays)


def _layout() -> str:
    return f"{segment_state.LAYOUT} {sys.byteorder}"


def _is_prepared(header: dict[str, Any], engine: str | None) -> bool:
    """Whether the blocks can be taken as they are."""
    return header.get("layout") == _layout() and engine in (None, header.get("engine"))


def _wanted(header: dict[str, Any], engine: str | None) -> list[bool]:
    names = header.get("tables")
    sections = header["sections"]
    if not isinstance(names, list) or len(names) != len(sections):
        return [True] * len(sections)
    prepared = _is_prepared(header, engine)
    return [not prepared or name != "intervals" for name in names]


def _packed(state: State, arrays: list[NDArray[Any]]) -> bytes:
    """Arrays are put into the list, and stand in the state as their numbers."""

    def replaced(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays.append(value)
            return msgpack.ExtType(AN_ARRAY, (len(arrays) - 1).to_bytes(4, "little"))
        return int(value)

    def plain(value: Any) -> Any:
        if isinstance(value, Texts):
            offsets, data = packed_texts(value.texts)
            return {"offsets": offsets, "data": data}
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        return [plain(each) for each in value] if isinstance(value, list) else value

    packed: bytes = msgpack.packb(plain(state), default=replaced)
    return packed


def _unpacked(packed: bytes, arrays: list[NDArray[Any]]) -> Any:
    def array(code: int, number: bytes) -> NDArray[Any]:
        check(code == AN_ARRAY, "an unknown extension")
        return arrays[int.from_bytes(number, "little")]

    return msgpack.unpackb(packed, ext_hook=array)
