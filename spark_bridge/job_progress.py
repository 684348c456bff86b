"""A progress bar for a Spark job, by finished tasks: on the driver or, under Spark Connect, on the client."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["job_progress"]

EVERY = 0.3


@contextmanager
def job_progress(session: Any, wanted: bool | None) -> Iterator[None]:
    """Shows a bar for the jobs that run inside the block. With `wanted` None, it is shown only on a terminal where Spark shows no bar
    itself."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("subscribing", total=None)
        with _watched(session, lambda done, total: bar.update(task, completed=done, total=total or None)):
            yield
        bar.update(task, total=1, completed=1)


@contextmanager
def _watched(session: Any, tell: Callable[[int, int], None]) -> Iterator[None]:
    if not type(session).__module__.startswith("pyspark.sql.connect"):
        with _polled(session.sparkContext.statusTracker(), tell):
            yield
        return

    def update(stages: Any, **_: Any) -> None:
        tell(sum(stage.num_completed_tasks for stage in stages), sum(stage.num_tasks for stage in stages))

    session.registerProgressHandler(update)
    try:
        yield
    finally:
        session.removeProgressHandler(update)


@contextmanager
def _polled(tracker: Any, tell: Callable[[int, int], None]) -> Iterator[None]:
    """Polls the driver's status of the stages of jobs that began inside the block."""
    before, jobs = set(tracker.getActiveJobsIds()), set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            jobs.update(set(tracker.getActiveJobsIds()) - before)
            infos = [tracker.getJobInfo(job) for job in jobs]
            stages = [tracker.getStageInfo(stage) for info in infos if info for stage in info.stageIds]
            known = [stage for stage in stages if stage is not None]
            tell(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    watcher = threading.Thread(target=look, name="ray-pubsub-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
