"""The folder for the sockets and logs of a cluster that this process starts: only this user may enter it, and it ends with the cluster.

Ray's own, /tmp/ray/session_…, gives everybody the right to write to its folders, so any user of the machine could rename the sockets of
the raylet and of the object store and put others in their place.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from actors.cluster.safe_folder import is_safe_parent

__all__ = ["new_session_folder", "remove_session_folder"]

PREFIX = "ray-pubsub-"
FOLDER_OF_RAY = "r"
"""A folder in ours, because Ray gives the one that it is given the mode 0777."""
LONGEST = 40
"""The most bytes of our folder's path. A socket's path has at most 107 bytes, of which Ray needs 67 for
/r/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store."""
DEFAULT = "/tmp"

_folder: tuple[int, Path] | None = None
"""The process that made the folder, and the folder. A process starts at most one cluster at a time; a fork of it has started none."""


def new_session_folder(end: Callable[[], None]) -> Path:
    """Makes a folder below RAY_TMPDIR or TMPDIR, or below /tmp if the path of these is too long for sockets or other users could rename the
    folder there. Returns the folder in it that Ray is given. It is removed at the latest when this process ends, after `end`, which ends
    the cluster."""
    global _folder  # noqa: PLW0603 - as Ray's own connection
    remove_session_folder()
    below = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir()).resolve()
    if len(os.fsencode(below)) + len("/" + PREFIX) + 8 > LONGEST:
        below = Path(DEFAULT)
    below.mkdir(parents=True, exist_ok=True)  # Ray would also create a RAY_TMPDIR that does not exist
    if not is_safe_parent(below):
        below = Path(DEFAULT)
    made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=below))  # 0700
    _folder = os.getpid(), made

    def at_exit() -> None:
        if _folder == (os.getpid(), made):
            end()  # Ray's processes write there until they have ended
            remove_session_folder()

    atexit.register(at_exit)
    return made / FOLDER_OF_RAY


def remove_session_folder() -> None:
    """Removes the folder of the cluster that this process had started, after the cluster has ended. Does nothing if there is none."""
    global _folder  # noqa: PLW0603
    if _folder is not None and _folder[0] == os.getpid():
        shutil.rmtree(_folder[1], ignore_errors=True)
    _folder = None
