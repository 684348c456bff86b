"""Copies of a data folder, made while its stores are written to, and put back by us or by copying files."""

from __future__ import annotations

import errno
import json
import random
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.mailboxes.host import MailboxHost
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.storage import backup, page_checksums, sqlite_file
from actors.storage.backup import restore
from actors.storage.checksum_records import checksums_of
from actors.storage.data_folder import DataFolder
from actors.storage.sqlite_file import SqliteSession, connect
from ray_pubsub import failpoints
from ray_pubsub.errors import SettingError, StoreError
from tests.unit.mailboxes.delivery_samples import batch_of
from tests.unit.registry.test_opening import GIVEN, Alone


class Stores:
    """A registry and mailboxes, as the processes of a server have them."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry(Alone(), str(folder), GIVEN)
        self.registry.opened()
        self.host = MailboxHost(ServerSettings(), str(folder), Alone().owner())

    def fill(self) -> None:
        for number in range(20):
            self.registry.subscribe("desk", f"x = {number}", f"s{number}")
        self.host.deliver(batch_of((0, "s1", 1, 0), (0, "s2", 1, 1), contents=[{"x": 1}]), {1: "desk"})

    def backup(self, folder: Path) -> None:
        self.host.backup_mailboxes(str(folder))  # type: ignore[attr-defined]
        self.registry.backup(str(folder))

    def content(self) -> tuple[Any, ...]:
        items = [(each.id, each.expression) for each in self.registry.page("desk", limit=1000).items]
        return items, sorted(self.host.poll("desk", 100).subscription_id.tolist())

    def close(self) -> None:
        self.host.close_mailboxes()
        self.registry.close()


def opened_content(folder: Path) -> tuple[Any, ...]:
    stores = Stores(folder)
    try:
        return stores.content()
    finally:
        stores.close()


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder `copy`, made while subscriptions were added."""
    stores = Stores(tmp_path / "data")
    stores.fill()
    ended = threading.Event()

    def go_on() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            stores.registry.subscribe("others", f"x = {number}", f"other-{number}")

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        stores.backup(tmp_path / "copy")
    finally:
        ended.set()
        thread.join()
    stores.close()
    return tmp_path / "copy"


EXPECTED = ([(f"s{number}", f"x = {number}") for number in range(20)], ["s1", "s2"])


def test_a_copy_is_put_back(copied: Path, tmp_path: Path) -> None:
    assert {stat.S_IMODE(path.stat().st_mode) for path in copied.iterdir()} == {0o600}
    assert stat.S_IMODE(copied.stat().st_mode) == 0o700
    restore(copied, tmp_path / "again")
    assert opened_content(tmp_path / "again") == EXPECTED
    assert not list(tmp_path.glob("*.restoring"))
    identities = []
    for folder in (tmp_path / "data", tmp_path / "again"):
        registry = Registry(Alone(), str(folder), GIVEN)
        identities.append(registry.lineage)
        registry.close()
    assert identities[0] != identities[1]


def test_a_copy_is_put_back_by_copying_its_files(copied: Path, tmp_path: Path) -> None:
    shutil.copytree(copied, tmp_path / "by hand")
    assert opened_content(tmp_path / "by hand") == EXPECTED


def test_the_folder_of_a_server_that_was_stopped_is_a_copy(copied: Path, tmp_path: Path) -> None:
    restore(tmp_path / "data", tmp_path / "again")
    assert opened_content(tmp_path / "again")[1] == ["s1", "s2"]


def test_what_is_no_complete_copy_is_refused(copied: Path, tmp_path: Path) -> None:
    target = tmp_path / "again"
    damaged = shutil.copytree(copied, tmp_path / "damaged")
    content = bytearray((damaged / "registry.sqlite").read_bytes())
    content[-100] ^= 1
    (damaged / "registry.sqlite").write_bytes(content)
    with pytest.raises(StoreError, match=r"damaged/registry\.sqlite: is damaged at byte"):
        restore(damaged, target)
    (damaged / "registry.sqlite").unlink()
    with pytest.raises(StoreError, match=r"registry\.sqlite: is missing, although"):
        restore(damaged, target)
    (damaged / "manifest.json").unlink()
    with pytest.raises(StoreError, match="is no complete copy"):
        restore(damaged, target)
    assert not target.exists()
    restore(copied, target)


