"""Folders and files that only this user may read, and whose existence survives a power failure."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ray_pubsub.errors import StoreError

__all__ = ["make_private_folder", "sync_path", "tighten_file"]

OTHERS = stat.S_IRWXG | stat.S_IRWXO
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
REMEDY = "name a folder of your own, or one that does not exist yet, which will be created for this user only"


def make_private_folder(folder: Path, own: Iterable[str]) -> None:
    """Makes a folder, with its parents, or takes the rights of other users away from one that exists. A folder that has more in it than
    what begins with one of the names `own` (a home, a project) keeps its rights if others cannot write there: the files themselves are
    private. Raises StoreError if it is another user's, or if others can write and that is not ours to change; OSError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_path(each.parent)
    if missing:
        return
    found = _own(folder)
    if not found.st_mode & OTHERS:
        return
    names = (*own, "lost+found")
    shared = any(not each.name.startswith(names) for each in folder.iterdir())
    if shared and not found.st_mode & OTHERS_WRITE:
        return
    if shared or found.st_mode & stat.S_ISVTX:
        raise StoreError(str(folder), f"is used for other things too, and other users can write there; {REMEDY}")
    _without_others(folder, found)


def tighten_file(path: Path) -> None:
    """Takes the rights of other users away from a file, if it exists. Raises StoreError if it is another user's."""
    with suppress(FileNotFoundError):
        found = _own(path)
        if found.st_mode & OTHERS:
            _without_others(path, found)


def sync_path(path: Path) -> None:
    """Syncs a file or a folder. Unless its folder is synced too, a new file might be missing after a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _own(path: Path) -> os.stat_result:
    """Returns the state of a file or folder, which must be this user's: its owner can read and replace what is in it, whatever its mode.
    Root could use it all the same."""
    found = path.stat()
    if found.st_uid != os.geteuid():
        raise StoreError(str(path), f"belongs to another user (uid {found.st_uid}), who can change it; {REMEDY}")
    return found


def _without_others(path: Path, found: os.stat_result) -> None:
    path.chmod(stat.S_IMODE(found.st_mode) & ~OTHERS)
