"""A commit whose fsync fails: SQLite takes it back, but its pages stay in the write-ahead log until later commits overwrite them."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from actors.registry.changes import Subscribe
from actors.registry.store.store import RegistryStore
from actors.storage.sqlite_file import connect

FILE = "store.sqlite"


def subscribe(store: RegistryStore, first: int, count: int) -> None:
    store.commit([Subscribe(f"s{number}", "desk", f"x = {number}") for number in range(first, first + count)])


def content(store: RegistryStore) -> list[str | int]:
    return [each.id for each in store.page("desk", limit=10_000).items]


@pytest.fixture
def fail(tmp_path: Path) -> Callable[[RegistryStore, int], None]:
    """Leaves in the log of an open store what a commit of so large a group leaves behind if its fsync fails."""

    def leave_pages(store: RegistryStore, count: int) -> None:
        folder = Path(store.path).parent
        elsewhere = shutil.copytree(folder, tmp_path / "elsewhere")
        (elsewhere / f"{FILE}-shm").unlink()
        log = Path(f"{store.path}-wal")
        before = log.stat().st_size
        with closing(connect(elsewhere / FILE)) as other:  # the same log, with the same salt, goes on there
            other.execute("PRAGMA wal_autocheckpoint = 0")
            other.execute("BEGIN")
            other.executemany("INSERT INTO epochs VALUES (?, 0, 1)", [(f"{number:0200d}",) for number in range(count)])
            other.execute("COMMIT")
            pages = (elsewhere / f"{FILE}-wal").read_bytes()[before:]
        assert pages
        with log.open("ab") as file:
            file.write(pages)
        shutil.rmtree(elsewhere)
        store._database.failed()

    return leave_pages


@pytest.mark.parametrize("left", [1, 400])
@pytest.mark.parametrize("then", [1, 40])
def test_later_commits_are_not_mistaken_for_damage(
    tmp_path: Path, fail: Callable[[RegistryStore, int], None], left: int, then: int
) -> None:
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / FILE
    store = RegistryStore(path)
    subscribe(store, 0, 50)
    fail(store, left)
    for number in range(then):
        subscribe(store, 100 + number, 1)
    expected = content(store)
    killed = shutil.copytree(path.parent, tmp_path / "killed")
    (killed / f"{FILE}-shm").unlink()
    store.close()
    for folder in (killed, path.parent):
        with RegistryStore(folder / FILE, create=False) as again:
            assert content(again) == expected
