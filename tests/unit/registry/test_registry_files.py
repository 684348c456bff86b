"""The registry's file: killed processes, full disks, files that are not ours."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.registry.changes import Subscribe
from actors.registry.interval_load import read_intervals
from actors.registry.store.schema import SCHEMA
from actors.registry.store.store import RegistryStore
from actors.storage.checksum_records import checksums_of
from ray_pubsub.errors import StoreError
from ray_pubsub.model.metadata import Metadata
from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn

ROOT = Path(__file__).parents[3]

WRITER = textwrap.dedent(
    """
    import sys
    from itertools import count
    import pyarrow as pa
    import numpy as np
    from actors.registry.columns import TextColumns
    from actors.registry.interval_load import read_intervals
    from actors.registry.changes import Subscribe, Unsubscribe
    from actors.registry.store.store import RegistryStore

    from ray_pubsub.sharding.pivots import UNIVERSAL, PivotColumn

    store = RegistryStore(sys.argv[1], role="registry")
    placed = (np.zeros(5, np.int32), PivotColumn.of([UNIVERSAL] * 5))
    first = store.version
    for group in count(first):
        names = [f"{group}-{place}" for place in range(5)]
        if group % 3 == 0:
            store.commit([Subscribe(name, "desk", f"x = {group}") for name in names])
        elif group % 3 == 1:
            store.commit_texts(TextColumns(names, ["desk"] * 5, [f"x = {group}"] * 5), *placed)
        else:
            table = pa.table({"id": names, "attribute": ["x"] * 5, "low": [group] * 5, "high": [group] * 5})
            store.commit_intervals(read_intervals(table, "desk"), *placed)
        print(store.version, *names, flush=True)
    """
)


def acknowledged_until_killed(path: Path, groups: int) -> list[list[str]]:
    """What a process that writes without end says it has written, until it is killed in the middle of it."""
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(groups)]
    os.kill(child.pid, signal.SIGKILL)
    lines += child.stdout.readlines()  # what it said between the last line read and its end
    child.stdout.close()
    assert child.wait() == -signal.SIGKILL
    return [line.split() for line in lines if line.endswith("\n")]


def test_nothing_acknowledged_is_lost_to_kill_nine(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    written: list[list[str]] = []
    for groups in (7, 20, 40):
        written += acknowledged_until_killed(path, groups)
        with RegistryStore(path) as store:
            assert store._connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            for version, *names in written:
                for name in names:
                    found = store.get(name)
                    assert found.version == int(version)
                    assert found.expression == f"x = {int(version) - 1}"
            # What was written but not acknowledged is there wholly or not at all.
            assert store.counts().subscriptions == 5 * store.version
            assert store.version in (len(written), len(written) + 1)
            written += [[str(store.version)]] * (store.version - len(written))
    assert len(written) >= 67


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    store = RegistryStore(path)
    (page,) = store._connection.execute("PRAGMA page_size").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {300_000 // page}")  # SQLite's error is that of a full disk
    with pytest.raises(StoreError, match="full") as caught:
        for number in range(100):
            store.commit([Subscribe(number, f"desk-{number}", "x = '" + "y" * 10_000 + "'")])
    assert caught.value.path == str(path)
    there = store.counts().subscriptions
    assert 5 < there < 100
    assert store.version == store.counts().version == there
    with pytest.raises(StoreError, match="full"):
        store.commit([Subscribe("large", "desk", "x" * 400_000)])
    store.close()
    with RegistryStore(path) as again:
        assert again.counts().subscriptions == there
        (answer,) = again.commit([Subscribe("next", f"desk-{there}", "x = 1")])
        assert answer.number == there + 1


def test_a_file_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, this is no database. " * 100)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="no database") as caught:
        RegistryStore(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_the_database_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        RegistryStore(path)
    assert path.read_bytes() == before


def test_a_newer_release(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    RegistryStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    checksums_of(path).unlink()
    with pytest.raises(StoreError, match="newer release"):
        RegistryStore(path)


def test_a_file_of_release_0_1_is_migrated(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    shutil.copy(ROOT / "tests" / "unit" / "storage" / "files" / "registry-0.1.sqlite", path)
    with RegistryStore(path, role="registry", create=False) as store:
        found = {id: (store.get(id).subscriber, store.get(id).expression) for id in ("s1", 2, "i1", "i2")}
        assert found == {
            "s1": ("desk-7", "x = 1"),
            2: ("desk-8", "y > 5"),
            "i1": ("desk-7", "z between 1 and 3"),
            "i2": ("desk-7", "z between 2 and 4"),
        }
        assert [(rule.id, rule.level, rule.expression) for rule in store.rules()] == [("r1", "high", "x > 3")]
        repeated, new = store.commit([Subscribe("s1", "desk", "x = 2", key="key-1"), Subscribe("t", "desk", "x = 3")])
        assert (repeated.repeated, new.number, store.epoch) == (True, 5, 2)
        assert store._connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
        identity = store.identity
    with RegistryStore(path) as store:
        assert (store.identity, store.counts().subscriptions) == (identity, 5)
        assert store.metadata(["s1", "i1"]) == [None, None]
        store.commit([Subscribe("s1", "desk-7", "x = 1", metadata=Metadata("1", ("a",)))])
        assert store.tagged("a") == ["s1"]


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with RegistryStore(path) as store:
        store.commit([Subscribe(number, "desk", "x = 1" * 50) for number in range(500)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        RegistryStore(path)


def test_a_block_that_is_damaged_while_the_store_is_open(tmp_path: Path) -> None:
    """Arrow does not check offsets by itself, and would read memory that is not the table's."""
    with RegistryStore(tmp_path / "registry.db") as store:
        table = pa.table({"id": ["a", "b"], "attribute": ["x", "y"], "low": [1, 2], "high": [3, 4]})
        placed = (np.zeros(2, np.int32), PivotColumn.of([UNIVERSAL] * 2))
        store.commit_intervals(read_intervals(table, "desk"), *placed)
        ((rows,),) = store._connection.execute("SELECT rows FROM block_rows").fetchall()
        for place in range(0, len(rows), 3):
            damaged = bytearray(rows)
            damaged[place] ^= 0x7F
            store._connection.execute("UPDATE block_rows SET rows = ?", (bytes(damaged),))
            with suppress(
                StoreError
            ):  # what is not found by a look at the structure is found by checksums when the file is opened
                store.snapshot_for_shard(0)
        store._connection.execute("UPDATE block_rows SET rows = ?", (rows[:-90],))
        with pytest.raises(StoreError, match="is damaged at the rows of block 1"):
            store.get("a")


def test_places_where_there_can_be_no_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="folder exists"):
        RegistryStore(tmp_path / "missing" / "registry.db")
    with pytest.raises(StoreError, match="is a folder"):
        RegistryStore(tmp_path)


def test_a_file_that_may_not_be_written(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    store = RegistryStore(path)
    store._connection.execute("PRAGMA query_only = ON")  # what permissions would do, but for the superuser too
    with pytest.raises(StoreError, match="cannot be written to"):
        store.commit([Subscribe("s", "desk", "x = 1")])
    store.close()


def test_it_is_written_for_good(tmp_path: Path) -> None:
    with RegistryStore(tmp_path / "registry.db") as store:
        assert store._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._connection.execute("PRAGMA synchronous").fetchone() == (2,)
