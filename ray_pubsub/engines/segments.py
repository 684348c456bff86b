"""Which kind of segment a set of clauses gets."""

from __future__ import annotations

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense_segment import DenseSegment
from ray_pubsub.engines.pivot_block import PivotBlock

__all__ = ["build_segment", "is_dense"]

FEWEST_DENSE = 4096
MOST_COLUMNS = 40
DENSITY = 0.3


def is_dense(table: ClauseTable) -> bool:
    """Few attributes, of which a clause tests a good part: bitmaps over all clauses pay."""
    columns = int((np.bincount(table.tests["attribute"][: table.test_count]) > 0).sum())
    if table.count < FEWEST_DENSE or not 0 < columns + len(table.opaque) <= MOST_COLUMNS:
        return False
    return table.test_count >= DENSITY * columns * table.count


def build_segment(table: ClauseTable, vocabulary: Vocabulary) -> Segment:
    return DenseSegment(table, vocabulary) if is_dense(table) else PivotBlock(table, vocabulary)
