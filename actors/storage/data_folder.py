"""The folder that holds a server's data: it belongs to one server at a time, and its stores are never replaced by empty ones.

Every process that writes there holds a shared lock of the operating system, which ends with the process; the lock file names the server. A
manifest lists the stores by their identities. A store that is listed is never created again: if its file is missing (the volume is not
mounted, somebody has removed it), opening it raises an error that says so.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

from actors.storage.private_folder import make_private_folder, sync_path, tighten_file
from actors.storage.sqlite_file import file_reason
from ray_pubsub.errors import StoreError
from ray_pubsub.failpoints import reach

__all__ = ["MANIFEST", "OWN_NAMES", "RESTORING", "STORES", "DataFolder", "alone_in", "file_errors"]

LOCK, MANIFEST = "server.lock", "manifest.json"
STORES = {"registry": "registry.sqlite", "mailboxes": "mailboxes.sqlite"}
RESTORING = ".restoring"
"""A folder in a data folder into which a copy is being restored (`backup.py`)."""
OWN_NAMES = (LOCK, RESTORING, MANIFEST.removesuffix(".json"), *STORES.values())
"""What the names of a data folder's files begin with."""
FORMAT = 1
LOCK_PATIENCE = 2.0
PAUSE = 0.02
REMEDY = "mount its volume or restore it from a copy; an empty one is not created in its place"


class DataFolder:
    """A folder that this process has claimed for a server; a context manager that releases it."""

    def __init__(self, path: Path, owner: str, *, new: bool) -> None:
        """`owner` names the server; another server is refused (StoreError) while any process of this one has claimed the folder. With
        `new` the folder may be without data, because this is a server's first start; otherwise it must have a manifest."""
        self.path = path
        if not new and not (path / MANIFEST).exists():
            raise StoreError(
                str(path), f"has no {MANIFEST}, so it is not the folder this server was started with; {REMEDY}"
            )
        with file_errors(path):
            make_private_folder(path, OWN_NAMES)
            if (path / RESTORING).exists():
                reason = "a copy is being restored into it, or that was interrupted; restore it again"
                raise StoreError(str(path), f"{reason}, or remove all that is in it, {RESTORING} last")
            for (
                each
            ) in path.iterdir():  # logs of SQLite, for example, that another program or an earlier release has left
                if each.name.startswith(OWN_NAMES):
                    tighten_file(each)
            self._lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                self._claim(owner)
            except BaseException:
                os.close(self._lock)
                raise

    def __enter__(self) -> DataFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Releases the folder. A second call does nothing."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def may_create(self, store: str) -> bool:
        """Returns whether a store may be created: not if the manifest lists it. Raises StoreError if its file is missing although it
        must exist."""
        listed, path = self.stores(), self.path / STORES[store]
        if store in listed:
            if not path.exists():
                raise StoreError(str(path), f"is missing, although the folder's {MANIFEST} lists it; {REMEDY}")
            return False
        siblings = [name for name in STORES.values() if name != path.name and (self.path / name).exists()]
        missing = not path.exists() or not path.stat().st_size
        # The registry is the first store of a folder; the others are created beside it.
        if missing and siblings and store == "registry":
            raise StoreError(str(path), f"is missing, although {siblings[0]} is there; {REMEDY}")
        if missing and store != "registry" and "registry" not in listed:
            raise StoreError(str(path), f"is missing, and the folder has no registry either; {REMEDY}")
        return True

    def record(self, store: str, identity: str) -> None:
        """Lists a store that was opened. Raises StoreError if another one is listed in its place."""
        with file_errors(self.path), alone_in(self.path):
            listed = self.stores()
            if listed.get(store, identity) != identity:
                reason = (
                    f"is another store than the one in the folder's {MANIFEST}; restore the file that belongs to it"
                )
                raise StoreError(str(self.path / STORES[store]), reason)
            if store not in listed:
                self._write({"format": FORMAT, "stores": {**listed, store: identity}})

    def stores(self) -> dict[str, str]:
        """Returns the stores of the manifest and their identities."""
        path = self.path / MANIFEST
        with file_errors(path):
            try:
                content = json.loads(path.read_text())
                newer, found = content["format"] > FORMAT, dict[str, str](content["stores"])
            except FileNotFoundError:
                return {}
            except (ValueError, KeyError, TypeError):
                raise StoreError(str(path), "is damaged; restore it from a copy") from None
        if newer:
            raise StoreError(str(path), "was written by a newer release; run that release")
        return found

    def _claim(self, owner: str) -> None:
        """Takes the exclusive lock to write the owner's name, or the shared one if the owner is this server."""
        ends = time.monotonic() + LOCK_PATIENCE
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.ftruncate(self._lock, 0)
                os.pwrite(self._lock, owner.encode(), 0)
            with suppress(BlockingIOError):
                fcntl.flock(self._lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                # The name is read under the lock, because another server may have come first between the two locks.
                if os.pread(self._lock, 4096, 0).decode(errors="replace") == owner:
                    return
                fcntl.flock(self._lock, fcntl.LOCK_UN)
            if time.monotonic() > ends:
                other = os.pread(self._lock, 4096, 0).decode(errors="replace")
                reason = f"is in use by the server {other}; stop that one, or choose another folder"
                raise StoreError(str(self.path), reason)
            time.sleep(PAUSE)

    def _write(self, content: object) -> None:
        """Writes the manifest atomically: a crash leaves the old one or the new one."""
        path = self.path / MANIFEST
        draft = path.with_suffix(".new")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        reach("manifest.rename")
        draft.rename(path)
        sync_path(self.path)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Holds a lock while the manifest is changed or a copy is restored, because several processes may do so at once."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raises the operating system's errors as StoreErrors that name the file."""
    try:
        yield
    except OSError as error:
        raise StoreError(str(path), file_reason(error)) from error
