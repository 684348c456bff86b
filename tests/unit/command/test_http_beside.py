"""`ray-pubsub start --http`: the interface runs as long as the server does."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

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


@contextmanager
def answering(statuses: list[int]) -> Iterator[int]:
    """A server that answers with each of these in turn; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            self.send_response(statuses.pop(0))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_it_is_ready_when_it_has_found_its_server() -> None:
    with answering([503, 200]) as port:
        place = f"0.0.0.0:{port}"
        assert (http_beside.is_ready(place), http_beside.is_ready(place)) == (False, True)
    assert http_beside.is_ready(place) is False
    assert http_beside.is_ready("0") is True


def test_a_place_that_is_taken_is_refused_before_a_server_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)  # as other tests of this process may have set it
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = str(taken.getsockname()[1])
        refused = CliRunner().invoke(app, ["start", "--http", place])
        assert refused.exit_code == 2 and f"nothing can listen at {place}: Address already in use" in refused.stderr
    http_beside.check_free(place)


def test_where_clients_of_this_machine_find_it() -> None:
    places = ("8480", "0.0.0.0:80", "[::]:80", "0")
    found = ("http://127.0.0.1:8480/", "http://127.0.0.1:80/", "http://[::1]:80/", None)
    assert tuple(map(http_beside.url_of, places)) == found
