"""The mailboxes' SQLite file: its tables, and how it is opened.

    chunks      a row for the deliveries of a batch, all mailboxes together, in columns (`delivery_chunk`)
    settled     a row for what was settled of a chunk in one go: acknowledging appends, it does not rewrite
    attempts    deliveries that failed before
    dead        dead letters; the delivery itself is in its chunk
    published   the publish keys of a batch (`publish_window`)
    subscribers names
    facts       the epoch, the next sequence number, which store this is; the last batch of a stream (committed/name) and which
                mailboxes are read by offset (by_offset/name)

A chunk goes when all of it is settled. Rows for each delivery would be simpler and cost 100,000 inserts where this costs one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.sqlite_file import check_ours, sync_folder
from ray_pubsub.errors import StoreError

__all__ = ["mailbox_file_errors", "open_mailbox_file"]

APPLICATION = 0x72706D62
"""SQLite's place for saying whose file it is: "rpmb"."""
VERSION = 1
BUSY_SECONDS = 30.0
"""To wait for another process that writes: an instance that is about to be fenced."""

TABLES = """
create table if not exists facts (name text primary key, value integer not null) without rowid;
create table if not exists chunks (first integer primary key, body blob not null);
create table if not exists settled (id integer primary key, chunk integer not null, sequence blob not null);
create index if not exists settled_by_chunk on settled (chunk);
create table if not exists attempts (sequence integer primary key, attempts integer not null);
create table if not exists dead (sequence integer primary key, attempts integer not null, reason text not null, died real not null);
create table if not exists published (id integer primary key, keys integer not null, body blob not null);
create table if not exists subscribers (code integer primary key, name text not null);
insert or ignore into facts values ('epoch', 0), ('next_sequence', 1), ('store', random() & 4611686018427387903);
update facts set value = value + 1 where name = 'epoch';
"""


@contextmanager
def mailbox_file_errors(path: str) -> Iterator[None]:
    """SQLite's errors as our own, which name the file."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(path, str(error)) from error


def open_mailbox_file(path: Path) -> sqlite3.Connection:
    """Takes the next epoch. Refuses a file that is not of mailboxes, or of a newer release, before anything in it is changed."""
    name = str(path)
    if path.is_dir():
        raise StoreError(name, "is a folder; name a file in it")
    with mailbox_file_errors(name):
        is_new = not path.exists()
        connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            check_ours(connection, name, APPLICATION, VERSION)
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = full")  # a commit is on disk when it returns
            marks = f"pragma application_id = {APPLICATION}; pragma user_version = {VERSION};"
            connection.executescript(f"begin immediate; {TABLES} {marks} commit")
            if is_new:
                sync_folder(path.parent)
        except BaseException:
            connection.close()
            raise
    return connection
