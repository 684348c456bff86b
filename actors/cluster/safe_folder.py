"""Decides whether a folder is one in which other users can neither rename nor replace what this user creates."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["is_safe_parent"]

WRITABLE = stat.S_IWGRP | stat.S_IWOTH


def is_safe_parent(folder: Path) -> bool:
    """Returns whether other users (except root) can neither rename nor replace what this user creates in the folder: every folder on its
    path must belong to this user or to root, and be closed to others or sticky, as /tmp is."""
    return all(_is_closed(each) for each in (folder, *folder.parents))


def _is_closed(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid())
    return ours and (not found.st_mode & WRITABLE or bool(found.st_mode & stat.S_ISVTX))
