"""The server as a Spark Python worker has it: one connection per process, however many tasks and batches the process is given."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray_pubsub.delivery.levels import seconds
from ray_pubsub.errors import ClusterError, FencedError, SettingError, UnavailableError, UnknownServerError

if TYPE_CHECKING:
    from actors.server import Server

__all__ = ["ServerPlace", "server_of", "server_place", "server_used"]

LONGEST_CONNECTING = 20.0
"""Seconds for which a task looks for a server that is not there. A wrong address is told by then, and Spark starts the task again."""
PAUSE, LONGEST_PAUSE = 0.1, 2.0

_connected: dict[tuple[int, str, str | None], Server] = {}
"""By process too: a worker that was forked from one that had a connection has none."""


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a task finds its server. Has no token in it: what travels with a plan is written to logs."""

    name: str
    address: str | None
    timeout: float
    """Seconds for which a server that is away is waited for."""


def server_place(server: Any, address: str | None, timeout: float, frame: Any = None) -> ServerPlace:
    """`server` is a name or a connected Server. Without an address it is that of this process, if it has one: its connection, or
    RAY_ADDRESS; under Spark Connect it is not, because this process is no part of the cluster that Spark runs on."""
    name = server if isinstance(server, str) else getattr(server, "name", None)
    if not isinstance(name, str):
        raise SettingError("server", f"the name of a server, or what connect() gave, not {type(server).__name__}")
    if address is not None and not isinstance(address, str):
        raise SettingError("address", f"host:port of the Ray cluster, not {address!r}")
    if not seconds("timeout", timeout) > 0:
        raise SettingError("timeout", "must be more than 0 seconds")
    if address is None and not isinstance(server, str):
        address = server.address
    if address is None and not type(frame).__module__.startswith("pyspark.sql.connect"):
        address = _own_address()
    return ServerPlace(name, None if address == "auto" else address, float(timeout))


def server_of(place: ServerPlace) -> Server:
    """The server; the same object as long as the process keeps it."""
    key = (os.getpid(), place.name, place.address)
    server = _connected.get(key)
    if server is None:
        server = _connected[key] = _connect(place)
    return server


@contextmanager
def server_used(place: ServerPlace) -> Iterator[Server]:
    """The same for one task. If the server turns out to be away, the connection is given up, so that the next attempt, which may be in
    the same process, looks for it anew."""
    try:
        yield server_of(place)
    except (ClusterError, FencedError, UnavailableError, UnknownServerError):
        _forget()
        raise


def _connect(place: ServerPlace) -> Server:
    from actors.starting import connect

    ends = time.monotonic() + min(place.timeout, LONGEST_CONNECTING)
    pause = PAUSE
    while True:
        try:
            with _quiet_end():
                return connect(place.name, address=place.address)
        except ClusterError as error:
            if time.monotonic() + pause >= ends:
                raise ClusterError(error.address, f"{error.reason}. {_conditions()}") from None
        except (UnavailableError, UnknownServerError):
            if time.monotonic() + pause >= ends:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Spark ends its Python processes by SIGTERM, and Ray sets a handler that then prints where they were: the one before it comes back."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with suppress(ValueError):  # not in the main thread, where handlers are set
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _conditions() -> str:
    return (
        f"(Seen from a Spark task on {socket.gethostname()}. Every machine that runs tasks must run a node of the Ray cluster; give its "
        "address=, or RAY_ADDRESS in spark.executorEnv; tasks get its token as Ray's own processes do, by RAY_AUTH_MODE and a token file "
        "or RAY_AUTH_TOKEN in spark.executorEnv.)"
    )


def _forget() -> None:
    """All connections: one that goes takes Ray with it."""
    while _connected:
        _, server = _connected.popitem()
        with suppress(Exception):  # it may be gone in any way
            server.close()


def _own_address() -> str | None:
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized():
            return str(ray.get_runtime_context().gcs_address)
    return os.environ.get("RAY_ADDRESS") or None
