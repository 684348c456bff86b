"""The mailboxes' SQLite file: its tables, and how it is opened.

    chunks      a row for the deliveries of a batch, all mailboxes together, in columns (`delivery_chunk`)
    settled     a row for the deliveries of a chunk that were settled at once: acknowledging appends, it does not rewrite
    attempts    deliveries that failed before
    dead        dead letters; the delivery itself is in its chunk
    published   the keys of a batch's events; `publications` has the batch's own key (`publish_window`)
    subscribers names
    facts       the epoch, the next sequence number, which store this is; the last batch of a stream (committed/name) and which
                mailboxes are read by offset (by_offset/name)

A chunk is deleted when all of it is settled. A row for each delivery would be simpler, and cost 100,000 inserts where this costs one.
"""

from __future__ import annotations

from pathlib import Path

from actors.storage.sqlite_file import SqliteFile, store_errors

__all__ = ["open_mailbox_file"]

APPLICATION = 0x72706D62
"""SQLite's application id "rpmb", which identifies the file as that of mailboxes."""
VERSION = 1

TABLES = """
create table if not exists facts (name text primary key, value integer not null) without rowid;
create table if not exists chunks (first integer primary key, body blob not null);
create table if not exists settled (id integer primary key, chunk integer not null, sequence blob not null);
create index if not exists settled_by_chunk on settled (chunk);
create table if not exists attempts (sequence integer primary key, attempts integer not null);
create table if not exists dead (sequence integer primary key, attempts integer not null, reason text not null, died real not null);
create table if not exists published (id integer primary key, keys integer not null, body blob not null);
create table if not exists publications (id integer primary key, body blob not null);
create table if not exists subscribers (code integer primary key, name text not null);
insert or ignore into facts values ('epoch', 0), ('next_sequence', 1), ('store', random() & 4611686018427387903);
"""


def open_mailbox_file(path: Path, create: bool = True) -> SqliteFile:
    """Opens the file. Refuses a file that is not of mailboxes or is of a newer release, before anything in it is changed, and a new file
    if `create` is False. Raises StoreError."""
    file = SqliteFile(path, APPLICATION, VERSION, create)
    try:
        with store_errors(file.name):
            marks = f"pragma application_id = {APPLICATION}; pragma user_version = {VERSION};"
            file.writer.executescript(f"begin immediate; {TABLES} {marks} commit")
        file.committed()
    except BaseException:
        file.close()
        raise
    return file
