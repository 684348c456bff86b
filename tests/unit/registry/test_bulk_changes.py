"""Many subscriptions in one transaction of the registry's store: texts, intervals, removals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from actors.registry.changes import (
    Unsubscribe,
)
from actors.registry.interval_load import read_intervals
from actors.registry.store.store import RegistryStore
from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    SettingError,
    TableError,
)
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotChooser, Route
from ray_pubsub.sharding.placement import Placement
from tests.unit.registry.store_changes import intervals, put_intervals, put_texts


def test_a_table_of_texts() -> None:
    store = RegistryStore()
    rows = [(1, "a", "x = 1"), (2, "b", "x = 2"), (1, "c", "x = 3")]
    answer = put_texts(store, rows, [0, 1, 1], [Route(("x",)), UNIVERSAL, Route(("y",))])
    assert (answer.first, answer.count) == (1, 2)
    assert answer.kept is not None
    assert answer.kept.tolist() == [1, 2]
    assert (store.get(1).expression, store.get(1).shard, store.get(1).route) == ("x = 3", 1, Route(("y",)))
    assert store.subscribers_after() == [(1, "b"), (2, "c")]
    again = put_texts(store, rows[1:2])
    assert (again.gone.numbers.tolist(), again.gone.shards.tolist()) == ([1], [1])
    assert store.route(int(again.gone.routes[0])) == UNIVERSAL


def test_many_are_removed_in_one_step() -> None:
    store = RegistryStore()
    put_texts(store, [("a", "d", "x = 1"), ("b", "d", "x = 2")], [0, 1])
    put_intervals(store, read_intervals(intervals([1, 2, 3]), "d"), [1, 1, 0])
    answer = store.commit_removal([3, "b", "nobody", 1, "b"])
    assert (answer.count, answer.version, store.version) == (3, 3, 3)
    gone = sorted(zip(answer.gone.numbers.tolist(), answer.gone.shards.tolist(), strict=True))
    assert gone == [(2, 1), (3, 1), (5, 0)]
    assert store.shards_of(["a", "b", 1, 2, 3]) == {"a": 0, 2: 1}
    changes = store.changes_since(2, 1)
    assert changes is not None
    assert changes.removed.tolist() == [2, 3]
    nothing = store.commit_removal(["nobody"])
    assert (nothing.count, nothing.version, store.version) == (0, 3, 3)


def test_tables_that_cannot_be_read() -> None:
    with pytest.raises(TableError, match="subscriber"):
        read_intervals(intervals([1]))
    with pytest.raises(TableError, match="nulls"):
        read_intervals(intervals([1, 2], subscriber=["a", None]))
    with pytest.raises(TableError, match="strings"):
        read_intervals(intervals([1], subscriber=[5]))
    with pytest.raises(TableError, match="empty"):
        read_intervals(intervals([1], subscriber=[""]))
    with pytest.raises(SettingError, match="subscriber"):
        read_intervals(intervals([1]), "")


def test_intervals_that_are_interleaved_and_bad_ones_among_them() -> None:
    table = pa.table(
        {
            "id": ["a", "b", "a", "bad", "b", "c"],
            "subscriber": ["d1", "d2", "d1", "d3", "d2", "d4"],
            "attribute": ["x", "x", "y", "x", "y", "z"],
            "low": [1.0, 2.0, 3.0, float("nan"), 4.5, None],
            "high": [1.0, 2.0, 3.0, 9.0, 5.0, 6.0],
        }
    )
    load = read_intervals(table)
    assert load.ids.tolist() == ["a", "b", "c"]
    assert [(each.position, each.id) for each in load.rejections] == [(3, "bad")]
    store = RegistryStore()
    put_intervals(store, load, [0, 1, 0])
    assert [store.get(id).expression for id in "abc"] == ["x = 1 and y = 3", "x = 2 and y between 4.5 and 5", "z <= 6"]
    assert [store.get(id).subscriber for id in "abc"] == ["d1", "d2", "d4"]
    assert [columns.table.column("id").to_pylist() for columns in store.snapshot_for_shard(0).intervals] == [[1, 1, 3]]


def test_what_a_shard_loads_matches_as_what_was_given() -> None:
    random = np.random.default_rng(5)
    count = 500
    table = pa.table(
        {
            "id": pa.array(np.repeat(np.arange(count), 2)),
            "attribute": pa.array([f"a{number}" for number in random.integers(0, 4, 2 * count)]),
            "low": pa.array(random.integers(0, 50, 2 * count)),
            "high": pa.array(random.integers(50, 100, 2 * count)),
            "low_closed": pa.array(random.random(2 * count) < 0.5),
        }
    )
    store, whole = RegistryStore(), MatchIndex()
    load = read_intervals(table, "desk")
    routes = PivotChooser().routes_of_rows(load.predicates)
    answer = put_intervals(store, load, Placement(2).place_many(routes, load.ids), routes=routes)
    whole.add_predicates(table)
    gone = list(range(0, count, 7))
    store.commit([Unsubscribe(id) for id in gone])
    whole.remove_many(gone)
    parts = []
    for shard in range(2):
        index = MatchIndex()
        for columns in store.snapshot_for_shard(shard).intervals:
            assert index.add_predicates(columns.table).added == len(columns.numbers)
        parts.append(index)
    events = [{f"a{number}": int(value) for number, value in enumerate(random.integers(0, 100, 4))} for _ in range(50)]
    for event in events:
        found = sorted(int(number) - answer.first for index in parts for number in index.match(event))
        assert found == sorted(whole.match(event))
