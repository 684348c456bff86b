"""The position of a task in Spark's work: query, micro-batch, partition."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from ray_pubsub.errors import SettingError

__all__ = ["TaskPlace", "streaming_task", "task_place"]


@dataclass(frozen=True, slots=True)
class TaskPlace:
    """Which part of which query a task computes: the same whenever Spark repeats it."""

    partition: int
    """The partition of the stage. After a coalesce one task does the work of several partitions of a DataFrame."""
    query: str | None = None
    """The id of a streaming query, the same whenever it continues from the same checkpoint; None in a batch query."""
    batch: int | None = None
    """The number of its micro-batch."""
    part: int | None = None
    """The partition of the DataFrame, if it is known."""

    @property
    def rows_of(self) -> int:
        """The partition in which rows can be numbered."""
        return self.partition if self.part is None else self.part

    def scope(self, otherwise: str) -> str:
        """Returns a prefix for names that are generated in this task. It is the same when the task is repeated."""
        if self.query is None:  # `otherwise` belongs to one DataFrame, as do its partitions
            return f"{otherwise}/{self.rows_of}"
        return f"{self.query}/{self.batch}/{self.partition}/{self.rows_of}"


def task_place() -> TaskPlace:
    """Returns the place of the task that this Python worker is running."""
    context = TaskContext.get()
    if context is None:
        return TaskPlace(0)
    # This is not documented, but Spark itself identifies batches by it; a test fails if it disappears.
    query, batch = context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("streaming.sql.batchId")
    if query is None or batch is None:
        return TaskPlace(context.partitionId())
    return TaskPlace(context.partitionId(), query, int(batch))


def streaming_task() -> TaskPlace:
    """Returns the same for a task that must be part of a streaming query."""
    place = task_place()
    if place.query is None:
        raise SettingError(
            "format",
            "this release of Spark does not tell tasks which micro-batch they write; use match_events(deliver=True)",
        )
    return place
