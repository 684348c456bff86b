"""Saved indexes: what goes in comes out, and a file that is not whole is refused whole."""

from __future__ import annotations

import datetime
import os
import pickle
import re
import resource
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ray_pubsub import Limits, MatchIndex
from ray_pubsub.errors import ExpressionLimitError, IndexFileError, RayPubSubError, SettingError
from ray_pubsub.index.storage.saved_texts import SavedTexts
from ray_pubsub.language.shapes import ShapeCache

INF = float("inf")


def reloaded(index: MatchIndex, folder: Path) -> MatchIndex:
    index.save(folder / "index")
    return MatchIndex.load(folder / "index")


def texts(index: MatchIndex) -> dict[str | int, str]:
    return {identity: index.expression(identity) for identity in index}


def intervals(*rows: tuple[Any, str, Any, Any, bool, bool], bound: pa.DataType | None = None) -> pa.Table:
    ids, attributes, lows, highs, low_closed, high_closed = zip(*rows, strict=True)
    return pa.table(
        {
            "id": list(ids),
            "attribute": list(attributes),
            "low": pa.array(lows, bound),
            "high": pa.array(highs, bound),
            "low_closed": list(low_closed),
            "high_closed": list(high_closed),
        }
    )


# ----------------------------------------------------------------------------------------------------------- round trips


def test_an_empty_index(tmp_path: Path) -> None:
    loaded = reloaded(MatchIndex(), tmp_path)
    assert len(loaded) == 0
    assert loaded.match({"x": 1}) == []
    loaded.add("s", "x = 1")
    assert loaded.match({"x": 1}) == ["s"]


def test_texts_are_kept_as_they_were_written(tmp_path: Path) -> None:
    index = MatchIndex()
    written: dict[str | int, str] = {
        "plain": "x = 1",
        "odd": "  X  =  1   AND not(  `a b` like 'it''s%' ) ",
        "unicode": "s = '\U0001f600' or größe > 5",
        "lines": "x = 1\n  and y = 2",
        "": "true",
        "null\0byte": "s = 'a\0b'",
        7: "s regexp '^a+$'",
        -(2**63): "x is null",
        2**63 - 1: "t > timestamp '2024-05-01 10:00:00+02:00'",
        "7": "x in (1, 2.5, double 'inf')",
    }
    for identity, text in written.items():
        index.add(identity, text)
    loaded = reloaded(index, tmp_path)
    assert texts(loaded) == written
    assert list(loaded) == list(written)
    assert [type(identity) for identity in loaded] == [type(identity) for identity in written]
    events: list[dict[str, Any]] = [{"x": 1}, {"x": INF}, {"s": "aa"}, {"s": "\U0001f600"}, {"s": "a\0b"}, {}]
    assert [loaded.match(event) for event in events] == [index.match(event) for event in events]


TABLES = {
    "integers": intervals(
        ("a", "x", 1, 5, True, False),
        ("b", "x", 2**53 + 1, None, False, True),
        ("a", "y", None, 3, True, True),
        ("c", "x", -(2**63), 2**63 - 1, True, True),
        ("a", "x", 7, 7, True, True),
        ("d", "x", None, None, True, True),
    ),
    "floats": intervals(
        (1, "x", 0.1, INF, False, True), (2, "x", -INF, -0.0, True, False), (3, "x", 5e-324, 1e300, True, True)
    ),
    "strings": intervals(
        ("a", "s", "", "b", True, False),
        ("b", "s", "\U0001f600", None, False, True),
        ("c", "it's", "x", "y", True, True),
    ),
    "booleans": intervals(("a", "b", False, False, True, True), ("b", "b", False, None, False, True)),
    "timestamps": intervals(
        ("a", "t", datetime.datetime(1969, 12, 31), datetime.datetime(2024, 5, 1, 10, 0, 0, 1), True, False),
        ("b", "t", None, datetime.datetime(2024, 5, 1), True, True),
    ),
    "zoned timestamps": intervals(("a", "t", 0, 1_714_557_600, True, True), bound=pa.int64())
    .set_column(2, "low", pa.array([0], pa.timestamp("s", "UTC")))
    .set_column(3, "high", pa.array([1_714_557_600], pa.timestamp("s", "Asia/Tokyo"))),
    "large strings": intervals(("a", "s", "a", "b", True, True), bound=pa.large_string()),
}
VALUES: list[Any] = [
    *(0, 1, 3, 5, 7, 2**53, 2**53 + 1, 2**53 + 2, -(2**63), 2**63 - 1, 0.1, 0.2, -0.5, 5e-324, INF, -INF),
    *("", "a", "b", "x", "\U0001f600", "\U0001f601", True, False),
    *(datetime.datetime(1969, 12, 31), datetime.datetime(2024, 5, 1, 10), datetime.datetime(2024, 5, 1, 10, 0, 0, 1)),
]
EVENTS = [{name: value} for value in VALUES for name in ("x", "s", "b", "t", "it's")] + [{"x": 2, "y": 3}, {}]


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_predicates_of_every_kind(table: pa.Table, tmp_path: Path) -> None:
    index = MatchIndex()
    assert index.add_predicates(table)
    loaded = reloaded(index, tmp_path)
    assert texts(loaded) == texts(index)
    assert list(loaded) == list(index)
    found = [index.match(event) for event in EVENTS]
    assert [loaded.match(event) for event in EVENTS] == found
    assert any(found)


