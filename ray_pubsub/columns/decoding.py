"""From codes back to records: what merging blocks needs. The inverse of coding.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ray_pubsub.columns.clause_table import TEST, ClauseTable, Form, Side, TestColumns, test_record
from ray_pubsub.columns.coding import KINDS, NO_MATCH, RANKED, CodedTests, CodeSpace
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.language.value_set import ABOVE_ALL, BELOW_ALL, EVERYTHING, Cut, PatternTest, ValueSet
from ray_pubsub.model.values import Kind

__all__ = ["decode_clauses", "join_tables"]


def decode_clauses(coded: CodedTests, owners: NDArray[np.int64], vocabulary: Vocabulary) -> ClauseTable:
    """The table that codes to these tests."""
    space = coded.space
    tests = np.zeros(len(coded.column), dtype=TEST)
    table = ClauseTable(len(owners), owners, coded.offsets.astype(np.int64), tests, [], {})
    attribute_columns = len(space.attributes)
    on_attribute = coded.column < attribute_columns
    column = np.where(on_attribute, coded.column, 0).astype(np.int64)
    bases = space.base.reshape(-1, KINDS)
    kind = (bases[column] <= coded.low[:, None]).sum(axis=1) - 1  # the run of codes that `low` lies in; -1 is absence
    track = column * KINDS + np.maximum(kind, 0)
    base, last = space.base[track], space.base[track] + 2 * space.count[track]
    plain = on_attribute & (kind >= 0) & (coded.high <= last) & (kind != Kind.STRING)
    if coded.pieces is not None:
        plain &= coded.pieces < 0
    tests["attribute"][on_attribute] = space.attributes[column[on_attribute]]
    tests["form"], tests["kind"] = Form.INTERVAL, np.maximum(kind, 0)
    _bounds(space, tests, track, coded.low - base, coded.high + 1 - base, plain)
    known: dict[tuple[int, int, int, int], Any] = {}
    for test in np.flatnonzero(~plain).tolist():
        piece = -1 if coded.pieces is None else int(coded.pieces[test])
        key = (int(coded.column[test]), int(coded.low[test]), int(coded.high[test]), piece)
        if key not in known:
            attribute, allowed = _value_set(coded, *key)
            known[key] = test_record(attribute, allowed, vocabulary, table)
        tests[test] = known[key]
    return table


def join_tables(tables: list[ClauseTable], kept: list[NDArray[np.bool_]]) -> ClauseTable:
    """One table of the clauses of several that are to be kept."""
    owners, lengths, tests = [], [], []
    joined = ClauseTable.empty()
    for table, keep in zip(tables, kept, strict=True):
        length = np.diff(table.offsets[: table.count + 1])
        part = table.tests[: table.test_count][np.repeat(keep, length)]
        opaque = np.flatnonzero(part["form"] == Form.OPAQUE)
        if len(opaque):
            used = np.unique(part["low_whole"][opaque])
            numbers = np.zeros(int(used[-1]) + 1, dtype=np.int64)
            for number in used.tolist():
                pair = table.opaque[number]
                numbers[number] = joined.opaque_numbers.setdefault(pair, len(joined.opaque))
                if numbers[number] == len(joined.opaque):
                    joined.opaque.append(pair)
            part["low_whole"][opaque] = numbers[part["low_whole"][opaque]]
        owners.append(table.owners[: table.count][keep])
        lengths.append(length[keep])
        tests.append(part.records() if isinstance(part, TestColumns) else part)
    joined.owners, joined.tests = np.concatenate(owners), np.concatenate(tests)
    joined.offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)
    joined.count = len(joined.owners)
    return joined


def _bounds(
    space: CodeSpace,
    tests: NDArray[Any],
    track: NDArray[np.int64],
    low: NDArray[Any],
    high: NDArray[Any],
    plain: NDArray[np.bool_],
) -> None:
    """Offset 2r + 1 + side in a track is the cut at that side of operand r; 0 and 2k + 1 are no bound."""
    for cut, side, whole, rest in (
        (low, "low_side", "low_whole", "low_rest"),
        (high, "high_side", "high_whole", "high_rest"),
    ):
        unbounded = (cut <= 0) | (cut > 2 * space.count[track])
        tests[side] = np.where(unbounded, Side.NONE, (cut - 1) & 1)
        chosen = np.flatnonzero(plain & ~unbounded)
        rank = (cut[chosen] - 1) >> 1
        tracks = track[chosen]
        ranked = space.least[tracks] == RANKED
        place = np.where(ranked, space.start[tracks] + rank, 0)
        if len(space.operand_whole):
            wholes, rests = space.operand_whole[place], space.operand_rest[place]
        else:
            wholes, rests = np.zeros(len(place), np.int64), np.zeros(len(place))
        tests[whole][chosen] = np.where(ranked, wholes, np.where(ranked, 0, space.least[tracks]) + rank)
        tests[rest][chosen] = np.where(ranked, rests, 0.0)


def _value_set(coded: CodedTests, column: int, low: int, high: int, piece: int) -> tuple[int, ValueSet]:
    space = coded.space
    if column >= len(space.attributes):
        pattern = space.patterns[column - len(space.attributes)]
        leaf = pattern.leaf if low != NO_MATCH else replace(pattern.leaf, negated=True)
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
