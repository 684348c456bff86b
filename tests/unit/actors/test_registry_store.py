"""The registry's store by hand: groups, requests sent twice, rules, settings, epochs, tables."""

from __future__ import annotations

import pickle
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from actors.interval_blocks import read_intervals
from actors.registry_bulk import TextColumns
from actors.registry_changes import (
    Answer,
    Gone,
    MoveSubscriptions,
    PutRule,
    RemoveRule,
    SetPlacement,
    SetSetting,
    Subscribe,
    Unsubscribe,
)
from actors.registry_columns import Page
from actors.registry_store import RegistryStore
from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    FencedError,
    RayPubSubError,
    SettingError,
    StoreError,
    SubscriptionIdError,
    TableError,
    UnknownSubscriptionError,
)
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotChooser, Route
from ray_pubsub.sharding.placement import Placement
from ray_pubsub.sharding.rebalance import plan_rebalance


def one(store: RegistryStore, change: Any) -> Answer:
    (answer,) = store.commit([change]).answers
    assert isinstance(answer, Answer)
    return answer


def intervals(ids: list[Any], **columns: Any) -> pa.Table:
    count = len(ids)
    filled = {"attribute": ["x"] * count, "low": list(range(count)), "high": list(range(count)), **columns}
    return pa.table({"id": ids, **filled})


# ----------------------------------------------------------------------------------------------------------------- groups


def test_one_of_each() -> None:
    store = RegistryStore()
    first = store.commit([Subscribe("s", "desk", "x = 1", 1, Route(("x",)), "high"), Subscribe(1, "desk", "y = 1")])
    assert first.version == 1
    assert first.answers == [Answer(1, 1), Answer(1, 2)]
    assert one(store, Subscribe("s", "other", "x = 2")) == Answer(2, 3, gone=Gone(1, 1, Route(("x",))))
    assert one(store, Unsubscribe(1)) == Answer(3, 2, gone=Gone(2, 0, UNIVERSAL))
    assert one(store, Unsubscribe(1)) == Answer(3, 0, found=False)
    assert store.version == 3
    assert store.get("s").text == "x = 2"
    assert store.get("s").subscriber == "other"


def test_the_hint_is_kept() -> None:
    store = RegistryStore()
    store.commit([Subscribe("s", "desk", "x = 1", hint="high"), Subscribe("t", "desk", "x = 1")])
    assert (store.get("s").hint, store.get("t").hint) == ("high", None)
    assert store.snapshot_for_shard(0).hints == ["high", None]


def test_a_number_is_never_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    for number in (1, 2, 3):
        with RegistryStore(path) as store:
            assert one(store, Subscribe("s", "desk", "x = 1")).number == number
            one(store, Unsubscribe("s"))


def test_ids_of_two_kinds() -> None:
    store = RegistryStore()
    store.commit([Subscribe(1, "a", "x = 1"), Subscribe("1", "b", "x = 2")])
    assert (store.get(1).subscriber, store.get("1").subscriber) == ("a", "b")
    one(store, Unsubscribe("1"))
    assert store.get(1).id == 1
    with pytest.raises(UnknownSubscriptionError):
        store.get("1")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (Subscribe(None, "desk", "x = 1"), SubscriptionIdError),  # type: ignore[arg-type]
        (Subscribe(True, "desk", "x = 1"), SubscriptionIdError),
        (Subscribe(2**63, "desk", "x = 1"), SubscriptionIdError),
        (Subscribe("s", 5, "x = 1"), SettingError),  # type: ignore[arg-type]
        (Subscribe("s", "\ud800", "x = 1"), SettingError),
        (Subscribe("s", "desk", b"x"), SettingError),  # type: ignore[arg-type]
        (Subscribe("s", "desk", "x = 1", shard=-1), SettingError),
        (Subscribe("s", "desk", "x = 1", hint=3), SettingError),  # type: ignore[arg-type]
        (Subscribe("s", "desk", "x = 1", request="r" * 201), SettingError),
        (Subscribe("s", "desk", "x = 1", request="\ud800"), SettingError),
        (Unsubscribe(1.5), SubscriptionIdError),  # type: ignore[arg-type]
        (PutRule("r", 3, "x = 1"), SettingError),  # type: ignore[arg-type]
        (RemoveRule(None), SubscriptionIdError),  # type: ignore[arg-type]
        (SetSetting("name", object()), SettingError),
        (SetSetting("name", 2**70), SettingError),
        (MoveSubscriptions([1.5], 0, 1), SettingError),  # type: ignore[list-item]
        (MoveSubscriptions([1], 0, 2**15), SettingError),
    ],
)
def test_a_bad_one_fails_alone_and_leaves_nothing(change: Any, error: type[RayPubSubError]) -> None:
    store = RegistryStore()
    one(store, Subscribe("s", "desk", "x = 0"))
    committed = store.commit([Subscribe("a", "desk", "x = 1"), change, Subscribe("b", "desk", "x = 1")])
    assert isinstance(committed.answers[1], error)
    assert [answer.number for answer in committed.answers[::2]] == [2, 3]  # type: ignore[union-attr]
    assert store.get("s").text == "x = 0"
    assert store.counts().subscriptions == 3


