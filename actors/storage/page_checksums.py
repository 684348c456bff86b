"""Checksums of all pages of a SQLite file, in a file beside it (`.sums`), so that bit rot and lost writes are found when it is opened.

SQLite itself finds damage only by chance. In WAL mode every page reaches the database through the write-ahead log, so after each commit the
pages that the log gained are recorded here: page number, checksum, and the place in the log. A page must then be what was recorded last, in
the log or in the database. This covers tables, indexes, the schema and the log with one mechanism; checksums per row would miss a damaged
index or rows that have vanished with a page.

The order of writes is: commit (on disk), record, sync of the records before a checkpoint. After a crash the log may have pages that were
not recorded yet; SQLite's own checksums cover those. Records are appended under a lock of the file, so that a process that opens the
database never looks at it in the middle of another one's checkpoint. Each time a file is opened its records are rewritten without
superseded ones.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from actors.storage.checksum_records import (
    HEADER,
    MAGIC,
    RECORD,
    Records,
    checksums_of,
    cut_off_later,
    expected_sums,
    last_places,
    last_size,
    sums_of_file,
    valid_records,
    with_checks,
)
from actors.storage.private_folder import sync_path
from actors.storage.write_ahead_log import WriteAheadLog
from ray_pubsub.errors import StoreError
from ray_pubsub.failpoints import reach

__all__ = ["PageChecksums"]

LOCK_PATIENCE = 30.0
PAUSE = 0.01
SHORT = 8_192
"""The number of records below which the file is not rewritten while the database is open."""


class PageChecksums:
    """The checksums of one database. One thread at a time."""

    def __init__(self, database: Path) -> None:
        """Checks the database, before SQLite opens it. Raises StoreError that names the file and the place of the damage. A database
        without checksums (from an earlier release, or whose owner has removed them to accept it as it is) gets them here."""
        self.database, self.path = database, checksums_of(database)
        self.checked = self.path.exists()
        """Whether there were checksums to check the database with."""
        self._log = WriteAheadLog(database)
        self._seen = (0, 0)
        """The salt and number of the last frame that was recorded."""
        if self.checked:
            self._file = self._open()
            with self._locked():
                records = self._read()
                self._check(records)
                if in_log := records["frame"][self._in_log(records)].tolist():
                    self._seen = self._log.salt, max(in_log)
                self._rewrite(self._shortened(records))
        else:
            self._file = self._create()

    def record(self, most: int | None = None) -> int:
        """Records the pages that a commit wrote. `most` is the number of frames that SQLite has accepted, if it has just opened the log.
        Returns the number of recorded frames."""
        with self._locked():
            frames = self._log.frames(*self._seen)
            if most is not None:
                frames = frames[frames["frame"] <= most]
            if len(frames):
                self._append(frames)
                self._seen = int(frames["salt"][-1]), int(frames["frame"][-1])
            return self._seen[1]

    def distrust_log(self) -> None:
        """Must be called after a commit that failed: what it left in the log must not be recorded."""
        self._log.distrust()

    def sync(self) -> None:
        """Syncs the records, before a checkpoint, so that they survive a power failure."""
        reach("checksums.sync")
        os.fsync(self._file)

    def shorten(self) -> None:
        """Drops superseded records if there are many."""
        with self._locked():
            count = (os.fstat(self._file).st_size - HEADER) // RECORD.itemsize
            records = self._read() if count > SHORT else np.empty(0, RECORD)
            if count > SHORT and count > 4 * last_size(records):
                self._rewrite(self._shortened(records))

    def discard(self) -> None:
        """Removes the checksums, because a commit could not be recorded. The database is then accepted without them when it is opened
        next."""
        with suppress(OSError):
            self.path.unlink()

    def close(self) -> None:
        """Closes both files."""
        self._log.close()
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _check(self, records: Records) -> None:
        page_size = self._page_size()
        frames = self._log.frames()
        known = records[self._in_log(records)]
        known = known[last_places(known["frame"])]
        there = (
            frames[np.minimum(known["frame"], len(frames)) - 1] if len(frames) else np.zeros(len(known), frames.dtype)
        )
        same = known["frame"] <= len(frames)
        for field in ("page", "size", "header", "sum"):
            same &= known[field] == there[field]
        for place in known["frame"][~same][:1].tolist():
            damage = f"is damaged at byte {self._log.offset(place, page_size):,} (frame {place})"
            raise StoreError(str(self._log.path), f"{damage}; {self._remedy()}")
        # SQLite decides which of the unrecorded frames count. So a page may be as they say or as it was before.
        new = frames[int(known["frame"][-1]) if len(known) else 0 :]
        size = min([last_size(records), *new["size"][new["size"] > 0].tolist()])
        expected, zero_allowed = expected_sums(records, size)
        skipped = np.zeros(size + 1, np.bool_)
        skipped[known["page"][known["page"] <= size]] = True
        maybe = {(int(frame["page"]), int(frame["sum"])) for frame in new}
        zero = xxh3_64_intdigest(bytes(page_size))
        found = sums_of_file(self.database, page_size, size)
        if not len(found) and not skipped[1:].all():
            raise StoreError(str(self.database), "is empty, although it was not; restore it from a copy")
        found = np.concatenate([found, np.zeros(size - len(found), np.uint64)])
        bad = (found != expected[1:]) & ~skipped[1:] & ~((found == zero) & zero_allowed[1:])
        for page in (np.flatnonzero(bad) + 1).tolist():
            if (page, int(found[page - 1])) not in maybe:
                place = f"is damaged at byte {(page - 1) * page_size:,} (page {page} of {size})"
                raise StoreError(str(self.database), f"{place}; {self._remedy()}")

    def _remedy(self) -> str:
        return (
            f"restore it from a copy together with {self.path.name}. If another program has changed it, and you trust it as it is, remove "
            f"{self.path.name}"
        )

    def _in_log(self, records: Records) -> NDArray[np.bool_]:
        """Returns a mask of the records whose frames are in the current log."""
        found: NDArray[np.bool_] = (records["salt"] == self._log.salt) & (records["frame"] > 0)
        return found

    def _shortened(self, records: Records) -> Records:
        """Returns the last record of each page in the database, and all records of frames in the current log."""
        in_log = self._in_log(records)
        in_database = records[~in_log]
        size = last_size(in_database)
        last = in_database[last_places(in_database["page"])]
        last = last[(last["page"] > 0) & (last["page"] <= size)].copy()
        cut = cut_off_later(in_database, last)
        last["salt"] = last["frame"] = last["header"] = last["size"] = 0
        # The records before the mark are of pages that were cut off and came back.
        mark = np.zeros(1, RECORD)
        mark["size"] = last["page"][cut].min() - 1 if cut.any() else size
        end = np.zeros(1, RECORD)
        end["size"] = size
        return np.concatenate([last[cut], mark, last[~cut], end, records[in_log]])

    def _create(self) -> int:
        """Creates the checksums of a database that has none. The content of its log is recorded with the first commit."""
        with self.database.open("rb") as file:
            page_size = int.from_bytes(file.read(18)[16:], "big")
        page_size = 65_536 if page_size == 1 else page_size
        sums = sums_of_file(self.database, page_size, self.database.stat().st_size // page_size)
        records = np.zeros(len(sums), RECORD)
        records["page"], records["sum"] = np.arange(1, len(sums) + 1), sums
        if len(records):
            records["size"][-1] = len(records)
        return self._write(records, page_size)

    def _rewrite(self, records: Records) -> None:
        file = self._write(records, self._page_size())
        os.close(self._file)
        self._file = file

    def _write(self, records: Records, page_size: int) -> int:
        """Writes all records atomically to a new file. A process that still has the old file open sees that it was replaced."""
        draft = self.path.with_name(self.path.name + ".new")
        file = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            content = MAGIC + page_size.to_bytes(4, "little") + bytes(4) + with_checks(records).tobytes()
            if os.write(file, content) != len(content):
                raise OSError(28, "No space left on device")
            os.fsync(file)
            reach("checksums.rename")
            draft.rename(self.path)
            sync_path(self.path.parent)
        except BaseException:
            os.close(file)
            raise
        return file

    def _append(self, records: Records) -> None:
        reach("checksums.append")
        content = with_checks(records).tobytes()
        size = os.fstat(self._file).st_size
        # An append that was interrupted by a full disk is overwritten.
        if os.pwrite(self._file, content, size - (size - HEADER) % RECORD.itemsize) != len(content):
            raise OSError(28, "No space left on device")

    def _page_size(self) -> int:
        return int.from_bytes(os.pread(self._file, 4, len(MAGIC)), "little")

    def _read(self) -> Records:
        """Returns the valid records. A damaged record is left out; the page that it was for then looks damaged, and is reported."""
        content = os.pread(self._file, os.fstat(self._file).st_size, 0)
        page_size = self._page_size()
        if not content.startswith(MAGIC) or page_size < 512 or page_size & (page_size - 1):
            raise StoreError(str(self.path), f"is damaged at byte 0; {self._remedy()}")
        return valid_records(content)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Locks the current file: another process may have replaced the file that is open here."""
        ends = time.monotonic() + LOCK_PATIENCE
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > ends:
                    raise StoreError(
                        str(self.path), "another process has locked it; does a second server use it?"
                    ) from None
                time.sleep(PAUSE)
                continue
            try:
                current = self.path.stat().st_ino == os.fstat(self._file).st_ino
            except FileNotFoundError:
                current = True  # the checksums were discarded
            if current:
                break
            os.close(self._file)
            self._file = self._open()
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
