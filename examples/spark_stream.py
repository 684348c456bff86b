"""Two Spark streams with a server between them: one publishes the readings of sensors, the other is a subscriber and writes alarms to
files.
Both are stopped in the middle and continue from their checkpoints: every alarm is written exactly once.

    python -m examples.spark_stream [--readings N] [--address ADDRESS]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import ray_pubsub
from pyspark_ray_pubsub import DefaultSource
from spark_bridge.local_spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "reading long, sensor string, temperature double"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--readings", type=int, default=20_000, help="of each of two rounds (default 20,000)")
    parser.add_argument("--address", default="local", help="of a Ray cluster; by default a new one")
    given = parser.parse_args()
    readings = given.readings
    with (
        tempfile.TemporaryDirectory() as name,
        ray_pubsub.start(name="sensors", address=given.address, data_dir=Path(name) / "server") as server,
        local_session("ray-pubsub example", spark_sql_shuffle_partitions="2") as spark,
    ):
        server.subscribe("alarms", "temperature > 90 and sensor like 'boiler%'", id="too hot")
        server.prioritize("burning", "critical", "temperature > 98")
        folder = Path(name)
        spark.dataSource.register(DefaultSource)  # if ray-pubsub is installed by pip, Spark finds it automatically
        options = {"server": server.name, "address": server.address}
        for number in range(2):
            measure(spark, folder / "readings", number * readings, readings)
            stream = spark.readStream.schema(SCHEMA).parquet(str(folder / "readings"))
            run(stream, "ray_pubsub", folder / "publishing", **options, event_id="reading")
            alarms = spark.readStream.format("ray_pubsub").options(**options, subscriber="alarms").load()
            run(alarms, "parquet", folder / "alarming", path=str(folder / "alarms"))
            found = spark.read.parquet(str(folder / "alarms"))
            distinct = found.select("event_id").distinct().count()
            print(f"after round {number + 1}: {found.count():,} alarms of {distinct:,} readings")
        found.groupBy("priority").count().orderBy("priority").show()
        found.orderBy("sequence").select("event_id", "priority", "event").show(5, truncate=False)


def measure(spark: SparkSession, folder: Path, first: int, count: int) -> None:
    """Writes a file of readings, which the stream of files will find."""
    rows = spark.range(first, first + count, 1, 2).selectExpr(
        "id as reading",
        "if(id % 3 = 0, 'boiler-', 'door-') || id % 50 as sensor",
        "cast(id * 7919 % 1000 / 10 as double) as temperature",
    )
    rows.write.mode("append").parquet(str(folder))


def run(frame: DataFrame, target: str, checkpoint: Path, **options: str) -> None:
    """Processes everything that is available now, then ends the query."""
    writer = frame.writeStream.format(target).options(**options).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


if __name__ == "__main__":
    main()
