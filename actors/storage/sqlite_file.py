"""The common base of all SQLite files of a server: how they are opened and checked, who may read them, and errors that name them.

A change is on disk when its transaction has ended (write-ahead log, synchronous FULL). Pages have checksums (`page_checksums.py`).
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from actors.storage.checksum_records import checksums_of
from actors.storage.database import DamagedContentError
from actors.storage.page_checksums import PageChecksums
from actors.storage.private_folder import sync_path, tighten_file
from ray_pubsub.errors import StoreError
from ray_pubsub.failpoints import reach

__all__ = ["IN_MEMORY", "SqliteFile", "SqliteSession", "connect", "file_reason", "store_errors"]

logger = logging.getLogger(__name__)

IN_MEMORY = ":memory:"
CHECKPOINT_AFTER = 1000
"""The number of pages in the write-ahead log after which they are copied into the database, the same as SQLite's default."""
LONGEST_LOG = 4 * 2**20
"""The size in bytes to which the write-ahead log is truncated when it is restarted."""
FEWEST_FREE, LARGEST_FREE_SHARE = 256, 0.2
"""Free pages are kept for later use if there are fewer than this number, or their share of the file is smaller than this."""
FREE_AT_ONCE = 4096
"""The number of free pages that are returned to the file system in one transaction."""

LEAST_SPACE = 64 * 2**10
"""The bytes that SQLite needs to open a file with a write-ahead log."""
LONGEST_WAIT = 30.0
"""The seconds to wait for another process that writes to the file, which is an instance that is about to be fenced."""


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """Converts SQLite's errors to StoreErrors that name the file."""
    try:
        yield
    except (sqlite3.Error, DamagedContentError) as error:
        raise StoreError(path, _reason(error, path)) from error


