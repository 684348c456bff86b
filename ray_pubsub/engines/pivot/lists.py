"""Builds pivot lists of coded clauses: chooses pivots (kernels/pivot/pivot_choice.py), sorts entries, writes rows in their order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.coding import CodedTests, CodeSpace
from ray_pubsub.engines.column_frequency import column_frequency
from ray_pubsub.engines.contract import Frequency
from ray_pubsub.kernels.pivot.clause_rows import (
    SHORT,
    CodedRows,
    count_rows,
    first_seen,
    read_rows,
    row_sizes,
    write_rows,
)
from ray_pubsub.kernels.pivot.pivot_choice import (
    Choice,
    Shares,
    TestWeights,
    bucket_shares,
    choose_pivots,
    lay_entries,
    value_shares,
    weigh_tests,
)
from ray_pubsub.kernels.pivot.pivot_lists import BUCKETS, PROVEN, SLOTS, PivotLists, count_order, fill_directory

__all__ = [
    "Built",
    "are_alike",
    "build_lists",
    "coded_of_rows",
    "coded_rows",
    "pivots_of",
    "places",
    "rows_of",
    "shares_of",
    "weights_of",
]

NONE = np.empty(0, np.int32)


class Built(NamedTuple):
    lists: PivotLists
    rows: NDArray[np.uint32]
    """Where the row of each clause starts; clauses are numbered in the order of their rows."""
    owners: NDArray[np.int32]
    """The owner of each clause."""


def build_lists(coded: CodedTests, owners: NDArray[np.int64], frequency: Frequency = None) -> Built:
    """`owners`: of each clause; `frequency`: for each attribute number the share of events that have it."""
    tests, space = coded_rows(coded), coded.space
    shares = shares_of(tests, space, frequency)
    weights = weights_of(tests, shares)
    count = len(owners)
    choice = pivots_of(tests, shares, weights)
    total = int(choice.size.sum())
    keys, clauses = np.empty(total, np.int64), np.empty(total, np.int32)
    lay_entries(tests, shares, weights, choice, keys, clauses)
    spread = len(shares.below)
    order, starts_of = count_order(keys, 3 * spread + 1)
    clauses = clauses[order]
    directory = np.zeros(4 * spread, dtype=np.uint32)
    fill_directory(starts_of, shares.base, shares.top, directory)
    by_row = first_seen(clauses, count)  # a clause's row lies where its first entry does
    rows, words = _written(tests, by_row, choice.pivot, space)
    starts = np.empty(count, np.uint32)
    starts[by_row] = rows
    starts[choice.proven] |= np.uint32(PROVEN)
    entries = np.empty((total, 4), dtype=np.uint32)
    for place, part in enumerate((choice.second, choice.third, owners, starts)):
        entries[:, place] = part[clauses]
    universal = int(starts_of[3 * spread])
    flat = entries.reshape(-1)
    lists = PivotLists(shares.base, shares.bucket, directory, flat, words, universal, are_alike(flat, len(shares.base)))
    return Built(lists, rows, owners[by_row].astype(np.int32))


def coded_rows(coded: CodedTests) -> CodedRows:
    pieces = NONE if coded.pieces is None else coded.pieces
    parts = (coded.piece_offsets, coded.piece_low, coded.piece_high)
    return CodedRows(coded.offsets, coded.column, coded.low, coded.high, pieces, *parts)


def shares_of(
    tests: CodedRows, space: CodeSpace, frequency: Frequency = None, different: NDArray[np.float64] | None = None,
    grown: NDArray[np.float64] | None = None,
) -> Shares:  # fmt: skip
    """Estimates the values of events from the clauses' constants and from what is known about the attributes. `different`, `grown`: for
    each column the number of constants, and how many codes there are for each one here, if these are a sample of the tests."""
    base, _ = places(space.top)
    below = value_shares(tests, base, space.top, np.zeros(space.columns) if different is None else different)
    weights = column_frequency(space, frequency)
    grown = np.ones(space.columns) if grown is None else grown
    return Shares(base, space.top, below, weights, *_buckets(base, space.top, below), grown)


def weights_of(tests: CodedRows, shares: Shares) -> TestWeights:
    count = len(tests.column)
    kinds = (np.int64, np.int8, np.float64, np.float64, np.float64, np.uint16)
    weights = TestWeights(*(np.empty(count, kind) for kind in kinds))
    weigh_tests(tests, shares, weights)
    return weights


def pivots_of(tests: CodedRows, shares: Shares, weights: TestWeights) -> Choice:
    kinds = (np.int64, np.int32, np.uint32, np.uint32, np.bool_)
    choice = Choice(*(np.empty(len(tests.offsets) - 1, kind) for kind in kinds))
    choose_pivots(tests, shares, weights, choice)
    return choice


def places(top: NDArray[np.int32]) -> tuple[NDArray[np.int64], int]:
    """Returns where each column begins in the directory, and how many places there are in all."""
    ends = np.cumsum(top.astype(np.int64) + 1)
    return np.concatenate([[0], ends])[:-1], int(ends[-1]) if len(ends) else 0


def _buckets(
    base: NDArray[np.int64], top: NDArray[np.int32], below: NDArray[np.float64]
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Returns the bucket of every code, so that a frequent value has one for itself, and per column the share of values below each
    bucket."""
    bucket, bucket_below = np.empty(len(below), np.uint8), np.empty(len(top) * (BUCKETS + 1))
    bucket_shares(base, top, below, bucket, bucket_below)
    return bucket, bucket_below


