"""A connection to PostgreSQL for stores. It connects when a transaction begins, and again after the connection was lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

from actors.storage.postgres.texts import id_text

__all__ = ["PostgresSession"]

Connect = Callable[[], psycopg.Connection[Any]]


class PostgresSession:
    """A `Session`. Its methods raise psycopg.Error."""

    def __init__(self, connect: Connect, lock: str = "", in_doubt: Callable[[], None] | None = None) -> None:
        """`lock` is a statement that makes this transaction the only one that writes. `in_doubt` is called when the database has not
        reported whether it has committed."""
        self._connect, self._lock, self._in_doubt = connect, lock, in_doubt
        self._connection = connect()

    @property
    def in_transaction(self) -> bool:
        return self._connection.info.transaction_status != TransactionStatus.IDLE and not self._connection.closed

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> psycopg.Cursor[Any]:
        return self._connection.execute(_translated(statement), parameters or None, binary=True)

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> None:
        rows = list(rows)
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_translated(statement), rows)

    def run(self, statements: Iterable[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        with self._connection.pipeline():  # one round trip for all statements
            for statement, rows in statements:
                self.executemany(statement, rows)

    def load(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        return f"{column} = ANY(?)", [list(values)]

    def id_value(self, identity: str | int) -> str:
        return id_text(identity)

    def begin_write(self) -> None:
        self._begin(f"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {self._lock}")

    def begin_read(self) -> None:
        self._begin("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def commit(self) -> None:
        try:
            self.execute("COMMIT")
        except psycopg.OperationalError:
            if self._connection.closed and self._in_doubt is not None:
                self._in_doubt()
            raise

    def rollback(self) -> None:
        if not self._connection.closed:
            self.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def _begin(self, statement: str) -> None:
        """Begins a transaction. A connection that was lost while idle is noticed now, and replaced, because nothing has been requested
        of it yet."""
        if not self._connection.closed:
            try:
                self._connection.execute(statement.encode(), prepare=False)
                return
            except psycopg.OperationalError:
                if not self._connection.closed:
                    raise
        self._connection = self._connect()
        self._connection.execute(statement.encode(), prepare=False)


@cache
def _translated(statement: str) -> bytes:
    """Converts a statement to the driver's notation of parameters. In the stores' statements every question mark is a parameter."""
    return statement.replace("%", "%%").replace("?", "%s").encode()
