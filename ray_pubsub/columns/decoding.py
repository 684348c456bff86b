"""From codes back to records: what merging blocks needs. The inverse of coding.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import TEST, ClauseTable, Form, Side, TestColumns, test_record
from ray_pubsub.columns.coding import KINDS, MATCH, RANKED, CodedTests, CodeSpace
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.decoding import decode_intervals, keep_records
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, EVERYTHING, Cut, PatternTest, ValueSet
from ray_pubsub.model.values import Kind

__all__ = ["chosen_tests", "decode_clauses", "join_tables", "move_table"]


def chosen_tests(coded: CodedTests, clauses: NDArray[np.int64]) -> CodedTests:
    """The tests of these clauses, in this order."""
    lengths = np.diff(coded.offsets)[clauses]
    ends = np.cumsum(lengths)
    tests = np.arange(int(lengths.sum())) + np.repeat(coded.offsets[clauses] - (ends - lengths), lengths)
    return replace(
        coded,
        offsets=np.concatenate([[0], ends]).astype(np.int64),
        column=coded.column[tests],
        low=coded.low[tests],
        high=coded.high[tests],
        pieces=None if coded.pieces is None else coded.pieces[tests],
    )


def decode_clauses(coded: CodedTests, owners: NDArray[np.int64], vocabulary: Vocabulary) -> ClauseTable:
    """The table that codes to these tests."""
    space = coded.space
    tests = np.zeros(len(coded.column), dtype=TEST)
    table = ClauseTable(len(owners), owners, coded.offsets.astype(np.int64), tests, [], {})
    kind, plain = np.empty(len(tests), dtype=np.int8), np.empty(len(tests), dtype=np.bool_)
    pieces = np.empty(0, np.int32) if coded.pieces is None else coded.pieces
    decode_intervals(
        coded.column, coded.low, coded.high, pieces, KINDS, space.attributes, *space.arrays, tests, kind, plain
    )
    plain |= _string_points(coded, tests, kind, vocabulary)
    known: dict[tuple[int, int, int, int], Any] = {}
    for test in np.flatnonzero(~plain).tolist():
        piece = -1 if coded.pieces is None else int(coded.pieces[test])
        key = (int(coded.column[test]), int(coded.low[test]), int(coded.high[test]), piece)
        if key not in known:
            attribute, allowed = _value_set(coded, *key)
            known[key] = test_record(attribute, allowed, vocabulary, table)
        tests[test] = known[key]
    return table


def _string_points(
    coded: CodedTests, tests: NDArray[Any], kind: NDArray[np.int8], vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Fills in the tests that are equalities of strings, looking up each operand of a column once; which they are."""
    space = coded.space
    points: NDArray[np.bool_] = (kind == Kind.STRING) & (coded.low == coded.high)
    if coded.pieces is not None:
        points &= coded.pieces < 0
    chosen = np.flatnonzero(points)
    # Twice the rank, if it is a point:
    rank = coded.low[chosen] - space.base[coded.column[chosen] * KINDS + Kind.STRING] - 1
    chosen, rank = chosen[rank & 1 == 0], rank[rank & 1 == 0]
    points[:] = False
    points[chosen] = True
    for column in np.unique(coded.column[chosen]).tolist():
        here = coded.column[chosen] == column
        mine = chosen[here]
        texts = space.strings[column]
        used, which = np.unique(rank[here] >> 1, return_inverse=True)
        numbers = np.array([vocabulary.strings.number(texts[place]) for place in used.tolist()])[which.reshape(-1)]
        tests["low_side"][mine], tests["high_side"][mine] = Side.BEFORE, Side.AFTER
        tests["low_whole"][mine] = tests["high_whole"][mine] = numbers
    return points


