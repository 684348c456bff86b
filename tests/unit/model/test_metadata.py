"""Data and tags of subscriptions: kept, returned on request, selected by, saved; and no part of matching."""

from __future__ import annotations

import gc
import pickle
import threading
import weakref
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.errors import (
    IndexFileError,
    MetadataError,
    RejectedSubscriptionsError,
    SettingError,
    UnknownSubscriptionError,
)
from ray_pubsub.index import match_index
from ray_pubsub.model.metadata import MOST_BYTES, MOST_DEPTH, MOST_TAGS, metadata_of

RULE: dict[str, Any] = {"title": "Prix élevé", "level": 3, "refs": ["a", None, 1.5, True], "more": {"x": {}}}


@pytest.fixture(params=["auto", "scan"])
def index(request: pytest.FixtureRequest) -> MatchIndex:
    index = MatchIndex(request.param)
    index.add("plain", "price > 5")
    index.add("rule", "price > 5", data=RULE, tags=["shop", "eu", "shop"])
    index.add(7, "price > 100", data="a text", tags=["eu"])
    return index


def test_what_was_given_comes_back(index: MatchIndex) -> None:
    assert index.data("rule") == RULE
    assert index.tags("rule") == ("eu", "shop")
    assert index.data(7) == "a text"
    assert index.data("plain") is None
    assert index.tags("plain") == ()
    with pytest.raises(UnknownSubscriptionError):
        index.data("nobody")


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"x": value}
    return value


def test_data_may_be_nested_as_events_may() -> None:
    """Deeper data could not be sent to another process, and would make the list of all subscriptions unreadable."""
    found = metadata_of(nested(MOST_DEPTH))
    assert found is not None and found.data == nested(MOST_DEPTH)
    for depth in (MOST_DEPTH + 1, 900, 2000):
        with pytest.raises(MetadataError, match="nested"):
            metadata_of(nested(depth))


def test_data_is_a_new_object_each_time(index: MatchIndex) -> None:
    index.data("rule")["title"] = "changed"
    assert index.data("rule") == RULE


def test_matches_know_data_and_tags(index: MatchIndex) -> None:
    found = index.match_many([{"price": 6}, {"price": 1}, {"price": 101}])
    assert found.subscription_ids.tolist() == ["plain", "rule", "plain", "rule", 7]
    assert found.data() == [None, RULE, None, RULE, "a text"]
    assert found.tags() == [(), ("eu", "shop"), (), ("eu", "shop"), ("eu",)]
    assert index.match_json(b'{"price": 101}').data() == [None, RULE, "a text"]


def test_a_result_from_another_process_says_where_to_ask(index: MatchIndex) -> None:
    sent = pickle.loads(pickle.dumps(index.match_many([{"price": 6}])))
    assert sent.subscription_ids.tolist() == ["plain", "rule"]
    with pytest.raises(SettingError, match="another process"):
        sent.data()


def test_a_replaced_subscription_has_only_its_own(index: MatchIndex) -> None:
    index.add("rule", "price > 6")
    assert index.data("rule") is None
    assert index.subscriptions(tag="eu") == [7]
    assert index.remove(7)
    assert index.subscriptions(tag="eu") == []
    index.add(7, "price > 1")
    assert index.tags(7) == ()


@pytest.mark.parametrize("engine", ["auto", "scan"])
def test_a_result_keeps_the_data_of_the_time_of_the_match(engine: str) -> None:
    index = MatchIndex(engine)
    index.add_many(["a", "b", "c"], ["x = 1"] * 3, data=[{"n": 1}, {"n": 2}, None], tags=[["t"], [], []])
    results = [index.match_many([{"x": 1}])]
    index.add("a", "x = 1", data={"n": 10})
    results.append(index.match_json(b'{"x": 1}\n{"x": 1}'))
    index.remove("b")
    index.add("c", "x = 1", data={"n": 30})
    results.append(index.match_many([{"x": 1}]))
    for round in range(3):  # slots are renumbered meanwhile
        index.add_many(range(40_000), ["x = 2"] * 40_000, data={"n": round})
        index.remove_many(range(40_000))
    index.add_many(["a", "c"], ["x = 1"] * 2)
    results.append(index.match_many([{"x": 1}]))
    found = [dict(zip(each.subscription_ids.tolist(), each.data(), strict=True)) for each in results]
    assert found == [
        {"a": {"n": 1}, "b": {"n": 2}, "c": None},
        {"a": {"n": 10}, "b": {"n": 2}, "c": None},
        {"a": {"n": 10}, "c": {"n": 30}},
        {"a": None, "c": None},
    ]
    assert [sorted(set(each.tags())) for each in results] == [[(), ("t",)], [()], [()], [()]]


