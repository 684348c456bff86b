"""Has kernels compiled by another process, so that this one can go on: compiling in a thread would hold the GIL for most of the time, and a
program that ends within seconds would wait for it, or be the poorer for it at its next start."""

from __future__ import annotations

import atexit
import fcntl
import os
import subprocess
import sys
from pathlib import Path

from ray_pubsub.kernels.readiness import VARIABLE, lock_path, set_compiler

__all__ = ["compile_in_background", "offer_background", "stop"]

_started: list[subprocess.Popen[bytes]] = []


def offer_background() -> None:
    """From now on, kernels that are not compiled are compiled by another process."""
    set_compiler(compile_in_background)


def compile_in_background(marker: Path) -> bool:
    """Returns whether a process is compiling; starts one if none is. One that ended without having compiled all is not started again."""
    if _is_locked(lock_path(marker)):
        return True
    if _started:
        return _started[0].poll() is None  # it has not come to its lock yet, or it failed
    folder = str(Path(__file__).parents[2])
    path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "ray_pubsub.warming", "--background"]
    try:
        marker.parent.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # it goes on when this program ends
            env={**os.environ, "PYTHONPATH": path, VARIABLE: "now"},
        )
    except OSError:
        return False
    _started.append(process)
    return True


def stop() -> None:
    """Ends the process that this one started, for those who remove the cache."""
    for process in _started:
        process.terminate()
        process.wait()


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@atexit.register
def _leave() -> None:
    """The process is left alone; without this, Python would warn that it still runs."""
    for process in _started:
        process.returncode = process.returncode or 0
