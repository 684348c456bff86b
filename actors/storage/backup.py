"""Copies a server's data folder while the server runs, and restores such a copy.

A copy is a data folder itself: the stores, their checksums, and the manifest, which is written last, so that a copy without it is not
complete. A server can be started with such a folder, or with a copy of it made by any program.
"""

from __future__ import annotations

import os
import shutil
from contextlib import closing
from pathlib import Path

from actors.storage.data_folder import MANIFEST, STORES, DataFolder, file_errors
from actors.storage.page_checksums import PageChecksums, checksums_of
from actors.storage.sqlite_file import SqliteFile, connect, store_errors, sync_folder
from ray_pubsub.errors import StoreError

__all__ = ["copy_store", "finish_copy", "restore"]

NEW_IDENTITIES = {
    "registry": "UPDATE identity SET value = lower(hex(randomblob(16)))",
    "mailboxes": "UPDATE facts SET value = random() & 4611686018427387903 WHERE name = 'store'",
}


def copy_store(source: str, folder: Path) -> None:
    """Copies the database of a store into a folder, by SQLite's backup: the copy is of one committed state, and writers do not wait.
    Raises StoreError, also if the folder has a complete copy already."""
    with file_errors(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (folder / MANIFEST).exists():
            raise StoreError(str(folder), "has a copy already, or a server's data; name another folder")
        target = folder / Path(source).name
        draft = target.with_name(target.name + ".new")
        for old in (draft, target, checksums_of(target)):
            old.unlink(missing_ok=True)
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        with store_errors(str(target)), closing(connect(source)) as reader, closing(connect(draft)) as copy:
            reader.backup(copy)
        _sync(draft)
        draft.rename(target)
        PageChecksums(target).close()


def finish_copy(data_dir: Path, folder: Path) -> None:
    """Writes the manifest, after all stores were copied. Raises StoreError."""
    with file_errors(folder):
        draft = folder / f"{MANIFEST}.new"
        shutil.copyfile(data_dir / MANIFEST, draft)
        draft.chmod(0o600)
        _sync(draft)
        draft.rename(folder / MANIFEST)
        sync_folder(folder)


def restore(copy: Path, data_dir: Path) -> None:
    """Makes a data folder from a copy, completely or not at all. The stores get new identities, because what others know of the state
    after the copy (the offset of a stream, for example) does not apply to them. Raises StoreError if the copy is not complete or is
    damaged, or if there is data in the folder already."""
    with file_errors(data_dir):
        if not (copy / MANIFEST).exists():
            raise StoreError(str(copy), f"has no {MANIFEST}, so it is no complete copy of a server's data")
        if data_dir.exists() and any(data_dir.iterdir()):
            raise StoreError(str(data_dir), "is not empty; a copy is put back into a new or an empty folder only")
        draft = data_dir.with_name(data_dir.name + ".restoring")
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(mode=0o700, parents=True)
        shutil.copyfile(copy / MANIFEST, draft / MANIFEST)
        with DataFolder(draft, "restore", new=False) as folder:
            stores = folder.stores()
        for store in stores:
            for source in copy.glob(
                f"{STORES[store]}*"
            ):  # with its checksums; in a folder that was copied while it ran, with its log
                shutil.copyfile(source, draft / source.name)
            _renew(store, draft / STORES[store], copy)
        (draft / MANIFEST).unlink()  # without it, the stores are listed under their new identities when they are opened
        (draft / "server.lock").unlink()
        sync_folder(draft)
        draft.rename(data_dir)
        sync_folder(data_dir.parent)


def _renew(store: str, path: Path, copy: Path) -> None:
    """Checks a copied store and gives it a new identity."""
    if not path.exists():
        raise StoreError(str(copy / path.name), f"is missing, although {MANIFEST} lists it")
    try:
        file = SqliteFile(path, None, 0, create=False)
        try:
            with store_errors(str(path)):
                file.writer.execute(NEW_IDENTITIES[store])
            file.committed()
        finally:
            file.close()
    except StoreError as error:
        raise StoreError(str(copy / path.name), error.reason) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
