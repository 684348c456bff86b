"""Compiles kernels by calling their callers, because what is compiled depends on the types that callers pass."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ray_pubsub.kernels.readiness import VARIABLE, lock_path, marker_path
from ray_pubsub.warming.exercises import EXERCISES

__all__ = ["warm_up", "warm_up_backwards"]


def warm_up(*, progress: bool = False, wait: bool = True) -> bool:
    """Compiles all kernels into numba's cache, so that no later process has to wait for them: for images, installers and benchmarks.

    Takes two minutes on two cores the first time, a second or two afterwards. `progress`: shows a bar. `wait=False`: returns False at once
    if another process is at it. Kernels are kept in the user's cache folder, for all copies of the package with the same sources; the
    environment variable NUMBA_CACHE_DIR names another one.
    """
    marker = marker_path()
    with _alone(marker, wait) as mine:
        if not mine:
            return False
        partner = _start_partner() if wait and marker is not None and (os.cpu_count() or 1) > 1 else None
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, disable=not progress) as bar:
            task = bar.add_task("", total=len(EXERCISES))
            for name, exercise in EXERCISES.items():
                bar.update(task, description=f"compiling: {name}")
                exercise()
                bar.advance(task)
            bar.update(task, description="compiled")
        if partner is not None:
            partner.wait()
        if marker is not None:
            marker.touch()
    return True


def warm_up_backwards() -> None:
    """Runs in the second process, which begins at the other end. Each kernel is compiled by one of the two, and loaded by the other
    (kernels/compiling_once.py)."""
    for exercise in reversed(EXERCISES.values()):
        exercise()


def _start_partner() -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "ray_pubsub.warming", "--backwards"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, VARIABLE: "now"},
        )
    except OSError:  # then one process does it all
        return None


@contextmanager
def _alone(marker: Path | None, wait: bool) -> Iterator[bool]:
    """Lets one process at a time compile all; where no lock file can be written, each does."""
    if marker is None:
        yield True
        return
    marker.parent.mkdir(parents=True, exist_ok=True)
    with lock_path(marker).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
