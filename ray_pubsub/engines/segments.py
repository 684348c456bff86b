"""Which kind of segment a set of clauses gets: what engines/cost_model.py says."""

from __future__ import annotations

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.calibration import machine_constants
from ray_pubsub.engines.cnf_segment import CnfSegment
from ray_pubsub.engines.contract import Build, Frequency, Segment
from ray_pubsub.engines.cost_model import MARGIN, MOST_DENSE_COLUMNS, CostModel
from ray_pubsub.engines.dense_segment import DenseSegment
from ray_pubsub.engines.dexin import DexinSegment
from ray_pubsub.engines.gem import GemSegment
from ray_pubsub.engines.mixed_segment import MixedSegment, on_common_attributes
from ray_pubsub.engines.opindex import OpIndexSegment
from ray_pubsub.engines.pivot_block import PivotBlock
from ray_pubsub.engines.rein import ReinSegment
from ray_pubsub.engines.shared_segment import build_shared

__all__ = ["FEWEST_CHOSEN", "KINDS", "Build", "build_parts", "build_segment"]

FEWEST_CHOSEN = 32_768
"""Clauses from which on the choice matters. Smaller blocks live on only until they are merged: they are dense if they look dense, and the
machine is not measured for them."""
FEWEST_DENSE, DENSITY, DENSE_COLUMNS = 1024, 0.3, 40
FEWEST_APART = 4096
"""Clauses on common attributes that are worth a segment of their own."""

KINDS: dict[str, Build] = {
    "dense": DenseSegment,
    "dexin": DexinSegment,
    "gem": GemSegment,
    "opindex": OpIndexSegment,
    "pivot": PivotBlock,
    "rein": ReinSegment,
}
"""The cost model's candidates."""


def build_segment(
    table: ClauseTable,
    vocabulary: Vocabulary,
    frequency: Frequency = None,
    *,
    model: CostModel | None = None,
) -> Segment:
    """The segment that the cost model prefers. `model`: by default this machine's; `frequency`: see CostModel.choose."""
    if model is None and table.count < FEWEST_CHOSEN:
        return (DenseSegment if _looks_dense(table) else PivotBlock)(table, vocabulary, frequency)
    model = model or CostModel(machine_constants())
    choice = model.choose(table, vocabulary, frequency)
    common = on_common_attributes(table, MOST_DENSE_COLUMNS)
    if FEWEST_APART <= common.sum() < table.count:
        parts = [table.take(np.flatnonzero(chosen)) for chosen in (common, ~common)]
        choices = [model.choose(part, vocabulary, frequency) for part in parts]
        if MARGIN * sum(part.cost for part in choices) < choice.cost:
            return MixedSegment(
                [KINDS[each.engine](part, vocabulary, frequency) for each, part in zip(choices, parts, strict=True)]
            )
    return KINDS[choice.engine](table, vocabulary, frequency)


def _looks_dense(table: ClauseTable) -> bool:
    """Few attributes, of which a clause tests a good part."""
    columns = int((table.uses() > 0).sum())
    if table.count < FEWEST_DENSE or not 0 < columns + len(table.opaque) <= DENSE_COLUMNS:
        return False
    return table.test_count >= DENSITY * columns * table.count


def build_parts(
    table: ClauseTable, vocabulary: Vocabulary, build: Build, frequency: Frequency = None
) -> tuple[Segment, ...]:
    """The segments of a table, none if it is empty: clauses go to the engine's, alternatives, whatever the engine, to one of their own."""
    alternatives = table.of_alternatives()
    if alternatives is None:
        return (build_shared(table, vocabulary, build, frequency),) if table.count else ()
    joint = CnfSegment(table.take(np.flatnonzero(alternatives)), vocabulary)
    clauses = table.take(np.flatnonzero(~alternatives))
    return (build_shared(clauses, vocabulary, build, frequency), joint) if clauses.count else (joint,)
