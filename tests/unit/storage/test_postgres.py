"""PostgreSQL as a store beyond what the suites of the stores ask: URLs and passwords, who may open it, and the loss of the database."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.store.postgres_schema import MAILBOX_TABLES
from actors.registry.changes import Subscribe
from actors.registry.store.postgres_schema import METADATA, REGISTRY_TABLES
from actors.registry.store.store import RegistryStore
from actors.storage.postgres.address import PostgresAddress
from actors.storage.postgres.database import PostgresDatabase
from actors.storage.postgres.texts import LONGEST_ID
from ray_pubsub.errors import SettingError, StoreError, SubscriptionIdError, UnavailableError
from ray_pubsub.model.metadata import Metadata
from tests.stores import OWNER, open_mailbox_store, open_registry_store
from tests.temporary_postgres import TemporaryPostgres
from tests.unit.mailboxes.delivery_samples import one_each

USER = "ray:" + "s3cret"

# ------------------------------------------------------------------------------------------------------------------- URLs


def test_a_password_is_shown_nowhere_and_reaches_the_driver() -> None:
    address = PostgresAddress.of(f"postgresql://{USER}@db:5433/pubsub?sslmode=require&password=s3cret&schema=orders")
    assert "s3cret" not in f"{address} {address!r}"
    assert address.shown == "postgresql://ray@db:5433/pubsub?sslmode=require&schema=orders"
    assert address.url == f"postgresql://{USER}@db:5433/pubsub?sslmode=require&password=s3cret"
    assert pickle.loads(pickle.dumps(address)) == address


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://{USER}@db/x",
        f"postgresql://{USER}@db:port/x",
        f"postgresql://{USER}@db/x?schema=Big",
        f"postgresql://{USER}@db/x?schema=a;drop",
        f"postgresql://{USER}@db/x?s3cret",
        7,
    ],
)
def test_urls_that_cannot_be_used(url: object) -> None:
    with pytest.raises(SettingError) as caught:
        PostgresAddress.of(url)
    assert "s3cret" not in str(caught.value)


# -------------------------------------------------------------------------------------------------------------- who opens


def registry(url: str, owner: str = "one", create: bool = True) -> PostgresDatabase:
    return PostgresDatabase(PostgresAddress.of(url), REGISTRY_TABLES, owner, create=create)


def test_one_server_at_a_time(postgres: TemporaryPostgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.storage.postgres.database.CLAIM_PATIENCE", 0.2)
    url = postgres.url(postgres.new_schema())
    first = registry(url)
    second = registry(url)  # of the same server: epochs decide
    with pytest.raises(StoreError, match="in use by the server one"):
        registry(url, "two")
    first.close()
    with pytest.raises(StoreError, match="in use by the server one"):
        registry(url, "two")
    second.close()
    registry(url, "two").close()


def test_a_store_that_is_missing_is_not_replaced_by_an_empty_one(postgres: TemporaryPostgres) -> None:
    schema = postgres.new_schema()
    url = postgres.url(schema)
    with pytest.raises(StoreError, match=f"{schema}_registry is missing"):
        registry(url, create=False)
    with pytest.raises(StoreError, match=f"{schema}_mailboxes is missing"):
        PostgresDatabase(PostgresAddress.of(url), MAILBOX_TABLES, "one")  # there is no registry
    open_mailbox_store(url).close()
    with postgres.connect() as connection:
        connection.execute(f"DROP SCHEMA {schema}_mailboxes CASCADE".encode())
    with pytest.raises(StoreError, match="not created in its place"):
        open_mailbox_store(url)
    with postgres.connect() as connection:
        connection.execute(f"CREATE SCHEMA {schema}_mailboxes".encode())
        connection.execute(f"DROP SCHEMA {schema}_registry CASCADE".encode())
    with pytest.raises(StoreError, match="not created in its place"):
        registry(url)


def test_a_server_whose_schema_begins_like_anothers_is_no_obstacle(postgres: TemporaryPostgres) -> None:
    schema = postgres.new_schema()
    open_mailbox_store(postgres.url(f"{schema}_eu")).close()
    open_registry_store(postgres.url(schema)).close()


def test_tables_of_a_newer_release_are_refused(postgres: TemporaryPostgres) -> None:
    schema = postgres.new_schema()
    registry(postgres.url(schema)).close()
    with postgres.connect() as connection:
        connection.execute(f"UPDATE {schema}_registry.format SET version = 99".encode())
    with pytest.raises(StoreError, match="newer release"):
        registry(postgres.url(schema))


def test_tables_of_an_older_release_are_migrated(postgres: TemporaryPostgres) -> None:
    url = postgres.url(postgres.new_schema())
    first = replace(REGISTRY_TABLES, version=1, script=REGISTRY_TABLES.script.removesuffix(METADATA))
    PostgresDatabase(PostgresAddress.of(url), first, OWNER).close()
    for _ in range(2):
        with open_registry_store(url) as store:
            store.commit([Subscribe("s", "desk", "x = 1", metadata=Metadata("1", ("a",)))])
            assert store.metadata(["s"]) == [Metadata("1", ("a",))]


def test_a_database_that_does_not_exist_is_named(postgres: TemporaryPostgres) -> None:
    with pytest.raises(StoreError, match="create the database first"):
        registry(f"postgresql://ray@/nowhere?host={postgres.folder}")
    with pytest.raises(StoreError, match="refuses this user"):
        registry(f"postgresql://stranger@/postgres?host={postgres.folder}")


def test_an_id_that_cannot_be_indexed_harms_no_other(postgres: TemporaryPostgres) -> None:
    with open_registry_store(postgres.url(postgres.new_schema())) as store:
        longest = "é" * (LONGEST_ID // 2)
        with pytest.raises(SubscriptionIdError, match="at most"):
            store.commit([Subscribe(longest + "x", "desk", "x = 1")])
        store.commit([Subscribe(longest, "desk", "x = 1")])
        assert store.get(longest).expression == "x = 1"


# ------------------------------------------------------------------------------------------------- loss of the database


@pytest.fixture(scope="module")
def mortal() -> Iterator[TemporaryPostgres]:
    """A server that tests of this file kill."""
    with TemporaryPostgres() as server:
        yield server


def test_the_registry_goes_on_when_the_database_is_back(mortal: TemporaryPostgres) -> None:
    with open_registry_store(mortal.url(mortal.new_schema()), role="registry") as store:
        store.commit([Subscribe("a", "desk", "x = 1", key="k")])
        mortal.kill()
        for call in (lambda: store.commit([Subscribe("b", "desk", "x = 2")]), store.counts):
            with pytest.raises(UnavailableError, match="goes on by itself when the database is back"):
                call()
        mortal.start()
        assert store.counts().subscriptions == 1
        (again,) = store.commit([Subscribe("a", "desk", "x = 1", key="k")])
        assert again.repeated
        assert store.commit([Subscribe("b", "desk", "x = 2")])[0].number == 2


def test_deliveries_that_were_not_written_can_be_repeated(mortal: TemporaryPostgres) -> None:
    url = mortal.url(mortal.new_schema())
    mailboxes = Mailboxes(open_mailbox_store(url))
    mailboxes.deliver(one_each(1, 2, keys=["a", "b"]))
    found = mailboxes.poll(1, 1).deliveries()
    mortal.kill()
    with pytest.raises(UnavailableError):
        mailboxes.deliver(one_each(1, 1, start=5, keys=["c"]))
    with pytest.raises(UnavailableError):
        mailboxes.ack(1, found)
    mortal.start()
    assert (
        mailboxes.deliver(one_each(1, 1, start=5, keys=["c"])).delivered == 1
    )  # and the acknowledgement is written with it
    mailboxes.close()
    again = Mailboxes(open_mailbox_store(url))
    assert [message.subscription_id for message in again.poll(1).deliveries()] == [1, 5]
    assert again.deliver(one_each(1, 1, start=5, keys=["c"])).delivered == 0
    again.close()


@pytest.mark.parametrize("done", [True, False])
def test_an_instance_that_does_not_know_what_was_committed_writes_no_more(
    mortal: TemporaryPostgres, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """The connection is lost during a commit, after or before the database has done it. The successor knows."""
    doubts: list[str] = []
    address = PostgresAddress.of(mortal.url(mortal.new_schema()))

    def opened() -> RegistryStore:
        database = PostgresDatabase(address, REGISTRY_TABLES, "one", in_doubt=lambda: doubts.append("doubt"))
        return RegistryStore(database, role="registry")

    with opened() as store:
        execute = psycopg.Connection.execute

        def interrupted(connection: Any, query: Any, *arguments: Any, **options: Any) -> Any:
            if query != b"COMMIT":
                return execute(connection, query, *arguments, **options)
            if done:
                execute(connection, query)
            mortal.kill()
            return execute(connection, b"SELECT 1")

        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Connection, "execute", interrupted)
            with pytest.raises(UnavailableError):
                store.commit([Subscribe("a", "desk", "x = 1", key="k")])
        assert doubts == ["doubt"]
        mortal.start()
        with pytest.raises(UnavailableError, match="does not know whether its last change was made"):
            store.commit([Subscribe("b", "desk", "x = 2")])
        with opened() as successor:
            assert successor.counts().subscriptions == int(done)
            (answer,) = successor.commit([Subscribe("a", "desk", "x = 1", key="k")])
            assert answer.repeated is done
