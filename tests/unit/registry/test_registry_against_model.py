"""Random changes of a registry's store against a dict: what is there, where it is, and what a shard that lags behind receives."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.registry.changes import MoveSubscriptions, Subscribe, Unsubscribe
from actors.registry.columns import ShardColumns, StoredSubscription, TextColumns
from actors.registry.interval_load import read_intervals
from actors.registry.store import interval_blocks
from actors.registry.store import store as store_module
from actors.registry.store.store import RegistryStore
from ray_pubsub.errors import UnknownSubscriptionError
from ray_pubsub.model.metadata import Metadata, data_of, tags_of
from ray_pubsub.sharding.pivots import PivotColumn, Route
from ray_pubsub.sharding.placement import part_of
from ray_pubsub.sharding.rebalance import Group, Move
from tests.examples import scaled
from tests.stores import open_registry_store
from tests.temporary_postgres import TemporaryPostgres

SHARDS = 2
IDS: list[str | int] = ["a", "b", "1", 1, 2, -3, "\u00e9\0"]
NAMES = ["desk-1", "desk-2", "\u00e9"]
CARRIED = [None, Metadata('{"title":"\\u0000 é"}', ("a", "\\i5")), Metadata(None, ("a",)), Metadata("1", ())]
ROUTES = [Route(("x",)), Route(("x", "y")), Route(("y",)), Route((), True), Route(())]

ids = st.sampled_from(IDS)
names = st.sampled_from(NAMES)
shards = st.integers(0, SHARDS - 1)
routes = st.sampled_from(ROUTES)
# Ids of a table of intervals are of one type.
table_ids = st.lists(st.sampled_from(["a", "b", "c", "1"])) | st.lists(st.sampled_from([1, 2, 3, -3]))
rows = st.lists(st.tuples(ids, names, shards, routes), max_size=6)
STEPS = st.one_of(
    st.tuples(st.just("group"), st.lists(st.tuples(ids, names, shards, routes) | ids, max_size=5)),
    st.tuples(st.just("texts"), rows),
    st.tuples(st.just("intervals"), table_ids.flatmap(lambda found: st.tuples(st.just(found), names, shards, routes))),
    st.tuples(st.just("move"), st.tuples(st.lists(ids, min_size=3), shards, shards)),
    st.tuples(st.just("removal"), st.lists(ids)),
    st.tuples(st.just("trim"), st.none()),
    st.tuples(st.just("reopen"), st.none()),
    st.tuples(st.just("catch up"), shards),
)


def carried(place: int) -> Metadata | None:
    return CARRIED[place % len(CARRIED)]


@dataclass
class Stored:
    number: int
    subscriber: str
    kind: str
    text: str
    shard: int
    route: Route
    metadata: Metadata | None


@dataclass
class Replica:
    """A shard: what it has, as of a version."""

    version: int = 0
    there: dict[int, tuple[Any, str, str]] = field(default_factory=dict)

    def put(self, columns: ShardColumns, names: dict[int, str]) -> None:
        texts = zip(
            columns.numbers.tolist(),
            columns.ids.tolist(),
            columns.subscribers.tolist(),
            columns.expressions,
            strict=True,
        )
        for number, identity, code, text in texts:
            self.there[number] = (identity, names[code], text)
        for block in columns.intervals:
            owners = Counter(block.table.column("id").to_pylist())
            assert sorted(owners) == block.numbers.tolist()
            for number, identity, code in zip(
                block.numbers.tolist(), block.ids.tolist(), block.subscribers.tolist(), strict=True
            ):
                self.there[number] = (identity, names[code], f"{owners[number]} rows")
        self.version = columns.version


class Model:
    def __init__(self, store: RegistryStore) -> None:
        self.store = store
        self.there: dict[Any, Stored] = {}
        self.next = 1
        self.replicas = [Replica() for _ in range(SHARDS)]

    def put(self, identity: Any, *stored: Any) -> int:
        self.there[identity] = Stored(self.next, *stored)
        self.next += 1
        return self.next - 1

    def group(self, items: list[Any]) -> None:
        changes: list[Any] = []
        for place, item in enumerate(items):
            changes.append(
                Subscribe(item[0], item[1], f"x = {place}", item[2], item[3], metadata=carried(place))
                if isinstance(item, tuple)
                else Unsubscribe(item)
            )
        before, version = dict(self.there), self.store.version
        answers = self.store.commit(changes)
        for change, answer in zip(changes, answers, strict=True):
            old = self.there.get(change.id)
            gone = None if old is None else (old.number, old.shard, old.route)
            assert (None if answer.gone is None else (answer.gone.number, answer.gone.shard, answer.gone.route)) == gone
            if isinstance(change, Subscribe):
                number = self.put(
                    change.id, change.subscriber, "text", change.expression, change.shard, change.route, change.metadata
                )
                assert answer.number == number
            else:
                assert answer.found == (self.there.pop(change.id, None) is not None)
        changed = any(isinstance(change, Subscribe) for change in changes) or before != self.there
        assert self.store.version == version + changed

    def texts(self, items: list[Any]) -> None:
        columns = TextColumns(
            [item[0] for item in items],
            [item[1] for item in items],
            [f"y = {n}" for n in range(len(items))],
            metadata=None if len(items) == 1 else [carried(place + 1) for place in range(len(items))],
        )
        placed = np.array([item[2] for item in items], np.int32)
        answer = self.store.commit_texts(columns, placed, PivotColumn.of([item[3] for item in items]))
        last = {item[0]: place for place, item in enumerate(items)}
        kept = sorted(last.values())
        self.check_gone(answer, [items[place][0] for place in kept])
        assert answer.first == self.next
        assert answer.count == len(kept)
        assert (list(range(len(items))) if answer.kept is None else answer.kept.tolist()) == kept
        for place in kept:
            identity, name, shard, route = items[place]
            metadata = None if len(items) == 1 else carried(place + 1)
            self.put(identity, name, "text", f"y = {place}", shard, route, metadata)

    def intervals(self, found: tuple[list[Any], str, int, Route]) -> None:
        given, name, shard, route = found
        kind = pa.int64() if given and isinstance(given[0], int) else pa.string()
        table = pa.table(
            {
                "id": pa.array(given, kind),
                "attribute": pa.array([f"a{place}" for place in range(len(given))], pa.string()),
                "low": pa.array(range(len(given)), pa.int64()),
                "high": pa.array(range(len(given)), pa.int64()),
            }
        )
        load = read_intervals(table, name)
        distinct = list(dict.fromkeys(given))
        load.metadata = [carried(place) for place in range(len(distinct))]
        column = PivotColumn(np.ones(len(distinct), np.int32), [Route(("unused",)), route])
        answer = self.store.commit_intervals(load, np.full(len(distinct), shard, np.int32), column)
        self.check_gone(answer, distinct)
        for place, identity in enumerate(distinct):
            self.put(identity, name, "intervals", f"{given.count(identity)} rows", shard, route, carried(place))

    def removal(self, given: list[Any]) -> None:
        answer = self.store.commit_removal(given)
        distinct = list(dict.fromkeys(given))
        self.check_gone(answer, distinct)
        assert answer.count == sum(self.there.pop(identity, None) is not None for identity in distinct)

    def check_gone(self, answer: Any, replaced: list[Any]) -> None:
        expected = {
            (self.there[identity].number, self.there[identity].shard, self.there[identity].route)
            for identity in replaced
            if identity in self.there
        }
        columns = (answer.gone.numbers, answer.gone.shards, map(self.store.route, answer.gone.routes.tolist()))
        assert set(zip(*(list(column) for column in columns), strict=True)) == expected
        assert len(answer.gone.numbers) == len(expected)

    def move(self, found: tuple[list[Any], int, int]) -> None:
        given, source, target = found
        numbers = [self.there[identity].number for identity in given if identity in self.there]
        (answer,) = self.store.commit([MoveSubscriptions([*numbers, *self.dead(), 10**9], source, target)])
        moved = 0
        for identity in set(given) & set(self.there):
            if self.there[identity].shard == source:
                self.there[identity].shard = target
                moved += 1
        assert answer.moved == moved

    def dead(self) -> set[int]:
        return set(range(1, self.next)) - {stored.number for stored in self.there.values()}

    def catch_up(self, shard: int) -> None:
        replica, names = self.replicas[shard], dict(self.store.subscribers_after(0))
        changes = self.store.changes_since(replica.version, shard)
        if changes is None:
            replica.there = {}
            replica.put(self.store.snapshot_for_shard(shard), names)
        else:
            assert changes.since == replica.version
            for number in changes.removed.tolist():
                replica.there.pop(number, None)
            replica.put(changes.added, names)
        assert replica.version == self.store.version
        assert replica.there == self.on(shard)

    def on(self, shard: int) -> dict[int, tuple[Any, str, str]]:
        return {
            stored.number: (identity, stored.subscriber, stored.text)
            for identity, stored in self.there.items()
            if stored.shard == shard
        }

    def check(self) -> None:
        store = self.store
        for identity in IDS:
            if identity in self.there:
                self.check_one(identity, store.get(identity))
            else:
                with pytest.raises(UnknownSubscriptionError):
                    store.get(identity)
        for name in NAMES:
            own = sorted(
                (stored.number, identity) for identity, stored in self.there.items() if stored.subscriber == name
            )
            paged: list[tuple[int, Any]] = []
            after: int | None = 0
            while after is not None:
                page = store.page(name, after, 2)
                assert len(page.items) <= 2
                paged += [(item.number, item.id) for item in page.items]
                after = page.after
            assert [(number, type(identity), identity) for number, identity in paged] == [
                (number, type(identity), identity) for number, identity in own
            ]
        self.check_metadata()
        names = dict(store.subscribers_after(0))
        for shard in range(SHARDS):
            replica = Replica()
            replica.put(store.snapshot_for_shard(shard), names)
            assert replica.there == self.on(shard)
        counted = Counter((stored.shard, stored.route) for stored in self.there.values())
        assert {(shard, route): count for shard, route, count in store.route_counts()} == counted
        grouped = Counter(
            Group(stored.route.home, part_of(identity), stored.shard, 0) for identity, stored in self.there.items()
        )
        assert {group._replace(subscriptions=0): group.subscriptions for group in store.groups()} == grouped
        everything, parts = Move("x", (), 0, 1, 0), Move("x", (part_of("a"), part_of(1)), 0, 1, 0)
        members = store.members([everything, parts])
        on_x = {i: s.number for i, s in self.there.items() if s.route.home == "x" and s.shard == 0}
        assert members[0].tolist() == sorted(on_x.values())
        assert members[1].tolist() == sorted(n for i, n in on_x.items() if part_of(i) in parts.parts)
        some = {s.number: s.shard for place, s in enumerate(self.there.values()) if place % 2}
        for shard in range(SHARDS):
            replica = Replica()
            replica.put(store.columns_of(np.array(list(some), np.int64), shard), names)
            assert sorted(replica.there) == sorted(number for number, where in some.items() if where == shard)
        counts = store.counts()
        kinds = Counter(stored.kind for stored in self.there.values())
        assert (counts.subscriptions, counts.as_text, counts.as_intervals, counts.version) == (
            len(self.there),
            kinds["text"],
            kinds["intervals"],
            store.version,
        )

    def check_metadata(self) -> None:
        store = self.store
        expected = [self.there[each].metadata if each in self.there else None for each in IDS]
        assert store.metadata(IDS) == expected
        for tag in ("a", "\\i5", "none"):
            own = sorted(
                (stored.number, identity)
                for identity, stored in self.there.items()
                if stored.metadata is not None and tag in stored.metadata.tags
            )
            assert store.tagged(tag) == [identity for _, identity in own]
            mine = [identity for _, identity in own if self.there[identity].subscriber == NAMES[0]]
            assert [item.id for item in store.page(NAMES[0], 0, 100, tag).items] == mine
        (rows,) = store._connection.execute("SELECT count(*) FROM metadata").fetchone()
        assert rows == sum(stored.metadata is not None for stored in self.there.values())
        (rows,) = store._connection.execute("SELECT count(*) FROM tags").fetchone()
        assert rows == sum(len(tags_of(stored.metadata)) for stored in self.there.values())

    def check_one(self, identity: Any, found: StoredSubscription) -> None:
        stored = self.there[identity]
        assert (found.number, found.subscriber, found.kind) == (stored.number, stored.subscriber, stored.kind)
        assert (found.id, type(found.id)) == (identity, type(identity))
        assert (found.shard, found.route) == (stored.shard, stored.route)
        assert (found.data, found.tags) == (data_of(stored.metadata), tags_of(stored.metadata))
        assert stored.text == (found.expression if stored.kind == "text" else f"{found.expression.count('=')} rows")


@pytest.fixture(autouse=True, scope="module")
def small_blocks() -> Iterator[None]:
    """So that there are several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval_blocks, "BLOCK_SIZE", 2)
        yield


