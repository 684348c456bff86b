"""A loaded index is the saved one, block by block, without being built again; and no file, whatever is in it, harms the process."""

from __future__ import annotations

import datetime
import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import Limits, MatchIndex
from ray_pubsub.columns.clause_table import ClauseTable
from ray_pubsub.columns.vocabulary import Vocabulary
from ray_pubsub.engines import segment_state
from ray_pubsub.engines.contract import Segment
from ray_pubsub.engines.dense.segment import DenseSegment
from ray_pubsub.engines.mixed_segment import MixedSegment
from ray_pubsub.engines.pivot.segment import PivotSegment
from ray_pubsub.engines.registry import engine_names
from ray_pubsub.errors import IndexFileError
from ray_pubsub.index.segmented_index import SegmentedIndex
from ray_pubsub.language.shapes import ShapeCache
from tests.inside_of_index import merge_all

COUNT = 1_200
WORDS = [f"w{number}" for number in range(30)]
LARGE = 2**53 + 1


def event(random: Random) -> dict[str, Any]:
    values: dict[str, Any] = {
        **{f"a{number}": random.choice([random.randrange(1000), random.random() * 1000, LARGE]) for number in range(4)},
        f"r{random.randrange(300)}": random.randrange(20),
        "s": random.choice([*WORDS, "x" + random.choice(WORDS) + "y", 7]),
        "t": datetime.datetime(2024, 5, random.randint(1, 28)),
        "b": random.random() < 0.5,
    }
    return {name: value for name, value in values.items() if random.random() < 0.9}


def dense_text(random: Random) -> str:
    tests = []
    for number in range(4):
        low = random.randrange(900)
        tests.append(f"a{number} between {low} and {low + random.randrange(100, 900)}")
    return " and ".join(tests)


def varied_tests(random: Random) -> list[str]:
    number, word = random.randrange(1000), random.choice(WORDS)
    forms = [
        f"a0 not between {number} and {number + 10}", f"a1 in ({number}, {number + 2}, {LARGE})", f"a2 > {number / 8}", f"s = '{word}'",
        f"s like '%{word}%'", f"s not like '{word[:2]}%'", f"s not like '%{word}y'", f"s regexp '{word}.?$'", "s like '%!_w%' escape '!'",
        f"t >= timestamp '2024-05-{1 + number % 28:02d} 00:00:00'", "b", "not b", "a3 is null", "s is not null", f"s > '{word}'",
    ]  # fmt: skip
    return random.sample(forms, 3)


def varied_text(random: Random) -> str:
    return " and ".join(varied_tests(random))


def sparse_text(random: Random) -> str:
    return " and ".join(f"r{random.randrange(300)} <= {random.randrange(20)}" for _ in range(random.randint(1, 3)))


def conjunctive_text(random: Random) -> str:
    nested = " and (a0 = 1 or (a1 > 5 and (b or s is null)))" if random.random() < 0.3 else ""
    return " and ".join(f"({' or '.join(varied_tests(random))})" for _ in range(4)) + nested


def table(random: Random, ids: range) -> pa.Table:
    rows = [(identity, f"a{number}", random.randrange(900)) for identity in ids for number in range(4)]
    ids_, attributes, lows = zip(*rows, strict=True)
    return pa.table({"id": ids_, "attribute": attributes, "low": lows, "high": [low + 400 for low in lows]})


def of_texts(make: Callable[[Random], str], engine: str = "auto", count: int = COUNT, **options: Any) -> MatchIndex:
    random, index = Random(3), MatchIndex(engine, **options)
    assert index.add_many(range(count), [make(random) for _ in range(count)])
    return index


def mixed(clauses: ClauseTable, vocabulary: Vocabulary, frequency: Any = None) -> Segment:
    half = np.arange(clauses.count) < clauses.count // 2
    parts = clauses.take(np.flatnonzero(half)), clauses.take(np.flatnonzero(~half))
    return MixedSegment([DenseSegment(parts[0], vocabulary), PivotSegment(parts[1], vocabulary)])


def forced(build: Any, make: Callable[[Random], str]) -> MatchIndex:
    index = MatchIndex()
    live(index).segment_build = build
    random = Random(5)
    index.add_many(range(COUNT), [make(random) for _ in range(COUNT)])
    return index


def live(index: MatchIndex) -> SegmentedIndex:
    engine = index._books.engine
    assert isinstance(engine, SegmentedIndex)
    return engine


