"""A store in PostgreSQL: a schema of its own, a session that writes, and a lock by which one server claims it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import psycopg
import psycopg.sql

from actors.storage.postgres.address import PostgresAddress
from actors.storage.postgres.errors import database_errors
from actors.storage.postgres.session import PostgresSession
from actors.storage.postgres.texts import register_texts
from ray_pubsub.errors import StoreError, UnavailableError

__all__ = ["PostgresDatabase", "StoreTables"]

CONNECT_TIMEOUT = 5
OPTIONS = {
    "connect_timeout": CONNECT_TIMEOUT,
    # A peer that is lost silently is given up after about this time.
    "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 15_000,
}  # fmt: skip
LOCK_TIMEOUT = "30s"
"""The longest wait for another process that writes to the store, which is an instance that is about to be fenced."""
FIRST, OTHERS = "registry", ("mailboxes",)
CLAIM_PATIENCE, PAUSE = 2.0, 0.05
CLAIM = 0x72707362  # "rpsb": the first half of the advisory lock's key; the schema's hash is the second
DURABLE = "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"


@dataclass(frozen=True, slots=True)
class StoreTables:
    """The tables of one kind of store."""

    kind: str
    """"registry" or "mailboxes"."""
    version: int
    script: str
    """The statements that create the tables of a new store."""
    migrations: Mapping[int, str] = field(default_factory=dict)
    """For each version of the tables, the statements that migrate them to the next."""


class PostgresDatabase:
    """A `Database` that belongs to one server at a time: while a process of one server has it open, another server is refused. Processes
    of one server may have it open at the same time; the stores' epochs decide which of them may write."""

    has_readers = True

    def __init__(
        self,
        address: PostgresAddress,
        tables: StoreTables,
        owner: str = "",
        *,
        create: bool = True,
        in_doubt: Callable[[], None] | None = None,
    ) -> None:
        """`owner` names the server. `create` allows a new store. `in_doubt` is called when the connection was lost during a commit: it
        is then not known whether the commit was done, and this instance writes no more. Raises StoreError or UnavailableError."""
        self.name = f"{address} ({tables.kind})"
        self._address, self._tables, self._owner = address, tables, owner
        self._schema = f"{address.schema}_{tables.kind}"
        self._create, self._in_doubt, self._doubtful = create, in_doubt, False
        with self.errors():
            self.writer = PostgresSession(self._connect_to_write, "LOCK TABLE format IN EXCLUSIVE MODE", self.doubt)

    def reader(self) -> PostgresSession:
        with self.errors():
            return PostgresSession(self._connect)

    def errors(self) -> AbstractContextManager[None]:
        return database_errors(self.name)

    def committed(self) -> None:
        """Does nothing; PostgreSQL needs no help."""

    def failed(self) -> None:
        """Does nothing: the database checks its own pages."""

    def give_back_space(self) -> None:
        """Does nothing; autovacuum does it."""

    def close(self) -> None:
        self.writer.close()

    def _connect(self) -> psycopg.Connection[Any]:
        connection = psycopg.connect(self._address.url, autocommit=True, **OPTIONS)  # type: ignore[arg-type]
        try:
            register_texts(connection.adapters)
            connection.execute(f"SET search_path = {self._schema}".encode())
            connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}'".encode())
            connection.execute(DURABLE)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_to_write(self) -> psycopg.Connection[Any]:
        if self._doubtful:
            reason = "this instance does not know whether its last change was made; its successor will"
            raise UnavailableError(f"the database {self.name}", reason)
        connection = self._connect()
        try:
            self._claim(connection)
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        self._create = False  # from now on, anything that is missing existed before
        return connection

    def _claim(self, connection: psycopg.Connection[Any]) -> None:
        """Takes an advisory lock that ends with the session: exclusive to become the owner, shared to remain it."""
        key = (CLAIM, self._schema)
        ends = time.monotonic() + CLAIM_PATIENCE
        while True:
            (alone,) = _row(connection, "SELECT pg_try_advisory_lock(%s, hashtext(%s))", key)
            if alone:
                if not _exists(connection, self._schema):
                    self._make_store(connection)
                self._name_owner(connection)
                _row(connection, "SELECT pg_advisory_lock_shared(%s, hashtext(%s))", key)
                _row(connection, "SELECT pg_advisory_unlock(%s, hashtext(%s))", key)
                return
            (shared,) = _row(connection, "SELECT pg_try_advisory_lock_shared(%s, hashtext(%s))", key)
            other = None
            if shared:
                # The name is read under the lock, because another server may have come first between the two locks.
                (other,) = _row(connection, "SELECT obj_description(to_regnamespace(%s)::oid)", (self._schema,))
                if other == self._owner:
                    return
                _row(connection, "SELECT pg_advisory_unlock_shared(%s, hashtext(%s))", key)
            if time.monotonic() > ends:
                reason = (
                    f"is in use by the server {other or 'of another process'}; stop that one, or name another schema"
                )
                raise StoreError(self.name, f"{reason} in the URL: …?schema=name")
            time.sleep(PAUSE)

    def _name_owner(self, connection: psycopg.Connection[Any]) -> None:
        comment = psycopg.sql.SQL("COMMENT ON SCHEMA {} IS {}")
        connection.execute(comment.format(psycopg.sql.Identifier(self._schema), psycopg.sql.Literal(self._owner)))

    def _make_store(self, connection: psycopg.Connection[Any]) -> None:
        """Creates the store. The registry is the first store of a server and lists the others, so that none is created in place of one
        that existed."""
        first, listed = f"{self._address.schema}_{FIRST}", f"{self._address.schema}_{FIRST}.other_stores"
        with connection.transaction():
            if self._tables.kind == FIRST:
                # By their whole names: `orders_eu_registry` belongs to another server than `orders_registry`.
                siblings = (f"{self._address.schema}_{kind}" for kind in OTHERS)
                missing = not self._create or any(_exists(connection, each) for each in siblings)
            else:
                missing = not self._create or not _exists(connection, first)
                missing = missing or _row(
                    connection, f"SELECT count(*) FROM {listed} WHERE kind = '{self._tables.kind}'"
                ) != (0,)
            if missing:
                reason = "is missing, although it was there; restore the database from its backup"
                raise StoreError(
                    self.name, f"the schema {self._schema} {reason}. An empty one is not created in its place"
                )
            for statement in (f"CREATE SCHEMA {self._schema}", "CREATE TABLE format (version integer NOT NULL)"):
                connection.execute(statement.encode())
            connection.execute(self._tables.script.encode())
            connection.execute("INSERT INTO format VALUES (%s)", (self._tables.version,))
            if self._tables.kind == FIRST:
                connection.execute(f"CREATE TABLE {listed} (kind text PRIMARY KEY)".encode())
            else:
                connection.execute(f"INSERT INTO {listed} VALUES (%s)".encode(), (self._tables.kind,))

    def _check_version(self, connection: psycopg.Connection[Any]) -> None:
        """Migrates tables of an older release. Raises StoreError for those of a newer one."""
        if _row(connection, "SELECT version FROM format") == (self._tables.version,):
            return
        with connection.transaction():
            connection.execute("LOCK TABLE format IN EXCLUSIVE MODE")  # another process of this server may do the same
            (written,) = _row(connection, "SELECT version FROM format")
            if written > self._tables.version:
                reason = f"was written by a newer release (format {written}, this one knows {self._tables.version})"
                raise StoreError(self.name, f"{reason}; run that release")
            for version in range(written, self._tables.version):
                connection.execute(self._tables.migrations[version].encode())
            connection.execute("UPDATE format SET version = %s", (self._tables.version,))

    def doubt(self) -> None:
        self._doubtful = True
        if self._in_doubt is not None:
            self._in_doubt()


def _exists(connection: psycopg.Connection[Any], schema: str) -> bool:
    return bool(_row(connection, "SELECT to_regnamespace(%s) IS NOT NULL", (schema,))[0])


def _row(connection: psycopg.Connection[Any], statement: str, parameters: tuple[Any, ...] = ()) -> tuple[Any, ...]:
    found: tuple[Any, ...] | None = connection.execute(statement.encode(), parameters or None).fetchone()
    assert found is not None
    return found
