"""The subscriptions of an index as Arrow tables of ids, texts and rows of intervals, which every release can read.

    ids            number or name, in the order the subscriptions were added
    attributes     name; `attribute` is a position in this table
    texts          place (which subscription), text
    intervals      place, rows: list of attribute, low, high and, unless all are closed, low_closed, high_closed; a null bound is none

There is a table of intervals for each type that bounds have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.saved_state import check, check_within
from ray_pubsub.columns.test_records import Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import BuiltParts, Source
from ray_pubsub.index.bulk.indexed_table import IndexedTable
from ray_pubsub.index.bulk.interval_columns import exact_column
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.storage.saved_texts import SavedTexts
from ray_pubsub.model.id_column import ids_of
from ray_pubsub.model.values import Kind

__all__ = ["Listed", "ids_and_names", "in_order", "subscription_tables", "texts_and_places"]

TEXT, ROWS, TABLE = 0, 1, 2
SORTS: dict[type, int] = defaultdict(lambda: TEXT, {IndexedTable: ROWS, PredicateTable: TABLE})


class Listed(NamedTuple):
    """Subscriptions in the order in which they were added."""

    slots: NDArray[np.int64]
    ids: NDArray[Any]
    sources: list[Source]


def subscription_tables(listed: Listed, built: BuiltParts | None, vocabulary: Vocabulary) -> list[tuple[str, Any]]:
    """Returns the tables with their names. `built` has the clauses, if the sources do not; `vocabulary` is that of the clauses."""
    sort = np.fromiter(map(SORTS.__getitem__, map(type, listed.sources)), np.int8, len(listed.slots))
    rows = _Rows(vocabulary)
    for source, places in _by_source(listed, np.flatnonzero(sort == TABLE)):
        plain = source.plain[listed.slots[places] - source.first_slot]
        sort[places] = np.where(plain, ROWS, TEXT)
        if built is None and plain.any():
            rows.add(source.clauses(listed.slots[places[plain]], vocabulary), places[plain])
    if built is not None:
        places = np.flatnonzero(sort == ROWS)
        for found, table in built.tables_of(listed.slots[places]):
            rows.add(table, places[found])
    sort[rows.refused] = TEXT
    tables = [
        ("ids", _id_table(listed.ids)),
        ("attributes", pa.table({"name": _texts_of(vocabulary.attributes.texts)})),
    ]
    texts = np.flatnonzero(sort == TEXT)
    if len(texts):
        tables.append(("texts", pa.table({"place": texts, "text": _texts(listed, texts)})))
    return tables + [("intervals", table) for table in rows.tables()]


def _by_source(listed: Listed, places: NDArray[np.int64]) -> Iterator[tuple[Any, NDArray[np.int64]]]:
    """Yields the sources of several subscriptions, each with the places of its subscriptions."""
    identity = np.fromiter((id(listed.sources[place]) for place in places.tolist()), np.int64, len(places))
    _, first, which = np.unique(identity, return_index=True, return_inverse=True)
    for number, place in enumerate(first.tolist()):
        yield listed.sources[int(places[place])], places[which == number]


class _Rows:
    """Collects rows of intervals, in a table for each type."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._batches: dict[str, list[Any]] = {}
        self.refused: list[int] = []
        """The places of subscriptions whose bounds no Arrow type holds exactly: integers beyond 2**53 beside fractions."""

    def add(self, table: ClauseTable, places: NDArray[np.int64]) -> None:
        """Adds clauses, each with its place."""
        starts = table.offsets[: table.count]
        tests = table.tests[: table.test_count]
        sort = tests["kind"][starts].astype(np.int64)
        fraction = (tests["low_rest"] != 0) | (tests["high_rest"] != 0)
        if fraction.any():
            sort += len(Kind) * np.logical_or.reduceat(fraction, starts)
        sorts = np.unique(sort)
        for each in sorts.tolist():
            if len(sorts) == 1:
                self._add_alike(table, places)
            else:
                chosen = np.flatnonzero(sort == each)
                self._add_alike(table.take(chosen), places[chosen])

    def _add_alike(self, table: ClauseTable, places: NDArray[np.int64]) -> None:
        tests = table.tests[: table.test_count]
        attributes = len(self._vocabulary.attributes)
        narrow = np.uint8 if attributes < 2**8 else (np.uint16 if attributes < 2**16 else np.int32)
        columns: dict[str, Any] = {"attribute": pa.array(tests["attribute"].astype(narrow))}
        for name, closed in (("low", Side.BEFORE), ("high", Side.AFTER)):
            side = np.ascontiguousarray(tests[f"{name}_side"])
            kind, missing = Kind(int(tests["kind"][0])), side == Side.NONE
            bounds = exact_column(kind, tests[f"{name}_whole"], tests[f"{name}_rest"], missing)
            if bounds is None:
                self.refused += places.tolist()
                return
            columns[name] = bounds
            if (side == Side.AFTER - closed).any():
                columns[f"{name}_closed"] = pa.array(side == closed)
        rows = pa.StructArray.from_arrays(list(columns.values()), list(columns))
        offsets = pa.array(table.offsets[: table.count + 1], pa.int64())
        batch = pa.record_batch({"place": places, "rows": pa.LargeListArray.from_arrays(offsets, rows)})
        self._batches.setdefault(str(batch.schema), []).append(batch)

    def tables(self) -> list[Any]:
        return [pa.Table.from_batches(batches) for batches in self._batches.values()]


