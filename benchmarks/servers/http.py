"""The HTTP interface against the server behind it: events per second, the time of one publication, idle listeners and their memory.

python -m benchmarks http [--subscriptions N] [--batches B] [--listeners L] [--address A]

The matches of every batch are compared with those of Server.publish_json, and what is published at the end is counted at the listeners.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from benchmarks.servers.bare_handler import bare_handler
from benchmarks.servers.http_process import interface
from benchmarks.servers.latency import MATCHING, MATCHLESS, MOST_RATIO, emptied, expressions, ways

__all__ = ["main"]

BATCH = 8192
SINGLES = 1000
HEARD = 100
"""Listeners that get the event at the end."""
ROUNDS = 3
NDJSON = {"Content-Type": "application/x-ndjson"}
console = Console(width=130)


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
        texts = expressions(options.subscriptions)
        server.subscribe_many(list(numbers), texts, subscriber="bench", progress=False)
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
    """`python -m benchmarks latency` has more of it."""
    for name, body in (("matches nothing", MATCHLESS), ("matched and delivered", MATCHING)):
        with ways(server, port, bare_port, body, deliver=True) as compared:
            bare, http, direct = compared.in_turn(SINGLES)
        emptied(server)
        table.add_row(f"one publication, {name}, p50", f"{http * 1e6:,.0f} µs", "")
        table.add_row("÷ a bare handler of the same framework", f"{http / bare:.2f}", f"≤ {MOST_RATIO:g}")
        table.add_row("÷ Server.publish_json of the same event", f"{http / direct:.2f}", "")


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
