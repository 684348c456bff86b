"""format("ray_pubsub") without a call to register it: Spark finds every module named pyspark_… that has a DefaultSource.

Spark imports this whenever somebody first uses any data source of Python's, so it imports next to nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """Written to, events are published and delivered: `frame.writeStream.format("ray_pubsub")`, with the options server, address, event_id,
    columns ("price, item.stock"), errors ("drop" or "fail"), batch_rows, max_in_flight, timeout, patience (`spark_bridge.match_events`).

    Read, a subscriber's deliveries: `spark.readStream.format("ray_pubsub").option("subscriber", "desk-7")`, with server, address, timeout
    and max_rows (of a micro-batch). What a query has written to its sink is acknowledged. One query reads a subscriber at a time.
    """

    @classmethod
    def name(cls) -> str:
        return "ray_pubsub"

    def schema(self) -> str:
        from spark_bridge.data_source.delivery_source import SCHEMA

        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        from spark_bridge.data_source.delivery_source import WaitingReader, check_schema

        check_schema(schema)
        return WaitingReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from spark_bridge.data_source.delivery_source import DeliveryReader, check_schema

        check_schema(schema)
        return DeliveryReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from spark_bridge.data_source.event_sink import BatchWriter

        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        from spark_bridge.data_source.event_sink import StreamWriter

        return StreamWriter(self.options, schema)
