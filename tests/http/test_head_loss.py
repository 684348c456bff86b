"""The HTTP process outlives the loss of the cluster's head: 503 while it is away, and then it goes on by itself.

It reaches the head through a relay here. When the relay ends, the head is lost for this process, and for no other test.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors.client.server import Server
from tests.http.requesting import Interface


class Relay:
    """Forwards connections to an address, until it is stopped; may be started again on the same port."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self.port = 0
        self._stopped = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._stopped.clear()
        listening = socket.create_server(("127.0.0.1", self.port))
        self.port = listening.getsockname()[1]
        self._begin(self._accept, listening)

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join(30)
        self._threads.clear()

    def _begin(self, run: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listening: socket.socket) -> None:
        with listening:
            while not self._stopped.is_set():
                if select.select([listening], [], [], 0.1)[0]:
                    self._begin(self._forward, listening.accept()[0], socket.create_connection(self._target))

    def _forward(self, one: socket.socket, other: socket.socket) -> None:
        with one, other:
            while not self._stopped.is_set():
                for source in select.select([one, other], [], [], 0.1)[0]:
                    try:
                        part = source.recv(1 << 16)
                        (other if source is one else one).sendall(part)
                    except OSError:
                        part = b""
                    if not part:
                        return


@pytest.fixture
def relay(server: Server) -> Iterator[Relay]:
    host, _, port = server.address.rpartition(":")
    found = Relay(host, int(port))
    found.start()
    yield found
    found.stop()


def test_requests_are_refused_and_then_answered_again(server: Server, relay: Relay, tmp_path: Path) -> None:
    address = f"127.0.0.1:{relay.port}"
    options = ["--address", address, "--port", "0", "--state-dir", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "actors.http", "http", *options],
        stderr=subprocess.PIPE, text=True, env={**os.environ, "RAY_ADDRESS": address},
    )  # fmt: skip
    try:
        assert process.stderr is not None
        found = next(match for line in process.stderr if (match := re.search(r"http://127.0.0.1:(\d+)/", line)))
        token = tmp_path / "admin-token"
        interface = Interface(None, int(found[1]), "")  # type: ignore[arg-type]
        interface.wait_until(lambda: interface.ask("GET", "/readyz", token=None).status == 200, 120)
        interface.token = token.read_text().strip()
        assert token.stat().st_mode & 0o777 == 0o600
        assert interface.ask("POST", "/v1/events", {"x": 1}).data["events"] == 1

        relay.stop()
        interface.wait_until(lambda: interface.ask("POST", "/v1/events", {"x": 1}).status == 503, 120)
        refused = interface.ask("POST", "/v1/events", {"x": 1})
        assert (refused.status, refused.headers["retry-after"]) == (503, "2")
        assert interface.ask("GET", "/healthz", token=None).status == 200
        assert interface.ask("GET", "/readyz", token=None).status == 503

        relay.start()
        interface.wait_until(lambda: interface.ask("POST", "/v1/events", {"x": 1}).status == 200, 120)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    assert process.returncode == 0
