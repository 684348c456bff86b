"""`ray-pubsub start --http`: the interface runs as long as the server does."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from actors.command import http_beside
from actors.command.entry import app
from ray_pubsub.errors import SettingError, UnavailableError

SLEEPS, ENDS = "import time; time.sleep(600)", "raise SystemExit(2)"


@pytest.mark.parametrize("place", ["", "http", "0.0.0.0", "0.0.0.0:", ":x", "127.0.0.1:99999", "٣"])
def test_a_place_that_is_none(place: str) -> None:
    with pytest.raises(SettingError, match="PORT or HOST:PORT"):
        http_beside.host_and_port(place)


def test_a_server_that_outlives_the_command_has_none() -> None:
    refused = CliRunner().invoke(app, ["start", "--address", "127.0.0.1:1", "--http", "8480"])
    assert refused.exit_code == 2 and "ray-pubsub serve" in refused.stderr


def program(monkeypatch: pytest.MonkeyPatch, code: str) -> list[subprocess.Popen[bytes]]:
    """Runs this code in place of the interface; the processes that were started."""
    started: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def start(command: list[str], **_: object) -> subprocess.Popen[bytes]:
        assert command[3:] == ["serve", "--server", "s", "--address", "127.0.0.1:1", "--host", "::", "--port", "80"]
        started.append(real([sys.executable, "-S", "-c", code]))
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", start)
    return started


def test_it_ends_with_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    started = program(monkeypatch, SLEEPS)
    with pytest.raises(KeyboardInterrupt), http_beside.http_beside("s", "127.0.0.1:1", "[::]:80") as check:
        check()
        raise KeyboardInterrupt
    assert started[0].poll() is not None


def test_its_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    started = program(monkeypatch, ENDS)
    with http_beside.http_beside("s", "127.0.0.1:1", "[::]:80") as check:
        started[0].wait(60)
        with pytest.raises(UnavailableError, match="the HTTP interface: ended with exit code 2"):
            check()


def test_nothing_is_started_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started = program(monkeypatch, ENDS)
    with http_beside.http_beside("s", "127.0.0.1:1", None) as check:
        check()
    assert started == []
