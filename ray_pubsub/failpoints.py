"""Named places in the code at which a test can make a process crash, or a write fail.

Each place is reached once per commit or file, never per event or match, and costs a comparison with None as long as nobody watches. A test
sets `watch` to a function that is called with each place's name; what it raises is raised there. Processes that a test cannot reach itself,
such as those of a server, read the environment variable RAY_PUBSUB_FAILPOINTS when they start: the path of a file with lines of
"place action", read again each time a place is reached, so that a test can change it while they run. Actions: `crash` ends the process as
kill -9 does, `crash-once` removes the file first, `fail` raises the error of a failing disk, `full` that of a full one.
"""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import Callable
from pathlib import Path

__all__ = ["PLACES", "VARIABLE", "reach", "watch"]

VARIABLE = "RAY_PUBSUB_FAILPOINTS"

PLACES = {
    "registry.append": "changes are in a transaction that is not committed",
    "registry.fsync": "SQLite is about to write the commit and to sync it",
    "registry.apply": "the commit is on disk, and memory does not know of it yet",
    "registry.acknowledge": "memory knows of it, and nobody was answered yet",
    "registry.merge": "blocks were rewritten without what was removed, in a transaction that is not committed",
    "mailboxes.append": "as for the registry",
    "mailboxes.fsync": "as for the registry",
    "mailboxes.apply": "the commit is on disk, and its changes are still queued",
    "mailboxes.deliver": "deliveries are on disk, and not in their mailboxes yet",
    "mailboxes.acknowledge": "an acknowledgement is on disk, and the consumer was not answered yet",
    "mailboxes.merge": "chunks of deliveries were merged in memory, and not on disk yet",
    "checksums.append": "a commit is on disk, and the checksums of its pages are not written yet",
    "checksums.sync": "checksums are written and not synced",
    "checksums.rename": "a new file of checksums is complete, under a name of its own",
    "checkpoint": "checksums are on disk, and the log is about to be copied into the database",
    "manifest.rename": "a new manifest is complete, under a name of its own",
    "backup.rename": "a store is copied and compared with its checksums, under a name of its own",
    "backup.manifest": "all stores are copied, and the copy has no manifest yet",
    "restore.rename": "the stores are prepared in an inner folder, and some of their files are still there",
    "restore.finish": "all files are in their folder, and the inner one, which marks the interruption, is too",
    "save.fsync": "an index or a set of rules is written beside its file, and not synced",
    "save.rename": "it is synced, and does not have its name yet",
}
"""What is true when a process ends there."""

OF_SQLITE = ("registry.append", "registry.fsync", "mailboxes.append", "mailboxes.fsync")
"""Places at which a failing disk shows as an error of SQLite."""

FAILURES = {errno.EIO: "disk I/O error", errno.ENOSPC: "database or disk is full"}
"""What SQLite says of them."""

watch: Callable[[str], None] | None = None


def reach(place: str) -> None:
    """Called where a place is reached. Raises what the test that watches wants raised."""
    if watch is not None:
        watch(place)


def _as_in_file(path: Path) -> Callable[[str], None]:
    def act(place: str) -> None:
        try:
            actions = dict(line.split() for line in path.read_text().splitlines())
        except (OSError, ValueError):
            return
        action = actions.get(place)
        if action == "crash-once":
            path.unlink(missing_ok=True)
        if action in ("crash", "crash-once"):
            os.kill(os.getpid(), signal.SIGKILL)
        if action in ("fail", "full"):
            code = errno.EIO if action == "fail" else errno.ENOSPC
            raise sqlite3.OperationalError(FAILURES[code]) if place in OF_SQLITE else OSError(code, os.strerror(code))

    return act


if VARIABLE in os.environ:
    watch = _as_in_file(Path(os.environ[VARIABLE]))
