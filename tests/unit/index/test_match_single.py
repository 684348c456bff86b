"""A single event against an index that has just been changed: blocks, waiting tails, the tail and what was removed, in one call."""

from __future__ import annotations

import random
import sys
import threading
from typing import Any

import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import build_of
from ray_pubsub.index import merge_policy
from ray_pubsub.index import tombstone_bits as slot_marks
from ray_pubsub.index.merge_policy import MergePolicy
from ray_pubsub.index.segment_maintenance import SegmentMaintenance
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.model.event_batch import ListColumn
from ray_pubsub.settings import Limits

NAMES = ["a0", "a1", "a2", "a3"]
RUN = SegmentMaintenance.run


def with_small_tails(*, background: bool = False) -> MatchIndex:
    """Tails of 64 clauses: something is built or merged all the time."""
    index = MatchIndex()
    engine = SegmentedIndex(Limits(), build_of("auto", {}), MergePolicy(tail_clauses=64), background=background)
    index._books = index._books._replace(engine=engine)
    return index


def dense_text(turns: random.Random) -> str:
    lows = [turns.randrange(20) for _ in NAMES]
    return " and ".join(
        f"{name} between {low} and {low + turns.randrange(15)}" for name, low in zip(NAMES, lows, strict=True)
    )


def other_text(turns: random.Random) -> str:
    """Fractions, strings, sets, absence, several clauses, patterns; some of which a tail cannot decide by its records alone."""
    name = turns.choice(NAMES)
    return turns.choice(
        [
            f"{name} >= {turns.randrange(20)}.5 and a0 < {turns.randrange(25)}",
            f"s = '{turns.choice('abc')}' and {name} between 3 and {turns.randrange(30)}",
            f"{name} > 12 or s = '{turns.choice('abc')}'",
            f"{name} not in (1, 5, 9)",
            f"{name} is null or s like '{turns.choice('abc')}%'",
            f"s like '%{turns.choice('abc')}%' and {name} < 20",
            f"s not like '%{turns.choice('abc')}%' and {name} >= 2.5",
            "true",
            f"{name} between 9 and 3",
        ]
    )


def event(turns: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: turns.choice([turns.randrange(-1, 35), turns.randrange(34) + 0.5])
        for name in NAMES
        if turns.random() < 0.9
    }
    if turns.random() < 0.6:
        found["s"] = turns.choice(["a", "b", "abc", "nobody's"])
    return found


@pytest.mark.parametrize(("seed", "others"), [(0, 0.0), (1, 0.2), (2, 0.2), (3, 0.2)])
def test_it_finds_what_the_scan_does(seed: int, others: float, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed > 1:  # tails become blocks after an event or two
        monkeypatch.setattr(merge_policy, "BUILD_WORK", 100)
        monkeypatch.setattr(merge_policy, "BUILT_SET_WORK", 1)
        monkeypatch.setattr(merge_policy, "CLAUSE_WORK", 1)
    monkeypatch.setattr(slot_marks, "FEWEST_SETTLED", 16)
    monkeypatch.setattr(slot_marks, "SLOTS_PER_SETTLED", 1 << 20)
    turns = random.Random(seed)
    index, oracle = with_small_tails(), MatchIndex("scan")
    following = 0
    for step in range(18):
        count = 800 if step == 0 else turns.choice([1, 5, 40, 90])
        ids = list(range(following, following + count))
        following += count
        texts = [other_text(turns) if turns.random() < others else dense_text(turns) for _ in ids]
        monkeypatch.setattr(
            SegmentMaintenance, "run", RUN if step % 3 < 2 else lambda maintenance: None
        )  # or tails wait
        if step % 2:
            index.add_many(ids, texts)
        else:
            for identity, text in zip(ids, texts, strict=True):
                index.add(identity, text)
        oracle.add_many(ids, texts)
        gone = turns.sample(list(oracle), turns.choice([0, 1, 7, 60]))
        if step % 2:
            assert index.remove_many(gone) == len(gone)
        else:
            assert all(index.remove(identity) for identity in gone)
        oracle.remove_many(gone)
        again = turns.sample(list(oracle), 5)  # replaced: what they were is gone, what they are is new
        for replaced in again:
            text = dense_text(turns)
            index.add(replaced, text)
            oracle.add(replaced, text)
        for _ in range(8):
            one = event(turns)
            assert index.match(one) == oracle.match(one)


def test_a_replaced_subscription_is_there_once_whenever_one_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """While marks are settled and blocks are built in the background."""
    monkeypatch.setattr(slot_marks, "FEWEST_SETTLED", 8)
    monkeypatch.setattr(slot_marks, "SLOTS_PER_SETTLED", 1 << 20)
    index = with_small_tails(background=True)
    everybody = list(range(1500))
    index.add_many(everybody, ["a0 between 0 and 9 and a1 between 0 and 9"] * len(everybody))
    turns = random.Random(2)
    done = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        try:
            for number in range(1200):
                high = turns.randrange(5, 30)
                text = f"a0 between 0 and {high} and a1 between 0 and {high}"
                if number % 10:
                    index.add(turns.choice(everybody), text)
                else:
                    index.add_many(turns.sample(everybody, 20), [text] * 20)
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    writer = threading.Thread(target=write)
    try:
        writer.start()
        rounds = 0
        while not done.is_set() or rounds == 0:
            found = index.match({"a0": 3, "a1": 4})
            assert len(found) == len(everybody)
            assert set(found) == set(everybody)
            rounds += 1
    finally:
        sys.setswitchinterval(usual)
        writer.join()
    assert not failures
    index.wait_for_merges()
    assert sorted(index.match({"a0": 3, "a1": 4})) == everybody


def test_lists_are_not_made_python_objects_for_clauses_added_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those are for the scan engine: a list may have 100,000 elements, each an object."""
    index = MatchIndex()
    index.add("small", "not exists(items, n > 5)")
    index.add("other", "not list_contains(tags, 'a')")
    monkeypatch.setattr(ListColumn, "_rows", None)
    found = index.match_many(
        [{"items": [{"n": 1}, None], "tags": ["b"]}, {"items": [{"n": 7}], "tags": ["a"]}, {"tags": []}]
    )
    assert [sorted(each) for each in found] == [["other", "small"], [], ["other"]]
