"""Parts of the bridge that need neither a JVM nor a server."""

from __future__ import annotations

import datetime
import json
import random
import shutil
import socket
import tempfile
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from actors.client.deliverable_rows import beyond_calendar, in_utc
from actors.mailboxes.event_content import pack_event
from ray_pubsub.errors import ClusterError, SettingError, TableError
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.model.utf8 import valid_utf8
from spark_bridge import matched_metadata, worker_server
from spark_bridge.arrow_portions import BYTES_AT_MOST, LEAST_ROWS, MATCHES_AT_MOST, Portions, by_halves
from spark_bridge.data_source.delivery_source import _json
from spark_bridge.data_source.source_options import SourceOptions
from spark_bridge.matched_metadata import MatchedMetadata
from spark_bridge.matching_worker import BYTES_PER_YIELD, ROWS_PER_YIELD, spans
from spark_bridge.row_ids import ContentIds, row_numbers
from spark_bridge.task_place import TaskPlace, streaming_task, task_place
from spark_bridge.worker_server import Connection, ServerPlace, server_of, server_place, server_used, while_connected


def batch(first: int, rows: int) -> Any:
    return pa.record_batch({"x": list(range(first, first + rows))})


@pytest.mark.parametrize("seed", range(5))
def test_portions_have_all_rows_in_order_and_about_one_size(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [draw.choice([0, 1, 10, 90, 100, 140, 1000]) for _ in range(50)]
    batches, first = [], 0
    for size in sizes:
        batches.append(batch(first, size))
        first += size
    portions = list(Portions(iter(batches), 100))
    assert [value for portion in portions for value in portion.column("x").to_pylist()] == list(range(first))
    assert all(50 <= portion.num_rows <= 150 for portion in portions[:-1])


def test_portions_become_smaller_where_events_match_very_many() -> None:
    portions = Portions([batch(0, 4000)], 1000)
    sizes = []
    for portion in portions:
        sizes.append(portion.num_rows)
        portions.saw(portion.num_rows, MATCHES_AT_MOST * 2)  # twice what is held at once
    assert sizes[0] == 1000 and sizes[1] == 500 and sum(sizes) == 4000
    assert min(sizes) >= LEAST_ROWS
    assert list(Portions([], 10)) == [] == list(Portions([batch(0, 0)], 10))


def test_portions_of_long_rows_have_few_of_them() -> None:
    """Some rows are as large as a portion may be, or larger, between small ones."""
    lengths = [BYTES_AT_MOST // 4] * 9 + [10] * 500 + [2 * BYTES_AT_MOST] + [10] * 500
    texts = pa.array(["x" * length for length in lengths], pa.large_string())
    whole = pa.record_batch({"x": list(range(len(lengths))), "text": texts})
    for cut in ([whole], [whole.slice(start, 30) for start in range(0, whole.num_rows, 30)]):
        portions = list(Portions(cut, 100_000))
        assert [value for portion in portions for value in portion.column("x").to_pylist()] == list(range(len(lengths)))
        assert all(portion.nbytes <= BYTES_AT_MOST for portion in portions if portion.num_rows > 1)
        assert len(portions) < 60


def test_matches_are_made_into_rows_a_few_at_a_time() -> None:
    counts = np.array([0, 3 * ROWS_PER_YIELD, 5, 0, 100])
    small = list(spans(counts, []))
    assert [stop - start for start, stop in small] == [ROWS_PER_YIELD] * 3 + [105]
    long = pa.array(["", "", "x" * (BYTES_PER_YIELD // 2), "x" * BYTES_PER_YIELD * 2, "x"])
    few = list(spans(counts, [long]))
    assert few[0][0] == 0 and few[-1][1] == counts.sum()
    assert all(one[1] == other[0] for one, other in pairwise(few))
    of = np.repeat(np.arange(5), counts)
    texts = np.array(pc.binary_length(long).to_pylist())
    assert all(texts[of[start:stop]].sum() <= BYTES_PER_YIELD for start, stop in few)


def test_rows_that_can_be_delivered() -> None:
    zone, last = "GMT-04:00", 253402300799999999
    moments = pa.timestamp("us", tz=zone)
    inner = pa.struct([("at", moments), ("n", pa.int64())])
    batch = pa.record_batch(
        {
            "n": [1, 2, 3, 4],
            "at": pa.array([0, last, last + 1, None], moments),
            "day": pa.array([-719162, -719163, None, 2932897], pa.int32()).cast(pa.date32()),
            "deep": pa.array([[("k", {"at": -(1 << 60)})], None, [("a", None), ("b", {"at": 5})], []], pa.map_(pa.string(), inner)),
        }
    )  # fmt: skip
    expected = {
        "at": [False, False, True, False],
        "day": [False, True, False, True],
        "deep": [True, False, False, False],
    }
    for first in (0, 1):
        found = {name: rows.tolist() for name, rows in beyond_calendar(batch.slice(first))}
        assert found == {name: rows[first:] for name, rows in expected.items() if any(rows[first:])}
    plain = in_utc(batch)
    assert plain.column("at").type == pa.timestamp("us", tz="UTC") and plain.column("n").equals(batch.column("n"))
    assert plain.column("at").cast(pa.int64()).equals(batch.column("at").cast(pa.int64()))
    deep = plain.slice(2).column("deep").to_pylist(maps_as_pydicts="lossy")[0]
    assert deep["a"] is None and deep["b"]["at"].utcoffset() == datetime.timedelta()
    garbled = pa.array([b"a", None, b"\xff", b""]).view(pa.string())
    assert valid_utf8(garbled).tolist() == [True, True, False, True]
    assert valid_utf8(garbled.slice(0, 2)).tolist() == [True, True]


def test_what_json_lacks_is_named() -> None:
    event = {"a": float("nan"), "m": {"b": float("inf"), "c": -float("inf")}, "d": Decimal("1.10"), "e": 1.5}
    assert json.loads(_json(pack_event(event)), parse_constant=pytest.fail) == {
        "a": "NaN", "m": {"b": "Infinity", "c": "-Infinity"}, "d": "1.10", "e": 1.5,
    }  # fmt: skip


def test_what_cannot_be_read_as_a_whole_is_halved() -> None:
    def read(part: Any) -> int:
        if 3 in part.column("x").to_pylist() or 4 in part.column("x").to_pylist():
            raise TableError("x", "three and four")
        return int(part.num_rows)

    found = list(by_halves(read, batch(0, 8)))
    assert [start for start, _, _ in found] == [0, 2, 3, 4, 5, 6]
    assert [each if isinstance(each, int) else each.reason for _, _, each in found] == [
        2, 1, "three and four", "three and four", 1, 2,
    ]  # fmt: skip


def test_ids_of_content_are_the_same_in_any_order_and_of_equal_rows_their_own() -> None:
    rows = pa.record_batch({"x": [1, 1, 2, None], "at": pa.array([0, 0, 0, 5], pa.timestamp("us", tz="UTC"))})
    place = TaskPlace(3, "query", 7)
    ids = ContentIds(place, "job").of(rows)
    assert len(set(ids)) == 4
    assert sorted(ContentIds(place, "job").of(rows.take([3, 2, 1, 0]))) == sorted(ids)
    twice = ContentIds(place, "job")
    assert sorted([*twice.of(rows.slice(2)), *twice.of(rows.slice(0, 2))]) == sorted(ids)
    others = [
        TaskPlace(4, "query", 7),
        TaskPlace(3, "query", 8),
        TaskPlace(3, "else", 7),
        TaskPlace(3),
        replace(place, part=4),
    ]
    for other in others:
        assert set(ContentIds(other, "job").of(rows)).isdisjoint(ids)
    # Of a DataFrame that is no stream it does not matter which task has the partition.
    assert list(ContentIds(TaskPlace(0, part=3), "job").of(rows)) == list(ContentIds(TaskPlace(3), "job").of(rows))
    assert row_numbers(TaskPlace(0, part=2), 5, 1).to_pylist() == row_numbers(TaskPlace(2), 5, 1).to_pylist()
    assert list(ContentIds(TaskPlace(3), "job").of(rows)) == list(ContentIds(TaskPlace(3), "job").of(rows))
    assert row_numbers(TaskPlace(2), 5, 3).to_pylist() == [(2 << 33) + 5, (2 << 33) + 6, (2 << 33) + 7]


def test_options_are_read_and_misspelt_ones_are_told() -> None:
    options = SourceOptions(
        {"Server": "s", "eventid": "n", "columns": "a, b.c ,", "checkpointlocation": "x", "path": "y"}
    )
    assert (options.text("server"), options.text("event_id"), options.names("columns")) == ("s", "n", ["a", "b.c"])
    assert (options.whole("batch_rows", 5), options.seconds("timeout", 1.5), options.names("subscriber")) == (
        5,
        1.5,
        None,
    )
    for wrong in ("evnt_id", "subscribers", "adress"):
        with pytest.raises(SettingError, match=r"is .* meant"):
            SourceOptions({wrong: "x"})
    for wrong in ("many", "1.5", "nan", "inf", ""):
        with pytest.raises(SettingError, match="batch_rows: must be a whole number"):
            SourceOptions({"batchRows": wrong}).whole("batch_rows", 1)


def test_outside_of_a_task() -> None:
    assert task_place() == TaskPlace(0)
    with pytest.raises(SettingError, match="match_events"):
        streaming_task()


def test_where_the_server_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_server, "_own_address", lambda: "10.0.0.5:6379")
    assert server_place("s", None, 5) == ServerPlace("s", "10.0.0.5:6379", 5.0)
    assert server_place("s", "auto", 5).address is None
    connect = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
    assert server_place("s", None, 5, connect).address is None  # this process may be anywhere


def test_a_cluster_that_cannot_be_reached_is_told_with_what_it_takes() -> None:
    """Nobody listens on port 9; this process may be connected to the tests' cluster, and that is said too."""
    with (
        pytest.raises(ClusterError, match="must run a node of the Ray cluster"),
        server_used(ServerPlace("s", "127.0.0.1:9", 0.1)),
    ):
        pass


class Elsewhere:
    """A server on some cluster."""

    def __init__(self, address: str, closed: list[str]) -> None:
        self.address, self._closed = address, closed

    def close(self) -> None:
        self._closed.append(self.address)


def test_a_process_is_part_of_one_cluster_and_notices_when_it_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []
    folder = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # short, as a socket's path must be
    node = f"{folder}/node"
    monkeypatch.setattr(worker_server, "_connected", {})
    monkeypatch.setattr(worker_server, "_connect", lambda place: Connection(Elsewhere(place.address, closed), node))  # type: ignore[arg-type]
    here, there = ServerPlace("s", "10.0.0.5:6379", 1.0), ServerPlace("s", "10.0.0.6:6379", 1.0)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(node)
        listening.listen(20)
        first = server_of(here)
        assert server_of(here) is first and server_of(ServerPlace("other", here.address, 1.0)) is not first
        assert closed == []
        second = server_of(there)
        assert second.address == there.address and closed == [here.address] * 2
        assert list(while_connected(there, [1, 2])) == [1, 2]
    with pytest.raises(ClusterError, match="has ended while a task was using it"):
        list(while_connected(there, [1]))
    assert server_of(there) is not second and closed[2:] == [there.address]
    shutil.rmtree(folder)


class _Matched:
    """A result as far as its subscriptions' metadata is concerned."""

    def __init__(self, ids: list[Any], asked: list[list[Any]]) -> None:
        self.subscription_ids = np.array(ids, object)
        self.asked = asked

    def lookup(self, ids: list[Any]) -> list[Metadata | None]:
        self.asked.append(list(ids))
        return [None if id == "c" else Metadata(f'"{id}"', (f"t{id}",)) for id in ids]


def test_a_task_asks_for_the_metadata_of_each_subscription_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[Any]] = []
    known = MatchedMetadata()
    data, tags = known.columns(_Matched(["a", "c", "a"], asked))  # type: ignore[arg-type]
    assert (data.to_pylist(), tags.to_pylist()) == (['"a"', None, '"a"'], [["ta"], [], ["ta"]])
    data, tags = known.columns(_Matched(["b", "c", "a"], asked))  # type: ignore[arg-type]
    assert (data.to_pylist(), tags.to_pylist()) == (['"b"', None, '"a"'], [["tb"], [], ["ta"]])
    assert asked == [["a", "c"], ["b"]]
    monkeypatch.setattr(matched_metadata, "KNOWN_AT_MOST", 2)
    known.columns(_Matched(["a"], asked))  # type: ignore[arg-type]
    assert asked[2:] == [["a"]]
