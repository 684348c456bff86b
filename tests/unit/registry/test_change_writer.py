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

from actors.registry import rebalancing
from actors.registry.announcements import Announcer
from actors.registry.assignment import Assignment
from actors.registry.change_writer import ChangeWriter
from actors.registry.changes import Answer, PutRule, RemoveRule, Subscribe, Unsubscribe
from actors.registry.columns import ShardChanges, ShardColumns, TextColumns
from actors.registry.interval_load import read_intervals
from actors.registry.leases import CoordinatorLeases
from actors.registry.rebalancing import Mover
from actors.registry.store.store import RegistryStore
from actors.transport.messages import News, Note, RouteCount, ShardPush
from ray_pubsub.errors import RayPubSubError, StoreError, UnavailableError
from ray_pubsub.model.events import read_events
from ray_pubsub.sharding import placement as placement_module
from ray_pubsub.sharding.frequency import AttributeFrequencies
from ray_pubsub.sharding.pivots import PivotColumn, Route
from ray_pubsub.sharding.placement import Placement, part_of
from ray_pubsub.sharding.rebalance import Move
from tests.examples import scaled

SHARDS = 3
ROUTES = [Route(("x",)), Route(("x", "y")), Route(("y",)), Route((), True), Route(())]
TIMEOUT = 60.0


class Others:
    """Shards that keep numbers, and a coordinator that keeps what it receives."""

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

    def notify(self, note: Note, coordinators: dict[int, int]) -> dict[int, bool]:
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
        self.taken_over[shard].update(columns.all_numbers.tolist())

    def let_go(self, shard: int, lineage: str, version: int) -> int:
        self.catch_up(shard, lineage, version)
        self.taken_over[shard].clear()
        return 0

    def bring_up(self, shard: int, lineage: str, version: int) -> int:
        self.catch_up(shard, lineage, version)
        return self.versions[shard]

    def _change(self, shard: int, changes: ShardChanges) -> None:
        self.numbers[shard] -= set(changes.removed.tolist())
        added = set(changes.added.all_numbers.tolist())
        self.numbers[shard] |= added
        self.taken_over[shard] -= added  # its own by now
        self.versions[shard] = changes.version


class World:
    def __init__(self) -> None:
        self.store = RegistryStore(role="registry")
        self.others = Others(self.store)
        leases = CoordinatorLeases(1, 5.0)
        leases.expect(0)
        self.placement = Placement(SHARDS)
        self.announcer = Announcer(self.store, SHARDS, leases, self.others)
        assignment = Assignment(self.store, self.placement, 65.0)
        self.writer = ChangeWriter(self.store, assignment, self.announcer, leases)
        self.mover = Mover(self.writer, self.others, leases.wait_until_known, TIMEOUT)
        self.announcer.state_for_coordinator(0, 1, 0.0)
        self.mover.settle()

    def group(self, *changes: Any) -> list[Any]:
        """What became of each, in one transaction or several."""
        futures = self.writer._committer.submit_many(changes)
        return [future.exception(TIMEOUT) or future.result(TIMEOUT) for future in futures]

    def texts(self, ids: list[Any], routes: list[Route], key: str | None = None) -> Any:
        columns = TextColumns(ids, ["desk"] * len(ids), ["x = 1"] * len(ids))
        return self.writer.run(lambda: self.writer.put_texts(columns, PivotColumn.of(routes), key), TIMEOUT)

    def intervals(self, ids: list[Any], route: Route, key: str | None = None) -> Any:
        count = len(ids)
        table = pa.table({"id": ids, "attribute": ["x"] * count, "low": [0] * count, "high": [1] * count})
        load = read_intervals(table, "desk")
        pivots = PivotColumn.of([route] * len(load))
        return self.writer.run(lambda: self.writer.put_intervals(load, pivots, key), TIMEOUT)

    def removal(self, ids: list[Any], key: str | None = None) -> Any:
        return self.writer.run(lambda: self.writer.remove_many(ids, key), TIMEOUT)

    def check(self) -> None:
        stored = sorted(self.store.route_counts())
        assert sorted(self.announcer.route_counts()) == stored
        assert sorted(counted(self.others.routes)) == stored
        sizes = Counter(dict.fromkeys(range(SHARDS), 0))
        for shard, _, count in stored:
            sizes[shard] += count
        assert self.placement.sizes == [sizes[shard] for shard in range(SHARDS)]
        fresh = Placement(SHARDS)
        fresh.recount(stored)
        assert self.placement.loads == pytest.approx(fresh.loads)
        for shard in range(SHARDS):
            if self.others.needed[shard] > self.others.versions[shard]:  # as the next batch would say
                self.others.catch_up(shard, self.store.identity, self.others.needed[shard])
            assert self.others.numbers[shard] == set(self.store.snapshot_for_shard(shard).all_numbers.tolist())
            assert self.others.needed[shard] <= self.others.versions[shard]
        assert self.others.names == dict(self.store.subscribers_after())
        assert self.others.rules == {rule.id: (rule.level, rule.expression) for rule in self.store.rules()}
        state = self.announcer.state_for_coordinator(0, 1, 0.0)
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
        found.writer.close()
        found.store.close()


