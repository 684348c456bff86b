"""What a user has who writes the matching himself around a compiled scan or compiled counting (references.py): it takes events as they
come, dictionaries or columns, and gives ids of rules.

A dictionary is read by MatchIndex's own reader: its checks of kinds, absence and integers beyond 64 bits are what the matching of
untrusted events needs, by whatever program. Its values are put into an array by attribute, and what the kernel finds becomes a list of
ids. A batch is given as the columns that MatchIndex is given; one kernel matches all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks.rules.references import Counting, Scan, count_event, scan_event
from ray_pubsub.model.attribute_tree import AttributeTree
from ray_pubsub.model.dict_events import read_single
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.workloads import GeneratedRules

__all__ = ["Plain"]


@njit(nogil=True, cache=True)
def _append(found, count, owner, seen, turn, out, filled):
    """Appends the owners of clauses, each once. `seen`: owner → the last event that it matched."""
    if filled + count > len(out):
        grown = np.empty(2 * len(out) + count, np.int64)
        grown[:filled] = out[:filled]
        out = grown
    for place in range(count):
        rule = owner[found[place]]
        out[filled] = rule
        filled += seen[rule] != turn
        seen[rule] = turn
    return out, filled


@njit(nogil=True, cache=True)
def _scan_batch(rules, rows, owner, found, offsets):
    seen, out, filled = np.full(owner[-1] + 1, -1), np.empty(1024, np.int64), 0
    for event in range(len(rows)):
        count = scan_event(rules, rows[event], found)
        out, filled = _append(found, count, owner, seen, event, out, filled)
        offsets[event + 1] = filled
    return out[:filled]


@njit(nogil=True, cache=True)
def _count_batch(rules, lists, rows, left, touched, owner, found, offsets):
    seen, out, filled = np.full(owner[-1] + 1, -1), np.empty(1024, np.int64), 0
    for event in range(len(rows)):
        count = count_event(rules, lists, rows[event], left, touched, found)
        out, filled = _append(found, count, owner, seen, event, out, filled)
        offsets[event + 1] = filled
    return out[:filled]


class Plain:
    """Rules are plain Python integers, the ids of the index that is compared."""

    def __init__(self, reference: Scan | Counting, rules: GeneratedRules, attributes: AttributeTree) -> None:
        self._reference, self._attributes = reference, attributes
        self._place = {name: place for place, name in enumerate(rules.names)}
        self._row = np.full(len(self._place), -1, np.int32)
        self._words = rules.pattern is not None
        self._several = rules.owner is not None
        clauses = len(rules.offsets) - 1
        self._owner = np.arange(clauses) if rules.owner is None else rules.owner

    def one(self, event: Mapping[str, Any]) -> list[int]:
        """The same as MatchIndex.match."""
        row, place = self._row, self._place
        row.fill(-1)
        single = read_single(event, self._attributes, strict=False)
        for name, value in zip(single.names, single.plains, strict=True):
            row[place[name]] = value
        found = self._reference.match(row)
        owners = self._owner[found]
        return (np.unique(owners) if self._several else owners).tolist()  # type: ignore[no-any-return]

    def batch(self, events: EventBatch, coded: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The same as MatchIndex.match_many of columns. `coded`: the numbers of the strings, which would otherwise be looked up."""
        rows = coded
        if not self._words:
            rows = np.full((events.size, len(self._place)), -1, np.int32)
            cells = events.cells()
            lanes = np.array([self._place[lane.attribute] for lane in events.lanes])
            rows[cells.rows, np.repeat(lanes, np.diff(cells.offsets))] = cells.whole
        offsets, reference = np.zeros(events.size + 1, np.int64), self._reference
        if isinstance(reference, Scan):
            found = _scan_batch(reference.rules, rows, self._owner, reference.out, offsets)
        else:
            rest = (rows, reference.left, reference.touched, self._owner, reference.out, offsets)
            found = _count_batch(reference.rules, reference.lists, *rest)
        return offsets, found