def _reason(error: sqlite3.Error | DamagedContentError, path: str) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    if isinstance(error, DamagedContentError):
        return f"is damaged at {error}; restore it from a copy"
    # On a full disk, SQLite's files for shared memory and locks fail with other errors.
    if code.startswith("SQLITE_FULL") or (code.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN")) and _is_full(path)):
        return "the disk is full, or the store has reached its largest size; nothing of this change was written"
    if code.startswith("SQLITE_READONLY"):
        return "cannot be written to; check the permissions of the file and its folder"
    if code.startswith("SQLITE_CANTOPEN"):
        return "cannot be opened; check that its folder exists and may be written to"
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return "is damaged or no database; restore it from a copy, or name another file"
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"another process has been writing to it for {LONGEST_WAIT:g} s; does a second server use it?"
    return f"{error} ({code})" if code else str(error)


def _is_full(path: str) -> bool:
    try:
        found = os.statvfs(Path(path).parent)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < LEAST_SPACE


class SqliteSession(sqlite3.Connection):
    """A connection as stores use it (`Session`)."""

    def run(self, statements: Iterable[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        for statement, rows in statements:
            self.executemany(statement, rows)

    def load(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        columns = len(self.execute(f"SELECT * FROM {table} LIMIT 0").description)
        self.executemany(f"INSERT INTO {table} VALUES ({','.join('?' * columns)})", rows)

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        return f"{column} IN ({','.join('?' * len(values))})", values

    def id_value(self, identity: str | int) -> str | int:
        return identity  # the column has no declared type, so both kinds of id fit

    def begin_write(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def begin_read(self) -> None:
        self.execute("BEGIN")


def connect(path: str | os.PathLike[str] | None) -> SqliteSession:
    """Opens a connection without implicit transactions, for any thread; None means in memory. Raises sqlite3.Error, also if there is no
    such file: SQLite would create one, which everybody may read."""
    name = IN_MEMORY if path is None else f"file:{quote(os.fspath(path))}?mode=rw"
    return sqlite3.connect(
        name, timeout=LONGEST_WAIT, isolation_level=None, check_same_thread=False, factory=SqliteSession, uri=True
    )


class SqliteFile:
    """A file and the connection that writes to it (a `Database`). One thread at a time."""

    def __init__(
        self, path: str | os.PathLike[str] | None, application: int | None, version: int, create: bool = True
    ) -> None:
        """`application` is the mark of this kind of file; None accepts any. Refuses a file of another program or of a newer release, a
        damaged one, and a new one if `create` is False, before anything is changed. Only this user may read or write the file. `path`
        None means in memory. Raises StoreError."""
        self.name = IN_MEMORY if path is None else os.fspath(path)
        self._checksums: PageChecksums | None = None
        with store_errors(self.name):
            if path is not None:
                self._checksums = _prepared(Path(path), application, version, create)
            self.writer = connect(path)
            try:
                if path is not None:
                    _check_ours(self.writer, Path(path), application, version, create)
                for setting in ("synchronous = FULL", "wal_autocheckpoint = 0", f"journal_size_limit = {LONGEST_LOG}"):
                    self.writer.execute(f"PRAGMA {setting}")
                if self._checksums is not None:
                    self._take_over(self._checksums)
            except BaseException:
                self.close()
                raise

    @property
    def has_readers(self) -> bool:
        return self.name != IN_MEMORY

    def reader(self) -> SqliteSession:
        with store_errors(self.name):
            session = connect(self.name)
            session.execute("PRAGMA query_only = ON")
        return session

    def errors(self) -> AbstractContextManager[None]:
        return store_errors(self.name)

    def doubt(self) -> None:
        """Does nothing: a file is never away, and reading it again raises if that is impossible."""

    def committed(self) -> None:
        """Called after each commit. What was committed is on disk, whether or not this succeeds."""
        if self._checksums is None:
            return
        try:
            if self._checksums.record() >= CHECKPOINT_AFTER:
                self._checksums.sync()
                reach("checkpoint")
                self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
                self._checksums.shorten()
                if self._free_share() > LARGEST_FREE_SHARE:
                    self.writer.execute(f"PRAGMA incremental_vacuum({FREE_AT_ONCE})").fetchall()
                    self._checksums.record()
        except (OSError, StoreError, sqlite3.Error) as error:
            # The next commit records these pages too; until then they are not copied into the database.
            logger.warning("%s: could not record checksums: %s", self.name, error)

    def failed(self) -> None:
        """Called after each commit that failed."""
        if self._checksums is not None:
            with suppress(OSError):  # the failure is reported already
                self._checksums.distrust_log()

    def give_back_space(self) -> None:
        """Returns free pages to the file system. Raises StoreError."""
        with store_errors(self.name):
            while self._free_share() > LARGEST_FREE_SHARE:
                self.writer.execute(f"PRAGMA incremental_vacuum({FREE_AT_ONCE})").fetchall()
                self.committed()

    def _free_share(self) -> float:
        free, pages = (self.writer.execute(f"PRAGMA {each}").fetchone()[0] for each in ("freelist_count", "page_count"))
        return free / pages if free >= FEWEST_FREE else 0.0

    def close(self) -> None:
        """Closes the file. Nothing is lost if it is not called. May be called again."""
        checksums, self._checksums = self._checksums, None
        if checksums is not None:
            try:
                checksums.record()
                checksums.sync()
                self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            except (OSError, StoreError):
                checksums.discard()
            except sqlite3.Error:
                pass  # another process writes, or the disk is full; the log stays
        self.writer.close()
        if checksums is not None:
            checksums.close()

    def _take_over(self, checksums: PageChecksums) -> None:
        """Records pages that a crash left unrecorded in the log. SQLite says how many of them are complete."""
        _, frames, _ = self.writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        checksums.record(max(0, frames))
        checksums.sync()  # the next commit may restart the log; from then on a page is covered by its record alone
        checksums.distrust_log()  # the last commit of the previous process may have failed
        if not checksums.checked:
            (found,) = self.writer.execute("PRAGMA integrity_check(1)").fetchone()
            if found != "ok":
                checksums.discard()
                raise StoreError(self.name, f"is damaged; restore it from a copy. SQLite says: {found}")
            self._allow_vacuum()

    def _allow_vacuum(self) -> None:
        """Rewrites a file of the first release, once, so that it can return space to the file system."""
        if self.writer.execute("PRAGMA auto_vacuum").fetchone() != (2,):
            self.writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
            self.writer.execute("VACUUM")
            self.committed()


def _prepared(path: Path, application: int | None, version: int, create: bool) -> PageChecksums:
    """Checks a file, or creates it, before it is opened for good."""
    if path.is_dir():
        raise StoreError(str(path), "is a folder; name a file in it")
    is_new = not path.exists()
    with suppress(OSError):  # SQLite reports what is wrong
        if is_new and create:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        tighten_file(path)
    try:
        if checksums_of(path).exists():
            return PageChecksums(path)
        with closing(connect(path)) as connection:
            _check_ours(connection, path, application, version, create)
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # takes effect in a new file
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if is_new:
            sync_path(path.parent)
        return PageChecksums(path)
    except OSError as error:
        raise StoreError(str(path), file_reason(error)) from error


def _check_ours(
    connection: sqlite3.Connection, path: Path, application: int | None, version: int, create: bool
) -> None:
    if application is None:
        return
    (found,) = connection.execute("PRAGMA application_id").fetchone()
    (written,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != application and (tables or found or written):
        raise StoreError(str(path), "is the database of another program; name another file")
    if not written and not create:
        raise StoreError(str(path), "is empty, although it was not; restore it from a copy")
    if written > version:
        reason = f"was written by a newer release (format {written}, this one knows {version}); run that release"
        raise StoreError(str(path), reason)


def file_reason(error: OSError) -> str:
    """Returns why a file cannot be used."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return "the disk is full" if full else f"cannot be used to keep data in: {error.strerror}"
