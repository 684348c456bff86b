"""The registry's file: killed processes, full disks, files that are not ours."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from actors.registry_changes import Answer, Subscribe
from actors.registry_schema import SCHEMA
from actors.registry_store import RegistryStore
from ray_pubsub.errors import StoreError

ROOT = Path(__file__).parents[3]

WRITER = textwrap.dedent(
    """
    import sys
    from itertools import count
    import pyarrow as pa
    from actors.interval_blocks import read_intervals
    from actors.registry_bulk import TextColumns
    from actors.registry_changes import Subscribe, Unsubscribe
    from actors.registry_store import RegistryStore

    store = RegistryStore(sys.argv[1], role="registry")
    first = store.version
    for group in count(first):
        names = [f"{group}-{place}" for place in range(5)]
        if group % 3 == 0:
            store.commit([Subscribe(name, "desk", f"x = {group}") for name in names])
        elif group % 3 == 1:
            store.commit_texts(TextColumns(names, ["desk"] * 5, [f"x = {group}"] * 5))
        else:
            table = pa.table({"id": names, "attribute": ["x"] * 5, "low": [group] * 5, "high": [group] * 5})
            store.commit_intervals(read_intervals(table, "desk"))
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
                    assert found.text == f"x = {int(version) - 1}"
            # What was written but not acknowledged is there wholly or not at all.
            assert store.counts().subscriptions == 5 * store.version
            assert store.version in (len(written), len(written) + 1)
            written += [[str(store.version)]] * (store.version - len(written))
    assert len(written) >= 67


def test_a_full_disk_is_said_and_survived(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    store = RegistryStore(path, most_bytes=300_000)
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
        (answer,) = again.commit([Subscribe("next", f"desk-{there}", "x = 1")]).answers
        assert isinstance(answer, Answer)
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
    with pytest.raises(StoreError, match="newer release"):
        RegistryStore(path)


def test_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.db"
    with RegistryStore(path) as store:
        store.commit([Subscribe(number, "desk", "x = 1" * 50) for number in range(500)])
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        RegistryStore(path)


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