def test_what_is_no_change() -> None:
    class Nonsense:
        request = None

    (answer,) = RegistryStore().commit([Nonsense()]).answers  # type: ignore[list-item]
    assert isinstance(answer, SettingError)


def test_an_unexpected_error_takes_the_whole_group_back() -> None:
    store = RegistryStore()
    with pytest.raises(AttributeError):
        store.commit([Subscribe("a", "new", "x = 1", route=Route(("new",))), object()])  # type: ignore[list-item]
    assert store.counts().subscriptions == 0
    assert store.subscribers_after() == []
    assert one(store, Subscribe("a", "new", "x = 1", route=Route(("new",)))) == Answer(1, 1)
    assert store.get("a").route == Route(("new",))


def test_a_subscription_in_a_block_goes_once_in_a_group() -> None:
    store = RegistryStore()
    store.commit_intervals(read_intervals(intervals(["a", "b"]), "desk"))
    committed = store.commit([Unsubscribe("a"), Unsubscribe("a"), Subscribe("b", "desk", "x = 1"), Unsubscribe("b")])
    assert [(answer.number, answer.found) for answer in committed.answers] == [
        (1, True),
        (0, False),
        (3, True),
        (3, True),
    ]  # type: ignore[union-attr]
    assert store.counts().subscriptions == 0


def test_a_shard_is_told_of_what_came_and_went() -> None:
    store = RegistryStore()
    store.commit_intervals(read_intervals(intervals(["a", "b", "c"]), "desk"))
    store.commit([Subscribe("d", "desk", "x = 1"), Subscribe("e", "desk", "x = 2")])
    since = store.version
    store.commit([MoveSubscriptions([2, 3, 4], 0, 1), Unsubscribe("c")])
    one(store, MoveSubscriptions([4], 1, 0))
    left, came = store.changes_since(since, 0), store.changes_since(since, 1)
    assert left is not None and came is not None
    assert (left.removed.tolist(), left.added.numbers.tolist(), left.added.intervals) == ([2, 3, 4], [4], [])
    assert (came.removed.tolist(), came.added.numbers.tolist()) == ([3, 4], [])
    assert [columns.numbers.tolist() for columns in came.added.intervals] == [[2]]


def test_blocks_are_taken_back_too() -> None:
    store = RegistryStore()
    store.commit_intervals(read_intervals(intervals(["a", "b"]), "desk"))
    with pytest.raises(AttributeError):
        store.commit([MoveSubscriptions([1], 0, 1), Unsubscribe("b"), object()])  # type: ignore[list-item]
    assert store.snapshot_for_shard(0).intervals[0].numbers.tolist() == [1, 2]
    assert store.get("a").shard == 0
    assert one(store, MoveSubscriptions([1, 2], 0, 1)).moved == 2
    assert one(store, Unsubscribe("b")) == Answer(3, 2, gone=Gone(2, 1, UNIVERSAL))


# --------------------------------------------------------------------------------------------------------------- requests


