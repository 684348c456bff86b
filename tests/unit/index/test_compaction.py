"""After most subscriptions are gone, slots are renumbered: the answers are the same, and memory is freed."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import MatchIndex
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.index.match_index import SLOTS_UNTIL_COMPACTION

COUNT = 12_000
EVENT = {"x": 500, "name": "n7", "word": "carpet"}


def text(number: int) -> str:
    kind = number % 4
    if kind == 0:
        return f"x between {number % 1000} and {number % 1000 + 200}"
    if kind == 1:
        return f"name = 'n{number}' or x = {number % 1000}"
    return f"word like '%{number % 7}%' or x < {number % 900}" if kind == 2 else f"name in ('n7', 'm{number}')"


def table(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    return pa.table({"id": ids, "attribute": ["x"] * count, "low": ids % 1000, "high": ids % 1000 + 50})


@pytest.fixture(params=[engine for engine in engine_names() if engine != "scan"])
def index(request) -> MatchIndex:
    index = MatchIndex(request.param)
    index.add_many(range(COUNT), map(text, range(COUNT)), atomic=True)
    index.add_predicates(table(COUNT, COUNT))
    return index


def test_the_rest_is_as_before(index: MatchIndex) -> None:
    kept = set(range(0, COUNT, 50)) | set(range(COUNT, 2 * COUNT, 80))
    texts = {number: index.expression(number) for number in list(kept)[::20]}
    expected = [number for number in index.match(EVENT) if number in kept]
    books = index._books
    index.remove_many([number for number in index if number not in kept])
    assert index._books is not books, "slots were not renumbered"
    assert index.match(EVENT) == expected
    assert list(index) == sorted(kept)
    assert {number: index.expression(number) for number in texts} == texts
    index.add("fresh", "x = 500")
    assert index.match(EVENT) == [*expected, "fresh"]
    assert pickle.loads(pickle.dumps(index)).match(EVENT) == [*expected, "fresh"]
    assert index.remove(min(kept)) and index.match(EVENT) == [*[i for i in expected if i != min(kept)], "fresh"]


def test_memory_is_given_back(index: MatchIndex) -> None:
    before = index.nbytes
    index.remove_many(range(COUNT // 50, 2 * COUNT))
    assert index.nbytes < before / 10
    index.remove_many(range(COUNT))
    assert len(index) == 0 and index.match(EVENT) == []


def test_replacing_without_end_does_not_grow() -> None:
    index = MatchIndex()
    sizes = []
    for turn in range(3):
        for number in range(SLOTS_UNTIL_COMPACTION + 1_000):
            index.add(number % 100, f"x > {turn} and name = 'n{number}'")
        sizes.append(index.nbytes)
    assert max(sizes) < 1.5 * min(sizes) + 3_000_000
    assert len(index) == 100


def test_readers_go_on_while_slots_change() -> None:
    index = MatchIndex()
    index.add_many(range(COUNT), [f"x >= {number % 10}" for number in range(COUNT)])
    always = set(range(0, COUNT, 1000))
    wrong: list[object] = []
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            found = index.match({"x": 10})
            if not always <= set(found) or len(set(found)) != len(found):
                wrong.append(found)
                return

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        for number in range(COUNT):
            if number not in always:
                index.remove(number)
        index.add_many([number for number in range(COUNT) if number not in always], ["x >= 0"] * (COUNT - len(always)))
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong
    assert sorted(index.match({"x": 10})) == list(range(COUNT))


def test_a_table_of_strings_keeps_its_texts() -> None:
    """Such a table stays a source of its own; its subscriptions are found there by the slots they had."""
    index = MatchIndex()
    names = pa.table(
        {"id": [f"s{n}" for n in range(2000)], "attribute": ["name"] * 2000, "low": ["a"] * 2000, "high": ["n"] * 2000}
    )
    index.add_predicates(names)
    index.add_many(range(40_000), ["x = 1"] * 40_000)
    index.remove_many(range(40_000))
    index.remove_many([f"s{n}" for n in range(1, 2000)])
    assert index._books.catalogue.next_slot == 2000
    assert index.expression("s0") == "name between 'a' and 'n'"
    assert index.match({"name": "b"}) == ["s0"]
    assert pickle.loads(pickle.dumps(index)).match({"name": "b"}) == ["s0"]
