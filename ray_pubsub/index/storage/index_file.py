"""A saved index: one file (sealed_file.py) with the same content in two forms.

- The subscriptions (saved_subscriptions.py): ids, texts and rows of intervals. They define the index; any release can build it from them.
- The blocks as they were built (built_segments.py), if the engine has blocks: a release of the same layout uses them as they are, and
  texts are parsed only when they are needed. With another layout, or another engine at loading, the subscriptions are added again.

Checksums detect accidental damage. A forged file with correct checksums is rejected, or gives an index with other matches, or an error
when it is used; it never makes a kernel read or write beyond its arrays, and nothing in it is ever executed.
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
from ray_pubsub.engines.contract import BuiltParts, Engine, Source
from ray_pubsub.errors import IndexFileError, RayPubSubError
from ray_pubsub.index.bulk.indexed_table import IndexedTable
from ray_pubsub.index.catalogue import Catalogue
from ray_pubsub.index.storage.saved_metadata import metadata_of_table, metadata_table
from ray_pubsub.index.storage.saved_subscriptions import (
    Listed,
    ids_and_names,
    in_order,
    subscription_tables,
    texts_and_places,
)
from ray_pubsub.index.storage.saved_texts import Parse, SavedTexts
from ray_pubsub.index.storage.sealed_file import FileKind, Unsealed, read_file, read_memory, sealed, write_whole
from ray_pubsub.model.arguments import check_id
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.settings import Limits

__all__ = ["Content", "SavedIndex", "dump", "load", "read", "save"]

INDEX = FileKind(b"ray-pubsub\r\n", 1, "a saved ray-pubsub index")
AN_ARRAY = 1
"""The code of the msgpack extension that stands for an array, by its number."""
SPOILT = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError),
    pa.ArrowException,
)
"""The errors that reading a forged file may raise, here or in numpy or Arrow."""


class Content(NamedTuple):
    """The content of an index at one version."""

    engine: str
    options: Mapping[str, int | bool]
    limits: Limits
    ignore_case: bool
    listed: Listed
    built: BuiltParts | None
    carried: list[tuple[int, Metadata]]
    """The places of subscriptions with metadata, and the metadata."""


class SavedIndex:
    """A file that was read and checked."""

    def __init__(self, name: str, unsealed: Unsealed, built: bool) -> None:
        """`built`: use the blocks as they are. Raises IndexFileError."""
        self._name = name
        header = unsealed.header
        with _Refusing(name):
            self.engine: str = header["engine"]
            self.options: dict[str, Any] = header["options"]
            self.limits = Limits(**header["limits"])
            self.ignore_case: bool = header.get("ignore_case", False) is True
            tables = list(zip(header["tables"], unsealed.tables, strict=True))
            check(isinstance(self.options, dict), "options are not named")
            self._ids, self._names = ids_and_names(dict(tables)["ids"], dict(tables)["attributes"])
            if self._ids.dtype != np.int64:
                for identity in self._ids.tolist():
                    check_id(identity)
            self._tables = [(kind, table) for kind, table in tables if kind in ("texts", "intervals")]
            self._metadata = metadata_of_table(dict(tables).get("metadata"), len(self._ids))
            self._state = SavedState(_unpacked(header["built"], unsealed.arrays)) if built else None

    def restored(self, engine: Engine, parse: Parse) -> Catalogue | None:
        """Puts the blocks into an empty engine. Returns the catalogue that belongs to them; None if there are no usable blocks."""
        if self._state is None or engine.built() is None:
            return None
        with _Refusing(self._name):
            count = len(self._ids)
            sources: list[Source] = [IndexedTable(engine)] * count
            texts: SavedTexts | None = None
            for kind, table in self._tables:
                if kind == "texts":
                    check(texts is None, "texts twice")
                    column, places = texts_and_places(table, count)
                    texts = SavedTexts(places, column, parse, self._name)
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

            dead = engine.restore(self._state, self._names, count, alone)
            catalogue = Catalogue()
            replaced, added = catalogue.add_many(self._ids, sources)
            check(not len(replaced) and len(added) == count, "an id twice")
            if dead:
                catalogue.skip_slot()
            return catalogue

    def metadata(self) -> list[tuple[str | int, Metadata]]:
        """Returns the ids of subscriptions that have metadata, with the metadata."""
        return [(self._ids[place : place + 1].tolist()[0], metadata) for place, metadata in self._metadata]

    def in_order(self) -> Iterator[tuple[Any, Any]]:
        """Yields the subscriptions, run by run: ids and texts, or None and a table of intervals."""
        with _Refusing(self._name):
            yield from in_order(self._ids, self._names, self._tables)


class _Refusing:
    """Converts every error within the block to an IndexFileError."""

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
    """Writes beside the target, then renames, so that no reader ever sees half a file."""
    write_whole(path, *_parts(content))


def dump(content: Content) -> bytes:
    """Returns the content of the file."""
    return b"".join(_parts(content))


def load(path: str | os.PathLike[str], engine: str | None = None) -> SavedIndex:
    """Reads and checks a file, for this engine or the one it was saved with. Raises IndexFileError without any effect."""
    unsealed = read_file(INDEX, path, lambda header: _wanted(header, engine))
    return SavedIndex(os.fspath(path), unsealed, _is_built(unsealed.header, engine))


def read(name: str, content: Any) -> SavedIndex:
    """Does the same for bytes that `dump` returned."""
    unsealed = read_memory(INDEX, name, content, lambda header: _wanted(header, None))
    return SavedIndex(name, unsealed, _is_built(unsealed.header, None))


def _parts(content: Content) -> list[Any]:
    built = content.built
    arrays: list[NDArray[Any]] = []
    header: dict[str, Any] = {
        "engine": content.engine,
        "options": dict(content.options),
        "limits": asdict(content.limits),
        "ignore_case": content.ignore_case,
    }
    vocabulary = Vocabulary()
    if built is not None:
        vocabulary = built.vocabulary
        header["built"] = _packed(built.state(content.listed.slots), arrays)
        header["layout"] = _layout()
    tables = subscription_tables(content.listed, built, vocabulary)
    if content.carried:
        tables.append(("metadata", metadata_table(content.carried)))
    header["tables"] = [name for name, _ in tables]
    return sealed(INDEX, header, (table for _, table in tables), arrays)


def _layout() -> str:
    return f"{segment_state.LAYOUT} {sys.byteorder}"


def _is_built(header: dict[str, Any], engine: str | None) -> bool:
    """Returns whether the blocks can be used as they are."""
    return header.get("layout") == _layout() and engine in (None, header.get("engine"))


def _wanted(header: dict[str, Any], engine: str | None) -> list[bool]:
    names = header.get("tables")
    sections = header["sections"]
    if not isinstance(names, list) or len(names) != len(sections):
        return [True] * len(sections)
    built = _is_built(header, engine)
    return [not built or name != "intervals" for name in names]


def _packed(state: State, arrays: list[NDArray[Any]]) -> bytes:
    """Replaces the arrays of a state by their numbers in the list."""

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