def join_tables(tables: list[ClauseTable], kept: list[NDArray[np.bool_]]) -> ClauseTable:
    """One table of the clauses of several that are to be kept."""
    owners, lengths = [], []
    joined = ClauseTable.empty()
    for table, keep in zip(tables, kept, strict=True):
        owners.append(table.owners[: table.count][keep])
        lengths.append(np.diff(table.offsets[: table.count + 1])[keep])
    joined.owners = np.concatenate(owners)
    joined.offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    joined.count = len(joined.owners)
    joined.tests = np.empty(joined.test_count, dtype=TEST)
    start = 0
    for table, keep, length in zip(tables, kept, lengths, strict=True):
        part = joined.tests[start : start + int(length.sum())]
        start += len(part)
        if isinstance(table.tests, TestColumns):
            every = np.diff(table.offsets[: table.count + 1])
            part[:] = table.tests[: table.test_count][np.repeat(keep, every)].records()
        else:
            keep_records(table.offsets[: table.count + 1], table.tests, keep, 0, part)
        opaque = np.flatnonzero(part["form"] & Form.OPAQUE)
        if len(opaque):
            used = np.unique(part["low_whole"][opaque])
            numbers = np.zeros(int(used[-1]) + 1, dtype=np.int64)
            for number in used.tolist():
                pair = table.opaque[number]
                numbers[number] = joined.opaque_numbers.setdefault(pair, len(joined.opaque))
                if numbers[number] == len(joined.opaque):
                    joined.opaque.append(pair)
            part["low_whole"][opaque] = numbers[part["low_whole"][opaque]]
    return joined


def move_table(table: ClauseTable, owner: NDArray[np.int64], old: Vocabulary, new: Vocabulary) -> ClauseTable:
    """The table with other owners (owner[o] for o) and in another vocabulary, which learns only what the table uses."""
    tests = table.tests[: table.test_count].copy()
    numbers = np.zeros(len(old.attributes), dtype=np.int32)
    for number in np.unique(tests["attribute"]).tolist():
        numbers[number] = new.attributes.number(old.attributes.texts[number])
    tests["attribute"] = numbers[tests["attribute"]]
    opaque = [(int(numbers[attribute]), allowed) for attribute, allowed in table.opaque]
    texts = np.flatnonzero((tests["form"] & Form.OPAQUE == 0) & (tests["kind"] == Kind.STRING))
    if len(texts):  # a string test is an equality: both bounds are the same number
        used, which = np.unique(tests["low_whole"][texts], return_inverse=True)
        moved = np.array([new.strings.number(old.strings.texts[number]) for number in used.tolist()])[which.reshape(-1)]
        tests["low_whole"][texts] = tests["high_whole"][texts] = moved
    owners = owner[table.owners[: table.count]]
    return ClauseTable(table.count, owners, table.offsets[: table.count + 1], tests, opaque, {})


def _value_set(coded: CodedTests, column: int, low: int, high: int, piece: int) -> tuple[int, ValueSet]:
    space = coded.space
    if column >= len(space.attributes):
        pattern = space.patterns[column - len(space.attributes)]
        leaf = pattern.leaf if high == MATCH else replace(pattern.leaf, negated=True)
        return pattern.attribute, ValueSet(False, strings=EVERYTHING, patterns=frozenset([PatternTest(leaf)]))
    pieces = [(low, high)]
    if piece >= 0:
        start, end = int(coded.piece_offsets[piece]), int(coded.piece_offsets[piece + 1])
        pieces = list(zip(coded.piece_low[start:end].tolist(), coded.piece_high[start:end].tolist(), strict=True))
    cuts: dict[Kind, list[Cut]] = {kind: [] for kind in Kind}
    for first, last in pieces:
        for kind in Kind:
            track = column * KINDS + kind
            base, end = int(space.base[track]), int(space.base[track]) + 2 * int(space.count[track])
            if first <= end and last >= base:
                cuts[kind] += [
                    _cut(space, column, kind, max(first, base)),
                    _cut(space, column, kind, min(last, end) + 1),
                ]
    numbers, strings, booleans, timestamps = (tuple(cuts[kind]) for kind in Kind)
    return int(space.attributes[column]), ValueSet(pieces[0][0] == 0, numbers, strings, booleans, timestamps)


def _cut(space: CodeSpace, column: int, kind: Kind, code: int) -> Cut:
    track = column * KINDS + kind
    offset = code - int(space.base[track])
    if offset <= 0:
        return BELOW_ALL
    if offset > 2 * int(space.count[track]):
        return ABOVE_ALL
    rank, side = (offset - 1) >> 1, (offset - 1) & 1
    if kind == Kind.STRING:
        return (0, space.strings[column][rank], side)
    if int(space.least[track]) != RANKED:
        value: Any = int(space.least[track]) + rank
    else:
        place = int(space.start[track]) + rank
        rest = float(space.operand_rest[place])
        value = int(space.operand_whole[place])
        value = value if rest == 0 else (rest if abs(rest) >= 2.0**63 else value + rest)
    return (0, bool(value) if kind == Kind.BOOLEAN else value, side)
