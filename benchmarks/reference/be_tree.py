"""BE-Tree: a node that holds too many subscriptions is divided by attributes, and those of one attribute by halving its range again and
again, in turn. A subscription lies as deep as its own range fits into a half. An event follows, for each attribute that it carries, the one
path of halves around its value.

The original grows one insertion at a time and scores attributes by how often they help; this one is loaded in bulk, and a subscription goes
under the attribute that most subscriptions of its node test.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.reference.reference_segment import ReferenceSegment, enter, fast, holds, leave, settle
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.kernels.papers.coded_arrays import ClauseTests

__all__ = ["BeTreeSegment"]

LEAF, RANGE = 0, 1
"""Kinds of tasks: to divide a node by attributes, to divide an attribute's range."""


class Tree(NamedTuple):
    """leaves[n]: the clauses order[first:last] of node n, and its directory of attributes, directory[first:last], as four numbers.
    directory[p]: an attribute's column, ascending within a node, and its whole range. ranges[r]: the middle, the halves below and above it
    (-1: none) and the node with what fits neither."""

    top: Any
    tests: ClauseTests
    order: Any
    leaves: Any
    directory: Any
    ranges: Any


@fast
def _follow(index, entry, code, stack, depth):
    """Puts the nodes along the path of a value on the stack."""
    place = index.directory[entry, 1]
    while place >= 0:
        stack[depth] = index.ranges[place, 3]
        depth += 1
        place = index.ranges[place, 1] if code <= index.ranges[place, 0] else index.ranges[place, 2]
    return depth


@fast
def _find(index, carried, out):
    stack = np.empty(len(index.leaves) + 1, np.int32)
    stack[0], depth, found = 0, 1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        for place in range(index.leaves[node, 0], index.leaves[node, 1]):
            clause = index.order[place]
            out[found] = clause
            found += holds(index.tests, clause, carried.value)
        first, last = index.leaves[node, 2], index.leaves[node, 3]
        if last - first <= 8 * len(carried.columns):
            for entry in range(first, last):
                code = carried.value[index.directory[entry, 0]]
                if code > 0:
                    depth = _follow(index, entry, code, stack, depth)
        else:
            for column in carried.columns:
                entry = first + np.searchsorted(index.directory[first:last, 0], column)
                if entry < last and index.directory[entry, 0] == column:
                    depth = _follow(index, entry, carried.value[column], stack, depth)
    return found


@fast
def _room(rows, used):
    """Returns the array, or a larger one with the same content if it is full."""
    if used < len(rows):
        return rows
    larger = np.empty((2 * len(rows), rows.shape[1]), rows.dtype)
    larger[: len(rows)] = rows
    return larger


@fast
def _assign(tests, order, first, last, path, uses, columns):
    """For each clause of a node the unused column that most clauses of the node test, or -1. `uses` is zero, and left so."""
    for counting in range(2):
        for place in range(first, last):
            clause, best = order[place], -1
            for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
                column, used = tests.column[test], False
                for known in path:
                    used |= known == column
                if used:
                    continue
                if counting == 0:
                    uses[column] += 1
                elif best < 0 or uses[column] > uses[best] or (uses[column] == uses[best] and column < best):
                    best = column
            if counting == 1:
                columns[place - first] = best
    for place in range(first, last):
        clause = order[place]
        for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
            uses[tests.column[test]] = 0


@fast
def _side(tests, clause, column, middle):
    """Returns where a clause's test of the column lies: wholly in the lower half (1), in the upper (2), or across (0)."""
    for test in range(tests.offsets[clause], tests.offsets[clause + 1]):
        if tests.column[test] == column:
            return 1 if tests.high[test] <= middle else 2 if tests.low[test] > middle else 0
    return 0


