"""Run in a process of its own by test_connect.py: a back-test, and a server, under Spark Connect, the answers printed as JSON. One
process is not both a Connect client and a classic driver."""

from __future__ import annotations

import json
import sys
import warnings


def main() -> None:
    from pyspark.sql import SparkSession

    from pyspark_ray_pubsub import DefaultSource
    from ray_pubsub.errors import EventSchemaError
    from spark_bridge import backtest, load_subscriptions, match_events
    from tests.spark.spark_settings import SETTINGS

    builder = SparkSession.builder.remote("local[2]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # settings of the server, which only its start takes
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    try:
        frame = spark.sql(
            "select id, id % 10 as price, named_struct('stock', id % 3) as item, map('color', if(id % 2 = 0, 'red', 'blue')) as m, "
            "timestamp'2024-05-01 00:00:00' + make_interval(0, 0, 0, 0, id) as at from range(0, 100, 1, 4)"
        )
        subscriptions = {"cheap": "price < 3", "red": "m.color = 'red' and item.stock = 1", "bad": "price <"}
        found = backtest(subscriptions, frame, event_id="id", by="at", examples=2)
        try:
            backtest("price < 3", frame.selectExpr("*", "X'00' as tags"))
            refused = None
        except EventSchemaError as error:
            refused = error.problems
        table = spark.createDataFrame([("t", "price = 1")], "id string, expression string")
        name, address = sys.argv[1:]
        loaded = load_subscriptions(
            spark.sql("select 'connect-' || id as id, 'connected' as subscriber, 'connect_x = ' || id as expression from range(3)"),
            name, address=address,
        )  # fmt: skip
        events = spark.range(0, 10, 1, 2).selectExpr("id as connect_x", "30000 + id as n")
        matched = match_events(events, name, address=address, event_id="n").collect()
        spark.dataSource.register(DefaultSource)
        options = {"server": name, "address": address, "event_id": "n"}
        events.write.format("ray_pubsub").mode("append").options(**options).save()
        answer = {
            "loaded": [loaded.added, loaded.rejected.count()],
            "matched": sorted(list(row) for row in matched),
            "session": type(spark).__module__,
            "counts": dict(zip(map(str, found.ids), found.counts.tolist(), strict=True)),
            "rows": found.rows,
            "windows": [str(start) for start in found.windows],
            "window_rows": found.window_rows.tolist(),
            "examples": [example.event_id for example in found.examples("cheap")],
            "rejections": [rejection.id for rejection in found.rejections],
            "refused": refused,
            "from a table": backtest(table, frame).counts.tolist(),
        }
    finally:
        spark.stop()
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
