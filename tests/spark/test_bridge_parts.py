"""Parts of the bridge that need neither a JVM nor a server."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from spark_settings import TOGETHER

from ray_pubsub.errors import ClusterError, SettingError, TableError
from spark_bridge import worker_server
from spark_bridge.arrow_portions import LEAST_ROWS, MATCHES_AT_MOST, Portions, by_halves
from spark_bridge.local_spark import check_java
from spark_bridge.row_ids import ContentIds, row_numbers
from spark_bridge.source_options import SourceOptions
from spark_bridge.task_place import TaskPlace, streaming_task, task_place
from spark_bridge.worker_server import ServerPlace, server_place, server_used

pytestmark = TOGETHER


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
    for other in (TaskPlace(4, "query", 7), TaskPlace(3, "query", 8), TaskPlace(3, "else", 7), TaskPlace(3)):
        assert set(ContentIds(other, "job").of(rows)).isdisjoint(ids)
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
    with pytest.raises(SettingError, match="batch_rows: must be a whole number"):
        SourceOptions({"batchRows": "many"}).whole("batch_rows", 1)


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


def test_java_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    check_java()
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SettingError, match=r"11\.0\.2.*Java 17 or newer"):
        check_java()
    old.unlink()
    with pytest.raises(SettingError, match="does not run"):
        check_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SettingError, match="no java on the PATH"):
        check_java()