def test_what_was_replaced_or_removed_is_not_saved(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_predicates(TABLES["integers"])
    index.add_predicates(TABLES["strings"])  # replaces a, b and c
    index.add("b", "x = 1")
    index.add("gone", "x = 1")
    index.remove("gone")
    index.remove("c")
    loaded = reloaded(index, tmp_path)
    assert texts(loaded) == texts(index)
    assert list(loaded) == ["d", "a", "b"]


def test_texts_and_predicates_keep_their_order(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add("first", "x > 0")
    index.add_predicates(intervals((7, "x", 0, 9, True, True), (3, "x", 0, 9, True, True)))
    index.add(5, "x > 0")
    index.add_predicates(intervals(("p", "x", 0, 9, True, True)))
    index.add("first", "x > 1")
    loaded = reloaded(index, tmp_path)
    assert list(loaded) == list(index) == [7, 3, 5, "p", "first"]
    again = reloaded(loaded, tmp_path)
    assert list(again) == list(index)


def test_matches_keep_their_order(tmp_path: Path) -> None:
    """`match` gives ids in the order they were added, before and after."""
    index = MatchIndex()
    index.add_predicates(intervals(("first", "x", 0, 9, True, True)))
    index.add("second", "x > 0")
    assert index.match({"x": 5}) == ["first", "second"]
    assert reloaded(index, tmp_path).match({"x": 5}) == ["first", "second"]


def test_a_loaded_index_is_alive(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_many(["a", 1], ["x = 1", "x = 1"])
    index.add_predicates(intervals(("p", "x", 0, 9, True, True)))
    loaded = reloaded(index, tmp_path)
    assert loaded.remove("p")
    loaded.add("a", "x = 2")
    loaded.add_predicates(intervals(("q", "x", 1, 1, True, True)))
    assert sorted(map(str, loaded.match({"x": 1}))) == ["1", "q"]
    assert texts(reloaded(loaded, tmp_path)) == texts(loaded)
    assert index.match({"x": 1}) == ["a", 1, "p"]


def test_engine_and_limits_are_kept(tmp_path: Path) -> None:
    limits = Limits(leaves=3, clauses=7)
    index = MatchIndex("scan", limits=limits)
    index.add("s", "x = 1 and y = 2")
    loaded = reloaded(index, tmp_path)
    assert (loaded.engine, loaded.limits) == ("scan", limits)
    with pytest.raises(ExpressionLimitError):
        loaded.add("t", "a = 1 and b = 2 and c = 3 and d = 4")


def test_another_engine_for_a_loaded_index(tmp_path: Path) -> None:
    index = MatchIndex("scan")
    index.add("s", "x = 1")
    index.save(tmp_path / "index")
    assert MatchIndex.load(tmp_path / "index", engine="auto").engine == "auto"
    with pytest.raises(SettingError):
        MatchIndex.load(tmp_path / "index", engine="no such engine")


def test_paths_are_strings_or_paths(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add("s", "x = 1")
    index.save(str(tmp_path / "index"))
    assert list(MatchIndex.load(str(tmp_path / "index"))) == ["s"]


def test_thousands_of_subscriptions(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_many(range(3_000), [f"x = {number} and s = 'n{number}'" for number in range(3_000)])
    loaded = reloaded(index, tmp_path)
    assert texts(loaded) == texts(index)
    assert loaded.match({"x": 2_999, "s": "n2999"}) == [2_999]


# -------------------------------------------------------------------------------------------------------- damaged files


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("saved") / "index"
    index = MatchIndex()
    index.add("s", "x = 1 and s = 'text'")
    index.add_predicates(intervals((1, "x", 1, 2, True, False)))
    index.save(path)
    return path.read_bytes()


def refused(path: Path) -> str:
    with pytest.raises(IndexFileError) as caught:
        MatchIndex.load(path)
    assert caught.value.path == str(path)
    assert str(path) in str(caught.value)
    return caught.value.reason


def refused_content(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return refused(path)


def test_cut_short_anywhere(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut"
    path.write_bytes(content)
    assert len(MatchIndex.load(path)) == 2
    for length in reversed(range(len(content))):
        os.truncate(path, length)
        refused(path)


@pytest.mark.parametrize("mask", [0x01, 0xFF])
def test_a_byte_changed_anywhere(content: bytes, mask: int, tmp_path: Path) -> None:
    path = tmp_path / "changed"
    path.write_bytes(content)
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(content):
            os.pwrite(file.fileno(), bytes([byte ^ mask]), place)
            refused(path)
            os.pwrite(file.fileno(), bytes([byte]), place)
    assert len(MatchIndex.load(path)) == 2


def test_bytes_after_the_end(content: bytes, tmp_path: Path) -> None:
    assert "after its end" in refused_content(tmp_path / "longer", content + b"\0")
    refused_content(tmp_path / "twice", content + content)


@pytest.mark.parametrize(
    "foreign", [b"", b"\0" * 100, b"PK\3\4" + b"x" * 500, b"ray-pubsub", b"id,expression\n1,x = 1\n"]
)
def test_foreign_files(foreign: bytes, tmp_path: Path) -> None:
    assert "not a saved ray-pubsub index" in refused_content(tmp_path / "foreign", foreign)


@pytest.mark.parametrize("version", [0, 2, 2**32 - 1])
def test_another_version_of_the_format(content: bytes, version: int, tmp_path: Path) -> None:
    changed = content[:12] + struct.pack("<I", version) + content[16:]
    assert f"format version {version}" in refused_content(tmp_path / "newer", changed)


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match=re.escape(str(tmp_path / "missing"))):
        MatchIndex.load(tmp_path / "missing")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IndexFileError, match="cannot be read"):
        MatchIndex.load(tmp_path)


# ------------------------------------------------------------------------------------------------------- failing writes


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As on a full disk: a write beyond the limit is an OSError."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def fails_to_replace(monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(self: Path, target: Path) -> None:
        raise OSError("no rename today")

    monkeypatch.setattr(Path, "replace", replace)


def fails_to_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def sync(descriptor: int) -> None:
        raise OSError("no sync today")

    monkeypatch.setattr("ray_pubsub.index.storage.index_file.os.fsync", sync)


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add("old", "x = 1")
    index.save(tmp_path / "index")
    index.add("new", "x = 2")
    with files_of_at_most(100), pytest.raises(IndexFileError):
        index.save(tmp_path / "index")
    assert list(MatchIndex.load(tmp_path / "index")) == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    index.save(tmp_path / "index")
    assert list(MatchIndex.load(tmp_path / "index")) == ["old", "new"]


@pytest.mark.parametrize("fail", [fails_to_replace, fails_to_sync])
def test_a_failing_last_step_leaves_the_old_file(
    fail: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = MatchIndex()
    index.add("old", "x = 1")
    index.save(tmp_path / "index")
    index.add("new", "x = 2")
    with monkeypatch.context() as patched:
        fail(patched)
        with pytest.raises(IndexFileError):
            index.save(tmp_path / "index")
    assert list(MatchIndex.load(tmp_path / "index")) == ["old"]
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(IndexFileError):
        MatchIndex().save(tmp_path / "missing" / "index")


def test_a_shorter_index_over_a_longer_one(tmp_path: Path) -> None:
    index = MatchIndex()
    index.add_many(range(500), ["x = 1"] * 500)
    index.save(tmp_path / "index")
    index.remove_many(range(1, 500))
    index.save(tmp_path / "index")
    assert list(MatchIndex.load(tmp_path / "index")) == [0]


def test_an_index_pickles_as_its_file() -> None:
    index = MatchIndex("scan", limits=Limits(leaves=7))
    index.add_many(["a", 1], ["x > 0", "x > 1"])
    copy = pickle.loads(pickle.dumps(index))
    assert (copy.engine, copy.limits, list(copy)) == (index.engine, index.limits, ["a", 1])
    assert copy.match({"x": 1}) == ["a"]


@pytest.mark.parametrize(
    "text", [b"x = \xff\xff\xff", b"x = 99999999999999999999", b"x = timestamp 'never'", b"x = = ="]
)
def test_a_saved_text_that_was_forged_is_an_error_of_ours_when_it_is_read(text: bytes) -> None:
    """With checksums that fit nothing is noticed before."""
    content = pa.array([text], pa.binary())
    column = pa.Array.from_buffers(pa.string(), 1, content.buffers())
    texts = SavedTexts(np.array([0]), column, ShapeCache(Limits()).parse, "file")
    for use in (texts.tree_at, lambda slot: texts.alone(slot).tree_at(slot)):
        with pytest.raises(RayPubSubError):
            use(0)
