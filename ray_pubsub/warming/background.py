"""Compiles kernels in another process, so that this one can continue: compiling in a thread would hold the GIL most of the time, and a
program that ends within seconds would either have to wait for it or start again uncompiled."""

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
    """Lets another process compile kernels from now on, if they are not compiled yet."""
    set_compiler(compile_in_background)


def compile_in_background(marker: Path) -> bool:
    """Returns whether a process is compiling; starts one if none is. A process that ended before all kernels were compiled is not started
    again."""
    if _is_locked(lock_path(marker)):
        return True
    if _started:
        return _started[0].poll() is None  # it has not taken its lock yet, or it failed
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
            start_new_session=True,  # it continues when this program ends
            env={**os.environ, "PYTHONPATH": path, VARIABLE: "now"},
        )
    except OSError:
        return False
    _started.append(process)
    return True


def stop() -> None:
    """Ends the process that this one started; for callers that remove the cache."""
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
    """Detaches the process; otherwise Python would warn that it still runs."""
    for process in _started:
        process.returncode = process.returncode or 0
