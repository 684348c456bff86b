"""Nobody gets this user's token, or this process as a member of his cluster, by listening where a cluster of this user's was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.cluster import finding, joining, port_owner, ray_internals
from actors.cluster.port_owner import strangers_at
from actors.cluster.server_notes import FOLDER_VARIABLE, ServerNote, read_notes, write_note
from ray_pubsub.errors import ClusterError

OTHER_USER = 54321
HEADER = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def line(place: str, state: str, user: int) -> str:
    return f"   0: {place} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000 {user:5} 0 4711 1\n"


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Linux's tables, with another user at port 6379 of the loopback interface, and at 7001 of all, by IPv6."""
    monkeypatch.setattr(port_owner, "TABLES", (tmp_path / "tcp", tmp_path / "tcp6", tmp_path / "missing"))
    own = os.geteuid()
    (tmp_path / "tcp").write_text(
        HEADER
        + line("0100007F:18EB", "0A", OTHER_USER)
        + line("0100007F:1B58", "0A", own)
        + line("0100007F:1B5A", "01", OTHER_USER)  # connected, not listening
        + line("0100007F:1B5B", "0A", 0)
    )
    (tmp_path / "tcp6").write_text(HEADER + line("0" * 32 + ":1B59", "0A", OTHER_USER))
    return tmp_path


def test_who_listens_is_known(tables: Path) -> None:
    theirs, nobody = frozenset({OTHER_USER}), frozenset[int]()
    assert strangers_at("127.0.0.1:6379") == strangers_at("localhost:6379") == theirs
    assert strangers_at("[::1]:7001") == strangers_at("127.0.0.1:7001") == theirs
    for address in (
        "127.0.0.1:7000",
        "127.0.0.1:7002",
        "127.0.0.1:7003",
        "127.0.0.1:7004",
        "nowhere.invalid:6379",
        "x",
    ):
        assert strangers_at(address) == nobody
    assert strangers_at("192.0.2.7:6379") == nobody, "another machine's"


@pytest.fixture
def taken() -> Iterator[str]:
    """An address at which a process of this user listens, of another one if the tests may start it."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


def test_the_tables_of_this_machine_are_read(taken: str) -> None:
    assert strangers_at(taken) == frozenset()
    if os.geteuid() == 0:
        program = (
            f"import os, socket; os.setuid({OTHER_USER}); s = socket.create_server(('127.0.0.1', 0)); "
            "print(s.getsockname()[1], flush=True); input()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert strangers_at(f"127.0.0.1:{other.stdout.readline().strip()}") == {OTHER_USER}
            other.kill()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What would be joined, or sent the token. Nothing but Ray's own part is left out."""
    found: list[str] = []
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ray_internals, "send_token_if_undecided", lambda: found.append("the token"))
    monkeypatch.setattr(joining, "probe", lambda address, wait: found.append(address))
    monkeypatch.setattr(joining, "answers", lambda address, wait: True)
    monkeypatch.setattr(finding, "answers", lambda address, wait: True)
    monkeypatch.setattr(ray_internals, "as_ray_dials", lambda address: address)
    return found


def test_a_port_that_another_user_has_taken_is_not_joined(
    tables: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """He got the token of everybody who connected: by the address, by a note that a killed server had left, by the process list."""
    theirs, ours = "127.0.0.1:6379", "127.0.0.1:7000"
    monkeypatch.setattr(ray_internals, "running_clusters", lambda: frozenset({theirs}))
    monkeypatch.setattr(ray_internals, "recorded_cluster", lambda: theirs)
    with pytest.raises(ClusterError, match=f"the user {OTHER_USER} listens there"):
        joining._named(theirs, 1.0)
    with pytest.raises(ClusterError, match="no Ray cluster of this user runs on this machine"):
        joining._on_this_machine(1.0, needed=True)
    assert sent == []
    monkeypatch.setattr(ray_internals, "running_clusters", lambda: frozenset({theirs, ours}))
    assert joining._on_this_machine(1.0, needed=True) == joining._named(ours, 1.0) == ours
    assert sent == ["the token", ours] * 2


@pytest.mark.parametrize("variable", ["RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"])
def test_the_cluster_of_another_user_can_be_meant(
    tables: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setattr(ray_internals, "running_clusters", frozenset)
    monkeypatch.setenv(variable, "disabled")
    assert joining._named("127.0.0.1:6379", 1.0) == "127.0.0.1:6379"
    assert "the token" not in sent


def test_a_machine_has_two_addresses_and_another_user_may_listen_at_one(
    tables: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_internals, "running_clusters", frozenset)
    monkeypatch.setattr(ray_internals, "as_ray_dials", lambda address: "127.0.0.1:6379")
    assert joining._named("127.0.0.1:7000", 1.0) == "127.0.0.1:7000"


def test_a_note_of_a_server_whose_port_was_taken_leads_nowhere(
    tables: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "notes"))
    monkeypatch.setattr(finding, "_is_decided", lambda: False)
    for name, address in (("gone", "127.0.0.1:6379"), ("here", "127.0.0.1:7000")):
        write_note(ServerNote(name, address, f"/data/{name}", 1, 0.0))
    assert finding.server_to_connect_to("gone", None, None) == ("gone", None)
    assert finding.server_to_connect_to("here", None, None) == ("here", "127.0.0.1:7000")
    with pytest.raises(ClusterError, match="no server of this user runs"):
        finding.server_to_connect_to(None, None, "/data/gone")
    assert len(read_notes()) == 2


def test_only_what_this_user_has_recorded_is_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Everybody can write Ray's folder."""
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    record = tmp_path / "ray" / "ray_current_cluster"
    record.parent.mkdir()
    assert ray_internals.recorded_cluster() is None
    record.write_text("127.0.0.1:6379\n")
    assert ray_internals.recorded_cluster() == "127.0.0.1:6379"
    moved = record.rename(tmp_path / "moved")
    record.symlink_to(moved)
    assert ray_internals.recorded_cluster() is None
    record.unlink()
    moved.rename(record)
    if os.geteuid() == 0:
        os.chown(record, OTHER_USER, -1)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER_USER + 1)
    assert ray_internals.recorded_cluster() is None


def test_only_nodes_of_this_user_are_found_in_the_process_list(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A process may call itself what it likes: only a program that is a raylet, and this user's, counts."""
    liar = [sys.executable, "-c", "print(flush=True); input()", "--gcs-address=192.0.2.7:1"]
    with subprocess.Popen(["raylet", *liar[1:]], executable=sys.executable, stdin=-1, stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert "192.0.2.7:1" not in ray_internals.running_clusters()
        process.kill()
