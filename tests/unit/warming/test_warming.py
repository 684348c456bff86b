"""Kernels are compiled by one process at a time, which another process may start; a marker says that all are."""

from __future__ import annotations

import fcntl
import subprocess
from pathlib import Path
from typing import Any

import pytest

import ray_pubsub
from ray_pubsub.kernels import readiness
from ray_pubsub.warming import background, warm_up


@pytest.fixture
def marker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "cache" / "all-compiled"
    monkeypatch.setattr(warm_up, "marker_path", lambda: path)
    monkeypatch.setattr(warm_up, "_start_partner", lambda: None)  # the exercises of these tests compile nothing
    return path


def test_the_marker_is_written_last(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[bool] = []
    monkeypatch.setattr(
        warm_up, "EXERCISES", {"one": lambda: done.append(marker.exists()), "two": lambda: done.append(marker.exists())}
    )
    assert ray_pubsub.warm_up(progress=True)
    assert done == [False, False] and marker.exists()


def test_a_failure_leaves_no_marker(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError

    monkeypatch.setattr(warm_up, "EXERCISES", {"one": fail})
    with pytest.raises(RuntimeError):
        ray_pubsub.warm_up()
    assert not marker.exists()


def test_one_process_at_a_time(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_up, "EXERCISES", {})
    marker.parent.mkdir()
    with readiness.lock_path(marker).open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert not ray_pubsub.warm_up(wait=False)
        assert not marker.exists() and background.compile_in_background(marker)
    assert ray_pubsub.warm_up(wait=False) and marker.exists()


class Process:
    """Stands for one that was started."""

    code: int | None = None

    def __init__(self, command: list[str], **options: Any) -> None:
        self.command, self.options = command, options

    def poll(self) -> int | None:
        return self.code


def test_a_process_is_started_once(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    monkeypatch.setattr(background, "_started", started)
    monkeypatch.setattr(subprocess, "Popen", Process)
    assert background.compile_in_background(marker) and background.compile_in_background(marker)
    assert len(started) == 1 and started[0].command[1:] == ["-m", "ray_pubsub.warming", "--background"]
    assert started[0].options["env"][readiness.VARIABLE] == "now"
    started[0].code = 1  # it ended without having compiled all: kernels are compiled where they are used
    assert not background.compile_in_background(marker) and len(started) == 1


def test_where_no_process_can_be_started(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **options: Any) -> None:
        raise OSError

    monkeypatch.setattr(background, "_started", [])
    monkeypatch.setattr(subprocess, "Popen", refuse)
    assert not background.compile_in_background(marker)


def test_the_marker_depends_on_the_sources() -> None:
    path = readiness.marker_path()
    assert path is not None and path == readiness.marker_path() and path.name.startswith("all-compiled-")
