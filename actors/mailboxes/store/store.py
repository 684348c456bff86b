"""Writes the changes of mailboxes to disk in groups, and reads them back after a restart."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from actors.mailboxes.publish_window import PublicationEntry, WindowEntries, pack_events, unpack_events
from actors.mailboxes.store.delivery_chunk import Chunk
from actors.mailboxes.store.delivery_log import Merge, Settled
from actors.mailboxes.store.schema import open_mailbox_file
from actors.mailboxes.store.window_rows import WindowRows
from actors.storage.database import Database, Session, content_of
from ray_pubsub.errors import FencedError
from ray_pubsub.failpoints import reach

__all__ = ["Change", "DeadRow", "MailboxStore", "Stored"]

Change = list[tuple[str, Sequence[Sequence[Any]]]]
"""Statements, each with the rows to run it for. A change is written completely or not at all."""

PUT_ATTEMPTS = "insert into attempts values (?, ?) on conflict (sequence) do update set attempts = excluded.attempts"
PUT_DEAD = """insert into dead values (?, ?, ?, ?) on conflict (sequence) do update
    set attempts = excluded.attempts, reason = excluded.reason, died = excluded.died"""
PUT_NAME = "insert into subscribers values (?, ?) on conflict (code) do update set name = excluded.name"
REMOVE_FACT = "delete from facts where name = ?"


class DeadRow(NamedTuple):
    """A dead letter as it is stored."""

    sequence: int
    attempts: int
    reason: str
    died: float


@dataclass(slots=True)
class Stored:
    """The content of a store: live deliveries, and the state to continue from."""

    next_sequence: int = 1
    names: dict[int, str] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    dead: list[DeadRow] = field(default_factory=list)
    window: WindowEntries = field(default_factory=lambda: WindowEntries([], []))
    committed: dict[str, int] = field(default_factory=dict)
    """The last batch of each stream."""
    by_offset: list[str] = field(default_factory=list)
    """The subscribers whose mailboxes are read by offset."""


class MailboxStore:
    """The mailboxes' store; with `place` None nothing is stored. Opening it takes the next epoch, and with it the store: an instance that
    had it open before is refused from then on (FencedError), so that an instance that was believed dead cannot write beside its
    successor.

    Changes are queued in the order of what they describe. `commit` writes all that are queued, in one transaction that is on disk when it
    returns; callers that wait for one another's transaction are written together in the next. A change that could not be written stays
    queued.
    """

    def __init__(self, place: str | os.PathLike[str] | Database | None = None, *, create: bool = True) -> None:
        """`place` is the path of a SQLite file, or an open database, which the store then owns. Raises StoreError, also if there is no
        file and `create` is False."""
        self.path = Path(place) if isinstance(place, (str, os.PathLike)) else None
        """The path of the file, if the store is one."""
        self.epoch = 1
        self.identity = uuid.uuid4().hex
        """Identifies the store; a new value at every start if nothing is stored."""
        self._queue: list[tuple[int, Change]] = []
        self._queue_lock = threading.Lock()
        self._writing = threading.Lock()
        self._last_ticket = 0
        self._written = 0
        self._fenced: FencedError | None = None
        self._database: Database | None = None
        self._connection: Session | None = None
        if place is not None:
            self._database = open_mailbox_file(self.path, create) if self.path is not None else cast(Database, place)
            self._connection = self._database.writer
            try:
                self._take_epoch(self._database, self._connection)
            except BaseException:
                self._database.close()
                raise

    @property
    def durable(self) -> bool:
        return self._database is not None

    @property
    def name(self) -> str:
        """The store's name in errors."""
        return "mailboxes in memory" if self._database is None else self._database.name

    def check(self) -> None:
        """Raises FencedError if a commit has found that another instance has taken the store over."""
        if self._fenced is not None:
            raise self._fenced

    @property
    def queued(self) -> int:
        """The number of changes that are not on disk."""
        return len(self._queue)

    def load(self, window: int, window_bytes: int) -> Stored:
        """Loads the live content. Must be called once, before the first change. `window` is the number of keys that are remembered, and
        `window_bytes` their size."""
        self._events, self._publications = WindowRows(window, window_bytes), WindowRows(window, window_bytes)
        if self._connection is None:
            return Stored()
        assert self._database is not None
        with self._database.errors():
            return self._load(self._connection)

    def _load(self, connection: Session) -> Stored:
        stored = Stored(self._fact("next_sequence"))
        stored.names = dict(connection.execute("select code, name from subscribers"))
        settled: dict[int, list[bytes]] = {}
        for name, sequence in connection.execute("select chunk, sequence from settled order by id"):
            settled.setdefault(name, []).append(sequence)
        for name, body in connection.execute("select first, body from chunks order by first"):
            with content_of(f"the deliveries from {name} on"):
                chunk = Chunk.unpack(body)
            if name in settled:
                sequence = np.frombuffer(b"".join(settled[name]), np.int64)
                chunk.settle(np.flatnonzero(np.isin(chunk.sequence, sequence)))
            if chunk.live_rows:
                stored.chunks.append(chunk)
        stored.attempts = dict(connection.execute("select sequence, attempts from attempts"))
        rows = connection.execute("select sequence, attempts, reason, died from dead order by died, sequence")
        stored.dead = [DeadRow(*row) for row in rows]
        for name, value in connection.execute("select name, value from facts where name like '%/%'"):
            kind, _, own = name.partition("/")
            if kind == "committed":
                stored.committed[own] = value
            elif kind == "by_offset":
                stored.by_offset.append(own)
        publications, events = stored.window
        for id, keys, body in connection.execute("select id, keys, body from published order by id"):
            with content_of(f"the keys of events {id}"):
                found = unpack_events(body)
            publications += found.publications
            events += found.events
            self._events.next_id = id
            self._events.add(keys, len(body))
        for id, body in connection.execute("select id, body from publications order by id"):
            with content_of(f"the publication {id}"):
                publications.append(PublicationEntry.unpack(body))
            self._publications.next_id = id
            self._publications.add(1, len(body))
        return stored

    def queue(self, change: Change) -> int:
        """Queues a change for the next commit. Returns a ticket to commit by."""
        with self._queue_lock:
            self._last_ticket += 1
            if self._connection is not None and change:
                self._queue.append((self._last_ticket, change))
            return self._last_ticket

    def commit(self, ticket: int | None = None) -> None:
        """Writes everything queued up to the ticket to disk, or everything queued so far if no ticket is given."""
        if self._connection is None:
            return
        with self._queue_lock:
            ticket = self._last_ticket if ticket is None else ticket
        with self._writing:
            self.check()
            if ticket <= self._written:
                return
            with self._queue_lock:
                group, last = list(self._queue), self._last_ticket
            if group:
                assert self._database is not None
                with self._database.errors():
                    self._write(self._connection, [change for _, change in group])
                self._database.committed()
                reach("mailboxes.apply")
            with self._queue_lock:
                del self._queue[: len(group)]
            self._written = last

    def write(self, change: Change) -> None:
        """Writes a change. If this raises, the change was not made and never will be."""
        ticket = self.queue(change)
        try:
            self.commit(ticket)
        except BaseException:
            with self._writing, self._queue_lock:
                if ticket > self._written:
                    self._queue = [each for each in self._queue if each[0] != ticket]
                    raise
                # Another caller's commit has written it.

    def close(self) -> None:
        """Writes what is queued, unless another instance has taken the store over."""
        if self._database is None:
            return
        try:
            self.commit()
        except FencedError:
            pass
        finally:
            self._database.close()

    def _take_epoch(self, database: Database, connection: Session) -> None:
        with database.errors():
            connection.begin_write()
            connection.execute("update facts set value = value + 1 where name = 'epoch'")
            self.epoch, self.identity = self._fact("epoch"), f"{self._fact('store'):x}"
            connection.commit()
        database.committed()

    def _fact(self, name: str) -> int:
        assert self._connection is not None
        value: int = self._connection.execute("select value from facts where name = ?", (name,)).fetchone()[0]
        return value

    def _write(self, connection: Session, changes: Iterable[Change]) -> None:
        connection.begin_write()
        try:
            found = self._fact("epoch")
            if found != self.epoch:
                self._fenced = FencedError(self.name, self.epoch, found)
                raise self._fenced
            connection.run(statement for change in changes for statement in change)
            reach("mailboxes.append")
            reach("mailboxes.fsync")
            connection.commit()
        except BaseException:
            if connection.in_transaction:
                connection.rollback()
            assert self._database is not None
            self._database.failed()
            raise

    # The changes for each kind of occurrence. They are empty, and take no time, if nothing is stored.

    def delivered(self, chunk: Chunk | None, entries: WindowEntries) -> Change:
        change: Change = []
        if not self.durable:
            return change
        if chunk is not None:
            change.append(("insert into chunks values (?, ?)", [(chunk.first, chunk.pack())]))
            next_sequence = int(chunk.sequence[-1]) + 1
            change.append(("update facts set value = ? where name = 'next_sequence'", [(next_sequence,)]))
        for entry in entries.publications:
            body, id = entry.pack(), self._publications.next_id
            change.append(("insert into publications values (?, ?)", [(id, body)]))
            change.append(_left_behind("publications", self._publications.add(1, len(body))))
        if entries.events:
            body, id, keys = pack_events(entries.events), self._events.next_id, len(entries.events)
            change.append(("insert into published values (?, ?, ?)", [(id, keys, body)]))
            change.append(_left_behind("published", self._events.add(keys, len(body))))
        return change

    def settled(self, parts: Iterable[Settled], had_failed: Iterable[int], were_dead: Iterable[int] = ()) -> Change:
        if not self.durable:
            return []
        parts = list(parts)
        rest = [part for part in parts if not part.finished]
        return [
            (
                "insert into settled (chunk, sequence) values (?, ?)",
                [(part.chunk, part.sequence.tobytes()) for part in rest],
            ),
            *_without_chunks([part.chunk for part in parts if part.finished]),
            ("delete from attempts where sequence = ?", [(sequence,) for sequence in had_failed]),
            ("delete from dead where sequence = ?", [(sequence,) for sequence in were_dead]),
        ]

    def merged(self, merges: Iterable[Merge]) -> Change:
        if not self.durable:
            return []
        merges = list(merges)
        return [
            *_without_chunks([first for merge in merges for first in merge.replaced]),
            ("insert into chunks values (?, ?)", [(merge.chunk.first, merge.chunk.pack()) for merge in merges]),
        ]

    def failed(self, attempts: Mapping[int, int]) -> Change:
        """Records the attempts of deliveries that failed."""
        return [(PUT_ATTEMPTS, list(attempts.items()))] if self.durable else []

    def died(self, rows: Iterable[DeadRow]) -> Change:
        rows = list(rows)
        if not self.durable or not rows:
            return []
        return [
            (PUT_DEAD, rows),
            ("delete from attempts where sequence = ?", [(row.sequence,) for row in rows]),
        ]

    def revived(self, sequence: Iterable[int]) -> Change:
        rows = [(number,) for number in sequence]
        statements = ("delete from dead where sequence = ?", "delete from attempts where sequence = ?")
        return [(statement, rows) for statement in statements] if self.durable else []

    def named(self, names: Mapping[int, str]) -> Change:
        return [(PUT_NAME, list(names.items()))] if self.durable else []

    def committed(self, stream: str, batch: int) -> Change:
        return _with_fact(f"committed/{stream}", batch) if self.durable else []

    def read_by_offset(self, subscriber: str, whether: bool) -> Change:
        if not self.durable:
            return []
        name = f"by_offset/{subscriber}"
        return _with_fact(name, 1) if whether else [(REMOVE_FACT, [(name,)])]

    def forgotten(self, codes: Sequence[int]) -> Change:
        rows = [(code,) for code in codes]
        return [("delete from subscribers where code = ?", rows)] if self.durable and rows else []


def _with_fact(name: str, value: int) -> Change:
    return [(REMOVE_FACT, [(name,)]), ("insert into facts values (?, ?)", [(name, value)])]


def _left_behind(table: str, id: int | None) -> tuple[str, Sequence[Sequence[Any]]]:
    return f"delete from {table} where id <= ?", [] if id is None else [(id,)]


def _without_chunks(names: Iterable[int]) -> Change:
    rows = [(name,) for name in names]
    return [
        (statement, rows) for statement in ("delete from chunks where first = ?", "delete from settled where chunk = ?")
    ]
