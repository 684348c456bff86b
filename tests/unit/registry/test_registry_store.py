"""The registry's store by hand: groups, requests sent twice, rules, settings, epochs."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from actors.registry.changes import (
    Answer,
    Gone,
    MoveSubscriptions,
    PutRule,
    RemoveRule,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry.columns import Page
from actors.registry.interval_load import read_intervals
from actors.registry.store import idempotency
from actors.registry.store import store as store_module
from actors.registry.store.store import RegistryStore
from ray_pubsub.errors import (
    FencedError,
    StoreError,
    UnknownSubscriptionError,
)
from ray_pubsub.sharding.pivots import UNIVERSAL, Route
from ray_pubsub.sharding.placement import Placement
from ray_pubsub.sharding.rebalance import plan_rebalance
from tests.unit.registry.conftest import OpenStore
from tests.unit.registry.store_changes import intervals, one, put_intervals, put_texts

# ----------------------------------------------------------------------------------------------------------------- groups


def test_one_of_each(new_store: OpenStore) -> None:
    store = new_store()
    first = store.commit([Subscribe("s", "desk", "x = 1", 1, Route(("x",))), Subscribe(1, "desk", "y = 1")])
    assert first == [Answer(1, 1), Answer(1, 2)]
    assert one(store, Subscribe("s", "other", "x = 2")) == Answer(2, 3, gone=Gone(1, 1, Route(("x",))))
    assert one(store, Unsubscribe(1)) == Answer(3, 2, gone=Gone(2, 0, UNIVERSAL))
    assert one(store, Unsubscribe(1)) == Answer(3, 0, found=False)
    assert store.version == 3
    assert store.get("s").expression == "x = 2"
    assert store.get("s").subscriber == "other"


def test_a_number_is_never_given_twice(same_store: OpenStore) -> None:
    for number in (1, 2, 3):
        with same_store() as store:
            assert one(store, Subscribe("s", "desk", "x = 1")).number == number
            one(store, Unsubscribe("s"))


def test_ids_of_two_kinds(new_store: OpenStore) -> None:
    store = new_store()
    store.commit([Subscribe(1, "a", "x = 1"), Subscribe("1", "b", "x = 2")])
    assert (store.get(1).subscriber, store.get("1").subscriber) == ("a", "b")
    one(store, Unsubscribe("1"))
    assert store.get(1).id == 1
    with pytest.raises(UnknownSubscriptionError):
        store.get("1")


def test_an_unexpected_error_takes_the_whole_group_back(new_store: OpenStore) -> None:
    store = new_store()
    with pytest.raises(AttributeError):
        store.commit([Subscribe("a", "new", "x = 1", route=Route(("new",))), object()])  # type: ignore[list-item]
    assert store.counts().subscriptions == 0
    assert store.subscribers_after() == []
    assert one(store, Subscribe("a", "new", "x = 1", route=Route(("new",)))) == Answer(1, 1)
    assert store.get("a").route == Route(("new",))


def test_a_subscription_in_a_block_goes_once_in_a_group(new_store: OpenStore) -> None:
    store = new_store()
    put_intervals(store, read_intervals(intervals(["a", "b"]), "desk"))
    answers = store.commit([Unsubscribe("a"), Unsubscribe("a"), Subscribe("b", "desk", "x = 1"), Unsubscribe("b")])
    assert [(answer.number, answer.found) for answer in answers] == [(1, True), (0, False), (3, True), (3, True)]
    assert store.counts().subscriptions == 0


def test_a_shard_is_told_of_what_came_and_went(new_store: OpenStore) -> None:
    store = new_store()
    put_intervals(store, read_intervals(intervals(["a", "b", "c"]), "desk"))
    store.commit([Subscribe("d", "desk", "x = 1"), Subscribe("e", "desk", "x = 2")])
    since = store.version
    store.commit([MoveSubscriptions([2, 3, 4], 0, 1), Unsubscribe("c")])
    one(store, MoveSubscriptions([4], 1, 0))
    left, came = store.changes_since(since, 0), store.changes_since(since, 1)
    assert left is not None and came is not None
    assert (left.removed.tolist(), left.added.numbers.tolist(), left.added.intervals) == ([2, 3, 4], [4], [])
    assert (came.removed.tolist(), came.added.numbers.tolist()) == ([3, 4], [])
    assert [columns.numbers.tolist() for columns in came.added.intervals] == [[2]]


def test_blocks_are_taken_back_too(new_store: OpenStore) -> None:
    store = new_store()
    put_intervals(store, read_intervals(intervals(["a", "b"]), "desk"))
    with pytest.raises(AttributeError):
        store.commit([MoveSubscriptions([1], 0, 1), Unsubscribe("b"), object()])  # type: ignore[list-item]
    assert store.snapshot_for_shard(0).intervals[0].numbers.tolist() == [1, 2]
    assert store.get("a").shard == 0
    assert one(store, MoveSubscriptions([1, 2], 0, 1)).moved == 2
    assert one(store, Unsubscribe("b")) == Answer(3, 2, gone=Gone(2, 1, UNIVERSAL))


# --------------------------------------------------------------------------------------------------------------- requests


def test_a_request_sent_twice_is_done_once(same_store: OpenStore) -> None:
    changes: list[Any] = [
        Subscribe("s", "desk", "x = 1", key="1"),
        Subscribe("s", "desk", "x = 2", 1, Route(("x", "y")), key="2"),
        Unsubscribe("s", key="3"),
        Unsubscribe("s", key="4"),
        MoveSubscriptions([1], 0, 1, key="5"),
    ]
    with same_store() as store:
        first = [one(store, change) for change in changes]
        one(store, Subscribe("s", "desk", "x = 3"))
    with same_store() as store:
        assert store.commit(changes) == [
            Answer(each.version, each.number, each.found, each.gone, each.moved, repeated=True) for each in first
        ]
        assert store.get("s").expression == "x = 3"


def test_twice_in_one_group(new_store: OpenStore) -> None:
    store = new_store()
    change = Subscribe("s", "desk", "x = 1", key="r")
    first, second = store.commit([change, change])
    assert (first, second) == (Answer(1, 1), Answer(1, 1, repeated=True))


def test_old_answers_are_forgotten(monkeypatch: pytest.MonkeyPatch, new_store: OpenStore) -> None:
    monkeypatch.setattr(idempotency, "KEPT_ANSWERS", 2)
    store = new_store()
    for number in range(4):
        one(store, Subscribe("s", "desk", f"x = {number}", key=f"r{number}"))
    assert [one(store, Subscribe("s", "desk", "y = 1", key=f"r{number}")).repeated for number in (3, 2)] == [True] * 2
    assert not one(store, Subscribe("s", "desk", "y = 1", key="r0")).repeated


def test_bulk_changes_sent_twice(new_store: OpenStore) -> None:
    store = new_store()
    load = read_intervals(intervals([1, 2, 3]), "d")
    for repeated in (False, True):
        texts = put_texts(store, [("a", "d", "x = 1"), ("b", "d", "x = 2")], key="t")
        blocks = put_intervals(store, load, key="i")
        assert (texts.version, texts.first, texts.count, texts.repeated) == (1, 1, 2, repeated)
        assert (blocks.version, blocks.first, blocks.count, blocks.repeated) == (2, 3, 3, repeated)
    assert store.counts().subscriptions == 5
    for repeated in (False, True):
        removal = store.commit_removal(["a", 1, "nobody"], key="r")
        assert (removal.version, removal.count, removal.repeated) == (3, 2, repeated)
    assert store.counts().subscriptions == 3


# ---------------------------------------------------------------------------------------------------- rules and settings


def test_rules(new_store: OpenStore) -> None:
    store = new_store()
    assert store.rules() == []
    store.commit([PutRule("r", "high", "x > 1"), PutRule(1, "low", "x > 2")])
    one(store, Subscribe("s", "desk", "x = 1"))
    one(store, PutRule("r", "critical", "x > 3"))
    assert [(rule.id, rule.level, rule.expression, rule.version) for rule in store.rules()] == [
        (1, "low", "x > 2", 1),
        ("r", "critical", "x > 3", 3),
    ]
    assert not one(store, RemoveRule("1")).found
    assert one(store, RemoveRule(1)).found
    assert [rule.id for rule in store.rules()] == ["r"]
    assert store.version == 4


def test_settings_and_placement(same_store: OpenStore) -> None:
    placement = Placement(2)
    for number in range(300):
        placement.place(Route(("x",)), number)
    with same_store() as store:
        assert store.setting("placement") is None
        store.commit([SetSetting("placement", placement.state()), SetSetting("engine", ["auto", 1, None])])
    with same_store() as store:
        assert Placement.of_state(store.setting("placement")).state() == placement.state()
        assert store.setting("engine") == ["auto", 1, None]
        assert store.setting("other") is None


# ----------------------------------------------------------------------------------------------------------------- epochs


def test_epochs_grow_and_survive(same_store: OpenStore) -> None:
    with same_store() as store:
        assert [store.take_epoch("shard", 1) for _ in range(3)] == [1, 2, 3]
        assert store.take_epoch("shard", 2) == 1
        store.check_epoch("coordinator", 0, 0)
    with same_store() as store:
        assert store.take_epoch("shard", 1) == 4
        store.check_epoch("shard", 1, 4)
        with pytest.raises(FencedError) as caught:
            store.check_epoch("shard", 1, 3)
        assert (caught.value.epoch, caught.value.current) == (3, 4)


def test_the_older_instance_is_refused(same_store: OpenStore) -> None:
    old = same_store(role="registry")
    one(old, Subscribe("s", "desk", "x = 1"))
    new = same_store(role="registry")
    assert (old.epoch, new.epoch) == (1, 2)
    load = read_intervals(intervals(["s"]), "desk")
    attempts: list[Any] = [
        lambda: old.commit([Subscribe("t", "desk", "x = 1")]),
        lambda: put_texts(old, [("t", "desk", "x = 1")]),
        lambda: old.commit_removal(["s"]),
        lambda: put_intervals(old, load),
        lambda: old.take_epoch("shard", 0),
        old.trim,
    ]
    for attempt in attempts:
        with pytest.raises(FencedError, match="epoch 1, but one with the epoch 2"):
            attempt()
    assert old.version == new.version == 1
    one(new, Subscribe("t", "desk", "x = 1"))
    assert new.counts().subscriptions == 2
    for store in (old, new):
        store.close()


def test_without_an_epoch_two_may_write_in_turn(same_store: OpenStore) -> None:
    left, right = (same_store() for _ in range(2))
    assert one(left, Subscribe("s", "left", "x = 1")).number == 1
    assert one(right, Subscribe("s", "right", "x = 1")) == Answer(2, 2, gone=Gone(1, 0, UNIVERSAL))
    put_intervals(right, read_intervals(intervals([7]), "third"))
    assert one(left, Unsubscribe(7)).number == 3
    assert left.subscribers_after(1) == [(2, "right"), (3, "third")]
    left.close()
    right.close()


# ------------------------------------------------------------------------------------------------------ reading and time


def test_changes_that_are_no_longer_known(monkeypatch: pytest.MonkeyPatch, new_store: OpenStore) -> None:
    monkeypatch.setattr(store_module, "KEPT_VERSIONS", 2)
    store = new_store()
    for number in range(5):
        one(store, Subscribe("s", "desk", f"x = {number}"))
    store.trim()
    assert [store.changes_since(version, 0) is None for version in range(7)] == [
        True,
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    nothing = store.changes_since(5, 0)
    assert nothing is not None
    assert (len(nothing.added), len(nothing.removed)) == (0, 0)


def test_trimming_gives_back_what_dead_blocks_took(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    store = RegistryStore(path)
    put_intervals(store, read_intervals(intervals(list(range(100))), "desk"))
    store.commit([Unsubscribe(id) for id in range(60)])
    (before,) = store._connection.execute("SELECT length(rows) FROM block_rows").fetchone()
    store.trim()
    (after,) = store._connection.execute("SELECT length(rows) FROM block_rows").fetchone()
    assert after < before
    assert store._connection.execute("SELECT count(*) FROM dead").fetchone() == (0,)
    assert [store.get(id).number for id in (60, 99)] == [61, 100]
    one(store, Unsubscribe(60))
    store.close()
    with RegistryStore(path) as again:
        assert again.counts().as_intervals == 39
        again.commit([Unsubscribe(id) for id in range(100)])
        again.trim()
        assert again._connection.execute("SELECT count(*) FROM blocks").fetchone() == (0,)


def test_pages_stay_in_place_while_others_come_and_go(new_store: OpenStore) -> None:
    store = new_store()
    store.commit([Subscribe(f"s{number}", "desk", "x = 1") for number in range(6)])
    first = store.page("desk", limit=2)
    assert [item.id for item in first.items] == ["s0", "s1"]
    store.commit([Unsubscribe("s0"), Unsubscribe("s3"), Subscribe("s1", "desk", "x = 2")])
    second = store.page("desk", first.after, 3)
    assert [item.id for item in second.items] == ["s2", "s4", "s5"]
    last = store.page("desk", second.after, 3)
    assert ([item.id for item in last.items], last.after) == (["s1"], None)
    assert store.page("desk", None) == store.page("nobody") == Page([], None)


def test_a_reader_sees_the_state_it_began_with(same_store: OpenStore) -> None:
    with same_store() as store:
        one(store, Subscribe("s", "desk", "x = 1"))
        with store._view() as view:
            one(store, Subscribe("t", "desk", "x = 1"))
            assert view.connection.execute("SELECT count(*) FROM subscriptions").fetchone() == (1,)
        assert store.counts().subscriptions == 2


def test_readers_beside_a_writer_never_see_half_a_change(new_store: OpenStore) -> None:
    """The id goes back and forth between a text and a block; it is always there."""
    store = new_store()
    one(store, Subscribe("s", "desk", "x = 0"))
    load, stop = read_intervals(intervals(["s"]), "desk"), threading.Event()
    wrong: list[Any] = []

    def read() -> None:
        seen = 0
        while not stop.is_set():
            try:
                found, counts = store.get("s"), store.counts()
            except Exception as error:
                wrong.append(error)
                return
            if found.number < seen or counts.subscriptions != 1:
                wrong.append((found, counts))
            seen = found.number

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(40):
        put_intervals(store, load)
        one(store, Subscribe("s", "desk", f"x = {number}"))
    stop.set()
    for reader in readers:
        reader.join()
    store.close()
    assert wrong == []


def test_a_closed_store_says_so(same_store: OpenStore) -> None:
    store = same_store()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.counts()
    with pytest.raises(StoreError, match="closed"):
        store.commit([])


def test_answers_and_columns_cross_processes(new_store: OpenStore) -> None:
    store = new_store()
    answers = store.commit([Subscribe("s", "desk", "x = 1")])
    assert pickle.loads(pickle.dumps(answers)) == answers
    bulk = pickle.loads(pickle.dumps(put_intervals(store, read_intervals(intervals([1, 2]), "desk"))))
    assert (bulk.first, bulk.count) == (2, 2)
    columns = pickle.loads(pickle.dumps(store.changes_since(0, 0)))
    assert (columns.added.expressions, columns.added.intervals[0].table.num_rows) == (["x = 1"], 2)
    assert pickle.loads(pickle.dumps(store.page("desk"))) == store.page("desk")


def test_from_one_placement_to_the_next(new_store: OpenStore) -> None:
    """A cluster that is started again: split pivots are kept, all else is counted from what is stored."""
    store, placement = new_store(), Placement(2)
    routes = [Route((f"p{number % 3}",)) for number in range(900)]
    shards = [placement.place(route, number) for number, route in enumerate(routes)]
    put_texts(store, [(number, "d", "x") for number in range(900)], shards, routes)
    store.commit([SetSetting("placement", placement.state())])
    again = Placement.of_state(store.setting("placement"))
    again.recount(store.route_counts())
    assert (again.sizes, again.loads) == (placement.sizes, placement.loads)
    moves = plan_rebalance(store.groups(), 2, factor=1.0)
    for move, numbers in zip(moves, store.members(moves), strict=True):
        assert one(store, MoveSubscriptions(numbers, move.source, move.target)).moved == move.subscriptions
    again.apply(moves)
    counted = Counter[int]()
    for shard, _, count in store.route_counts():
        counted[shard] += count
    assert [counted[shard] for shard in range(2)] == again.sizes
    assert abs(counted[0] - counted[1]) <= abs(placement.sizes[0] - placement.sizes[1])
    assert plan_rebalance(store.groups(), 2, factor=1.02) == []
