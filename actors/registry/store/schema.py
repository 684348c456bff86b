"""The registry's SQLite file: its tables, and how it is opened.

Readers have connections of their own and see the state in which their transaction began; they never wait for the writer.
"""

from __future__ import annotations

import os
import sqlite3

from actors.storage.sqlite_file import SqliteFile, store_errors

__all__ = ["open_writer"]

APPLICATION = 0x72707362
"""SQLite's application id "rpsb", which identifies the file as a registry's."""
SCHEMA = 4

TABLES = """
-- The lineage, which says which store this is: numbers and versions of another one mean nothing here.
CREATE TABLE identity (value TEXT NOT NULL);
INSERT INTO identity VALUES (lower(hex(randomblob(16))));

CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- One row per committed group, and the number that the next subscription will get. The last row is never deleted.
CREATE TABLE commits (version INTEGER PRIMARY KEY, next_number INTEGER NOT NULL);
INSERT INTO commits VALUES (0, 1);

-- Codes and numbers are never reused.
CREATE TABLE subscribers (code INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE routes (code INTEGER PRIMARY KEY, route BLOB NOT NULL UNIQUE);

-- An id has no declared type, so that 1 and '1' differ. `part`: which part of its pivot it is in (placement.py).
CREATE TABLE subscriptions (
    number INTEGER PRIMARY KEY, id NOT NULL UNIQUE, subscriber INTEGER NOT NULL, shard INTEGER NOT NULL, route INTEGER NOT NULL,
    part INTEGER NOT NULL, version INTEGER NOT NULL, expression TEXT NOT NULL
);
CREATE INDEX subscriptions_by_subscriber ON subscriptions (subscriber);

-- Subscriptions given as intervals, thousands in one row, in Arrow's format (interval_blocks.py). Their shards
-- change, so they are in a column of their own.
CREATE TABLE blocks (
    block INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL, version INTEGER NOT NULL,
    subscriptions BLOB NOT NULL, shards BLOB NOT NULL
);
CREATE TABLE block_rows (block INTEGER PRIMARY KEY, rows BLOB NOT NULL);
-- The removed ones among them: a block is not rewritten for each.
CREATE TABLE dead (number INTEGER PRIMARY KEY);

-- Subscriptions that left a shard: moved to `target`, or removed if it is null. Added ones need no row: they have higher numbers than those
-- that the shard knows.
CREATE TABLE changes (version INTEGER NOT NULL, source INTEGER NOT NULL, target INTEGER, count INTEGER NOT NULL, numbers BLOB NOT NULL);
CREATE INDEX changes_by_version ON changes (version);

-- What a subscription carries: JSON, and a JSON list of tags. Most carry nothing.
CREATE TABLE metadata (number INTEGER PRIMARY KEY, data TEXT, tags TEXT NOT NULL);
CREATE TABLE tags (tag TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (tag, number)) WITHOUT ROWID;

CREATE TABLE rules (id PRIMARY KEY NOT NULL, level TEXT NOT NULL, expression TEXT NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;
-- `place` is the number of the shard or coordinator.
CREATE TABLE epochs (role TEXT NOT NULL, place INTEGER NOT NULL, epoch INTEGER NOT NULL, PRIMARY KEY (role, place)) WITHOUT ROWID;
-- `rank` is the order of arrival: the oldest are deleted.
CREATE TABLE idempotency_keys (rank INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, answer BLOB NOT NULL);
"""

MIGRATIONS = {
    1: """
    ALTER TABLE subscriptions DROP COLUMN hint;
    ALTER TABLE subscriptions RENAME COLUMN text TO expression;
    ALTER TABLE requests RENAME TO idempotency_keys;
    ALTER TABLE idempotency_keys RENAME COLUMN request TO key;
    CREATE TABLE identity (value TEXT NOT NULL);
    INSERT INTO identity VALUES (lower(hex(randomblob(16))));
    """,
    # The earlier commits are deleted, so that shards load everything and not the changes.
    2: """
    DROP TABLE changes;
    CREATE TABLE changes (version INTEGER NOT NULL, source INTEGER NOT NULL, target INTEGER, count INTEGER NOT NULL, numbers BLOB NOT NULL);
    CREATE INDEX changes_by_version ON changes (version);
    DELETE FROM commits WHERE version < (SELECT max(version) FROM commits);
    """,
    3: """
    CREATE TABLE metadata (number INTEGER PRIMARY KEY, data TEXT, tags TEXT NOT NULL);
    CREATE TABLE tags (tag TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (tag, number)) WITHOUT ROWID;
    """,
}
"""For each version of the schema, the statements that migrate it to the next."""


def open_writer(path: str | os.PathLike[str] | None, create: bool = True) -> SqliteFile:
    """Opens the file with the connection that writes. Creates the tables in a new file if `create` allows it, and migrates those of an
    older release. Raises StoreError."""
    file = SqliteFile(path, APPLICATION, SCHEMA, create)
    try:
        with store_errors(file.name):
            file.writer.execute("PRAGMA foreign_keys = OFF")
            file.writer.execute("PRAGMA temp_store = MEMORY")
            file.writer.execute("PRAGMA cache_size = -65536")
            _make_tables(file.writer)
        file.committed()
    except BaseException:
        file.close()
        raise
    return file


def _make_tables(connection: sqlite3.Connection) -> None:
    """Creates or migrates the tables."""
    connection.execute("BEGIN IMMEDIATE")  # two processes may start at once
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        scripts = [TABLES] if found == 0 else [MIGRATIONS[schema] for schema in range(found, SCHEMA)]
        for script in scripts:
            for statement in script.split(";"):
                connection.execute(statement)
        if scripts:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
