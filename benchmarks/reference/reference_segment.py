"""What the reference systems share: clauses as one interval of codes per attribute, a loop over events, a last look at rare tests.

None of the originals knows absent attributes, sets or patterns. Here, as for the engines, all of those are codes by now. Tests that a
present attribute must pass are *required*: they are what a reference indexes. A test that an absent attribute passes as well
(`x is null or …`) is *optional*; it is compared at the end, for the clauses that have one. A clause without required tests is *free*, and
always looked at.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.coding import CodedTests
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.engines.explain.plan import Partitions
from ray_pubsub.engines.explain.trace import Trace, Traced
from ray_pubsub.engines.papers.coded_segment import CodedSegment, events_of, tests_of
from ray_pubsub.kernels.compiled import compiled
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests, merge_tests

__all__ = ["ReferenceSegment", "TooLargeError", "enter", "fast", "holds", "leave", "settle", "starts_of"]


fast = compiled
"""Compiled, as the originals were, and kept as our kernels are."""


class TooLargeError(MemoryError):
    """The reference would copy clauses beyond a stated bound. The papers report such cases as out of memory."""

    def __init__(self, what: str, needed: int, bound: int) -> None:
        super().__init__(f"{what} would need {needed:,} entries; the bound is {bound:,}")


class Rest(NamedTuple):
    """What is not indexed: the optional tests of all clauses, and the clauses without required tests. There are `clauses` in all."""

    optional: ClauseTests
    free: Any
    clauses: Any


class Carried(NamedTuple):
    """An event: its code by column, 0 where it has none, and the columns it carries."""

    value: Any
    columns: Any


@fast
def holds(tests, clause, value):
    for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
        code = value[tests.column[test]]
        if code < tests.low[test] or code > tests.high[test]:
            return False
    return True


@fast
def enter(events, event, value):
    """Puts an event's codes into `value`, which is zero before."""
    begin, end = events.offsets[event], events.offsets[event + 1]
    present, carried = np.empty(end - begin, np.int32), 0
    for cell in range(begin, end):
        value[events.column[cell]] = events.code[cell]
        present[carried] = events.column[cell]
        carried += events.code[cell] > 0
    return Carried(value, present[:carried])


@fast
def settle(rest, value, found, out):
    """Of the clauses found, and the free ones, those whose optional tests hold; returns how many are left."""
    for place in range(len(rest.free)):
        out[found + place] = rest.free[place]
    found += len(rest.free)
    if len(rest.optional.column) == 0:
        return found
    kept = 0
    for place in range(found):
        clause = out[place]
        out[kept] = clause
        kept += holds(rest.optional, clause, value)
    return kept


@fast
def leave(events, event, value):
    for cell in range(events.offsets[event], events.offsets[event + 1]):
        value[events.column[cell]] = 0


class ReferenceSegment(CodedSegment):
    """A subclass says how it lays out the required tests, and gives its loop over events: loop(index, rest, events, first, offsets, out)
    begins with event `first` and returns the first event that may not fit `out` any more. numba does not keep functions that were passed
    other functions, so each reference writes these few lines."""

    loop: Any

    def __init__(self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None) -> None:
        super().__init__(table, vocabulary)

    def _build(self, coded: CodedTests) -> None:
        count, top = len(coded.offsets) - 1, coded.space.top
        merged = ClauseTests(np.zeros(count + 1, np.int64), *(np.empty(len(coded.column), np.int32) for _ in range(3)))
        used = merge_tests(tests_of(coded), top, np.full(len(top), -1, np.int64), merged)
        owner = np.repeat(np.arange(count), np.diff(merged.offsets))
        column, low, high = (part[:used] for part in merged[1:])
        hopeless = np.zeros(count, bool)
        hopeless[owner[low > high]] = True
        alive = ~hopeless[owner]
        required = _chosen(owner, (column, low, high), alive & (low > 0), count)
        optional = _chosen(owner, (column, low, high), alive & (low == 0), count)
        free = np.flatnonzero((np.diff(required.offsets) == 0) & ~hopeless).astype(np.int32)
        self._index = (self._laid_out(required, top), Rest(optional, free, count))

    @abstractmethod
    def _laid_out(self, tests: ClauseTests, top: Any) -> Any:
        """Returns the reference's own index: a NamedTuple of arrays with a field `top`."""

    def _match(self, codes: EventCodes) -> Any:
        events, clauses = len(codes.offsets) - 1, len(self)
        offsets, out = np.zeros(events + 1, np.int64), np.empty(clauses + 1 + 64 * events, np.int32)
        event = 0
        while event < events:
            event = type(self).loop(*self._index, events_of(codes), event, offsets, out)
            if event < events:
                out = np.concatenate([out, np.empty(len(out), np.int32)])
        return offsets, out[: offsets[-1]]

    def _trace(self, codes: EventCodes) -> Traced:
        trace = Trace("all clauses", len(self))
        trace.numbers = self._match(codes)[1]
        trace.add("", f"{self.engine} (reference)", len(trace.numbers))
        return Traced(Partitions("whole", 1, 0, len(self), 0), [trace], 0)


def starts_of(places: Any, count: int) -> Any:
    """Returns where each run of equal, ascending places begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(np.bincount(places, minlength=count))]).astype(np.int64)


def _chosen(owner: Any, parts: Any, mask: Any, count: int) -> ClauseTests:
    return ClauseTests(starts_of(owner[mask], count), *(np.ascontiguousarray(part[mask]) for part in parts))
