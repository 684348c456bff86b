"""A subscriber's deliveries as rows: spark.readStream.format("ray_pubsub").option("subscriber", …), and spark.read to look at them.

A stream's offset is a sequence number of the mailboxes. A range of them reads the same until it is acknowledged, which is when Spark has
committed its micro-batch. So a job is a subscriber that loses nothing and, with an idempotent sink, processes everything once.
"""

from __future__ import annotations

import datetime
import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from actors.client.offset_consuming import OffsetConsumer
from actors.mailboxes.delivery import DeliveryColumns
from actors.mailboxes.event_content import unpack_event
from actors.mailboxes.offsets.offset_reading import Place
from ray_pubsub.errors import SettingError, TableError
from spark_bridge.data_source.source_options import SourceOptions
from spark_bridge.worker_server import ServerPlace, server_used

__all__ = ["SCHEMA", "DeliveryReader", "WaitingReader", "check_schema"]

SCHEMA = "sequence bigint, subscription_id string, event_id string, priority string, enqueued timestamp, event string"
ROWS_PER_PARTITION = 20_000
PAUSE = 0.05
"""The seconds to wait after an empty answer, because Spark asks again at once."""
EVERYTHING = 1 << 60


@dataclass
class Range(InputPartition):
    """Deliveries after a place, up to a sequence number."""

    after: Place
    up_to: int


@dataclass(frozen=True, slots=True)
class Subscriber:
    place: ServerPlace
    name: str

    @classmethod
    def of(cls, options: SourceOptions) -> Subscriber:
        name = options.text("subscriber")
        if not name:
            raise SettingError("subscriber", 'say whose deliveries are to be read: .option("subscriber", "desk-7")')
        return cls(options.place(), name)

    def ranges(self, after: Place, up_to: int | None) -> list[Range]:
        with server_used(self.place) as server:
            ends = OffsetConsumer(server).bounds(self.name, after, up_to, ROWS_PER_PARTITION)
        starts = [after, *(Place(after.store, end) for end in ends)]
        return [Range(start, end) for start, end in zip(starts, ends, strict=False)]

    def read(self, each: Range) -> Iterator[Any]:
        with server_used(self.place) as server:
            found = OffsetConsumer(server).read(self.name, each.after, each.up_to)
        if len(found):
            yield _rows(found)


def check_schema(schema: StructType) -> None:
    """Rejects a schema other than ours, because Spark would accept any that the user gives."""
    own = ",".join(each.replace(" ", ":") for each in SCHEMA.split(", "))
    if schema.simpleString() != f"struct<{own}>":
        raise TableError(None, f"deliveries have the columns {SCHEMA}; leave out .schema(…)")


class DeliveryReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a subscriber's deliveries as a stream. From its first read on, the mailbox belongs to this query, and `poll` refuses it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        given = SourceOptions(options)
        self.subscriber = Subscriber.of(given)
        self.max_rows = given.whole("max_rows", 0)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as those below
        with server_used(self.subscriber.place) as server:
            return _offset(OffsetConsumer(server).begin(self.subscriber.name))

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        place = _place(start)
        rows = limit.max_rows if isinstance(limit, ReadMaxRows) else EVERYTHING
        with server_used(self.subscriber.place) as server:
            ends = OffsetConsumer(server).bounds(self.subscriber.name, place, self._target, rows)
        if not ends:
            if self._target is None:
                time.sleep(PAUSE)
            return start
        return _offset(Place(place.store, ends[0]))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.max_rows) if self.max_rows > 0 else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with server_used(self.subscriber.place) as server:
            consumer = OffsetConsumer(server)
            begun = consumer.begin(self.subscriber.name)
            ends = consumer.bounds(self.subscriber.name, begun, None, EVERYTHING)
        self._target = ends[-1] if ends else begun.sequence

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
        return self.subscriber.ranges(_place(start), _place(end).sequence)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        return self.subscriber.read(partition)

    def commit(self, end: dict[str, Any]) -> None:
        with server_used(self.subscriber.place) as server:
            OffsetConsumer(server).ack_through(self.subscriber.name, _place(end))


class WaitingReader(DataSourceReader):
    """Reads the deliveries that wait now, without acknowledging them."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.subscriber = Subscriber.of(SourceOptions(options))

    def partitions(self) -> list[Range]:
        with server_used(self.subscriber.place) as server:
            start = OffsetConsumer(server).start()
        return self.subscriber.ranges(start, None) or [Range(start, 0)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Range)
        return self.subscriber.read(partition)


def _offset(place: Place) -> dict[str, Any]:
    return {"store": place.store, "sequence": place.sequence}


def _place(offset: Mapping[str, Any]) -> Place:
    return Place(offset["store"], int(offset["sequence"]))


def _rows(found: DeliveryColumns) -> Any:
    """Returns the deliveries as a record batch of SCHEMA."""
    names = np.array(found.levels, object)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(found.sequence),
            pa.array(list(map(str, found.subscription_id.tolist())), pa.string()),
            pa.array([None if each is None else str(each) for each in found.event_id.tolist()], pa.string()),
            pa.array(names[found.level], pa.string()),
            pa.array((found.enqueued * 1e6).astype(np.int64)).cast(pa.timestamp("us", tz="UTC")),
            pa.array([None if content is None else _json(content) for content in found.content], pa.string()),
        ],
        names=["sequence", "subscription_id", "event_id", "priority", "enqueued", "event"],
    )


def _json(content: bytes) -> str:
    event = unpack_event(content)
    try:
        return json.dumps(event, default=_text, ensure_ascii=False, allow_nan=False)
    except ValueError:
        return json.dumps(_named(event), default=_text, ensure_ascii=False)


def _named(value: Any) -> Any:
    """Replaces values that JSON lacks by "NaN", "Infinity" and "-Infinity", which Spark's from_json reads as doubles."""
    if isinstance(value, dict):
        return {name: _named(each) for name, each in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _text(value: Any) -> str:
    """Returns the text of a value that JSON lacks: times in ISO 8601, decimals as their digits."""
    return value.isoformat() if isinstance(value, datetime.datetime | datetime.date) else str(value)