def _written(
    tests: CodedRows, order: NDArray[np.int64], pivots: NDArray[np.int64], space: CodeSpace
) -> tuple[NDArray[np.uint32], NDArray[np.uint16] | NDArray[np.int32]]:
    """Returns where the rows start, in this order, and the rows."""
    starts = np.empty(len(order) + 1, np.int64)
    sizes = np.empty(len(tests.column), np.int32)
    row_sizes(tests, order, sizes, starts)
    largest = max(int(sizes.max(initial=0)), space.columns, int(space.top.max(initial=0)))
    assert starts[-1] < PROVEN, "a block's rows are found by 31 bits"
    words: NDArray[np.uint16] | NDArray[np.int32]
    room = int(starts[-1]) + SHORT
    words = np.empty(room, np.uint16) if largest < 2**16 else np.empty(room, np.int32)
    write_rows(tests, order, pivots, sizes, words)
    return starts[:-1].astype(np.uint32), words


def coded_of_rows(space: CodeSpace, words: NDArray[Any], starts: NDArray[np.uint32]) -> CodedTests:
    """Returns the tests of the rows that start at these places."""
    tests, several, pieces = count_rows(words, starts)
    column, low, high = (np.empty(tests, np.int32) for _ in range(3))
    rows = CodedRows(
        np.empty(len(starts) + 1, np.int64), column, low, high, np.empty(tests if several else 0, np.int32),
        np.empty(several + 1, np.int64), np.empty(pieces, np.int32), np.empty(pieces, np.int32),
    )  # fmt: skip
    read_rows(words, starts, rows)
    return CodedTests(space, *rows[:4], rows.pieces if several else None, *rows[5:])


def are_alike(entries: NDArray[np.uint32], columns: int) -> bool:
    """Returns whether all entries prove their clauses with the same two other tests, and no columns share a slot."""
    return (
        len(entries) > 0
        and columns <= SLOTS
        and all(
            bool((part >= PROVEN).all() if number == 3 else (part == part[0]).all())
            for number, part in enumerate(entries.reshape(-1, 4).T)
            if number != 2
        )
    )


def rows_of(lists: PivotLists, rows: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Returns the clause of each entry."""
    return np.searchsorted(rows, lists.entries[3::4] & (PROVEN - 1))
