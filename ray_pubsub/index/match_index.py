"""MatchIndex: subscriptions by id, and the events that match them. What a single process needs."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.integer_cutter import IntegerCutter
from ray_pubsub.engines.contract import Engine, Hits, Source
from ray_pubsub.engines.plan import IndexPlan
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    TableError,
    UnknownSubscriptionError,
    counted,
)
from ray_pubsub.index.catalogue import Catalogue, all_good, check_id, check_ids
from ray_pubsub.index.distinct_matches import DistinctMatches, distinct_slots
from ray_pubsub.index.engine_choice import make_engine
from ray_pubsub.index.explanation import Explanation, explain_tree
from ray_pubsub.index.index_stats import IndexStats, index_stats
from ray_pubsub.index.indexed_table import IndexedTable
from ray_pubsub.index.listed import listed
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.index.predicate_table import PredicateTable
from ray_pubsub.index.saved_texts import SavedTexts
from ray_pubsub.language.shapes import Expression, ShapeCache
from ray_pubsub.language.tree import Tree
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.events import read_events
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.settings import Limits

if TYPE_CHECKING:
    from ray_pubsub.index.storage import Content, SavedIndex

__all__ = ["AddReport", "MatchIndex"]

SLOTS_UNTIL_COMPACTION, SLOTS_WHEN_EMPTY = 16_384, 1024
NO_ID: Any = object()
"""Instead of None, which is no id either, but is an id that somebody failed to find."""


class Books(NamedTuple):
    """The ids and the engine, which agree on slots. Replaced together when slots are given anew."""

    catalogue: Catalogue
    engine: Engine


@dataclass(frozen=True, slots=True)
class AddReport:
    """What a bulk add did: how many subscriptions are in, and the bad ones with their positions, ids and errors."""

    added: int
    rejections: list[Rejection] = field(default_factory=list)

    def __bool__(self) -> bool:
        """True if nothing was rejected."""
        return not self.rejections


class MatchIndex:
    """Standing queries, and the answer to "which of them does this event match?".

    >>> index = MatchIndex()
    >>> index.add("s1", "model = 'iphone5s' and price <= 580")
    >>> index.match({"model": "iphone5s", "price": 550})
    ['s1']

    Safe to use from several threads. Every change is atomic: a match sees all of it or nothing.
    """

    def __init__(
        self, engine: str = "auto", *, limits: Limits | None = None, merges: str = "inline", **options: int | bool
    ) -> None:
        """`merges="background"`: blocks are built and merged in a thread, so that no change waits for it. `options` are the engine's:
        `cache=` (ω, cached bit sets per attribute) for dexin and gem, `tau=` for gem, `exclusive_only=`, `inclusive_only=` for dexin."""
        self.limits = Limits() if limits is None else limits
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(limits).__name__}")
        self.engine = engine
        self.merges = merges
        self.options = options
        self._shapes = ShapeCache(self.limits, cutter=IntegerCutter())
        self._books = Books(Catalogue(), make_engine(engine, self.limits, merges, options))
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return len(self._books.catalogue)

    def __contains__(self, id: object) -> bool:
        return id in self._books.catalogue

    def __iter__(self) -> Iterator[str | int]:
        """The ids, in the order they were added."""
        with self._writing:
            return iter(self._books.catalogue)

    def __repr__(self) -> str:
        return f"MatchIndex({counted(len(self), 'subscription')}, engine={self.engine!r})"

    @property
    def nbytes(self) -> int:
        """Bytes the index holds, ids and all; roughly, as Python's own objects are estimated."""
        return self._books.catalogue.nbytes + self._books.engine.nbytes

    def add(self, id: str | int, expression: str) -> None:
        """Adds a subscription; one with the same id is replaced. Raises an ExpressionError that says what is wrong."""
        check_id(id)
        source = self._shapes.parse(expression)
        with self._writing:
            catalogue, engine = self._books
            slot, replaced = catalogue.add(id, source)
            engine.add(slot, source, replaced)
            if replaced >= 0:
                self._compact()

    def add_many(
        self,
        ids: Iterable[str | int],
        expressions: Iterable[str],
        *,
        atomic: bool = False,
        removing: Iterable[str | int] = (),
    ) -> AddReport:
        """Adds many at once. The bad ones are in the report and the good ones are added; with `atomic=True` a single bad
        one raises RejectedSubscriptionsError, which lists all of them, and nothing is added. `removing`: ids that go in the same
        step, if they are there; no match sees both, or neither."""
        ids, expressions = listed("ids", ids), listed("expressions", expressions)
        if len(ids) != len(expressions):
            raise SettingError("add_many", f"{len(ids)} ids but {len(expressions)} expressions")
        good: list[str | int] = []
        sources: list[Source] = []
        rejections: list[Rejection] = []
        parsed_all = self._shapes.parse_many(expressions)
        if all_good(ids) and set(map(type, parsed_all)) <= {Expression}:
            return self._put_reported(ids, parsed_all, [], atomic, removing)  # type: ignore[arg-type]
        for position, (identity, parsed) in enumerate(zip(ids, parsed_all, strict=True)):
            try:
                check_id(identity)
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
                continue
            if isinstance(parsed, RayPubSubError):
                rejections.append(Rejection(position, identity, parsed))
            else:
                sources.append(parsed)
                good.append(identity)
        return self._put_reported(good, sources, rejections, atomic, removing)

    def add_table(self, table: Any, *, atomic: bool = False) -> AddReport:
        """`add_many` from a pyarrow Table, RecordBatch or pandas DataFrame with the columns id and expression."""
        columns = _columns(table)
        for name in ("id", "expression"):
            if name not in columns:
                raise TableError(name, "missing; subscriptions have the columns id and expression")
        return self.add_many(columns["id"], columns["expression"], atomic=atomic)

    def add_predicates(self, table: Any, *, atomic: bool = False, removing: Iterable[str | int] = ()) -> AddReport:
        """Adds subscriptions given as intervals: a row each, with the columns id, attribute, low, high and optionally
        low_closed, high_closed (closed unless said otherwise; a null bound is none). Rows of one id and attribute are
        alternatives; different attributes must all hold. `removing` as for `add_many`."""
        predicates = PredicateTable(table)
        if atomic and predicates.rejections:
            raise RejectedSubscriptionsError(predicates.rejections)
        with self._writing:
            catalogue, engine = self._books
            gone = _taken_out(catalogue, removing)
            predicates.first_slot = catalogue.next_slot
            removed, added = catalogue.add_many(predicates.ids, [predicates] * len(predicates.ids))
            removed = np.concatenate([gone, removed]) if len(gone) else removed
            engine.change(removed, added, predicates)
            catalogue.set_source(added, engine.released(predicates))
            self._compact()
        return AddReport(len(predicates.ids), predicates.rejections)

    def remove(self, id: str | int) -> bool:
        """Removes a subscription; False if there was none."""
        check_id(id)
        with self._writing:
            catalogue, engine = self._books
            slot = catalogue.remove(id)
            if slot < 0:
                return False
            engine.remove(slot)
            self._compact()
        return True

    def remove_many(self, ids: Iterable[str | int]) -> int:
        """Removes subscriptions at once; the number that were there."""
        ids = listed("ids", ids)
        check_ids(ids)
        with self._writing:
            catalogue, engine = self._books
            slots = catalogue.remove_many(ids)
            if len(slots):
                engine.change(slots, np.empty(0, dtype=np.int64), [])
                self._compact()
        return len(slots)

    def wait_for_merges(self) -> None:
        """Returns when the background has built and merged all there is to merge now; at once if merges are inline."""
        engine = self._books.engine
        if isinstance(engine, LiveIndex):
            engine.upkeep.wait()

    def expression(self, id: str | int) -> str:
        """The text of a subscription, as it was given; for one from `add_predicates`, as it would be written."""
        slot, source = self._find(id)
        return source.text_at(slot)

    def match(self, event: Mapping[str, Any]) -> list[str | int]:
        """The ids of the subscriptions that match one event, in the order they were added. Raises EventError."""
        catalogue, engine = self._books
        hits = engine.match(_read_one(event))
        found: list[str | int] = catalogue.ids(np.sort(hits.slots)).tolist()
        return found

    def match_many(self, events: Any, *, event_id: str | None = None) -> MatchBatch:
        """The matches of a batch: a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame.

        A bad event has no matches and is reported in `.errors`, with its position; the others are matched. `event_id` names
        the attribute that holds the events' ids; without it, they are numbered.
        """
        batch = read_events(events, event_id)
        catalogue, engine = self._books
        hits = engine.match(batch)
        return MatchBatch(_for_input(hits, batch), catalogue.ids(hits.slots), batch.input_ids, None, batch.errors)

    def match_distinct(self, events: Any) -> DistinctMatches:
        """The same matches, with the ids of those that occur apart, each once if matches are many: for those who pass them on, or look
        something up for each."""
        batch = read_events(events)
        catalogue, engine = self._books
        hits = engine.match(batch)
        places, slots, times = distinct_slots(hits.slots, catalogue.next_slot)
        return DistinctMatches(_for_input(hits, batch), places, catalogue.ids(slots), times)

    @overload
    def explain(self, event: Mapping[str, Any]) -> IndexPlan: ...

    @overload
    def explain(self, event: Mapping[str, Any], id: str | int) -> Explanation: ...

    def explain(self, event: Mapping[str, Any], id: Any = NO_ID) -> IndexPlan | Explanation:
        """With an id: why this subscription did or did not match the event, predicate by predicate. Without: how the event is
        matched, the parts of the index visited and skipped, every step's method, what it was expected to leave and what it
        left. Print it to read it. Raises EventError."""
        if id is NO_ID:
            return self._books.engine.explain(_read_one(event))
        slot, source = self._find(id)
        return explain_tree(source.tree_at(slot), flatten(event))

    def stats(self) -> IndexStats:
        """What the index holds, in which blocks, and how often its caches were of use. Print it to read it."""
        catalogue, engine = self._books
        return index_stats(self.engine, len(catalogue), engine, catalogue.nbytes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a file, all or nothing: a crash leaves the old file or the new one."""
        from ray_pubsub.index.storage import save

        save(path, self._content())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, engine: str | None = None, merges: str = "inline") -> MatchIndex:
        """The index of a file that `save` wrote; `engine` overrides the one it was saved with: then it is built anew. Raises
        IndexFileError."""
        from ray_pubsub.index.storage import load

        return cls._of(load(path, engine), engine, merges)

    @classmethod
    def _of(cls, saved: SavedIndex, engine: str | None = None, merges: str = "inline") -> MatchIndex:
        options = saved.options if engine in (None, saved.engine) else {}
        index = cls(engine or saved.engine, limits=saved.limits, merges=merges, **options)
        catalogue = saved.restored(index._books.engine, index._shapes.parse)
        if catalogue is not None:
            index._books = Books(catalogue, index._books.engine)
            return index
        for ids, content in saved.in_order():
            if ids is not None:
                index.add_many(ids, content, atomic=True)
            else:
                index.add_predicates(content, atomic=True)
        return index

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles as the bytes of its file, so that an index can be sent to another process; from protocol 5 on beside the stream, if
        there is a place for that."""
        from ray_pubsub.index.storage import dump

        content = dump(self._content())
        return _unpickled, (pickle.PickleBuffer(content) if protocol >= 5 else content,)

    def _content(self) -> Content:
        from ray_pubsub.index.saved_subscriptions import Listed
        from ray_pubsub.index.storage import Content

        with self._writing:
            catalogue, engine = self._books
            snapshot = engine.snapshot if isinstance(engine, LiveIndex) else None
            listed = Listed(*catalogue.listed())
        return Content(self.engine, self.options, self.limits, listed, engine, snapshot)

    def _find(self, id: str | int) -> tuple[int, Source]:
        with self._writing:
            catalogue = self._books.catalogue
            slot = catalogue.slot(id) if id in catalogue else None
            if slot is None:
                raise UnknownSubscriptionError(id)
            return slot, catalogue.source(slot)

    def _put_reported(
        self,
        ids: list[str | int],
        sources: list[Source],
        rejections: list[Rejection],
        atomic: bool,
        removing: Iterable[str | int],
    ) -> AddReport:
        if atomic and rejections:
            raise RejectedSubscriptionsError(rejections)
        self._put(ids, sources, removing)
        return AddReport(len(set(ids)), rejections)

    def _put(self, ids: Sequence[str | int], sources: Sequence[Source], removing: Iterable[str | int]) -> None:
        with self._writing:
            catalogue, engine = self._books
            gone = _taken_out(catalogue, removing)
            removed, added = catalogue.add_many(ids, sources)
            removed = np.concatenate([gone, removed]) if len(gone) else removed
            if len(added) < len(ids):  # some ids came twice: the last one counts
                sources = [catalogue.source(slot) for slot in added.tolist()]
            engine.change(removed, added, sources)
            self._compact()

    def _compact(self) -> None:
        """When most slots ever given are free again, the rest get new ones, and all memory that the others held is given back. Readers
        go on with the books they opened."""
        catalogue, engine = self._books
        enough = SLOTS_UNTIL_COMPACTION + 4 * len(catalogue) if len(catalogue) else SLOTS_WHEN_EMPTY
        if catalogue.next_slot < enough:
            return
        stores: dict[int, Source] = {}
        fresh, slots = catalogue.compacted(lambda source, slot: _moved(source, slot, stores))
        compact = engine.compacted(slots, fresh.source)
        for source in stores.values():
            if isinstance(source, IndexedTable):
                source.store = compact
        self._books = Books(fresh, compact)


def _taken_out(catalogue: Catalogue, ids: Iterable[str | int]) -> NDArray[np.int64]:
    """The slots of those of these ids that were there."""
    ids = listed("removing", ids)
    check_ids(ids)
    return catalogue.remove_many(ids)


def _moved(source: Source, slot: int, known: dict[int, Source]) -> Source:
    """A source that answers for a new slot what `source` answers for `slot`."""
    if isinstance(source, IndexedTable):
        return known.setdefault(id(source), IndexedTable(source.store))
    if isinstance(source, SavedTexts):
        return source.alone(slot)
    return Moved(source, slot) if isinstance(source, PredicateTable) else source


@dataclass(frozen=True, slots=True)
class Moved:
    """A subscription of a table that knew it by another slot."""

    source: Source
    slot: int

    def tree_at(self, slot: int) -> Tree:
        return self.source.tree_at(self.slot)

    def text_at(self, slot: int) -> str:
        return self.source.text_at(self.slot)


def _for_input(hits: Hits, batch: EventBatch) -> NDArray[np.int64]:
    """Offsets by the events as they were given: bad ones have no matches."""
    if batch.positions is None:
        return hits.offsets
    counts = np.zeros(batch.input_size, dtype=np.int64)
    counts[batch.positions] = np.diff(hits.offsets)
    return np.concatenate([[0], np.cumsum(counts)])


def _read_one(event: Mapping[str, Any]) -> EventBatch:
    batch = read_events([event])
    if batch.errors:
        error = batch.errors[0]
        raise type(error)(error.attribute, error.reason)
    return batch


def _unpickled(content: Any) -> MatchIndex:
    from ray_pubsub.index.storage import read

    return MatchIndex._of(read("pickle", content))


def _columns(table: Any) -> dict[str, list[Any]]:
    """The columns as lists; pandas' own objects stay what they are, so that ids of str and int may stand in one column."""
    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        repeated = table.columns[table.columns.duplicated()]
        if len(repeated):
            raise TableError(str(repeated[0]), "there are two columns of this name")
        return {name: table[name].tolist() for name in ("id", "expression") if name in table.columns}
    from ray_pubsub.index.arrow_table import as_arrow_table

    arrow = as_arrow_table(table, "subscriptions")
    return {name: arrow.column(name).to_pylist() for name in ("id", "expression") if name in arrow.column_names}
