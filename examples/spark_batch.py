"""Matches a shop's events of one night with a server beside Spark: subscriptions come from a DataFrame, matches are a DataFrame, and bad
rows are reported separately.

    python -m examples.spark_batch [--events N] [--subscriptions N] [--address ADDRESS]
"""

from __future__ import annotations

import argparse

import ray_pubsub
from spark_bridge import bad_events, load_subscriptions, match_events
from spark_bridge.local_spark import local_session


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200_000, help="how many (default 200,000)")
    parser.add_argument("--subscriptions", type=int, default=20_000, help="how many (default 20,000)")
    parser.add_argument("--address", default="local", help="of a Ray cluster; by default a new one")
    options = parser.parse_args()
    with (
        ray_pubsub.start(name="shop", address=options.address) as server,
        local_session("ray-pubsub example", spark_sql_shuffle_partitions="2") as spark,
    ):
        server.prioritize("bargain", "high", "price < 5")
        wishes = spark.sql(
            "select 'wish-' || id as id, 'person-' || id % 1000 as subscriber, concat('model = ''m', id % 500, ''' and price <= ', "
            f"10 + id % 90, if(id % 1000 = 999, ' and', '')) as expression from range({options.subscriptions})"
        )
        report = load_subscriptions(wishes, server)
        print(report)
        report.rejected.show(2, truncate=26)

        events = spark.sql(
            "select id as product, 'm' || id % 700 as model, cast(id * 7919 % 20000 / 100 as decimal(20, 2)) as price, "
            "named_struct('stock', id % 40) as shelf, if(id % 50000 = 1, cast('12345678901234567890.12' as decimal(38, 2)), 0) as odd "
            f"from range(0, {options.events}, 1, 4)"
        )
        matched = match_events(events, server, event_id="product", keep=["price", "model"]).cache()
        print(f"{matched.count():,} matches of {options.events:,} events")
        matched.groupBy("priority").count().orderBy("priority").show()
        matched.filter("priority = 'high'").orderBy("event_id", "subscription_id").show(5, truncate=False)
        print("rows that are no events:")
        bad_events(events, event_id="product").show(3, truncate=40)
        matched.unpersist()


if __name__ == "__main__":
    main()
