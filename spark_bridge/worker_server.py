"""The server as a Spark Python worker has it: one connection per process, however many tasks and batches the process is given."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ray_pubsub.delivery.levels import seconds
from ray_pubsub.errors import ClusterError, FencedError, SettingError, UnavailableError, UnknownServerError

if TYPE_CHECKING:
    from actors.server import Server

__all__ = ["ServerPlace", "server_of", "server_place", "server_used", "while_connected"]

LONGEST_CONNECTING = 20.0
"""Seconds for which a task looks for a server that is not there. A wrong address is told by then, and Spark starts the task again."""
PAUSE, LONGEST_PAUSE = 0.1, 2.0
ADDRESS = re.compile(r"(?!ray://).+:\d{1,5}")
"""Not of Ray Client, which is no way for data."""

_connected: dict[tuple[int, str, str | None], Connection] = {}
"""By process too: a worker that was forked from one that had a connection has none."""


@dataclass(frozen=True, slots=True)
class Connection:
    server: Server
    node: str | None
    """The socket of the Ray node that this process is part of."""

    def node_is_there(self) -> bool:
        """Asked before Ray is: in a process whose node is gone, Ray ends the process at the next thing it is asked to do."""
        if self.node is None:
            return True
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.setblocking(False)  # one that does not answer is there
            return knocking.connect_ex(self.node) not in (errno.ECONNREFUSED, errno.ENOENT)


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
    if not name:
        raise SettingError("server", "a name cannot be empty")
    if address is not None and not isinstance(address, str):
        raise SettingError("address", f"host:port of the Ray cluster, not {address!r}")
    if not seconds("timeout", timeout) > 0:
        raise SettingError("timeout", "must be more than 0 seconds")
    if address is None and not isinstance(server, str):
        address = server.address
    if address is None and not type(frame).__module__.startswith("pyspark.sql.connect"):
        address = _own_address()
    if address == "auto":
        address = None
    # Told here, because tasks would look for it until their deadlines.
    if address is not None and not ADDRESS.fullmatch(address):
        raise SettingError("address", f"host:port of the Ray cluster, such as 10.0.0.5:6379, not {address!r}")
    return ServerPlace(name, address, float(timeout))


def server_of(place: ServerPlace) -> Server:
    """The server; the same object as long as the process keeps it."""
    own = [each for (process, _, _), each in _connected.items() if process == os.getpid()]
    elsewhere = place.address is not None and any(each.server.address != place.address for each in own)
    # A process can be part of one cluster. Nobody else is using what is given up here, as a process runs one task at a time.
    if (_key(place) not in _connected and elsewhere) or not all(each.node_is_there() for each in own):
        _forget()
    if _key(place) not in _connected:
        _connected[_key(place)] = _connect(place)
    return _connected[_key(place)].server


def while_connected(place: ServerPlace, batches: Iterable[Any]) -> Iterator[Any]:
    """The batches, as long as there is a node of the cluster to hand them to. Raises ClusterError then."""
    for batch in batches:
        found = _connected.get(_key(place))
        if found is not None and not found.node_is_there():
            raise ClusterError(
                found.server.address, f"its node on {socket.gethostname()} has ended while a task was using it"
            )
        yield batch


def _key(place: ServerPlace) -> tuple[int, str, str | None]:
    return os.getpid(), place.name, place.address


@contextmanager
def server_used(place: ServerPlace) -> Iterator[Server]:
    """The same for one task. If the server turns out to be away, the connection is given up, so that the next attempt, which may be in
    the same process, looks for it anew."""
    try:
        yield server_of(place)
    except (ClusterError, FencedError, UnavailableError, UnknownServerError):
        _forget()
        raise


def _connect(place: ServerPlace) -> Connection:
    from actors.starting import connect

    ends = time.monotonic() + min(place.timeout, LONGEST_CONNECTING)
    pause = PAUSE
    while True:
        try:
            with _quiet_end():
                server = connect(place.name, address=place.address)
            return Connection(server, _node_socket())
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
        _, found = _connected.popitem()
        with suppress(Exception):  # it may be gone in any way
            found.server.close()


def _node_socket() -> str | None:
    import ray

    here = ray.get_runtime_context().get_node_id()
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return next((node["RayletSocketName"] for node in nodes if node["NodeID"] == here), None)


def _own_address() -> str | None:
    if "ray" in sys.modules:
        import ray

        if ray.is_initialized():
            return str(ray.get_runtime_context().gcs_address)
    return os.environ.get("RAY_ADDRESS") or None
