"""What a cluster of this user leaves on the machine is for this user only: the token, the sockets, the logs."""

from __future__ import annotations

import atexit
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from actors.cluster import session_folder, token_file
from actors.cluster.session_folder import new_session_folder, remove_session_folder
from actors.cluster.token_file import keep_token_private


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def permissive() -> Iterator[None]:
    """The umask that most systems have; with it Ray's token is 0644."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.parametrize("environment", [{}, {"RAY_AUTH_MODE": "token"}])
def test_a_token_is_created_for_this_user_only(tmp_path: Path, environment: dict[str, str]) -> None:
    assert keep_token_private(tmp_path, environment)
    path = tmp_path / ".ray" / "auth_token"
    assert (mode(path.parent), mode(path)) == (0o700, 0o600)
    token = path.read_text()
    assert len(token) == 64 and int(token, 16)
    assert not keep_token_private(tmp_path, environment)
    assert path.read_text() == token
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("environment", [{}, {"RAY_AUTH_MODE": "disabled"}])
def test_a_token_that_everybody_can_read_is_tightened(tmp_path: Path, environment: dict[str, str]) -> None:
    path = tmp_path / ".ray" / "auth_token"
    path.parent.mkdir(mode=0o755)
    path.write_text("given")
    assert mode(path) == 0o644
    assert not keep_token_private(tmp_path, environment)
    assert (mode(path.parent), mode(path), path.read_text()) == (0o700, 0o600, "given")


@pytest.mark.parametrize(
    "environment", [{"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_TOKEN": "x"}, {"RAY_AUTH_TOKEN_PATH": "x"}]
)
def test_no_token_is_created_where_ray_needs_none(tmp_path: Path, environment: dict[str, str]) -> None:
    assert not keep_token_private(tmp_path, environment)
    assert list(tmp_path.iterdir()) == []


def test_processes_that_start_at_once_have_one_token(tmp_path: Path) -> None:
    created: list[bool] = []
    threads = [Thread(target=lambda: created.append(keep_token_private(tmp_path, {}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert created.count(True) == 1
    assert token_file.OTHERS & mode(tmp_path / ".ray" / "auth_token") == 0


def test_a_session_folder_is_for_this_user_only_and_ends_with_its_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_folder, "LONGEST", 1000)
    monkeypatch.setattr(atexit, "register", lambda call: None)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / "new"))
    found = new_session_folder(lambda: None)
    assert (found.parent.parent, mode(found.parent)) == (tmp_path / "new", 0o700)
    assert not found.exists(), "Ray creates it, with the mode 0777"
    (found / "session").mkdir(parents=True)
    remove_session_folder()
    remove_session_folder()
    assert list((tmp_path / "new").iterdir()) == []


def test_no_session_folder_is_made_where_others_can_rename_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They could put sockets of theirs in place of the object store's and the node's."""
    monkeypatch.setattr(session_folder, "LONGEST", 1000)
    monkeypatch.setattr(atexit, "register", lambda call: None)
    open_to_all = tmp_path / "open"
    (open_to_all / "deep").mkdir(parents=True)
    open_to_all.chmod(0o777)
    (tmp_path / "link").symlink_to(open_to_all)
    for below in (open_to_all, open_to_all / "deep", tmp_path / "link"):
        monkeypatch.setenv("RAY_TMPDIR", str(below))
        assert str(new_session_folder(lambda: None)).startswith("/tmp/ray-pubsub-")
        remove_session_folder()
    open_to_all.chmod(0o1777)
    assert new_session_folder(lambda: None).is_relative_to(open_to_all)
    remove_session_folder()


def test_the_paths_of_its_sockets_are_short_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    at_exit: list[Any] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    monkeypatch.setenv("RAY_TMPDIR", tempfile.gettempdir() + "/" + "long" * 20)
    found = new_session_folder(lambda: ended.append("the cluster"))
    assert str(found).startswith("/tmp/ray-pubsub-")
    assert len(f"{found}/session_2026-01-01_00-00-00_000000_1234567/sockets/plasma_store") <= 107
    at_exit[0]()
    assert ended == ["the cluster"]
    assert not found.parent.exists()
