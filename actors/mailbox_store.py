"""Mailboxes on disk: what happened to them, written in groups, and read back after a restart."""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from actors.delivery_chunk import Chunk
from actors.delivery_log import Merge, Settled
from actors.mailbox_schema import mailbox_file_errors, open_mailbox_file
from actors.publish_window import WindowEntries, pack_entries, unpack_entries
from ray_pubsub.errors import FencedError

__all__ = ["Change", "DeadRow", "MailboxStore", "Stored"]

Change = list[tuple[str, Sequence[Sequence[Any]]]]
"""Statements with the rows to run each for; a change is written wholly or not at all."""


class DeadRow(NamedTuple):
    sequence: int
    attempts: int
    reason: str
    died: float


@dataclass(slots=True)
class Stored:
    """What a store holds: what is live, and what to go on from."""

    next_sequence: int = 1
    names: dict[int, str] = field(default_factory=dict)
    chunks: list[Chunk] = field(default_factory=list)
    attempts: dict[int, int] = field(default_factory=dict)
    dead: list[DeadRow] = field(default_factory=list)
    window: WindowEntries = field(default_factory=list)
    committed: dict[str, int] = field(default_factory=dict)
    """The last batch of each stream."""
    by_offset: list[str] = field(default_factory=list)
    """Subscribers whose mailboxes are read by offset."""


