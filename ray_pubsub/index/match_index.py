"""MatchIndex: subscriptions by id, and the events that match them. What a single process needs."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ray_pubsub.engines.contract import Engine, Source
from ray_pubsub.engines.dexin import DexinSegment
from ray_pubsub.engines.gem import GemSegment
from ray_pubsub.engines.opindex import OpIndexSegment
from ray_pubsub.engines.rein import ReinSegment
from ray_pubsub.engines.scan import ScanEngine
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    TableError,
    UnknownSubscriptionError,
)
from ray_pubsub.index.catalogue import Catalogue, check_id
from ray_pubsub.index.explanation import Explanation, explain_tree
from ray_pubsub.index.live import LiveIndex
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.dict_events import flatten
from ray_pubsub.model.events import read_events
from ray_pubsub.model.match_batch import MatchBatch
from ray_pubsub.settings import Limits

if TYPE_CHECKING:
    from ray_pubsub.index.storage import SavedIndex

__all__ = ["AddReport", "MatchIndex"]

ENGINES: dict[str, Callable[[Limits], Engine]] = {
    "auto": LiveIndex,
    "dexin": lambda limits: LiveIndex(limits, build=DexinSegment),
    "gem": lambda limits: LiveIndex(limits, build=GemSegment),
    "opindex": lambda limits: LiveIndex(limits, build=OpIndexSegment),
    "rein": lambda limits: LiveIndex(limits, build=ReinSegment),
    "scan": lambda limits: ScanEngine(),
}
"""Name → what makes the engine. All but `scan` are the live index; they differ in the segments it builds."""


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

    def __init__(self, engine: str = "auto", *, limits: Limits | None = None) -> None:
        if engine not in ENGINES:
            raise SettingError(
                "engine", f"there is no engine {engine!r}; choose one of {', '.join(map(repr, ENGINES))}"
            )
        self.engine = engine
        self.limits = limits or Limits()
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(limits).__name__}")
        self._shapes = ShapeCache(self.limits)
        self._catalogue = Catalogue()
        self._matcher = ENGINES[engine](self.limits)
        self._writing = threading.RLock()

    def __len__(self) -> int:
        return len(self._catalogue)

    def __contains__(self, id: object) -> bool:
        return id in self._catalogue

    def __iter__(self) -> Iterator[str | int]:
        """The ids, in the order they were added."""
        return iter(self._catalogue)

    def __repr__(self) -> str:
        return f"MatchIndex({len(self):,} subscriptions, engine={self.engine!r})"

    @property
    def nbytes(self) -> int:
        """Bytes the index holds, ids and all; roughly, as Python's own objects are estimated."""
        return self._catalogue.nbytes + self._matcher.nbytes

    def add(self, id: str | int, expression: str) -> None:
        """Adds a subscription; one with the same id is replaced. Raises an ExpressionError that says what is wrong."""
        check_id(id)
        self._put([id], [self._shapes.parse(expression)])

    def add_many(self, ids: Iterable[str | int], expressions: Iterable[str], *, atomic: bool = False) -> AddReport:
        """Adds many at once. The bad ones are in the report and the good ones are added; with `atomic=True` a single bad
        one raises RejectedSubscriptionsError, which lists all of them, and nothing is added."""
        ids, expressions = _listed("ids", ids), _listed("expressions", expressions)
        if len(ids) != len(expressions):
            raise SettingError("add_many", f"{len(ids)} ids but {len(expressions)} expressions")
        good: list[str | int] = []
        sources: list[Source] = []
        rejections: list[Rejection] = []
        for position, (identity, text) in enumerate(zip(ids, expressions, strict=True)):
            try:
                check_id(identity)
                sources.append(self._shapes.parse(text))
                good.append(identity)
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
        return self._put_reported(good, sources, rejections, atomic)

    def add_table(self, table: Any, *, atomic: bool = False) -> AddReport:
        """`add_many` from a pyarrow Table, RecordBatch or pandas DataFrame with the columns id and expression."""
        columns = _columns(table)
        for name in ("id", "expression"):
            if name not in columns:
                raise TableError(name, "missing; subscriptions have the columns id and expression")
        return self.add_many(columns["id"], columns["expression"], atomic=atomic)

    def add_predicates(self, table: Any, *, atomic: bool = False) -> AddReport:
        """Adds subscriptions given as intervals: a row each, with the columns id, attribute, low, high and optionally
        low_closed, high_closed (closed unless said otherwise; a null bound is none). Rows of one id and attribute are
        alternatives; different attributes must all hold."""
        from ray_pubsub.index.predicate_table import PredicateTable

        predicates = PredicateTable(table)
        if atomic and predicates.rejections:
            raise RejectedSubscriptionsError(predicates.rejections)
        with self._writing:
            predicates.first_slot = self._catalogue.next_slot
            self._put(predicates.ids, [predicates] * len(predicates.ids))
        return AddReport(len(predicates.ids), predicates.rejections)

    def remove(self, id: str | int) -> bool:
        """Removes a subscription; False if there was none."""
        return self.remove_many([id]) == 1

    def remove_many(self, ids: Iterable[str | int]) -> int:
        """Removes subscriptions at once; the number that were there."""
        ids = list(ids)
        for identity in ids:
            check_id(identity)
        with self._writing:
            slots = [slot for slot in map(self._catalogue.remove, ids) if slot is not None]
            if slots:
                self._matcher.change(slots, [], [])
        return len(slots)

    def expression(self, id: str | int) -> str:
        """The text of a subscription, as it was given; for one from `add_predicates`, as it would be written."""
        slot, source = self._find(id)
        return source.text_at(slot)

    def match(self, event: Mapping[str, Any]) -> list[str | int]:
        """The ids of the subscriptions that match one event, in the order they were added. Raises EventError."""
        batch = read_events([event])
        if batch.errors:
            error = batch.errors[0]
            raise type(error)(error.attribute, error.reason)
        hits = self._matcher.match(batch)
        found: list[str | int] = self._catalogue.ids(np.sort(hits.slots)).tolist()
        return found

    def match_many(self, events: Any, *, event_id: str | None = None) -> MatchBatch:
        """The matches of a batch: a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame.

        A bad event has no matches and is reported in `.errors`, with its position; the others are matched. `event_id` names
        the attribute that holds the events' ids; without it, they are numbered.
        """
        batch = read_events(events, event_id)
        hits = self._matcher.match(batch)
        offsets = hits.offsets
        if batch.positions is not None:
            counts = np.zeros(batch.input_size, dtype=np.int64)
            counts[batch.positions] = np.diff(offsets)
            offsets = np.concatenate([[0], np.cumsum(counts)])
        return MatchBatch(offsets, self._catalogue.ids(hits.slots), batch.input_ids, None, batch.errors)

    def explain(self, event: Mapping[str, Any], id: str | int) -> Explanation:
        """Why this subscription did or did not match the event, predicate by predicate; print it to read it."""
        slot, source = self._find(id)
        return explain_tree(source.tree_at(slot), flatten(event))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the index to a file, all or nothing: a crash leaves the old file or the new one."""
        from ray_pubsub.index.storage import save

        save(path, self.engine, self.limits, self._items())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, engine: str | None = None) -> MatchIndex:
        """The index of a file that `save` wrote; `engine` overrides the one it was saved with. Raises IndexFileError."""
        from ray_pubsub.index.storage import load

        return cls._of(load(path), engine)

    @classmethod
    def _of(cls, saved: SavedIndex, engine: str | None = None) -> MatchIndex:
        from ray_pubsub.index.storage import ids_and_texts

        index = cls(engine or saved.engine, limits=saved.limits)
        for section in saved.sections:
            if "text" in section.column_names:
                index.add_many(*ids_and_texts(section), atomic=True)
            else:
                index.add_predicates(section, atomic=True)
        return index

    def __reduce__(self) -> Any:
        """Pickles as the bytes of its file, so that an index can be sent to another process."""
        from ray_pubsub.index.storage import dump

        return _unpickled, (dump(self.engine, self.limits, self._items()),)

    def _items(self) -> list[tuple[str | int, int, Source]]:
        with self._writing:
            return [(identity, slot, self._catalogue.source(slot)) for identity, slot in self._catalogue.items()]

    def _find(self, id: str | int) -> tuple[int, Source]:
        with self._writing:
            slot = self._catalogue.slot(id) if id in self._catalogue else None
            if slot is None:
                raise UnknownSubscriptionError(id)
            return slot, self._catalogue.source(slot)

    def _put_reported(
        self, ids: list[str | int], sources: list[Source], rejections: list[Rejection], atomic: bool
    ) -> AddReport:
        if atomic and rejections:
            raise RejectedSubscriptionsError(rejections)
        self._put(ids, sources)
        return AddReport(len(set(ids)), rejections)

    def _put(self, ids: Sequence[str | int], sources: Sequence[Source]) -> None:
        with self._writing:
            self._matcher.change(*self._catalogue.add(ids, sources))


def _unpickled(content: bytes) -> MatchIndex:
    from ray_pubsub.index.storage import read

    return MatchIndex._of(read("pickle", content))


def _listed(name: str, values: Any) -> list[Any]:
    if isinstance(values, str | bytes | Mapping):
        raise SettingError(name, f"must be a list or a column, not one {type(values).__name__}")
    return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


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
