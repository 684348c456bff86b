"""What every SQLite file of the server needs: to be ours, of a format this release knows, and to outlast a power failure once made."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from ray_pubsub.errors import StoreError

__all__ = ["check_ours", "sync_folder"]


def check_ours(connection: sqlite3.Connection, name: str, application: int, version: int) -> None:
    """Before anything is changed: even the journal's mode is written into the file. Raises StoreError."""
    (found,) = connection.execute("pragma application_id").fetchone()
    (written,) = connection.execute("pragma user_version").fetchone()
    (tables,) = connection.execute("select count(*) from sqlite_schema").fetchone()
    if found != application and (tables or found or written):
        raise StoreError(name, "is the database of another program; name another file")
    if written > version:
        reason = f"was written by a newer release (format {written}, this one knows {version}); run that release"
        raise StoreError(name, reason)


def sync_folder(folder: Path) -> None:
    """Or the file might be missing after a power failure, whatever is in it."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