class MailboxStore:
    """`path` None: nothing is kept. Opening takes the next epoch, and with it the file: whoever had it open before is refused
    from then on (FencedError), so that an instance that was given up for dead cannot write beside its successor.

    Changes are queued in the order of what they describe. `commit` writes all that are queued, in one transaction that is on disk when
    it returns; callers that wait for one another's transaction go together in the next. A change that could not be written stays queued.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.epoch = 1
        self.identity = uuid.uuid4().hex
        """Which store this is; another one whenever nothing is kept."""
        self._queue: list[tuple[int, Change]] = []
        self._queue_lock = threading.Lock()
        self._writing = threading.Lock()
        self._last_ticket = 0
        self._written = 0
        self._fenced: FencedError | None = None
        self._published: deque[tuple[int, int]] = deque()
        self._published_keys = 0
        self._next_published = 1
        self._connection: sqlite3.Connection | None = None
        if self.path is not None:
            self._connection = open_mailbox_file(self.path)
            self.epoch = self._fact("epoch")
            self.identity = f"{self._fact('store'):x}"

    @property
    def durable(self) -> bool:
        return self.path is not None

    def check(self) -> None:
        """Raises FencedError if a commit has found that the file is another's by now."""
        if self._fenced is not None:
            raise self._fenced

    @property
    def queued(self) -> int:
        """Changes that are not on disk."""
        return len(self._queue)

    def load(self) -> Stored:
        """What is live. To be asked once, before the first change."""
        if self._connection is None:
            return Stored()
        with mailbox_file_errors(str(self.path)):
            return self._load(self._connection)

    def _load(self, connection: sqlite3.Connection) -> Stored:
        stored = Stored(self._fact("next_sequence"))
        stored.names = dict(connection.execute("select code, name from subscribers"))
        settled: dict[int, list[bytes]] = {}
        for name, sequence in connection.execute("select chunk, sequence from settled order by id"):
            settled.setdefault(name, []).append(sequence)
        for name, body in connection.execute("select first, body from chunks order by first"):
            chunk = Chunk.unpack(body)
            if name in settled:
                sequence = np.frombuffer(b"".join(settled[name]), np.int64)
                chunk.settle(np.flatnonzero(np.isin(chunk.sequence, sequence)))
            if chunk.live_rows:
                stored.chunks.append(chunk)
        stored.attempts = dict(connection.execute("select sequence, attempts from attempts"))
        rows = connection.execute("select sequence, attempts, reason, died from dead order by died, sequence")
        stored.dead = [DeadRow(*row) for row in rows]
        for name, value in connection.execute("select name, value from facts where instr(name, '/')"):
            kind, _, own = name.partition("/")
            if kind == "committed":
                stored.committed[own] = value
            elif kind == "by_offset":
                stored.by_offset.append(own)
        for id, keys, body in connection.execute("select id, keys, body from published order by id"):
            stored.window += unpack_entries(body)
            self._published.append((id, keys))
            self._published_keys += keys
            self._next_published = id + 1
        return stored

    def queue(self, change: Change) -> int:
        """To be written with the next commit. Returns a ticket to commit by."""
        with self._queue_lock:
            self._last_ticket += 1
            if self._connection is not None and change:
                self._queue.append((self._last_ticket, change))
            return self._last_ticket

    def commit(self, ticket: int | None = None) -> None:
        """On return everything queued up to the ticket is on disk, everything queued so far if none is given."""
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
                with mailbox_file_errors(str(self.path)):
                    self._write(self._connection, [change for _, change in group])
            with self._queue_lock:
                del self._queue[: len(group)]
            self._written = last

    def write(self, change: Change) -> None:
        """The change is on disk, or was not made and never will be."""
        ticket = self.queue(change)
        try:
            self.commit(ticket)
        except BaseException:
            with self._writing, self._queue_lock:
                if ticket > self._written:
                    self._queue = [each for each in self._queue if each[0] != ticket]
                    raise
                # Another caller's commit took it along.

    def close(self) -> None:
        """Writes what is queued, unless another has the file by now."""
        if self._connection is None:
            return
        try:
            self.commit()
        except FencedError:
            pass
        finally:
            self._connection.close()

    def _fact(self, name: str) -> int:
        assert self._connection is not None
        value: int = self._connection.execute("select value from facts where name = ?", (name,)).fetchone()[0]
        return value

    def _write(self, connection: sqlite3.Connection, changes: Iterable[Change]) -> None:
        connection.execute("begin immediate")
        try:
            found = self._fact("epoch")
            if found != self.epoch:
                self._fenced = FencedError(str(self.path), self.epoch, found)
                raise self._fenced
            for change in changes:
                for statement, rows in change:
                    connection.executemany(statement, rows)
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise

    # What is written for each thing that happens. Nothing, and no time spent, if nothing is kept.

    def delivered(self, chunk: Chunk | None, window: WindowEntries, window_size: int) -> Change:
        change: Change = []
        if self.durable and chunk is not None:
            change.append(("insert into chunks values (?, ?)", [(chunk.first, chunk.pack())]))
            next_sequence = int(chunk.sequence[-1]) + 1
            change.append(("update facts set value = ? where name = 'next_sequence'", [(next_sequence,)]))
        if self.durable and window and window_size:
            self._published.append((self._next_published, len(window)))
            self._published_keys += len(window)
            self._next_published += 1
            change.append(("insert into published values (?, ?, ?)", [(*self._published[-1], pack_entries(window))]))
            forgotten = []  # rows that the window has left behind: newer ones hold all the keys that it remembers
            while self._published_keys - self._published[0][1] >= window_size:
                id, keys = self._published.popleft()
                self._published_keys -= keys
                forgotten.append((id,))
            change.append(("delete from published where id = ?", forgotten))
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
        """How often these deliveries were tried in vain."""
        return [("insert or replace into attempts values (?, ?)", list(attempts.items()))] if self.durable else []

    def died(self, rows: Iterable[DeadRow]) -> Change:
        rows = list(rows)
        if not self.durable or not rows:
            return []
        return [
            ("insert or replace into dead values (?, ?, ?, ?)", rows),
            ("delete from attempts where sequence = ?", [(row.sequence,) for row in rows]),
        ]

    def revived(self, sequence: Iterable[int]) -> Change:
        rows = [(number,) for number in sequence]
        statements = ("delete from dead where sequence = ?", "delete from attempts where sequence = ?")
        return [(statement, rows) for statement in statements] if self.durable else []

    def named(self, names: Mapping[int, str]) -> Change:
        return [("insert or replace into subscribers values (?, ?)", list(names.items()))] if self.durable else []

    def committed(self, stream: str, batch: int) -> Change:
        return (
            [("insert or replace into facts values (?, ?)", [(f"committed/{stream}", batch)])] if self.durable else []
        )

    def read_by_offset(self, subscriber: str, whether: bool) -> Change:
        if not self.durable:
            return []
        name = f"by_offset/{subscriber}"
        if whether:
            return [("insert or replace into facts values (?, 1)", [(name,)])]
        return [("delete from facts where name = ?", [(name,)])]

    def forgotten(self, code: int) -> Change:
        return [("delete from subscribers where code = ?", [(code,)])] if self.durable else []


def _without_chunks(names: Iterable[int]) -> Change:
    rows = [(name,) for name in names]
    return [
        (statement, rows) for statement in ("delete from chunks where first = ?", "delete from settled where chunk = ?")
    ]
