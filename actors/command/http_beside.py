"""The HTTP interface as a process beside `ray-pubsub start`, for as long as the server runs: a container has one command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ray_pubsub.errors import SettingError, UnavailableError

__all__ = ["host_and_port", "http_beside"]

LONGEST_END = 20.0


def host_and_port(place: str) -> tuple[str, int]:
    """Parses PORT or HOST:PORT. Raises SettingError.

    >>> host_and_port("8480"), host_and_port("0.0.0.0:80"), host_and_port("[::]:8480")
    (('127.0.0.1', 8480), ('0.0.0.0', 80), ('::', 8480))
    """
    host, _, port = place.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) <= 65535):
        raise SettingError("http", f"must be PORT or HOST:PORT, such as 0.0.0.0:8480, not {place!r}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


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
