"""Chooses the folder of the sockets and decides whether a socket may be trusted: the folder must be one that only this user may enter, and
that nobody else can rename.

Another user of the machine who could rename the folder, or put a socket in its place, would read events and answer for the server.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
import struct
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from actors.cluster.safe_folder import is_safe_parent

__all__ = [
    "LONGEST_PATH",
    "SOCKET",
    "check_peer",
    "check_socket",
    "private_folder",
    "remove_abandoned",
]

PREFIX, SOCKET = "ray-pubsub-socket-", "socket"
LONGEST_PATH = 100
"""The longest path of a socket in bytes; some systems allow a few more."""
OTHERS = stat.S_IRWXG | stat.S_IRWXO
SUFFIX = len("12345678/") + len(SOCKET)
PEER = struct.Struct("iII")
"""The process, user and group at the other end, as Linux reports them."""


def private_folder() -> Path:
    """Creates a folder of mode 0700. Raises OSError if there is no safe place for one, or if the system does not report the users of
    sockets."""
    if not hasattr(socket, "SO_PEERCRED"):
        raise OSError("this system does not say which user is at the other end of a socket")
    for parent in _parents():
        if len(os.fsencode(parent)) + 1 + len(PREFIX) + SUFFIX <= LONGEST_PATH and is_safe_parent(parent):
            with suppress(OSError):
                return Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    raise OSError("there is no folder in which only this user can make and rename files")


def _parents() -> Iterator[Path]:
    own = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if own.is_absolute():
        with suppress(OSError):
            found = own.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & OTHERS:
                yield own.resolve()
    yield Path(tempfile.gettempdir()).resolve()
    yield Path("/tmp").resolve()


def check_socket(path: Path, user: int | None = None) -> None:
    """Checks before connecting that the socket and its folder are this user's and closed to others. Raises PermissionError and OSError."""
    user = os.geteuid() if user is None else user
    for each, is_kind in ((path.parent, stat.S_ISDIR), (path, stat.S_ISSOCK)):
        found = each.lstat()
        if not is_kind(found.st_mode) or found.st_uid != user or found.st_mode & OTHERS:
            raise PermissionError(f"{each} is not this user's alone")
    if not is_safe_parent(path.parent.parent):
        raise PermissionError(f"{path.parent} can be replaced by other users")


def check_peer(connected: socket.socket, user: int | None = None) -> None:
    """Checks that the process at the other end runs as this user. Raises PermissionError."""
    _, peer, _ = PEER.unpack(connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, PEER.size))
    if peer != (os.geteuid() if user is None else user):
        raise PermissionError(f"the user {peer} is at the other end of the socket")


def remove_abandoned(parent: Path) -> None:
    """Removes folders that killed processes of this user have left behind: nobody listens at their sockets any more."""
    with suppress(OSError):
        for folder in parent.glob(f"{PREFIX}*"):
            if folder.lstat().st_uid == os.geteuid() and _is_abandoned(folder / SOCKET):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # the socket does not exist yet, or its queue is full
            pass
    return False
