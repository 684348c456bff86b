"""Chooses the kind of segment for a set of clauses: the engine `auto`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency, Segment
from ray_pubsub.engines.engine_entry import EngineEntry
from ray_pubsub.engines.mixed_segment import MixedSegment, on_common_attributes
from ray_pubsub.engines.selection.calibration import machine_constants
from ray_pubsub.engines.selection.cost_formulas import MOST_DENSE_COLUMNS
from ray_pubsub.engines.selection.cost_model import MARGIN, CostModel
from ray_pubsub.engines.selection.machine import TYPICAL

__all__ = ["FEWEST_CHOSEN", "choose_segment"]

FEWEST_CHOSEN = 32_768
"""From this many clauses on, the machine is measured for the choice. Smaller blocks mostly exist only until they are merged."""
FEWEST_DENSE, DENSITY, DENSE_COLUMNS = 1024, 0.3, 40
FEWEST_APART = 4096
"""Clauses on common attributes get a segment of their own from this number on."""


def choose_segment(
    engines: Mapping[str, EngineEntry],
    table: ClauseTable,
    vocabulary: Vocabulary,
    frequency: Frequency = None,
    *,
    model: CostModel | None = None,
) -> Segment:
    """Returns the segment that the cost model prefers. `model`: by default this machine's."""

    def build(name: str, part: ClauseTable) -> Segment:
        segment = engines[name].segment
        assert segment is not None, "only engines of segments have costs"
        return segment(part, vocabulary, frequency)

    if model is None and table.count < FEWEST_CHOSEN:
        # A small block that looks sparse is not even sampled. One that looks dense may still have a test that is better than any bitmap.
        if not _looks_dense(table):
            return build("pivot", table)
        return build(CostModel(_favoured(engines), TYPICAL).choose(table, vocabulary, frequency).engine, table)
    model = model or CostModel(engines, machine_constants())
    choice = model.choose(table, vocabulary, frequency)
    common = on_common_attributes(table, MOST_DENSE_COLUMNS)
    if FEWEST_APART <= common.sum() < table.count:
        parts = [table.take(np.flatnonzero(chosen)) for chosen in (common, ~common)]
        choices = [model.choose(part, vocabulary, frequency) for part in parts]
        if MARGIN * sum(part.cost for part in choices) < choice.cost:
            return MixedSegment([build(each.engine, part) for each, part in zip(choices, parts, strict=True)])
    return build(choice.engine, table)


def _favoured(engines: Mapping[str, EngineEntry]) -> dict[str, EngineEntry]:
    return {name: entry for name, entry in engines.items() if entry.favoured}


def _looks_dense(table: ClauseTable) -> bool:
    """Returns whether there are few attributes, of which a clause tests a large share."""
    uses = table.uses()
    columns = int((uses > 0).sum())
    if table.count < FEWEST_DENSE or not 0 < columns + len(table.opaque) <= DENSE_COLUMNS:
        return False
    return bool(uses.sum() >= DENSITY * columns * table.count)
