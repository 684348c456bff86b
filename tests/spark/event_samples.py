"""Events and subscriptions, drawn with seeds, as rows of Spark and as dicts."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "n long, price double, model string, at timestamp"
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.UTC)


def rows(count: int, seed: int = 1) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    return [
        {
            "n": number,
            "price": draw.choice([None, draw.randrange(100) / 2, float("nan")]),
            "model": draw.choice([None, "iphone5s", "iphone6", "pixel"]),
            "at": START + datetime.timedelta(hours=draw.randrange(72)),
        }
        for number in range(count)
    ]


def frame_of(spark: SparkSession, events: list[dict[str, Any]], partitions: int = 3) -> DataFrame:
    return spark.createDataFrame([tuple(event.values()) for event in events], SCHEMA).repartition(partitions)


def expressions(count: int) -> dict[str, str]:
    draw = random.Random(2)
    parts = [
        lambda: f"price {draw.choice(['<', '>=', '=', '!='])} {draw.randrange(100) / 2}",
        lambda: f"model in ('pixel', '{draw.choice(['iphone5s', 'iphone6'])}')",
        lambda: f"model like '{draw.choice(['iphone%', '%6', 'p_xel'])}'",
        lambda: f"{draw.choice(['price', 'model', 'absent'])} is {draw.choice(['', 'not '])}null",
        lambda: f"n between {draw.randrange(500)} and {draw.randrange(500, 1000)}",
        lambda: f"at < timestamp '2024-05-0{draw.randrange(1, 4)} 12:00:00'",
    ]
    joined = [
        f" {draw.choice(['and', 'or'])} ".join(f"({part()})" for part in draw.sample(parts, 2)) for _ in range(count)
    ]
    return {f"s{number}": text for number, text in enumerate(joined)}
