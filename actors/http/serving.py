"""Starts the HTTP interface: in this process until it is stopped, or in a process of its own that is restarted when it dies."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING, Any

from actors.http.settings import ADMIN_TOKEN, HttpSettings
from actors.http.state_file import StateFile
from ray_pubsub.errors import SettingError

if TYPE_CHECKING:
    from actors.client.server import Server
    from actors.http.application import Application

__all__ = ["listening_socket", "raise_file_limit", "run_worker", "serve", "uvicorn_server"]

logger = logging.getLogger(__name__)

BACKLOG = 2048
USER_TIMEOUT = 10_000
"""Milliseconds after which TCP gives up a connection whose other side confirms nothing. Accepted connections inherit it. Streams
acknowledge what they sent only later than that (`HttpSettings.settle`)."""
FILES, SPARE_FILES = 65_536, 512
PAUSE, LONGEST_PAUSE, WELL = 0.5, 10.0, 30.0
"""The seconds before a process that died is restarted; the pause doubles unless the process has lived for WELL seconds."""


def serve(server: str | Server = "default", host: str = "127.0.0.1", port: int = 8480, **more: Any) -> None:
    """Serves HTTP for a server, or the one of this name, until the process gets SIGINT or SIGTERM. `more`: see `HttpSettings`.

    A child process does the work. It survives the loss of the Ray cluster (requests are answered with 503 until it is back), and if Ray
    ends it, another one is started; connections made meanwhile wait.
    """
    if not isinstance(server, str):
        more.setdefault("address", server.address)
        server = server.name
    settings = HttpSettings(server=server, host=host, port=port, **more)
    _check_certificate(settings)
    StateFile(settings.folder).close()  # raises what would end the child process again and again
    listening = listening_socket(settings)
    _announce(settings, listening)
    stopped: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.append(number)
        if child is not None:
            child.send_signal(signal.SIGTERM)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    pause = PAUSE
    try:
        while not stopped:
            started = time.monotonic()
            child = _worker(settings, listening)
            code = child.wait()
            if stopped or code == 0:
                return
            logger.warning("the HTTP process ended with %d and is started again", code)
            pause = PAUSE if time.monotonic() - started > WELL else min(2 * pause, LONGEST_PAUSE)
            time.sleep(pause)
    finally:
        if child is not None and child.poll() is None:
            child.terminate()
            child.wait()
        for number, handler in before.items():
            signal.signal(number, handler)
        listening.close()


def _check_certificate(settings: HttpSettings) -> None:
    """Raises SettingError for files that TLS cannot use. The child process would end by them, and be started again and again."""
    if settings.certificate is None:
        return
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.certificate, settings.key)
    except ssl.SSLError as error:
        raise SettingError("certificate, key", f"are not a certificate and its key: {error.reason or error}") from None
    except OSError as error:
        raise SettingError(
            "certificate, key", f"{settings.certificate} or {settings.key} cannot be read: {error.strerror}"
        ) from None


def _worker(settings: HttpSettings, listening: socket.socket) -> subprocess.Popen[bytes]:
    """Starts the child process. The settings go through a pipe, because a command line with tokens would be visible to everybody."""
    command = [sys.executable, "-m", "actors.http", "--worker", str(listening.fileno())]
    # Ray would write a page about every SIGTERM, which is how this process is ended.
    environment = {**os.environ, "RAY_DISABLE_FAILURE_SIGNAL_HANDLER": "1"}
    child = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[listening.fileno()], env=environment)
    assert child.stdin is not None
    with suppress(BrokenPipeError):
        child.stdin.write(json.dumps(settings.state()).encode())
        child.stdin.close()
    return child


def run_worker(descriptor: int, state: bytes) -> None:
    """Runs the child process."""
    from actors.http.application import Application  # imported only here: the supervising process needs no Ray

    given = json.loads(state)
    for name in ("allow_networks", "allow_hosts"):
        given[name] = tuple(given[name])
    settings = HttpSettings(**given)
    raise_file_limit()
    listening = socket.socket(fileno=descriptor)
    app = Application(settings, may_exit=True)
    uvicorn_server(app, settings, app.end_waits).run(sockets=[listening])


def uvicorn_server(app: Application, settings: HttpSettings, at_end: Callable[[], None] = lambda: None) -> Any:
    """Returns uvicorn with httptools and uvloop; ARCHITECTURE.md has the figures that decided. `at_end` is called before it waits for the
    requests that are not answered yet."""
    try:
        import uvicorn

        from actors.http.connections.bounded_connection import BoundedConnection
    except ImportError as error:
        raise SettingError("http", f"needs: pip install 'ray-pubsub[http]' ({error})") from None

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            at_end()
            await super().shutdown(sockets)

    # Warnings are what clients cause: each bad request would be a line in the log.
    config = uvicorn.Config(
        app, http=BoundedConnection, loop="uvloop", ws="none", access_log=False, log_level="error", server_header=False,
        date_header=False, proxy_headers=False, timeout_keep_alive=75, timeout_graceful_shutdown=5, backlog=BACKLOG,
        limit_concurrency=_most_connections(settings), ssl_certfile=settings.certificate, ssl_keyfile=settings.key,
    )  # fmt: skip
    return Server(config)


def _most_connections(settings: HttpSettings) -> int:
    """Some files are left for the connections to the server and to webhooks."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        settings.max_connections
        if files == resource.RLIM_INFINITY
        else max(1, min(settings.max_connections, files - SPARE_FILES))
    )


def listening_socket(settings: HttpSettings) -> socket.socket:
    """Returns the listening socket. Raises SettingError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError as error:
        raise SettingError(
            "host, port", f"cannot listen on {settings.host}:{settings.port}: {error.strerror}"
        ) from None
    os.set_inheritable(listening.fileno(), True)
    return listening


def raise_file_limit() -> None:
    """Raises the limit of open files, because every stream is one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _announce(settings: HttpSettings, listening: socket.socket) -> None:
    """Prints one line for people to stderr. An admin's token is in a file, and not on the screen."""
    port = listening.getsockname()[1]
    scheme = "http" if settings.certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    where = f"{scheme}://{host}:{port}/"
    who = "anybody who can connect is an admin"
    if not settings.open:
        who = "tokens as given" if settings.tokens else f"the admin's token is in {settings.folder / ADMIN_TOKEN}"
    print(f"ray-pubsub: {where} serves {settings.server!r}; {who}", file=sys.stderr, flush=True)
