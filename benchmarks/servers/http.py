"""The HTTP interface against the server behind it: events per second, the time of one publication, idle listeners and their memory.

python -m benchmarks http [--subscriptions N] [--batches B] [--listeners L] [--address A]

The matches of every batch are compared with those of Server.publish_json, and what is published at the end is counted at the listeners.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.client.server import Server

__all__ = ["bare", "main"]

BATCH = 8192
SINGLES = 1000
HEARD = 100
"""Listeners that get the event at the end."""
ROUNDS = 3
NDJSON = {"Content-Type": "application/x-ndjson"}
console = Console(width=130)


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The least that a handler does with this framework: reads the body, answers with a small document."""
    if scope["type"] == "lifespan":
        for _ in range(2):
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
        return
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    answer = json.dumps({"events": 1, "bytes": len(body)}).encode()
    length = str(len(answer)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks http", description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=20_000)
    parser.add_argument("--batches", type=int, default=12, help=f"of {BATCH:,} events each (default: %(default)s)")
    parser.add_argument("--listeners", type=int, default=10_000)
    parser.add_argument("--address", default="local", help="of a Ray cluster to use (default: a new one)")
    options = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    table = Table(title=f"The HTTP interface, {options.subscriptions:,} subscriptions", title_justify="left")
    for column in ("what", "figure", "must"):
        table.add_column(column, justify="left" if column == "what" else "right")
    with ray_pubsub.start(2, name="bench-http", address=options.address) as server:
        numbers = range(options.subscriptions)
        expressions = [f"a{n % 10} >= {n % 997} and a{n % 10} <= {n % 997 + 2} and kind = 'k{n % 7}'" for n in numbers]
        server.subscribe_many(list(numbers), expressions, subscriber="bench", progress=False)
        with interface(server) as (port, pid), bare_handler() as bare_port:
            throughput(server, port, batches(options.batches), table)
            latency(server, port, bare_port, table)
            console.print(table)
            asyncio.run(listeners(server, port, pid, options.listeners, table))
    console.print(table)


def batches(count: int) -> list[bytes]:
    random = np.random.default_rng(5)
    found = []
    for _ in range(count):
        values, kinds = random.integers(0, 1000, (BATCH, 10)).tolist(), random.integers(0, 7, BATCH).tolist()
        lines = (
            json.dumps({**{f"a{place}": value for place, value in enumerate(row)}, "kind": f"k{kind}"})
            for row, kind in zip(values, kinds, strict=True)
        )
        found.append("\n".join(lines).encode())
    return found


def throughput(server: Server, port: int, bodies: list[bytes], table: Table) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)

    def over_http(body: bytes) -> int:
        connection.request("POST", "/v1/events?deliver=false", body, NDJSON)
        answer = json.loads(connection.getresponse().read())
        assert answer["events"] == BATCH
        return int(answer["matches"])

    def direct(body: bytes) -> int:
        return len(server.publish_json(body, deliver=False))

    expected = [direct(body) for body in bodies]
    assert sum(expected) > 0 and [over_http(body) for body in bodies] == expected, "HTTP gave other matches"
    rates: dict[Callable[[bytes], int], list[float]] = {over_http: [], direct: []}
    for _ in range(ROUNDS):  # in turn, because the machine may be busy
        for call, found in rates.items():
            started = time.perf_counter()
            assert list(map(call, bodies)) == expected
            found.append(len(bodies) * BATCH / (time.perf_counter() - started))
    ratios = [one / other for one, other in zip(rates[over_http], rates[direct], strict=True)]
    rate = statistics.median(rates[over_http])
    table.add_row("events/s over HTTP, NDJSON", f"{rate:,.0f}", "")
    table.add_row("÷ Server.publish_json of the same bytes", f"{statistics.median(ratios):.2f}", "≥ 0.5")


