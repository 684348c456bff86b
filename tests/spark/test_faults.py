"""Spark jobs while the server is overloaded, loses a process, or is away: exact rows in the end, or an error that says why."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import ray
from pyspark.errors import PythonException

import ray_pubsub
from actors.transport.calls import Deadline, answer, retried
from spark_bridge import match_events
from spark_bridge.publishing_worker import Handoff, handed_over
from spark_bridge.task_place import TaskPlace
from tests.spark.attempts import held_up, killing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from actors.client.server import Server
    from actors.cluster.joining import Joined

NARROW: dict[str, Any] = {"max_in_flight": 1, "patience": 0.01}
"""Of a server that takes one batch at a time and refuses the next at once."""


@pytest.fixture(scope="module")
def narrow(cluster: Joined, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Server]]:
    """A small server that a test may stop, and start again by asking for it."""
    folder = tmp_path_factory.mktemp("narrow")
    ray_pubsub.start(1, folder, "narrow", **NARROW).subscribe("narrow", "narrow_x >= 500", id="narrow-1")
    yield lambda: ray_pubsub.start(1, folder, "narrow", **NARROW)
    ray_pubsub.connect("narrow").stop()


def test_a_shard_is_killed_during_a_job(
    spark: SparkSession, server: Server, session_setting: Callable[[str, str], None]
) -> None:
    for number in range(20):
        server.subscribe(f"killed-{number % 3}", f"killed_x >= {number * 100}", id=f"kill-{number}")
    pid = ray.get(server.shards[0].health.remote())["pid"]
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "200")
    frame = killing(spark.range(0, 4000, 1, 2).selectExpr("id as killed_x"), pid, after=3)
    found = match_events(frame, server, event_id="killed_x", batch_rows=200).collect()
    health = retried(lambda left: answer(server.shards[0].health.remote(), "the shard", left), Deadline(60.0))
    assert health["pid"] != pid
    expected = sorted((x, f"kill-{n}") for x in range(4000) for n in range(20) if x >= n * 100)
    assert sorted((row.event_id, row.subscription_id) for row in found) == expected
    server.unsubscribe_many([f"kill-{number}" for number in range(20)])


def test_a_busy_server_slows_the_job_down(spark: SparkSession, narrow: Callable[[], Server]) -> None:
    server = narrow()
    frame = spark.range(0, 2000, 1, 2).selectExpr("id as narrow_x")
    found = match_events(frame, server, event_id="narrow_x", batch_rows=100, max_in_flight=8).collect()
    assert sorted(row.event_id for row in found) == list(range(500, 2000))
    assert ray.get(server.coordinator.stats.remote())["refused"] > 0


def test_batches_are_taken_only_as_fast_as_they_are_answered(narrow: Callable[[], Server]) -> None:
    taken = 0

    def batches() -> Iterator[Any]:
        nonlocal taken
        for number in range(30):
            taken += 1
            yield pa.record_batch({"c0": [number * 100 + row for row in range(100)]})

    handoff = Handoff(("narrow_x",), False, False, True, "scope", 100, 3, 60.0, 60.0)
    done = matches = 0
    for outcome in handed_over(narrow(), batches(), handoff, TaskPlace(0)):
        assert taken <= done + 3
        done += 1
        assert outcome.result is not None
        matches += len(outcome.result)
    assert (done, matches) == (30, 2500)


def test_two_attempts_of_a_task_at_once(server: Server) -> None:
    """As Spark runs them to be quicker than a slow one: all is delivered once, with and without ids."""
    server.subscribe("attempted", "attempted_x >= 0", id="attempted-1")
    for has_id in (True, False):
        columns = {"attempted_x": [number % 50 for number in range(1200)], "n": range(600_000, 601_200)}
        rows = pa.table(columns).select([0, 1] if has_id else [0])
        handoff = Handoff(("attempted_x",), has_id, True, True, f"scope {has_id}", 100, 4, 60.0, 60.0)

        def attempt(handoff: Handoff = handoff, rows: Any = rows) -> int:
            outcomes = handed_over(server, rows.to_batches(300), handoff, TaskPlace(0))
            return sum(len(outcome.result) for outcome in outcomes if outcome.result is not None)

        with ThreadPoolExecutor(2) as pool:
            assert [each.result() for each in [pool.submit(attempt), pool.submit(attempt)]] == [1200, 1200]
        messages = server.poll("attempted", limit=5000)
        server.ack(messages)
        assert len(messages) == 1200 and len({message.event_id for message in messages}) == 1200
    server.unsubscribe("attempted-1")


def test_a_server_goes_away_and_comes_back(
    spark: SparkSession, narrow: Callable[[], Server], session_setting: Callable[[str, str], None], tmp_path: Path
) -> None:
    """In the middle of a job the server stops. The attempt fails at its deadline; when the server is back the next one ends well, in the
    same process, which has to connect again."""
    server = narrow()
    address = server.address
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    frame = spark.range(0, 1000, 1, 1).selectExpr("id as narrow_x")
    with pytest.raises(PythonException, match="UnknownServerError: no server 'nobody' runs on the Ray cluster at"):
        match_events(frame, "nobody", address=address, timeout=0.1).collect()
    midway, away, back = (tmp_path / name for name in ("midway", "away", "back"))
    failed = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        while not midway.exists():
            if ended.wait(0.05):
                return
        server.stop()
        away.touch()
        while not ended.wait(0.05):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            if any(stage is not None and stage.numFailedTasks for stage in stages):
                failed.set()
                narrow()
                back.touch()
                return

    ended = threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        matched = match_events(
            held_up(frame, midway, away, back),
            "narrow",
            address=address,
            event_id="narrow_x",
            batch_rows=100,
            timeout=1.0,
        )
        found = matched.collect()
    finally:
        ended.set()
        watcher.join()
    assert failed.is_set()
    assert sorted(row.event_id for row in found) == list(range(500, 1000))
