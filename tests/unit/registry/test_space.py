"""Space of removed subscriptions is given back, in the file and in memory, by the thread that makes changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.registry.registry import Registry
from actors.registry.store import store as store_module
from actors.storage import sqlite_file
from tests.unit.registry.test_opening import GIVEN, Alone

COUNT, ROUNDS = 3_000, 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(store_module, "FEWEST_DEAD", 100)
    monkeypatch.setattr(store_module, "KEPT_CHANGES", COUNT)
    monkeypatch.setattr("actors.registry.store.interval_blocks.BLOCK_SIZE", 256)
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_AFTER", 50)
    monkeypatch.setattr(sqlite_file, "FEWEST_FREE", 16)
    yield


def intervals(first: int) -> pa.Table:
    ids = list(range(first, first + COUNT))
    return pa.table({"id": ids, "attribute": ["x"] * COUNT, "low": ids, "high": ids})


def size(registry: Registry, folder: Path) -> int:
    """Of the database, with all of its log in it."""
    store = registry._open.store
    registry._open.writer.run(lambda: None, 60)  # after what is queued
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return (folder / "registry.sqlite").stat().st_size


@pytest.mark.usefixtures("small")
def test_loading_and_removing_again_and_again_takes_no_more_space(tmp_path: Path) -> None:
    registry = Registry(Alone(), str(tmp_path), GIVEN)
    registry.subscribe_intervals(intervals(0), "desk")
    fresh = size(registry, tmp_path)
    for number in range(ROUNDS):
        first = number * COUNT
        assert registry.unsubscribe_many(list(range(first, first + COUNT))) == COUNT
        registry.subscribe_intervals(intervals(first + COUNT), "desk")
    store = registry._open.store
    for _ in range(100):
        registry._open.writer.run(lambda: None, 60)
        if not store.untrimmed:
            break
    assert size(registry, tmp_path) < 1.5 * fresh
    assert store._connection.execute("SELECT count(*) FROM dead").fetchone()[0] < COUNT // 2
    assert store._connection.execute("SELECT sum(count) FROM changes").fetchone()[0] <= 3 * COUNT
    last = ROUNDS * COUNT
    assert registry.get(last).expression == f"x = {last}"
    assert store.counts().subscriptions == COUNT
    registry.unsubscribe_many([last + 1])
    registry.close()


def memory(registry: Registry) -> int:
    """The bytes of the arrays of all blocks, with the larger arrays that some of them are part of."""
    arrays: dict[int, int] = {}
    for _, block in registry._open.store._known.blocks.items():
        for name in block.__dataclass_fields__:
            array = getattr(block, name)
            while isinstance(array.base, np.ndarray):
                array = array.base
            arrays[id(array)] = array.nbytes
    return sum(arrays.values())


@pytest.mark.usefixtures("small")
def test_memory_of_removed_intervals_is_given_back(tmp_path: Path) -> None:
    registry = Registry(Alone(), str(tmp_path), GIVEN)
    registry.subscribe_intervals(intervals(0), "desk")
    fresh, kept = memory(registry), 256  # the last of the blocks, or parts of the last two
    registry.unsubscribe_many(list(range(COUNT - kept)))
    store = registry._open.store
    while store._connection.execute("SELECT count(*) FROM dead").fetchone()[0] > kept // 3:
        registry._open.writer.run(lambda: None, 60)
    assert store.counts().subscriptions == kept
    assert memory(registry) <= fresh * 2 * kept / COUNT
    registry.unsubscribe_many(list(range(COUNT - kept, COUNT)))
    while store._connection.execute("SELECT count(*) FROM dead").fetchone()[0]:
        registry._open.writer.run(lambda: None, 60)
    assert memory(registry) == 0
    registry.close()


@pytest.mark.usefixtures("small")
def test_what_is_left_in_trimmed_blocks_stays(tmp_path: Path) -> None:
    registry = Registry(Alone(), str(tmp_path), GIVEN)
    registry.subscribe_intervals(intervals(0), "desk")
    registry.unsubscribe_many([id for id in range(COUNT) if id % 3])
    store = registry._open.store
    while store._connection.execute("SELECT count(*) FROM dead").fetchone()[0]:
        registry._open.writer.run(lambda: None, 60)
    assert [each.id for each in registry.page("desk", limit=10_000).items] == list(range(0, COUNT, 3))
    registry.close()
    again = Registry(Alone(), str(tmp_path), GIVEN)
    assert len(again.page("desk", limit=10_000).items) == COUNT // 3
    assert again.get(0).expression == "x = 0"
    again.close()


def test_space_that_is_free_is_given_back_to_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_AFTER", 100)
    file = sqlite_file.SqliteFile(tmp_path / "store.sqlite", 1, 1)
    file.writer.execute("create table t (k integer primary key, v blob)")
    file.writer.executemany("insert into t values (?, ?)", [(number, bytes(9000)) for number in range(1000)])
    file.committed()
    file.writer.execute("delete from t")
    file.committed()
    file.give_back_space()
    file.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (tmp_path / "store.sqlite").stat().st_size < 2_000_000
    file.close()