def test_what_no_result_needs_is_not_kept() -> None:
    index = MatchIndex()
    index.add("a", "x = 1", data=1)
    carried = index._books.catalogue.carried
    first = index.match_many([{"x": 1}])
    index.add("a", "x = 1", data=2)
    second, later = index.match_many([{"x": 1}]), weakref.ref(carried.watch())
    index.add("a", "x = 1", data=3)
    assert (first.data(), second.data(), later() is None) == ([1], [2], False)
    del second
    assert later() is not None  # the first result is older
    del first
    gc.collect()
    assert later() is None


@pytest.mark.timeout(60)
def test_results_beside_a_writer_have_the_data_of_their_match() -> None:
    """The expression and the data of each version say the same number."""
    index, done = MatchIndex(), threading.Event()
    index.add("s", "x >= 0 and y < 0", data=0)

    def write() -> None:
        for number in range(1, 400):
            index.add("s", f"x >= {number} and y < {number}", data=number)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    events = [{"x": 1000, "y": number} for number in range(-1, 400)]
    while not done.is_set():
        result = index.match_many(events)
        number = int(result.counts().sum()) - 1  # y < number holds for number + 1 events
        assert set(result.data()) == {number}
    writer.join()


def test_tags_select(index: MatchIndex) -> None:
    assert index.subscriptions(tag="eu") == ["rule", 7]
    assert index.subscriptions(tag="asia") == []
    assert index.remove_many(tag="eu") == 2
    assert list(index) == ["plain"]
    assert index.match({"price": 101}) == ["plain"]
    assert index.remove_many(tag="eu") == 0
    with pytest.raises(SettingError, match="tag instead"):
        index.remove_many()
    with pytest.raises(SettingError, match="tag instead"):
        index.remove_many(["plain"], tag="eu")


@pytest.mark.parametrize("engine", ["auto", "rein", "scan"])
def test_saved_with_the_index(index: MatchIndex, engine: str, tmp_path: Path) -> None:
    index.add_predicates(
        pa.table({"id": ["i"], "attribute": ["price"], "low": [3], "high": [4]}), data={"n": 1}, tags=["eu"]
    )
    index.remove("plain")
    index.save(tmp_path / "rules")
    for copy in (MatchIndex.load(tmp_path / "rules", engine=engine), pickle.loads(pickle.dumps(index))):
        assert copy.data("rule") == RULE
        assert copy.data("i") == {"n": 1}
        assert copy.subscriptions(tag="eu") == ["rule", 7, "i"]
        assert copy.match_many([{"price": 101}]).data() == [RULE, "a text"]


@pytest.mark.parametrize("count", [3, 2000])
def test_many_at_once_bad_ones_beside_good_ones(count: int) -> None:
    """3 texts are parsed one by one, 2,000 are compiled together."""
    ids: list[Any] = [*range(count), "bad data", None, "bad text"]
    texts = [f"x = {number}" for number in range(count)] + ["x = 1", "x = 1", "x ="]
    data = [{"number": number} for number in range(count)] + [float("nan"), 1, 2]
    index = MatchIndex()
    report = index.add_many(ids, texts, data=data, tags=[["odd"] if n % 2 else [] for n in range(len(ids))])
    assert report.added == count
    assert [rejection.position for rejection in report.rejections] == [count, count + 1, count + 2]
    assert isinstance(report.rejections[0].error, MetadataError)
    assert index.data(count - 1) == {"number": count - 1}
    assert index.subscriptions(tag="odd") == list(range(1, count, 2))
    assert index.match_many([{"x": 2}]).data() == [{"number": 2}]
    with pytest.raises(RejectedSubscriptionsError) as caught:
        index.add_many(ids, texts, data=data, atomic=True)
    assert len(caught.value.rejections) == 3
    assert index.subscriptions(tag="odd") == list(range(1, count, 2))


