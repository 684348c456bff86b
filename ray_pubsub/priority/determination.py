"""The priority determination engine (paper §4.4, Algorithms 4 and 5): event → bins → a signature per vector → filters → levels.

Its cost depends on the numbers of attributes, vectors and levels, not on the number of rules.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.kernels.priority.signatures import Vectors, bin_lanes, cells_of, determine
from ray_pubsub.model.event_batch import EventBatch, Layout
from ray_pubsub.model.values import Kind
from ray_pubsub.priority.cache import CacheLines
from ray_pubsub.priority.instantiation.bins import KINDS, FunctionBins, OrderedBins
from ray_pubsub.priority.instantiation.instances import RuleInstances

__all__ = ["Determination", "Discretization"]

MOST_PLANS = 1024
LARGEST_GRID = 4096


class LanePlan(NamedTuple):
    """How the lanes of events with one layout are put into bins; computed once per layout."""

    track: NDArray[np.int32]
    """For each lane, column * KINDS + kind; -1 if no rule tests the attribute, or the lane does not contain plain numbers."""
    column: NDArray[np.int32]
    strings: list[tuple[int, int]]
    """Lane and column."""
    functions: list[tuple[int, int]]


class Discretization:
    """The bins of all columns, as the kernel reads them. Immutable."""

    def __init__(self, names: list[str], columns: list[OrderedBins | FunctionBins]) -> None:
        self.columns = list(columns)
        self._column = {name: number for number, name in enumerate(names)}
        base, first = np.zeros((2, KINDS * len(columns)), dtype=np.int64)
        parts = []
        filled = 0
        for number, bins in enumerate(columns):
            if isinstance(bins, OrderedBins):
                place = slice(number * KINDS, (number + 1) * KINDS)
                base[place] = bins.base
                first[place] = bins.first + filled
                filled += len(bins.edges[0])
                parts.append(bins.edges)
        kinds = (np.int64, np.float64, np.uint8)
        self._edges = tuple(
            np.concatenate([np.empty(0, kind), *[part[field] for part in parts]]).astype(kind)
            for field, kind in enumerate(kinds)
        )
        counts = self._number_counts(columns)
        self._tracks = (base, first, counts)
        self._grid = _grids(first, counts, *self._edges[:2])
        self._plans: dict[Layout, LanePlan] = {}

    @staticmethod
    def _number_counts(columns: list[OrderedBins | FunctionBins]) -> NDArray[np.int64]:
        """Returns for each track the number of edges that are numbers."""
        found = np.zeros(KINDS * len(columns), dtype=np.int64)
        for number, bins in enumerate(columns):
            if isinstance(bins, OrderedBins):
                for kind, edges in bins.numbers.items():
                    found[number * KINDS + kind] = len(edges[0])
        return found

    def bins(self, batch: EventBatch) -> NDArray[np.uint16]:
        """Returns bins[row, column]; 0 is absent."""
        plan = self._plan_for(batch)
        found = np.zeros((batch.size, len(self.columns)), dtype=np.uint16)
        cells = batch.cells()
        lanes = (plan.track, plan.column, cells.offsets, cells.rows, cells.whole, cells.rest)
        bin_lanes(lanes, self._tracks, self._edges, self._grid, found)
        for number, column in plan.strings:
            lane, bins = batch.lanes[number], self.columns[column]
            assert isinstance(bins, OrderedBins)
            rows = slice(None) if lane.rows is None else lane.rows
            found[rows, column] = bins.string_bins(lane)[lane.whole]
        for number, column in plan.functions:
            lane, custom = batch.lanes[number], self.columns[column]
            assert isinstance(custom, FunctionBins)
            rows = slice(None) if lane.rows is None else lane.rows
            found[rows, column] = custom.lane_bins(lane)
        return found

    def _plan_for(self, batch: EventBatch) -> LanePlan:
        layout = batch.layout()
        plan = self._plans.get(layout)
        if plan is None:
            if len(self._plans) >= MOST_PLANS:
                self._plans = {}
            plan = self._plans[layout] = self._plan(layout)
        return plan

    def _plan(self, layout: Layout) -> LanePlan:
        track, columns = [], []
        strings, functions = [], []
        for number, (name, kind) in enumerate(layout):
            column = self._column.get(name, -1)
            plain = False
            if column >= 0 and isinstance(self.columns[column], FunctionBins):
                functions.append((number, column))
            elif column >= 0 and kind == Kind.STRING:
                strings.append((number, column))
            else:
                plain = column >= 0
            track.append(column * KINDS + kind if plain else -1)
            columns.append(column)
        return LanePlan(np.array(track, np.int32), np.array(columns, np.int32), strings, functions)


def _grids(
    first: NDArray[np.int64], count: NDArray[np.int64], whole: NDArray[np.int64], rest: NDArray[np.float64]
) -> tuple[NDArray[Any], ...]:
    """Returns for each track the grid over its edges (kernels/priority/signatures.py): low, scale, start, size; and the grids. A track
    without a finite range has a grid of one step."""
    low, scale = np.zeros(len(first)), np.zeros(len(first))
    start, size = np.zeros(len(first), dtype=np.int64), np.ones(len(first), dtype=np.int64)
    grids = [np.empty(0, np.int64)]
    for track, (begin, edges) in enumerate(zip(first.tolist(), count.tolist(), strict=True)):
        start[track] = sum(map(len, grids))
        steps = [0] * edges
        values = whole[begin : begin + edges].astype(np.float64) + rest[begin : begin + edges]
        if edges > 1:
            least, largest = float(values[0]), float(values[-1])
            wanted = min(LARGEST_GRID, 1 << (4 * edges).bit_length())
            width = largest - least
            if 0 < width < math.inf and wanted / width < math.inf:
                low[track], scale[track], size[track] = least, wanted / width, wanted
                steps = np.clip((values - least) * scale[track], 0, wanted - 1).astype(np.int64).tolist()
        grids.append(np.searchsorted(np.array(steps, dtype=np.int64), np.arange(size[track] + 1)))
    return low, scale, start, size, np.concatenate(grids).astype(np.int64)


class Determination:
    """Everything that readers need from the instances at one version. Only the bits of the filters change later, and readers check for
    that."""

    def __init__(self, instances: RuleInstances, discretization: Discretization | None = None) -> None:
        layout = instances.layout
        self.discretization = discretization or Discretization(layout.names, layout.columns)
        self.vectors = tuple(layout.vectors)
        self.filters = instances.filters
        vectors = layout.vectors
        sizes = [len(vector.columns) for vector in vectors]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        columns = np.array([column for vector in vectors for column in vector.columns], dtype=np.int64)
        steps = [vector.steps(place) for vector in vectors for place in range(len(vector.columns))]
        lengths = [len(part) for part in steps]
        tables = (np.cumsum([0, *lengths])[:-1]).astype(np.int64)
        salts = np.array([vector.salt for vector in vectors], dtype=np.uint64)
        all_steps = np.concatenate([np.empty(0, np.int64), *steps])
        self._vectors = Vectors(starts, columns, tables, all_steps, salts, instances.occupied)
        self._sure = instances.sure
        self.has_instances = bool(instances.occupied.any())

    def masks(
        self, bins: NDArray[np.uint16], highest_only: bool, epoch: int, cache: CacheLines
    ) -> tuple[NDArray[np.uint64], int]:
        """Returns for each event the set of levels that may match (bit l is level l + 1), and how many came from the cache."""
        found = np.zeros(len(bins), dtype=np.uint64)
        filters = self.filters
        arrays = (filters.start, filters.size, filters.probes, filters.bits)
        return found, determine(bins, tuple(self._vectors), arrays, tuple(cache), highest_only, epoch, found)

    def sure_levels(self, bins: NDArray[np.uint16], masks: NDArray[np.uint64]) -> NDArray[np.uint8]:
        """Returns for each event the highest level with a rule that matches every event of its cell, so that no index need be searched."""
        levels = np.zeros(len(bins), dtype=np.uint8)
        rows = np.flatnonzero(masks)
        if self._sure is None or not len(rows):
            return levels
        found = np.zeros(len(rows), dtype=np.uint8)
        chosen = bins[rows]
        union = int(np.bitwise_or.reduce(masks))
        cells: dict[int, NDArray[np.int64]] = {}
        for (number, level), counts in list(self._sure.counts.items()):
            if number < len(self.vectors) and union >> (level - 1) & 1:
                if number not in cells:
                    cells[number] = self.cells(chosen, number)
                place = cells[number]
                sure = (counts[np.maximum(place, 0)] > 0) & (place >= 0)
                np.maximum(found, np.where(sure, level, 0).astype(np.uint8), out=found)
        levels[rows] = found
        return levels

    def cells(self, bins: NDArray[np.uint16], number: int) -> NDArray[np.int64]:
        """Returns the cell of each event in one vector; negative if no rule of the vector can match it."""
        starts, columns, tables, steps, *_ = self._vectors
        chosen = slice(int(starts[number]), int(starts[number + 1]))
        found = np.empty(len(bins), dtype=np.int64)
        cells_of(bins, columns[chosen], tables[chosen], steps, found)
        return found
