"""Clauses sorted by the set of attributes they test: each set is a signature vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable

__all__ = ["ClauseGroup", "group_clauses"]


@dataclass(slots=True, eq=False)
class ClauseGroup:
    """Clauses of one set of attributes: tests[i, j] is the test of clause clauses[i] on attributes[j]."""

    attributes: tuple[int, ...]
    clauses: NDArray[np.int64]
    tests: NDArray[np.int64]


def group_clauses(table: ClauseTable) -> list[ClauseGroup]:
    """Returns the groups, the largest first."""
    if not table.count:
        return []
    offsets = table.offsets[: table.count + 1]
    attribute = table.tests["attribute"][: table.test_count]
    # A sum of hashes does not depend on the order of the tests. Each is a difference of a running sum, which may overflow harmlessly.
    running = np.zeros(len(attribute) + 1, dtype=np.uint64)
    np.cumsum(_mixed(attribute), out=running[1:])
    keys = running[offsets[1:]] - running[offsets[:-1]] + (np.diff(offsets).astype(np.uint64) << np.uint64(32))
    if (keys == keys[0]).all():
        parts = [np.arange(table.count)]
    else:
        order = np.argsort(keys, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    groups = [group for part in parts for group in _groups_of(part, offsets, attribute)]
    return sorted(groups, key=lambda group: -len(group.clauses))


def _groups_of(clauses: NDArray[np.int64], offsets: NDArray[np.int64], attribute: Any) -> list[ClauseGroup]:
    first = int(clauses[0])
    size = int(offsets[first + 1] - offsets[first])
    tests = offsets[clauses][:, None] + np.arange(size)
    found = attribute[tests]
    if (found[:, 1:] < found[:, :-1]).any():
        order = np.argsort(found, axis=1)
        tests, found = np.take_along_axis(tests, order, axis=1), np.take_along_axis(found, order, axis=1)
    if (found == found[0]).all():
        return [ClauseGroup(tuple(found[0].tolist()), clauses, tests)]
    sets, which = np.unique(found, axis=0, return_inverse=True)  # two sets of attributes have the same hash
    return [
        ClauseGroup(tuple(row.tolist()), clauses[which.ravel() == number], tests[which.ravel() == number])
        for number, row in enumerate(sets)
    ]


def _mixed(numbers: Any) -> NDArray[np.uint64]:
    mixed: NDArray[np.uint64] = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    return mixed
