"""The HTTP interface as a process beside `ray-pubsub start`, for as long as the server runs: a container has one command."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException

from ray_pubsub.errors import SettingError, UnavailableError

__all__ = ["check_free", "host_and_port", "http_beside", "is_ready", "url_of"]

LONGEST_END = 20.0
ANSWER = 5.0
ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where this machine reaches what listens on all of its interfaces."""


def host_and_port(place: str) -> tuple[str, int]:
    """Parses PORT or HOST:PORT. Raises SettingError.

    >>> host_and_port("8480"), host_and_port("0.0.0.0:80"), host_and_port("[::]:8480")
    (('127.0.0.1', 8480), ('0.0.0.0', 80), ('::', 8480))
    """
    host, _, port = place.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise SettingError("http", f"must be PORT or HOST:PORT, such as 0.0.0.0:8480, not {place!r}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def check_free(place: str) -> None:
    """Raises SettingError if nothing can listen there, before a server is started for it."""
    host, port = host_and_port(place)
    try:
        socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
    except OSError as error:
        raise SettingError("http", f"nothing can listen at {place}: {error.strerror or error}") from None


def url_of(place: str) -> str | None:
    """Returns the address for clients of this machine; None if the system chooses the port."""
    host, port = host_and_port(place)
    host = ANYWHERE.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}/" if port else None


def is_ready(place: str) -> bool:
    """Returns whether the interface answers and has found its server. One whose port the system chooses is not asked."""
    host, port = host_and_port(place)
    if not port:
        return True
    connection = HTTPConnection(ANYWHERE.get(host, host), port, timeout=ANSWER)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def http_beside(server: str, address: str, place: str | None) -> Iterator[Callable[[], None]]:
    """Runs `ray-pubsub serve` for the server while the block runs, unless `place` is None. Yields a function that raises
    UnavailableError if it has ended."""
    if place is None:
        yield lambda: None
        return
    host, port = host_and_port(place)
    options = ["--server", server, "--address", address, "--host", host, "--port", str(port)]
    child = subprocess.Popen([sys.executable, "-m", "actors.command", "serve", *options], stdout=sys.stderr)

    def check() -> None:
        if child.poll() is not None:
            raise UnavailableError("the HTTP interface", f"ended with exit code {child.returncode}")

    try:
        yield check
    finally:
        child.terminate()
        try:
            child.wait(LONGEST_END)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