ids = st.sampled_from(["a", "b", "c", "1", 1, 2, -3])
routes = st.sampled_from(ROUTES)
keys = st.none() | st.sampled_from(["r1", "r2", "r3"])
changes = st.one_of(
    st.builds(Subscribe, ids, st.sampled_from(["d1", "d2"]), st.just("x = 1"), st.just(0), routes, keys),
    st.builds(Subscribe, ids, st.just(["d"]), st.just("x = 1"), st.just(0), routes),  # cannot be stored
    st.builds(Unsubscribe, ids, keys),
    st.builds(PutRule, ids, st.sampled_from(["low", "high"]), st.just("x = 1"), keys),
    st.builds(RemoveRule, ids),
)
table_ids = st.lists(st.sampled_from(["a", "b", "1"]), max_size=4) | st.lists(st.sampled_from([1, 2]), max_size=4)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("group"), st.lists(changes, min_size=1, max_size=5)),
        st.tuples(st.just("texts"), st.tuples(st.lists(st.tuples(ids, routes), max_size=5), keys)),
        st.tuples(st.just("intervals"), st.tuples(table_ids, routes, keys)),
        st.tuples(st.just("removal"), st.tuples(st.lists(ids, max_size=5), keys)),
        st.tuples(st.just("rebalance"), st.booleans()),
        st.tuples(st.just("reroute"), st.booleans()),
    ),
    max_size=8,
)


def seen(**shares: float) -> AttributeFrequencies:
    known = AttributeFrequencies()
    known.observe(
        read_events([{name: 1 for name, share in shares.items() if row < share * 1000} for row in range(1000)])
    )
    return known


FREQUENT = seen(x=1.0, y=0.01)


def given_y(columns: ShardColumns) -> list[Route]:
    """Every subscription would be filed under y now."""
    return [Route(("y",))] * len(columns.all_numbers)


@given(STEPS)
@settings(max_examples=scaled(50))
def test_all_know_what_the_store_has(steps: list[tuple[str, Any]]) -> None:
    with world() as found:
        for step, argument in steps:
            if step == "group":
                found.group(*argument)
            elif step == "texts":
                rows, key = argument
                found.texts([identity for identity, _ in rows], [route for _, route in rows], key and f"t{key}")
            elif step == "removal":
                listed, key = argument
                found.removal(listed, key and f"d{key}")
            elif step == "intervals":
                listed, route, key = argument
                if listed:
                    found.intervals(listed, route, key and f"i{key}")
            else:
                found.others.failing = argument
                known, again = (FREQUENT, given_y) if step == "reroute" else (AttributeFrequencies(), None)
                try:
                    found.mover.rebalance(known, 1.0, again)
                except UnavailableError:
                    found.others.failing = False
                    found.mover.settle()
                assert all(not numbers for numbers in found.others.taken_over) or not argument
                found.placement.reweigh(AttributeFrequencies())
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
        change = Subscribe("a", "d", "x = 1", route=ROUTES[0], key="r")
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
            Subscribe("b", ["d"], "x = 1", route=ROUTES[0]),  # type: ignore[arg-type]
            Unsubscribe("nobody"),
        )
        assert isinstance(good, Answer) and isinstance(bad, TypeError) and not also.found
        found.check()


