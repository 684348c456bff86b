"""Stores in PostgreSQL as tests and benchmarks open them."""

from __future__ import annotations

from typing import Any

from actors.mailboxes.store.postgres_schema import MAILBOX_TABLES
from actors.mailboxes.store.store import MailboxStore
from actors.registry.store.postgres_schema import REGISTRY_TABLES
from actors.registry.store.store import RegistryStore
from actors.storage.postgres.address import PostgresAddress
from actors.storage.postgres.database import PostgresDatabase

OWNER = "the tests"


def open_registry_store(url: str, **options: Any) -> RegistryStore:
    return RegistryStore(PostgresDatabase(PostgresAddress.of(url), REGISTRY_TABLES, OWNER), **options)


def open_mailbox_store(url: str) -> MailboxStore:
    """Beside a registry, without which there are no mailboxes."""
    address = PostgresAddress.of(url)
    PostgresDatabase(address, REGISTRY_TABLES, OWNER).close()
    return MailboxStore(PostgresDatabase(address, MAILBOX_TABLES, OWNER))
