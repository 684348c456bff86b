"""PriorityRules: rules by id and level, and the highest level whose rules match an event (papers/priority: "summary instance")."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.texts.text_compiler import compile_texts
from ray_pubsub.errors import (
    RayPubSubError,
    RejectedSubscriptionsError,
    Rejection,
    SettingError,
    UnknownRuleError,
    counted,
)
from ray_pubsub.index.bulk.text_batch import are_worth_compiling, is_long
from ray_pubsub.index.storage.saved_texts import SavedText
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.add_report import AddReport
from ray_pubsub.model.arguments import check_flag, check_id, check_whole
from ray_pubsub.model.as_list import as_list, as_lists
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.select_events import select_events
from ray_pubsub.priority.cache import NO_LINES, SignatureCache
from ray_pubsub.priority.confirmation import RuleIndexes, Snapshot, Source, matched
from ray_pubsub.priority.discretizer import Discretizer, checked_discretizers
from ray_pubsub.priority.levels import Levels
from ray_pubsub.priority.reading import Reader, batch_reader, event_reader
from ray_pubsub.priority.report import Measurement, PriorityBatch, PriorityExplanation
from ray_pubsub.priority.rule_book import RuleBook
from ray_pubsub.priority.rule_maintenance import RuleKeeper
from ray_pubsub.priority.statistics import PriorityStats, statistics_of
from ray_pubsub.settings import Limits

__all__ = ["PriorityRules"]

MOST_SIGNATURES = 1 << 24
VECTORS, MOST_VECTORS = 64, 4096
"""Sets of attributes with filters, unless another number is given, and at most. It is time and not memory that bounds them (1,024 sets take
0.3 MB, and 0.6 MB with confirmation): 1,024 rules over as many sets, events with 8 of 40 attributes, took 5 microseconds an event with 64
vectors, 9 with 256 and 31 with 1,024; with confirmation 8, 12 and 42. Events with all 40 took 19, 23 and 19, confirmed 21, 29 and 60.
Measured once, on a busy machine: the order says more than the digits."""
READS_BEFORE_WAITING = 8
"""A reader whose snapshot was replaced meanwhile tries again; after this many attempts it takes the writers' lock for one read."""