def test_of_equal_ids_the_last_one_counts() -> None:
    index = MatchIndex()
    index.add_many(["a", "b", "a"], ["x = 1", "x = 2", "x = 3"], data=[1, 2, 3], tags=["all"])
    assert [index.data("a"), index.data("b")] == [3, 2]
    assert index.subscriptions(tag="all") == ["b", "a"]


def test_one_for_all_or_one_for_each() -> None:
    index = MatchIndex()
    index.add_many([1, 2], ["x = 1", "x = 2"], data={"source": "import"}, tags=["imported"])
    assert [index.data(1), index.data(2), index.tags(2)] == [{"source": "import"}] * 2 + [("imported",)]
    with pytest.raises(SettingError, match="1 for 2 subscriptions"):
        index.add_many([1, 2], ["x = 1", "x = 2"], data=[1])
    with pytest.raises(SettingError, match="list of texts"):
        index.add_many([1, 2], ["x = 1", "x = 2"], tags="eu")


def test_columns_of_tables() -> None:
    arrow = pa.table(
        {
            "id": [1, 2, 3],
            "expression": ["x = 1", "x = 2", "x = 3"],
            "data": ['{"title": "one"}', None, "no json"],
            "tags": ["a, b", None, ""],
        }
    )
    structs = arrow.set_column(2, "data", pa.array([{"title": "one"}, None, None])).set_column(
        3, "tags", pa.array([["a", "b"], [], None])
    )
    for table, third in ((arrow, "no json"), (arrow.to_pandas(), "no json"), (structs, None)):
        index = MatchIndex()
        assert index.add_table(table).added == 3
        assert [index.data(id) for id in (1, 2, 3)] == [{"title": "one"}, None, third]
        assert [index.tags(id) for id in (1, 2, 3)] == [("a", "b"), (), ()]
    frame = pd.DataFrame({"id": ["a"], "expression": ["x = 1"], "data": [{"deep": [1]}], "tags": [["t"]]})
    index.add_many(frame)
    assert (index.data("a"), index.tags("a")) == ({"deep": [1]}, ("t",))


@pytest.mark.parametrize(
    ("data", "tags", "reason"),
    [
        ("x" * MOST_BYTES, (), "4,098 bytes of JSON; at most 4,096"),
        ("é" * 2048, (), "4,098 bytes"),
        (float("inf"), (), "value of JSON"),
        ({1: 2}, (), "names in a JSON object are texts, not 1"),
        (b"bytes", (), "value of JSON"),
        ("\ud800", (), "value of JSON"),
        (None, "eu", "must be a list of texts"),
        (None, [""], "printable characters"),
        (None, ["a\nb"], "printable characters"),
        (None, ["a,b"], "without a comma"),
        (None, [1], "a tag is a str, not int"),
        (None, [str(n) for n in range(MOST_TAGS + 1)], "33 tags; at most 32"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_nothing_is_added(data: Any, tags: Any, reason: str) -> None:
    index = MatchIndex()
    with pytest.raises(MetadataError, match=reason):
        index.add("s", "x = 1", data=data, tags=tags)
    assert len(index) == 0


def test_renumbered_slots_keep_what_they_carry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match_index, "SLOTS_UNTIL_COMPACTION", 20)
    index = MatchIndex()
    for number in range(40):
        index.add(number, f"x = {number}", data=number, tags=["odd"] if number % 2 else ["even"])
        if number % 8:
            index.remove(number)
    assert index._books.catalogue.next_slot < 40
    assert [index.data(number) for number in index] == list(index) == [0, 8, 16, 24, 32]
    assert index.subscriptions(tag="even") == [0, 8, 16, 24, 32]


def test_a_forged_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ray_pubsub.index.storage import index_file

    forged = pa.table({"place": pa.array([9]), "data": ["1"], "tags": pa.array([[]], pa.list_(pa.string()))})
    monkeypatch.setattr(index_file, "metadata_table", lambda carried: forged)
    index = MatchIndex()
    index.add("s", "x = 1", data=1)
    index.save(tmp_path / "forged")
    with pytest.raises(IndexFileError, match="places of data"):
        MatchIndex.load(tmp_path / "forged")
