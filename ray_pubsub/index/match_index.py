"""MatchIndex: subscriptions by id, and the events that match them, for a single process."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.integer_cutter import IntegerCutter
from ray_pubsub.engines.contract import Engine, Source
from ray_pubsub.engines.explain.plan import IndexPlan
from ray_pubsub.errors import (
    RejectedSubscriptionsError,
    SettingError,
    TableError,
    UnknownSubscriptionError,
    counted,
)
from ray_pubsub.index.bulk.given_texts import read_texts
from ray_pubsub.index.bulk.predicate_table import PredicateTable
from ray_pubsub.index.bulk.text_batch import TextBatch, is_long
from ray_pubsub.index.catalogue import Catalogue
from ray_pubsub.index.compaction import compacted
from ray_pubsub.index.explanation import Explanation, explain_event
from ray_pubsub.index.index_stats import IndexStats, index_stats
from ray_pubsub.index.make_engine import make_engine
from ray_pubsub.index.match_results import DistinctMatches, distinct_matches, matched, read_for
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.arguments import check_flag, check_id, check_ids
from ray_pubsub.model.as_list import as_list, is_table
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.model.metadata import (
    Metadata,
    check_tag,
    data_of,
    described,
    metadata_of,
    tags_of,
)
from ray_pubsub.settings import Limits

if TYPE_CHECKING:
    from ray_pubsub.index.storage.index_file import Content, SavedIndex

__all__ = ["MatchIndex"]

Merges = Literal["inline", "background"]
SLOTS_UNTIL_COMPACTION, SLOTS_WHEN_EMPTY = 16_384, 1024


class Books(NamedTuple):
    """The catalogue and the engine, which agree on slots. They are replaced together when slots are renumbered."""

    catalogue: Catalogue
    engine: Engine


class MatchIndex:
    """Standing queries, and the answer to "which of them does this event match?".

    >>> index = MatchIndex()
    >>> index.add("s1", "model = 'iphone5s' and price <= 580")
    >>> index.match({"model": "iphone5s", "price": 550})
    ['s1']

    Safe to use from several threads. Every change is atomic: a match sees all of it or nothing.
    """

    def __init__(
        self,
        engine: str = "auto",
        *,
        limits: Limits | None = None,
        merges: Merges = "inline",
        ignore_case: bool = False,
        cache: int | None = None,
        tau: int | None = None,
        exclusive_only: bool | None = None,
        inclusive_only: bool | None = None,
        paper_costs: bool | None = None,
        uniform_rates: bool | None = None,
        segments: int | None = None,
        bits: int | None = None,
        buckets: int | None = None,
        options: Mapping[str, int | bool] | None = None,
        frequencies: Mapping[str, float] | None = None,
    ) -> None:
        """`engine` is "auto", which chooses by a cost model, "dexin", "gem", "rein", "opindex" or "scan". `limits` bounds the size of
        one subscription. With `merges="background"` blocks are built in a thread, so that no change waits for it. With `ignore_case`
        texts are compared in lower case, on both sides, as `ilike` does (see docs/language.md); it is saved with the index.
        `frequencies` has the share of events that will carry each attribute, if that is known; pivots are chosen by it until events
        say more. The others are options of engines: `cache` (ω, cached bit sets per attribute) and `paper_costs` (plan by the papers'
        own costs, to compare figures; slower) of dexin and gem, `tau` and `uniform_rates` (a closed form in place of counters) of
        gem, `exclusive_only` and `inclusive_only` of dexin, `segments` and `bits` of opindex, `buckets` of rein. `options` has the
        same options by name."""
        named = {
            "cache": cache, "tau": tau, "exclusive_only": exclusive_only, "inclusive_only": inclusive_only,
            "paper_costs": paper_costs, "uniform_rates": uniform_rates, "segments": segments, "bits": bits, "buckets": buckets,
        }  # fmt: skip
        self.limits = Limits() if limits is None else limits
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(limits).__name__}")
        self.engine, self.merges = engine, merges
        self.options = {**(options or {}), **{name: value for name, value in named.items() if value is not None}}
        self.ignore_case = check_flag("ignore_case", ignore_case)
        self._shapes = ShapeCache(self.limits, cutter=IntegerCutter(), ignore_case=ignore_case)
        self._by_kernels = engine != "scan"
        self._books = Books(Catalogue(), make_engine(engine, self.limits, merges, self.options, frequencies))
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return len(self._books.catalogue)

    def __contains__(self, id: object) -> bool:
        return id in self._books.catalogue

    def __iter__(self) -> Iterator[str | int]:
        """Iterates over the ids, in the order in which they were added."""
        with self._writing:
            return iter(self._books.catalogue)

    def __repr__(self) -> str:
        return f"MatchIndex({counted(len(self), 'subscription')}, engine={self.engine!r})"

    @property
    def nbytes(self) -> int:
        """The bytes that the index holds, including ids; approximate, because Python's own objects are estimated."""
        return self._books.catalogue.nbytes + self._books.engine.nbytes

    def add(self, id: str | int, expression: str, *, data: Any = None, tags: Iterable[str] = ()) -> None:
        """Adds a subscription, or replaces the one with the same id. Raises ExpressionError if the expression is not valid. `data` is a
        small JSON value (at most 4,096 bytes) that is returned with matches on request; `tags` are names by which subscriptions can
        be selected. Raises MetadataError if one of them is not valid."""
        check_id(id)
        metadata = metadata_of(data, tags)
        if self._by_kernels and is_long(expression):
            self._put([id], TextBatch.of_one(expression, self._shapes, self.limits), (), [metadata])
            return
        source = self._shapes.parse(expression)
        with self._writing:
            catalogue, engine = self._books
            slot, replaced = catalogue.add(id, source)
            catalogue.describe(slot, metadata)
            engine.add(slot, source, replaced)
            if replaced >= 0:
                self._clear_up()

    def add_many(
        self,
        ids: Any,
        expressions: Iterable[str] | None = None,
        *,
        data: Any = None,
        tags: Any = None,
        atomic: bool = False,
        removing: Iterable[str | int] = (),
    ) -> AddReport:
        """Adds many subscriptions at once, either `ids` with `expressions`, or a pyarrow Table, RecordBatch or pandas DataFrame in place
        of the ids, with the columns id and expression, and optionally data (JSON) and tags. Bad ones are listed in the report and
        good ones are added; with `atomic=True` a single bad one raises RejectedSubscriptionsError, which lists all of them, and
        nothing is added. `data` and `tags` are as in `add`: a dict, or a list of texts, for all of them, or a list with one for each.
        `removing` has ids that are removed in the same step; no match sees both, or neither."""
        given = read_texts(ids, expressions, data, tags, self._shapes, self.limits, compiled=self._by_kernels)
        if atomic and given.rejections:
            raise RejectedSubscriptionsError(given.rejections)
        self._put(given.ids, given.sources, removing, given.metadata)
        return AddReport(len(set(given.ids)), given.rejections)

    def add_table(self, table: Any, *, atomic: bool = False) -> AddReport:
        """Does the same as `add_many`, from a pyarrow Table, RecordBatch or pandas DataFrame with the columns id and expression."""
        if not is_table(table):
            raise TableError(
                None, f"must be a pyarrow Table, RecordBatch or pandas DataFrame, not {type(table).__name__}"
            )
        return self.add_many(table, atomic=atomic)

    def add_predicates(
        self,
        table: Any,
        *,
        data: Any = None,
        tags: Any = None,
        atomic: bool = False,
        removing: Iterable[str | int] = (),
    ) -> AddReport:
        """Adds subscriptions given as intervals: a row for each, with the columns id, attribute, low, high and optionally low_closed,
        high_closed (closed unless given; a null bound means no bound). Rows of one id and attribute are alternatives; different
        attributes must all hold. `removing`, `data` and `tags` are as in `add_many`; data and tags are given for all, or one for each
        id in the order of their first rows; if one of those is bad, nothing is added."""
        predicates = PredicateTable(table)
        carried = described(predicates.ids, None, data, tags)
        if carried and carried.rejections:
            raise RejectedSubscriptionsError(carried.rejections)
        if atomic and predicates.rejections:
            raise RejectedSubscriptionsError(predicates.rejections)
        with self._writing:
            catalogue, engine = self._books
            gone = _taken_out(catalogue, removing)
            predicates.first_slot = catalogue.next_slot
            removed, added = catalogue.add_many(predicates.ids, [predicates] * len(predicates.ids))
            removed = np.concatenate([gone, removed]) if len(gone) else removed
            catalogue.describe_run(predicates.first_slot, added, carried.metadata if carried else None)
            engine.change(removed, added, predicates)
            catalogue.set_source(added, engine.released(predicates))
            self._clear_up()
        return AddReport(len(predicates.ids), predicates.rejections)

    def remove(self, id: str | int) -> bool:
        """Removes a subscription. Returns False if it did not exist."""
        check_id(id)
        with self._writing:
            catalogue, engine = self._books
            slot = catalogue.remove(id)
            if slot < 0:
                return False
            engine.remove(slot)
            self._clear_up()
        return True

    def remove_many(self, ids: Iterable[str | int] | None = None, *, tag: str | None = None) -> int:
        """Removes subscriptions at once: those with these ids, or all that have a tag. Returns the number that existed."""
        if (ids is None) == (tag is None):
            raise SettingError("ids", "must be given, or a tag instead")
        listed = [] if ids is None else as_list("ids", ids)
        check_ids(listed)
        with self._writing:
            catalogue, engine = self._books
            slots = catalogue.remove_many(listed if tag is None else catalogue.tagged(check_tag(tag)))
            if len(slots):
                engine.change(slots, np.empty(0, dtype=np.int64), [])
                self._clear_up()
        return len(slots)

    def wait_for_merges(self) -> None:
        """Returns when the background thread has built and merged everything there is to merge now; at once if merges are inline."""
        self._books.engine.wait_for_merges()

    def expression(self, id: str | int) -> str:
        """Returns the text of a subscription as it was given; for one from `add_predicates`, as it would be written."""
        slot, source = self._find(id)
        return source.text_at(slot)

    def data(self, id: str | int) -> Any:
        """Returns the data of a subscription, a new object each time, or None if it has none. Raises UnknownSubscriptionError."""
        return data_of(self._metadata(id))

    def tags(self, id: str | int) -> tuple[str, ...]:
        """Returns the tags of a subscription, in ascending order. Raises UnknownSubscriptionError."""
        return tags_of(self._metadata(id))

    def subscriptions(self, *, tag: str) -> list[str | int]:
        """Returns the ids of the subscriptions that have a tag, in the order in which they were added; `list(index)` has all ids."""
        with self._writing:
            return self._books.catalogue.tagged(check_tag(tag))

    def match(self, event: Mapping[str, Any], *, strict: bool = False) -> list[str | int]:
        """Returns the ids of the subscriptions that match one event, in the order in which they were added. Raises EventError. An
        attribute that no subscription tests is not looked at, and one whose value cannot be used is absent; `strict=True` checks all
        attributes and raises."""
        catalogue, engine = self._books
        view = engine.view()
        slots = view.match_single(read_single(event, None if strict else view.attributes, strict=strict))
        slots.sort()
        found: list[str | int] = catalogue.ids(slots).tolist()
        return found

    def match_many(self, events: Any, *, event_id: str | None = None, strict: bool = False) -> MatchBatch:
        """Returns the matches of a batch: a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame.

        A bad event has no matches and is reported in `.errors`, with its position; the others are matched. `event_id` names the attribute
        that holds the events' ids; without it, they are numbered. An attribute that no subscription tests is not looked at. One whose value
        cannot be used (bytes, an object, an integer beyond 64 bits) is absent, with a warning in `.warnings`; `strict=True` checks all
        attributes, and makes such an event a bad one.
        """
        catalogue, engine = self._books
        since = catalogue.carried.watch()
        view = engine.view()
        return matched(catalogue, view, read_for(view, events, event_id, strict), since)

    def match_json(self, lines: Any, *, event_id: str | None = None, strict: bool = False) -> MatchBatch:
        """The matches of events given as JSON: bytes or a str with a document per line (or one document), or a list of bytes or str.

        >>> index = MatchIndex()
        >>> index.add("s1", "model.name = 'iphone5s' and price <= 580")
        >>> list(index.match_json(b'{"model": {"name": "iphone5s"}, "price": 550}\\n{"price": 1}').pairs())
        [(0, 's1')]

        The same as `match_many` of what json.loads makes of each document, in a fraction of the time: no dictionary is made, and what no
        subscription tests is skipped. JSON is read as Python reads it: the last of equal keys counts, NaN and Infinity are numbers. A
        document that is not valid UTF-8 or not a JSON object is a bad event, at its position; blank lines are passed over and not counted.
        """
        from ray_pubsub.columns.json.json_events import from_json

        catalogue, engine = self._books
        since = catalogue.carried.watch()
        view = engine.view()
        batch = from_json(lines, event_id, None if strict else view.attributes, strict=strict)
        return matched(catalogue, view, batch, since)

    def match_distinct(self, events: Any, *, strict: bool = False) -> DistinctMatches:
        """Returns the same matches, with the matched ids in a separate column, each once if matches are many: for callers that pass them
        on, or look something up for each."""
        catalogue, engine = self._books
        view = engine.view()
        return distinct_matches(catalogue, view, read_for(view, events, None, strict))

    @overload
    def explain(self, event: Mapping[str, Any]) -> IndexPlan: ...

    @overload
    def explain(self, event: Mapping[str, Any], id: str | int) -> Explanation: ...

    def explain(self, event: Mapping[str, Any], id: str | int | None = None) -> IndexPlan | Explanation:
        """With an id, explains why this subscription did or did not match the event, predicate by predicate. Without one, explains how
        the event is matched: the parts of the index visited and skipped, and for every step its method, the expected and the actual
        number of survivors. Print the result to read it. Raises EventError."""
        if id is None:
            engine = self._books.engine
            return engine.explain(read_single(event, engine.view().attributes, strict=False))
        slot, source = self._find(id)
        return explain_event(source.tree_at(slot), event)

    def stats(self) -> IndexStats:
        """Returns what the index holds, in which blocks, and how effective its caches were. Print it to read it."""
        catalogue, engine = self._books
        return index_stats(self.engine, len(catalogue), engine, catalogue.nbytes)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a file atomically: a crash leaves the old file or the new one."""
        from ray_pubsub.index.storage.index_file import save

        save(path, self._content())

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        engine: str | None = None,
        merges: Merges = "inline",
    ) -> MatchIndex:
        """Loads an index from a file that `save` wrote. `engine` overrides the engine that it was saved with; the index is then built
        again. Raises IndexFileError."""
        from ray_pubsub.index.storage.index_file import load

        return cls._of(load(path, engine), engine, merges)

    @classmethod
    def _of(cls, saved: SavedIndex, engine: str | None = None, merges: Merges = "inline") -> MatchIndex:
        options = saved.options if engine in (None, saved.engine) else {}
        engine, fold = engine or saved.engine, saved.ignore_case
        index = cls(engine, limits=saved.limits, merges=merges, ignore_case=fold, options=options)
        catalogue = saved.restored(index._books.engine, index._shapes.parse)
        if catalogue is not None:
            index._books = Books(catalogue, index._books.engine)
        else:
            for ids, content in saved.in_order():
                if ids is not None:
                    index.add_many(ids, content, atomic=True)
                else:
                    index.add_predicates(content, atomic=True)
        index._books.catalogue.describe_by_id(saved.metadata())
        return index

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles the index as the bytes of its file, so that it can be sent to another process; from protocol 5 on out of band, if the
        pickler supports it."""
        from ray_pubsub.index.storage.index_file import dump

        content = dump(self._content())
        return _unpickled, (pickle.PickleBuffer(content) if protocol >= 5 else content,)

    def _content(self) -> Content:
        from ray_pubsub.index.storage.index_file import Content
        from ray_pubsub.index.storage.saved_subscriptions import Listed

        with self._writing:
            catalogue, engine = self._books
            listed = Listed(*catalogue.listed())
            carried = catalogue.described(listed.slots)
            return Content(self.engine, self.options, self.limits, self.ignore_case, listed, engine.built(), carried)

    def _metadata(self, id: str | int) -> Metadata | None:
        with self._writing:
            self._find(id)
            return self._books.catalogue.metadata(id)

    def _find(self, id: str | int) -> tuple[int, Source]:
        with self._writing:
            catalogue = self._books.catalogue
            slot = catalogue.slot(id) if id in catalogue else None
            if slot is None:
                raise UnknownSubscriptionError(id)
            return slot, catalogue.source(slot)

    def _put(
        self,
        ids: Sequence[str | int],
        sources: Sequence[Source],
        removing: Iterable[str | int],
        metadata: Sequence[Metadata | None] | None = None,
    ) -> None:
        with self._writing:
            catalogue, engine = self._books
            gone = _taken_out(catalogue, removing)
            first_slot = catalogue.next_slot
            removed, added = catalogue.add_many(ids, sources)
            removed = np.concatenate([gone, removed]) if len(gone) else removed
            if isinstance(sources, TextBatch):
                sources.number(first_slot, added)
            elif len(added) < len(ids):  # some ids occur twice: the last one counts
                sources = [catalogue.source(slot) for slot in added.tolist()]
            catalogue.describe_run(first_slot, added, metadata)
            engine.change(removed, added, sources)
            self._clear_up()

    def _clear_up(self) -> None:
        """Renumbers the slots when most of those ever given are free again, which frees the memory that the others held. Readers go on
        with the books they opened."""
        catalogue, engine = self._books
        catalogue.carried.settle()
        enough = SLOTS_UNTIL_COMPACTION + 4 * len(catalogue) if len(catalogue) else SLOTS_WHEN_EMPTY
        if catalogue.next_slot < enough:
            return
        self._books = Books(*compacted(catalogue, engine))


def _taken_out(catalogue: Catalogue, ids: Iterable[str | int]) -> NDArray[np.int64]:
    """Removes these ids. Returns the slots of those that existed."""
    ids = as_list("removing", ids)
    check_ids(ids)
    return catalogue.remove_many(ids)


def _unpickled(content: Any) -> MatchIndex:
    from ray_pubsub.index.storage.index_file import read

    return MatchIndex._of(read("pickle", content))
