"""Servers are found by name or data folder through notes that only their user can read or write."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from actors.cluster import finding, server_notes
from actors.cluster.server_notes import FOLDER_VARIABLE, ServerNote, read_notes, remove_note, write_note
from ray_pubsub.errors import ClusterError, SettingError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "notes"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(finding, "_is_decided", lambda: False)
    return tmp_path / "notes"


@pytest.fixture
def living(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[str]]:
    """The addresses at which a cluster answers."""
    found: set[str] = set()
    monkeypatch.setattr(finding, "answers", lambda address, wait: address in found)
    yield found


def note(name: str, address: str, data_dir: str | None = None, started: float = 0.0) -> ServerNote:
    return ServerNote(name, address, data_dir, 1, started)


def test_a_note_is_its_users_alone(folder: Path) -> None:
    write_note(note("default", "127.0.0.1:5000", "/data"))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.stat().st_mode & 0o777 for path in folder.iterdir()] == [0o600]
    assert read_notes() == [note("default", "127.0.0.1:5000", "/data")]
    remove_note("default", "127.0.0.1:5000")
    assert list(folder.iterdir()) == []


def test_a_folder_that_others_can_write_is_not_trusted(folder: Path) -> None:
    write_note(note("default", "127.0.0.1:5000"))
    folder.chmod(0o770)
    assert read_notes() == []
    write_note(note("other", "127.0.0.1:5001"))
    folder.chmod(0o700)
    assert [each.name for each in read_notes()] == ["default"]


def test_a_note_with_a_wrong_bit_harms_no_other(folder: Path) -> None:
    """It is another note then, or none."""
    write_note(note("default", "127.0.0.1:5000", started=2.0))
    write_note(note("flipped", "127.0.0.1:5001", "/data", 1.5))
    path = next(folder.glob("flipped*"))
    good = path.read_bytes()
    for place in range(8 * len(good)):
        content = bytearray(good)
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(content)
        assert "default" in [each.name for each in read_notes()]
    path.write_text('{"name": "x", "address": "h:1", "data_dir": null, "pid": 1, "started": "now"}')
    assert [each.name for each in read_notes()] == ["default"]


def test_damaged_notes_are_passed_over(folder: Path) -> None:
    write_note(note("default", "127.0.0.1:5000"))
    (folder / "cut.json").write_text('{"name": "cut"')
    (folder / "other.json").write_text('{"colour": "red"}')
    assert len(read_notes()) == 1


def test_where_notes_are_without_a_variable_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert next(server_notes._folders()) == tmp_path / "ray-pubsub"
    monkeypatch.setenv(FOLDER_VARIABLE, "relative")
    with pytest.raises(SettingError, match="absolute path"):
        read_notes()


def test_a_server_is_found_by_its_name_or_its_data(folder: Path, living: set[str]) -> None:
    living |= {"h:1", "h:2"}
    write_note(note("default", "h:1", "/first"))
    write_note(note("other", "h:2", "/second"))
    assert finding.server_to_connect_to(None, None, None) == ("default", "h:1")
    assert finding.server_to_connect_to("other", None, None) == ("other", "h:2")
    assert finding.server_to_connect_to(None, None, "/second") == ("other", "h:2")
    assert finding.server_to_connect_to("third", None, None) == (
        "third",
        None,
    )  # perhaps on a cluster that joining finds
    assert finding.server_to_connect_to(None, "h:9", None) == ("default", "h:9")
    with pytest.raises(ClusterError, match=r"its data in /third; there are .*'other' at h:2 \(data in /second\)"):
        finding.server_to_connect_to(None, None, "/third")
    with pytest.raises(SettingError, match="give one of them"):
        finding.server_to_connect_to(None, "h:1", "/first")


def test_of_several_with_one_name_the_user_chooses(folder: Path, living: set[str]) -> None:
    living |= {"h:1", "h:2"}
    write_note(note("default", "h:1", "/first"))
    write_note(note("default", "h:2"))
    with pytest.raises(ClusterError, match=r"several servers 'default'.*address= .* or data_dir= "):
        finding.server_to_connect_to(None, None, None)
    assert finding.server_to_connect_to(None, None, "/first") == ("default", "h:1")


def test_a_note_whose_cluster_is_gone_is_removed(folder: Path, living: set[str]) -> None:
    living.add("h:2")
    write_note(note("default", "h:1", started=2.0))
    write_note(note("default", "h:2", started=1.0))
    assert finding.server_to_connect_to(None, None, None) == ("default", "h:2")
    assert [each.address for each in read_notes()] == ["h:2"]


def test_a_new_cluster_is_started_unless_the_data_is_open_already(folder: Path, living: set[str]) -> None:
    living.add("h:1")
    write_note(note("default", "h:1", "/first"))
    assert finding.address_to_start_at("default", None, None) == "local"
    assert finding.address_to_start_at("default", None, "/second") == "local"
    assert finding.address_to_start_at("default", None, "/first") == "h:1"
    assert finding.address_to_start_at("default", "auto", None) == "auto"


def test_a_port_where_nobody_listens_does_not_answer(folder: Path) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening
        write_note(note("default", f"127.0.0.1:{taken.getsockname()[1]}"))
        assert finding.living_notes() == []
