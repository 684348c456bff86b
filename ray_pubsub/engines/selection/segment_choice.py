"""Chooses the kind of segment for a set of clauses: the engine `auto`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Build, EngineCost, Frequency, Segment
from ray_pubsub.engines.engine_entry import EngineEntry
from ray_pubsub.engines.mixed_segment import MixedSegment, on_common_attributes
from ray_pubsub.engines.selection.calibration import machine_constants
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.engines.selection.cost_model import MARGIN, Choice, CostModel
from ray_pubsub.engines.selection.machine import TYPICAL
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["FEWEST_CHOSEN", "AutoBuild", "choose_segment"]

FEWEST_CHOSEN = 32_768
"""From this many clauses on, the machine is measured for the choice. Smaller blocks mostly exist only until they are merged."""
FEWEST_COMPARED = 4096
"""From this many on the papers' engines are considered too: for conditions that are mostly negated, one event took a fifth of the time."""
FEWEST_DENSE, DENSITY, DENSE_COLUMNS = 1024, 0.3, 40
JUDGED = 4096
"""The most clauses of a segment that are looked at again."""
FEWEST_APART = 4096
"""Clauses on common attributes get a segment of their own from this number on."""


def choose_segment(
    engines: Mapping[str, EngineEntry],
    table: ClauseTable,
    vocabulary: Vocabulary,
    frequency: Frequency = None,
    *,
    events: EventBatch | None = None,
    model: CostModel | None = None,
) -> Segment:
    """Returns the segment that the cost model prefers. `events`: some of the stream's; `model`: by default this machine's."""

    def build(name: str, part: ClauseTable) -> Segment:
        segment = engines[name].segment
        assert segment is not None, "only engines of segments have costs"
        return segment(part, vocabulary, frequency)

    def chosen(choice: Choice, part: ClauseTable) -> Segment:
        segment = build(choice.engine, part)
        if choice.prepared:
            segment.prepare()
        return segment

    if model is None:
        # A small block that looks sparse is not even sampled. One that looks dense may still have a test that is better than any bitmap.
        if table.count < FEWEST_CHOSEN and not _looks_dense(table):
            return build("pivot", table)
        model = _model_of(engines, table.count)
        if table.count < FEWEST_CHOSEN:
            return chosen(model.choose(table, vocabulary, frequency, events), table)
    choice = model.choose(table, vocabulary, frequency, events)
    common = on_common_attributes(table, MOST_DENSE_COLUMNS)
    if FEWEST_APART <= common.sum() < table.count:
        parts = [table.take(np.flatnonzero(rows)) for rows in (common, ~common)]
        choices = [model.choose(part, vocabulary, frequency, events) for part in parts]
        if MARGIN * sum(part.cost for part in choices) < choice.cost:
            return MixedSegment([chosen(each, part) for each, part in zip(choices, parts, strict=True)])
    return chosen(choice, table)


def _model_of(engines: Mapping[str, EngineEntry], clauses: int) -> CostModel:
    """Returns the model by which an engine is chosen for this many clauses."""
    if clauses < FEWEST_CHOSEN:
        return CostModel(_favoured(engines) if clauses < FEWEST_COMPARED else engines, TYPICAL)
    return CostModel(engines, machine_constants())


def _favoured(engines: Mapping[str, EngineEntry]) -> dict[str, EngineEntry]:
    return {name: entry for name, entry in engines.items() if entry.favoured}


def _looks_dense(table: ClauseTable, count: int | None = None) -> bool:
    """Returns whether there are few attributes, of which a clause tests a large share. `count`: of the clauses of which these are some."""
    uses = table.uses()
    columns = int((uses > 0).sum())
    if (count or table.count) < FEWEST_DENSE or not 0 < columns + len(table.opaque) <= DENSE_COLUMNS:
        return False
    return bool(uses.sum() >= DENSITY * columns * table.count)


class AutoBuild:
    """The engine `auto`: builds segments of the engine that is chosen, and judges the choice again when events are known."""

    def __init__(self, engines: Mapping[str, EngineEntry]) -> None:
        self._engines = engines

    def __call__(self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None) -> Segment:
        return choose_segment(self._engines, table, vocabulary, frequency)

    def seeing(self, events: EventBatch | None) -> Build:
        """Returns the same for a stream of which some events are known."""
        return lambda table, vocabulary, frequency: choose_segment(
            self._engines, table, vocabulary, frequency, events=events
        )

    def judged(
        self, block: Segment, vocabulary: Vocabulary, frequency: NDArray[np.float64], events: EventBatch
    ) -> EngineCost | None:
        """Compares a block with what would be built now, for events of the stream; None if nothing else would be considered."""
        parts = block.parts
        if len(parts) == 1:
            return self.judged(parts[0], vocabulary, frequency, events)
        costs = [
            found
            for part in parts or (block,)
            if (found := self._judged_alone(part, vocabulary, frequency, events)) is not None
        ]
        return EngineCost(sum(cost.now for cost in costs), sum(cost.again for cost in costs)) if costs else None

    def _judged_alone(
        self, segment: Segment, vocabulary: Vocabulary, frequency: NDArray[np.float64], events: EventBatch
    ) -> EngineCost | None:
        count = len(segment)
        if segment.engine not in self._engines:
            return None
        table = segment.table(np.arange(0, count, max(1, count // JUDGED)))
        if count < FEWEST_CHOSEN and not _looks_dense(table, count):
            return None
        model = _model_of(self._engines, count)
        choice = model.choose(table, vocabulary, frequency, events, whole=count)
        if segment.engine not in choice.estimates[0]:
            return None
        return EngineCost(choice.cost_of(segment.engine), choice.cost)
