"""Bit rot: whatever is damaged in the files of a store, opening it says so and names the place, or nothing has changed."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from actors.mailboxes.mailboxes import Mailboxes
from actors.mailboxes.settings import MailboxSettings
from actors.mailboxes.store.store import MailboxStore
from actors.registry.changes import PutRule, Subscribe, Unsubscribe
from actors.registry.interval_load import read_intervals
from actors.registry.store.store import RegistryStore
from actors.storage import sqlite_file
from actors.storage.checksum_records import checksums_of
from actors.storage.sqlite_file import SqliteFile
from ray_pubsub.errors import StoreError
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn
from tests.unit.mailboxes.delivery_samples import batch_of

FILE = "store.sqlite"
FLIPS = 40
"""In each file of each store."""


def write_registry(folder: Path) -> RegistryStore:
    store = RegistryStore(folder / FILE, role="registry")
    store.commit([Subscribe(f"s{number}", f"desk-{number % 3}", f"x = {number}") for number in range(40)])
    store.commit([PutRule("r", "high", "x > 3"), Unsubscribe("s7", key="key")])
    table = {
        "id": [f"i{n}" for n in range(50)],
        "attribute": ["x"] * 50,
        "low": list(range(50)),
        "high": list(range(50)),
    }
    load = read_intervals(pa.table(table), "desk-1")
    store.commit_intervals(load, np.zeros(50, np.int32), PivotColumn.of([UNIVERSAL] * 50))
    return store


def read_registry(folder: Path) -> Any:
    with RegistryStore(folder / FILE, create=False) as store:
        pages = [store.page(f"desk-{number}", limit=1000).items for number in range(3)]
        snapshot = store.snapshot_for_shard(0)
        rows = [block.table.to_pylist() for block in snapshot.intervals]
        return pages, store.rules(), store.counts(), snapshot.expressions, rows, store.identity


def write_mailboxes(folder: Path) -> MailboxStore:
    store = MailboxStore(folder / FILE)
    mailboxes = Mailboxes(store, MailboxSettings(levels=["low", "high"], delivery_limit=1))
    mailboxes.introduce({1: "one", 2: "two"})
    for number in range(12):
        contents = [{"x": number}, {"text": "y" * 200}]
        keys = [f"k{number}", f"l{number}"]
        mailboxes.deliver(batch_of((0, "a", 1, 0), (1, "b", 1, 1), (1, "c", 2, 0), contents=contents, keys=keys))
    mailboxes.ack("one", mailboxes.poll("one", 5))
    mailboxes.nack("one", mailboxes.poll("one", 2), reason="no")
    mailboxes.flush()
    return store


def read_mailboxes(folder: Path) -> Any:
    store = MailboxStore(folder / FILE)
    try:
        mailboxes = Mailboxes(store, MailboxSettings(levels=["low", "high"], delivery_limit=1))
        found = [
            [
                (each.subscription_id, each.event_id, each.event, each.priority, each.sequence)
                for each in mailboxes.poll(name).deliveries()
            ]
            for name in ("one", "two")
        ]
        letters = [(letter.sequence, letter.reason, letter.event) for letter in mailboxes.dead_letters("one")]
        return found, letters, store.identity
    finally:
        store.close()


STORES: dict[str, tuple[Callable[[Path], Any], Callable[[Path], Any]]] = {
    "registry": (write_registry, read_registry),
    "mailboxes": (write_mailboxes, read_mailboxes),
}


@pytest.mark.parametrize("ended", ["closed", "killed"])
@pytest.mark.parametrize("name", STORES)
def test_a_flipped_bit_is_reported_or_changes_nothing(tmp_path: Path, name: str, ended: str) -> None:
    write, read = STORES[name]
    chance = random.Random(f"{name} {ended}")
    (tmp_path / "written").mkdir()
    store = write(tmp_path / "written")
    if ended == "closed":
        store.close()
    kept = tmp_path / "kept"
    shutil.copytree(tmp_path / "written", kept)  # of a store that was not closed: what a killed process leaves behind
    if ended == "killed":
        store.close()
    (kept / f"{FILE}-shm").unlink(missing_ok=True)
    expected = read(shutil.copytree(kept, tmp_path / "whole"))
    files = sorted(path.name for path in kept.iterdir())
    assert files == [FILE, *([f"{FILE}-wal"] if ended == "killed" else []), f"{FILE}.sums"]
    reported = 0
    for file in files:
        size = (kept / file).stat().st_size
        regions = [*range(0, size, max(1, size // FLIPS))]
        for place in [start + chance.randrange(max(1, min(size // FLIPS, size - start))) for start in regions]:
            damaged = shutil.copytree(kept, tmp_path / "damaged")
            content = bytearray((damaged / file).read_bytes())
            content[place] ^= 1 << chance.randrange(8)
            (damaged / file).write_bytes(content)
            try:
                assert read(damaged) == expected, f"{file} at {place}"
            except StoreError as error:
                assert FILE in error.path
                assert "damaged" in error.reason
                reported += 1
            shutil.rmtree(damaged)
    assert reported > FLIPS


@pytest.mark.parametrize("lost", ["-wal", "half of the log", "half of the database", "last commit"])
def test_what_is_missing_is_reported(tmp_path: Path, lost: str) -> None:
    store = write_registry(tmp_path)
    if "database" in lost:
        store.close()
    copy = shutil.copytree(tmp_path, tmp_path / "copy")
    file = copy / (FILE if "database" in lost else f"{FILE}-wal")
    if lost == "-wal":
        file.unlink()
    else:
        size = file.stat().st_size
        with file.open("r+b") as opened:
            opened.truncate(size - 4120 if lost == "last commit" else size // 2)
    with pytest.raises(StoreError, match="damaged"):
        read_registry(copy)
    store.close()


def test_damage_is_still_reported_when_asked_again(tmp_path: Path) -> None:
    write_registry(tmp_path).close()
    content = bytearray((tmp_path / FILE).read_bytes())
    content[5000] ^= 4
    (tmp_path / FILE).write_bytes(content)
    for _ in range(3):
        with pytest.raises(StoreError, match=r"is damaged at byte 4,096 \(page 2 of \d+\); restore it from a copy"):
            read_registry(tmp_path)
    checksums_of(tmp_path / FILE).unlink()  # accepted as it is: SQLite has its own opinion
    content[5000] ^= 4
    (tmp_path / FILE).write_bytes(content)
    read_registry(tmp_path)
    assert checksums_of(tmp_path / FILE).exists()


@pytest.fixture
def small_logs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_AFTER", 5)
    monkeypatch.setattr("actors.storage.page_checksums.SHORT", 50)
    yield


@pytest.mark.usefixtures("small_logs")
@pytest.mark.parametrize("seed", range(6))
def test_there_is_no_false_alarm(tmp_path: Path, seed: int) -> None:
    """Random use of one file: growing, shrinking, rollbacks, crashes at any step, connections that nobody closed, two writers at once."""
    chance = random.Random(seed)
    path, content = tmp_path / "0" / FILE, dict[int, bytes]()
    path.parent.mkdir()
    file = SqliteFile(path, 77, 1)
    file.writer.executescript(
        "create table t (k integer primary key, v blob, w blob unique); pragma application_id = 77"
    )
    file.writer.execute("pragma user_version = 1")
    file.committed()
    for step in range(150):
        action = chance.choices(
            ("put", "remove", "vacuum", "rollback", "open", "crash", "forget", "second"), (9, 5, 3, 2, 1, 1, 1, 1)
        )[0]
        connection = file.writer
        if action == "put":
            rows = {
                chance.randrange(200): chance.randbytes(chance.choice([10, 500, 9000]))
                for _ in range(chance.randrange(1, 9))
            }
            connection.execute("begin")
            connection.executemany(
                "insert or replace into t values (?, ?, ?)", [(k, v, v + bytes([k])) for k, v in rows.items()]
            )
            connection.execute("commit")
            content |= rows
            if chance.random() < 0.1:  # killed between the commit and the record
                action = "crash"
            else:
                file.committed()
        if action == "remove":
            low = chance.randrange(200)
            connection.execute("delete from t where k between ? and ?", (low, low + 60))
            content = {k: v for k, v in content.items() if not low <= k <= low + 60}
            file.committed()
        if action == "vacuum":
            connection.execute(f"pragma incremental_vacuum({chance.randrange(1, 50)})").fetchall()
            file.committed()
        if action == "rollback":
            connection.execute("pragma cache_size = 3")  # pages of the transaction are in the log before it ends
            connection.execute("begin")
            connection.executemany(
                "insert or replace into t values (?, ?, null)", [(k, bytes(5000)) for k in range(30)]
            )
            connection.execute("rollback")
        if action == "open":
            file.close()
            file = SqliteFile(path, 77, 1, create=False)
        if action == "crash":
            copied = shutil.copytree(path.parent, tmp_path / str(step + 1))
            (copied / f"{FILE}-shm").unlink(missing_ok=True)
            file.close()
            path = copied / FILE
            file = SqliteFile(path, 77, 1, create=False)
        if action == "forget":  # SQLite copies the log into the database by itself
            connection.close()
            file._checksums.close()  # type: ignore[union-attr]
            file = SqliteFile(path, 77, 1, create=False)
        if action == "second":
            other = SqliteFile(path, 77, 1, create=False)
            for each in (other, file, other):
                each.writer.execute("insert or replace into t values (500, ?, null)", (chance.randbytes(3000),))
                each.committed()
            other.writer.execute("delete from t where k = 500")
            other.committed()
            other.close()
        assert dict(file.writer.execute("select k, v from t")) == content
    file.close()


def test_a_full_disk_loses_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be recorded is recorded later; at the end without a record, the file has no checksums and is adopted."""
    path = tmp_path / FILE
    with RegistryStore(path) as store:
        monkeypatch.setattr("os.pwrite", lambda *_: 0)
        store.commit([Subscribe("s1", "desk", "x = 1")])
        monkeypatch.undo()
        store.commit([Subscribe("s2", "desk", "x = 1")])
    with RegistryStore(path) as store:
        assert store.counts().subscriptions == 2
        monkeypatch.setattr("os.pwrite", lambda *_: 0)
        store.commit([Subscribe("s3", "desk", "x = 1")])
        store.close()
        monkeypatch.undo()
    assert not checksums_of(path).exists()
    with RegistryStore(path) as store:
        assert store.counts().subscriptions == 3


