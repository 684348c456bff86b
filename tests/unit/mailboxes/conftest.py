"""The stores of mailboxes, so that one suite runs over SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from actors.mailboxes.store.store import MailboxStore
from tests.stores import open_mailbox_store
from tests.temporary_postgres import TemporaryPostgres

OpenMailboxStore = Callable[[], MailboxStore]


@pytest.fixture(params=["sqlite", "postgresql"])
def same_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenMailboxStore:
    """Opens a store, the same one each time."""
    if request.param == "sqlite":
        return lambda: MailboxStore(tmp_path / "mail.db")
    postgres: TemporaryPostgres = request.getfixturevalue("postgres")
    url = postgres.url(postgres.new_schema())
    opened = ExitStack()
    request.addfinalizer(opened.close)

    def open_store() -> MailboxStore:
        store = open_mailbox_store(url)
        opened.callback(store.close)
        return store

    return open_store
