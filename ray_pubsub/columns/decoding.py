"""Decodes codes to records, the inverse of coding.py. Merging blocks needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import ClauseTable, TestColumns, records_of_test
from ray_pubsub.columns.coding import KINDS, MATCH, RANKED, CodedTests, CodeSpace
from ray_pubsub.columns.opaque.opaque_sets import OpaqueSets
from ray_pubsub.columns.test_records import TEST, Form, Side
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.kernels.columns.code_space import CodeIntervals, Pieces
from ray_pubsub.kernels.columns.decoding import decode_intervals, keep_records
from ray_pubsub.kernels.columns.opaque_sets import NEGATED_PATTERN
from ray_pubsub.kernels.columns.renaming import Numbers, mark_used, rename
from ray_pubsub.kernels.columns.runs import OPAQUE, list_records, record_sizes
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, Cut, ValueSet
from ray_pubsub.model.values import Kind

__all__ = ["chosen_tests", "decode_clauses", "join_tables", "move_table"]


def chosen_tests(coded: CodedTests, clauses: NDArray[np.int64]) -> CodedTests:
    """Returns the tests of these clauses, in this order."""
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
    """Returns the table whose coding gives these tests."""
    space = coded.space
    form, column, low, high, starts = _records(coded)
    tests = np.zeros(len(column), dtype=TEST)
    offsets = coded.offsets.astype(np.int64)
    table = ClauseTable(
        len(owners), owners, offsets if starts is None else starts[offsets], tests, _pattern_sets(space)
    )
    kind, plain = np.empty(len(tests), dtype=np.int8), np.empty(len(tests), dtype=np.bool_)
    records = CodeIntervals(column, low, high)
    decode_intervals(records, KINDS, space.attributes, space.row, tests, kind, plain)
    plain |= _string_points(coded, column, low, high, tests, kind, vocabulary)
    if form is not None:
        plain &= form[0] != OPAQUE
        tests["form"] = form[1]
    plain |= _pattern_tests(space, column, high, tests)
    known: dict[tuple[int, int, int, int], Any] = {}
    for record in np.flatnonzero(~plain).tolist():
        test = record if starts is None else int(np.searchsorted(starts, record, side="right")) - 1
        piece = -1 if coded.pieces is None else int(coded.pieces[test])
        key = (int(coded.column[test]), int(coded.low[test]), int(coded.high[test]), piece)
        if key not in known:
            attribute, allowed = _value_set(coded, *key)
            (known[key],) = records_of_test(attribute, allowed, vocabulary, table, runs=False)
        tests[record] = known[key]
    return table


def _records(coded: CodedTests) -> tuple[Any, ...]:
    """Returns for each record its test's form and its own, its column and codes, and where each test's records start. A test without
    pieces is one record; if no test has pieces, nothing needs to be computed."""
    if coded.pieces is None or not (coded.pieces >= 0).any():
        return None, coded.column, coded.low, coded.high, None
    space, count = coded.space, len(coded.column)
    tests = CodeIntervals(coded.column, coded.low, coded.high)
    pieces = Pieces(coded.pieces, coded.piece_offsets, coded.piece_low, coded.piece_high)
    way, size = np.empty(count, np.uint8), np.empty(count, np.int64)
    record_sizes(coded.column, pieces, len(space.attributes), KINDS, space.row, way, size)
    starts = np.concatenate([[0], np.cumsum(size)])
    records = CodeIntervals(*(np.empty(int(starts[-1]), np.int32) for _ in range(3)))
    form = np.empty(len(records.column), np.uint8)
    list_records(tests, pieces, way, starts, records, form)
    return (np.repeat(way, size), form), *records, starts


def _string_points(
    coded: CodedTests, column: NDArray[Any], low: NDArray[Any], high: NDArray[Any], tests: NDArray[Any], kind: NDArray[np.int8],
    vocabulary: Vocabulary,
) -> NDArray[np.bool_]:  # fmt: skip
    """Fills in the records that are equalities of strings, and returns which ones. Each operand of a column is looked up once."""
    space = coded.space
    points: NDArray[np.bool_] = (kind == Kind.STRING) & (low == high)
    chosen = np.flatnonzero(points)
    # Twice the rank, if the bound is a point.
    rank = low[chosen] - space.base[column[chosen] * KINDS + Kind.STRING] - 1
    chosen, rank = chosen[rank & 1 == 0], rank[rank & 1 == 0]
    points[:] = False
    points[chosen] = True
    for place in np.unique(column[chosen]).tolist():
        here = column[chosen] == place
        mine = chosen[here]
        texts = space.strings[place]
        used, which = np.unique(rank[here] >> 1, return_inverse=True)
        numbers = np.array([vocabulary.strings.number(texts[rank]) for rank in used.tolist()])[which.reshape(-1)]
        tests["low_side"][mine], tests["high_side"][mine] = Side.BEFORE, Side.AFTER
        tests["low_whole"][mine] = tests["high_whole"][mine] = numbers
    return points


def join_tables(tables: list[ClauseTable], kept: list[NDArray[np.bool_]] | None = None) -> ClauseTable:
    """Joins several tables into a new one. `kept`: which clauses of each table are taken; all by default."""
    owners, lengths = [], []
    joined = ClauseTable.empty()
    if not tables:
        return joined
    if kept is None:
        kept = [np.ones(table.count, dtype=bool) for table in tables]
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
            used, which = np.unique(part["low_whole"][opaque], return_inverse=True)
            part["low_whole"][opaque] = joined.opaque.extend(table.opaque.take(used))[which.reshape(-1)]
    return joined


def move_table(table: ClauseTable, owner: NDArray[np.int64], old: Vocabulary, new: Vocabulary) -> ClauseTable:
    """Moves a table to another vocabulary and other owners (owner[o] replaces o). The new vocabulary only gets the names that the table
    uses. The records are changed in place: do not use the given table afterwards."""
    tests, opaque = table.tests[: table.test_count], table.opaque
    used = Numbers(*(np.zeros(count, np.bool_) for count in (len(old.attributes), len(old.strings), len(opaque))))
    mark_used(tests, used)
    numbers = np.zeros(len(old.attributes), dtype=np.int32)
    for number in np.flatnonzero(used.attributes).tolist():
        numbers[number] = new.attributes.number(old.attributes.texts[number], old.attributes.terms.get(number))
    if not used.sets.all():
        opaque = opaque.take(np.flatnonzero(used.sets))
    used.strings[opaque.strings()] = True
    named = np.flatnonzero(used.strings)
    moved = np.zeros(len(old.strings), dtype=np.int64)
    moved[named] = new.strings.numbers_of_distinct(list(map(old.strings.texts.__getitem__, named.tolist())))
    rename(tests, Numbers(numbers, moved, np.cumsum(used.sets) - 1))
    owners = owner[table.owners[: table.count]]
    return ClauseTable(
        table.count,
        owners,
        table.offsets[: table.count + 1],
        tests,
        opaque.moved(numbers, moved) if len(opaque) else opaque,
    )


def _pattern_sets(space: CodeSpace) -> OpaqueSets:
    """Returns two sets for each pattern column: the strings that match, and those that do not."""
    count = 2 * len(space.patterns)
    if not count:
        return OpaqueSets.empty()
    pieces = np.zeros(count, TEST)
    pieces["kind"], pieces["low_side"], pieces["high_side"] = Kind.STRING, Side.NONE, Side.NONE
    every = np.arange(count + 1)
    keys = np.repeat(space.patterns.keys, 2) | (every[:-1] & 1) * NEGATED_PATTERN
    return OpaqueSets(np.repeat(space.patterns.attributes, 2), every, pieces, every, keys)


def _pattern_tests(
    space: CodeSpace, column: NDArray[Any], high: NDArray[Any], tests: NDArray[Any]
) -> NDArray[np.bool_]:
    """Fills in the records that are tests of patterns, and returns which ones."""
    found: NDArray[np.bool_] = column >= len(space.attributes)
    if len(space.patterns):
        pattern = column[found] - len(space.attributes)
        tests[found] = np.zeros(1, TEST)
        tests["attribute"][found] = space.patterns.attributes[pattern]
        tests["form"][found] = Form.OPAQUE
        tests["low_whole"][found] = 2 * pattern + (high[found] != MATCH)
    return found


def _value_set(coded: CodedTests, column: int, low: int, high: int, piece: int) -> tuple[int, ValueSet]:
    space = coded.space
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
    numbers, strings, booleans, timestamps, lists = (tuple(cuts[kind]) for kind in Kind)
    return int(space.attributes[column]), ValueSet(pieces[0][0] == 0, numbers, strings, booleans, timestamps, lists)


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
