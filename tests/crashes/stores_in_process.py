"""The two stores of a server in this process, and what a crash at any moment would leave of them on disk."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store import delivery_log
from actors.mailboxes.store.store import MailboxStore
from actors.registry.store import interval_blocks
from actors.registry.store import store as registry_store
from actors.registry.store.store import RegistryStore
from actors.storage import page_checksums, sqlite_file
from actors.storage.data_folder import STORES, DataFolder
from ray_pubsub import failpoints

__all__ = ["NAMES", "Crash", "Faults", "Stores", "small_stores"]

NAMES = {1: "ann", 2: "bob", 3: "eve"}
SETTINGS = MailboxSettings(levels=["low", "high"], delivery_limit=1000, capacity=None, capacity_bytes=None)


MID_TRANSACTION = (*failpoints.OF_SQLITE, "registry.merge")
"""Elsewhere everything in a log is committed, and so synced."""


class Crash(BaseException):
    """The process has ended here."""


@contextmanager
def small_stores() -> Iterator[None]:
    """Logs are copied, blocks cut and chunks merged after a few changes, not after thousands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_file, "CHECKPOINT_AFTER", 25)
        patch.setattr(sqlite_file, "FEWEST_FREE", 4)
        patch.setattr(page_checksums, "SHORT", 60)
        patch.setattr(interval_blocks, "BLOCK_SIZE", 4)
        patch.setattr(registry_store, "FEWEST_DEAD", 2)
        patch.setattr(delivery_log, "SMALL_CHUNKS", 3)
        yield


class Faults:
    """Watches the places that the stores reach. At the one that is chosen it takes a picture of the folder and ends the process, or lets
    the write fail."""

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()
        self.failures = 0
        self.folder = Path()
        self.picture = Path()
        self._place: str | None = None
        self._skipped, self._fails, self._loses_power = 0, False, False
        self._chance = random.Random(0)
        self._synced: dict[str, int] = {}
        """Bytes of each file that a power failure leaves as they are."""

    def arm(
        self, place: str | None, *, skipped: int = 0, fails: bool = False, power: random.Random | None = None
    ) -> None:
        """Acts when this place (None: any place) is reached after it was reached `skipped` times. `power`: the power fails too, so that
        some of what was not synced is lost."""
        self._place, self._skipped, self._fails, self._loses_power = place, skipped, fails, power is not None
        self._armed, self._chance = True, power or self._chance

    def disarm(self) -> None:
        self._armed = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        self._armed = False
        failpoints.watch = self._reach
        try:
            yield
        finally:
            failpoints.watch = None

    def _reach(self, place: str) -> None:
        self.reached[place] += 1
        if place not in MID_TRANSACTION:
            self._note("*-wal")
        if self._armed and self._place in (None, place):
            self._skipped -= 1
            if self._skipped < 0:
                self._armed = False
                if self._fails and place in failpoints.OF_SQLITE:
                    self.failures += 1
                    raise sqlite3.OperationalError("disk I/O error")
                if not self._fails:
                    self._take_picture()
                    raise Crash(place)
        if place in ("checksums.sync", "checksums.rename"):
            self._note("*.sums")

    def _note(self, pattern: str) -> None:
        self._synced.update((path.name, path.stat().st_size) for path in self.folder.glob(pattern))

    def _take_picture(self) -> None:
        shutil.rmtree(self.picture, ignore_errors=True)
        shutil.copytree(self.folder, self.picture)
        for path in self.picture.glob("*-shm"):
            path.unlink()  # it is memory, which ends with the last process
        if self._loses_power:
            for path in [*self.picture.glob("*-wal"), *self.picture.glob("*.sums")]:
                size, synced = path.stat().st_size, self._synced.get(path.name, 0)
                if synced and size > synced:
                    with path.open("rb+") as file:
                        file.truncate(self._chance.randint(synced, size))


class Stores:
    """The stores of one data folder, opened as a server does it."""

    def __init__(self, folder: Path, clock: Any) -> None:
        self.folder = DataFolder(folder, "the server", new=True)
        self._registry: RegistryStore | None = None
        self._store: MailboxStore | None = None
        try:
            self.registry = self._registry = RegistryStore(
                folder / STORES["registry"], role="registry", create=self.folder.may_create("registry")
            )
            self.folder.record("registry", self.registry.identity)
            self._store = MailboxStore(folder / STORES["mailboxes"], create=self.folder.may_create("mailboxes"))
            self.folder.record("mailboxes", self._store.identity)
            self.mailboxes = Mailboxes(self._store, SETTINGS, clock=clock)
        except BaseException:
            self.abandon()
            raise

    def deliver(self, batch: DeliveryBatch) -> None:
        """As a coordinator does it: with the names of the subscribers."""
        assert self.mailboxes.adopt(NAMES) == {code: code for code in NAMES}
        self.mailboxes.deliver(batch)

    def close(self) -> None:
        """As a server that is stopped."""
        self.mailboxes.close()
        self.registry.close()
        self.folder.close()

    def abandon(self) -> None:
        """After a crash: what this does to the old folder does not matter, because everything goes on from the picture."""
        with suppress(BaseException):
            if self._store is not None:
                self._store.close()
        with suppress(BaseException):
            if self._registry is not None:
                self._registry.close()
        self.folder.close()

    @contextmanager
    def full_disk(self) -> Iterator[None]:
        """SQLite finds no room for a further page in either file."""
        connections = [self.registry._connection, self._store._connection]  # type: ignore[union-attr]
        for each in connections:
            assert each is not None
            each.execute(f"PRAGMA max_page_count = {each.execute('PRAGMA page_count').fetchone()[0]}")
        try:
            yield
        finally:
            for each in connections:
                assert each is not None
                each.execute("PRAGMA max_page_count = 1000000")