def latency(server: Server, port: int, bare_port: int, table: Table) -> None:
    body = b'{"a0": 6, "a1": 6, "kind": "k5"}'
    expected = len(server.publish_json(body, deliver=False))
    assert expected, "the event must be delivered to somebody"
    request = (
        b"POST /v1/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
    )
    asked = request % (len(body), body)
    ports = {"bare": bare_port, "publish": port}
    sockets = {name: socket.create_connection(("127.0.0.1", own)) for name, own in ports.items()}
    seconds: dict[str, list[float]] = {name: [] for name in (*ports, "direct")}
    for each in range(SINGLES):
        for name, own in sockets.items():
            started = time.perf_counter()
            own.sendall(asked)
            answer = own.recv(65_536)
            while not answer.endswith(b"}"):
                answer += own.recv(65_536)
            seconds[name].append(time.perf_counter() - started)
            if name == "publish":
                answered = json.loads(answer.partition(b"\r\n\r\n")[2])
                assert answered.get("matches") == expected, answered
        started = time.perf_counter()
        assert len(server.publish_json(body)) == expected
        seconds["direct"].append(time.perf_counter() - started)
        if each % 100 == 0:
            server.ack(server.poll("bench", limit=1000))
    for own in sockets.values():
        own.close()
    median = {name: statistics.median(found[50:]) for name, found in seconds.items()}
    table.add_row("one publication, matched and delivered, p50", f"{median['publish'] * 1e6:,.0f} µs", "")
    table.add_row("÷ a bare handler of the same framework", f"{median['publish'] / median['bare']:.2f}", "≤ 3")
    table.add_row("÷ Server.publish_json of the same event", f"{median['publish'] / median['direct']:.2f}", "")


async def listeners(server: Server, port: int, pid: int, count: int, table: Table) -> None:
    names = [f"listener-{number}" for number in range(count)]
    server.subscribe_many(
        [f"l{n}" for n in range(HEARD)], ["heard = 1"] * HEARD, subscriber=names[:HEARD], progress=False
    )
    before = memory(pid)
    streams = []
    for start in range(0, count, 200):
        opened = (listening(port, name) for name in names[start : start + 200])
        streams += await asyncio.gather(*opened)
    console.print(f"{count:,} listeners are connected")
    await asyncio.sleep(20)  # they are idle then, and have had a heartbeat
    after = memory(pid)
    await asyncio.to_thread(server.publish, {"heard": 1})
    heard = await asyncio.gather(*(message(reader) for reader, _ in streams[:HEARD]))
    assert all(json.loads(each[6:])["event"] == {"heard": 1} for each in heard), "a listener did not get its event"
    for _, writer in streams:
        writer.close()
    table.add_row(
        f"memory of the HTTP process, no listener / {count:,} idle ones", f"{before:,.0f} / {after:,.0f} MB", ""
    )
    table.add_row("bytes for each idle listener", f"{(after - before) * 1e6 / count:,.0f}", "≤ 40,000")


async def listening(port: int, name: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 16)
    writer.write(f"GET /v1/subscribers/{name}/stream HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 120)
    assert b" 200 " in head.partition(b"\r\n")[0], head
    return reader, writer


async def message(reader: asyncio.StreamReader) -> bytes:
    while True:
        line = await asyncio.wait_for(reader.readline(), 120)
        assert line, "the stream has ended"
        if line.startswith(b"data: "):
            return line


def memory(pid: int) -> float:
    """Megabytes of a process that only it has."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(found) for found in re.findall(r"^Private_\w+:\s+(\d+) kB", text, re.MULTILINE)) / 1000


@contextmanager
def interface(server: Server) -> Iterator[tuple[int, int]]:
    """The port, and the process that works."""
    command = [sys.executable, "-m", "actors.http", server.name, "--address", server.address, "--port", "0", "--open"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.search(r"http://127.0.0.1:(\d+)/", line):
                break
        port = int(found[1]) if found else 0
        while not ready(port):
            time.sleep(0.1)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        yield port, int(children[0])
    finally:
        process.terminate()
        process.wait()
        process.stderr.close()


def ready(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


BARE = """
import socket, sys, uvicorn
from benchmarks.servers.http import bare
quiet = {"access_log": False, "log_level": "error", "server_header": False, "date_header": False, "proxy_headers": False}
config = uvicorn.Config(bare, http="httptools", loop="uvloop", ws="none", **quiet)
uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])
"""
"""With the options of the interface (actors/http/serving.py). `uvicorn --fd` takes the descriptor for a Unix socket, does not set
TCP_NODELAY, and answers 40 ms later."""


@contextmanager
def bare_handler() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        command = [sys.executable, "-c", BARE, str(listening.fileno())]
        process = subprocess.Popen(command, pass_fds=[listening.fileno()], env={**os.environ, "PYTHONPATH": "."})
        try:
            while not ready(port):
                time.sleep(0.1)
            yield port
        finally:
            process.terminate()
            process.wait()
