"""load_subscriptions: loads a DataFrame of subscriptions into a server, without passing them through the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as spark
from pyspark.sql.window import Window

from ray_pubsub.errors import SettingError, TableError, counted
from ray_pubsub.model.arguments import check_whole
from spark_bridge.event_schema import EventColumn, find_column, without_lengths
from spark_bridge.job_progress import job_progress
from spark_bridge.loading_worker import ADDED, REJECTED, Loading, loading_function
from spark_bridge.matching import TIMEOUT
from spark_bridge.worker_python import map_in_arrow
from spark_bridge.worker_server import server_place

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LoadReport", "load_subscriptions"]

BATCH_ROWS = 20_000
"""The number of subscriptions in one transaction of the registry."""
REJECTED_AT_MOST = 100_000
TEXTS = (spark.StringType, spark.CharType, spark.VarcharType)


@dataclass(frozen=True, slots=True, eq=False)
class LoadReport:
    """The result of loading: how many subscriptions were added, and those that were rejected."""

    added: int
    """The number of subscriptions that were added or replaced."""
    rejections: int
    rejected: DataFrame
    """The subscriptions that were not added: id, subscriber, expression, reason. If there are very many, at most 100,000 of them."""

    def __str__(self) -> str:
        return f"{counted(self.added, 'subscription')} added, {self.rejections:,} rejected"


def load_subscriptions(
    df: DataFrame,
    server: Any = "default",
    *,
    address: str | None = None,
    id: str = "id",
    subscriber: str = "subscriber",
    expression: str = "expression",
    data: str = "data",
    tags: str = "tags",
    batch_rows: int = BATCH_ROWS,
    timeout: float = TIMEOUT,
    progress: bool | None = None,
) -> LoadReport:
    """Adds the subscriptions of a DataFrame, or replaces those whose ids exist, and returns when all are in effect: on disk, if the server
    has a `data_dir`, and seen by every later publication. Spark's tasks send them to the server; none passes through the driver.

    id, subscriber, expression: the columns; an id is a string or an integer.
    data, tags: the columns with the data and tags of subscriptions, if there are any. Data: a string with JSON, a struct, a map or an
    array;
        tags: an array of strings, or a string with commas. Other columns are ignored. A column of priorities would have no meaning:
        priorities belong to events, by the server's rules (`Server.prioritize`), not to subscriptions.

    A bad row is listed in the report's `rejected`, with the reason, and the others are added. If an id occurs several times, none of its
    rows is added, because the rows of a DataFrame have no order. A task that Spark repeats does no harm: it replaces each id by the same.

    progress: shows a bar; by default on a terminal. The other arguments are those of `match_events`.
    """
    if not hasattr(df, "mapInArrow"):
        raise SettingError("df", f"a Spark DataFrame, not {type(df).__name__}")
    if df.isStreaming:
        raise TableError(None, "a stream has no end; load what it has in foreachBatch, each micro-batch as a DataFrame")
    check_whole("batch_rows", batch_rows, 1)
    place = server_place(server, address, timeout, df)
    found = [find_column(df.schema, name) for name in (id, subscriber, expression)]
    if not isinstance(found[0].type, (*TEXTS, spark.IntegralType)):
        raise TableError(id, f"subscription ids are strings or integers, not {found[0].type.simpleString()}")
    for column in found[1:]:
        if not isinstance(column.type, TEXTS):
            raise TableError(column.attribute, f"must be a string, not {column.type.simpleString()}")
    carried = _carried(df.schema, data, tags)
    numbered = df.toDF(*[f"c{place}" for place in range(len(df.columns))])
    rows = numbered.select(
        *[column.of(numbered).alias(f"s{at}") for at, column in enumerate(found)],
        *[_as_sent(name, column, numbered).alias(name) for name, column in carried.items()],
    )
    # The cast is needed because a column may have a collation for which different ids are equal.
    same = Window.partitionBy(F.col("s0").cast("string"))
    rows = rows.withColumn("s3", F.when(F.col("s0").isNull(), 1).otherwise(F.count("*").over(same)))
    rows = rows.select("s0", "s1", "s2", "s3", *carried)
    schema = spark.StructType(
        [
            spark.StructField("part", spark.StringType()),
            spark.StructField("count", spark.LongType()),
            spark.StructField("id", without_lengths(found[0].type)),
            spark.StructField("subscriber", spark.StringType()),
            spark.StructField("expression", spark.StringType()),
            spark.StructField("reason", spark.StringType()),
        ]
    )
    loading = Loading(place, batch_rows, REJECTED_AT_MOST, tuple(carried))
    with job_progress(df.sparkSession, progress):
        reported = map_in_arrow(rows, loading_function(loading), schema).toArrow()
    counts = {
        part: pc.sum(reported.filter(pc.equal(reported["part"], part))["count"]).as_py() or 0
        for part in (ADDED, REJECTED)
    }
    bad = reported.filter(pc.is_valid(reported["reason"])).select(["id", "subscriber", "expression", "reason"])
    rejected = df.sparkSession.createDataFrame(bad.slice(0, REJECTED_AT_MOST), spark.StructType(schema.fields[2:]))
    return LoadReport(counts[ADDED], counts[REJECTED], rejected)


def _carried(schema: spark.StructType, data: str, tags: str) -> dict[str, EventColumn]:
    """Returns the columns of data and tags. If they have their default names, they may be missing."""
    found: dict[str, EventColumn] = {}
    for name, given in (("data", data), ("tags", tags)):
        if given == name and name not in schema.names:
            continue
        column = found[name] = find_column(schema, given)
        kinds: tuple[type, ...] = (*TEXTS, spark.ArrayType)
        kinds += (spark.StructType, spark.MapType) if name == "data" else ()
        of_texts = not isinstance(column.type, spark.ArrayType) or isinstance(column.type.elementType, TEXTS)
        if not isinstance(column.type, kinds) or (name == "tags" and not of_texts):
            wanted = "JSON, a struct, a map or an array" if name == "data" else "texts, or a text with commas"
            raise TableError(column.attribute, f"{name} must be {wanted}, not {column.type.simpleString()}")
    return found


def _as_sent(name: str, column: EventColumn, df: DataFrame) -> Any:
    """Returns a column as it is sent: data as JSON, whatever type it has."""
    value = column.of(df)
    if name == "tags" or isinstance(column.type, TEXTS):
        return value
    return F.to_json(value, {"ignoreNullFields": "false"})
