"""Builds the segments of a table of clauses, for any engine."""

from __future__ import annotations

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.cnf.segment import CnfSegment
from ray_pubsub.engines.contract import Build, Frequency, Segment
from ray_pubsub.engines.flag_segment import FlagSegment, single_flags
from ray_pubsub.engines.shared_segment import build_shared

__all__ = ["build_parts"]


def build_parts(
    table: ClauseTable, vocabulary: Vocabulary, build: Build, frequency: Frequency = None
) -> tuple[Segment, ...]:
    """Returns no segment if the table is empty. Most clauses go to a segment of the engine; clauses of one flag and disjunctions of
    alternatives get segments of their own."""
    parts: list[Segment] = []
    alternatives = table.of_alternatives()
    if alternatives is not None:
        parts.append(CnfSegment(table.take(np.flatnonzero(alternatives)), vocabulary, frequency))
        table = table.take(np.flatnonzero(~alternatives))
    flags = single_flags(table, vocabulary)
    if flags is not None:
        parts.append(FlagSegment(table.take(np.flatnonzero(flags))))
        table = table.take(np.flatnonzero(~flags))
    return (build_shared(table, vocabulary, build, frequency), *parts) if table.count else tuple(parts)
