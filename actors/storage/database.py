"""What a store needs of the database it is kept in: SQLite in a file of this machine, or PostgreSQL.

Both understand the SQL that the stores are written in, with `?` for a value. What differs is here: how transactions begin, how many rows
are written at once, how ids of two kinds fit one column, which errors there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import msgpack
import pyarrow as pa

__all__ = ["DamagedContentError", "Database", "Rows", "Session", "content_of"]


class Rows(Protocol):
    """What a statement found."""

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
        """Inserts many rows, which have a value for each column, in the way that is fastest."""

    def among(self, column: str, values: Sequence[Any]) -> tuple[str, Sequence[Any]]:
        """A condition that the column has one of at most VALUES_IN_A_QUERY values, and its parameters."""

    def id_value(self, identity: str | int) -> Any:
        """An id as a parameter. In both databases 1 and '1' are different ids of one column."""

    def begin_write(self) -> None:
        """Begins a transaction. No other process writes to the same store until it ends."""

    def begin_read(self) -> None:
        """Begins a transaction that sees one committed state, that of its first query, and waits for no writer."""

    def commit(self) -> None:
        """What was written survives the loss of the process or the power from now on. If this raises, nothing was written, or the
        database does not answer and whether it was is not known."""

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class Database(Protocol):
    """Where one store is kept, opened for writing."""

    @property
    def name(self) -> str:
        """Names the store in errors; without a password."""

    @property
    def writer(self) -> Session: ...

    @property
    def has_readers(self) -> bool:
        """Whether there can be sessions beside the writer's."""

    def reader(self) -> Session:
        """A further session, which cannot write."""

    def errors(self) -> AbstractContextManager[None]:
        """Raises the database's errors as StoreError or UnavailableError."""

    def committed(self) -> None:
        """To be called after each commit."""

    def failed(self) -> None:
        """To be called after each commit that failed."""

    def give_back_space(self) -> None:
        """Returns what is not used to the file system, as far as that is the store's task."""

    def doubt(self) -> None:
        """Called when what is in memory may differ from what is stored, and cannot be compared because the database is away. This process
        must not go on as if it knew."""

    def close(self) -> None:
        """Nothing is lost without it. May be called again."""


class DamagedContentError(Exception):
    """What a row holds cannot be read; the message says which."""


@contextmanager
def content_of(row: str) -> Iterator[None]:
    """Raises what unpacking damaged bytes may raise as DamagedContentError."""
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