def intervals_and_texts() -> MatchIndex:
    random, index = Random(7), MatchIndex()
    index.add("first", "a0 > 5")
    index.add_predicates(table(random, range(COUNT)))
    index.add_many([f"t{number}" for number in range(1100)], [varied_text(random) for _ in range(1100)])
    rows = [("any", "a0", None, None), ("or", "a1", 1, 5), ("or", "a1", 8, 9), ("huge", "a2", LARGE, None)]
    parts = zip(*rows, strict=True)
    index.add_predicates(pa.table(dict(zip(("id", "attribute", "low", "high"), parts, strict=True))))
    moments = pa.array([datetime.datetime(2024, 5, 3)], pa.timestamp("us"))
    index.add_predicates(pa.table({"id": ["moment"], "attribute": ["t"], "low": moments, "high": moments}))
    halves = pa.table({"id": [5000, 5001], "attribute": ["a0", "a1"], "low": [0.5, 1e300], "high": [700.25, None]})
    index.add_predicates(halves)
    return index


def with_removals() -> MatchIndex:
    index = intervals_and_texts()
    index.remove_many([*range(0, COUNT, 7), *(f"t{number}" for number in range(0, 1100, 5))])
    index.add(3, "a0 > 500")
    index.add("first", "a1 > 5")
    return index


def compacted() -> MatchIndex:
    random, index = Random(9), MatchIndex()
    texts = [dense_text(random) for _ in range(2_000)]
    for _ in range(12):
        index.add_many(range(2_000), texts)
    index.add_many(range(2_000), [dense_text(random) for _ in range(2_000)])
    index.remove_many(range(0, 2_000, 3))
    assert index._books.catalogue.next_slot < 26_000
    return index


def with_every_leaf_of_a_block_removed() -> MatchIndex:
    index = of_texts(sparse_text)
    index.remove_many(range(COUNT))
    return index


INDEXES: dict[str, tuple[Callable[[], MatchIndex], set[str]]] = {
    "empty": (MatchIndex, set()),
    "all removed": (with_every_leaf_of_a_block_removed, set()),
    "tail only": (lambda: of_texts(varied_text, count=300), {"pivot"}),
    "dense": (lambda: forced(DenseSegment, dense_text), {"dense"}),
    "dense, varied": (lambda: forced(DenseSegment, varied_text), {"dense"}),
    "pivot": (lambda: of_texts(sparse_text), {"pivot"}),
    "pivot, varied": (lambda: forced(PivotSegment, varied_text), {"pivot"}),
    "shared": (lambda: of_texts(lambda random: dense_text(Random(random.randrange(200)))), {"shared"}),
    "shared, mixed": (lambda: forced(mixed, lambda random: dense_text(Random(random.randrange(900)))), {"shared", "mixed"}),
    "mixed": (lambda: forced(mixed, varied_text), {"mixed", "dense", "pivot"}),
    "conjunctive": (lambda: of_texts(conjunctive_text, limits=Limits(clauses=2)), {"cnf"}),
    "intervals and texts": (intervals_and_texts, set()),
    "with removals": (with_removals, set()),
    "compacted": (compacted, set()),
    **{
        engine: (lambda engine=engine: of_texts(varied_text, engine), {engine})  # type: ignore[misc]
        for engine in engine_names()
        if engine not in ("auto", "scan")
    },
    "options": (lambda: of_texts(dense_text, "gem", cache=8, tau=5), {"gem"}),
}  # fmt: skip
every_index = pytest.mark.parametrize("name", INDEXES)


@cache
def made(name: str) -> MatchIndex:
    """For tests that leave it as it is."""
    return INDEXES[name][0]()


def kinds(index: MatchIndex) -> set[str]:
    """Of all blocks, and of what is inside of them."""
    found: set[str] = set()
    states = [block.state() for block in live(index).snapshot.blocks]
    while states:
        state = states.pop()
        found.add(state["kind"])
        states += [*state.get("parts", ()), *([state["inside"]] if "inside" in state else [])]
    return found


def loaded_without_building(path: Path, monkeypatch: pytest.MonkeyPatch) -> MatchIndex:
    parse, loading = ShapeCache.parse, [True]

    def parse_later(self: ShapeCache, text: str) -> Any:
        assert not loading
        return parse(self, text)

    monkeypatch.setattr(ShapeCache, "parse", parse_later)
    with monkeypatch.context() as patched:
        patched.setattr(SegmentedIndex, "change", None)
        patched.setattr(SegmentedIndex, "build", None)
        loaded = MatchIndex.load(path)
    loading.clear()
    return loaded