def test_a_request_sent_twice_is_done_once(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    changes = [
        Subscribe("s", "desk", "x = 1", request="1"),
        Subscribe("s", "desk", "x = 2", 1, Route(("x", "y")), request="2"),
        Unsubscribe("s", request="3"),
        Unsubscribe("s", request="4"),
        MoveSubscriptions([1], 0, 1, request="5"),
    ]
    with RegistryStore(path) as store:
        first = [one(store, change) for change in changes]
        one(store, Subscribe("s", "desk", "x = 3"))
    with RegistryStore(path) as store:
        again = store.commit(changes)
        assert again.version == 4
        assert again.answers == [
            Answer(each.version, each.number, each.found, each.gone, each.moved, repeated=True) for each in first
        ]
        assert store.get("s").text == "x = 3"


def test_twice_in_one_group() -> None:
    store = RegistryStore()
    change = Subscribe("s", "desk", "x = 1", request="r")
    first, second = store.commit([change, change]).answers
    assert (first, second) == (Answer(1, 1), Answer(1, 1, repeated=True))


def test_only_so_many_requests_are_remembered() -> None:
    store = RegistryStore(kept_requests=2)
    for number in range(4):
        one(store, Subscribe("s", "desk", f"x = {number}", request=f"r{number}"))
    assert [one(store, Subscribe("s", "desk", "y = 1", request=f"r{number}")).repeated for number in (3, 2)] == [
        True
    ] * 2
    assert not one(store, Subscribe("s", "desk", "y = 1", request="r0")).repeated


def test_a_failed_request_may_be_repeated() -> None:
    store = RegistryStore()
    assert isinstance(store.commit([Subscribe("s", 5, "x = 1", request="r")]).answers[0], SettingError)  # type: ignore[arg-type]
    assert not one(store, Subscribe("s", "desk", "x = 1", request="r")).repeated


def test_tables_sent_twice() -> None:
    store = RegistryStore()
    table = pa.table({"id": ["a", "b"], "subscriber": ["d", "d"], "expression": ["x = 1", "x = 2"]})
    load = read_intervals(intervals([1, 2, 3]), "d")
    for repeated in (False, True):
        texts, blocks = store.commit_table(table, request="t"), store.commit_intervals(load, request="i")
        assert (texts.version, texts.first, texts.added, texts.repeated) == (1, 1, 2, repeated)
        assert (blocks.version, blocks.first, blocks.added, blocks.repeated) == (2, 3, 3, repeated)
    assert store.counts().subscriptions == 5


# ---------------------------------------------------------------------------------------------------- rules and settings


def test_rules() -> None:
    store = RegistryStore()
    assert (store.rules(), store.rules_version()) == ([], 0)
    store.commit([PutRule("r", "high", "x > 1"), PutRule(1, "low", "x > 2")])
    one(store, Subscribe("s", "desk", "x = 1"))
    one(store, PutRule("r", "critical", "x > 3"))
    assert [(rule.id, rule.level, rule.expression, rule.version) for rule in store.rules()] == [
        (1, "low", "x > 2", 1),
        ("r", "critical", "x > 3", 3),
    ]
    assert store.rules_version() == 3
    assert not one(store, RemoveRule("1")).found
    assert one(store, RemoveRule(1)).found
    assert ([rule.id for rule in store.rules()], store.rules_version()) == (["r"], 4)


def test_settings_and_placement(tmp_path: Path) -> None:
    placement = Placement(2)
    for number in range(300):
        placement.place(Route(("x",)), number)
    with RegistryStore(tmp_path / "registry.db") as store:
        assert store.placement() is None
        store.commit([SetPlacement(placement.state()), SetSetting("engine", ["auto", 1, None])])
    with RegistryStore(tmp_path / "registry.db") as store:
        kept = store.placement()
        assert kept is not None
        assert Placement.of_state(kept).state() == placement.state()
        assert store.setting("engine") == ["auto", 1, None]
        assert store.setting("other") is None


# ----------------------------------------------------------------------------------------------------------------- epochs


def test_epochs_grow_and_survive(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with RegistryStore(path) as store:
        assert [store.take_epoch("shard", 1) for _ in range(3)] == [1, 2, 3]
        assert store.take_epoch("shard", 2) == 1
        assert store.epoch_of("coordinator") == 0
    with RegistryStore(path) as store:
        assert store.take_epoch("shard", 1) == 4
        store.check_epoch("shard", 1, 4)
        with pytest.raises(FencedError) as caught:
            store.check_epoch("shard", 1, 3)
        assert (caught.value.epoch, caught.value.current) == (3, 4)


def test_the_older_instance_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    old = RegistryStore(path, role="registry")
    one(old, Subscribe("s", "desk", "x = 1"))
    new = RegistryStore(path, role="registry")
    assert (old.epoch, new.epoch) == (1, 2)
    load = read_intervals(intervals(["s"]), "desk")
    attempts: list[Any] = [
        lambda: old.commit([Subscribe("t", "desk", "x = 1")]),
        lambda: old.commit_texts(TextColumns(["t"], ["desk"], ["x = 1"])),
        lambda: old.commit_intervals(load),
        lambda: old.take_epoch("shard"),
        old.trim,
    ]
    for attempt in attempts:
        with pytest.raises(FencedError, match="epoch 1, but one with the epoch 2"):
            attempt()
    assert old.version == new.version == 1
    one(new, Subscribe("t", "desk", "x = 1"))
    assert new.counts().subscriptions == 2
    other = RegistryStore(path, role="registry", index=1)
    one(new, Subscribe("u", "desk", "x = 1"))
    for store in (old, new, other):
        store.close()


def test_without_an_epoch_two_may_write_in_turn(tmp_path: Path) -> None:
    left, right = (RegistryStore(tmp_path / "registry.db") for _ in range(2))
    assert one(left, Subscribe("s", "left", "x = 1")).number == 1
    assert one(right, Subscribe("s", "right", "x = 1")) == Answer(2, 2, gone=Gone(1, 0, UNIVERSAL))
    right.commit_intervals(read_intervals(intervals([7]), "third"))
    assert one(left, Unsubscribe(7)).number == 3
    assert left.subscribers_after(1) == [(2, "right"), (3, "third")]
    left.close()
    right.close()


# ----------------------------------------------------------------------------------------------------------------- tables


def test_a_table_of_texts() -> None:
    store = RegistryStore()
    table = pa.table({"id": [1, 2, 1], "subscriber": ["a", "b", "c"], "expression": ["x = 1", "x = 2", "x = 3"]})
    answer = store.commit_table(table, shards=[0, 1, 1], routes=[Route(("x",)), UNIVERSAL, Route(("y",))])
    assert (answer.first, answer.added, answer.rejections) == (1, 2, [])
    assert answer.kept is not None
    assert answer.kept.tolist() == [1, 2]
    assert (store.get(1).text, store.get(1).shard, store.get(1).route) == ("x = 3", 1, Route(("y",)))
    assert store.subscribers_after() == [(1, "b"), (2, "c")]
    again = store.commit_table(table.slice(1, 1))
    assert (again.gone.numbers.tolist(), again.gone.shards.tolist()) == ([1], [1])
    assert store.route(int(again.gone.routes[0])) == UNIVERSAL


def test_bad_rows_are_reported_by_position() -> None:
    store = RegistryStore()
    columns = TextColumns(["a", None, True, "b", "c", 3], ["d", "d", "d", None, "d", "d"], ["x", "x", "x", "x", 5, "x"])
    answer = store.commit_texts(columns)
    assert [(each.position, type(each.error)) for each in answer.rejections] == [
        (1, SubscriptionIdError),
        (2, SubscriptionIdError),
        (3, SettingError),
        (4, SettingError),
    ]
    assert answer.added == store.counts().subscriptions == 2
    nothing = store.commit_texts(TextColumns([None], ["d"], ["x"]))
    assert (nothing.added, nothing.version, store.version) == (0, 1, 1)


def test_tables_that_cannot_be_read() -> None:
    store = RegistryStore()
    with pytest.raises(TableError, match="subscriber"):
        store.commit_table(pa.table({"id": [1], "expression": ["x = 1"]}))
    with pytest.raises(TableError):
        store.commit_table([1, 2])
    with pytest.raises(TableError, match="subscriber"):
        read_intervals(intervals([1]))
    with pytest.raises(TableError, match="nulls"):
        read_intervals(intervals([1, 2], subscriber=["a", None]))
    with pytest.raises(TableError, match="strings"):
        read_intervals(intervals([1], subscriber=[5]))
    frame = pd.DataFrame({"id": [1], "subscriber": ["d"], "expression": ["x = 1"]})
    assert store.commit_table(frame).added == 1


@pytest.mark.parametrize("shards", [[0], [0, 2**15], [-1, 0], "ab", [0.5, 1.0], None])
def test_shards_that_do_not_fit(shards: Any) -> None:
    store = RegistryStore()
    with pytest.raises(SettingError):
        store.commit_texts(TextColumns(["a", "b"], ["d", "d"], ["x", "y"]), shards=shards)
    with pytest.raises(SettingError):
        store.commit_intervals(read_intervals(intervals([1, 2]), "d"), shards=shards)
    assert store.version == 0


def test_columns_that_do_not_fit() -> None:
    store = RegistryStore()
    with pytest.raises(SettingError):
        store.commit_texts(TextColumns(["a", "b"], ["d"], ["x", "y"]))
    with pytest.raises(SettingError):
        store.commit_texts(TextColumns(["a"], ["d"], ["x"]), routes=[UNIVERSAL] * 2)
    load = read_intervals(intervals([1, 2]), "d")
    with pytest.raises(SettingError):
        store.commit_intervals(
            load, routes=PivotChooser().routes_of_rows(read_intervals(intervals([1]), "d").predicates)
        )


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
    answer = store.commit_intervals(load, shards=[0, 1, 0])
    assert answer.rejections == load.rejections
    assert [store.get(id).text for id in "abc"] == ["x = 1 and y = 3", "x = 2 and y between 4.5 and 5", "z <= 6"]
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
    answer = store.commit_intervals(load, shards=Placement(2).place_many(routes, load.ids), routes=routes)
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


# ------------------------------------------------------------------------------------------------------ reading and time


def test_changes_that_are_no_longer_known() -> None:
    store = RegistryStore(kept_versions=2)
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
    store.commit_intervals(read_intervals(intervals(list(range(100))), "desk"))
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


def test_pages_stay_in_place_while_others_come_and_go() -> None:
    store = RegistryStore()
    store.commit([Subscribe(f"s{number}", "desk", "x = 1") for number in range(6)])
    first = store.page("desk", limit=2)
    assert [item.id for item in first.items] == ["s0", "s1"]
    store.commit([Unsubscribe("s0"), Unsubscribe("s3"), Subscribe("s1", "desk", "x = 2")])
    second = store.page("desk", first.after, 3)
    assert [item.id for item in second.items] == ["s2", "s4", "s5"]
    last = store.page("desk", second.after, 3)
    assert ([item.id for item in last.items], last.after) == (["s1"], None)
    assert store.page("desk", None) == store.page("nobody") == Page([], None)
    for limit in (0, 10_001):
        with pytest.raises(SettingError):
            store.page("desk", limit=limit)


def test_a_reader_sees_the_state_it_began_with(tmp_path: Path) -> None:
    with RegistryStore(tmp_path / "registry.db") as store:
        one(store, Subscribe("s", "desk", "x = 1"))
        with store._view() as view:
            one(store, Subscribe("t", "desk", "x = 1"))
            assert view.connection.execute("SELECT count(*) FROM subscriptions").fetchone() == (1,)
        assert store.counts().subscriptions == 2


@pytest.mark.parametrize("in_memory", [True, False])
def test_readers_beside_a_writer_never_see_half_a_change(tmp_path: Path, in_memory: bool) -> None:
    """The id goes back and forth between a text and a block; it is always there."""
    store = RegistryStore(None if in_memory else tmp_path / "registry.db")
    one(store, Subscribe("s", "desk", "x = 0"))
    load, stop, wrong = read_intervals(intervals(["s"]), "desk"), threading.Event(), []

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
        store.commit_intervals(load)
        one(store, Subscribe("s", "desk", f"x = {number}"))
    stop.set()
    for reader in readers:
        reader.join()
    store.close()
    assert wrong == []


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = RegistryStore(tmp_path / "registry.db")
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.counts()
    with pytest.raises(StoreError, match="closed"):
        store.commit([])


def test_answers_and_columns_cross_processes() -> None:
    store = RegistryStore()
    committed = store.commit([Subscribe("s", "desk", "x = 1"), Subscribe(None, "desk", "x = 1")])  # type: ignore[arg-type]
    copied = pickle.loads(pickle.dumps(committed))
    assert copied.answers[0] == committed.answers[0]
    assert str(copied.answers[1]) == str(committed.answers[1])
    bulk = pickle.loads(pickle.dumps(store.commit_intervals(read_intervals(intervals([1, 2]), "desk"))))
    assert (bulk.first, bulk.added) == (2, 2)
    columns = pickle.loads(pickle.dumps(store.changes_since(0, 0)))
    assert (columns.added.texts, columns.added.intervals[0].table.num_rows) == (["x = 1"], 2)
    assert pickle.loads(pickle.dumps(store.page("desk"))) == store.page("desk")


def test_from_one_placement_to_the_next() -> None:
    """A cluster that is started again: split pivots are kept, all else is counted from what is stored."""
    store, placement = RegistryStore(), Placement(2)
    routes = [Route((f"p{number % 3}",)) for number in range(900)]
    shards = [placement.place(route, number) for number, route in enumerate(routes)]
    store.commit_texts(TextColumns(list(range(900)), ["d"] * 900, ["x"] * 900), shards=shards, routes=routes)
    store.commit([SetPlacement(placement.state())])
    again = Placement.of_state(store.placement() or {})
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
