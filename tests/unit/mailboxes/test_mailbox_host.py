"""Mailboxes in an actor's process: they open in the background, say what keeps them from it, and come back by themselves."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.mailboxes.delivery_batch import DeliveryBatch
from actors.mailboxes.host import FORWARDED, MailboxHost
from actors.mailboxes.store import store
from actors.mailboxes.store.schema import open_mailbox_file
from actors.server_settings import ServerSettings
from actors.storage import data_folder, opening
from actors.storage.data_folder import DataFolder
from ray_pubsub.errors import StoreError

OWNER = "server (cluster)"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "RETRY_EVERY", 0.01)
    monkeypatch.setattr(data_folder, "LOCK_PATIENCE", 0.1)


def prepare(folder: Path) -> None:
    """As the registry does it."""
    with DataFolder(folder, OWNER, new=True) as claimed:
        claimed.record("registry", "identity")


def batch() -> DeliveryBatch:
    row = np.zeros(1, np.int64)
    return DeliveryBatch(row, ["s1"], np.ones(1, np.int64), row, ["e1"], None, None, "key")


def until_open(host: MailboxHost) -> None:
    thread = host._opening._thread
    thread.join(60)
    assert not thread.is_alive()


def test_on_a_full_disk_calls_say_so_until_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The constructor raised, and Ray does not start such an actor again."""
    prepare(tmp_path)
    full = threading.Event()
    full.set()

    def open_if_there_is_room(path: Path, create: bool) -> Any:
        if full.is_set():
            raise StoreError(str(path), "the disk is full")
        return open_mailbox_file(path, create)

    monkeypatch.setattr(store, "open_mailbox_file", open_if_there_is_room)
    host = MailboxHost(ServerSettings(), str(tmp_path), OWNER)
    for call in (lambda: host.deliver(batch(), {1: "ann"}), lambda: host.poll("ann"), host.mailbox_health):
        with pytest.raises(StoreError, match="the disk is full"):
            call()
    full.clear()
    until_open(host)
    assert host.deliver(batch(), {1: "ann"}).delivered == 1
    host.close_mailboxes()


def test_what_cannot_open_can_be_closed(tmp_path: Path) -> None:
    host = MailboxHost(ServerSettings(), str(tmp_path / "nowhere"), OWNER)
    with pytest.raises(StoreError, match=r"has no manifest\.json"):
        host.mailbox_health()
    host.close_mailboxes()
    assert not (tmp_path / "nowhere").exists()


def test_mailboxes_that_are_listed_are_never_created_again(tmp_path: Path) -> None:
    prepare(tmp_path)
    host = MailboxHost(ServerSettings(), str(tmp_path), OWNER)
    host.mailbox_health()
    host.close_mailboxes()
    for file in tmp_path.glob("mailboxes.sqlite*"):
        file.unlink()
    host = MailboxHost(ServerSettings(), str(tmp_path), OWNER)
    with pytest.raises(StoreError, match="is missing"):
        host.mailbox_health()
    host.close_mailboxes()


def test_its_process_holds_the_folder(tmp_path: Path) -> None:
    prepare(tmp_path)
    host = MailboxHost(ServerSettings(), str(tmp_path), OWNER)
    host.mailbox_health()
    with pytest.raises(StoreError, match="in use by the server"):
        DataFolder(tmp_path, "another", new=True)
    host.close_mailboxes()
    DataFolder(tmp_path, "another", new=True).close()


def test_what_is_forwarded_is_there() -> None:
    host = MailboxHost(ServerSettings(), None)
    assert host.deliver(batch(), {1: "ann"}).delivered == 1
    found = host.poll("ann")
    assert host.ack("ann", found).accepted == 1  # type: ignore[attr-defined]
    assert host.mailbox_summary(0).acked == 1  # type: ignore[attr-defined]
    assert all(callable(getattr(host, name)) for name in FORWARDED)