def assert_alike(index: MatchIndex, other: MatchIndex, events: list[dict[str, Any]]) -> None:
    assert list(other) == list(index)
    assert (other.engine, other.options, other.limits) == (index.engine, index.options, index.limits)
    expected = [index.match(each) for each in events]
    assert [other.match(each) for each in events] == expected
    enough = events * (300 // len(events) + 1)  # for the way that large batches take
    many, others = index.match_many(enough), other.match_many(enough)
    for row in range(len(events)):
        start, end = many.offsets[row : row + 2]
        other_start, other_end = others.offsets[row : row + 2]
        found = sorted(map(str, others.subscription_ids[other_start:other_end].tolist()))
        assert found == sorted(map(str, many.subscription_ids[start:end].tolist()))


@every_index
def test_a_round_trip(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, random = made(name), Random(1)
    events = [event(random) for _ in range(20)]
    index.save(tmp_path / "index")
    loaded = loaded_without_building(tmp_path / "index", monkeypatch)
    assert INDEXES[name][1] <= kinds(loaded)
    assert_alike(index, loaded, events)
    assert len(index) == 0 or any(index.match(each) for each in events)
    for identity in list(index)[:: max(1, len(index) // 40)]:
        assert loaded.explain(events[0], identity) == index.explain(events[0], identity)
        assert loaded.expression(identity) == index.expression(identity)
    assert loaded.explain(events[1]).matches == index.explain(events[1]).matches
    assert_alike(index, pickle.loads(pickle.dumps(loaded, protocol=5)), events)
    assert_alike(index, pickle.loads(pickle.dumps(loaded, protocol=4)), events)


@every_index
def test_changes_after_loading(name: str, tmp_path: Path) -> None:
    make, _ = INDEXES[name]
    index, random = make(), Random(2)
    index.save(tmp_path / "index")
    loaded = MatchIndex.load(tmp_path / "index")
    events = [event(random) for _ in range(20)]
    gone = list(index)[::3]
    texts = [dense_text(random) for _ in range(1_100)]
    for each in (index, loaded):
        each.remove_many(gone)
        each.add("new", "a0 >= 0 or s is not null")
        each.add_many([f"n{number}" for number in range(1_100)], texts)
        each.add_predicates(table(Random(4), range(100_000, 101_100)))
    assert_alike(index, loaded, events)
    for each in (index, loaded):
        merge_all(live(each))
    assert_alike(index, loaded, events)
    loaded.save(tmp_path / "again")
    assert_alike(index, MatchIndex.load(tmp_path / "again"), events)


@every_index
def test_another_layout_is_built_from_the_subscriptions(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, random = made(name), Random(6)
    index.save(tmp_path / "index")
    monkeypatch.setattr(segment_state, "LAYOUT", segment_state.LAYOUT + 1)
    with monkeypatch.context() as patched:
        patched.setattr(SegmentedIndex, "restore", None)
        loaded = MatchIndex.load(tmp_path / "index")
    assert_alike(index, loaded, [event(random) for _ in range(30)])


def test_another_engine_is_built_from_the_subscriptions(tmp_path: Path) -> None:
    index, random = intervals_and_texts(), Random(8)
    index.save(tmp_path / "index")
    events = [event(random) for _ in range(10)]
    for engine in ("scan", "rein"):
        loaded = MatchIndex.load(tmp_path / "index", engine=engine)
        assert loaded.engine == engine
        assert [loaded.match(each) for each in events] == [index.match(each) for each in events]


def test_a_scan_keeps_tables_of_intervals(tmp_path: Path) -> None:
    index, random = MatchIndex("scan"), Random(8)
    index.add_predicates(table(random, range(20)))
    index.add("t", "a0 > 1")
    index.add_predicates(table(random, range(100, 110)))
    index.save(tmp_path / "index")
    loaded = MatchIndex.load(tmp_path / "index")
    assert_alike(index, loaded, [event(random) for _ in range(10)])
    assert [loaded.expression(identity) for identity in loaded] == [index.expression(identity) for identity in index]


def test_what_was_removed_has_no_ids_in_the_file(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_many([f"id-{number}" for number in range(COUNT)], ["a0 > 1"] * COUNT)
    index.remove("id-77")
    index.save(tmp_path / "index")
    content = (tmp_path / "index").read_bytes()
    assert b"id-78" in content
    assert b"id-77id" not in content and b"id-76id-78" in content


def test_bytes_beside_the_pickle() -> None:
    index = of_texts(sparse_text)
    buffers: list[pickle.PickleBuffer] = []
    stream = pickle.dumps(index, protocol=5, buffer_callback=buffers.append)
    assert len(stream) < 1000
    copy = pickle.loads(stream, buffers=[memoryview(buffer).toreadonly() for buffer in buffers])
    assert_alike(index, copy, [event(Random(3)) for _ in range(5)])


STATES = {
    "dense": "bitmaps edges exact holes outer owners rate rows space",
    "pivot": "bucket clauses directory entries space universal words",
    "shared": "group inside owners",
    "mixed": "parts",
    "cnf": "coded owners",
    "gem": "coded owners",
}


@pytest.mark.parametrize("name", ["dense, varied", "pivot", "shared", "mixed", "conjunctive", "gem"])
def test_the_layout_is_numbered(name: str) -> None:
    """A change of what a state holds fails this test: then raise LAYOUT."""
    assert segment_state.LAYOUT == 5
    for block in live(made(name)).snapshot.blocks:
        state = block.state()
        assert " ".join(sorted(state.keys() - {"kind"})) == STATES[state["kind"]]


# -------------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("name", ["mixed", "conjunctive", "with removals"])
def test_a_byte_changed_anywhere(name: str, tmp_path: Path) -> None:
    made(name).save(tmp_path / "index")
    content = bytearray((tmp_path / "index").read_bytes())
    random = Random(11)
    for place in random.sample(range(len(content)), 60):
        content[place] ^= 1 << random.randrange(8)
        (tmp_path / "changed").write_bytes(content)
        with pytest.raises(IndexFileError):
            MatchIndex.load(tmp_path / "changed")
        content[place] ^= content[place] ^ (tmp_path / "index").read_bytes()[place]


HOSTILE = """
import faulthandler, struct, sys
from random import Random
import msgpack, xxhash
from ray_pubsub import MatchIndex
from ray_pubsub.errors import RayPubSubError
from tests.unit.index.test_built_files import event

faulthandler.enable()
rounds = int(sys.argv[1])
for path in sys.argv[2:]:
    print(path, file=sys.stderr, flush=True)
    content = open(path, "rb").read()
    length = struct.unpack_from("<Q", content, 16)[0]
    header = msgpack.unpackb(content[24 : 24 + length])
    body = content[24 + length + 8 :]
    sizes = [size for size, _ in header["sections"]]
    for kind, shape, _ in header["arrays"]:
        size = int(kind[-1])
        for each in shape:
            size *= each
        sizes.append(size)
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    random, refused, survived = Random(13), 0, 0
    events = [event(random) for _ in range(300)]
    filled = [number for number, size in enumerate(sizes) if size]
    for round in range(rounds):
        changed, built = bytearray(body), bytearray(header["built"])
        if round % 5 == 0:
            built[random.randrange(len(built))] ^= 1 << random.randrange(8)
        else:
            number = random.choice(filled)
            for _ in range(random.choice([1, 1, 3, 50])):
                place = starts[number] + random.randrange(sizes[number])
                changed[place] = random.choice([changed[place] ^ (1 << random.randrange(8)), 0, 255, random.randrange(256)])
        sums = [xxhash.xxh3_64_intdigest(changed[start : start + size]) for start, size in zip(starts, sizes)]
        split = len(header["sections"])
        sealed = {
            **header,
            "built": bytes(built),
            "sections": [(size, checksum) for size, checksum in zip(sizes, sums[:split])],
            "arrays": [(kind, shape, checksum) for (kind, shape, _), checksum in zip(header["arrays"], sums[split:])],
        }
        packed = msgpack.packb(sealed)
        start = content[:16] + struct.pack("<Q", len(packed)) + packed
        with open(path + ".hostile", "wb") as file:
            file.write(start + struct.pack("<Q", xxhash.xxh3_64_intdigest(start)) + changed)
        try:
            loaded = MatchIndex.load(path + ".hostile")
        except RayPubSubError:
            refused += 1
            continue
        survived += 1
        for use in (
            lambda: loaded.match(events[round % 300]),
            lambda: loaded.match_many(events),
            lambda: loaded.explain(events[round % 300]),
            lambda: loaded.expression(next(iter(loaded))),
            lambda: loaded.remove_many(list(loaded)[::3]),
            lambda: merge_all(loaded._books.engine),
            lambda: loaded.match_many(events),
        ):
            try:
                use()
            except Exception:
                pass
    assert refused and survived, (refused, survived)
"""


def test_made_up_files_never_crash_the_process(tmp_path: Path) -> None:
    """Bytes changed, checksums made to fit: the file is refused, or the index answers wrongly or with an exception, and that is all."""
    names = ("dense, varied", "pivot, varied", "shared, mixed", "conjunctive", "gem", "dexin", "rein", "opindex")
    for name in names:
        made(name).save(tmp_path / name)
    root = Path(__file__).parents[3]
    run = subprocess.run(
        [sys.executable, "-c", HOSTILE, "15", *(str(tmp_path / name) for name in names)],
        check=False, cwd=root, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
