"""Follows an event through a segment, for `explain`: which clauses are left after every step.

The hot kernels count nothing. A trace takes the same steps over the same index one at a time, with numpy or with parts of the kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodeSpace
from ray_pubsub.columns.event_codes import EventCodes
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Hits
from ray_pubsub.engines.explain.plan import Partitions, Pipeline, Step
from ray_pubsub.engines.interval_gaps import IntervalGaps
from ray_pubsub.language.printer import write, write_subject
from ray_pubsub.model.event_batch import EventBatch

__all__ = ["OwnTests", "Trace", "Traced", "column_names", "merged", "numbers_of", "ranges", "timed", "values_of"]

LONG = 0.01
NAMED = 3
"""The number of attributes that a step names; beyond it, only their number is given."""


class Trace:
    """The trace of some clauses of a segment. `numbers`: the clauses left at the end."""

    def __init__(self, of: str, clauses: int) -> None:
        self.of, self.clauses = of, clauses
        self.steps: list[Step] = []
        self.numbers: NDArray[Any] = np.empty(0, np.int32)

    def add(self, attribute: str, method: str, actual: int, estimated: float | None = None) -> None:
        self.steps.append(Step(attribute, method, None if estimated is None else float(estimated), int(actual)))

    def settle(self, holes: IntervalGaps, codes: EventCodes) -> None:
        """Adds the last step: tests of several intervals, for which only hulls were compared so far."""
        if not len(self.numbers):
            return
        offsets, numbers = np.array([0, len(self.numbers)]), self.numbers.astype(np.int32)
        holes.settle(codes, offsets, numbers)
        self.add("", "gaps in sets compared", int(offsets[1]))

    def pipeline(self) -> Pipeline:
        return Pipeline(self.of, self.clauses, tuple(self.steps))


class Traced(NamedTuple):
    """A segment's traces, before the steps that all engines share."""

    partitions: Partitions
    traces: list[Trace]
    verified: int


class OwnTests:
    """The tests of some clauses, in CSR form, against an event's codes by column, for methods that compare each clause's own tests. What
    is left after a column does not depend on which loop is the outer one."""

    def __init__(
        self, numbers: NDArray[Any], offsets: NDArray[Any], column: NDArray[Any], low: NDArray[Any], high: NDArray[Any],
        values: NDArray[Any],
    ) -> None:  # fmt: skip
        starts = offsets[numbers].astype(np.int64)
        lengths = offsets[numbers + 1].astype(np.int64) - starts
        test = ranges(starts, lengths)
        tested = column[test]
        code = values[tested]
        fails = (code < low[test]) | (code > high[test])
        self._numbers = numbers
        self._alive = np.ones(len(numbers), bool)
        self._failed_clause = np.repeat(np.arange(len(numbers)), lengths)[fails]
        self._failed_column = tested[fails]
        self.columns: NDArray[Any] = np.unique(tested)
        """The columns that any of the clauses tests."""

    def after(self, column: int) -> int:
        """Returns how many clauses are left after this column has been compared, too."""
        self._alive[self._failed_clause[self._failed_column == column]] = False
        return int(self._alive.sum())

    def left(self) -> NDArray[Any]:
        """Returns the clauses left after all columns have been compared."""
        self._alive[self._failed_clause] = False
        return self._numbers[self._alive]


def values_of(codes: EventCodes, columns: int) -> NDArray[np.int32]:
    """Returns a single event's codes by column, 0 where it has none."""
    assert len(codes.offsets) == 2, "one event is explained at a time"
    values = np.zeros(columns, np.int32)
    values[codes.column] = codes.code
    return values


def column_names(space: CodeSpace, vocabulary: Vocabulary, columns: Sequence[int] | NDArray[Any]) -> str:
    """Returns the attributes of columns; a pattern's column is named by the pattern."""
    names = [_column_name(space, vocabulary, int(column)) for column in islice(columns, NAMED)]
    more = len(columns) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _column_name(space: CodeSpace, vocabulary: Vocabulary, column: int) -> str:
    attributes = len(space.attributes)
    if column < attributes:
        return write_subject(vocabulary.attributes.texts[int(space.attributes[column])])
    return write(space.patterns[column - attributes].leaf)


def merged(pipelines: Iterable[Pipeline]) -> tuple[Pipeline, ...]:
    """Adds up pipelines of the same name and the same steps."""
    alike: dict[tuple[str, ...], list[Pipeline]] = {}
    for pipeline in pipelines:
        words = (word for step in pipeline.steps for word in (step.attribute, step.method))
        alike.setdefault((pipeline.of, *words), []).append(pipeline)
    return tuple(
        Pipeline(
            group[0].of if len(group) == 1 else f"{len(group)} {group[0].of}s",
            sum(pipeline.clauses for pipeline in group),
            tuple(_added(steps) for steps in zip(*(pipeline.steps for pipeline in group), strict=True)),
        )
        for group in alike.values()
    )


def _added(steps: tuple[Step, ...]) -> Step:
    known = [step.estimated for step in steps if step.estimated is not None]
    estimated = sum(known) if len(known) == len(steps) else None
    return Step(steps[0].attribute, steps[0].method, estimated, sum(step.actual for step in steps))


def timed(match: Callable[[EventBatch], Hits], events: EventBatch) -> tuple[Hits, float]:
    """Returns the matches, and the seconds they take: after a first run, which may compile a kernel, the shortest of three runs, because
    a short run is often interrupted; a long match is run only once."""
    hits, best = match(events), float("inf")
    for _ in range(3):
        start = time.perf_counter()
        hits = match(events)
        best = min(best, time.perf_counter() - start)
        if best > LONG:
            break
    return hits, best


def ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Returns start, start + 1, … for each start, concatenated."""
    behind = np.cumsum(lengths)
    places: NDArray[np.int64] = np.arange(int(lengths.sum())) + np.repeat(starts - behind + lengths, lengths)
    return places


def numbers_of(bits: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Returns the positions of the bits that are set among the first `count`."""
    return np.flatnonzero(np.unpackbits(bits.view(np.uint8), count=count, bitorder="little"))
