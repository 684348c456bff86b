"""Tasks that fail as tasks do: after they have done what they do, and on the next attempt with their rows in another order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def failing_first(frame: DataFrame) -> DataFrame:
    """The first attempt of the first task hands on all rows and then fails; the next one hands them on the other way round."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        first = context.attemptNumber() == 0  # type: ignore[union-attr]
        for batch in list(batches)[:: 1 if first else -1]:
            yield batch if first else batch.take(list(range(batch.num_rows))[::-1])
        if first and context.partitionId() == 0:  # type: ignore[union-attr]
            raise RuntimeError("the first attempt fails")

    return frame.mapInArrow(rows, frame.schema)


def failing_while(frame: DataFrame, flag: Path) -> DataFrame:
    """Every attempt of the first task fails, having handed on all rows, as long as the file is there."""
    path = str(flag)

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 0 and os.path.exists(path):  # type: ignore[union-attr]  # noqa: PTH110 - travels by value
            raise RuntimeError("the flag is up")

    return frame.mapInArrow(rows, frame.schema)


def killing(frame: DataFrame, process: int, after: int) -> DataFrame:
    """kill -9 of a process when `after` batches of the first partition have been handed on, once."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        context = TaskContext.get()
        for number, batch in enumerate(batches):
            if number == after and context.partitionId() == 0 and context.attemptNumber() == 0:  # type: ignore[union-attr]
                os.kill(process, signal.SIGKILL)
            yield batch

    return frame.mapInArrow(rows, frame.schema)


def held_up(frame: DataFrame, midway: Path, away: Path, back: Path) -> DataFrame:
    """The first attempt says when it is midway, and waits until something is away; the next ones wait until it is back."""
    paths = [str(path) for path in (midway, away, back)]

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import time

        from pyspark import TaskContext

        def wait_for(path: str) -> None:
            ends = time.monotonic() + 120
            while not os.path.exists(path):  # noqa: PTH110
                if time.monotonic() > ends:
                    raise TimeoutError(path)
                time.sleep(0.02)

        first = TaskContext.get().attemptNumber() == 0  # type: ignore[union-attr]
        if not first:
            wait_for(paths[2])
        for number, batch in enumerate(batches):
            if first and number == 5:
                with open(paths[0], "w"):  # noqa: PTH123
                    pass
                wait_for(paths[1])
            yield batch

    return frame.mapInArrow(rows, frame.schema)
