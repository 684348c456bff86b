"""The connection of a Spark Python worker to the server: one per process, for all its tasks and batches."""

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

from ray_pubsub.errors import ClusterError, FencedError, SettingError, UnavailableError, UnknownServerError
from ray_pubsub.model.arguments import check_seconds

if TYPE_CHECKING:
    from actors.client.server import Server

__all__ = ["ServerPlace", "server_of", "server_place", "server_used", "while_connected"]

LONGEST_CONNECTING = 20.0
"""The seconds for which a task looks for a server that is not there, before it reports a wrong address and Spark repeats it."""
PAUSE, LONGEST_PAUSE = 0.1, 2.0
ADDRESS = re.compile(r"(?!ray://).+:\d{1,5}")
"""host:port, but not an address of Ray Client, which is too slow for data."""

_connected: dict[tuple[int, str, str | None], Connection] = {}
"""The key includes the process id, because a worker that was forked from a connected one has no connection itself."""


@dataclass(frozen=True, slots=True)
class Connection:
    server: Server
    node: str | None
    """The socket of the Ray node that this process belongs to."""

    def node_is_there(self) -> bool:
        """Returns whether the node is alive. Checked before each use of Ray, because a call of Ray ends the process if the node is gone."""
        if self.node is None:
            return True
        with socket.socket(socket.AF_UNIX) as probe:
            probe.setblocking(False)  # a node that is slow to accept is alive
            return probe.connect_ex(self.node) not in (errno.ECONNREFUSED, errno.ENOENT)


@dataclass(frozen=True, slots=True)
class ServerPlace:
    """Where a task finds its server. It contains no token, because Spark writes plans to its logs."""

    name: str
    address: str | None
    timeout: float
    """The seconds to wait for a server that is down."""


def server_place(server: Any, address: str | None, timeout: float, frame: Any = None) -> ServerPlace:
    """Returns the place of a server, which is given by name or as a connected Server. The default address is that of this process: its
    connection, or RAY_ADDRESS. Under Spark Connect there is no default, because this process does not run on the cluster that Spark
    runs on."""
    name = server if isinstance(server, str) else getattr(server, "name", None)
    if not isinstance(name, str):
        raise SettingError("server", f"the name of a server, or what connect() gave, not {type(server).__name__}")
    if not name:
        raise SettingError("server", "a name cannot be empty")
    if address is not None and not isinstance(address, str):
        raise SettingError("address", f"host:port of the Ray cluster, not {address!r}")
    check_seconds("timeout", timeout, zero=False)
    if address is None and not isinstance(server, str):
        address = server.address
    if address is None and not type(frame).__module__.startswith("pyspark.sql.connect"):
        address = _own_address()
    if address == "auto":
        address = None
    # The address is checked here, because tasks would look for it until their deadlines.
    if address is not None and not ADDRESS.fullmatch(address):
        raise SettingError("address", f"host:port of the Ray cluster, such as 10.0.0.5:6379, not {address!r}")
    return ServerPlace(name, address, float(timeout))


def server_of(place: ServerPlace) -> Server:
    """Returns the server, the same object as long as the process keeps it."""
    own = [each for (process, _, _), each in _connected.items() if process == os.getpid()]
    elsewhere = place.address is not None and any(each.server.address != place.address for each in own)
    # A process can be part of one cluster only. No other task uses the connection that is closed here: a process runs one task at a time.
    if (_key(place) not in _connected and elsewhere) or not all(each.node_is_there() for each in own):
        _forget()
    if _key(place) not in _connected:
        _connected[_key(place)] = _connect(place)
    return _connected[_key(place)].server


def while_connected(place: ServerPlace, batches: Iterable[Any]) -> Iterator[Any]:
    """Yields the batches while the node of the cluster that this process belongs to is alive. Raises ClusterError when it is gone."""
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
    """Provides the server to one task. If the server is not available, the connection is closed, so that the next attempt, which may be
    in the same process, connects again."""
    try:
        yield server_of(place)
    except (ClusterError, FencedError, UnavailableError, UnknownServerError):
        _forget()
        raise


def _connect(place: ServerPlace) -> Connection:
    from actors.client.starting import connect

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
    """Restores the SIGTERM handler after connecting: Spark ends its Python processes by SIGTERM, and Ray's handler would print a
    traceback."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        with suppress(ValueError):  # handlers can be set in the main thread only
            signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def _conditions() -> str:
    return (
        f"(Seen from a Spark task on {socket.gethostname()}. Every machine that runs tasks must run a node of the Ray cluster; give its "
        "address=, or RAY_ADDRESS in spark.executorEnv; tasks get its token as Ray's own processes do, by RAY_AUTH_MODE and a token file "
        "or RAY_AUTH_TOKEN in spark.executorEnv.)"
    )


def _forget() -> None:
    """Closes all connections, because closing one disconnects the process from Ray."""
    while _connected:
        _, found = _connected.popitem()
        with suppress(Exception):  # closing may fail in any way
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
