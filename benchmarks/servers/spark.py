"""match_events of a DataFrame, against what it cannot do without: the same DataFrame through an empty mapInArrow, and a MatchIndex in one
process on the same rows, one after the other. Beside it a range join of Spark's own, which has no index.

python -m benchmarks spark [--events N] [--subscriptions N] [--joined N] [--profile]

Counts and sums over all matches are compared with those of the MatchIndex. Ratios are of one run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from ray_pubsub.workloads import dense

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from actors.client.server import Server

__all__ = ["main"]

ATTRIBUTES = 15
"""With 10, as W1 has, every event would match a hundred of these: the output would be all that is measured. With 15 it is about three."""
SUBSCRIPTIONS = 100_000
BATCH = 8192
MODULUS = 1_000_003
console = Console(width=130)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark", description=__doc__)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--subscriptions", type=int, default=SUBSCRIPTIONS)
    parser.add_argument(
        "--joined", type=int, default=1000, help="subscriptions of the range join (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="show what the server's processes did meanwhile")
    options = parser.parse_args(arguments)
    from spark_bridge.local_spark import local_session

    table = Table(
        title=f"Spark, {options.events:,} events, subscriptions like W1, on 15 attributes", title_justify="left"
    )
    for column in ("what", "figure", "must"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with (
        tempfile.TemporaryDirectory() as folder,
        ray_pubsub.start(2, name="bench-spark", address="local", mailbox={}) as server,
    ):
        spark = local_session("ray-pubsub benchmark", spark_sql_shuffle_partitions="2", spark_driver_memory="1g")
        try:
            events = Events(spark, Path(folder) / "events.parquet", options.events)
            matching(server, events, options, table)
            joining(server, events, options.joined, table)
        finally:
            spark.stop()
    console.print(table)


class Events:
    """The same rows as a DataFrame and as Arrow batches. Two row groups for each core, so that two tasks read half of them each."""

    def __init__(self, spark: SparkSession, path: Path, count: int) -> None:
        rng = np.random.default_rng(11)
        columns = {f"a{place}": rng.integers(0, 1_000_001, count).astype(np.int32) for place in range(ATTRIBUTES)}
        self.table = pa.table({"n": np.arange(count), **columns})
        pq.write_table(self.table, path, row_group_size=max(1, count // 4))
        self.path, self._spark = path, spark
        self.attributes = list(columns)

    def frame(self, count: int | None = None) -> DataFrame:
        size = self.path.stat().st_size
        self._spark.conf.set("spark.sql.files.maxPartitionBytes", str(size // 2 + 1))
        self._spark.conf.set("spark.sql.files.openCostInBytes", "0")
        found = self._spark.read.parquet(str(self.path))
        return found if count is None else found.filter(f"n < {count}").repartition(2)

    def batches(self, count: int | None = None) -> list[Any]:
        return (self.table if count is None else self.table.slice(0, count)).to_batches(BATCH)


def matching(server: Server, events: Events, options: argparse.Namespace, table: Table) -> None:
    from spark_bridge import match_events

    workload = dense(options.subscriptions, ATTRIBUTES)
    predicates = workload.predicates()
    index = ray_pubsub.MatchIndex()
    index.add_predicates(predicates)
    assert server.subscribe_many(predicates, subscriber="bench", progress=False).added == options.subscriptions
    ray.get([shard.wait_for_merges.remote() for shard in server.shards])
    frame = events.frame()
    matched = match_events(frame, server, event_id="n", columns=events.attributes, subscription_ids="long")
    expected = sums_in_process(index, events.batches())
    assert sums_in_spark(matched) == expected, "Spark's rows are not those of the MatchIndex"

    def alone() -> None:
        for batch in events.batches():
            index.match_many(batch.drop_columns(["n"]))

    work = {"through": lambda: written(passed(frame)), "alone": alone, "matched": lambda: written(matched)}
    seconds: dict[str, list[float]] = {name: [] for name in work}
    for each in work.values():  # once to warm up
        each()
    for _ in range(options.repeats):  # in turn, so that all see the same machine
        for name, each in work.items():
            seconds[name].append(timed(each))
    ratios = [
        matched / (through + alone)
        for through, alone, matched in zip(seconds["through"], seconds["alone"], seconds["matched"], strict=True)
    ]
    count = options.events
    for name, what in (
        ("through", "mapInArrow that passes the rows on"),
        ("alone", f"MatchIndex in process, {options.subscriptions:,} subscriptions"),
        ("matched", f"match_events, {options.subscriptions:,} subscriptions, {expected[0]:,} matches"),
    ):
        table.add_row(what, f"{count / statistics.median(seconds[name]):,.0f} events/s", "")
    low, high = min(ratios), max(ratios)
    table.add_row(
        "match_events ÷ (mapInArrow + MatchIndex one after the other), time",
        f"{statistics.median(ratios):.2f} ({low:.2f} to {high:.2f})",
        "1.25",
    )
    if options.profile:
        profile(server, work["matched"], table)
    server.unsubscribe_many(range(options.subscriptions))


def joining(server: Server, events: Events, count: int, table: Table) -> None:
    """Spark has to look at every pair of an event and a subscription."""
    from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

    from spark_bridge import match_events

    workload = dense(count, ATTRIBUTES)
    low, high = (bounds.reshape(-1, ATTRIBUTES) for bounds in (workload.low, workload.high))
    wide: dict[str, np.ndarray] = {"id": np.arange(count)}
    for place in range(ATTRIBUTES):
        wide |= {f"low{place}": low[:, place], f"high{place}": high[:, place]}
    few = min(20_000, events.table.num_rows)
    frame = events.frame(few).cache()
    frame.count()
    subscriptions = frame.sparkSession.createDataFrame(pa.table(wide))
    condition = F.lit(True)
    for place in range(ATTRIBUTES):
        condition &= F.col(f"a{place}").between(F.col(f"low{place}"), F.col(f"high{place}"))
    joined = frame.join(F.broadcast(subscriptions), condition).selectExpr("n as event_id", "id as subscription_id")
    server.subscribe_many(workload.predicates(), subscriber="bench", progress=False)
    matched = match_events(frame, server, event_id="n", columns=events.attributes, subscription_ids="long")
    assert sums_in_spark(joined) == sums_in_spark(matched), "the join's rows are not those of match_events"
    for frame_of, what in ((joined, "broadcast range join of Spark's own"), (matched, "match_events")):
        rates = [few / timed(partial(written, frame_of)) for _ in range(3)]
        table.add_row(f"{what}, {count:,} subscriptions", f"{statistics.median(rates):,.0f} events/s", "")


def passed(frame: DataFrame) -> DataFrame:
    def on(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return frame.mapInArrow(on, frame.schema)


def written(frame: DataFrame) -> None:
    """Every row is made, and none is kept."""
    frame.write.format("noop").mode("overwrite").save()


def sums_in_spark(frame: DataFrame) -> tuple[int, int, int, int]:
    mixed = f"sum((event_id % {MODULUS}) * (subscription_id % {MODULUS}) % {MODULUS})"
    row = frame.selectExpr("count(*)", "sum(event_id)", "sum(subscription_id)", mixed).first()
    assert row is not None
    return tuple(value or 0 for value in row)  # type: ignore[return-value]


def sums_in_process(index: ray_pubsub.MatchIndex, batches: list[Any]) -> tuple[int, int, int, int]:
    total = np.zeros(4, np.int64)
    for batch in batches:
        found = index.match_many(batch.drop_columns(["n"]))
        events, ids = np.repeat(batch.column("n").to_numpy(), found.counts()), found.subscription_ids.astype(np.int64)
        mixed = (events % MODULUS) * (ids % MODULUS) % MODULUS
        total += [len(ids), events.sum(), ids.sum(), mixed.sum()]
    return tuple(total.tolist())  # type: ignore[return-value]


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def profile(server: Server, work: Callable[[], object], table: Table) -> None:
    """The CPU seconds that each process of the server, and all of Spark's workers together, took for it."""
    actors = {
        **{f"shard {number}": shard for number, shard in enumerate(server.shards)},
        "coordinator": server.coordinator,
    }
    pids = {name: ray.get(handle.health.remote())["pid"] for name, handle in actors.items()}
    before = {name: cpu_of(pid) for name, pid in pids.items()}
    workers = workers_cpu()
    seconds = timed(work)
    for name, pid in pids.items():
        table.add_row(f"CPU of the {name} in {seconds:.1f} s", f"{cpu_of(pid) - before[name]:.1f} s", "")
    table.add_row(f"CPU of Spark's Python workers in {seconds:.1f} s", f"{workers_cpu() - workers:.1f} s", "")


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def workers_cpu() -> float:
    """Of the processes that run pyspark.daemon and belong to this one."""
    total = 0.0
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if b"pyspark.daemon" in (path / "cmdline").read_bytes() and _is_below(int(path.name), os.getpid()):
                total += cpu_of(int(path.name))
        except (OSError, ValueError):
            continue
    return total


def _is_below(pid: int, ancestor: int) -> bool:
    while pid > 1:
        if pid == ancestor:
            return True
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return False
