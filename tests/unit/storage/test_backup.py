"""Copies of a data folder, made while its stores are written to, and put back by us or by copying files."""

from __future__ import annotations

import shutil
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from actors.mailboxes.host import MailboxHost
from actors.registry.registry import Registry
from actors.server_settings import ServerSettings
from actors.storage.backup import restore
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


def test_without_a_data_folder_there_is_nothing_to_copy(tmp_path: Path) -> None:
    registry = Registry(Alone(), None, GIVEN)
    with pytest.raises(SettingError, match="started without one"):
        registry.backup(str(tmp_path / "copy"))
    registry.close()
