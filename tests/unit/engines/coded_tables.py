"""Random clause tables for the engines that match codes, and what they must find: every test of every clause, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ray_pubsub.columns.clause_compiler import Compiler
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.event_codes import EventCodes, encode_events
from ray_pubsub.columns.test_records import Form, Side, TestRecord
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines.papers.coded_segment import CodedSegment
from ray_pubsub.language.shapes import ShapeCache
from ray_pubsub.model.dict_events import from_dicts
from ray_pubsub.model.event_batch import EventBatch
from ray_pubsub.model.values import Kind
from ray_pubsub.settings import Limits

EXPRESSIONS = [
    "a < 3", "a <= 3 and b > 2", "a = 1", "a != 1", "a in (1, 4, 6)", "a not in (2, 3) and b = 5", "a between 2 and 5",
    "a not between 2 and 5", "a is null", "a is not null", "a is null or a > 4", "a is null and b is null and c = 'x'",
    "c = 'x'", "c in ('x', 'zz')", "c != 'y'", "c like 'x%'", "c like '%z'", "c not like '%z' and a > 0", "c >= 'x'",
    "c regexp '^z'", "c is null or c = 'y'", "a = 2 or c = 'x'", "a < 1 or a = 3 or a > 5", "a = 1 or a = 'x'",
    "a >= 1 and a <= 1", "a > 1 and a < 1", "d = true", "d is null or d = false", "true", "a > 2 and b > 2 and c > 'a' and d = true",
    "(a between 1 and 2 or a between 4 and 5) and b < 6", "e > timestamp '2020-01-01 00:00:00'", "e is not null and a = 3",
]  # fmt: skip
"""Sets, holes, kinds, patterns and absence."""


def table_of(expressions: Sequence[str], vocabulary: Vocabulary) -> ClauseTable:
    """The clauses of expressions; a clause's owner is its expression's place."""
    shapes, compiler = ShapeCache(Limits()), Compiler(vocabulary, Limits())
    for owner, text in enumerate(expressions):
        for clause in compiler.compile(shapes.parse(text)).clauses:
            compiler.table.append(owner, clause)
    return compiler.table


def random_table(
    rng: np.random.Generator, count: int, columns: int, most_tests: int, values: int, *, twice: bool = False
) -> tuple[ClauseTable, Vocabulary]:
    """Intervals, half-open ones, points and "any number" over columns a0, a1, …; some clauses have no tests."""
    vocabulary, table = Vocabulary(), ClauseTable.empty()
    vocabulary.attributes.numbers(f"a{column}" for column in range(columns))
    for owner in range(count):
        size = int(rng.integers(0, most_tests + 1))
        chosen = rng.choice(columns, size, replace=twice).tolist()
        table.append(owner, [_random_test(rng, column, values) for column in chosen])
    return table, vocabulary


def _random_test(rng: np.random.Generator, column: int, values: int) -> TestRecord:
    low, high = sorted(rng.integers(0, values, 2).tolist())
    shape = rng.integers(0, 5)
    if shape == 0:
        high = low
    sides = {1: (Side.NONE, Side.AFTER), 2: (Side.AFTER, Side.NONE)}.get(int(shape), (Side.BEFORE, Side.AFTER))
    if shape == 3 and rng.random() < 0.2:
        sides = (Side.NONE, Side.NONE)
    return (column, Form.INTERVAL, int(Kind.NUMBER), *sides, low, 0.0, high, 0.0)


def random_events(rng: np.random.Generator, count: int, columns: int, most: int, values: int) -> EventBatch:
    events: list[dict[str, Any]] = []
    for _ in range(count):
        chosen = rng.choice(columns, int(rng.integers(0, most + 1)), replace=False).tolist()
        events.append({f"a{column}": rng.integers(-1, 2 * values + 1).item() / 2 for column in chosen})
    return from_dicts(events)


def mixed_events(rng: np.random.Generator, count: int) -> EventBatch:
    """For EXPRESSIONS: any attribute may be absent or of an unexpected kind."""
    pool: dict[str, list[Any]] = {
        "a": [0, 1, 2, 3, 4, 5, 6, 2.5, "x", True],
        "b": [2, 3, 5, 6, 7],
        "c": ["x", "xz", "y", "zz", "z", "", 3],
        "d": [True, False, "x"],
        "e": [1, "x"],
    }
    return from_dicts(
        [
            {name: values[rng.integers(len(values))] for name, values in pool.items() if rng.random() < 0.7}
            for _ in range(count)
        ]
    )


def dense(codes: EventCodes, columns: int) -> np.ndarray[Any, Any]:
    """values[event, column], absence as 0."""
    values = np.zeros((len(codes.offsets) - 1, columns), np.int64)
    values[np.repeat(np.arange(len(values)), np.diff(codes.offsets)), codes.column] = codes.code
    return values


def expected(segment: CodedSegment, events: EventBatch, vocabulary: Vocabulary) -> list[list[int]]:
    coded = segment.coded
    values = dense(encode_events(events, coded.space, vocabulary), coded.space.columns)[:, coded.column]
    holds = (values >= coded.low) & (values <= coded.high)
    if coded.pieces is not None:
        for test in np.flatnonzero(coded.pieces >= 0).tolist():
            piece, code = coded.pieces[test], values[:, test, None]
            parts = slice(coded.piece_offsets[piece], coded.piece_offsets[piece + 1])
            holds[:, test] = ((code >= coded.piece_low[parts]) & (code <= coded.piece_high[parts])).any(axis=1)
    failed = np.pad(np.cumsum(~holds, axis=1), ((0, 0), (1, 0)))
    matching = failed[:, coded.offsets[1:]] == failed[:, coded.offsets[:-1]]
    return [sorted(segment.owners[row].tolist()) for row in matching]


def matched(segment: CodedSegment, events: EventBatch) -> list[list[int]]:
    hits = segment.match(events)
    return [sorted(hits.slots[first:last].tolist()) for first, last in pairwise(hits.offsets)]