def test_readers_with_other_programs_do_no_harm(tmp_path: Path) -> None:
    store = write_registry(tmp_path)
    expected = store.counts()
    copy = shutil.copytree(tmp_path, tmp_path / "copy")
    store.close()
    connection = sqlite3.connect(copy / FILE)  # as the command line tool does: at its end SQLite empties the log
    connection.execute("select count(*) from subscriptions").fetchone()
    connection.close()
    assert not (copy / f"{FILE}-wal").exists()
    with RegistryStore(copy / FILE) as store:
        assert store.counts() == expected


def test_a_commit_reads_what_it_wrote_and_not_what_the_log_had_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that was restarted is as long as before, and behind what is new has what was there."""
    file = SqliteFile(tmp_path / FILE, None, 1)
    file.writer.execute("create table t (x)")
    for rows in (800, 800):  # more than are copied into the database at once, twice
        file.writer.begin_write()
        file.writer.executemany("insert into t values (?)", [(bytes(4000),)] * rows)
        file.writer.commit()
        file.committed()
    file.writer.execute("PRAGMA wal_checkpoint(FULL)").fetchone()
    sizes: list[int] = []
    pread = os.pread

    def counting(descriptor: int, size: int, place: int) -> bytes:
        sizes.append(size)
        return pread(descriptor, size, place)

    monkeypatch.setattr(os, "pread", counting)
    for number in range(5):
        file.writer.begin_write()
        file.writer.execute("insert into t values (?)", (number,))
        file.writer.commit()
        sizes.clear()
        file.committed()
        assert 0 < sum(sizes) < 100_000
    monkeypatch.undo()
    file.close()
    SqliteFile(tmp_path / FILE, None, 1).close()
