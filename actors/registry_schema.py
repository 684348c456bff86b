"""The registry's SQLite file: its tables, how it is opened, and what is said when that fails.

A change is on disk when its transaction has ended (write-ahead log, synchronous FULL). Readers have connections of their own and see the
state as it was when their transaction began; they never wait for the writer.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.sqlite_file import check_ours, sync_folder
from ray_pubsub.errors import StoreError

__all__ = ["IN_MEMORY", "open_reader", "open_writer", "store_errors"]

IN_MEMORY = ":memory:"
APPLICATION = 0x72707362
"""SQLite's place for saying whose file it is: "rpsb"."""
SCHEMA = 1
LONGEST_WAIT = 30.0
"""Seconds to wait for another process that writes to the file: an instance that is about to be fenced."""

TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- One row per committed group, and the number that the next subscription will get. The last row is never deleted.
CREATE TABLE commits (version INTEGER PRIMARY KEY, next_number INTEGER NOT NULL);
INSERT INTO commits VALUES (0, 1);

-- Codes and numbers are never given twice.
CREATE TABLE subscribers (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE routes (code INTEGER PRIMARY KEY, route BLOB NOT NULL UNIQUE);

-- An id has no type of its own, so that 1 and '1' differ.
CREATE TABLE subscriptions (
    number INTEGER PRIMARY KEY, id NOT NULL UNIQUE, subscriber INTEGER NOT NULL, shard INTEGER NOT NULL, route INTEGER NOT NULL,
    part INTEGER NOT NULL, version INTEGER NOT NULL, hint TEXT, text TEXT NOT NULL
);
CREATE INDEX subscriptions_by_subscriber ON subscriptions (subscriber);

-- Subscriptions given as intervals, thousands to a row, in Arrow's format (interval_blocks.py). What moves is beside what does not.
CREATE TABLE blocks (
    block INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, version INTEGER NOT NULL,
    subscriptions BLOB NOT NULL, shards BLOB NOT NULL
);
CREATE TABLE block_rows (block INTEGER PRIMARY KEY, rows BLOB NOT NULL);
CREATE TABLE dead (number INTEGER PRIMARY KEY);

-- What left a shard: for another one, or (target null) for good. What is new is found by its number.
CREATE TABLE changes (version INTEGER NOT NULL, number INTEGER NOT NULL, source INTEGER NOT NULL, target INTEGER);
CREATE INDEX changes_by_version ON changes (version);

CREATE TABLE rules (id PRIMARY KEY NOT NULL, level TEXT NOT NULL, expression TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE epochs (role TEXT NOT NULL, place INTEGER NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (role, place)) WITHOUT ROWID;
CREATE TABLE requests (rank INTEGER PRIMARY KEY, request TEXT NOT NULL UNIQUE, answer BLOB NOT NULL);
"""


@contextmanager
def store_errors(path: str) -> Iterator[None]:
    """SQLite's errors as our own, which name the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(path, _reason(error)) from error


def _reason(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith("SQLITE_FULL"):
        return "the disk is full, or the store has reached its largest size; nothing of this change was written"
    if code.startswith("SQLITE_READONLY"):
        return "cannot be written to; check the permissions of the file and its folder"
    if code.startswith("SQLITE_CANTOPEN"):
        return "cannot be opened; check that its folder exists and may be written to"
    if code.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return "is damaged or no database; restore it from a copy, or name another file"
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"another process has been writing to it for {LONGEST_WAIT:g} s; is a second registry running?"
    return f"{error} ({code})" if code else str(error)


def open_writer(path: str | os.PathLike[str] | None, most_bytes: int | None = None) -> sqlite3.Connection:
    """The connection that writes; makes the tables in a new file. Refuses a file that is not a registry's, or of a newer release."""
    name = IN_MEMORY if path is None else os.fspath(path)
    if path is not None and Path(path).is_dir():
        raise StoreError(name, "is a folder; name a file in it")
    with store_errors(name):
        connection = sqlite3.connect(name, timeout=LONGEST_WAIT, isolation_level=None, check_same_thread=False)
        try:
            check_ours(connection, name, APPLICATION, SCHEMA)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -65536")
            if most_bytes is not None:
                (page,) = connection.execute("PRAGMA page_size").fetchone()
                connection.execute(f"PRAGMA max_page_count = {max(1, most_bytes // page)}")
            if _make_tables(connection) and path is not None:
                sync_folder(Path(path).parent)
        except BaseException:
            connection.close()
            raise
    return connection


def open_reader(path: str) -> sqlite3.Connection:
    """One more connection, which cannot write."""
    with store_errors(path):
        connection = sqlite3.connect(path, timeout=LONGEST_WAIT, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only = ON")
    return connection


def _make_tables(connection: sqlite3.Connection) -> bool:
    """Whether the file is new."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may start at once
    try:
        (schema,) = connection.execute("PRAGMA user_version").fetchone()
        if schema == 0:
            for statement in TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
        return bool(schema == 0)
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
