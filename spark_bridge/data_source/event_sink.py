"""Writes DataFrames and streams to format("ray_pubsub"): their rows are published, and delivered once.

Spark writes a batch again when a task or the driver died, perhaps in another order or in other partitions. So every attempt publishes its
events at once, and the mailboxes recognise repetitions by the event's id; a micro-batch that was committed is skipped as a whole. Holding
events back until all tasks have succeeded would be a second way to lose them, and not safer.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from actors.client.offset_consuming import OffsetConsumer
from ray_pubsub.errors import EventError, SettingError
from spark_bridge.data_source.source_options import SourceOptions
from spark_bridge.event_schema import EventColumn, EventColumns, event_columns
from spark_bridge.matching import BATCH_ROWS, MAX_IN_FLIGHT, PATIENCE, TIMEOUT, handoff
from spark_bridge.publishing_worker import Handoff, handed_over
from spark_bridge.task_place import TaskPlace, streaming_task, task_place
from spark_bridge.worker_server import ServerPlace, server_used, while_connected

__all__ = ["BatchWriter", "StreamWriter", "Written"]

logger = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):
    """The report of one task."""

    query: str | None = None
    events: int = 0
    matches: int = 0
    delivered: int = 0
    duplicates: int = 0
    bad: int = 0
    first_bad: str = ""
    warnings: int = 0
    """The number of values that were left out because they cannot be used."""
    window: int = 0

    def __str__(self) -> str:
        bad = f", {self.bad:,} bad ({self.first_bad})" if self.bad else ""
        bad += f", {self.warnings:,} values left out" if self.warnings else ""
        return f"{self.events:,} events, {self.matches:,} matches, {self.delivered:,} delivered, {self.duplicates:,} before{bad}"


@dataclass(frozen=True, slots=True)
class Writing:
    """The arguments of a writing task."""

    place: ServerPlace
    columns: EventColumns
    handoff: Handoff
    fails: bool

    @classmethod
    def of(cls, given: Mapping[str, str], schema: StructType) -> Writing:
        """Checks the options and the schema before anything is written."""
        options = SourceOptions(given)
        errors = options.text("errors", "drop")
        if errors not in ("drop", "fail"):
            raise SettingError("errors", f"'drop' or 'fail', not {errors!r}; match_events has a column for them")
        columns = event_columns(schema, options.names("columns"), options.text("event_id"))
        return cls(
            options.place(),
            columns,
            handoff(
                columns,
                True,
                options.flag("strict", True),
                options.whole("batch_rows", BATCH_ROWS),
                options.whole("max_in_flight", MAX_IN_FLIGHT),
                options.seconds("timeout", TIMEOUT),
                options.seconds("patience", PATIENCE),
            ),
            errors == "fail",
        )

    def write(self, batches: Iterable[Any], task: TaskPlace) -> Written:
        written = Written(task.query)
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:  # an empty partition needs no server
            return written
        with server_used(self.place) as server:
            if task.query is not None and task.batch is not None:
                last = OffsetConsumer(server).last_batch(task.query)
                if last is not None and task.batch <= last:
                    for _ in rows:  # all batches must be consumed
                        pass
                    return written
            written.window = server.settings.mailbox_settings().window
            events = while_connected(self.place, map(self._projected, chain([first], rows)))
            for outcome in handed_over(server, events, self.handoff, task):
                if outcome.bad:
                    if self.fails:
                        raise EventError(None, f"event {outcome.first_bad}")
                    written.first_bad = written.first_bad or outcome.first_bad
                    written.bad += len(outcome.bad)
                written.events += outcome.rows.num_rows
                if outcome.result is not None:
                    written.warnings += outcome.result.warning_count
                    written.matches += len(outcome.result)
                    written.delivered += outcome.result.deliveries.delivered
                    written.duplicates += outcome.result.deliveries.duplicates
        return written

    def _projected(self, batch: Any) -> Any:
        """Returns the attributes and the id, in the order of `columns`."""
        chosen = [*self.columns.attributes, *([self.columns.event_id] if self.columns.event_id else [])]
        names = [f"c{place}" for place in range(len(chosen))]
        return pa.RecordBatch.from_arrays([_column(batch, column) for column in chosen], names=names)


class BatchWriter(DataSourceArrowWriter):
    """Implements frame.write.format("ray_pubsub").mode("append").save()."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SettingError("mode", 'what was delivered cannot be overwritten; write with mode("append")')
        self.writing = Writing.of(options, schema)

    def write(self, iterator: Iterator[Any]) -> Written:
        return self.writing.write(iterator, task_place())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.info("written: %s", _sum(messages))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        logger.warning("given up; delivered by then: %s. What is written again is delivered once", _sum(messages))


class StreamWriter(DataSourceStreamArrowWriter):
    """Implements stream.writeStream.format("ray_pubsub").option("checkpointLocation", …).start()."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self.writing = Writing.of(options, schema)

    def write(self, iterator: Iterator[Any]) -> Written:
        return self.writing.write(iterator, streaming_task())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        total = _sum(messages)
        if total.query is None:  # there was nothing to write
            return
        if total.events > total.window > 0:
            logger.warning(
                "micro-batch %d had %d events, more than the %d whose ids the server remembers: had it been repeated, some would have "
                "been delivered twice. Start the server with a larger mailbox window, or take smaller micro-batches",
                batchId,
                total.events,
                total.window,
            )
        with server_used(self.writing.place) as server:
            OffsetConsumer(server).mark_batch(total.query, batchId)
        logger.info("micro-batch %d: %s", batchId, total)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        logger.warning("micro-batch %d is given up, and comes again; delivered by then: %s", batchId, _sum(messages))


def _sum(messages: Iterable[WriterCommitMessage | None]) -> Written:
    """Sums the reports. A task that failed has none."""
    total = Written()
    for message in messages:
        if isinstance(message, Written):
            total.query = total.query or message.query
            total.window = max(total.window, message.window)
            total.first_bad = total.first_bad or message.first_bad
            for name in ("events", "matches", "delivered", "duplicates", "bad", "warnings"):
                setattr(total, name, getattr(total, name) + getattr(message, name))
    return total


def _column(batch: Any, column: EventColumn) -> Any:
    found = batch.column(column.position)
    for name in column.fields:
        found = pc.struct_field(found, found.type.get_field_index(name))
    return found
