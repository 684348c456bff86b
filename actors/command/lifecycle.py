"""Commands that start, end and look at servers: start, stop, status, top, serve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from actors.command.http_beside import check_free, host_and_port, http_beside, is_ready, url_of
from actors.command.terminal import (
    Address,
    DataDir,
    GivenName,
    Json,
    ServerName,
    Terminal,
    connected,
    fail,
    one_name,
    write_json,
)
from ray_pubsub.errors import (
    ClusterError,
    MissingExtraError,
    SettingError,
    UnavailableError,
    UnknownServerError,
    counted,
)

__all__ = ["serve", "start", "status", "stop", "top"]

PAUSE = 0.3
START_PATIENCE = 120.0
STARTING = "starting a server, each of its parts in a process of its own …"


def start(
    name: Annotated[str, typer.Argument(metavar="NAME", help="By which other programs find it.")] = "default",
    shards: Annotated[int | None, typer.Option(min=1, help="Processes that match (default 2).")] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", "-d", help="Where it keeps its data; without, in memory only.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", "-a", help="Of a running Ray cluster (default: a cluster of its own).")
    ] = None,
    coordinators: Annotated[int | None, typer.Option(min=1, help="Processes that publish (default 1).")] = None,
    engine: Annotated[str | None, typer.Option(help="Of the shards' indexes (default auto).")] = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", help="Compare all texts in lower case; for the life of the data folder.")
    ] = False,
    http: Annotated[
        str | None,
        typer.Option(help="Open the HTTP interface too, at PORT or HOST:PORT; `ray-pubsub serve` has more options."),
    ] = None,
    background: Annotated[
        bool, typer.Option("--background", "-b", help="Return when it runs; `ray-pubsub stop` ends it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Start a server. It runs until Ctrl-C or `ray-pubsub stop`; on a cluster given by --address it outlives this command."""
    from actors.cluster.server_notes import check_name, read_notes

    terminal = Terminal(as_json)
    check_name(name)
    if http is not None:
        _check_http(http, address)
    if background and address is None and not os.environ.get("RAY_ADDRESS"):
        _start_in_background(name, data_dir, http, terminal)
        return
    if http is not None:
        check_free(http)
    import ray_pubsub

    if terminal.notes.is_terminal:
        terminal.note(STARTING)
    signal.signal(signal.SIGTERM, _interrupt)
    server = ray_pubsub.start(
        shards,
        data_dir,
        name,
        address=address,
        coordinators=coordinators,
        engine=engine,
        ignore_case=ignore_case or None,
    )
    signal.signal(
        signal.SIGTERM, _interrupt
    )  # again: Ray has put its own handler in place, which ends the program at once
    facts = {
        "name": server.name,
        "address": server.address,
        "data_dir": server.data_dir,
        "shards": len(server.shards),
        "pid": os.getpid(),
    }
    shown = f"server {server.name!r} runs at {server.address} with {counted(len(server.shards), 'shard')}, " + (
        f"data in {server.data_dir}" if server.data_dir else "in memory only"
    )
    terminal.result(facts, shown)
    if not server.ends_with_program:
        server.close()
        return
    terminal.note("Ctrl-C or `ray-pubsub stop` in another terminal ends it")
    try:
        with http_beside(server.name, server.address, http) as check:
            while read_notes(name):  # `stop` removes the note, from any process
                check()
                time.sleep(PAUSE)
        server.close()
    except KeyboardInterrupt:
        terminal.note("stopping")
        server.stop()
    except UnavailableError:
        server.stop()
        raise


def _check_http(place: str, address: str | None) -> None:
    host_and_port(place)
    if address is not None or os.environ.get("RAY_ADDRESS"):
        raise SettingError(
            "http", "needs a server that ends with this command; run `ray-pubsub serve` beside the cluster"
        )
    _check_http_installed()


def _check_http_installed() -> None:
    if find_spec("uvicorn") is None or find_spec("httptools") is None:
        raise MissingExtraError("The HTTP interface", "http")


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _start_in_background(name: str, data_dir: Path | None, http: str | None, terminal: Terminal) -> None:
    """Runs the same command again in a session of its own, and waits until the server's note exists and the HTTP interface answers."""
    from actors.cluster.finding import living_notes

    folder = None if data_dir is None else str(data_dir.expanduser().absolute())
    if running := living_notes(name, folder):
        terminal.result(_noted(running[0]), f"it runs already, with the settings that it has: server {running[0]}")
        return
    if http is not None:
        check_free(http)
    if others := living_notes(name):
        terminal.note(
            f"there is another server {others[0]}: commands find each by --data-dir or --address", style="yellow"
        )
    arguments = [each for each in sys.argv[1:] if each not in ("--background", "-b")]
    terminal.note(STARTING)
    log = Path(os.environ.get("TMPDIR", "/tmp")) / f"ray-pubsub-{name}-{os.getpid()}.log"
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", "actors.command", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    ends = time.monotonic() + START_PATIENCE
    while not (running := living_notes(name, folder)) or (http is not None and not is_ready(http)):
        if child.poll() is not None or time.monotonic() > ends:
            error = UnavailableError("the server", f"did not start; {log} says: {log.read_text()[-500:].strip()}")
            fail(error, terminal.as_json, max(0, child.poll() or 0))  # wrong use is wrong use in the background too
        time.sleep(PAUSE)
    facts = {**_noted(running[0]), "log": str(log)}
    shown = f"server {running[0]} runs in process {child.pid}; its log is {log}"
    if http is not None:
        from actors.http.settings import ADMIN_TOKEN, default_state_dir

        facts |= {"http": url_of(http), "token_file": str(default_state_dir(name) / ADMIN_TOKEN)}
        shown += f"\nHTTP and the web console: {url_of(http) or 'see the log'}; the admin's token is in {facts['token_file']}"
    terminal.result(facts, shown)


