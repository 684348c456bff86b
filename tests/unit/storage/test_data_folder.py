"""A server's data folder: claimed by one server, listed in a manifest, readable by its user only."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from actors.registry.changes import Subscribe
from actors.registry.store.store import RegistryStore
from actors.storage import data_folder
from actors.storage.backup import copy_store
from actors.storage.data_folder import STORES, DataFolder
from actors.storage.private_folder import tighten_file
from actors.storage.sqlite_file import SqliteFile, connect
from ray_pubsub.errors import StoreError

HOLDER = """
import sys
from pathlib import Path
from actors.storage.data_folder import DataFolder
folder = DataFolder(Path(sys.argv[1]), sys.argv[2], new=True)
folder.record("registry", "identity")
print("claimed", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_folder, "LOCK_PATIENCE", 0.1)


def refused(path: Path) -> bool:
    try:
        DataFolder(path, "second", new=True).close()
    except StoreError as error:
        return "in use by the server first" in str(error)
    return False


def test_another_server_is_refused_as_long_as_one_process_of_the_first_lives(tmp_path: Path) -> None:
    """Each object here has the lock as a process has it; one of them is a process, and killed."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path), "first"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "claimed\n"
        assert refused(tmp_path)
        mailboxes = DataFolder(tmp_path, "first", new=False)
        os.kill(process.pid, signal.SIGKILL)
    assert refused(tmp_path)
    for _ in range(3):  # the registry is started and dies again and again
        registry = DataFolder(tmp_path, "first", new=False)
        assert refused(tmp_path)
        registry.close()
        assert refused(tmp_path)
    registry = DataFolder(tmp_path, "first", new=False)
    mailboxes.close()
    assert refused(tmp_path)
    registry.close()
    assert not refused(tmp_path)


def test_a_folder_that_was_given_back_is_free(tmp_path: Path) -> None:
    with DataFolder(tmp_path, "first", new=True), DataFolder(tmp_path, "first", new=True):
        pass
    with DataFolder(tmp_path, "second", new=True) as folder:
        folder.close()
        DataFolder(tmp_path, "third", new=True).close()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_only_its_user_can_read_what_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "data"
    before = os.umask(0)
    try:
        with DataFolder(path, "first", new=True) as folder:
            (path / STORES["registry"]).touch(0o666)  # as an earlier release made it
            with RegistryStore(path / STORES["registry"]) as store:
                folder.record("registry", store.identity)
                store.commit([Subscribe("s", "desk", "x = 1")])
                modes = {each.name: mode(each) for each in path.iterdir()}
    finally:
        os.umask(before)
    assert mode(path) == 0o700
    assert {"server.lock", "manifest.json", "registry.sqlite", "registry.sqlite-wal"} <= modes.keys()
    assert set(modes.values()) == {0o600}


def opened(path: Path, name: str = "registry", new: bool = True) -> str:
    """Opens a store as its process does; returns its identity. The same kind of file serves for both stores."""
    with DataFolder(path, "server", new=new) as folder:
        create = folder.may_create(name)
        with RegistryStore(path / STORES[name], create=create) as store:
            folder.record(name, store.identity)
            return store.identity


def test_stores_are_listed_and_found_again(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    mailboxes = opened(tmp_path, "mailboxes", new=False)
    assert (opened(tmp_path), opened(tmp_path, new=False)) == (registry, registry)
    assert opened(tmp_path, "mailboxes", new=False) == mailboxes
    with DataFolder(tmp_path, "server", new=False) as folder:
        assert folder.stores() == {"registry": registry, "mailboxes": mailboxes}


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_is_missing_is_not_created_again(tmp_path: Path, name: str) -> None:
    opened(tmp_path)
    opened(tmp_path, "mailboxes", new=False)
    moved = tmp_path / "elsewhere"
    (tmp_path / STORES[name]).rename(moved)
    for new in (True, False):
        with pytest.raises(StoreError, match=r"is missing, although the folder's manifest\.json lists it"):
            opened(tmp_path, name, new)
    assert not (tmp_path / STORES[name]).exists()
    moved.rename(tmp_path / STORES[name])
    opened(tmp_path, name)


@pytest.mark.parametrize("name", STORES)
def test_a_store_that_was_emptied_is_refused(tmp_path: Path, name: str) -> None:
    opened(tmp_path)
    opened(tmp_path, "mailboxes", new=False)
    (tmp_path / STORES[name]).write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, although it was not"):
        opened(tmp_path, name)
    assert (tmp_path / STORES[name]).read_bytes() == b""


def test_a_store_of_another_folder_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "one")
    opened(tmp_path / "two")
    for file in (STORES["registry"], STORES["registry"] + ".sums"):
        shutil.copy(tmp_path / "two" / file, tmp_path / "one" / file)
    with pytest.raises(StoreError, match="is another store than the one in the folder"):
        opened(tmp_path / "one")


def test_nothing_is_created_where_the_volume_is_away(tmp_path: Path) -> None:
    """A process that restarts finds the folder missing, or the empty folder on which the volume was mounted."""
    path = tmp_path / "data"
    opened(path)
    path.rename(tmp_path / "away")
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        opened(path, new=False)
    assert not path.exists()
    path.mkdir()
    for name in STORES:
        with pytest.raises(StoreError, match=r"has no manifest\.json"):
            opened(path, name, new=False)
    assert list(path.iterdir()) == []
    path.rmdir()
    (tmp_path / "away").rename(path)
    opened(path, new=False)


def test_a_sibling_without_a_registry_is_not_built_upon(tmp_path: Path) -> None:
    (tmp_path / STORES["mailboxes"]).write_bytes(b"something")
    with pytest.raises(StoreError, match=r"is missing, although mailboxes\.sqlite is there"):
        opened(tmp_path)
    assert not (tmp_path / STORES["registry"]).exists()


def test_a_folder_of_the_first_release_has_no_manifest_and_gets_one(tmp_path: Path) -> None:
    for name in STORES.values():
        RegistryStore(tmp_path / name).close()
    registry = opened(tmp_path)
    mailboxes = opened(tmp_path, "mailboxes", new=False)
    with DataFolder(tmp_path, "server", new=False) as folder:
        assert folder.stores() == {"registry": registry, "mailboxes": mailboxes}


def test_a_first_start_that_was_interrupted_can_be_repeated(tmp_path: Path) -> None:
    with DataFolder(tmp_path, "server", new=True) as folder:  # dies before it has listed its store
        RegistryStore(tmp_path / STORES["registry"], create=folder.may_create("registry")).close()
    opened(tmp_path)
    (tmp_path / STORES["mailboxes"]).touch()
    opened(tmp_path, "mailboxes", new=False)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"stores": 5}', b'{"format": 9, "stores": {}}'])
def test_a_manifest_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    opened(tmp_path)
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"manifest\.json"):
        opened(tmp_path)


def test_a_place_where_there_can_be_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be used to keep data in"):
        DataFolder(tmp_path / "file", "server", new=True)


# ------------------------------------------------------------------------------------------------------------- other users


def test_a_folder_that_others_could_open_is_theirs_no_more(tmp_path: Path) -> None:
    opened(tmp_path)
    log = tmp_path / (STORES["registry"] + "-wal")
    log.touch()
    for path, found in ((tmp_path, 0o2775), (log, 0o644), (tmp_path / "manifest.json", 0o666)):
        path.chmod(found)
    with DataFolder(tmp_path, "server", new=False):
        assert (mode(tmp_path), mode(log), mode(tmp_path / "manifest.json")) == (0o2700, 0o600, 0o600)


def test_a_folder_that_serves_other_things_too_keeps_its_rights(tmp_path: Path) -> None:
    """A home, for example. Where others can write, a server's files could be replaced by others."""
    (tmp_path / "letters").touch()
    tmp_path.chmod(0o755)
    opened(tmp_path)
    assert mode(tmp_path) == 0o755
    for writable in (0o777, 0o1777):
        tmp_path.chmod(writable)
        with pytest.raises(StoreError, match="other users can write there; name a folder of your own"):
            opened(tmp_path)
        assert mode(tmp_path) == writable
    opened(tmp_path / "in it")