def test_nothing_is_overwritten(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not empty"):
        restore(copied, tmp_path / "data")
    stores = Stores(tmp_path / "data")
    with pytest.raises(StoreError, match="has a copy already"):
        stores.backup(copied)
    stores.close()


# ---------------------------------------------------------------------------------------------------------- damaged sources


@pytest.mark.parametrize("page", ["first", "middle", "last"])
def test_a_copy_does_not_certify_bit_rot(copied: Path, tmp_path: Path, page: str) -> None:
    """A page rots while the server runs, which reads it only for the copy."""
    stores, path = Stores(tmp_path / "data"), tmp_path / "data" / "registry.sqlite"
    try:
        size = path.stat().st_size
        place = {"first": 4096 - 20, "middle": size // 8192 * 4096 + 4000, "last": size - 20}[page]
        subprocess.run([sys.executable, "-c", FLIP, str(path), str(place)], check=True)
        with pytest.raises(StoreError, match=rf"registry\.sqlite: is damaged at byte .*\(page {place // 4096 + 1}\)"):
            stores.backup(tmp_path / "second")
        assert not list((tmp_path / "second").glob("registry*"))
        assert not (tmp_path / "second" / "manifest.json").exists()
        subprocess.run([sys.executable, "-c", FLIP, str(path), str(place)], check=True)
        stores.backup(tmp_path / "third")
    finally:
        stores.close()
    assert opened_content(tmp_path / "third")[1] == ["s1", "s2"]


FLIP = """
import sys
with open(sys.argv[1], "rb+", buffering=0) as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(int(sys.argv[2]))
    file.write(bytes([byte ^ 4]))
"""
"""In a process of its own: closing the file here would end SQLite's locks."""


def test_pages_of_any_age_are_those_that_were_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log and in the database, before and after checkpoints, free pages and pages that were cut off, with and without checksums."""
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_AFTER", 30)
    monkeypatch.setattr(sqlite_file, "FEWEST_FREE", 4)
    monkeypatch.setattr(page_checksums, "SHORT", 60)
    stores, path = Stores(tmp_path / "data"), tmp_path / "data" / "registry.sqlite"
    chance = random.Random(1)
    for number in range(12):
        for each in range(chance.randrange(30)):
            stores.registry.subscribe(
                "desk", f"x = {each} or y = '{'z' * chance.randrange(3000)}'", f"s{chance.randrange(40)}"
            )
        if number % 3 == 2:
            stores.registry.unsubscribe_many([f"s{each}" for each in range(40)])
        if number == 8:
            checksums_of(path).unlink()
        stores.backup(tmp_path / f"copy-{number}")
    expected = stores.content()
    stores.close()
    assert opened_content(tmp_path / "copy-11") == expected


def test_a_backup_folder_that_others_could_open_is_theirs_no_more(copied: Path, tmp_path: Path) -> None:
    folder = tmp_path / "prepared"
    folder.mkdir()
    folder.chmod(0o755)
    stores = Stores(tmp_path / "data")
    stores.backup(folder)
    stores.close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# -------------------------------------------------------------------------------------------------------- mounts and crashes


def test_a_copy_is_put_back_into_the_root_of_a_volume(
    copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount point cannot be replaced by renaming, and a file system of its own begins with a folder."""
    volume = tmp_path / "volume"
    (volume / "lost+found").mkdir(parents=True)
    rename = Path.rename

    def refusing(path: Path, target: Path) -> Path:
        if volume in (path, target):
            raise OSError(errno.EBUSY, "Device or resource busy")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refusing)
    restore(copied, volume)
    assert sorted(json.loads((volume / "manifest.json").read_text())["stores"]) == ["mailboxes", "registry"]
    assert opened_content(volume) == EXPECTED
    (volume / "lost+found").rmdir()


class Crash(BaseException):
    """The process has ended here."""


def ends(function: Callable[[], object], place: str, times: int, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Lets the process end when a place is reached for the n-th time; returns whether it was reached so often."""
    reached: list[str] = []

    def watch(name: str) -> None:
        reached.append(name)
        if reached.count(place) == times and name == place:
            raise Crash

    monkeypatch.setattr(failpoints, "watch", watch)
    try:
        function()
    except Crash:
        return True
    finally:
        monkeypatch.setattr(failpoints, "watch", None)
    return False


@pytest.mark.parametrize("place", ["restore.rename", "restore.finish"])
def test_an_interrupted_restore_is_no_server_and_can_be_repeated(
    copied: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, times = tmp_path / "again", 1
    while ends(lambda: restore(copied, target), place, times, monkeypatch):
        with pytest.raises(StoreError, match="was interrupted; restore it again"):
            DataFolder(target, "server", new=True)
        times += 1
        restore(copied, target)
        assert not list(target.glob(".*"))
        assert opened_content(target) == EXPECTED
        shutil.rmtree(target)
    assert times == (6 if place == "restore.rename" else 2)


def test_a_full_disk_is_said_to_be_the_copys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was said of the server's own store, which was well."""
    stores = Stores(tmp_path / "data")
    stores.fill()

    def small(path: Path) -> SqliteSession:
        session = connect(path)
        if path.name.endswith(".new"):
            session.execute("PRAGMA max_page_count = 3")
        return session

    with monkeypatch.context() as patched:
        patched.setattr(backup, "connect", small)
        with pytest.raises(StoreError, match="copy: the disk is full; the copy is not complete"):
            stores.backup(tmp_path / "copy")
    assert list((tmp_path / "copy").iterdir()) == []
    stores.backup(tmp_path / "copy")
    stores.close()


@pytest.mark.parametrize("place", ["backup.rename", "backup.manifest"])
def test_an_interrupted_backup_is_no_copy_and_can_be_repeated(
    copied: Path, tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = Stores(tmp_path / "data")
    second = tmp_path / "second"
    assert ends(lambda: stores.backup(second), place, 1, monkeypatch)
    with pytest.raises(StoreError, match="is no complete copy"):
        restore(second, tmp_path / "again")
    stores.backup(second)
    stores.close()
    restore(second, tmp_path / "again")
    assert opened_content(tmp_path / "again")[1] == EXPECTED[1]


def test_without_a_data_folder_there_is_nothing_to_copy(tmp_path: Path) -> None:
    registry = Registry(Alone(), None, GIVEN)
    with pytest.raises(SettingError, match="started without one"):
        registry.backup(str(tmp_path / "copy"))
    registry.close()