def _noted(note: Any) -> dict[str, Any]:
    return {"name": note.name, "address": note.address, "data_dir": note.data_dir, "pid": note.pid}


def stop(
    named: GivenName = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    force: Annotated[
        bool, typer.Option("--force", help="End its processes even if it does not answer or cannot open its data.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop a server. What it keeps in its data folder stays."""
    name = one_name(named, name)
    if force:
        from actors.client.starting import end_by_force

        ended = end_by_force(name, address=address, data_dir=data_dir)
        Terminal(as_json).result({"stopped": ended}, f"the processes of the server {ended!r} are ended")
        return
    server = connected(name, address, data_dir)
    stopped = {"stopped": server.name, "address": server.address, "data_dir": server.data_dir}
    server.stop()
    Terminal(as_json).result(stopped, f"server {stopped['stopped']!r} is stopped")


def status(
    named: GivenName = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    hot: Annotated[int, typer.Option(min=0, help="List this many subscriptions and mailboxes.")] = 5,
    as_json: Json = False,
) -> None:
    """A server in numbers; where none of this name runs, which ones do."""
    from actors.cluster.finding import living_notes

    terminal = Terminal(as_json)
    try:
        server = connected(one_name(named, name), address, data_dir)
    except (ClusterError, UnknownServerError):
        if address is None and (others := living_notes()):
            terminal.note("servers of this user on this machine: " + ", ".join(map(str, others)))
        raise
    with server:
        stats = server.stats(hot=hot)
    terminal.result(stats.to_dict(), stats)


def top(
    named: GivenName = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    every: Annotated[float, typer.Option(min=0.2, help="Seconds between pictures.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Show one picture and end.")] = False,
    as_json: Json = False,
) -> None:
    """Watch a server: shards, rates, latencies, hot pivots, queues by priority, on-time rates. Ctrl-C ends it."""
    from rich.live import Live

    from actors.command.live_picture import picture

    terminal = Terminal(as_json)
    with connected(one_name(named, name), address, data_dir) as server, suppress(KeyboardInterrupt):
        if once or as_json:
            while True:
                stats = server.stats()
                terminal.result(stats.to_dict(), picture(stats))
                if once:
                    return
                time.sleep(every)
        with Live(picture(server.stats()), console=terminal.results, screen=terminal.results.is_terminal) as live:
            while True:
                time.sleep(every)
                live.update(picture(server.stats()), refresh=True)


def serve(
    named: GivenName = None,
    name: ServerName = None,
    address: Address = None,
    data_dir: DataDir = None,
    host: Annotated[str, typer.Option(help="The interface to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on.")] = 8480,
    state_dir: Annotated[Path | None, typer.Option(help="A folder for webhooks and tokens.")] = None,
    tokens: Annotated[
        Path | None, typer.Option(help='A JSON file: {"name": {"token": …, "scopes": ["publish", …]}}.')
    ] = None,
    is_open: Annotated[bool, typer.Option("--open", help="No token is needed.")] = False,
    certificate: Annotated[Path | None, typer.Option(help="A file for TLS; with --key.")] = None,
    key: Annotated[Path | None, typer.Option(help="A file for TLS; with --certificate.")] = None,
    allow_network: Annotated[
        list[str] | None,
        typer.Option(help="A private network that webhooks may go to, 10.1.0.0/16; may be given several times."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="With --open, a host name under which it may be reached; may be given several times."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Open the HTTP interface of a server, with the web console: publish, subscribe and consume from any language."""
    _check_http_installed()
    from actors.http.serving import serve as serve_http
    from actors.http.settings import HttpSettings
    from actors.http.tokens import read_tokens

    settings: dict[str, Any] = {
        "state_dir": None if state_dir is None else str(state_dir),
        "tokens": {} if tokens is None else read_tokens(tokens),
        "open": is_open,
        "certificate": None if certificate is None else str(certificate),
        "key": None if key is None else str(key),
        "allow_networks": tuple(allow_network or ()),
        "allow_hosts": tuple(allow_host or ()),
    }
    HttpSettings(host=host, port=port, **settings)  # checked before a server is looked for
    with connected(
        one_name(named, name), address, data_dir
    ) as server:  # the interface is another process, and gets what was found
        found, where = server.name, server.address
    if as_json:  # for people the interface says it itself when it listens
        write_json({"server": found, "host": host, "port": port})
    serve_http(found, host, port, address=where, **settings)