@fast
def _grow(tests, top, order, capacity):
    """Divides nodes and ranges from the root on. A task: kind, first, last, node or range, path, column, least, most code."""
    leaves, directory, ranges = np.zeros((64, 4), np.int64), np.zeros((64, 2), np.int64), np.zeros((64, 4), np.int64)
    paths = np.full((64, 2), -1, np.int64)  # the column, and the path before it
    tasks = np.zeros((64, 8), np.int64)
    uses, path = np.zeros(len(top), np.int64), np.empty(len(top) + 1, np.int64)
    leaf_count, entries, range_count, path_count, task_count = 1, 0, 0, 1, 1
    tasks[0] = (LEAF, 0, len(order), 0, 0, -1, 0, 0)
    while task_count > 0:
        task_count -= 1
        kind, first, last, own, walked, column, least, most = tasks[task_count]
        if kind == LEAF:
            leaves[own] = (first, last, entries, entries)
            if last - first <= capacity:
                continue
            length, step = 0, walked
            while step > 0:
                path[length] = paths[step, 0]
                length += 1
                step = paths[step, 1]
            assigned = np.empty(last - first, np.int64)
            _assign(tests, order, first, last, path[:length], uses, assigned)
            turn = np.argsort(assigned, kind="mergesort")
            order[first:last] = order[first:last][turn]
            assigned = assigned[turn]
            place = int(np.searchsorted(assigned, 0))  # those that have no further attribute stay
            leaves[own, 1] = first + place
            while place < last - first:
                end = int(np.searchsorted(assigned, assigned[place], side="right"))
                directory, ranges, tasks = (
                    _room(directory, entries),
                    _room(ranges, range_count),
                    _room(tasks, task_count),
                )
                paths = _room(paths, path_count)
                directory[entries] = (assigned[place], range_count)
                paths[path_count] = (assigned[place], walked)
                tasks[task_count] = (
                    RANGE, first + place, first + end, range_count, path_count, assigned[place], 1, top[assigned[place]],
                )  # fmt: skip
                entries, range_count = entries + 1, range_count + 1
                path_count, task_count = path_count + 1, task_count + 1
                place = end
            leaves[own, 3] = entries
            continue
        middle = (least + most) // 2
        leaves = _room(leaves, leaf_count)
        ranges[own] = (middle, -1, -1, leaf_count)
        stays = last
        if last - first > capacity and least < most:
            side = np.empty(last - first, np.int64)
            for place in range(first, last):
                side[place - first] = _side(tests, order[place], column, middle)
            turn = np.argsort(side, kind="mergesort")
            order[first:last] = order[first:last][turn]
            side = side[turn]
            stays = first + int(np.searchsorted(side, 1))
            upper = first + int(np.searchsorted(side, 2))
            for half, begin, end, low, high in ((1, stays, upper, least, middle), (2, upper, last, middle + 1, most)):
                if begin < end:
                    ranges, tasks = _room(ranges, range_count), _room(tasks, task_count)
                    ranges[own, half] = range_count
                    tasks[task_count] = (RANGE, begin, end, range_count, walked, column, low, high)
                    range_count, task_count = range_count + 1, task_count + 1
        tasks = _room(tasks, task_count)
        tasks[task_count] = (LEAF, first, stays, leaf_count, walked, -1, 0, 0)
        leaf_count, task_count = leaf_count + 1, task_count + 1
    return leaves[:leaf_count], directory[:entries], ranges[:range_count]


@fast
def _loop(index, rest, events, first, offsets, out):
    value = np.zeros(len(index.top), np.int32)
    for event in range(first, len(events.offsets) - 1):
        if len(out) - offsets[event] <= rest.clauses:
            return event
        carried, room = enter(events, event, value), out[offsets[event] :]
        found = _find(index, carried, room)
        offsets[event + 1] = offsets[event] + settle(rest, value, found, room)
        leave(events, event, value)
    return len(events.offsets) - 1


class BeTreeSegment(ReferenceSegment):
    """`capacity`: of a node. OpIndex section 7.2 takes 5, which is best for matching and worst for building."""

    engine = "be-tree"
    loop = staticmethod(_loop)

    def __init__(
        self, table: ClauseTable, vocabulary: Vocabulary, frequency: Frequency = None, *, capacity: int = 5
    ) -> None:
        self._capacity = capacity
        super().__init__(table, vocabulary)

    def _laid_out(self, tests: ClauseTests, top: Any) -> Tree:
        order = np.flatnonzero(np.diff(tests.offsets)).astype(np.int32)
        grown = _grow(tests, top.astype(np.int64), order, self._capacity)
        return Tree(top, tests, order, *(part.astype(np.int32) for part in grown))
