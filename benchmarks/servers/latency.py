"""One publication: how long it takes over HTTP and from Python, beside a bare handler, and which process takes how much of it.

python -m benchmarks latency [--publications P] [--subscriptions N]

The bare handler (bare_handler.py) runs on the same uvicorn, with httptools and uvloop: it reads the body, parses it as JSON and answers
with a small document. Both get the same request from the same client over one connection each that stays open. "In turn" means that the
ways are measured one after the other, again and again, so that each finds the caches of the processor as the others left them, as a
request does that comes now and then; "in a row" that each is measured alone, with everything in the caches. The number of matches is
compared each time.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import ray
from rich.console import Console
from rich.table import Table

import ray_pubsub
from actors.client.server import Server
from benchmarks.servers.bare_handler import bare_handler
from benchmarks.servers.http_process import interface

__all__ = ["MATCHING", "MATCHLESS", "MOST_RATIO", "Ways", "emptied", "expressions", "main", "ways"]

MATCHING, MATCHLESS = b'{"a0": 6, "a1": 6, "kind": "k5"}', b'{"a0": 6, "a1": 6, "kind": "ko"}'
REQUEST = (
    b"POST /v1/events%s HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
)
WARM = 50
MOST_RATIO = 3.0
console = Console(width=130)

Call = Callable[[], Any]


class Ways(NamedTuple):
    """What is compared: calls by name. `http` and `direct` publish the same event."""

    bare: Call
    http: Call
    direct: Call

    def in_turn(self, count: int) -> list[float]:
        """Returns the p50 of each in seconds."""
        found: list[list[float]] = [[] for _ in self]
        for _ in range(count):
            for call, seconds in zip(self, found, strict=True):
                started = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - started)
        return [statistics.median(seconds[WARM:]) for seconds in found]

    def in_a_row(self, count: int) -> list[float]:
        found = []
        for call in self:
            seconds = []
            for _ in range(count):
                started = time.perf_counter()
                call()
                seconds.append(time.perf_counter() - started)
            found.append(statistics.median(seconds[WARM:]))
        return found


def expressions(count: int) -> list[str]:
    return [f"a{n % 10} >= {n % 997} and a{n % 10} <= {n % 997 + 2} and kind = 'k{n % 7}'" for n in range(count)]


@contextmanager
def ways(server: Server, port: int, bare_port: int, body: bytes, deliver: bool) -> Iterator[Ways]:
    expected = len(server.publish_json(body, deliver=False))
    assert bool(expected) == (body == MATCHING), "another event matches"
    asked = REQUEST % (b"" if deliver else b"?deliver=false", len(body), body)
    with (
        socket.create_connection(("127.0.0.1", bare_port)) as bare,
        socket.create_connection(("127.0.0.1", port)) as own,
    ):

        def direct() -> None:
            assert len(server.publish_json(body, deliver=deliver)) == expected

        def http() -> None:
            answered = json.loads(exchanged(own, asked))
            assert answered.get("matches") == expected, answered

        yield Ways(lambda: json.loads(exchanged(bare, asked)), http, direct)


def exchanged(connection: socket.socket, asked: bytes) -> bytes:
    """Returns the body of the answer, a JSON object."""
    connection.sendall(asked)
    answer = connection.recv(65_536)
    while not answer.endswith(b"}"):
        answer += connection.recv(65_536)
    return answer.partition(b"\r\n\r\n")[2]


def emptied(server: Server) -> None:
    while found := server.poll("bench", limit=1000):
        server.ack(found)


def processes(server: Server, http: int) -> dict[str, int]:
    found = {"HTTP": http, "coordinator": ray.get(server.coordinator.health.remote())["pid"]}
    return found | {f"shard {n}": ray.get(shard.health.remote())["pid"] for n, shard in enumerate(server.shards)}


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of all threads of a process, as the scheduler counts it."""
    total = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        total += int(path.read_text().split()[0])
    return total / 1e9


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=__doc__)
    parser.add_argument("--publications", type=int, default=1000, help="for each figure (default: %(default)s)")
    parser.add_argument("--subscriptions", type=int, default=20_000)
    options = parser.parse_args(arguments)
    times = Table(title="One publication, p50 in µs; ÷ a bare handler of the same framework", title_justify="left")
    for column in ("event", "in turn: bare", "HTTP", "÷ bare", "Python", "in a row: bare", "HTTP", "÷ bare", "Python"):
        times.add_column(column, justify="left" if column == "event" else "right")
    hops = Table(title="CPU time of one publication over HTTP, in turn with the others, in µs", title_justify="left")
    for column in ("event", "HTTP", "coordinator", "each shard", "all"):
        hops.add_column(column, justify="left" if column == "event" else "right")
    with bare_handler() as bare_port:
        for shards in (2, 1):
            for stored in (False, True):
                measured(shards, stored, bare_port, options, times, hops)
    console.print(times)
    console.print(hops)


def measured(shards: int, stored: bool, bare_port: int, options: Any, times: Table, hops: Table) -> None:
    events = [("delivered on disk", MATCHING, True)]
    if not stored:
        events = [
            ("matches nothing", MATCHLESS, True),
            ("matches, not delivered", MATCHING, False),
            ("delivered in memory", MATCHING, True),
        ]
    with ExitStack() as stack:
        folder = tempfile.mkdtemp(prefix="latency-") if stored else None
        if folder is not None:
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
        server = stack.enter_context(ray_pubsub.start(shards, folder, "bench-latency", address="local"))
        texts = expressions(options.subscriptions)
        server.subscribe_many(list(range(len(texts))), texts, subscriber="bench", progress=False)
        port, pid = stack.enter_context(interface(server))
        pids = processes(server, pid)
        for name, body, deliver in events:
            with ways(server, port, bare_port, body, deliver) as compared:
                compared.in_turn(2 * WARM)
                before = {who: cpu_seconds(each) for who, each in pids.items()}
                turn = compared.in_turn(options.publications)
                # The two calls of a turn that publish take the server about the same.
                spent = [
                    (cpu_seconds(each) - before[who]) / options.publications / (1 if who == "HTTP" else 2) * 1e6
                    for who, each in pids.items()
                ]
                emptied(server)
                row = compared.in_a_row(options.publications)
                emptied(server)
            called = f"{name}, {shards} {'shards' if shards > 1 else 'shard'}"
            cells = [f"{part[place] * 1e6:,.0f}" for part in (turn, row) for place in range(3)]
            ratios = [f"{part[1] / part[0]:.2f}" for part in (turn, row)]
            times.add_row(called, *cells[:2], ratios[0], cells[2], *cells[3:5], ratios[1], cells[5])
            shard = statistics.mean(spent[2:])
            hops.add_row(called, *(f"{each:,.0f}" for each in (*spent[:2], shard, sum(spent))))
