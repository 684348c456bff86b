"""The whole Ray cluster is lost in the middle of a job, and comes back at its address: exactly the right rows in the end. While it is away,
tasks say so."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PythonException

from spark_bridge import match_events
from tests.spark.attempts import killing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = Path(__file__).with_name("cluster_program.py")


class LoseableCluster:
    """A cluster in processes of its own, with a server that keeps its subscriptions; always at one address."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        self._folder = folder
        self._sockets = tempfile.mkdtemp(prefix="rp", dir="/tmp")  # short, as Ray's paths below it must be
        self._processes: list[subprocess.Popen[str]] = []
        self.address = ""

    @property
    def process(self) -> subprocess.Popen[str]:
        return self._processes[-1]

    def start(self) -> None:
        self._processes.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), str(self._port), str(self._folder)],
                env=os.environ | {"RAY_TMPDIR": self._sockets},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()

    def lose(self) -> None:
        """All its processes end with this one."""
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                pipe.close()
        shutil.rmtree(self._sockets, ignore_errors=True)


@pytest.fixture
def cluster_to_lose(tmp_path: Path) -> Iterator[LoseableCluster]:
    found = LoseableCluster(tmp_path)
    try:
        found.start()
        yield found
    finally:
        found.end()


def test_the_cluster_is_lost_during_a_job_and_comes_back(
    spark: SparkSession, cluster_to_lose: LoseableCluster, session_setting: Callable[[str, str], None]
) -> None:
    """Its rows are so long that Spark passes them on at once: the job is truly in the middle when its third batch of matches is seen."""
    session_setting("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    frame = spark.range(0, 3000, 1, 1).selectExpr("id as away_x", "repeat('x', 1000) as text")
    first = cluster_to_lose.process
    matched = match_events(
        frame, "away", address=cluster_to_lose.address, event_id="away_x", keep=["text"], batch_rows=100, timeout=60.0
    )
    back = threading.Event()

    def start_again() -> None:
        first.wait()
        cluster_to_lose.start()
        back.set()

    starting = threading.Thread(target=start_again)
    starting.start()
    try:
        found = killing(matched, first.pid, after=2).select("event_id", "subscription_id").collect()
    finally:
        first.kill()  # so that the thread ends whatever happened
        starting.join()
    assert back.is_set()
    assert sorted(map(tuple, found)) == [(x, "away-1") for x in range(500, 3000)]

    # The worker that has a connection to this cluster is used again, for a cluster that is not there and then for another one.
    cluster_to_lose.lose()
    away = match_events(frame, "away", address=cluster_to_lose.address, event_id="away_x", timeout=0.1)
    with pytest.raises(
        PythonException, match=f"ClusterError: the Ray cluster {cluster_to_lose.address}: nothing listens"
    ):
        away.collect()
