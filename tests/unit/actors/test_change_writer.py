"""Changes on their way to the server, without a cluster: what placement counts, what shards have and what coordinators know is always what
the store has; what is repeated is done once; what fails leaves nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import rebalancing
from actors.change_writer import ChangeWriter
from actors.coordinator_leases import CoordinatorLeases
from actors.interval_blocks import read_intervals
from actors.messages import News, Note, RouteCount, ShardPush
from actors.rebalancing import Mover
from actors.registry_bulk import TextColumns
from actors.registry_changes import Answer, PutRule, RemoveRule, Subscribe, Unsubscribe
from actors.registry_columns import ShardChanges, ShardColumns
from actors.registry_store import RegistryStore
from actors.shard_content import all_numbers
from ray_pubsub.errors import RayPubSubError, SettingError, StoreError, UnavailableError
from ray_pubsub.sharding import placement as placement_module
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotColumn, Route
from ray_pubsub.sharding.placement import Placement, part_of
from ray_pubsub.sharding.rebalance import Move

SHARDS = 3
LINEAGE = "lineage"
ROUTES = [Route(("x",)), Route(("x", "y")), Route(("y",)), Route((), True), Route(())]
TIMEOUT = 60.0


class Others:
    """Shards that keep numbers, and a coordinator that keeps what it is told."""

    def __init__(self, store: RegistryStore) -> None:
        self.store = store
        self.numbers: list[set[int]] = [set() for _ in range(SHARDS)]
        self.taken_over: list[set[int]] = [set() for _ in range(SHARDS)]
        self.versions = [store.version] * SHARDS
        self.routes: Counter[tuple[int, Route]] = Counter()
        self.names: dict[int, str] = {}
        self.rules: dict[Any, tuple[str, str]] = {}
        self.needed = [0] * SHARDS
        self.notes: list[News] = []
        self.failing = False
        """Whether shards cannot take anything over."""

    def push(self, shard: int, push: ShardPush) -> None:
        if push.changes.since > self.versions[shard]:  # a shard that lacks something asks for it
            self.catch_up(shard, push.lineage, push.changes.version)
        elif push.changes.version > self.versions[shard]:
            self._change(shard, push.changes)

    def catch_up(self, shard: int, lineage: str, version: int) -> None:
        changes = self.store.changes_since(self.versions[shard], shard)
        assert changes is not None
        self._change(shard, changes)

    def tell(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
        news = note.news
        self.notes.append(news)
        for shard, route, count in news.added:
            self.routes[shard, route] += count
        for shard, route, count in news.removed:
            self.routes[shard, route] -= count
            assert self.routes[shard, route] >= 0
        for change in news.rules:
            self.rules.pop(change.id, None)
            if change.expression is not None:
                self.rules[change.id] = (change.level, change.expression)
        self.names.update(news.subscribers)
        for shard in news.touched:
            self.needed[shard] = news.version
        return dict.fromkeys(coordinators, True)

    def take_over(self, shard: int, columns: ShardColumns) -> None:
        if self.failing:
            raise UnavailableError(f"shard {shard}", "is away")
        self.taken_over[shard].update(all_numbers(columns).tolist())

    def let_go(self, shard: int, lineage: str, version: int) -> int:
        self.catch_up(shard, lineage, version)
        self.taken_over[shard].clear()
        return 0

    def bring_up(self, shard: int, lineage: str, version: int) -> int:
        self.catch_up(shard, lineage, version)
        return self.versions[shard]

    def _change(self, shard: int, changes: ShardChanges) -> None:
        self.numbers[shard] -= set(changes.removed.tolist())
        self.numbers[shard] |= set(all_numbers(changes.added).tolist())
        self.versions[shard] = changes.version


class World:
    def __init__(self) -> None:
        self.store = RegistryStore(role="registry")
        self.others = Others(self.store)
        leases = CoordinatorLeases(1, 5.0)
        leases.expect(0)
        self.writer = ChangeWriter(self.store, Placement(SHARDS), LINEAGE, leases, self.others)
        self.mover = Mover(self.writer, self.others, leases.wait_until_known, TIMEOUT)
        self.writer.state_for_coordinator(0, 1)
        self.mover.settle()

    def group(self, *changes: Any) -> list[Any]:
        """What became of each, in one transaction or several."""
        futures = self.writer.committer.submit_many(changes)
        return [future.exception(TIMEOUT) or future.result(TIMEOUT) for future in futures]

    def texts(self, ids: list[Any], routes: list[Route], request: str | None = None) -> Any:
        columns = TextColumns(ids, ["desk"] * len(ids), ["x = 1"] * len(ids))
        return self.writer.work(lambda: self.writer.put_texts(columns, routes, request), TIMEOUT)

    def intervals(self, ids: list[Any], route: Route, request: str | None = None) -> Any:
        count = len(ids)
        table = pa.table({"id": ids, "attribute": ["x"] * count, "low": [0] * count, "high": [1] * count})
        load = read_intervals(table, "desk")
        pivots = PivotColumn.of([route] * len(load))
        return self.writer.work(lambda: self.writer.put_intervals(load, pivots, request), TIMEOUT)

    def check(self) -> None:
        stored = sorted(self.store.route_counts())
        assert sorted(self.writer.route_counts()) == stored
        assert sorted(counted(self.others.routes)) == stored
        placement = self.writer.placement
        sizes = Counter(dict.fromkeys(range(SHARDS), 0))
        for shard, _, count in stored:
            sizes[shard] += count
        assert placement.sizes == [sizes[shard] for shard in range(SHARDS)]
        fresh = Placement(SHARDS)
        fresh.recount(stored)
        assert placement.loads == pytest.approx(fresh.loads)
        for shard in range(SHARDS):
            if self.others.needed[shard] > self.others.versions[shard]:  # as the next batch would say
                self.others.catch_up(shard, LINEAGE, self.others.needed[shard])
            assert self.others.numbers[shard] == set(all_numbers(self.store.snapshot_for_shard(shard)).tolist())
            assert self.others.needed[shard] <= self.others.versions[shard]
        assert self.others.names == dict(self.store.subscribers_after())
        assert self.others.rules == {rule.id: (rule.level, rule.expression) for rule in self.store.rules()}
        state = self.writer.state_for_coordinator(0, 1)
        assert sorted(state.routes) == stored
        assert not state.moving


def counted(routes: Counter[tuple[int, Route]]) -> list[RouteCount]:
    return [(shard, route, count) for (shard, route), count in routes.items() if count]


@contextmanager
def world() -> Iterator[World]:
    found = World()
    try:
        yield found
    finally:
        found.writer.committer.close()
        found.store.close()


ids = st.sampled_from(["a", "b", "c", "1", 1, 2, -3])
routes = st.sampled_from(ROUTES)
requests = st.none() | st.sampled_from(["r1", "r2", "r3"])
changes = st.one_of(
    st.builds(Subscribe, ids, st.sampled_from(["d1", "d2"]), st.just("x = 1"), st.just(0), routes, st.none(), requests),
    st.builds(Subscribe, ids, st.just(5), st.just("x = 1"), st.just(0), routes),  # a bad subscriber
    st.builds(Unsubscribe, ids, requests),
    st.builds(PutRule, ids, st.sampled_from(["low", "high"]), st.just("x = 1"), requests),
    st.builds(RemoveRule, ids),
)
table_ids = st.lists(st.sampled_from(["a", "b", "1"]), max_size=4) | st.lists(st.sampled_from([1, 2]), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("group"), st.lists(changes, min_size=1, max_size=5)),
        st.tuples(st.just("texts"), st.tuples(st.lists(st.tuples(ids, routes), max_size=5), requests)),
        st.tuples(st.just("intervals"), st.tuples(table_ids, routes, requests)),
        st.tuples(st.just("rebalance"), st.booleans()),
    ),
    max_size=8,
)


@given(STEPS)
@settings(max_examples=100)
def test_all_know_what_the_store_has(steps: list[tuple[str, Any]]) -> None:
    with world() as found:
        for step, argument in steps:
            if step == "group":
                found.group(*argument)
            elif step == "texts":
                rows, request = argument
                found.texts([identity for identity, _ in rows], [route for _, route in rows], request and f"t{request}")
            elif step == "intervals":
                listed, route, request = argument
                if listed:
                    found.intervals(listed, route, request and f"i{request}")
            else:
                found.others.failing = argument
                try:
                    found.mover.rebalance(AttributeFrequencies(), 1.0)
                except UnavailableError:
                    found.others.failing = False
                    found.mover.settle()
                assert all(not numbers for numbers in found.others.taken_over) or not argument
            found.check()


def test_what_replaces_stays_where_it_was() -> None:
    """Whatever its route: so that the shard replaces it in one step."""
    with world() as found:
        found.group(*(Subscribe(number, "d", "x = 1", route=Route((f"p{number}",))) for number in range(6)))
        before = found.store.shards_of(list(range(6)))
        assert set(before.values()) == {0, 1, 2}
        found.group(*(Subscribe(number, "d", "y = 1", route=Route(("p0",))) for number in range(6)))
        assert found.store.shards_of(list(range(6))) == before
        found.texts(list(range(6)), [Route(("p1",))] * 6)
        found.intervals(list(range(6)), Route(("p2",)))
        assert found.store.shards_of(list(range(6))) == before
        found.check()


def test_a_subscription_that_came_and_went_in_one_group_is_sent_to_nobody() -> None:
    with world() as found:
        found.group(
            Subscribe("a", "d", "x = 1", route=ROUTES[0]),
            Subscribe("a", "d", "x = 2", route=ROUTES[2]),
            Unsubscribe("a"),
        )
        assert found.others.numbers == [set()] * SHARDS
        found.check()


def test_a_request_that_is_repeated_is_done_once() -> None:
    with world() as found:
        change = Subscribe("a", "d", "x = 1", route=ROUTES[0], request="r")
        (first,), notes = found.group(change), len(found.others.notes)
        (second,) = found.group(change)
        assert isinstance(second, Answer) and second.repeated and second.number == first.number
        bulk = [found.texts(["b", "c"], [ROUTES[0], ROUTES[1]], "t") for _ in range(2)]
        assert [answer.repeated for answer in bulk] == [False, True]
        blocks = [found.intervals(["d", "e"], ROUTES[0], "i") for _ in range(2)]
        assert [answer.repeated for answer in blocks] == [False, True]
        assert len(found.others.notes) == notes + 2
        assert found.store.counts().subscriptions == 5
        found.check()


def test_a_bad_change_harms_no_other_of_its_group() -> None:
    with world() as found:
        good, bad, also = found.group(
            Subscribe("a", "d", "x = 1", route=ROUTES[0]),
            Subscribe("b", 5, "x = 1", route=ROUTES[0]),  # type: ignore[arg-type]
            Unsubscribe("nobody"),
        )
        assert isinstance(good, Answer) and isinstance(bad, SettingError) and not also.found
        found.check()


def test_a_store_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as found:
        found.group(Subscribe("a", "d", "x = 1", route=ROUTES[0]))

        def fail(*_: Any, **__: Any) -> Any:
            raise StoreError("disk", "is full")

        with monkeypatch.context() as broken:
            for method in ("commit", "commit_texts", "commit_intervals"):
                broken.setattr(found.store, method, fail)
            assert isinstance(found.group(Subscribe("a", "d", "x = 2", route=ROUTES[2]))[0], StoreError)
            for call in (lambda: found.texts(["a", "b"], ROUTES[:2]), lambda: found.intervals(["a", "b"], ROUTES[0])):
                with pytest.raises(RayPubSubError):
                    call()
        found.check()
        assert found.store.get("a").text == "x = 1"


def test_a_pivot_that_is_split_is_kept_and_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_module, "SPLIT_FROM", 4)
    with world() as found:
        found.group(*(Subscribe(number, "d", "x = 1", route=ROUTES[0]) for number in range(50)))
        assert min(found.writer.placement.sizes) > 5
        assert found.store.placement() == found.writer.placement.state()
        found.check()
        found.intervals(list(range(100, 200)), ROUTES[0])
        assert min(found.writer.placement.sizes) > 30
        found.check()


def test_changes_go_on_while_subscriptions_move() -> None:
    """Some that were moved are removed before it is noted where the next ones go."""
    with world() as found:
        found.texts(list(range(40)), [ROUTES[0]] * 40)
        moved: list[int] = []

        def meanwhile(move: Any) -> None:
            moved.extend(
                number for number, shard in found.store.shards_of(list(range(40))).items() if shard == move.target
            )
            found.writer._perform([Unsubscribe(number) for number in moved])
            placed(move)

        placed, found.mover._placed = found.mover._placed, meanwhile  # type: ignore[method-assign]
        assert found.mover.rebalance(AttributeFrequencies(), 1.0).moved > 10
        assert moved and not found.store.shards_of(moved)
        found.check()


def test_parts_of_a_pivot_and_then_the_rest_of_it_go_to_different_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first move has taken is none of the second's, though that is of the whole pivot."""
    with world() as found:
        found.texts(list(range(20)), [ROUTES[0]] * 20)
        found.intervals(list(range(20, 40)), ROUTES[0])
        parts = tuple(sorted({part_of(number) for number in range(0, 40, 3)}))
        moves = [Move("x", parts, 0, 1, 0), Move("x", (), 0, 2, 0)]
        monkeypatch.setattr(rebalancing, "plan_rebalance", lambda *_: moves)
        assert found.mover.rebalance(AttributeFrequencies(), 1.0).moved == 40
        shards = found.store.shards_of(list(range(40)))
        assert shards == {number: 1 if part_of(number) in parts else 2 for number in range(40)}
        found.check()
        assert [numbers - found.others.numbers[shard] for shard, numbers in enumerate(found.others.taken_over)] == [
            set()
        ] * 3


@pytest.mark.parametrize("in_bulk", [False, True])
def test_what_is_on_disk_is_acknowledged_although_it_could_not_be_passed_on(
    in_bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not done again: counts are made anew, shards must have the version, coordinators must ask for everything."""
    with world() as own:
        writer = own.writer

        def broken(*_: object) -> None:
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(own.others, "push", broken)
        monkeypatch.setattr(own.others, "catch_up", broken)
        monkeypatch.setattr(writer._leases, "wait_until_known", lambda serial: None)
        if in_bulk:
            assert own.texts(["s1"], [ROUTES[0]]).added == 1
        else:
            writer.submit(Subscribe("s1", "desk", "x < 5", 0, ROUTES[0]), TIMEOUT)
        shard = own.store.get("s1").shard
        assert writer.route_counts() == [(shard, ROUTES[0], 1)]
        assert writer.placement.sizes[shard] == 1
        assert writer.needed == [own.store.version] * SHARDS
        assert writer._leases.renew(0, 1, writer.serial - 1, writer.serial) is None
