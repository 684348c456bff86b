"""The subscriptions of a shard: a match while one is replaced finds the old or the new one, never both or neither."""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pytest

from actors.registry.columns import IntervalColumns, ShardColumns
from actors.server_settings import ServerSettings
from actors.shard.content import ShardContent
from actors.transport.messages import NO_NUMBERS


def texts(*rows: tuple[int, str, str]) -> ShardColumns:
    """Number, id, text."""
    count = len(rows)
    zeros = np.zeros(count, np.int32)
    numbers, ids = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], object)
    return ShardColumns(1, numbers, ids, zeros, zeros, [row[2] for row in rows])


def intervals(*rows: tuple[int, str, int]) -> ShardColumns:
    """Number, id, value."""
    zeros = np.zeros(len(rows), np.int32)
    values = [row[2] for row in rows]
    numbers, ids = np.array([row[0] for row in rows], np.int64), np.array([row[1] for row in rows], object)
    table = pa.table({"id": numbers, "attribute": ["x"] * len(rows), "low": values, "high": values})
    return ShardColumns(
        1,
        NO_NUMBERS,
        np.empty(0, np.int64),
        zeros[:0],
        zeros[:0],
        [],
        [IntervalColumns(numbers, ids, zeros, zeros, table)],
    )


def matching(content: ShardContent, x: int) -> list[str]:
    reader = content.columns.begin_reading()
    found = content.index.match_many([{"x": x}])
    ids = content.columns.resolve(found.subscription_ids).ids
    content.columns.end_reading(reader)
    return sorted(ids.tolist())


@pytest.fixture
def content() -> ShardContent:
    return ShardContent.empty(ServerSettings())


def test_in_and_out(content: ShardContent) -> None:
    content.change(NO_NUMBERS, texts((1, "a", "x = 1"), (2, "b", "x >= 1")))
    content.change(NO_NUMBERS, intervals((3, "c", 1), (4, "d", 2)))
    assert (matching(content, 1), matching(content, 2)) == (["a", "b", "c"], ["b", "d"])
    content.change(np.array([2, 3, 99]), ShardColumns.empty(2))
    assert (matching(content, 1), matching(content, 2), len(content.columns)) == (["a"], ["d"], 2)


def test_what_is_here_already_stays(content: ShardContent) -> None:
    """A shard may receive a change twice, in two ways."""
    content.change(NO_NUMBERS, texts((1, "a", "x = 1")))
    content.change(NO_NUMBERS, intervals((2, "b", 1)))
    for _ in range(2):
        content.change(np.array([1]), texts((1, "a", "x = 1"), (3, "c", "x = 1")))
        content.change(NO_NUMBERS, intervals((2, "b", 1), (4, "d", 1)))
    assert matching(content, 1) == ["a", "b", "c", "d"]
    assert len(content.columns) == 4


@pytest.mark.parametrize("old", [texts, intervals])
@pytest.mark.parametrize("new", [texts, intervals])
def test_replaced_in_one_step(content: ShardContent, old: object, new: object) -> None:
    """While somebody matches all the time."""
    stop, seen = threading.Event(), set()

    def columns(kind: object, number: int) -> ShardColumns:
        return (
            texts((number, "a", "x = 1"), (number + 1, "b", "x = 1"))
            if kind is texts
            else intervals((number, "a", 1), (number + 1, "b", 1))
        )

    content.change(NO_NUMBERS, columns(old, 0))

    def match() -> None:
        while not stop.is_set():
            seen.add(tuple(matching(content, 1)))

    reader = threading.Thread(target=match)
    reader.start()
    for step in range(1, 60):
        content.change(np.array([2 * step - 2, 2 * step - 1]), columns(new if step % 2 else old, 2 * step))
    stop.set()
    reader.join(60)
    assert seen == {("a", "b")}


def test_all_numbers() -> None:
    assert ShardColumns.empty(1).all_numbers.tolist() == []
    assert intervals((3, "c", 1), (4, "d", 2)).all_numbers.tolist() == [3, 4]