def test_a_shared_folder_that_is_empty_at_the_moment_is_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(StoreError, match="name a folder of your own"):
        opened(tmp_path)
    assert (mode(tmp_path), list(tmp_path.iterdir())) == (0o1777, [])


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_what_belongs_to_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int) -> None:
    """Also by root, who can do everything with it: the owner still can, too. Root took the rights of others away, and used it."""
    opened(tmp_path)
    tmp_path.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(StoreError, match=f"belongs to another user .uid {tmp_path.stat().st_uid}., who can change it"):
        opened(tmp_path)


def test_a_file_of_another_user_in_the_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As somebody may have left it there who could write in the folder once."""
    opened(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path / "manifest.json", 54321, -1)
        with pytest.raises(StoreError, match=r"manifest\.json: belongs to another user .uid 54321."):
            opened(tmp_path)
    theirs = tmp_path / "theirs"
    theirs.touch(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    with pytest.raises(StoreError, match="belongs to another user"):
        tighten_file(theirs)


# ----------------------------------------------------------------------------------------------------------- power failure


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files and folders that were synced."""
    found: list[Path] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        found.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return found


def test_a_new_folder_outlives_a_power_failure(tmp_path: Path, synced: list[Path]) -> None:
    DataFolder(tmp_path / "a" / "b", "server", new=True).close()
    assert synced[:2] == [tmp_path, tmp_path / "a"]


def test_checksums_that_were_written_again_outlive_a_power_failure(tmp_path: Path, synced: list[Path]) -> None:
    RegistryStore(tmp_path / "registry.sqlite").close()
    del synced[:]
    RegistryStore(tmp_path / "registry.sqlite").close()
    draft = synced.index(tmp_path / (STORES["registry"] + ".sums.new"))
    assert synced[draft + 1] == tmp_path


# ---------------------------------------------------------------------------------------------------------- absent volumes


def test_a_reader_creates_no_file_where_the_volume_is_away(tmp_path: Path) -> None:
    for name in ("registry.sqlite", "with space?#%20.sqlite"):
        with pytest.raises(sqlite3.OperationalError, match="unable to open"):
            connect(tmp_path / name)
    with pytest.raises(StoreError, match="cannot be opened"):
        copy_store(str(tmp_path / "registry.sqlite"), tmp_path / "copy")
    with pytest.raises(StoreError, match="cannot be opened"):
        SqliteFile(tmp_path / "registry.sqlite", None, 0, create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_names_of_files_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a?mode=ro#%20 é.sqlite"
    with RegistryStore(path) as store:
        store.commit([Subscribe("s", "desk", "x = 1")])
    with RegistryStore(path) as store:
        assert store.counts().subscriptions == 1
    assert path.exists()


def test_an_empty_file_is_no_registry_beside_mailboxes(tmp_path: Path) -> None:
    (tmp_path / STORES["mailboxes"]).write_bytes(b"something")
    (tmp_path / STORES["registry"]).touch()
    with pytest.raises(StoreError, match=r"is missing, although mailboxes\.sqlite is there"):
        opened(tmp_path)