def run(open_store: Callable[[], RegistryStore], steps: list[tuple[str, Any]], kept: bool = True) -> None:
    model = Model(open_store())
    try:
        for step, argument in steps:
            if step == "reopen":
                if kept:
                    version = model.store.version
                    model.store.close()
                    model.store = open_store()
                    assert model.store.version == version
            elif step == "trim":
                model.store.trim()
            else:
                getattr(model, step.replace(" ", "_"))(argument)
            model.check()
            model.catch_up(0)  # this shard at once, the other one now and then
        for shard in range(SHARDS):
            model.catch_up(shard)
    finally:
        model.store.close()


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=scaled(30))
def test_in_memory(steps: list[tuple[str, Any]]) -> None:
    run(RegistryStore, steps, kept=False)


@given(st.lists(STEPS, max_size=12))
@settings(max_examples=scaled(30))
def test_in_a_file_that_remembers_only_a_few_versions(steps: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registry.db"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "KEPT_VERSIONS", 3)
            run(lambda: RegistryStore(path), steps)


@given(steps=st.lists(STEPS, max_size=12))
@settings(max_examples=scaled(6))
def test_in_postgresql(postgres: TemporaryPostgres, steps: list[tuple[str, Any]]) -> None:
    url = postgres.url(postgres.new_schema())
    run(lambda: open_registry_store(url), steps)
