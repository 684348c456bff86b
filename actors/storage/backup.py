"""Copies a server's data folder while the server runs, and restores such a copy.

A copy is a data folder itself: the stores, their checksums, and the manifest, which is written last, so that a copy without it is not
complete. A server can be started with such a folder, or with a copy of it made by any program.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from actors.storage.checksum_records import checksums_of
from actors.storage.data_folder import MANIFEST, OWN_NAMES, RESTORING, STORES, DataFolder, alone_in, file_errors
from actors.storage.page_checksums import PageChecksums
from actors.storage.private_folder import make_private_folder, sync_path
from actors.storage.recorded_pages import RecordedPages
from actors.storage.sqlite_file import SqliteFile, connect, store_errors
from ray_pubsub.errors import StoreError
from ray_pubsub.failpoints import reach

__all__ = ["copy_store", "finish_copy", "restore"]

NEW_IDENTITIES = {
    "registry": "UPDATE identity SET value = lower(hex(randomblob(16))) RETURNING value",
    "mailboxes": "UPDATE facts SET value = random() & 4611686018427387903 WHERE name = 'store' RETURNING printf('%x', value)",
}
ATTEMPTS = 3
"""The number of times that a store is copied before a page that differs counts as damaged: the record of a page that was written twice
meanwhile may be gone."""


def copy_store(source: str, folder: Path) -> None:
    """Copies the database of a store into a folder, by SQLite's backup: the copy is of one committed state, and writers do not wait.
    Raises StoreError, also if the folder has a complete copy already, or if a page is not what was written to it."""
    with file_errors(folder):
        make_private_folder(folder, OWN_NAMES)
        if (folder / MANIFEST).exists():
            raise StoreError(str(folder), "has a copy already, or a server's data; name another folder")
        target = folder / Path(source).name
        draft = target.with_name(target.name + ".new")
        for old in (draft, target, checksums_of(target)):
            old.unlink(missing_ok=True)
        try:
            for attempt in range(1, ATTEMPTS + 1):
                if _copied(Path(source), draft, last=attempt == ATTEMPTS):
                    break
        except StoreError:
            draft.unlink(missing_ok=True)
            raise
        sync_path(draft)
        reach("backup.rename")
        draft.rename(target)
        PageChecksums(target).close()
        sync_path(folder)


def _copied(source: Path, draft: Path, *, last: bool) -> bool:
    """Copies a database to a draft. Returns whether all of its pages are as they were written; raises StoreError if not and this is the
    last attempt."""
    draft.unlink(missing_ok=True)
    os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    pages = RecordedPages(source)
    with store_errors(str(source)), closing(connect(source)) as reader, closing(connect(draft)) as copy:
        reader.begin_read()
        reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()  # from here on it sees one state
        pages.note()
        try:
            reader.backup(copy)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorname.startswith("SQLITE_FULL"):  # only the copy is written
                raise StoreError(str(draft.parent), "the disk is full; the copy is not complete") from error
            raise
        reader.rollback()
        pages.note()
        if not pages.known:
            _check_integrity(source, copy)
    damaged = pages.damaged(draft)
    if damaged is not None and last:
        page, size = damaged
        place = f"is damaged at byte {(page - 1) * size:,} (page {page})"
        raise StoreError(str(source), f"{place}, so it was not copied; restore it from an earlier copy")
    return damaged is None


def _check_integrity(source: Path, copy: sqlite3.Connection) -> None:
    """Checks what can be checked of a database that has no checksums at the moment."""
    (found,) = copy.execute("PRAGMA integrity_check(1)").fetchone()
    if found != "ok":
        raise StoreError(str(source), f"is damaged; restore it from a copy. SQLite says: {found}")


def finish_copy(data_dir: Path, folder: Path) -> None:
    """Writes the manifest, after all stores were copied. Raises StoreError."""
    with file_errors(folder):
        draft = folder / f"{MANIFEST}.new"
        shutil.copyfile(data_dir / MANIFEST, draft)
        draft.chmod(0o600)
        sync_path(draft)
        reach("backup.manifest")
        draft.rename(folder / MANIFEST)
        sync_path(folder)


def restore(copy: Path, data_dir: Path) -> None:
    """Makes a data folder from a copy, completely or not at all. The stores get new identities, because what others know of the state
    after the copy (the offset of a stream, for example) does not apply to them. Raises StoreError if the copy is not complete or is
    damaged, or if there is data in the folder already.

    The files are prepared in a folder inside, because the data folder itself may be the root of a volume, and moved from there one by one.
    As long as the inner folder exists no server starts with them, and restoring again begins from scratch."""
    with file_errors(data_dir):
        if not (copy / MANIFEST).exists():
            raise StoreError(str(copy), f"has no {MANIFEST}, so it is no complete copy of a server's data")
        is_new = not data_dir.exists()
        make_private_folder(data_dir, OWN_NAMES)
        with alone_in(data_dir):
            draft = data_dir / RESTORING
            if draft.exists():
                _clear(data_dir)
            elif any(each.name != "lost+found" for each in data_dir.iterdir()):
                raise StoreError(str(data_dir), "is not empty; a copy is put back into a new or an empty folder only")
            try:
                draft.mkdir(mode=0o700)
                sync_path(data_dir)
                _fill(draft, copy)
                _move(draft, data_dir)
            except Exception:
                _clear(data_dir)
                if is_new:
                    data_dir.rmdir()
                raise


def _fill(draft: Path, copy: Path) -> None:
    """Copies the stores, checks them, gives them new identities, and lists these in a new manifest."""
    shutil.copyfile(copy / MANIFEST, draft / MANIFEST)
    with DataFolder(draft, "restore", new=False) as folder:
        stores = folder.stores()
        (draft / MANIFEST).unlink()
        for store in stores:
            for source in copy.glob(f"{STORES[store]}*"):  # in a folder that was copied while it ran, with its log
                shutil.copyfile(source, draft / source.name)
            identity = _renewed(store, draft / STORES[store], copy)
            if identity is not None:
                folder.record(store, identity)
    (draft / "server.lock").unlink()
    for each in draft.iterdir():
        each.chmod(0o600)
        sync_path(each)


def _move(draft: Path, data_dir: Path) -> None:
    """Moves the files to the data folder, the manifest last, and removes the draft's folder when they are there for good."""
    for each in sorted(draft.iterdir(), key=lambda path: path.name == MANIFEST):
        reach("restore.rename")
        each.rename(data_dir / each.name)
    sync_path(data_dir)
    reach("restore.finish")
    draft.rmdir()
    sync_path(data_dir)


def _clear(data_dir: Path) -> None:
    """Removes what an interrupted restore has left; the folder was empty before. The mark of the interruption goes last."""
    for each in data_dir.iterdir():
        if each.name.startswith(OWN_NAMES) and each.name != RESTORING:
            each.unlink()
    shutil.rmtree(data_dir / RESTORING, ignore_errors=True)


def _renewed(store: str, path: Path, copy: Path) -> str | None:
    """Checks a copied store and gives it a new identity, which is returned, or None if the store's release had none."""
    if not path.exists():
        raise StoreError(str(copy / path.name), f"is missing, although {MANIFEST} lists it")
    try:
        file = SqliteFile(path, None, 0, create=False)
        try:
            with store_errors(str(path)):
                row = file.writer.execute(NEW_IDENTITIES[store]).fetchone()
            file.committed()
        finally:
            file.close()
    except StoreError as error:
        raise StoreError(str(copy / path.name), error.reason) from error
    return None if row is None else str(row[0])