def _texts(listed: Listed, places: NDArray[np.int64]) -> Any:
    """Returns the texts at these places; texts of a loaded index are copied without becoming Python objects."""
    loaded = np.fromiter((type(listed.sources[place]) is SavedTexts for place in places.tolist()), bool, len(places))
    single = places[~loaded]
    each = zip([listed.sources[place] for place in single.tolist()], listed.slots[single].tolist(), strict=True)
    parts, found = [_texts_of([source.text_at(slot) for source, slot in each])], [single]
    for source, mine in _by_source(listed, places[loaded]):
        parts.append(source.texts.take(pa.array(source.places(listed.slots[mine]))))
        found.append(mine)
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate(found))
    return pa.concat_arrays(parts).take(pa.array(order))


def _texts_of(texts: list[Any]) -> Any:
    return pa.array(texts, pa.large_string())


def _id_table(ids: NDArray[Any]) -> Any:
    if ids.dtype == np.int64:
        return pa.table({"number": ids})
    listed = ids.tolist()
    numbers = [identity if isinstance(identity, int) else None for identity in listed]
    names = [identity if isinstance(identity, str) else None for identity in listed]
    return pa.table({"number": pa.array(numbers, pa.int64()), "name": _texts_of(names)})


# ------------------------------------------------------------------------------------------------------------------ back


def ids_and_names(ids: Any, attributes: Any) -> tuple[NDArray[Any], list[str]]:
    """Reads the tables `ids` and `attributes`."""
    if "name" not in ids.column_names:
        numbers: NDArray[np.int64] = ids.column("number").combine_chunks().to_numpy(zero_copy_only=False)
        check(numbers.dtype == np.int64 and not ids.column("number").null_count, "ids are missing")
        found = numbers
    else:
        pairs = zip(ids.column("number").to_pylist(), ids.column("name").to_pylist(), strict=True)
        found = ids_of([name if number is None else number for number, name in pairs])
    names = attributes.column("name").to_pylist()
    check(None not in names and len(set(names)) == len(names), "attribute names are not distinct")
    return found, names


def texts_and_places(table: Any, count: int) -> tuple[Any, NDArray[np.int64]]:
    """Reads a table of texts: an Arrow array, and the places, which ascend."""
    places = table.column("place").combine_chunks().to_numpy(zero_copy_only=False)
    texts = table.column("text").combine_chunks()
    if isinstance(texts, pa.ChunkedArray):
        texts = pa.concat_arrays(texts.chunks) if texts.num_chunks else pa.array([], texts.type)
    check(places.dtype == np.int64 and texts.type == pa.large_string() and not texts.null_count, "texts are missing")
    check_within(places, 0, count - 1, "places of texts")
    check((np.diff(places) > 0).all(), "places of texts do not ascend")
    return texts, places


def in_order(ids: NDArray[Any], names: list[str], tables: list[tuple[str, Any]]) -> Iterator[tuple[Any, Any]]:
    """Yields ids and texts, or None and a table that `add_predicates` takes, run by run in the order of adding."""
    parts: list[tuple[str, NDArray[np.int64], Any]] = []
    which = np.full(len(ids), -1, np.int64)
    for name, unordered in tables:
        table, places = unordered, unordered.column("place").to_numpy()
        check_within(places, 0, len(ids) - 1, "places")
        if (places[1:] < places[:-1]).any():
            order = np.argsort(places, kind="stable")
            places, table = places[order], table.take(pa.array(order))
        check((which[places] < 0).all() and (np.diff(places) > 0).all(), "a subscription twice")
        which[places] = len(parts)
        parts.append((name, places, table))
    check((which >= 0).all(), "subscriptions are missing")
    bounds = [0, *(np.flatnonzero(which[1:] != which[:-1]) + 1).tolist(), len(which)]
    for start, end in pairwise(bounds if len(which) else ()):
        name, places, table = parts[int(which[start])]
        run = table.slice(int(np.searchsorted(places, start)), end - start)
        if name == "texts":
            yield ids[start:end].tolist(), run.column("text").to_pylist()
        else:
            for mine in _of_one_type(ids[start:end]):
                yield None, _predicates(run.slice(mine.start, mine.stop - mine.start), ids[start:end][mine], names)


def _of_one_type(ids: NDArray[Any]) -> Iterator[slice]:
    """Yields runs of ids that are all numbers or all strings, because a table has ids of one type."""
    if ids.dtype == np.int64:
        yield slice(0, len(ids))
        return
    texts = np.fromiter((isinstance(identity, str) for identity in ids), bool, len(ids))
    bounds = [0, *(np.flatnonzero(texts[1:] != texts[:-1]) + 1).tolist(), len(ids)]
    for start, end in pairwise(bounds):
        yield slice(start, end)


def _predicates(table: Any, ids: NDArray[Any], names: list[str]) -> Any:
    rows = table.column("rows").combine_chunks()
    rows = pa.concat_arrays(rows.chunks) if isinstance(rows, pa.ChunkedArray) else rows
    lengths = rows.value_lengths().to_numpy()
    fields = rows.flatten()
    owner = np.repeat(np.arange(len(ids)), lengths)
    columns = {field.name: fields.field(number) for number, field in enumerate(fields.type)}
    identity = pa.array(ids[owner] if ids.dtype == np.int64 else ids[owner].tolist())
    attribute = columns.pop("attribute").cast(pa.int32())
    named = pa.DictionaryArray.from_arrays(attribute, pa.array(names, pa.string()))
    return pa.table({"id": identity, "attribute": named, **columns})
