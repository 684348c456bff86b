"""Traces a single event through states of clauses (kernels/pivot/clause_states.py), column by column, for `explain`."""

from __future__ import annotations

import numpy as np

from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced, column_names, numbers_of, values_of
from ray_pubsub.engines.pivot.clause_states import ClauseStates
from ray_pubsub.engines.pivot.trace import holding_tests

__all__ = ["trace_states"]


def trace_states(codes: EventCodes, tests: CodedTests, states: ClauseStates, vocabulary: Vocabulary) -> Traced:
    """`tests` are in the order of rows."""
    count, values = len(tests.offsets) - 1, values_of(codes, tests.space.columns)
    trace = Trace("all clauses", count)
    alive = states.all_clauses()
    for column in states.columns.tolist():
        state, flips = states.state(column, int(values[column]))
        alive = alive & state
        names = column_names(tests.space, vocabulary, [column])
        trace.add(names, f"state of the value, {flips} flipped", int(np.bitwise_count(alive).sum()))
    held = numbers_of(alive, count)
    compared = held[~states.closed(held)]
    trace.numbers = held
    if len(compared):
        kept = holding_tests(compared, tests, values)
        trace.numbers = np.concatenate([held[states.closed(held)], kept])
        trace.add("", "own tests compared", len(trace.numbers))
    return Traced(Partitions("blocks", 1, 0, count, 0), [trace], len(compared))