def test_a_store_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as found:
        found.group(Subscribe("a", "d", "x = 1", route=ROUTES[0]))

        def fail(*_: Any, **__: Any) -> Any:
            raise StoreError("disk", "is full")

        with monkeypatch.context() as broken:
            for method in ("commit", "commit_texts", "commit_intervals", "commit_removal"):
                broken.setattr(found.store, method, fail)
            assert isinstance(found.group(Subscribe("a", "d", "x = 2", route=ROUTES[2]))[0], StoreError)
            for call in (
                lambda: found.texts(["a", "b"], ROUTES[:2]),
                lambda: found.intervals(["a", "b"], ROUTES[0]),
                lambda: found.removal(["a"]),
            ):
                with pytest.raises(RayPubSubError):
                    call()
        found.check()
        assert found.store.get("a").expression == "x = 1"


def test_a_pivot_that_is_split_is_kept_and_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_module, "SPLIT_FROM", 4)
    with world() as found:
        found.group(*(Subscribe(number, "d", "x = 1", route=ROUTES[0]) for number in range(50)))
        assert min(found.placement.sizes) > 5
        assert found.store.setting("placement") == found.placement.state()
        found.check()
        found.intervals(list(range(100, 200)), ROUTES[0])
        assert min(found.placement.sizes) > 30
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
            place(move)

        place, found.mover._place = found.mover._place, meanwhile  # type: ignore[method-assign]
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


def test_routes_are_chosen_again() -> None:
    """Subscriptions were filed under p and q when these were rare; now every event carries them, and few carry x or y."""
    p, q, x, y = (Route((name,)) for name in "pqxy")
    with world() as found:
        found.texts(list(range(30)), [p] * 20 + [q] * 10)
        found.intervals(list(range(30, 50)), q)
        found.group(Subscribe("kept", "d", "z = 1", route=Route(("z",))))
        wanted = {str(number): x if number % 3 else y for number in range(50)}

        def again(columns: ShardColumns) -> list[Route]:
            ids = [*columns.ids.tolist(), *(each for block in columns.intervals for each in block.ids.tolist())]
            return [wanted.get(str(each), Route(("z",))) for each in ids]

        report = found.mover.rebalance(seen(p=1.0, q=1.0, x=0.01, y=0.01, z=0.01), 100.0, again)
        assert report.rerouted == 50 and report.moved == 0
        assert report.fan_out is not None and report.fan_out[1] < 0.1 < 1.9 < report.fan_out[0]
        counts = found.store.route_counts()
        assert sum(count for _, route, count in counts if route == x) == 33
        assert {route: sum(route == each for _, each, _ in counts) for route in (p, q, x, y)} == {
            p: 0,
            q: 0,
            x: 1,
            y: 1,
        }
        assert found.store.get(31).route == x
        found.placement.reweigh(AttributeFrequencies())
        found.check()
        before = found.store.version
        assert found.mover.rebalance(seen(p=1.0, q=1.0, x=0.01, y=0.01, z=0.01), 100.0, again).rerouted == 0
        assert found.store.version == before, "it does not begin again"


def test_a_route_that_cannot_be_committed_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as found:
        found.texts(list(range(5)), [ROUTES[0]] * 5)

        def full(*_: object) -> None:
            raise StoreError("registry", "the disk is full")

        with monkeypatch.context() as broken, pytest.raises(StoreError):
            broken.setattr(found.store, "commit", full)
            found.mover.rebalance(seen(x=1.0), 100.0, lambda columns: [Route(("rare",))] * len(columns.all_numbers))
        found.placement.reweigh(AttributeFrequencies())
        found.check()


@pytest.mark.parametrize("in_bulk", [False, True])
def test_what_is_on_disk_is_acknowledged_although_it_could_not_be_passed_on(
    in_bulk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not done again: routes are counted again, shards must have the version, coordinators must ask for everything."""
    with world() as own:
        writer = own.writer

        def broken(*_: object) -> None:
            raise RuntimeError("a mistake of ours")

        monkeypatch.setattr(own.others, "push", broken)
        monkeypatch.setattr(own.others, "catch_up", broken)
        monkeypatch.setattr(writer._leases, "wait_until_known", lambda serial: None)
        if in_bulk:
            assert own.texts(["s1"], [ROUTES[0]]).count == 1
        else:
            writer.submit(Subscribe("s1", "desk", "x < 5", 0, ROUTES[0]), TIMEOUT)
        shard = own.store.get("s1").shard
        assert own.announcer.route_counts() == [(shard, ROUTES[0], 1)]
        assert own.placement.sizes[shard] == 1
        assert own.announcer.needed == [own.store.version] * SHARDS
        assert writer._leases.renew(0, 1, own.announcer.serial - 1, own.announcer.serial) is None
