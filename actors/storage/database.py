"""The contract between a store and its database: SQLite in a file of this machine, or PostgreSQL.

Both understand the SQL that the stores are written in, with `?` for a value. The differences are hidden here: how transactions begin, how
many rows are written at once, how ids of two kinds fit one column, which errors there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import msgpack
import pyarrow as pa

__all__ = ["DamagedContentError", "Database", "Rows", "Session", "content_of"]


class Rows(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Session(Protocol):
    """A connection, with at most one transaction. For one thread at a time."""

    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statement: str, parameters: Sequence[Any] = ..., /) -> Rows: ...

    def executemany(self, statement: str, rows: Iterable[Sequence[Any]], /) -> object:
        """Runs a statement for each row."""

    def run(self, statements: Iterable[tuple[str, Sequence[Sequence[Any]]]]) -> None:
        """Runs statements, each for all its rows."""

    def load(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        """Inserts many rows, which have a value for each column, in the fastest way."""

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """Returns a condition that the column has one of these values, at most VALUES_IN_A_QUERY, and its parameters."""

    def id_value(self, identity: str | int) -> Any:
        """Converts an id to a parameter. In both databases 1 and '1' are different ids of one column."""

    def begin_write(self) -> None:
        """Begins a transaction. No other process writes to the same store until it ends."""

    def begin_read(self) -> None:
        """Begins a transaction that sees one committed state, that of its first query, and waits for no writer."""

    def commit(self) -> None:
        """Commits. When this returns, what was written survives the loss of the process or of power. If this raises, either nothing was
        written, or the database does not answer and it is not known whether it was."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Database(Protocol):
    """The database of one store, opened for writing."""

    @property
    def name(self) -> str:
        """The store's name in errors, without a password."""

    @property
    def writer(self) -> Session: ...

    @property
    def has_readers(self) -> bool:
        """Whether there can be sessions beside the writer's."""

    def reader(self) -> Session:
        """Returns a further session, which cannot write."""

    def errors(self) -> AbstractContextManager[None]:
        """Raises the database's errors as StoreError or UnavailableError."""

    def committed(self) -> None:
        """Must be called after each commit."""

    def failed(self) -> None:
        """Must be called after each commit that failed."""

    def give_back_space(self) -> None:
        """Returns unused space to the file system, as far as that is the store's task."""

    def doubt(self) -> None:
        """Called when the state in memory may differ from what is stored, and cannot be compared because the database is away. This
        process must not continue with its state."""

    def close(self) -> None:
        """Closes the database. Nothing is lost if it is not called. May be called again."""


class DamagedContentError(Exception):
    """The content of a row cannot be read; the message says which row."""


@contextmanager
def content_of(row: str) -> Iterator[None]:
    """Converts the exceptions of unpacking damaged bytes to DamagedContentError."""
    try:
        yield
    except (
        ValueError,
        TypeError,
        LookupError,
        OSError,
        pa.ArrowException,
        msgpack.exceptions.UnpackException,
    ) as error:
        raise DamagedContentError(f"{row}: {error}") from error
