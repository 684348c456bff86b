"""Rules as boxes of cells: for each clause and attribute, the groups of bins that contain a value it admits (paper Algorithms 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.test_records import Form
from ray_pubsub.kernels.priority.boxes import boxes_of_pieces, count_boxes
from ray_pubsub.priority.instantiation.bins import OrderedBins, Ranges
from ray_pubsub.priority.instantiation.clause_groups import ClauseGroup
from ray_pubsub.priority.instantiation.layout import FIELDS, Layout
from ray_pubsub.priority.instantiation.vectors import Vector

__all__ = ["MOST_BOXES", "BoxList", "Boxes", "Refusal", "boxes_of_group"]

MOST_BOXES = 4096
"""A clause that needs more boxes than this is matched exactly."""


class Refusal:
    """Why a rule is not instantiated but matched exactly."""

    PATTERN = "a pattern on free text"
    TERM = "a function or a term over attributes"
    NORMAL_FORM = "too many alternatives to multiply out"
    FUNCTION = "an interval on an attribute whose discretizer is a function that cannot be inverted"
    BOXES = f"more than {MOST_BOXES:,} boxes of signatures"
    ATTRIBUTES = "more attributes than a signature has room for"
    VECTORS = "more different sets of attributes than signature vectors"
    STARTING = "the kernels are still being compiled"


@dataclass(slots=True, eq=False)
class Boxes:
    """Box i belongs to rule number owners[i] and covers the groups lows[i] … highs[i]."""

    owners: NDArray[np.int64]
    lows: NDArray[np.uint16]
    highs: NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.owners)

    def where(self, chosen: Any) -> Boxes:
        return Boxes(self.owners[chosen], self.lows[chosen], self.highs[chosen])

    def cells(self) -> int:
        """Returns the sum of the boxes' sizes."""
        widths = self.highs.astype(np.float64) - self.lows + 1
        return int(widths.prod(axis=1).sum())


def boxes_of_group(
    table: ClauseTable, group: ClauseGroup, layout: Layout, vector: Vector, *, inner: bool = False
) -> tuple[Boxes, dict[int, str]]:
    """Returns the boxes of a group's clauses in its vector, and the rules that cannot have any, with the reason. With `inner`, boxes of
    the cells all of whose events the clause matches."""
    columns = [layout.columns[column] for column in vector.columns]
    owners = table.owners[group.clauses]
    regular = np.full(len(owners), all(isinstance(column, OrderedBins) for column in columns))
    for place in range(len(columns)):
        regular &= table.tests["form"][group.tests[:, place]] == Form.INTERVAL
    chosen = np.flatnonzero(regular)
    found = _regular(table, group.tests[chosen], owners[chosen], layout, vector, inner)
    refused: dict[int, str] = {}
    if len(chosen) < len(owners):
        others = _irregular(table, group.tests[~regular], owners[~regular], layout, vector, refused, inner)
        found = Boxes(
            np.concatenate([found.owners, others.owners]),
            np.concatenate([found.lows, others.lows]),
            np.concatenate([found.highs, others.highs]),
        )
    if (np.diff(found.owners) < 0).any():
        found = found.where(np.argsort(found.owners, kind="stable"))
    return found, refused


def _regular(
    table: ClauseTable,
    tests: NDArray[np.int64],
    owners: NDArray[np.int64],
    layout: Layout,
    vector: Vector,
    inner: bool,
) -> Boxes:
    pieces = np.empty((len(tests), len(vector.columns), 4), dtype=np.int32)
    if len(tests):
        for place, column in enumerate(vector.columns):
            bins = layout.columns[column]
            assert isinstance(bins, OrderedBins)
            records = {name: table.tests[name][tests[:, place]] for name in FIELDS}
            low, high = layout.interval_bounds(records, bins, inner=inner)
            vector.pieces(place, low, high, pieces[:, place], inner=inner)
    count = count_boxes(pieces)
    lows = np.empty((count, len(vector.columns)), dtype=np.uint16)
    found = Boxes(np.empty(count, dtype=np.int64), lows, np.empty_like(lows))
    boxes_of_pieces(pieces, owners, found.lows, found.highs, found.owners)
    return found


def _irregular(
    table: ClauseTable,
    tests: NDArray[np.int64],
    owners: NDArray[np.int64],
    layout: Layout,
    vector: Vector,
    refused: dict[int, str],
    inner: bool,
) -> Boxes:
    """Clauses with a test of several intervals, or on a column of a function."""
    box_owners: list[int] = []
    boxes: list[tuple[tuple[int, int], ...]] = []
    known: dict[Any, Ranges | None] = {}
    for row, owner in zip(tests.tolist(), owners.tolist(), strict=True):
        runs = []
        for place, test in enumerate(row):
            key = (place, *(table.tests[name][test].item() for name in FIELDS))
            if key not in known:
                record = {name: table.tests[name][test : test + 1] for name in FIELDS}
                ranges = layout.columns[vector.columns[place]].ranges(layout.allowed(table, record, 0), inner=inner)
                known[key] = None if ranges is None else vector.runs(place, ranges, inner=inner)
            runs.append(known[key])
        if any(each is None for each in runs):
            refused[owner] = Refusal.FUNCTION
        elif prod(len(each) for each in runs if each is not None) > MOST_BOXES:
            refused[owner] = Refusal.BOXES
        else:
            fresh = list(product(*[each for each in runs if each is not None]))
            boxes += fresh
            box_owners += [owner] * len(fresh)
    ends = np.array(boxes, dtype=np.uint16).reshape(len(boxes), len(vector.columns), 2)
    return Boxes(np.array(box_owners, dtype=np.int64), ends[:, :, 0].copy(), ends[:, :, 1].copy())


class BoxList:
    """The boxes of one vector, in the order of their owners, which only grow: so a rule's boxes are found by bisection."""

    def __init__(self, dimensions: int) -> None:
        self._filled = 0
        self._boxes = Boxes(
            np.empty(16, np.int64), np.empty((16, dimensions), np.uint16), np.empty((16, dimensions), np.uint16)
        )

    def append(self, boxes: Boxes) -> None:
        end = self._filled + len(boxes)
        if end > len(self._boxes):
            room = max(end, 2 * len(self._boxes)) if self._filled else end
            dimensions = self._boxes.lows.shape[1]
            grown = Boxes(
                np.empty(room, np.int64),
                np.empty((room, dimensions), np.uint16),
                np.empty((room, dimensions), np.uint16),
            )
            for new, old in zip(_parts(grown), _parts(self._boxes), strict=True):
                new[: self._filled] = old[: self._filled]
            self._boxes = grown
        for new, old in zip(_parts(self._boxes), _parts(boxes), strict=True):
            new[self._filled : end] = old
        self._filled = end

    def of(self, numbers: NDArray[np.int64]) -> Boxes:
        """Returns the boxes of rules, given in ascending order."""
        owners = self._boxes.owners[: self._filled]
        starts, ends = np.searchsorted(owners, numbers), np.searchsorted(owners, numbers, side="right")
        lengths = ends - starts
        before = np.cumsum(lengths) - lengths
        return self._boxes.where(np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths))

    def __len__(self) -> int:
        return self._filled

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in _parts(self._boxes))


def _parts(boxes: Boxes) -> tuple[NDArray[Any], ...]:
    return boxes.owners, boxes.lows, boxes.highs