class PriorityRules:
    """Rules with levels, and the answer to "what is this event's priority?".

    >>> rules = PriorityRules(levels=["low", "normal", "high", "critical"])
    >>> rules.add("r1", "critical", "temperature > 60 and site in ('A', 'B')")
    >>> rules.priority({"temperature": 75, "site": "A"})
    'critical'
    >>> rules.priority({"temperature": 20, "site": "A"})
    'low'

    An event is put into bins and looked up in one Bloom filter per level, which costs the same for a hundred rules as for a million. The
    filters never miss a rule. With `confirm=True` a match index confirms what they say, so the answer is exact; with `confirm=False` an
    event may get a level too high, at the rate `false_positive_rate` for the filters plus the false positives that the bins cause (see
    `measure`).

    Safe to use from several threads. Every change is atomic: an event gets the level from before the change or from after it.
    """

    def __init__(
        self,
        levels: Sequence[str],
        *,
        confirm: bool = True,
        false_positive_rate: float = 0.01,
        signatures: int = 1 << 22,
        vectors: int = VECTORS,
        discretizers: Mapping[str, Discretizer] | None = None,
        cache: int = 1 << 16,
        limits: Limits | None = None,
    ) -> None:
        """`levels`: lowest first; an event that no rule matches has the first. `false_positive_rate`: of all filters together, for an
        event that matches no rule. `signatures`: the largest number for the rules of one set of attributes; more signatures give finer
        bins and larger filters. `vectors`: how many different sets of attributes have filters. The rules of all other sets are in an
        index. An event is looked up in every vector, so with hundreds of sets the index is mostly faster; `stats().exact_rules` is the
        number of rules in it. `discretizers`: maps attributes to how their values are put into bins, where the rules' operands should not
        decide. `cache`: how many signatures' answers are cached."""
        self._levels = Levels(levels)
        self.confirm = check_flag("confirm", confirm)
        self.false_positive_rate = _checked_rate(false_positive_rate)
        self.signatures = check_whole("signatures", signatures, 1 << 12, MOST_SIGNATURES)
        self.vectors = check_whole("vectors", vectors, 0, MOST_VECTORS)
        self.discretizers = checked_discretizers(discretizers)
        self.limits = Limits() if limits is None else limits
        if not isinstance(self.limits, Limits):
            raise SettingError("limits", f"must be a ray_pubsub.Limits, not {type(limits).__name__}")
        self.cache_entries = check_whole("cache", cache, 0, MOST_SIGNATURES)
        self._cache = SignatureCache(self.cache_entries)
        self._shapes = ShapeCache(self.limits)
        self._writing = threading.RLock()
        self._counting = threading.Lock()
        self._sure = self._asked = self._refuted = self._events = 0
        self._keeper = RuleKeeper(
            self.limits,
            len(self._levels),
            confirm=self.confirm,
            discretizers=self.discretizers,
            signatures=self.signatures,
            vectors=self.vectors,
            rate=self.false_positive_rate,
        )

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels' names, lowest first."""
        return self._levels.names

    @property
    def version(self) -> int:
        """Increases with every change of the rules."""
        return self._keeper.snapshot.version

    @property
    def _book(self) -> RuleBook:
        return self._keeper.book

    def __len__(self) -> int:
        return len(self._keeper.book.number_of)  # asked for each batch

    def __contains__(self, id: object) -> bool:
        return type(id) in (str, int) and id in self._book.number_of

    def __iter__(self) -> Iterator[str | int]:
        """The rules' ids, in the order they were added."""
        return iter(list(self._book.number_of))

    def __repr__(self) -> str:
        return f"PriorityRules({counted(len(self), 'rule')}, levels={list(self.levels)!r}, confirm={self.confirm})"

    # ------------------------------------------------------------------------------------------------------------ changes

    def add(self, id: str | int, level: str, expression: str) -> None:
        """Adds a rule; one with the same id is replaced. Raises UnknownLevelError or an ExpressionError."""
        check_id(id)
        number = self._levels.number(level)
        if is_long(expression):
            error = self._errors_of([expression]).get(0)
            if error is not None:
                raise error
            self._put([id], [number], [SavedText(expression, self._shapes.parse)])
            return
        self._put([id], [number], [self._shapes.parse(expression)])

    def add_many(
        self,
        ids: Any,
        levels: Iterable[str] | None = None,
        expressions: Iterable[str] | None = None,
        *,
        atomic: bool = False,
    ) -> AddReport:
        """Adds many at once: `ids` with `levels` and `expressions`; or instead of the ids a pyarrow Table, RecordBatch or pandas DataFrame
        with the columns id, level and expression. The bad ones are in the report and the good ones are added; with `atomic=True` a single
        bad one raises RejectedSubscriptionsError, which lists all of them, and nothing is added."""
        columns = as_lists(ids=ids, levels=levels, expressions=expressions)
        good: list[str | int] = []
        numbers: list[int] = []
        sources: list[Source] = []
        rejections: list[Rejection] = []
        together = are_worth_compiling(columns[2])
        errors = self._errors_of(columns[2]) if together else {}
        for position, (identity, level, text) in enumerate(zip(*columns, strict=True)):
            try:
                check_id(identity)
                number = self._levels.number(level)
                if position in errors:
                    raise errors[position]
                source: Source = SavedText(text, self._shapes.parse) if together else self._shapes.parse(text)
            except RayPubSubError as error:
                rejections.append(Rejection(position, identity, error))
                continue
            good.append(identity)
            numbers.append(number)
            sources.append(source)
        if atomic and rejections:
            raise RejectedSubscriptionsError(rejections)
        self._put(good, numbers, sources)
        return AddReport(len(set(good)), rejections)

    def _errors_of(self, texts: Sequence[str]) -> dict[int, RayPubSubError]:
        """Returns what is wrong with texts, by position. Texts that kernels read are valid, and are not parsed here."""
        errors: dict[int, RayPubSubError] = {}
        for place in compile_texts(texts, self.limits).left.tolist():
            try:
                self._shapes.parse(texts[place])
            except RayPubSubError as error:
                errors[place] = error
        return errors

    def add_predicates(self, table: Any, *, atomic: bool = False) -> AddReport:
        """Adds rules given as intervals: a row each, with the columns id, level, attribute, low, high and optionally low_closed,
        high_closed (closed unless said otherwise; a null bound is none). Rows of one id and attribute are alternatives; different
        attributes must all hold. A million rules take seconds."""
        from ray_pubsub.priority.rule_table import read_rules

        read = read_rules(table, self._levels)
        if atomic and read.rejections:
            raise RejectedSubscriptionsError(read.rejections)
        written = [self._shapes.parse(text) for _, _, text in read.written]
        with self._writing:
            read.table.first_slot = self._book.count
            ids = [*read.ids, *[identity for identity, _, _ in read.written]]
            levels = np.concatenate([read.levels, np.array([level for _, level, _ in read.written], dtype=np.uint8)])
            sources: list[Source] = [read.table] * len(read.ids)
            self._put(ids, levels, [*sources, *written])
        return AddReport(len(ids), read.rejections)

    def remove(self, id: str | int) -> bool:
        """Removes a rule. Returns False if there was none."""
        return self.remove_many([id]) == 1

    def remove_many(self, ids: Iterable[str | int]) -> int:
        """Removes many rules in one change; returns how many there were."""
        ids = as_list("ids", ids)
        for identity in ids:
            check_id(identity)
        with self._writing:
            removed = self._book.remove(ids)
            if removed:
                self._keeper.change([], removed)
        return len(removed)

    def rebuild(self) -> None:
        """Chooses new bins for the current rules. This also happens automatically as rules are added; until then, rules added one by one
        use the existing bins, which may cause false positives."""
        with self._writing:
            self._keeper.rebuild()

    def _put(self, ids: Sequence[str | int], levels: Any, sources: Sequence[Source]) -> None:
        with self._writing:
            if ids:
                self._keeper.change(*self._book.add(ids, levels, sources))

    # ------------------------------------------------------------------------------------------------------------ answers

    def priority(self, event: Mapping[str, Any], *, strict: bool = False) -> str:
        """Returns the level of one event. Raises EventError. An attribute that no rule tests is not looked at, and one whose value cannot
        be used is absent; `strict=True` checks all attributes and raises."""
        return self.levels[int(self._determined(event_reader(event, self._keeper.attributes, strict=strict))[1][0])]

    def priorities(self, events: Any, *, strict: bool = False) -> list[str]:
        """Returns the level of each event: a list of dicts, a pyarrow Table or RecordBatch, or a pandas DataFrame. A bad event has the
        default level; `levels_of` says which were bad, and why. `strict` as there."""
        return self.levels_of(events, strict=strict).to_list()

    def levels_of(self, events: Any, *, event_id: str | None = None, strict: bool = False) -> PriorityBatch:
        """Returns the levels of a batch as numbers in a column, 0 for the default. `event_id` names the attribute that holds the events'
        ids. An attribute that no rule tests is not looked at. One whose value cannot be used (bytes, an object, an integer beyond 64
        bits) is absent, with a warning in `.warnings`; `strict=True` checks all attributes, and makes such an event a bad one."""
        batch, found, snapshot = self._determined(
            batch_reader(events, event_id, self._keeper.attributes, strict=strict)
        )
        if batch.positions is not None:
            levels = np.zeros(batch.input_size, dtype=np.uint8)
            levels[batch.positions] = found
            found = levels
        return PriorityBatch(found, self.levels, batch.input_ids, batch.errors, snapshot.version, batch.warnings)

    def _determined(self, read: Reader) -> tuple[EventBatch, NDArray[np.uint8], Snapshot]:
        if self._keeper.has_started:
            with self._writing:
                if self._keeper.has_started:
                    self._keeper.rebuild()
        for _ in range(READS_BEFORE_WAITING):
            batch, size = read()
            found = self._attempt(batch, size)
            if found is not None:
                return batch, *found
        with self._writing:
            batch, size = read()
            found = self._attempt(batch, size)
            assert found is not None
            return batch, *found

    def _attempt(self, batch: EventBatch, size: int | None) -> tuple[NDArray[np.uint8], Snapshot] | None:
        """Returns the levels at the current version; None if the rules were changed meanwhile, so that the answer may be wrong. `size`:
        how many of the rules' attributes were read; None if all attributes were."""
        keeper = self._keeper
        snapshot = keeper.snapshot
        if size is not None and size < snapshot.attributes:
            return None
        masks, levels = self._looked_up(batch, snapshot)
        if keeper.snapshot is not snapshot:  # signatures may have been removed during the lookup
            return None
        if snapshot.exact_rules:
            rows, numbers = matched(keeper.indexes.exact, select_events(batch, np.arange(batch.size)), snapshot)
            np.maximum.at(levels, rows, snapshot.level_of[numbers])
        if masks is not None:
            if self.confirm:
                self._confirm(batch, masks, levels, snapshot, keeper.indexes)
            else:  # at most one bit is set: its place is the exponent
                np.maximum(levels, np.frexp(masks.astype(np.float64))[1].astype(np.uint8), out=levels)
        if keeper.purged > snapshot.version:  # rules that this version sees may have been removed from the indexes
            return None
        with self._counting:
            self._events += batch.size
        return levels, snapshot

    def _looked_up(self, batch: EventBatch, snapshot: Snapshot) -> tuple[NDArray[np.uint64] | None, NDArray[np.uint8]]:
        """Returns the levels whose filters contain the events, and the levels that are certain without searching an index."""
        determination = snapshot.determination
        if not determination.has_instances or not batch.size:
            return None, np.zeros(batch.size, dtype=np.uint8)
        bins = determination.discretization.bins(batch)
        lines = self._cache.borrow(bins.shape[1], batch.size)
        hits = 0
        try:
            chosen = NO_LINES if lines is None else lines
            masks, hits = determination.masks(bins, not self.confirm, snapshot.version, chosen)
        finally:
            if lines is not None:
                self._cache.give_back(batch.size, hits)
        return masks, determination.sure_levels(bins, masks)

    def _confirm(
        self,
        batch: EventBatch,
        masks: NDArray[np.uint64],
        levels: NDArray[np.uint8],
        snapshot: Snapshot,
        indexes: RuleIndexes,
    ) -> None:
        """Confirms from the highest level down: an event that is in a level's filter, but matches none of its rules, is tried at the next
        lower level, down to the level that is certain."""
        asked = refuted = 0
        sure = int(np.count_nonzero(levels))
        union = int(np.bitwise_or.reduce(masks))
        for level in range(len(self._levels) - 1, 0, -1):
            if not union >> (level - 1) & 1:
                continue
            said = (masks >> np.uint64(level - 1)) & np.uint64(1) != 0
            rows = np.flatnonzero(said & (levels < level))
            if len(rows):
                places, _ = matched(indexes.of_level(level), select_events(batch, rows), snapshot)
                confirmed = np.unique(places)
                levels[rows[confirmed]] = level
                asked += len(rows)
                refuted += len(rows) - len(confirmed)
        with self._counting:
            self._sure += sure
            self._asked += asked
            self._refuted += refuted

    # -------------------------------------------------------------------------------------------------------- explanations

    def level(self, id: str | int) -> str:
        """Returns the level of a rule."""
        return self.levels[int(self._book.level_of[self._number(id)])]

    def expression(self, id: str | int) -> str:
        """Returns the text of a rule, as it was given; for one from `add_predicates`, as it would be written."""
        with self._writing:
            number = self._number(id)
            return self._book.source(number).text_at(number)

    def _number(self, id: str | int) -> int:
        number = self._book.number_of.get(id) if type(id) in (str, int) else None
        if number is None:
            raise UnknownRuleError(id)
        return number

    def explain(self, event: Mapping[str, Any]) -> PriorityExplanation:
        """Returns which rules give this event its priority, and by which signatures; print it to read it. Raises EventError."""
        from ray_pubsub.priority.examination import explain_event

        with self._writing:
            batch, levels, _ = self._determined(event_reader(event, self._keeper.attributes, strict=False))
            return explain_event(self._keeper, self._levels, batch, int(levels[0]))

    def measure(self, events: Any) -> Measurement:
        """Returns the filters' answers for these events beside the exact ones: how many are too high, and whether the filters or the bins
        are the reason. With `confirm=False` the first call builds match indexes of all rules."""
        from ray_pubsub.priority.examination import measure_events

        with self._writing:
            return measure_events(self._keeper, batch_reader(events, None, self._keeper.attributes, strict=False)()[0])

    def stats(self) -> PriorityStats:
        """Returns what the rules consist of and what they did: rules, vectors and their bins, filters, cache, confirmation, bytes. Print
        it to read it."""
        with self._writing, self._counting:
            counted = {"events": self._events, "sure": self._sure, "asked": self._asked, "refuted": self._refuted}
            return statistics_of(self._keeper, self._levels, self._cache, counted)

    # --------------------------------------------------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the rules to a file, all or nothing: a crash leaves the old file or the new one."""
        from ray_pubsub.priority.rule_files import save

        with self._writing:
            save(path, self)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, discretizers: Mapping[str, Discretizer] | None = None
    ) -> PriorityRules:
        """Returns the rules of a file that `save` wrote. A discretizer that is a function is not in the file: give it again. Raises
        IndexFileError."""
        from ray_pubsub.priority.rule_files import load

        return load(path, discretizers or {})

    def __reduce__(self) -> Any:
        """Pickles as the bytes of its file and its discretizers, so that rules can be sent to another process."""
        from ray_pubsub.priority.rule_files import dump, unpickled

        with self._writing:
            return unpickled, (dump(self), self.discretizers)


def _checked_rate(rate: Any) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 1e-6 <= rate <= 0.9:
        raise SettingError("false_positive_rate", f"must be a number from 0.000001 to 0.9, not {rate!r}")
    return float(rate)
