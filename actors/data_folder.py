"""The folder in which a server keeps its data: one server at a time.

The lock is the operating system's and ends with the process that has it. An instance of the same server may take the folder although the
lock is held: its predecessor may be alive somewhere, cut off, and the stores' epochs see to it that it can write no more.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import IO, Any

from ray_pubsub.errors import StoreError

__all__ = ["claim"]

FILE = "server.lock"


def claim(folder: Path, owner: str) -> IO[Any]:
    """Keep what is returned: the folder is this process's as long as it is open. Raises StoreError if another server has it."""
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")
    except OSError as error:
        raise StoreError(str(folder), f"cannot be used to keep data in: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        other = file.read().strip()
        if other != owner:
            file.close()
            raise StoreError(
                str(folder), f"is in use by the server {other}; stop that one, or choose another folder"
            ) from None
        return file
    file.truncate(0)
    file.write(owner)
    file.flush()
    return file
